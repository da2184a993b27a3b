"""`moire bench loadgen`: MLPerf's LoadGen as it is, with moire as the system under test."""

import collections
import importlib.util
import json
import os
import re
import subprocess
import sys
import textwrap

import pytest
from conftest import FLOAT, linear, model, random
from onnx import helper

import moire
from moire import commands

loadgen = pytest.mark.skipif(
    not importlib.util.find_spec("mlperf_loadgen"), reason="needs mlcommons-loadgen"
)

SHARE = os.path.join(os.path.dirname(moire.__file__), "share/moire/loadgen")


@pytest.fixture(autouse=True)
def this_python(monkeypatch):
    """LoadGen is run by this Python, whatever the environment of peers is."""
    monkeypatch.setenv("VENV", sys.prefix)


def summary(folder):
    with open(os.path.join(folder, "mlperf_log_summary.txt"), encoding="utf-8") as file:
        return file.read()


def run(path, scenario, folder, **flags):
    """The result document, whatever LoadGen's verdict is: a busy machine may make it INVALID."""
    flags = {"threads": 1, "seconds": 0.2, "samples": 4, **flags}
    try:
        return commands.run("bench", "loadgen", path, scenario=scenario, output=folder, **flags)
    except moire.Failed as failed:
        if "verdict is INVALID" not in str(failed):
            raise
        return failed.document


def check_row(row, scenario):
    """What moire tells is what LoadGen wrote."""
    told = summary(row["logs"])
    assert re.search(r"Scenario : (\w+)", told)[1] == scenario
    assert re.search(r"Result is : (\w+)", told)[1] == row["verdict"]
    assert (row["verdict"] == "VALID") == (not row["reasons"])
    p90 = int(re.search(r"\n90.00 percentile latency \(ns\) +: (\d+)", told)[1])
    assert row["p90_ms"] == pytest.approx(p90 / 1e6, abs=1e-5)
    assert row["queries"] >= 1 and row["metric"]["value"] > 0
    assert os.path.exists(os.path.join(row["logs"], "mlperf_log_detail.txt"))


@loadgen
@pytest.mark.parametrize("scenario", ["SingleStream", "MultiStream", "Server", "Offline"])
def test_each_scenario_is_loadgen_s(path, tmp_path, scenario):
    flags = {"qps": 200, "latency_ms": 100} if scenario == "Server" else {}
    told = run(path, scenario, tmp_path / "logs", **flags)
    (row,) = told["results"]
    assert row["system"] == "moire" and row["version"] == moire.__version__
    assert row["over"] is None and told["scenario"] == scenario
    check_row(row, scenario)
    assert row["target_qps"] == (200 if scenario == "Server" else None)


@loadgen
@pytest.mark.skipif(not importlib.util.find_spec("grpc"), reason="needs grpcio")
def test_a_server_is_tested_over_its_networks(path, tmp_path):
    told = run(path, "Server", tmp_path / "logs", over="none,http,grpc", qps=100, latency_ms=200)
    assert [row["over"] for row in told["results"]] == [None, "http", "grpc"]
    for row in told["results"]:
        check_row(row, "Server")
    for row, name in zip(told["results"][1:], ("http", "grpc")):
        assert row["logs"] == str(tmp_path / "logs" / name) and row["version"] == moire.__version__
        assert "ready" in (tmp_path / "logs" / name / "serve.log").read_text()
    with pytest.raises(moire.Failed, match="127.0.0.1:9: .*UNAVAILABLE.*: 'none'"):
        run("none", "Server", tmp_path / "logs", server="127.0.0.1:9", over="grpc", qps=1)


