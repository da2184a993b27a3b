"""Session: names, types, shapes, dynamic shapes, and the errors of each."""

import pickle
import subprocess
import sys
import threading
import time

import numpy
import onnx
import pytest
from conftest import FLOAT, linear, model, random, right, slow
from onnx import TensorProto, helper

import moire
from moire._native import lib
from moire._tensors import as_input

NUMBERS = {
    "FLOAT": numpy.float32,
    "DOUBLE": numpy.float64,
    "FLOAT16": numpy.float16,
    "INT8": numpy.int8,
    "UINT8": numpy.uint8,
    "INT16": numpy.int16,
    "UINT16": numpy.uint16,
    "INT32": numpy.int32,
    "UINT32": numpy.uint32,
    "INT64": numpy.int64,
    "UINT64": numpy.uint64,
    "BOOL": numpy.bool_,
}


def same(kind, shape):
    """A model whose answer is its input, by an operator that takes every type."""
    of = getattr(TensorProto, kind)
    return model(
        [helper.make_node("Flatten", ["x"], ["y"], axis=1)],
        [("x", of, shape)],
        [("y", of, [shape[0], None])],
    )


def near(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and numpy.allclose(a, b, 1e-4, 1e-5)


def test_runs_a_path_and_bytes(path):
    x = random(1, 4)
    wanted = right(linear(), {"x": x})
    for source in (path, str(path), linear(), bytearray(linear())):
        with moire.Session(source, threads=1) as session:
            assert all(near(a, b) for a, b in zip(session.run(None, {"x": x}), wanted))


def test_tells_ports(path):
    with moire.Session(path, threads=1) as session:
        (x,), (y, z) = session.get_inputs(), session.get_outputs()
    assert (x.name, x.shape, x.type, x.dtype) == ("x", (1, 4), "tensor(float)", numpy.float32)
    assert (y.name, y.shape, z.name, z.type) == ("y", (1, 3), "z", "tensor(float)")


def test_outputs_by_name_in_the_order_asked():
    x = random(1, 4)
    y, z = right(linear(), {"x": x})
    with moire.Session(linear(), threads=1) as session:
        assert near(session.run(["z"], {"x": x})[0], z)
        assert near(session.run("z", {"x": x})[0], z)
        got = session.run(["z", "y", "z"], {"x": x})
        assert near(got[0], z) and near(got[1], y) and near(got[2], z)
        got[0][:] = 0  # asked for twice, it is two arrays
        assert near(got[2], z)
        assert len(session.run([], {"x": x})) == 2
        with pytest.raises(moire.InvalidArgument, match="no output 'nix'; it has 'y', 'z'"):
            session.run(["nix"], {"x": x})


@pytest.mark.parametrize("kind", NUMBERS)
def test_every_type_of_numbers(kind):
    x = (numpy.arange(24).reshape(2, 3, 4) % 2).astype(NUMBERS[kind])
    with moire.Session(same(kind, [2, 3, 4]), threads=1) as session:
        (y,) = session.run(None, {"x": x})
        assert session.get_inputs()[0].dtype == x.dtype
    assert y.dtype == x.dtype and (y == x.reshape(2, 12)).all()


def test_bfloat16_as_bits_or_by_ml_dtypes():
    with moire.Session(same("BFLOAT16", [1, 4]), threads=1) as session:
        of = session.get_inputs()[0].dtype
        bits = numpy.array([[0x3F80, 0x4000, 0, 0xBF80]], numpy.uint16)
        (y,) = session.run(None, {"x": bits.view(of)})
        assert y.dtype == of and (y.view(numpy.uint16) == bits).all()


def test_text_is_refused():
    data = model(
        [helper.make_node("Identity", ["x"], ["y"])],
        [("x", TensorProto.STRING, [1])],
        [("y", TensorProto.STRING, [1])],
    )
    with pytest.raises(moire.Unsupported):
        moire.Session(data, threads=1)


def test_dynamic_shapes_and_room_for_them():
    data = linear(["batch", 4])
    with moire.Session(data, threads=1, max_shapes=2) as session:
        assert session.get_inputs()[0].shape == (None, 4)
        for n in (1, 2, 3, 1, 5, 2):
            x = random(n, 4)
            assert near(session.run(["y"], {"x": x})[0], right(data, {"x": x})[0])
        assert len(session._model._tenants) == 2


def test_a_shape_that_the_caller_binds():
    data = linear(["batch", 4])
    with moire.Session(data, threads=1, shapes={"x": (3, 4)}) as session:
        assert session.get_inputs()[0].shape == (3, 4)
        assert session.get_outputs()[0].shape == (3, 3)
        assert session.run(None, {"x": random(3, 4)})[0].shape == (3, 3)
        with pytest.raises(moire.ShapeError, match=r"float32\[3, 4\], one of shape \(2, 4\)"):
            session.run(None, {"x": random(2, 4)})
    with pytest.raises(moire.InvalidArgument, match="no input 'y'"):
        moire.Session(data, threads=1, shapes={"y": (3, 4)})
    with pytest.raises(moire.ShapeError):
        moire.Session(data, threads=1, shapes={"x": (3, 5)})


def test_an_output_whose_shape_depends_on_data():
    data = model(
        [helper.make_node("NonZero", ["x"], ["y"])],
        [("x", FLOAT, [6])],
        [("y", TensorProto.INT64, [1, None])],
    )
    with moire.Session(data, threads=1) as session:
        for x in ([0, 1, 0, 2, 3, 0], [0] * 6, [1] * 6):
            x = numpy.array(x, numpy.float32)
            (y,) = session.run(None, {"x": x})
            assert y.shape == (1, numpy.count_nonzero(x)) and (y[0] == x.nonzero()[0]).all()


def test_wrong_inputs_are_said():
    x = random(1, 4)
    with moire.Session(linear(), threads=1) as session:
        for feed, kind, text in (
            ({}, moire.InvalidArgument, "no input 'x' is given; the model has 'x'"),
            ({"a": x}, moire.InvalidArgument, "no input 'x'"),
            ({"x": x, "a": x}, moire.InvalidArgument, "has no input 'a'"),
            ({"x": x.astype("f8")}, moire.ShapeError, r"an array of float64 .*astype\('float32'\)"),
            ({"x": x.astype(">f4")}, moire.ShapeError, "an array of >f4"),
            ({"x": random(4)}, moire.ShapeError, r"one of shape \(4,\)"),
            ({"x": random(2, 4)}, moire.ShapeError, r"one of shape \(2, 4\)"),
            ({"x": [["a"] * 4]}, moire.ShapeError, "input 'x' is float32"),
            ({"x": [[1, 2], [3]]}, moire.ShapeError, "input 'x' is float32"),
            ({"x": None}, moire.ShapeError, "input 'x' is float32"),
            ({"x": numpy.array([[None] * 4])}, moire.ShapeError, "an array of object"),
            ({"x": numpy.zeros((1, 4), "M8[s]")}, moire.ShapeError, "an array of datetime64"),
            ({"x": numpy.zeros((1,) * 9, "f4")}, moire.ShapeError, "one of shape"),
            ({"x": x, 1: x}, moire.InvalidArgument, "has no input 1"),
        ):
            with pytest.raises(kind, match=text):
                session.run(None, feed)
        assert session.run(None, {"x": x})  # none of them has done any harm


def test_wrong_files_and_arguments_are_said(tmp_path):
    for source, kind in (
        (tmp_path / "none.onnx", moire.FileError),
        (b"no model", moire.FormatError),
        ("a\0b", moire.InvalidArgument),
    ):
        with pytest.raises(kind) as caught:
            moire.Session(source, threads=1)
        assert isinstance(caught.value, moire.Error) and caught.value.code < 0
    for arguments, text in (
        ({"store": 5}, "store cannot be 5"),
        ({"exact": "yes"}, "exact cannot be 'yes'"),
        ({"max_shapes": 1.5}, "max_shapes is 1.5"),
        ({"shapes": {"x": "ab"}}, "'x' cannot be 'ab'"),
        ({"shapes": {"x": (1,) * 9}}, "8 whole numbers at most"),
        ({"shapes": {"x": (2**70, 4)}}, "'x' cannot be"),
        ({"shapes": {"x": (-1, 4)}}, "'x' cannot be"),
        ({"precision": "fp8"}, "auto, fp32, int8"),
        ({"max_shapes": 0}, "max_shapes"),
        ({"threads": -1}, "."),
        ({"threads": "two"}, "threads"),
        ({"tolerance": 2.0}, "."),
    ):
        with pytest.raises(moire.InvalidArgument, match=text):
            moire.Session(linear(), **{"threads": 1, **arguments})


def test_every_code_has_a_class():
    named = [name for name in dir(lib) if name.startswith("MOIRE_E")]
    assert len(named) > 15
    for name in named:
        kind = moire.errors.BY_NAME[name]
        assert kind("x").code == getattr(lib, name) and issubclass(kind, moire.Error)


def test_errors_can_be_pickled():
    error = pickle.loads(pickle.dumps(moire.Busy("full", -8)))
    assert type(error) is moire.Busy and str(error) == "full" and error.code == -8


def test_views_lists_and_read_only_arrays():
    x = random(1, 4)
    wanted = right(linear(), {"x": x})[0]
    wide = numpy.zeros((1, 8), numpy.float32)
    wide[:, ::2] = x
    fixed = x.copy()
    fixed.setflags(write=False)
    with moire.Session(linear(), threads=1) as session:
        for value in (wide[:, ::2], numpy.asfortranarray(x), fixed, x.tolist(), memoryview(x)):
            assert near(session.run(["y"], {"x": value})[0], wanted)


class Tensor:
    """What other libraries have: an object with DLPack's methods and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **arguments):
        return self.array.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_dlpack_in_and_out():
    x = random(1, 4)
    with moire.Session(linear(), threads=1) as session:
        y, _ = session.run(None, {"x": Tensor(x)})
        assert near(y, right(linear(), {"x": x})[0])
        assert (numpy.from_dlpack(y) == y).all()


def test_what_is_contiguous_is_not_copied():
    x = random(1, 4)
    with moire.Session(linear(), threads=1) as session:
        (port,) = session.get_inputs()
    assert as_input(x, port) is x
    assert numpy.shares_memory(as_input(Tensor(x), port), x)


def test_others_run_while_a_model_does():
    """With a switch interval of minutes a thread only gets on where the lock is given away."""
    before, count, stop = sys.getswitchinterval(), [0], threading.Event()

    def work():
        while not stop.is_set():
            count[0] += 1
            time.sleep(0)

    x = random(512, 512)
    with moire.Session(slow(), threads=1) as session:
        session.run(None, {"x": x})
        sys.setswitchinterval(100)
        try:
            thread = threading.Thread(target=work)
            thread.start()
            begun = count[0]
            for _ in range(10):
                session.run(None, {"x": x})
            got_on = count[0] - begun
        finally:
            sys.setswitchinterval(before)
            stop.set()
            thread.join()
    assert got_on > 1000


def test_what_dlpack_cannot_give_is_said():
    class Elsewhere(Tensor):
        def __dlpack__(self, **arguments):
            raise BufferError("it is on a GPU")

    with moire.Session(linear(), threads=1) as session:
        with pytest.raises(moire.InvalidArgument, match="input 'x' .*: it is on a GPU; give"):
            session.run(None, {"x": Elsewhere(random(1, 4))})


def test_slow_layers_are_warned_of():
    data = model(
        [helper.make_node("Conv", ["x", "w"], ["y"], group=2)],
        [("x", FLOAT, [1, 8, 10, 20, 20])],
        [("y", FLOAT, [1, 8, 8, 18, 18])],
        [("w", random(8, 4, 3, 3, 3))],
    )
    with pytest.warns(RuntimeWarning, match="'model': .*slow reference: 3-D Conv"):
        moire.Session(data, threads=1).close()


def test_no_inputs_no_elements():
    alone = model(
        [helper.make_node("Constant", [], ["y"], value=onnx.numpy_helper.from_array(random(2)))],
        [],
        [("y", FLOAT, [2])],
    )
    with moire.Session(alone, threads=1) as session:
        assert near(session.run(None, {})[0], random(2))
    data = linear(["batch", 4])
    with moire.Session(data, threads=1) as session:
        try:
            y, _ = session.run(None, {"x": random(0, 4)})
        except moire.ShapeError:
            return  # that it says so is right, too
        assert y.shape == (0, 3)


def test_outputs_live_as_long_as_they_are_held():
    x = random(1, 4)
    with moire.Session(linear(), threads=1) as session:
        held = [session.run(["y"], {"x": x * k})[0] for k in range(50)]
        session.run(None, {"x": x})
    for k, y in enumerate(held):
        assert near(y, right(linear(), {"x": x * numpy.float32(k)})[0])
        y += 1  # and they are the caller's to write to


def test_many_threads_one_session():
    data = linear(["batch", 4])
    with moire.Session(data, threads=2) as session:
        wrong = []

        def work(k):
            for i in range(40):
                x = random(1 + (i + k) % 3, 4, seed=k * 100 + i)
                if not near(session.run(["z"], {"x": x})[0], right(data, {"x": x})[1]):
                    wrong.append((k, i))

        threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong


def test_closed_is_said(path):
    session = moire.Session(path, threads=1)
    session.close()
    session.close()
    with pytest.raises(moire.Closed):
        session.run(None, {"x": random(1, 4)})


def test_the_line_of_the_guide(path):
    """As a stranger types it, in a process of its own."""
    code = (
        "import moire, numpy; x = numpy.ones((1, 4), 'f'); "
        f"s = moire.Session({str(path)!r}, threads=1); "
        "print(s.run(None, {'x': x})[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[[") and not done.stderr
