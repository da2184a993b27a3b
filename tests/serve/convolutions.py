"""convolutions.py - a network whose queries are small and take as long as one likes: convolutions behind LeNet's input.

Needs the package onnx.  haproxy_bed.infer_body() asks it, as it asks LeNet.
"""
import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper


def write(path, channels, layers):
    """All layers but the first have the same weights; some 0.5 ms a layer of 128 channels on a core."""
    draw = numpy.random.default_rng(1)
    nodes, weights, before = [], [], "input"
    for name, width in (("first", 1), ("other", channels)):
        w = draw.standard_normal((channels, width, 3, 3), numpy.float32) / numpy.float32(9 * width) ** 0.5
        weights.append(numpy_helper.from_array(w, name))
    for k in range(layers):
        nodes.append(helper.make_node("Conv", [before, "other" if k else "first"], [f"c{k}"], pads=[1, 1, 1, 1]))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"]))
        before = f"r{k}"
    nodes.append(helper.make_node("GlobalAveragePool", [before], ["output"]))
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
             for name, shape in (("input", [1, 1, 32, 32]), ("output", [1, channels, 1, 1]))]
    model = helper.make_model(helper.make_graph(nodes, "convolutions", *ports, weights),
                              opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)
