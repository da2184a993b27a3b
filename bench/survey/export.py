#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""export.py DIR [NAME...] - networks of many families as ONNX files with inputs and right outputs beside.

Each becomes DIR/NAME/model.onnx; DIR/NAME/data/ with a NumPy file for each input and output, the outputs as
PyTorch computes them; and DIR/NAME/flags, the shapes of a batch of 1 as moire's command takes them.  Weights are
random, of one seed, with normalisations that fit them.  What is there already is left.  Needs Debian's
python3-torchvision; the networks of hub.py need the package transformers besides, those of light.py the packages onnx
and onnxruntime, and where one is not installed its networks are left out."""
import importlib
import os
import sys
import warnings

import numpy
import torch
import torchvision
from torch import nn

SEED, OPSET = 1, 16


class Last(nn.Module):
    """The states of a recurrent network at all steps."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)[0]


class Encoder(nn.Module):
    """An encoder of text: words, places, layers of attention, the first state."""

    def __init__(self, words, width, heads, hidden, depth, length):
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Embedding(length, width)
        self.layers = nn.ModuleList([Block(width, heads, hidden) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        x = self.norm(self.word(ids) + self.place(torch.arange(ids.shape[1])))
        for layer in self.layers:
            x = layer(x)
        return x


class Block(nn.Module):
    """Attention and two products, each with a sum and a normalisation behind."""

    def __init__(self, width, heads, hidden, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def attend(self, x, past=None):
        n, length, width = x.shape
        q, k, v = (t.reshape(n, length, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, 2))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        weight = torch.softmax(q @ k.transpose(2, 3) / (width // self.heads) ** 0.5, 3)
        return self.out((weight @ v).transpose(1, 2).reshape(n, length, width)), k, v

    def forward(self, x):
        x = self.first(x + self.attend(x)[0])
        return self.second(x + self.down(nn.functional.gelu(self.up(x))))


class Decoder(nn.Module):
    """One step of a decoder of text, with what it kept of the steps before."""

    def __init__(self, words, width, heads, depth):
        super().__init__()
        self.word = nn.Embedding(words, width)
        self.layers = nn.ModuleList([Block(width, heads, 4 * width) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)

    def forward(self, ids, past):
        x, kept = self.word(ids), []
        for i, layer in enumerate(self.layers):
            y, k, v = layer.attend(layer.first(x), (past[i, 0], past[i, 1]))
            x = x + y
            x = x + layer.down(nn.functional.gelu(layer.up(layer.second(x)), approximate="tanh"))
            kept.append(torch.stack([k, v]))
        return self.norm(x)[:, -1] @ self.word.weight.T, torch.stack(kept)


class Denoiser(nn.Module):
    """Group normalisation and SiLU around convolutions, down and up again."""

    def __init__(self, width):
        super().__init__()
        wide = [width, 2 * width, 4 * width]
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList([self.block(a, b) for a, b in zip(wide, wide[1:])])
        self.up = nn.ModuleList([self.block(a + b, b) for a, b in zip(wide[:0:-1], wide[-2::-1])])
        self.last = nn.Conv2d(width, 3, 3, padding=1)

    @staticmethod
    def block(a, b):
        return nn.Sequential(nn.GroupNorm(8, a), nn.SiLU(), nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(8, b),
                             nn.SiLU(), nn.Conv2d(b, b, 3, padding=1))

    def forward(self, x):
        x, kept = self.first(x), []
        for block in self.down:
            kept.append(x)
            x = block(nn.functional.avg_pool2d(x, 2))
        for block in self.up:
            x = nn.functional.interpolate(x, scale_factor=2.0, mode="nearest")
            x = block(torch.cat([x, kept.pop()], 1))
        return self.last(x)


class Style(nn.Module):
    """Instance normalisation between convolutions and transposed ones."""

    def __init__(self, width=32):
        super().__init__()
        steps = [nn.ReflectionPad2d(4), nn.Conv2d(3, width, 9), nn.InstanceNorm2d(width, affine=True), nn.ReLU()]
        for a, b in ((width, 2 * width), (2 * width, 4 * width)):
            steps += [nn.Conv2d(a, b, 3, 2, 1), nn.InstanceNorm2d(b, affine=True), nn.ReLU()]
        for a, b in ((4 * width, 2 * width), (2 * width, width)):
            steps += [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.InstanceNorm2d(b, affine=True), nn.ReLU()]
        self.steps = nn.Sequential(*steps, nn.Conv2d(width, 3, 9, padding=4), nn.Tanh())

    def forward(self, x):
        return self.steps(x)


class Wave(nn.Module):
    """1-D convolutions over sound, dilated and strided."""

    def __init__(self, width=64):
        super().__init__()
        steps = [nn.Conv1d(1, width, 80, 16), nn.BatchNorm1d(width), nn.ReLU()]
        for k in range(6):
            steps += [nn.Conv1d(width, width, 3, padding=2 ** k, dilation=2 ** k), nn.BatchNorm1d(width),
                      nn.ReLU()]
        self.steps = nn.Sequential(*steps, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(width, 35))

    def forward(self, x):
        return self.steps(x)


class Points(nn.Module):
    """The same products for each point, batch normalisation behind each, the largest of all points."""

    def __init__(self):
        super().__init__()
        widths, steps = [3, 64, 128, 1024], []
        for a, b in zip(widths, widths[1:]):
            steps.append(nn.ModuleList([nn.Linear(a, b), nn.BatchNorm1d(b)]))
        self.steps, self.head = nn.ModuleList(steps), nn.Linear(1024, 40)

    def forward(self, x):
        for product, norm in self.steps:
            y = product(x)
            x = torch.relu(norm(y.reshape(-1, y.shape[2])).reshape(y.shape))
        return self.head(x.max(1)[0])


class One(nn.Module):
    """Of a network that returns a dictionary, one entry."""

    def __init__(self, inner, key="out"):
        super().__init__()
        self.inner, self.key = inner, key

    def forward(self, x):
        return self.inner(x)[self.key]


def vision(name, side=224, **options):
    model = torchvision.models.get_model(name, weights=None, **options)
    if "aux_logits" in options:
        model.aux_logits = False
    return model, (torch.rand(1, 3, side, side) * 2 - 1,)


def dense(name, side=256):
    model = torchvision.models.get_model(name, weights=None, weights_backbone=None)
    return One(model), (torch.rand(1, 3, side, side) * 2 - 1,)


def video(name, side=112, frames=8):
    return torchvision.models.get_model(name, weights=None), (torch.rand(1, 3, frames, side, side) * 2 - 1,)


def words(n, most, batch=1):
    return torch.randint(0, most, (batch, n))


CLASSIC = ("alexnet vgg11_bn squeezenet1_1 resnet34 resnet101 wide_resnet50_2 resnext50_32x4d densenet121 "
           "shufflenet_v2_x1_0 mobilenet_v3_large mobilenet_v3_small mnasnet1_0 efficientnet_b1 "
           "efficientnet_v2_s regnet_x_1_6gf regnet_y_1_6gf regnet_y_400mf convnext_tiny vit_b_32 vit_b_16 "
           "swin_t swin_v2_t maxvit_t").split()

NETWORKS = {
    **{name: (lambda name=name: vision(name)) for name in CLASSIC},
    "googlenet": lambda: vision("googlenet", aux_logits=False, init_weights=False),
    "inception_v3": lambda: vision("inception_v3", 299, aux_logits=False, init_weights=False),
    "fcn_resnet50": lambda: dense("fcn_resnet50"),
    "deeplabv3_mobilenet_v3": lambda: dense("deeplabv3_mobilenet_v3_large"),
    "lraspp_mobilenet_v3": lambda: dense("lraspp_mobilenet_v3_large"),
    "r3d_18": lambda: video("r3d_18"),
    "r2plus1d_18": lambda: video("r2plus1d_18"),
    "s3d": lambda: video("s3d", 224, 16),
    "lstm": lambda: (Last(nn.LSTM(256, 256, 2, batch_first=False)), (torch.randn(64, 1, 256),)),
    "gru": lambda: (Last(nn.GRU(256, 256, 2)), (torch.randn(64, 1, 256),)),
    "bilstm": lambda: (Last(nn.LSTM(128, 128, 1, bidirectional=True)), (torch.randn(64, 1, 128),)),
    "bert_base": lambda: (Encoder(30522, 768, 12, 3072, 12, 512), (words(128, 30522),)),
    "minilm_l6": lambda: (Encoder(30522, 384, 12, 1536, 6, 512), (words(64, 30522),)),
    "gpt2_step": lambda: (Decoder(50257, 768, 12, 12), (words(1, 50257), torch.randn(12, 2, 1, 12, 127, 64))),
    "denoiser": lambda: (Denoiser(64), (torch.randn(1, 3, 64, 64),)),
    "style_transfer": lambda: (Style(), (torch.rand(1, 3, 224, 224),)),
    "wave_1d": lambda: (Wave(), (torch.randn(1, 1, 16000),)),
    "points": lambda: (Points(), (torch.randn(1, 1024, 3),)),
}
# Inputs whose batch is not their first dimension, or which have none that could be another.
FIXED = {"lstm", "gru", "bilstm", "gpt2_step", "swin_t", "swin_v2_t", "maxvit_t"}


# Of networks that are not exported, but written by a function of a folder.
WRITERS = {}
# Those of another opset.
OPSETS = {}
# Modules of further networks: NETWORKS, FIXED, WRITERS and OPSETS as here.
MORE = "detectors", "hub", "light"


def gather():
    for module in MORE:
        try:
            more = importlib.import_module(module)
        except ImportError as e:
            print(f"export.py: {module}.py left out: {e}", file=sys.stderr)
            continue
        NETWORKS.update(getattr(more, "NETWORKS", {}))
        FIXED.update(getattr(more, "FIXED", ()))
        WRITERS.update(getattr(more, "WRITERS", {}))
        OPSETS.update(getattr(more, "OPSETS", {}))


def settle(model, inputs):
    """Statistics of batch normalisations that fit the weights: without, deep networks end in zeros.  And no
    product by zeros, with which heads of transformers begin: their outputs would say nothing."""
    for m in model.modules():
        if isinstance(m, nn.Linear) and not m.weight.any():
            nn.init.normal_(m.weight, std=0.02)
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.momentum = None
        norm.train()
    if norms:
        model(*[torch.cat([x, x.flip(-1)]) for x in inputs])
    model.eval()


def export(folder, name):
    torch.manual_seed(SEED)
    model, inputs, *axes = NETWORKS[name]()
    model.eval()
    with torch.no_grad():
        settle(model, inputs)
        if hasattr(model, "fit"):
            model.fit(*inputs)
        outputs = model(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    ins, outs = [f"x{i}" for i in range(len(inputs))], [f"y{i}" for i in range(len(outputs))]
    axes = axes[0] if axes else {} if name in FIXED else {n: {0: "N"} for n in ins + outs}
    os.makedirs(f"{folder}/data", exist_ok=True)
    for n, t in zip(ins + outs, inputs + outputs):
        numpy.save(f"{folder}/data/{n}.npy", t.detach().numpy())
    with open(f"{folder}/flags", "w") as f:
        f.writelines(f"--shape {n}={','.join(map(str, t.shape))}\n" for n, t in zip(ins, inputs))
    torch.onnx.export(model, inputs, f"{folder}/unfinished", opset_version=OPSETS.get(name, OPSET), input_names=ins,
                      output_names=outs, dynamic_axes=axes)
    os.rename(f"{folder}/unfinished", f"{folder}/model.onnx")


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    gather()
    names = sys.argv[2:] or [*NETWORKS, *WRITERS]
    warnings.filterwarnings("ignore")
    failed = 0
    for i, name in enumerate(names):
        if name not in NETWORKS and name not in WRITERS:
            sys.exit(f"export.py: no network {name}; there are: {' '.join([*NETWORKS, *WRITERS])}")
        folder = os.path.join(sys.argv[1], name)
        if os.path.exists(f"{folder}/model.onnx"):
            continue
        print(f"export.py: {i + 1} of {len(names)}: {name}", file=sys.stderr, flush=True)
        try:
            WRITERS.get(name, lambda to: export(to, name))(folder)
        except Exception as e:  # another version of PyTorch exports others; the rest is still worth having
            print(f"export.py: {name} left out: {type(e).__name__}: {str(e)[:200]}", file=sys.stderr)
            failed += 1
    sys.exit(1 if failed == len(names) else 0)


if __name__ == "__main__":
    main()
