"""moire.backend by the tests that ONNX has for backends: each operator, and models of PyTorch.

What moire refuses is skipped, by reason; every refusal must be one of those known here.  With
--real the whole models are run too (`make backend`).  Tests for GPUs are none of moire's.
"""

import collections
import re
import unittest
import warnings

import numpy
import onnx
import pytest
from conftest import linear, random, right
from onnx import helper

import moire
import moire.backend

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the data that it makes: overflows are meant
    from onnx.backend.test import BackendTest

    class Judged(moire.backend.MoireBackend):
        """Its tests prepare each model, so that the reason of a refusal is seen."""

        @classmethod
        def is_compatible(cls, model, device="CPU", **options):
            return True

    THEIRS = BackendTest(Judged)

OPERATORS = frozenset(
    "AffineGrid ArrayFeatureExtractor Bernoulli Binarizer BitCast CausalConvWithState "
    "CenterCropPad Col2Im CumProd DeformConv FlexAttention Gradient ImageDecoder LabelEncoder "
    "LinearAttention RandomUniformLike RegexFullMatch StringConcat "
    "StringNormalizer StringSplit SwiGLU TreeEnsemble".split()
)
REFUSALS = {  # what a message begins a reason with, and the reason
    r"opset \d+ is not supported": "an opset that is newer than moire",
    r"reads a tensor of a type|is not a dense tensor|of type bool is not supported|is of a type of elements": "a type",
    r"is a sequence or an optional": "sequences and optionals as inputs or outputs",
    r"needs opset 7 or newer|before opset 7": "operators as they were before opset 7",
    r"\(Dropout\): training mode is not supported": "training",
    r"\(Mod\): floating-point operands need": "Mod of floats by floor",
    r"\(GridSample\): input 0 has rank 5": "GridSample of volumes",
}
# Data that are rounded more than the tolerance that they are compared with
ROUNDED = frozenset(
    "test_dft_inverse_cpu test_dft_inverse_opset19_cpu test_attention_4d_causal_fp16_expanded_cpu".split()
)
reasons = collections.Counter()
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of layers without a fast kernel


def reason_of(error):
    """Why moire refuses a model; None: nobody knows of it."""
    operator = re.search(r"\((\w+)\): operator not supported", str(error))
    if operator:
        return f"operator {operator[1]}" if operator[1] in OPERATORS else None
    return next((why for pattern, why in REFUSALS.items() if re.search(pattern, str(error))), None)


def judged(name, call):
    """One of ONNX's tests; a refusal that is known skips it."""

    def test(_):
        if name in ROUNDED:
            skip("data that are rounded more than their tolerance")
        try:
            call(None)
        except moire.Error as error:
            reason = reason_of(error)
            if not reason:
                raise
            skip(reason)
        except unittest.SkipTest as skipped:
            skip(str(skipped))

    return test


def skip(reason):
    reasons[reason] += 1
    pytest.skip(reason)


def cases(category):
    theirs = THEIRS.test_cases[category]
    mine = {n: judged(n, getattr(theirs, n)) for n in dir(theirs) if n.endswith("_cpu")}
    return type(category, (), mine)


TestNodes = cases("OnnxBackendNodeModelTest")
TestSimple = cases("OnnxBackendSimpleModelTest")
TestPyTorchModels = cases("OnnxBackendPyTorchConvertedModelTest")
TestPyTorchOperators = cases("OnnxBackendPyTorchOperatorModelTest")
TestReal = pytest.mark.real(cases("OnnxBackendRealModelTest"))


def test_a_model_runs_by_position_and_by_name():
    data, x = linear(), random(1, 4)
    prepared = moire.backend.prepare(onnx.load_from_string(data))
    want = right(data, {"x": x})
    for inputs in ([x], x, {"x": x}):
        for got, wanted in zip(prepared.run(inputs), want):
            assert numpy.allclose(got, wanted, rtol=1e-5)
    assert len(moire.backend.run_model(onnx.load_from_string(data), [x])) == 2
    with pytest.raises(moire.InvalidArgument, match="2 inputs are given, the model has 1: x"):
        prepared.run([x, x])


def test_a_node_runs_alone():
    x, y = random(2, 3), random(3)
    (got,) = moire.backend.run_node(helper.make_node("Add", ["x", "y"], ["z"]), [x, y])
    assert numpy.array_equal(got, x + y)
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=1)
    k = numpy.array([2], numpy.int64)
    about = [(numpy.float32, (2, 2)), (numpy.int64, (2, 2))]
    values, at = moire.backend.run_node(node, [x, k], outputs_info=about, opset_version=13)
    assert numpy.array_equal(values, numpy.take_along_axis(x, at, 1)) and at.dtype == numpy.int64


def test_what_it_does_not_have_is_said():
    assert moire.backend.supports_device("CPU") and not moire.backend.supports_device("CUDA:0")
    assert moire.backend.is_compatible(onnx.load_from_string(linear()))
    ports = [helper.make_tensor_value_info(n, onnx.TensorProto.STRING, [1]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("StringNormalizer", ["x"], ["y"])], "s", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    assert not moire.backend.is_compatible(model)
    with pytest.raises(moire.Unsupported):
        moire.backend.prepare(model)
    with pytest.raises(moire.Unsupported, match=r"opset 99 .*known: 1 to %d\)" % moire.backend.NEWEST_OPSET):
        moire.backend.run_node(graph.node[0], [random(1)], outputs_info=[("f4", (1,))], opset_version=99)
    with pytest.raises(moire.Unsupported, match="'CUDA'.* runs on 'CPU'"):
        moire.backend.prepare(onnx.load_from_string(linear()), "CUDA")
