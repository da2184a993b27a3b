#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime as a peer of the differential tester: models and inputs come on standard input, answers go to
standard output.  All numbers are 64-bit little-endian.

request  length of the model, model, number of inputs, for each: length, bytes
answer   0, number of outputs, for each: element type, rank, dimensions, length, bytes
         1, length, reason in one line
"""
import struct
import sys

import numpy
import onnxruntime

TYPES = {"float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9,
         "float16": 10, "double": 11, "uint32": 12, "uint64": 13}
NUMPY = {"float": "float32", "double": "float64"}


def read(n):
    data = sys.stdin.buffer.read(n)
    if len(data) != n:
        sys.exit(0)
    return data


def number():
    return struct.unpack("<q", read(8))[0]


def write(*numbers):
    sys.stdout.buffer.write(struct.pack("<%dq" % len(numbers), *numbers))


def answer(model, raw):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feeds = {}
    for port, data in zip(session.get_inputs(), raw):
        name = port.type[len("tensor("):-1]
        feeds[port.name] = numpy.frombuffer(data, NUMPY.get(name, name)).reshape(port.shape)
    outputs = session.run(None, feeds)
    return [(TYPES[str(p.type)[len("tensor("):-1]], numpy.ascontiguousarray(o).reshape(o.shape))
            for p, o in zip(session.get_outputs(), outputs)]


def main():
    while True:
        model = read(number())
        raw = [read(number()) for _ in range(number())]
        try:
            outputs = answer(model, raw)
        except Exception as error:  # whatever it is, the tester counts it as refused
            text = " ".join(str(error).split()).encode()[:400]
            write(1, len(text))
            sys.stdout.buffer.write(text)
        else:
            write(0, len(outputs))
            for kind, array in outputs:
                data = array.tobytes()
                write(kind, array.ndim, *array.shape, len(data))
                sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


main()
