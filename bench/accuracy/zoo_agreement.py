#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""zoo_agreement.py - how far a precision takes the networks of the zoo from their answers in float32.

Every network runs on the same generated inputs, once in each precision; or once as `moire quantize` makes it an int8
model.  A line an output: the largest difference as a part of the output's range, the cosine, and whether the largest
element is the same one.

    .venv/bin/python bench/accuracy/zoo_agreement.py --precision bf16 resnet50 mobilenet-v2
    .venv/bin/python bench/accuracy/zoo_agreement.py                       # all images networks of the zoo
    .venv/bin/python bench/accuracy/zoo_agreement.py --quantize --tolerance 1 resnet50
    .venv/bin/python bench/accuracy/zoo_agreement.py bert-base --shape input_ids=1,128 --shape token_type_ids=1,128 \\
        --shape attention_mask=1,128
"""
import argparse
import json
import os
import subprocess
import tempfile

import numpy


def outputs_of(args, model, precision, seed):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([args.moire, "run", model, "--precision", precision, "--seed", str(seed), "--output-dir", folder,
                        *[word for shape in args.shape for word in ("--shape", shape)]],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return {name: numpy.load(os.path.join(folder, name)) for name in sorted(os.listdir(folder))
                if name.endswith(".npy")}


def quantized(args, model, folder):
    """An int8 model of it, of generated samples, and how many of its layers compute with 8-bit numbers."""
    path = os.path.join(folder, "int8.onnx")
    text = subprocess.run([args.moire, "quantize", model, "-o", path, "--samples", str(args.samples), "--tolerance",
                           str(args.tolerance), "--json", "--quiet",
                           *[word for shape in args.shape for word in ("--shape", shape)]],
                          check=True, capture_output=True, text=True).stdout
    said = json.loads(text)
    return path, f"{said['layers_int8']} of {said['layers_all']}"


def compare(a, b):
    a, b = a.astype(numpy.float64).ravel(), b.astype(numpy.float64).ravel()
    width = a.max() - a.min()
    norm = numpy.linalg.norm(a) * numpy.linalg.norm(b)
    return (numpy.abs(a - b).max() / width if width else 0.0, a @ b / norm if norm else 1.0, a.argmax() == b.argmax())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("models", nargs="*", help="names of the zoo or files; all networks for images where none is given")
    parser.add_argument("--precision", default="bf16")
    parser.add_argument("--moire", default="build/moire")
    parser.add_argument("--shape", action="append", default=[], help="as of moire run")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quantize", action="store_true", help="compare with the int8 model instead")
    parser.add_argument("--tolerance", type=float, default=0.05, help="as of moire quantize")
    parser.add_argument("--samples", type=int, default=8, help="as of moire quantize")
    args = parser.parse_args()
    models = args.models or [line.split()[0] for line in subprocess.run(
        [args.moire, "zoo", "list"], check=True, capture_output=True, text=True).stdout.splitlines()[1:]
        if line.strip() and not line.startswith("bert")]
    print("| model | output | layers in int8 | largest difference / range | cosine | same largest element |\n"
          "|---|---|---|---|---|---|" if args.quantize else
          "| model | output | largest difference / range | cosine | same largest element |\n|---|---|---|---|---|")
    for model in models:
        with tempfile.TemporaryDirectory() as folder:
            other, layers = quantized(args, model, folder) if args.quantize else (model, None)
            found = {}
            for seed in range(1, args.seeds + 1):
                plain = outputs_of(args, model, "fp32", seed)
                rounded = outputs_of(args, other, "auto" if args.quantize else args.precision, seed)
                for name, a in plain.items():
                    found.setdefault(name, []).append(compare(a, rounded[name]))
        for name, rows in found.items():
            print(f"| {model} | {name[:-4]} | " + (f"{layers} | " if layers else "") +
                  f"{max(r[0] for r in rows):.2g} | {min(r[1] for r in rows):.6f} | "
                  f"{sum(bool(r[2]) for r in rows)} of {len(rows)} |", flush=True)


if __name__ == "__main__":
    main()
