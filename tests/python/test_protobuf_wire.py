"""Messages of protobuf in plain Python (bench/loadgen/protobuf_wire.py), and the ONNX files that
tools/gpu/onnx_file.py reads by it, beside what `onnx` wrote; test_loadgen.py has those of gRPC."""

import os
import sys

import numpy
import onnx
import pytest
from conftest import FLOAT, linear, model, random
from onnx import helper

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture
def onnx_file(monkeypatch):
    """The module; what it puts onto the path goes again."""
    monkeypatch.syspath_prepend(os.path.join(ROOT, "tools", "gpu"))
    monkeypatch.syspath_prepend(os.path.join(ROOT, "bench", "loadgen"))
    import onnx_file

    yield onnx_file
    for name in ("onnx_file", "protobuf_wire"):
        del sys.modules[name]


def test_a_file_is_read_as_onnx_wrote_it(onnx_file, tmp_path):
    node = helper.make_node(
        "Conv", ["x", "w"], ["y"], name="first", pads=[0, -1, 2, 1], auto_pad="NOTSET", group=1
    )
    clip = helper.make_node("LeakyRelu", ["y"], ["z"], alpha=-0.25)
    w, far = random(2, 3, 3, 3), numpy.array([-1, 1 << 40], numpy.int64)
    ports = [("x", FLOAT, ["batch", 3, 8, 8])], [("z", FLOAT, [None] * 4)]
    file = tmp_path / "model.onnx"
    file.write_bytes(model([node, clip], *ports, [("w", w), ("far", far)], opset=17))
    graph = onnx_file.Graph(file)
    assert graph.opset == 17 and graph.outputs == ["z"]
    assert graph.inputs == [("x", FLOAT, ["batch", 3, 8, 8])]
    assert [(n.op, n.name, n.inputs, n.outputs) for n in graph.nodes] == [
        ("Conv", "first", ["x", "w"], ["y"]),
        ("LeakyRelu", "", ["y"], ["z"]),
    ]
    assert graph.nodes[0].attributes == {"pads": [0, -1, 2, 1], "auto_pad": "NOTSET", "group": 1}
    assert graph.nodes[1].attributes == {"alpha": -0.25}
    assert graph.weights["w"].dims == [2, 3, 3, 3] and bytes(graph.weights["w"].raw) == w.tobytes()
    assert bytes(graph.weights["far"].raw) == far.tobytes()


def test_numbers_that_are_no_bytes(onnx_file, tmp_path):
    """A tensor whose elements are repeated fields, with negative ones."""
    made = onnx.load_from_string(linear())
    made.graph.initializer.append(helper.make_tensor("i", onnx.TensorProto.INT64, [3], [-5, 0, 7]))
    file = tmp_path / "model.onnx"
    file.write_bytes(made.SerializeToString())
    read = onnx_file.Graph(file).weights["i"].raw
    assert numpy.frombuffer(read, "<i8").tolist() == [-5, 0, 7]


def test_a_cut_message_is_refused(onnx_file):
    """Wherever a message of one field is cut, and for a kind of field that there is not."""
    wire = sys.modules["protobuf_wire"]
    whole = wire.field(300, b"x" * 200)
    assert list(wire.fields(whole)) == [(300, b"x" * 200)]
    assert list(wire.fields(memoryview(whole))) == [(300, b"x" * 200)]
    for n in range(1, len(whole)):
        with pytest.raises(wire.BadMessage):
            list(wire.fields(whole[:n]))
    for bad in (b"\x0b", b"\xff" * 11, b"\x09" + b"1" * 7, b"\x0d" + b"1" * 3):
        with pytest.raises(wire.BadMessage):
            list(wire.fields(bad))
