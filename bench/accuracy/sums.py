#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sums.py - how far float32 sums of products are from float64's: moire by vectors, moire as it chooses (by three terms
where there is a matrix unit), ONNX Runtime.

Operands are random normal numbers.  A line a product of rows x k by k x n: the largest error and the root of the mean
square, as parts of the root of the mean square of the results.

    .venv/bin/python bench/accuracy/sums.py                  # rows 128, n 512, k from 64 to 16384
"""
import argparse
import os
import subprocess
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import helper, numpy_helper


def model_of(path, rows, weights):
    k, n = weights.shape
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "product",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [rows, k])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [rows, n])],
        [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def by_moire(args, folder, precision):
    subprocess.run([args.moire, "run", os.path.join(folder, "m.onnx"), "--generic", "--precision", precision,
                    "--input", "x=" + os.path.join(folder, "x.npy"), "--output-dir", folder],
                   check=True, stdout=subprocess.DEVNULL)
    return numpy.load(os.path.join(folder, "y.npy"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--moire", default="build/moire")
    parser.add_argument("--rows", type=int, default=128)
    parser.add_argument("--columns", type=int, default=512)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    random = numpy.random.default_rng(args.seed)
    print("| k | by | largest error | root mean square |\n|---|---|---|---|")
    for k in (64, 256, 1024, 4096, 16384):
        x = random.standard_normal((args.rows, k), dtype=numpy.float32)
        w = random.standard_normal((k, args.columns), dtype=numpy.float32)
        want = x.astype(numpy.float64) @ w.astype(numpy.float64)
        level = numpy.sqrt((want ** 2).mean())
        with tempfile.TemporaryDirectory() as folder:
            model_of(os.path.join(folder, "m.onnx"), args.rows, w)
            numpy.save(os.path.join(folder, "x.npy"), x)
            found = {"moire, vectors": by_moire(args, folder, "fp32"), "moire, auto": by_moire(args, folder, "auto"),
                     "ONNX Runtime": onnxruntime.InferenceSession(
                         os.path.join(folder, "m.onnx"), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]}
        for name, y in found.items():
            error = (y - want) / level
            print(f"| {k} | {name} | {numpy.abs(error).max():.2e} | {numpy.sqrt((error ** 2).mean()):.2e} |")


if __name__ == "__main__":
    main()
