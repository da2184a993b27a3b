"""conftest.py - what the tests of the Python package share: models, right answers, the sum.

Models are written by `onnx`, and its reference evaluator tells the right answers.
"""

import sys

import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

FLOAT = TensorProto.FLOAT


def model(nodes, inputs, outputs, weights=(), opset=17):
    """Bytes of a model; inputs and outputs are (name, type, shape)."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(*port) for port in inputs],
        [helper.make_tensor_value_info(*port) for port in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 8
    onnx.checker.check_model(made)
    return made.SerializeToString()


def right(data, feed):
    """What the reference of onnx answers."""
    return ReferenceEvaluator(onnx.load_from_string(data)).run(None, feed)


def linear(shape=(1, 4), seed=0):
    """y = relu(x w + b), z = x w + b."""
    draw = numpy.random.default_rng(seed)
    weights = [
        ("w", draw.standard_normal((4, 3), dtype=numpy.float32)),
        ("b", draw.standard_normal(3, dtype=numpy.float32)),
    ]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["z"]),
        helper.make_node("Relu", ["z"], ["y"]),
    ]
    out = [*shape[:-1], 3]
    return model(nodes, [("x", FLOAT, shape)], [("y", FLOAT, out), ("z", FLOAT, out)], weights)


def slow(n=512, layers=24):
    """A product after the other: some ten milliseconds or more a query."""
    draw = numpy.random.default_rng(1)
    w = draw.standard_normal((n, n), dtype=numpy.float32) / numpy.float32(n**0.5)
    names = ["x", *(f"m{k}" for k in range(layers - 1)), "y"]
    nodes = [helper.make_node("MatMul", [a, "w"], [b]) for a, b in zip(names, names[1:])]
    return model(nodes, [("x", FLOAT, [n, n])], [("y", FLOAT, [n, n])], [("w", w)])


def random(*shape, seed=2):
    return numpy.random.default_rng(seed).standard_normal(shape, dtype=numpy.float32)


@pytest.fixture
def path(tmp_path):
    """Path of a file with the model `linear`."""
    file = tmp_path / "linear.onnx"
    file.write_bytes(linear())
    return file


def pytest_addoption(parser):
    parser.addoption("--real", action="store_true", help="whole models of ONNX's backend tests, too")


def pytest_configure(config):
    config.addinivalue_line("markers", "real: a whole model of ONNX's backend tests")


def pytest_collection_modifyitems(config, items):
    if not config.getoption("--real"):
        items[:] = [item for item in items if not item.get_closest_marker("real")]


def pytest_terminal_summary(terminalreporter):
    """Why ONNX's backend tests were skipped."""
    tests = sys.modules.get("test_backend")
    for reason, n in tests.reasons.most_common() if tests else ():
        terminalreporter.write_line(f"skipped {n:4d}  {reason}")


def pytest_unconfigure(config):
    """The sum of all tests as every step of tools/check prints it."""
    seen = config.pluginmanager.get_plugin("terminalreporter").stats
    n = {kind: len(seen.get(kind, ())) for kind in ("passed", "failed", "error", "skipped")}
    print(
        f"python: {n['passed']} passed, {n['failed'] + n['error']} failed, {n['skipped']} skipped"
    )
