#!/usr/bin/env python3
"""check_shapes.py - `moire serve` answers every shape that a model leaves open as ONNX Runtime does, whatever room
there is for shapes, and while models come and go.

Prints a line for each case and one with the sum.

    check_shapes.py --moire build/moire
"""
import argparse
import concurrent.futures
import os
import random
import re
import sys
import tempfile
import threading
import urllib.request

import numpy
import onnx
import onnxruntime
import tritonclient.http as client
from onnx import TensorProto, helper, numpy_helper

from serve_bed import Bed, near, run

WIDTH = 64
SHAPES = [(1 + k % 3, 1 + k * 7 % 90) for k in range(60)]


def text_model(path, seed):
    """Attention over any number of rows, in any batch."""
    draw = numpy.random.default_rng(seed)
    weights = {w: draw.standard_normal((WIDTH, WIDTH), dtype=numpy.float32) / 8 for w in ("q", "k", "v", "o")}
    nodes = [helper.make_node("MatMul", ["x", f"w{n}"], [n]) for n in "qkv"]
    nodes += [helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
              helper.make_node("MatMul", ["q", "kt"], ["s"]), helper.make_node("Softmax", ["s"], ["p"], axis=-1),
              helper.make_node("MatMul", ["p", "v"], ["m"]), helper.make_node("MatMul", ["m", "wo"], ["y"])]
    graph = helper.make_graph(
        nodes, "text", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "rows", WIDTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", "rows", WIDTH])],
        [numpy_helper.from_array(w, f"w{n}") for n, w in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path + ".new")
    os.rename(path + ".new", path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})[0]


def rows(batch, n):
    return numpy.random.default_rng(batch * 1000 + n).standard_normal((batch, n, WIDTH), dtype=numpy.float32)


def ask(http, x):
    t = client.InferInput("x", list(x.shape), "FP32")
    t.set_data_from_numpy(x)
    return http.infer("text", [t]).as_numpy("y")


def walk(bed, right, seed, n):
    """n shapes in random order, by a client of its own."""
    order = random.Random(seed)
    with client.InferenceServerClient(f"127.0.0.1:{bed.http_port}") as http:
        for _ in range(n):
            shape = order.choice(SHAPES)
            assert near(ask(http, rows(*shape)), right[shape]), shape


def weights(bed):
    with urllib.request.urlopen(bed.url + "/metrics") as answer:
        return float(re.search(r'moire_memory_bytes\{part="weights"\} (\S+)', answer.read().decode()).group(1))


def every_shape(bed, right):
    for shape in SHAPES:
        assert near(ask(bed.http, rows(*shape)), right[shape]), shape


def weights_are_there_once(bed, right):
    assert weights(bed) < 1.5 * 4 * WIDTH * WIDTH * 4, weights(bed)


def clients_at_once(bed, right):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(walk, bed, right, seed, 150) for seed in range(8)]:
            done.result()


def while_the_model_is_replaced(bed, right, path):
    stop = threading.Event()

    def replace():
        while not stop.wait(0.2):
            text_model(path, 1)  # the same weights in a new file
            bed.process.send_signal(1)

    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        other = pool.submit(replace)
        try:
            for done in [pool.submit(walk, bed, right, seed, 150) for seed in range(4)]:
                done.result()
        finally:
            stop.set()
        other.result()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moire", default="build/moire")
    moire = os.path.abspath(parser.parse_args().moire)
    good = []
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "text.onnx")
        reference = text_model(path, 1)
        right = {shape: reference(rows(*shape)) for shape in SHAPES}
        for room, flags in (("room for all", []), ("room for one", ["--shape-memory", "0"])):
            bed = Bed(moire, folder, *flags)
            try:
                bed.wait()
                for case in (every_shape, weights_are_there_once, clients_at_once):
                    good.append(run(f"{case.__name__}, {room}", lambda c=case, b=bed: c(b, right)))
                good.append(run(f"while_the_model_is_replaced, {room}",
                                lambda b=bed: while_the_model_is_replaced(b, right, path)))
                good.append(run(f"it ends when asked, {room}", lambda b=bed: [None][b.stop()]))
            finally:
                bed.stop()
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
