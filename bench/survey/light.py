# SPDX-License-Identifier: Apache-2.0
"""The light models of the package onnx, for export.py: networks of 2016 to 2018 as their makers published them.

The package has constants in the place of their weights, all alike: sums then reach 1e10, and a softmax over them tells
nothing.  So they get random weights here, of seed 1, whose last layer is scaled to outputs around 3; the right outputs
are ONNX Runtime's, which the package onnxruntime brings."""
import glob
import os

import numpy
import onnx
import onnxruntime
from onnx import helper, numpy_helper

FOLDER = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light")


def drawn(random, shape, place):
    """Weights for an input of an operator: (operator, number of the input)."""
    operator, k = place
    if operator == "BatchNormalization":
        return random.uniform(0.5, 1.5, shape) if k in (1, 4) else random.normal(0, 0.1, shape)
    if len(shape) < 2:
        return random.normal(0, 0.1, shape)
    return random.normal(0, (2 / numpy.prod(shape[1:])) ** 0.5, shape)


def with_weights(model):
    """Its constants as initializers with contents; the names of the last layer's."""
    shapes = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    places = {name: (node.op_type, k) for node in model.graph.node for k, name in enumerate(node.input)}
    behind = {node.input[0]: node.output[0] for node in model.graph.node if node.op_type in ("Unsqueeze", "Reshape")}
    random, made, last = numpy.random.default_rng(1), {}, []
    for node in model.graph.node:
        if node.op_type == "ConstantOfShape":
            name = node.output[0]
            place = places[behind.get(name, name)] if places[name][0] in ("Unsqueeze", "Reshape") else places[name]
            made[name] = drawn(random, [int(n) for n in shapes[node.input[0]]], place).astype(numpy.float32)
        if node.op_type in ("Conv", "Gemm"):
            last = [name for name in node.input[1:] if name in made]
    kept = [node for node in model.graph.node if node.op_type != "ConstantOfShape"]
    del model.graph.node[:]
    model.graph.node.extend(kept)
    model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in made.items())
    return last


def outputs(model, name, x, names=None):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(names, {name: x})


def scale_last(model, last, name, x):
    """The last layer's weights, so that what softmax reads, or the output, is around 3."""
    read = [node.input[0] for node in model.graph.node if node.op_type == "Softmax"]
    watched = onnx.ModelProto()
    watched.CopyFrom(model)
    watched.graph.output.extend(helper.make_empty_tensor_value_info(n) for n in read)
    logits, = outputs(watched, name, x, read or [model.graph.output[0].name])
    for tensor in model.graph.initializer:
        if tensor.name in last:
            scaled = numpy_helper.to_array(tensor) * numpy.float32(3 / numpy.std(logits))
            tensor.CopyFrom(numpy_helper.from_array(scaled, tensor.name))


def first_input(model):
    made = {t.name for t in model.graph.initializer}
    port, = [i for i in model.graph.input if i.name not in made]
    shape = [d.dim_value or 1 for d in port.type.tensor_type.shape.dim]
    return port.name, numpy.random.default_rng(2).standard_normal(shape).astype(numpy.float32)


def write(path, folder):
    model = onnx.load(path)
    name, x = first_input(model)
    scale_last(model, with_weights(model), name, x)
    os.makedirs(f"{folder}/data", exist_ok=True)
    for kind, value in ("input", x), ("output", outputs(model, name, x)[0]):
        with open(f"{folder}/data/{kind}_0.pb", "wb") as f:
            f.write(numpy_helper.from_array(value).SerializeToString())
    with open(f"{folder}/flags", "w") as f:
        f.write(f"--shape {name}={','.join(map(str, x.shape))}\n")
    onnx.save(model, f"{folder}/unfinished")
    os.rename(f"{folder}/unfinished", f"{folder}/model.onnx")


FILES = {os.path.basename(p)[:-len(".onnx")]: p for p in sorted(glob.glob(f"{FOLDER}/light_*.onnx"))}
WRITERS = {name: (lambda folder, path=path: write(path, folder)) for name, path in FILES.items()}
