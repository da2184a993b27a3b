"""torch_net - an ONNX graph as calls of PyTorch: the same network with the same weights as moire runs, so that both are
measured on the same work.

    net = Net(Graph("resnet50.onnx"), device="cuda", dtype=torch.float16)
    net.specialise(*inputs)
    outputs = net(*inputs)

What a graph computes from shapes alone (Shape, Gather, Concat of int64 vectors) is computed once, by specialise(), and
becomes numbers of Python, so that torch.compile and CUDA graphs see straight code.  BatchNormalization after a convolution is folded into it, as every
runtime does; nothing else is changed.  Opset 13."""
import numpy
import torch
from torch.nn import functional

import onnx_file

DTYPES = {onnx_file.F32: torch.float32, onnx_file.F16: torch.float16, onnx_file.F64: torch.float64, onnx_file.I64: torch.int64,
          onnx_file.I32: torch.int32, onnx_file.U8: torch.uint8, onnx_file.I8: torch.int8, onnx_file.BOOL: torch.bool}
NUMPY = {onnx_file.F32: "<f4", onnx_file.F16: "<f2", onnx_file.F64: "<f8", onnx_file.I64: "<i8", onnx_file.I32: "<i4",
         onnx_file.U8: "u1", onnx_file.I8: "i1", onnx_file.BOOL: "?"}


class Unsupported(NotImplementedError):
    pass


def contents(tensor):
    array = numpy.frombuffer(tensor.raw, NUMPY[tensor.dtype]).reshape(tensor.dims).copy()
    return torch.from_numpy(array)


def pair(values, n, default):
    return list(values[:n]) if values else [default] * n


def padded(x, node, fill):
    """(x, padding): PyTorch pads alike at both ends; what differs is padded before."""
    rank = x.dim() - 2
    pads = node.attributes.get("pads") or [0] * (2 * rank)
    if node.attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        raise Unsupported(f"{node.op} with auto_pad")
    begin, end = pads[:rank], pads[rank:]
    if begin == end:
        return x, begin
    order = [v for i in reversed(range(rank)) for v in (begin[i], end[i])]
    return functional.pad(x, order, value=fill), [0] * rank


def conv(node, x, w, bias=None):
    a, rank = node.attributes, w.dim() - 2
    x, padding = padded(x, node, 0.0)
    run = (functional.conv1d, functional.conv2d)[rank - 1]
    return run(x, w, bias, pair(a.get("strides"), rank, 1), padding, pair(a.get("dilations"), rank, 1), a.get("group", 1))


def max_pool(node, x):
    a = node.attributes
    x, padding = padded(x, node, float("-inf"))
    return functional.max_pool2d(x, a["kernel_shape"], pair(a.get("strides"), 2, 1), padding,
                                 pair(a.get("dilations"), 2, 1), bool(a.get("ceil_mode", 0)))


def average_pool(node, x):
    a = node.attributes
    x, padding = padded(x, node, 0.0)
    return functional.avg_pool2d(x, a["kernel_shape"], pair(a.get("strides"), 2, 1), padding, bool(a.get("ceil_mode", 0)),
                                 bool(a.get("count_include_pad", 0)))


def gemm(node, a, b, c=None):
    at = node.attributes
    a = a.T if at.get("transA", 0) else a
    if c is not None and at.get("transB", 0) and at.get("alpha", 1.0) == at.get("beta", 1.0) == 1.0:
        return functional.linear(a, b, c)
    y = at.get("alpha", 1.0) * (a @ (b.T if at.get("transB", 0) else b))
    return y if c is None else y + at.get("beta", 1.0) * c


def flatten(node, x):
    axis = node.attributes.get("axis", 1)
    return x.flatten(axis) if axis == 1 else x.reshape(int(numpy.prod(x.shape[:axis])), -1)


def plain(v):
    """Numbers of Python: what says shapes and axes is a tensor only until specialise()."""
    return v.tolist() if isinstance(v, torch.Tensor) else v


def reshape(_, x, shape):
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(plain(shape))])


