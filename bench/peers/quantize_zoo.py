#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""quantize_zoo.py - networks of the zoo as int8 models in QDQ form, by ONNX Runtime's tools.

Ranges come from a few random inputs, since the zoo's weights are random: the files serve to compare speed, and moire's
answers with those of peers.  Transformers are quantized in their matrix products only, as is usual.

    .venv/bin/python bench/peers/quantize_zoo.py resnet18 mobilenet-v2 bert-base --output-dir build/int8
    build/moire bench latency build/int8/*.onnx --threads 1,2 --generic --peers openvino,onnxruntime
"""
import argparse
import os
import subprocess
import tempfile

import numpy
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

TOKENS = 128


class RandomInputs(CalibrationDataReader):
    def __init__(self, model, samples, seed):
        self.inputs = onnx.load(model, load_external_data=False).graph.input
        self.left = samples
        self.random = numpy.random.default_rng(seed)

    def get_next(self):
        if self.left == 0:
            return None
        self.left -= 1
        return {i.name: self.contents(i) for i in self.inputs}

    def contents(self, given):
        integer = given.type.tensor_type.elem_type == onnx.TensorProto.INT64
        shape = [d.dim_value or (TOKENS if k and integer else 1)
                 for k, d in enumerate(given.type.tensor_type.shape.dim)]
        if not integer:
            return self.random.standard_normal(shape).astype(numpy.float32)
        if "mask" in given.name:
            return numpy.ones(shape, numpy.int64)
        return self.random.integers(0, 2 if "type" in given.name else 1000, shape)


def quantize(moire, name, folder, activations, samples, seed):
    out = os.path.join(folder, f"{name}.onnx")
    with tempfile.TemporaryDirectory() as scratch:
        plain, prepared = os.path.join(scratch, "plain.onnx"), os.path.join(scratch, "prepared.onnx")
        subprocess.run([moire, "zoo", "build", name, "-o", plain], check=True, stdout=subprocess.DEVNULL)
        quant_pre_process(plain, prepared, skip_symbolic_shape=True)
        quantize_static(prepared, out, RandomInputs(prepared, samples, seed), quant_format=QuantFormat.QDQ,
                        op_types_to_quantize=["MatMul"] if name.startswith("bert") else None, per_channel=True,
                        activation_type=activations, weight_type=QuantType.QInt8)
    print(out, flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("networks", nargs="+")
    p.add_argument("--output-dir", required=True)
    p.add_argument("--moire", default="build/moire")
    p.add_argument("--signed", action="store_true", help="activations are int8 in place of uint8")
    p.add_argument("--samples", type=int, default=4)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    os.makedirs(a.output_dir, exist_ok=True)
    for name in a.networks:
        quantize(a.moire, name, a.output_dir, QuantType.QInt8 if a.signed else QuantType.QUInt8, a.samples, a.seed)


if __name__ == "__main__":
    main()
