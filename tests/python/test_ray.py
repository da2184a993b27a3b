"""Replicas for Ray Serve, without Ray: what they answer, say of themselves, and how they are scaled."""

import asyncio
import json
import os
import subprocess
import sys
import types

import numpy
import pytest
from conftest import linear, random, right

import moire
from moire import ray


@pytest.fixture
def replica(tmp_path):
    file = tmp_path / "linear.onnx"
    file.write_bytes(linear())
    made = ray.Replica("linear", str(file), qos_ms=1000, cores=1)
    yield made
    made.close()


def asked(replica, **document):
    return asyncio.run(replica.infer_json(json.dumps(document).encode()))


def question(x, **more):
    tensor = {"name": "x", "datatype": "FP32", "shape": list(x.shape), "data": x.ravel().tolist()}
    return {"inputs": [tensor], **more}


def test_answers(replica):
    x = random(1, 4)
    status, answer = asked(replica, **question(x, id="seven"))
    assert status == 200 and answer["id"] == "seven" and answer["model_name"] == "linear"
    want = right(linear(), {"x": x})
    assert [o["name"] for o in answer["outputs"]] == ["y", "z"]
    for told, y in zip(answer["outputs"], want):
        assert told["datatype"] == "FP32" and told["shape"] == list(y.shape)
        numpy.testing.assert_allclose(numpy.array(told["data"]).reshape(y.shape), y, rtol=1e-4, atol=1e-5)
    status, answer = asked(replica, **question(x, outputs=[{"name": "z"}]))
    assert status == 200 and [o["name"] for o in answer["outputs"]] == ["z"]
    outputs = asyncio.run(replica.infer({"x": x}))
    numpy.testing.assert_allclose(outputs["y"], want[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "body, says",
    [
        (b"{", "no JSON"),
        (b"[]", "an object"),
        (b'{"inputs": 7}', "an object"),
        (b'{"inputs": [7]}', "input 7"),
        (b'{"inputs": [{"name": "x", "datatype": "FP99", "shape": [1, 4], "data": [1, 2, 3, 4]}]}', "FP99"),
        (b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": [1]}]}', "'x'"),
        (b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 4], "data": ["a"]}]}', "'x'"),
        (b'{"inputs": [{"name": "u", "datatype": "FP32", "shape": [1], "data": [1]}]}', "x"),
        (b'{"inputs": [], "outputs": [{}]}', "malformed"),
        (b'{"inputs": [], "parameters": 7}', "malformed"),
    ],
)
def test_refuses(replica, body, says):
    status, answer = asyncio.run(replica.infer_json(body))
    assert status == 400 and says in answer["error"]


def test_says_how_it_is(replica):
    assert replica.record_autoscaling_stats() == {
        "moire_queries": 0,
        "moire_missed": 0,
        "moire_pressure": pytest.approx(0, abs=1),
    }
    for _ in range(3):
        assert asked(replica, **question(random(1, 4)))[0] == 200
    with pytest.raises(moire.Expired):
        asyncio.run(replica.infer({"x": random(1, 4)}, deadline_ms=0))
    told = replica.record_autoscaling_stats()
    assert told["moire_missed"] == pytest.approx(0.25) and told["moire_queries"] == 0
    assert replica.record_autoscaling_stats()["moire_missed"] == 0  # of what came since
    replica.check_health()


def context(replicas, queries=(), missed=()):
    metrics = {"moire_queries": dict(enumerate(queries)), "moire_missed": dict(enumerate(missed))}
    return types.SimpleNamespace(
        current_num_replicas=replicas, target_num_replicas=replicas, aggregated_metrics=metrics
    )


@pytest.mark.parametrize(
    "replicas, queries, missed, wanted",
    [
        (3, (), (), 3),
        (3, (2, 2, 2), (0, 0, 0), 3),
        (3, (4, 3, 2), (0, 0, 0), 5),
        (3, (0, 0, 0), (0, 0, 0), 1),
        (3, (0.1, 0.1, 0.1), (0.3, 0, 0), 6),
        (3, (0.1, 0.1, 0.1), (0.05, 0.05, 0.05), 3),
        (3, (99, 99, 99), (1, 1, 1), 6),
        (0, (4,), (0,), 2),
    ],
)
def test_scales(replicas, queries, missed, wanted):
    assert ray.scale(context(replicas, queries, missed)) == (wanted, {})


def test_scales_without_metrics():
    ask = context(2)
    ask.aggregated_metrics = None
    assert ray.scale(ask) == (2, {})


def test_routes(replica):
    x = random(1, 4)

    async def body():
        return json.dumps(question(x)).encode()

    path = "/v2/models/linear"
    assert asyncio.run(replica.answer("GET", f"{path}/ready", None)) == (200, {})
    status, answer = asyncio.run(replica.answer("POST", f"{path}/infer", body))
    assert status == 200 and answer["model_name"] == "linear"
    for method, path, status in [
        ("GET", "/", 404),
        ("GET", "/v2/health/ready", 404),
        ("POST", "/v2/models/none/infer", 404),
        ("GET", "/v2/models/linear/infer", 405),
        ("POST", "/v2/models/linear", 404),
    ]:
        assert asyncio.run(replica.answer(method, path, None))[0] == status


def test_front():
    for path in ("/v2/health/live", "/v2/health/ready"):
        assert ray.Front.answer("GET", path) == (200, {})
        assert ray.Front.answer("POST", path)[0] == 404
    status, answer = ray.Front.answer("POST", "/v2/models/none/infer")
    assert status == 404 and "no model 'none'" in answer["error"]
    assert ray.Front.answer("GET", "/")[0] == 404


def test_cores_are_given_once():
    prefix = f"moire-test-{os.getpid()}"
    there = sorted(os.sched_getaffinity(0))
    all_of_them = ray.Cores(len(there), prefix)
    assert all_of_them.ours == there
    assert ray.Cores(1, prefix).ours == []
    all_of_them.close()
    again = ray.Cores(1, prefix)
    assert again.ours == there[:1]
    again.close()
    assert ray.Cores(len(there) + 1, prefix).ours == []
    assert sorted(os.sched_getaffinity(0)) == there


def test_needs_no_ray_to_import():
    code = "import moire.ray, sys; assert 'ray' not in sys.modules and moire.ray.Replica"
    subprocess.run([sys.executable, "-c", code], check=True, cwd="/")