def gather(node, x, index):
    axis = node.attributes.get("axis", 0)
    if not isinstance(index, torch.Tensor):
        index = torch.tensor(index)
    index = index.to(x.device)  # what follows from shapes is computed on the host
    if index.dim() == 0:
        return x.index_select(axis, index.reshape(1)).squeeze(axis)
    if axis == 0 and x.dim() == 2:
        return functional.embedding(index, x)
    return x.index_select(axis, index.reshape(-1)).reshape(x.shape[:axis] + index.shape + x.shape[axis + 1:])


def cut(_, x, starts, ends, axes=None, steps=None):
    index = [slice(None)] * x.dim()
    starts, ends = plain(starts), plain(ends)
    axes = plain(axes) if axes is not None else range(len(starts))
    steps = plain(steps) if steps is not None else [1] * len(starts)
    for axis, begin, end, step in zip(axes, starts, ends, steps):
        index[axis] = slice(begin, end, step)
    return x[tuple(index)]


def unsqueeze(_, x, axes):
    axes = plain(axes)
    for axis in sorted(a % (x.dim() + len(axes)) for a in axes):
        x = x.unsqueeze(axis)
    return x


def squeeze(_, x, axes=None):
    return x.squeeze() if axes is None else x.squeeze(tuple(plain(axes)))


def split(node, x, sizes=None):
    axis = node.attributes.get("axis", 0)
    parts = plain(sizes) if sizes is not None else x.shape[axis] // len(node.outputs)
    return x.split(parts, axis)


def reduce_mean(node, x):
    return x.mean(node.attributes["axes"], bool(node.attributes.get("keepdims", 1)))


def norm(node, x, scale, shift, mean, variance):
    return functional.batch_norm(x, mean, variance, scale, shift, eps=node.attributes.get("epsilon", 1e-5))


def clip(_, x, low=None, high=None):
    return x.clamp(plain(low), plain(high))


OPS = {
    "Conv": conv, "MaxPool": max_pool, "AveragePool": average_pool, "Gemm": gemm, "Flatten": flatten, "Reshape": reshape,
    "Gather": gather, "Slice": cut, "Unsqueeze": unsqueeze, "Squeeze": squeeze, "Split": split, "ReduceMean": reduce_mean,
    "BatchNormalization": norm, "Clip": clip,
    "MatMul": lambda _, a, b: a @ b, "Add": lambda _, a, b: a + b, "Sub": lambda _, a, b: a - b,
    "Mul": lambda _, a, b: a * b, "Div": lambda _, a, b: a / b, "Pow": lambda _, a, b: a ** b,
    "Relu": lambda _, x: functional.relu(x), "Sigmoid": lambda _, x: x.sigmoid(), "Tanh": lambda _, x: x.tanh(),
    "Sqrt": lambda _, x: x.sqrt(), "Erf": lambda _, x: x.erf(), "Identity": lambda _, x: x,
    "LeakyRelu": lambda node, x: functional.leaky_relu(x, node.attributes.get("alpha", 0.01)),
    "GlobalAveragePool": lambda _, x: x.mean((2, 3), keepdim=True),
    "Concat": lambda node, *x: torch.cat(x, node.attributes["axis"]),
    "Transpose": lambda node, x: x.permute(node.attributes.get("perm") or list(range(x.dim()))[::-1]),
    "Softmax": lambda node, x: x.softmax(node.attributes.get("axis", -1)),
    "Shape": lambda _, x: torch.tensor(x.shape),
}


