#!/usr/bin/env python3
"""check_batching.py - `moire serve` joins queries and holds quotas, seen by stock clients over HTTP and gRPC.

Answers are compared with ONNX Runtime's.  Prints a line for each case and one with the sum.

    check_batching.py --moire build/moire
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

import numpy
import onnx
import onnxruntime
import tritonclient.grpc
import tritonclient.http
from onnx import TensorProto, helper, numpy_helper
from tritonclient.utils import InferenceServerException

from serve_bed import Bed, run

CASES = []
COLUMNS, HIDDEN, OUT = 1024, 2048, 16


def case(function):
    CASES.append(function)
    return function


def mlp():
    """Two products whose weights are far larger than a row: eight rows take little longer than one."""
    rng = numpy.random.default_rng(20)
    v = numpy_helper.from_array((rng.standard_normal((HIDDEN, COLUMNS)) / 32).astype(numpy.float32), "v")
    w = numpy_helper.from_array((rng.standard_normal((OUT, HIDDEN)) / 45).astype(numpy.float32), "w")
    nodes = [helper.make_node("Gemm", ["x", "v"], ["h"], transB=1), helper.make_node("Relu", ["h"], ["r"]),
             helper.make_node("Gemm", ["r", "w"], ["y"], transB=1)]
    return graph(nodes, [v, w], COLUMNS, OUT)


def mixing():
    """Subtracts the mean of the batch: rows depend on each other."""
    nodes = [helper.make_node("ReduceMean", ["x"], ["m"], axes=[0]), helper.make_node("Sub", ["x", "m"], ["y"])]
    return graph(nodes, [], 4, 4)


def graph(nodes, constants, columns, out):
    def port(name, n):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", n])
    g = helper.make_graph(nodes, "g", [port("x", columns)], [port("y", out)], constants)
    m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 13)])
    m.ir_version = 8
    return m


CONFIGS = {
    "joined": (mlp, "max_batch_size: 32 dynamic_batching { priority_levels: 2 default_priority_level: 2 "
                    "default_queue_policy { allow_timeout_override: true } }"),
    "apart": (mlp, "max_batch_size: 32"),
    "mixing": (mixing, "max_batch_size: 32 dynamic_batching { }"),
    "narrow": (mlp, "max_batch_size: 32 dynamic_batching { priority_levels: 2 default_priority_level: 2 "
                    "priority_queue_policy { key: 2 value { max_queue_size: 1 } } }"),
    "bounded": (mlp, "max_batch_size: 32 parameters { key: \"max_in_flight\" value { string_value: \"2\" } }"),
    "light": (mlp, f"max_batch_size: 32 parameters {{ key: \"max_memory\" value {{ string_value: \"{4 * COLUMNS}\" }} }}"),
    "hurried": (mlp, "max_batch_size: 32 parameters { key: \"admission\" value { string_value: \"predicted\" } } "
                     "parameters { key: \"qos_ms\" value { string_value: \"0.001\" } }"),
}


def make_repository(folder):
    for name, (build, config) in CONFIGS.items():
        os.makedirs(os.path.join(folder, name, "1"))
        onnx.save(build(), os.path.join(folder, name, "1", "model.onnx"))
        with open(os.path.join(folder, name, "config.pbtxt"), "w", encoding="utf-8") as f:
            f.write(config)
    session = onnxruntime.InferenceSession(os.path.join(folder, "joined", "1", "model.onnx"),
                                           providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})[0]


def rows(n, seed, columns=COLUMNS):
    return numpy.random.default_rng(seed).standard_normal((n, columns)).astype(numpy.float32)


def near(a, b):
    return a.shape == b.shape and numpy.abs(a - b).max() <= 1e-4 * max(1, numpy.abs(b).max())


def asker(bed, protocol):
    """A client of one thread: ask(model, x) -> y."""
    client = tritonclient.http if protocol == "http" else tritonclient.grpc
    port = bed.http_port if protocol == "http" else bed.grpc_port
    c = client.InferenceServerClient(f"127.0.0.1:{port}")

    def ask(model, x, **options):
        t = client.InferInput("x", list(x.shape), "FP32")
        t.set_data_from_numpy(x)
        return c.infer(model, [t], **options).as_numpy("y")
    return ask


def stats(bed, model):
    return bed.http.get_inference_statistics(model)["model_stats"][0]


def many(bed, protocol, model, reference, clients=12, each=60):
    """Clients that all ask at once; requests of one to three rows, each answer compared."""
    xs = [rows(1 + i % 3, i) for i in range(24)]
    right = [reference(x) for x in xs]

    def walk(k):
        ask = asker(bed, protocol)
        for i in range(each):
            at = (i * 7 + k * 13) % len(xs)
            assert near(ask(model, xs[at]), right[at]), (model, k, i)
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        list(pool.map(walk, range(clients)))


def until_joined(bed, protocol, reference):
    """The sizes are prepared in the background: some rounds may go by."""
    before = stats(bed, "joined")
    for _ in range(40):
        many(bed, protocol, "joined", reference)
        after = stats(bed, "joined")
        runs = after["execution_count"] - before["execution_count"]
        done = after["inference_stats"]["success"]["count"] - before["inference_stats"]["success"]["count"]
        if runs < done:
            return after
    raise AssertionError(after)


@case
def queries_are_joined_over_http(bed, reference):
    s = until_joined(bed, "http", reference)
    assert s["execution_count"] < s["inference_count"]
    sizes = {b["batch_size"]: b["compute_infer"]["count"] for b in s["batch_stats"]}
    assert sum(sizes.values()) == s["execution_count"], s
    assert sum(k * n for k, n in sizes.items()) == s["inference_count"], s
    assert max(sizes) > 3, s


@case
def queries_are_joined_over_grpc(bed, reference):
    until_joined(bed, "grpc", reference)


@case
def without_dynamic_batching_they_are_not(bed, reference):
    many(bed, "http", "apart", reference, 4, 20)
    s = stats(bed, "apart")
    assert s["execution_count"] == s["inference_stats"]["success"]["count"], s


@case
def rows_that_depend_on_each_other_are_not_joined(bed, reference):
    x = rows(2, 1, 4)

    def walk(_):
        ask = asker(bed, "http")
        for _ in range(100):
            assert near(ask("mixing", x), x - x.mean(0, keepdims=True))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(walk, range(8)))
    s = stats(bed, "mixing")
    assert s["execution_count"] == s["inference_stats"]["success"]["count"], s


@case
def a_bad_request_is_in_no_batch(bed, reference):
    wrong, good = rows(1, 1, COLUMNS - 1), rows(2, 2)
    right = reference(good)

    def walk(k):
        ask = asker(bed, "http" if k % 2 else "grpc")
        for _ in range(50):
            try:
                ask("joined", wrong)
                raise AssertionError("a row of another length was answered")
            except InferenceServerException as e:
                assert "shape" in e.message(), e
            assert near(ask("joined", good), right)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(walk, range(8)))


@case
def deadlines_of_members_are_their_own(bed, reference):
    x = rows(1, 3)
    right = reference(x)
    counts = {"ok": 0, "late": 0}

    def walk(k):
        ask = asker(bed, "http")
        for _ in range(60):
            try:
                assert near(ask("joined", x, priority=1 + k % 2, timeout=200 if k % 2 else 10_000_000), right)
                counts["ok"] += 1
            except InferenceServerException as e:
                assert k % 2 and "deadline" in e.message(), e
                counts["late"] += 1
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(walk, range(8)))
    assert counts["ok"] >= 240, counts


def statuses(bed, model, n=16, each=40, x=None):
    """HTTP statuses of many at once, and whether refusals say when to come again."""
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, COLUMNS],
                                   "data": [0.5] * COLUMNS}]}).encode() if x is None else x
    seen = {}

    def walk(_):
        for _ in range(each):
            try:
                with urllib.request.urlopen(f"{bed.url}/v2/models/{model}/infer", body) as answer:
                    seen[answer.status] = seen.get(answer.status, 0) + 1
            except urllib.error.HTTPError as e:
                assert e.headers["Retry-After"], e.headers
                seen[e.code] = seen.get(e.code, 0) + 1
                seen["message"] = json.load(e)["error"]
    with concurrent.futures.ThreadPoolExecutor(n) as pool:
        list(pool.map(walk, range(n)))
    return seen


@case
def a_full_level_is_refused(bed, reference):
    for _ in range(20):
        seen = statuses(bed, "narrow")
        if 429 in seen:
            break
    assert set(seen) <= {200, 429, "message"} and seen[200] and "max_queue_size" in seen["message"], seen


@case
def more_than_max_in_flight_are_refused(bed, reference):
    for _ in range(20):
        seen = statuses(bed, "bounded")
        if 429 in seen:
            break
    assert set(seen) <= {200, 429, "message"} and seen[200] and "max_in_flight" in seen["message"], seen


@case
def more_than_max_memory_is_refused(bed, reference):
    ask = asker(bed, "grpc")
    assert near(ask("light", rows(1, 1)), reference(rows(1, 1)))
    try:
        ask("light", rows(2, 1))
        raise AssertionError("two rows were taken")
    except InferenceServerException as e:
        assert "max_memory" in e.message() and "RESOURCE_EXHAUSTED" in e.status(), e


@case
def what_cannot_be_in_time_is_refused_at_once(bed, reference):
    seen = statuses(bed, "hurried", 1, 3)
    assert set(seen) == {503, "message"} and "deadline" in seen["message"], seen


def check_names_what_cannot_be_joined(moire, folder):
    said = subprocess.run([moire, "serve", "--check", folder], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said
    assert any("mixing" in line and "ReduceMean" in line for line in said.stdout.splitlines()), said.stdout
    assert not any(line.startswith("note: joined:") for line in said.stdout.splitlines()), said.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moire", default="build/moire")
    moire = os.path.abspath(parser.parse_args().moire)
    with tempfile.TemporaryDirectory() as folder:
        reference = make_repository(folder)
        bed = Bed(moire, folder)
        try:
            bed.wait()
            good = [run(c.__name__, lambda c=c: c(bed, reference)) for c in CASES]
        finally:
            ended = bed.stop()
        good.append(run("it ends when asked", lambda: [None][ended]))
        good.append(run("check_names_what_cannot_be_joined", lambda: check_names_what_cannot_be_joined(moire, folder)))
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