@pytest.mark.skipif(not importlib.util.find_spec("grpc"), reason="needs grpcio")
def test_messages_of_grpc_are_protobuf_s(monkeypatch):
    """What over_grpc.py writes protobuf reads, and the other way round; `onnx` brings protobuf along."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    monkeypatch.syspath_prepend(SHARE)
    import over_grpc

    kind = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="some.proto", package="some", syntax="proto3")
    tensor = file.message_type.add(name="Tensor")
    request = file.message_type.add(name="Request")
    for to, name, number, form, many in [
        (tensor, "name", 1, kind.TYPE_STRING, 1), (tensor, "datatype", 2, kind.TYPE_STRING, 1),
        (tensor, "shape", 3, kind.TYPE_INT64, 3), (request, "model_name", 1, kind.TYPE_STRING, 1),
        (request, "inputs", 5, kind.TYPE_MESSAGE, 3), (request, "raw_input_contents", 7, kind.TYPE_BYTES, 3),
    ]:  # fmt: skip
        made = to.field.add(name=name, number=number, type=form, label=many)
        if form == kind.TYPE_MESSAGE:
            made.type_name = ".some.Tensor"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    tensors, requests = (message_factory.GetMessageClass(pool.FindMessageTypeByName(f"some.{n}")) for n in ("Tensor", "Request"))
    feed = {"x": random(3, 200), "ids": random(4).astype("int64")}
    read = requests.FromString(over_grpc.infer_request("model", feed))
    assert read.model_name == "model" and [i.name for i in read.inputs] == ["x", "ids"]
    assert [list(i.shape) for i in read.inputs] == [[3, 200], [4]]
    assert [i.datatype for i in read.inputs] == ["FP32", "INT64"]
    assert list(read.raw_input_contents) == [array.tobytes() for array in feed.values()]
    written = tensors(name="x", datatype="FP32", shape=[-1, 3, 1 << 40]).SerializeToString()
    assert over_grpc.tensor_of(written) == ("x", "FP32", [-1, 3, 1 << 40])


@loadgen
def test_its_arrivals_are_known(path, tmp_path, monkeypatch):
    """bench/loadgen/cross_check.py plays LoadGen's arrivals of a seed: they are the same to the ns."""
    monkeypatch.syspath_prepend(SHARE)
    from cross_check import arrivals

    run(path, "Server", tmp_path / "logs", qps=200, latency_ms=100, seed=7)
    log = (tmp_path / "logs" / "mlperf_log_detail.txt").read_text()
    made = dict(re.findall(r'"key": "generated_query_(count|duration)", "value": (\d+)', log))
    assert arrivals(7, 200, int(made["count"]) + 1)[-1] == int(made["duration"])


