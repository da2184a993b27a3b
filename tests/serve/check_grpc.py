#!/usr/bin/env python3
"""check_grpc.py - `moire serve` over gRPC: tritonclient, grpcio, and clients that break the rules of HTTP/2.

Answers are compared with ONNX Runtime's.  Prints a line for each case and one with the sum.

    check_grpc.py --moire build/moire
"""
import argparse
import asyncio
import concurrent.futures
import contextlib
import os
import queue
import re
import socket
import struct
import sys
import threading
import time

import grpc
import numpy
import tritonclient.grpc as client
import tritonclient.grpc.aio as client_aio
from tritonclient.grpc import model_config_pb2, service_pb2
from tritonclient.utils import InferenceServerException

from serve_bed import Bed, images, near, run, running

CASES = []
INFER = b"/inference.GRPCInferenceService/ModelInfer"


def case(function):
    CASES.append(function)
    return function


def tensor(x, kind=client):
    t = kind.InferInput("input", list(x.shape), "FP32")
    t.set_data_from_numpy(x)
    return t


def door(bed):
    return client.InferenceServerClient(f"127.0.0.1:{bed.grpc_port}")


def refused(call, status, text=""):
    try:
        call()
    except InferenceServerException as e:
        assert status in str(e) and text in str(e), e
        return
    raise AssertionError("it was answered")


@case
def field_numbers_are_tritons(bed, reference):
    """Every field that serve/grpc/inference.proto declares is one of tritonclient's, and has its number."""
    path = os.path.join(os.path.dirname(__file__), "..", "..", "serve", "grpc", "inference.proto")
    known = {**service_pb2.DESCRIPTOR.message_types_by_name, **model_config_pb2.DESCRIPTOR.message_types_by_name}
    here, seen = [], 0
    with open(path, encoding="utf-8") as proto:
        for line in proto:
            if found := re.search(r"^ *message (\w+) {", line):
                here.append(here[-1].nested_types_by_name[found[1]] if here else known[found[1]])
            elif re.search(r"^ *(oneof|enum) \w+ {", line):
                here.append(here[-1] if here else None)
            found = re.search(r"(?:map<[^>]*>|[\w.]+) (\w+) = (\d+);", line)
            if found and here and here[-1] is not None:
                assert here[-1].fields_by_name[found[1]].number == int(found[2]), (here[-1].name, line)
                seen += 1
            here = here[:len(here) - 1] if "}" in line else here
    assert seen > 80, seen


@case
def metadata_and_configuration(bed, reference):
    c = door(bed)
    assert c.is_server_live() and c.is_server_ready() and c.is_model_ready("lenet", "1")
    assert "statistics" in c.get_server_metadata().extensions
    m = c.get_model_metadata("lenet", as_json=True)
    assert m["inputs"] == [{"name": "input", "datatype": "FP32", "shape": ["-1", "1", "32", "32"]}], m
    config = c.get_model_config("configured").config
    assert config.max_batch_size == 8 and list(config.input[0].dims) == [1, 32, 32], config
    assert config.parameters["qos_ms"].string_value == "50", config
    assert config.dynamic_batching.priority_levels == 3, config
    assert {m.name: m.state for m in c.get_model_repository_index().models} == {
        "lenet": "READY", "configured": "READY"}


@case
def health(bed, reference):
    with grpc.insecure_channel(f"127.0.0.1:{bed.grpc_port}") as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        for service, answer in ((b"", b"\x08\x01"), (b"\x0a\x05lenet", b"\x08\x01")):
            assert check(service) == answer
        try:
            check(b"\x0a\x04nope")
            raise AssertionError("a service that is not there is healthy")
        except grpc.RpcError as e:
            assert e.code() == grpc.StatusCode.NOT_FOUND


