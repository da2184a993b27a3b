#!/usr/bin/env python3
"""check_access.py - who may do what at `moire serve`: tokens, the listener for control, sockets that are files.

    check_access.py --moire build/moire
"""
import argparse
import hashlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

import grpc
import tritonclient.grpc as client_grpc
from tritonclient.grpc import service_pb2, service_pb2_grpc

from serve_bed import Bed, images, make_repository, near, run

READER, OPERATOR, SCRAPER, STRANGER = "reader-0123456789", "operator-0123456789", "scraper-0123456789", "s" * 20
CASES = []


def case(function):
    CASES.append(function)
    return function


def tokens(**changes):
    rows = {"reader": {"token": READER, "models": ["len*"]},
            "operator": {"sha256": hashlib.sha256(OPERATOR.encode()).hexdigest(), "control": True, "models": ["*"]},
            "scraper": {"token": SCRAPER, "metrics": True}, **changes}
    return json.dumps({"tokens": [{"name": n, **row} for n, row in rows.items() if row]})


def write_tokens(path, text):
    with open(path + ".new", "w", encoding="utf-8") as f:
        os.chmod(path + ".new", 0o600)
        f.write(text)
    os.rename(path + ".new", path)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def ask(where, method, path, token=None, body=None):
    """(status, headers, text) of an answer; where: a port or a socket's path."""
    c = UnixConnection(where) if isinstance(where, str) else http.client.HTTPConnection("127.0.0.1", where, timeout=20)
    c.request(method, path, body, {"Authorization": f"Bearer {token}"} if token else {})
    r = c.getresponse()
    text = r.read()
    c.close()
    return r.status, r.headers, text


def request(model="lenet", x=None):
    x = images(1, 1) if x is None else x
    r = service_pb2.ModelInferRequest(model_name=model, raw_input_contents=[x.tobytes()])
    r.inputs.add(name="input", datatype="FP32", shape=list(x.shape))
    return r


def call(bed, method, message, token=None, target=None):
    """(status, answer or details)."""
    with grpc.insecure_channel(target or f"127.0.0.1:{bed.grpc_port}") as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        try:
            fields = [("authorization", f"Bearer {token}")] if token else None
            return "OK", getattr(stub, method)(message, metadata=fields, timeout=20)
        except grpc.RpcError as e:
            return e.code().name, e.details()


def infer_body():
    return json.dumps({"inputs": [{"name": "input", "shape": [1, 1, 32, 32], "datatype": "FP32",
                                   "data": images(1, 1).ravel().tolist()}]})


@case
def without_a_token(bed, reference):
    for path, status in (("/v2/health/live", 200), ("/v2/health/ready", 200), ("/v2", 401), ("/v2/models/lenet", 401),
                         ("/v2/models/lenet/ready", 401), ("/v2/models/nope", 401), ("/v2/models/stats", 401),
                         ("/metrics", 401), ("/nothing", 404)):
        got, headers, text = ask(bed.http_port, "GET", path)
        assert got == status, (path, got, text)
        assert (headers["WWW-Authenticate"] or "").startswith("Bearer") == (status == 401), path
    assert ask(bed.http_port, "POST", "/v2/models/lenet/infer", None, infer_body())[0] == 401
    assert ask(bed.http_port, "POST", "/v2/repository/models/lenet/load")[0] == 401
    assert ask(bed.http_port, "POST", "/v2/models/lenet/infer", STRANGER, infer_body())[0] == 401
    for method, message in (("ModelInfer", request()), ("ServerMetadata", service_pb2.ServerMetadataRequest()),
                            ("RepositoryModelLoad", service_pb2.RepositoryModelLoadRequest(model_name="lenet"))):
        for token in (None, STRANGER):
            assert call(bed, method, message, token)[0] == "UNAUTHENTICATED", method
    for method, message in (("ServerLive", service_pb2.ServerLiveRequest()),
                            ("ServerReady", service_pb2.ServerReadyRequest())):
        assert call(bed, method, message)[0] == "OK", method