@loadgen
def test_two_generators_stand_side_by_side(path, tmp_path):
    """The table of cross_check.py, for as many queries of each; what it says of times depends on the machine."""
    words = [sys.executable, os.path.join(SHARE, "cross_check.py"), str(path), "--qps", "300", "--seconds", "0.3"]
    words += ["--rounds", "2", "--threads", "1", "--moire", commands.PATH, "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert [r["seed"] for r in told["rounds"]] == [1, 2]
    assert all(r["queries"] == r["moire_queries"] > 50 for r in told["rounds"])
    for row in told["summary"]:
        assert row["from"] <= row["apart"] <= row["to"] and row["loadgen_ms"] > 0 < row["moire_ms"]


@loadgen
def test_bounds_of_a_median_are_those_of_the_sign_test(monkeypatch):
    monkeypatch.syspath_prepend(SHARE)
    from cross_check import bounds

    assert [bounds(list(range(n))) for n in (1, 2, 5, 6, 8, 9, 16, 32)] == [
        (0, 0), (0, 1), (0, 4), (0, 5), (0, 7), (1, 7), (3, 12), (9, 22),
    ]  # fmt: skip


def test_a_straight_query_is_answered_once(path, monkeypatch):
    """Many at once, of several callbacks, and those that a closed runtime ends or refuses."""
    monkeypatch.syspath_prepend(SHARE)
    from direct import Direct

    runtime = moire.Runtime(threads=2)
    direct, told = Direct(runtime.load(path, "model")), []
    query = direct.prepare({"x": random(1, 4)})
    for _ in range(3):
        direct.run(query)
    with pytest.raises(moire.ShapeError):
        direct.prepare({"x": random(3, 5, 7)})
    callbacks = [lambda wrong, i=i: told.append((i, wrong)) for i in range(4)]
    for i in range(100):
        direct.start(query, callbacks[i % 4])
    runtime.close(drain=False)
    assert sorted(i for i, _ in told) == sorted(i % 4 for i in range(100))
    assert all(wrong is None or isinstance(wrong, moire.Closed) for _, wrong in told)


@loadgen
def test_queries_beyond_what_a_system_takes_wait_in_order(monkeypatch):
    """By a system that answers when it is told to; a part of a batch gets as many answers as it has samples."""
    monkeypatch.syspath_prepend(SHARE)
    import run as script

    class Response:
        def __init__(self, id, *_):
            self.id = id

    class Told(list):
        QuerySampleResponse = Response

        def QuerySamplesComplete(self, responses):
            self.append([response.id for response in responses])

    class System(list):
        at_once = 2

        def start(self, query, done):
            self.append((query, done))

    class Samples:
        def query(self, indices):
            return indices

    Query = collections.namedtuple("Query", "id index")
    monkeypatch.setattr(script, "loadgen", Told(), raising=False)
    for batch, sizes in ((1, [1] * 7), (3, [3, 3, 1])):
        system, failed = System(), []
        feeder = script.Feeder(system, Samples(), batch, failed.append)
        if batch == 1:
            for i in range(7):
                feeder.issue([Query(100 + i, i)])
        else:
            feeder.issue([Query(100 + i, i) for i in range(7)])
        script.loadgen.clear()
        for n in range(len(sizes)):
            assert len(system) == min(n + 2, len(sizes))
            system[n][1](None)
        assert [len(ids) for ids in script.loadgen] == sizes and not failed
        assert [i for query, _ in system for i in query] == list(range(7))
        assert [i for ids in script.loadgen for i in ids] == list(range(100, 107))
        system[0][1](ValueError("no"))
        assert str(failed[0]) == "no"


@loadgen
def test_samples_become_batches(tmp_path):
    file = tmp_path / "open.onnx"
    file.write_bytes(linear(["batch", 4]))
    (row,) = run(file, "Offline", tmp_path / "logs", batch=4)["results"]
    check_row(row, "Offline")
    file.write_bytes(linear())
    with pytest.raises(moire.Failed, match="--batch 4: the model's first dimension is not open"):
        run(file, "Offline", tmp_path / "logs", batch=4)


@loadgen
def test_a_peer_stands_beside_or_is_left_out(path, tmp_path):
    told = run(path, "SingleStream", tmp_path / "logs", peers="onnxruntime")
    if importlib.util.find_spec("onnxruntime"):
        check_row(told["results"][1], "SingleStream")
    else:
        (out,) = told["left_out"]
        assert out["system"] == "onnxruntime"
        assert "no package 'onnxruntime': pip install onnxruntime" in out["why"]


@loadgen
def test_what_is_late_is_invalid(path, tmp_path):
    with pytest.raises(moire.Failed, match="LoadGen's verdict is INVALID: Perf") as caught:
        commands.run("bench", "loadgen", path, scenario="Server", qps=100, latency_ms=0.001,
                     seconds=0.2, output=tmp_path / "logs")  # fmt: skip
    document = caught.value.document
    assert document["error"]["exit"] == 5
    (row,) = document["results"]
    assert row["verdict"] == "INVALID" and "Reduce target QPS to improve latency." in row["reasons"]


@loadgen
def test_what_cannot_be_tested_says_why(tmp_path):
    file = tmp_path / "open.onnx"
    file.write_bytes(linear([1, "n", 4]))
    with pytest.raises(moire.Failed, match="input 'x' needs a shape: --shape x="):
        run(file, "Offline", tmp_path / "logs")
    (row,) = run(file, "Offline", tmp_path / "logs", shape={"x": (1, 2, 4)})["results"]
    check_row(row, "Offline")
    port = [("x", FLOAT, [4])], [("y", FLOAT, [2, 3])]
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"])]
    file.write_bytes(model(nodes, *port, [("s", random(2).astype("int64") + [2, 3])]))
    with pytest.raises(moire.Error):  # 4 elements are no 2 by 3
        run(file, "SingleStream", tmp_path / "logs")
    with pytest.raises(moire.Failed, match="127.0.0.1:9: .*: 'none'"):
        run("none", "Server", tmp_path / "logs", server="127.0.0.1:9", qps=1)


def test_flags_that_do_not_go_together(path, tmp_path):
    cases = [
        ({"scenario": "Server"}, "Server needs --qps"),
        ({"scenario": "SingleStream", "qps": 1}, "--qps goes with --scenario Server or Offline"),
        ({"scenario": "Offline", "latency_ms": 1}, "--latency-ms goes with --scenario Server"),
        ({"scenario": "SingleStream", "batch": 2}, "--batch goes with"),
        ({"scenario": "Offline", "peers": "openvino"}, "must be onnxruntime or none"),
        ({"scenario": "Offline", "over": "tcp"}, "must be none, http or grpc"),
        ({"scenario": "Offline", "server": "x:1", "over": "http,grpc"}, "with --server one of http and grpc"),
        ({"scenario": "Offline", "server": "x:1", "over": "none"}, "must be http or grpc"),
        ({"scenario": "Offline", "server": "x"}, "must be like 127.0.0.1:8000"),
        ({"scenario": "Batch"}, "SingleStream"),
    ]
    for flags, says in cases:
        with pytest.raises(moire.InvalidArgument, match=says):
            commands.run("bench", "loadgen", path, output=tmp_path, **flags)


def test_a_missing_package_is_named(path, tmp_path):
    """A Python without site-packages has no LoadGen; no Python has none either."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    words = [commands.PATH, "bench", "loadgen", path, "--scenario", "Offline", "-o", tmp_path / "l"]
    for venv, says in ((tmp_path / "venv", "pip install mlcommons-loadgen"), ("/none", "make loadgen")):
        done = subprocess.run(
            words, env={**os.environ, "VENV": str(venv)}, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 4 and says in done.stderr, textwrap.shorten(done.stderr, 300)