@contextlib.contextmanager
def watching(port, *services):
    """For each service the states that its watcher is told, as they come; then the status with which it ends."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
        calls, told = [], []
        for service in services:
            call, states = watch(bytes([10, len(service)]) + service.encode() if service else b""), queue.Queue()

            def listen(call=call, states=states):
                try:
                    for message in call:
                        states.put(("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")[message[1]])
                except grpc.RpcError:
                    pass
                states.put(call.code().name)
            threading.Thread(target=listen, daemon=True).start()
            calls.append(call)
            told.append(lambda states=states: states.get(timeout=20))
        yield told, calls


@case
def watchers_are_told_at_once(bed, reference):
    services = ["", "inference.GRPCInferenceService", "lenet", "nope"]
    with watching(bed.grpc_port, *services) as (told, calls):
        assert [say() for say in told] == ["SERVING"] * 3 + ["SERVICE_UNKNOWN"]
        calls[0].cancel()
        assert told[0]() == "CANCELLED"
    still_serves(bed, reference)


@case
def watchers_count_as_streams(bed, reference):
    """As many as a connection may have open; a further one waits, and another connection does not."""
    with watching(bed.grpc_port, *["lenet"] * 128) as (told, calls):
        assert all(say() == "SERVING" for say in told)
        s = connect(bed)
        body = b"\0\0\0\0\7\x0a\5lenet"
        for stream in range(1, 300, 2):
            s.sendall(frame(HEADERS, END_HEADERS, stream, request_headers(b"/grpc.health.v1.Health/Watch")) +
                      frame(DATA, END_STREAM, stream, body))
        s.settimeout(20)
        seen = b""
        while seen.count(b"\0\0\4\3\0\0\0") < 150 - 128:  # RST_STREAM
            seen += s.recv(65536)
        s.close()
        still_serves(bed, reference)


@case
def answers_are_those_of_onnx_runtime_and_http(bed, reference):
    c = door(bed)
    for n in (1, 2, 8, 3):
        x = images(n, n)
        y = c.infer("lenet", [tensor(x)], request_id=f"q{n}")
        assert y.get_response().id == f"q{n}" and y.get_response().model_version == "1"
        assert near(y.as_numpy("output"), reference(x))
        over_http = bed.http.infer("lenet", [tensor_http(x)]).as_numpy("output")
        assert numpy.array_equal(y.as_numpy("output"), over_http)
    y = c.infer("lenet", [tensor(images(1, 1))], outputs=[client.InferRequestedOutput("output")])
    assert near(y.as_numpy("output"), reference(images(1, 1)))


def tensor_http(x):
    import tritonclient.http as http
    return tensor(x, http)


@case
def typed_contents(bed, reference):
    x = images(1, 9)
    c = door(bed)  # its stub does not outlive it
    request = service_pb2.ModelInferRequest(model_name="lenet")
    t = request.inputs.add(name="input", datatype="FP32", shape=list(x.shape))
    t.contents.fp32_contents.extend(x.ravel().tolist())
    y = numpy.frombuffer(c._client_stub.ModelInfer(request).raw_output_contents[0], numpy.float32)
    assert near(y.reshape(1, 10), reference(x))
    t.contents.int_contents.append(1)
    for field in ("bool_contents", "fp32_contents", "int_contents"):  # two lists; one of another type; none
        t.contents.ClearField(field)
        try:
            c._client_stub.ModelInfer(request)
            raise AssertionError("wrong contents were taken")
        except grpc.RpcError as e:
            assert e.code() == grpc.StatusCode.INVALID_ARGUMENT and "input" in e.details()


@case
def large_and_compressed(bed, reference):
    x = images(400, 4)  # 1.6 MB: more than a window
    c = door(bed)
    assert near(c.infer("lenet", [tensor(x)]).as_numpy("output"), reference(x))
    for coding in ("gzip", "deflate"):
        y = c.infer("lenet", [tensor(x[:9])], compression_algorithm=coding)
        assert near(y.as_numpy("output"), reference(x[:9]))


@case
def asynchronous_requests(bed, reference):
    async def walk():
        async with client_aio.InferenceServerClient(f"127.0.0.1:{bed.grpc_port}") as c:
            xs = [images(1 + i % 3, 50 + i) for i in range(150)]
            ys = await asyncio.gather(*(c.infer("lenet", [tensor(x)]) for x in xs))
            return all(near(y.as_numpy("output"), reference(x)) for x, y in zip(xs, ys))

    assert asyncio.run(walk())


@case
def nobody_gets_anothers_answer(bed, reference):
    xs = [images(1 + i % 3, 1000 + i) for i in range(60)]
    right = [reference(x) for x in xs]

    def walk(k):
        c = door(bed)
        for i in range(200):
            at = (i * 7 + k * 13) % len(xs)
            y = c.infer("lenet", [tensor(xs[at])], request_id=f"{k}-{i}")
            assert y.get_response().id == f"{k}-{i}" and near(y.as_numpy("output"), right[at])

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(walk, range(8)))


@case
def a_stream_is_answered_in_order(bed, reference):
    answers, c = queue.Queue(), door(bed)
    c.start_stream(lambda result, error: answers.put((result, error)))
    xs = [images(1 + i % 2, i) for i in range(100)]
    for i, x in enumerate(xs):
        c.async_stream_infer("lenet", [tensor(x)], request_id=str(i))
        if i == 50:
            c.async_stream_infer("nope", [tensor(x)], request_id="bad")
    for i, x in enumerate(xs):
        y, error = answers.get(timeout=30)
        assert error is None and y.get_response().id == str(i), (i, error)
        assert near(y.as_numpy("output"), reference(x))
        if i == 50:
            y, error = answers.get(timeout=30)
            assert y is None and "nope" in str(error)
    c.stop_stream()


@case
def errors_have_their_status(bed, reference):
    c, x = door(bed), images(1, 1)
    refused(lambda: c.infer("nope", [tensor(x)]), "NOT_FOUND", "nope")
    refused(lambda: c.infer("lenet", [tensor(x)], model_version="9"), "NOT_FOUND")
    refused(lambda: c.infer("lenet", [tensor(x.reshape(1, 2, 512))]), "INVALID_ARGUMENT", "input")
    refused(lambda: c.infer("lenet", [tensor(x)], outputs=[client.InferRequestedOutput("y")]),
            "INVALID_ARGUMENT", "'y'")
    refused(lambda: c.infer("lenet", [tensor(x)], sequence_id=7), "UNIMPLEMENTED", "sequences")
    refused(lambda: c.load_model("lenet"), "INVALID_ARGUMENT", "explicit")
    refused(lambda: c.infer("configured", [tensor(images(8, 1))], timeout=1), "DEADLINE_EXCEEDED")
    with grpc.insecure_channel(f"127.0.0.1:{bed.grpc_port}") as channel:
        for method, body, status in (("/inference.GRPCInferenceService/Nope", b"", "UNIMPLEMENTED"),
                                     (INFER.decode(), b"\xff\xff", "INVALID_ARGUMENT"),
                                     (INFER.decode(), b"\x2a\x00" * 500_000, "INVALID_ARGUMENT"),
                                     (INFER.decode(), bytes(65 << 20), "RESOURCE_EXHAUSTED")):
            try:
                channel.unary_unary(method)(body)
                raise AssertionError(f"{method} with {body[:4]} was answered")
            except grpc.RpcError as e:
                assert e.code().name == status, (method, e)


@case
def clients_that_cancel(bed, reference):
    c, x = door(bed), images(64, 1)
    done = queue.Queue()
    for i in range(300):
        call = c.async_infer("lenet", [tensor(x)], callback=lambda result, error: done.put(error), client_timeout=9)
        if i % 3:
            call.cancel()
    kinds = [done.get(timeout=60) for _ in range(300)]
    assert sum(k is None for k in kinds) >= 100
    assert near(c.infer("lenet", [tensor(x)]).as_numpy("output"), reference(x))


# --- clients that write their own frames -------------------------------------------------------------------
def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def literal(name, value):
    """A header field that is neither indexed nor compressed (RFC 7541, section 6.2.2)."""
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


def request_headers(path=INFER):
    return b"".join(literal(*f) for f in ((b":method", b"POST"), (b":scheme", b"http"), (b":path", path),
                                          (b":authority", b"x"), (b"content-type", b"application/grpc"),
                                          (b"te", b"trailers")))


DATA, HEADERS, RST, SETTINGS, PING, CONTINUATION = 0, 1, 3, 4, 6, 9
END_STREAM, END_HEADERS = 1, 4


def message_of(x):
    m = service_pb2.ModelInferRequest(model_name="lenet", raw_input_contents=[x.tobytes()])
    m.inputs.add(name="input", datatype="FP32", shape=list(x.shape))
    body = m.SerializeToString()
    return struct.pack(">BI", 0, len(body)) + body


def connect(bed, settings=b""):
    s = socket.create_connection(("127.0.0.1", bed.grpc_port), timeout=20)
    s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, settings))
    return s


def send_until_closed(s, parts):
    try:
        for part in parts:
            s.sendall(part)
        while s.recv(65536):
            pass
    except OSError:
        pass
    finally:
        s.close()


def data_frames(stream, body):
    pieces = [body[i:i + 16000] for i in range(0, len(body), 16000)]
    return b"".join(frame(DATA, END_STREAM if i + 1 == len(pieces) else 0, stream, p) for i, p in enumerate(pieces))


def still_serves(bed, reference):
    x = images(1, 77)
    began = time.monotonic()
    assert near(door(bed).infer("lenet", [tensor(x)], client_timeout=10).as_numpy("output"), reference(x))
    assert bed.process.poll() is None
    return time.monotonic() - began


@case
def rapid_reset(bed, reference):
    """CVE-2023-44487: requests that are taken back as soon as they are sent."""
    body = message_of(images(1, 1))

    def parts():
        for k in range(4000):
            stream = 2 * k + 1
            yield (frame(HEADERS, END_HEADERS, stream, request_headers()) + data_frames(stream, body) +
                   frame(RST, 0, stream, struct.pack(">I", 8)))

    send_until_closed_in_time(bed, parts(), reference)


def send_until_closed_in_time(bed, parts, reference, settings=b""):
    s = connect(bed, settings)
    s.settimeout(3)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        attack = pool.submit(send_until_closed, s, parts)
        still_serves(bed, reference)
        attack.result()
    still_serves(bed, reference)


@case
def continuation_flood(bed, reference):
    """CVE-2024-28182: a header block without an end."""
    def parts():
        yield frame(HEADERS, 0, 1, request_headers())
        for k in range(20000):
            yield frame(CONTINUATION, 0, 1, literal(b"a%d" % k, b"b" * 100))

    send_until_closed_in_time(bed, parts(), reference)


@case
def a_window_that_stays_shut(bed, reference):
    """Answers that nobody takes do not keep others from theirs."""
    body = message_of(images(1, 1))
    parts = [frame(HEADERS, END_HEADERS, s, request_headers()) + data_frames(s, body) for s in range(1, 101, 2)]
    send_until_closed_in_time(bed, parts, reference, settings=struct.pack(">HI", 4, 0))


@case
def malformed_frames(bed, reference):
    rng = numpy.random.default_rng(5)
    good = frame(HEADERS, END_HEADERS, 1, request_headers()) + data_frames(1, message_of(images(1, 1)))
    for _ in range(200):
        bad = bytearray(good)
        for at in rng.integers(0, min(len(bad), 400), 4):
            bad[at] = rng.integers(0, 256)
        s = connect(bed)
        s.settimeout(0.05)
        send_until_closed(s, [bytes(bad)])
    s = socket.create_connection(("127.0.0.1", bed.grpc_port))
    send_until_closed(s, [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"])
    still_serves(bed, reference)


@case
def many_connections(bed, reference):
    """More than the door holds: the rest is turned away, and there is room again after them."""
    crowd = []
    for _ in range(1100):
        try:
            crowd.append(connect(bed))
        except OSError:
            break
    for s in crowd:
        s.close()
    time.sleep(0.2)
    still_serves(bed, reference)


# --- the end -----------------------------------------------------------------------------------------------
def control(moire, folder):
    bed = Bed(moire, folder, "--model-control-mode", "explicit")
    try:
        c = door(bed)
        assert not c.get_model_repository_index(as_json=True)["models"][0].get("state")
        c.load_model("lenet")
        assert c.is_model_ready("lenet")
        c.unload_model("lenet")
        assert not c.is_model_ready("lenet")
        with watching(bed.grpc_port, "configured", "later") as (told, _):
            assert told[0]() == told[1]() == "SERVICE_UNKNOWN"
            for change, state in (c.load_model, "SERVING"), (c.unload_model, "SERVICE_UNKNOWN"):
                change("configured")
                while (say := told[0]()) != state:  # while it comes or goes
                    assert say == "NOT_SERVING"
            os.symlink(os.path.join(folder, "lenet.onnx"), os.path.join(folder, "later.onnx"))
            c.load_model("later")
            while told[1]() != "SERVING":  # it is loaded first
                pass
            os.remove(os.path.join(folder, "later.onnx"))
        refused(lambda: c.load_model("nope"), "NOT_FOUND", "nope")
        refused(lambda: c.load_model("lenet", config="{}"), "UNIMPLEMENTED", "config")
    finally:
        assert bed.stop() == 0


def end_under_load(moire, folder, reference):
    """SIGTERM: what was taken is answered; what was not is refused.  An open stream does not hold up the end."""
    bed = Bed(moire, folder)
    bed.wait()
    x, lost, answered = images(1, 1), [], []
    right = reference(x)
    idle = door(bed)
    idle.start_stream(lambda result, error: None)
    idle.async_stream_infer("lenet", [tensor(x)])
    watchers = contextlib.ExitStack()
    told, _ = watchers.enter_context(watching(bed.grpc_port, "", "nope"))
    assert told[0]() == "SERVING" and told[1]() == "SERVICE_UNKNOWN"

    def walk(_):
        c = door(bed)
        while True:
            try:
                y = c.infer("lenet", [tensor(x)]).as_numpy("output")
                (answered if near(y, right) else lost).append(1)
            except InferenceServerException as e:
                if e.status() != "StatusCode.UNAVAILABLE":
                    lost.append(str(e))
                return

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        walks = [pool.submit(walk, i) for i in range(4)]
        time.sleep(0.5)
        began = time.monotonic()
        code = bed.stop()
        took = time.monotonic() - began
        for w in walks:
            w.result()
    idle.stop_stream()
    assert [told[0](), told[0](), told[1]()] == ["NOT_SERVING", "UNAVAILABLE", "UNAVAILABLE"]
    watchers.close()
    assert code == 0 and answered and not lost, (code, len(answered), lost[:3])
    assert took < 20, took  # not the 30 seconds that clients may take to read


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moire", default="build/moire")
    moire = os.path.abspath(parser.parse_args().moire)
    with running(moire) as (bed, folder, reference):
        good = [run(c.__name__, lambda c=c: c(bed, reference)) for c in CASES]
        good.append(run("it ends when asked", lambda: [None][bed.stop()]))
        good.append(run("control", lambda: control(moire, folder)))
        good.append(run("end_under_load", lambda: end_under_load(moire, folder, reference)))
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