@case
def rights_on_models(bed, reference):
    x = images(2, 4)
    state, answer = call(bed, "ModelInfer", request(x=x), READER)
    assert state == "OK", answer
    import numpy
    y = numpy.frombuffer(answer.raw_output_contents[0], numpy.float32).reshape(2, 10)
    assert near(y, reference(x))
    assert ask(bed.http_port, "POST", "/v2/models/lenet/infer", READER, infer_body())[0] == 200
    for path in ("", "/ready", "/config", "/stats", "/versions/1"):
        hidden = ask(bed.http_port, "GET", "/v2/models/configured" + path, READER)
        missing = ask(bed.http_port, "GET", "/v2/models/nope" + path, READER)
        assert hidden[0] == missing[0] == 404, (path, hidden, missing)
        assert hidden[2] == missing[2].replace(b"nope", b"configured"), (hidden, missing)
        assert ask(bed.http_port, "GET", "/v2/models/configured" + path, OPERATOR)[0] == 200
    assert call(bed, "ModelInfer", request("configured"), READER) == \
        ("NOT_FOUND", call(bed, "ModelInfer", request("nope"), READER)[1].replace("nope", "configured"))
    assert call(bed, "ModelInfer", request("configured"), OPERATOR)[0] == "OK"
    for method, kind in (("ModelReady", service_pb2.ModelReadyRequest), ("ModelConfig", service_pb2.ModelConfigRequest),
                         ("ModelMetadata", service_pb2.ModelMetadataRequest),
                         ("ModelStatistics", service_pb2.ModelStatisticsRequest)):
        assert call(bed, method, kind(name="configured"), READER)[0] == "NOT_FOUND", method
        assert call(bed, method, kind(name="lenet"), READER)[0] == "OK", method
        assert call(bed, method, kind(name="lenet"))[0] == "UNAUTHENTICATED", method


@case
def lists_are_cut_to_the_token(bed, reference):
    for token, names in ((READER, {"lenet"}), (OPERATOR, {"lenet", "configured"}), (SCRAPER, {"lenet", "configured"})):
        assert {m["name"] for m in json.loads(ask(bed.http_port, "POST", "/v2/repository/index", token)[2])} == names
        stats = json.loads(ask(bed.http_port, "GET", "/v2/models/stats", token)[2])["model_stats"]
        assert {m["name"] for m in stats} == names
        index = call(bed, "RepositoryIndex", service_pb2.RepositoryIndexRequest(), token)[1]
        assert {m.name for m in index.models} == names
        stats = call(bed, "ModelStatistics", service_pb2.ModelStatisticsRequest(), token)[1]
        assert {m.name for m in stats.model_stats} == names


@case
def health_of_a_model_needs_its_right(bed, reference):
    with grpc.insecure_channel(f"127.0.0.1:{bed.grpc_port}") as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        assert check(b"") == b"\x08\x01"
        for token, code in ((None, "UNAUTHENTICATED"), (READER, None), (SCRAPER, "NOT_FOUND")):
            try:
                check(b"\x0a\x05lenet", metadata=[("authorization", f"Bearer {token}")] if token else None)
                assert code is None, token
            except grpc.RpcError as e:
                assert e.code().name == code, e


@case
def metrics_need_their_right(bed, reference):
    for token, status in ((READER, 403), (OPERATOR, 403), (SCRAPER, 200)):
        assert ask(bed.http_port, "GET", "/metrics", token)[0] == status
    assert ask(bed.http_port, "POST", "/v2/models/lenet/infer", SCRAPER, infer_body())[0] == 404


@case
def a_stream_has_the_rights_of_its_token(bed, reference):
    import queue
    got = queue.Queue()
    c = client_grpc.InferenceServerClient(f"127.0.0.1:{bed.grpc_port}")
    t = client_grpc.InferInput("input", [1, 1, 32, 32], "FP32")
    t.set_data_from_numpy(images(1, 1))
    c.start_stream(lambda result, error: got.put((result, error)), headers={"authorization": f"Bearer {READER}"})
    for model, good in (("lenet", True), ("configured", False), ("lenet", True)):
        c.async_stream_infer(model, [t])
        result, error = got.get(timeout=20)
        assert (error is None) == good, (model, error)
    # a token that is taken out of the file is of no use, on an open stream either
    write_tokens(bed.tokens, tokens(reader=None))
    bed.process.send_signal(signal.SIGHUP)
    end = time.monotonic() + 20
    while ask(bed.http_port, "GET", "/v2", READER)[0] != 401:
        assert time.monotonic() < end
    c.async_stream_infer("lenet", [t])
    result, error = got.get(timeout=20)
    assert error is not None and "token" in str(error), error
    c.stop_stream()
    write_tokens(bed.tokens, "{")  # no good: the old ones stay
    bed.process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    assert ask(bed.http_port, "GET", "/v2", OPERATOR)[0] == 200
    write_tokens(bed.tokens, tokens())
    bed.process.send_signal(signal.SIGHUP)
    while ask(bed.http_port, "GET", "/v2", READER)[0] != 200:
        assert time.monotonic() < end


