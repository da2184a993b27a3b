#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_quantize.py - models that `moire quantize` writes, checked with the ONNX checker and ONNX Runtime.

For every way to give samples: ONNX Runtime, which is told to compute conversions as they stand, answers within a few
steps of 8 bits what `moire run` answers, in float32 and in int8, and close to what the model of floats answers.  Ends
with "N passed, N failed, N skipped".

  tests/models/check_quantize.py --moire build/moire
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

STEPS = 8 / 255  # of an output's range: what rounding to 8 bits within the model may move it by


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--moire", default="build/moire")
    return p.parse_args()


def call(*words):
    r = subprocess.run(words, capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f"{' '.join(words)}: exit code {r.returncode}: {r.stderr.strip()[-300:]}")
    return r.stdout


def answer(path, feed, plain):
    """Of ONNX Runtime; plain: every node as it stands, without sums in 16 bits."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = levels.ORT_DISABLE_ALL if plain else levels.ORT_ENABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, feed)[0]


def moire_answer(moire, path, feed, precision, folder):
    words = [moire, "run", path, "--generic", "--precision", precision, "--output-dir", folder]
    for name, x in feed.items():
        file = os.path.join(folder, "input.npy")
        np.save(file, x)
        words += ["--input", f"{name}={file}"]
    call(*words)
    name = onnx.load(path, load_external_data=False).graph.output[0].name
    return np.load(os.path.join(folder, f"{name}.npy"))


def far(want, got):
    return float(np.abs(want - got).max() / max(want.max() - want.min(), 1e-9))


def save_batch(folder, x):
    np.save(os.path.join(folder, "samples.npy"), x)


def save_items(folder, x):
    for i, one in enumerate(x):
        np.save(os.path.join(folder, f"{i:03}.npy"), one)


def save_folders(folder, x, name):
    for i, one in enumerate(x):
        os.mkdir(os.path.join(folder, str(i)))
        np.save(os.path.join(folder, str(i), f"{name}.npy"), one[None])


def save_images(folder, x):
    """Pixels that `--image-mean 0.5 --image-deviation 0.25` make values of."""
    for i, one in enumerate(x):
        pixels = np.clip((one * 0.25 + 0.5) * 255, 0, 255).astype(np.uint8).transpose(1, 2, 0)
        with open(os.path.join(folder, f"{i:03}.ppm"), "wb") as f:
            f.write(b"P6\n%d %d\n255\n" % (pixels.shape[1], pixels.shape[0]) + pixels.tobytes())


CASES = [
    ("lenet", "batch", []),
    ("lenet", "items", ["--method", "percentile", "--per-tensor", "--equalize"]),
    ("mobilenet-v2", "images", ["--image-mean", "0.5", "--image-deviation", "0.25", "--samples", "3"]),
    ("efficientnet-b0", "folders", ["--method", "entropy", "--portable"]),
    ("resnet18", None, ["--reduce-range"]),
]


def check(moire, network, way, flags, scratch):
    plain, small = os.path.join(scratch, "plain.onnx"), os.path.join(scratch, "small.onnx")
    call(moire, "zoo", "build", network, "-o", plain)
    given = onnx.load(plain).graph.input[0]
    shape = [d.dim_value or 1 for d in given.type.tensor_type.shape.dim]
    random = np.random.default_rng(1)
    x = random.standard_normal([4] + shape[1:]).astype(np.float32)
    data, out = os.path.join(scratch, "data"), os.path.join(scratch, "out")
    os.mkdir(data)
    os.mkdir(out)
    if way == "folders":
        save_folders(data, x, given.name)
    elif way:
        {"batch": save_batch, "items": save_items, "images": save_images}[way](data, x)
    said = json.loads(call(moire, "quantize", plain, "-o", small, "--json", "--quiet", "--report",
                           os.path.join(scratch, "page.html"), *(["--data", data] if way else []), *flags))
    if said["samples"] != (8 if way is None else 3 if "3" in flags else 4):
        raise RuntimeError(f"{said['samples']} samples")
    onnx.checker.check_model(small)
    feed = {given.name: x[:1]}
    floats, want = answer(plain, feed, True), answer(small, feed, True)
    rows = {"fp32": far(want, moire_answer(moire, small, feed, "fp32", out)),
            "int8": far(want, moire_answer(moire, small, feed, "int8", out))}
    cosine = float((floats * want).sum() / np.sqrt((floats**2).sum() * (want**2).sum()))
    good = all(e <= STEPS for e in rows.values()) and cosine > 0.98 and said["layers_int8"] == said["layers_all"]
    print(f"{network:<16} {way or 'drawn':<8} {' '.join(flags):<52} fp32 {rows['fp32']:.4f}, int8 {rows['int8']:.4f} of "
          f"the range; cosine {cosine:.4f} {'ok' if good else 'WRONG'}", flush=True)
    return good


def main():
    args = arguments()
    passed = failed = 0
    for network, way, flags in CASES:
        with tempfile.TemporaryDirectory() as scratch:
            try:
                good = check(args.moire, network, way, flags, scratch)
            except (RuntimeError, OSError, onnx.checker.ValidationError) as e:
                print(f"{network:<16} {way or 'drawn':<8} {e}", flush=True)
                good = False
        passed, failed = passed + good, failed + (not good)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