class Net(torch.nn.Module):
    """The network on `device`; tensors of fp32 become `dtype`."""

    def __init__(self, graph, device="cpu", dtype=torch.float32):
        super().__init__()
        self.device, self.dtype, self.outputs = torch.device(device), dtype, graph.outputs
        self.input_names = [name for name, _, _ in graph.inputs]
        weights = {name: contents(t) for name, t in graph.weights.items()}
        self.steps = fold(graph.nodes, weights, set(graph.outputs))
        for node in self.steps:
            if node.op not in OPS and node.op != "Cast":
                raise Unsupported(f"no call of PyTorch for {node.op}")
        self.weights = {name: self.place(t) for name, t in weights.items()}
        self.calls = [(node, [None] * len(node.inputs)) for node in self.steps]
        self.constants = {}

    def place(self, t):
        """Numbers that steer stay on the host; all else goes to the device."""
        if not t.is_floating_point() or t.dim() == 0:
            return t
        return t.to(self.device, self.dtype)

    def call(self, node, operands):
        if node.op == "Cast":
            to = DTYPES[node.attributes["to"]]
            return [operands[0].to(self.dtype if to == torch.float32 else to)]
        out = OPS[node.op](node, *operands)
        return out if isinstance(out, (tuple, list)) else [out]

    def evaluate(self, calls, values, note=None):
        for node, fixed in calls:
            operands = [values.get(name, known) for name, known in zip(node.inputs, fixed)]
            values.update(zip(node.outputs, self.call(node, operands)))
            if note:
                note(node)
        return [values[name] for name in self.outputs]

    def specialise(self, *inputs):
        """Fixes what follows from the shapes of these inputs."""
        known = set(self.weights)

        def note(node):
            if node.op == "Shape" or all(name in known or not name for name in node.inputs):
                known.update(node.outputs)

        values = {**self.weights, **dict(zip(self.input_names, inputs))}
        self.evaluate([(node, [None] * len(node.inputs)) for node in self.steps], values, note)
        fixed = {name: numbers(values[name]) for name in known}
        self.constants = {name: fixed[name] for name in self.outputs if name in known}
        self.calls = [(node, [fixed.get(name) for name in node.inputs]) for node in self.steps
                      if not set(node.outputs) <= known]

    def forward(self, *inputs):
        return self.evaluate(self.calls, {**self.constants, **dict(zip(self.input_names, inputs))})


def numbers(t):
    """Host tensors of integers and scalars as numbers."""
    steers = not t.is_cuda and (not t.is_floating_point() or t.dim() == 0)
    return t.tolist() if steers else t


def fold(nodes, weights, outputs):
    """The nodes, with BatchNormalization behind a convolution that nobody else reads folded into its weights."""
    readers = {}
    for node in nodes:
        for name in node.inputs:
            readers[name] = readers.get(name, 0) + 1
    made, out = {}, []
    for node in nodes:
        before = made.get(node.inputs[0]) if node.op == "BatchNormalization" else None
        if before is not None and before.op == "Conv" and readers[node.inputs[0]] == 1 and node.inputs[0] not in outputs:
            scale, shift, mean, variance = (weights[name] for name in node.inputs[1:5])
            factor = scale / (variance + node.attributes.get("epsilon", 1e-5)).sqrt()
            w = weights[before.inputs[1]]
            bias = weights[before.inputs[2]] if len(before.inputs) > 2 else torch.zeros_like(mean)
            name = before.outputs[0] + " folded"
            weights[name], weights[name + " bias"] = w * factor.reshape([-1] + [1] * (w.dim() - 1)), shift + (bias - mean) * factor
            before.inputs = [before.inputs[0], name, name + " bias"]
            before.outputs = list(node.outputs)
        else:
            out.append(node)
        for name in (out[-1] if before is None else before).outputs:
            made[name] = before if before is not None and name in before.outputs else node
    return out


def inputs_of(graph, batch, sequence=384, seed=1):
    """Random inputs of a batch on the host: fp32 normal, token ids below 1000, masks of ones.  The first dimension is the
    batch, other open ones are the sequence."""
    generator = torch.Generator().manual_seed(seed)
    out = []
    for name, dtype, dims in graph.inputs:
        shape = [batch if i == 0 else sequence if isinstance(d, str) else d for i, d in enumerate(dims)]
        if dtype == onnx_file.F32:
            out.append(torch.randn(shape, generator=generator))
        elif "ids" in name and "type" not in name:
            out.append(torch.randint(0, 1000, shape, generator=generator))
        else:
            out.append(torch.full(shape, int("mask" in name), dtype=DTYPES[dtype]))
    return out