@case
def control_has_its_own_listeners(bed, reference):
    load = "/v2/repository/models/lenet/load"
    for where in (bed.http_port, bed.files["unix"]):
        status, _, text = ask(where, "POST", load, OPERATOR)
        assert status == 403 and b"--control-port" in text, (where, status, text)
    message = service_pb2.RepositoryModelLoadRequest(model_name="lenet")
    assert call(bed, "RepositoryModelLoad", message, OPERATOR)[0] == "PERMISSION_DENIED"
    for where in (bed.control_port, bed.files["control_unix"]):
        assert ask(where, "POST", load)[0] == 401
        assert ask(where, "POST", load, READER)[0] == 403
        status, _, text = ask(where, "POST", load, OPERATOR)
        assert status == 400 and b"explicit" in text, (where, status, text)  # it came through to the repository
        assert ask(where, "GET", "/v2/health/ready")[0] == 200


@case
def sockets_that_are_files(bed, reference):
    assert os.stat(bed.files["grpc_unix"]).st_mode & 0o777 == 0o600
    state, answer = call(bed, "ModelInfer", request(), READER, "unix:" + bed.files["grpc_unix"])
    assert state == "OK", answer
    assert call(bed, "ModelInfer", request(), None, "unix:" + bed.files["grpc_unix"])[0] == "UNAUTHENTICATED"
    assert ask(bed.files["unix"], "GET", "/v2/models/lenet", READER)[0] == 200


def explicit_control(moire, folder):
    """Without tokens: who reaches the control listener controls; without that listener, as Triton does."""
    for flags in ((), ("--control-port", "0")):
        bed = Bed(moire, folder, "--model-control-mode", "explicit", *flags)
        try:
            load = "/v2/repository/models/lenet/load"
            assert ask(bed.http_port, "POST", load)[0] == (403 if flags else 200)
            if flags:
                assert ask(bed.doors["control_port"], "POST", load)[0] == 200
            assert ask(bed.http_port, "POST", "/v2/models/lenet/infer", None, infer_body())[0] == 200
        finally:
            assert bed.stop() == 0


def bad_files(moire, folder):
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "tokens")
        for mode, text, what in ((0o644, tokens(), "chmod 600"), (0o600, "{", "no JSON"),
                                 (0o600, tokens(reader={"token": "short"}), "'reader'")):
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            os.chmod(path, mode)
            done = subprocess.run([moire, "serve", "--model-repository", folder, "--http-port", "0", "--grpc-port", "0",
                                   "--metrics-port", "-1", "--token-file", path],
                                  capture_output=True, text=True, timeout=60)
            assert done.returncode > 0 and what in done.stderr, done


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moire", default="build/moire")
    moire = os.path.abspath(parser.parse_args().moire)
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as place:
        reference = make_repository(moire, folder)
        files = {n: os.path.join(place, n) for n in ("unix", "grpc_unix", "control_unix")}
        path = os.path.join(place, "tokens.json")
        write_tokens(path, tokens())
        bed = Bed(moire, folder, "--token-file", path, "--control-port", "0",
                  *(w for n, p in files.items() for w in ("--" + n.replace("_", "-"), p)))
        bed.files, bed.tokens, bed.control_port = files, path, bed.doors["control_port"]
        try:
            bed.wait()
            good = [run(c.__name__, lambda c=c: c(bed, reference)) for c in CASES]
        finally:
            code = bed.stop()
        good.append(run("it ends and takes its sockets away", lambda: [
            None for ok in (code == 0, not any(map(os.path.exists, files.values()))) if not ok and 1 / 0]))
        good.append(run("explicit_control", lambda: explicit_control(moire, folder)))
        good.append(run("bad_files", lambda: bad_files(moire, folder)))
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
