#!/usr/bin/env python3
"""check_cancels.py - clients of `moire serve` that leave at random moments, while models are unloaded and loaded.

Clients of HTTP close their connection after a part of the request, before the answer, or within it; calls and streams
of gRPC are cancelled.  Afterwards the record of the run says that every query that was taken was answered once, the
counters add up, and the server serves as before.

    check_cancels.py --moire build/moire --count 2000
"""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import socket
import struct
import sys
import tempfile
import threading
import time

import tritonclient.grpc

from check_overload import binary_body
from check_stuck import get, infer, metric, tensor
from serve_bed import Bed, images, make_repository, near

MODELS = ("lenet", "configured")


def request(model, x):
    body, headers = binary_body(x)
    lines = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    return f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\n{lines}Content-Length: {len(body)}\r\n\r\n".encode() + body


def leave_http(bed, draw, whole, n):
    """Connections that are closed, politely or by a reset, at some moment of their request or its answer."""
    for _ in range(n):
        data = whole[draw.randrange(len(whole))]
        with socket.create_connection(("127.0.0.1", bed.http_port), timeout=30) as s:
            if draw.random() < 0.5:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # leaves by a reset
            kind = draw.randrange(10)
            try:
                s.sendall(data if kind else data[:draw.randrange(len(data))])
                if kind in (1, 2):
                    s.recv(16)
                elif kind > 2:
                    time.sleep(draw.random() * 0.002)
            except OSError:
                pass
    return n


def leave_grpc(bed, draw, x, n):
    c = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{bed.grpc_port}")
    outcomes, done = collections.Counter(), threading.Semaphore(64)

    def ended(result, error):
        outcomes["ok" if error is None else str(error.status()).rsplit(".", 1)[-1]] += 1
        done.release()

    for i in range(n):
        done.acquire()
        call = c.async_infer(MODELS[draw.randrange(len(MODELS))], tensor(tritonclient.grpc, x), ended)
        time.sleep(draw.random() * 0.001)
        call.cancel()
        if i % 100 == 99:  # a stream with some requests under way
            stream = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{bed.grpc_port}")
            stream.start_stream(lambda result, error: None)
            for _ in range(4):
                stream.async_stream_infer("lenet", tensor(tritonclient.grpc, x))
            time.sleep(draw.random() * 0.002)
            stream.stop_stream(cancel_requests=True)
            stream.close()
    for _ in range(64):
        assert done.acquire(timeout=60), "a call without an end"
    known = {"ok", "CANCELLED", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "INVALID_ARGUMENT", "NOT_FOUND"}
    assert set(outcomes) <= known, outcomes
    return outcomes


def exchange(bed, ends):
    """The second model is unloaded and loaded again while it is used."""
    n = 0
    while not ends.wait(0.1):
        for what in ("unload", "load"):
            status, text = get(bed, f"/v2/repository/models/{MODELS[1]}/{what}", b"{}")
            assert status == 200, (status, text)
        n += 1
    return n


def outcomes_of(bed):
    """Requests that ended, and those that have not."""
    lines = get(bed, "/metrics")[1].splitlines()
    ended = sum(float(m.rsplit(" ", 1)[1]) for m in lines if m.startswith("moire_requests_total{"))
    return ended, sum(metric(bed, "moire_requests_pending", m) for m in MODELS)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moire", default="build/moire")
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=1)
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, tempfile.NamedTemporaryFile(suffix=".history") as record:
        reference = make_repository(os.path.abspath(o.moire), folder)
        bed = Bed(os.path.abspath(o.moire), folder, "--model-control-mode", "explicit", "--record", record.name)
        try:
            for m in MODELS:
                bed.http.load_model(m)
            x = images(1, 1)
            whole, ends, began = [request(m, x) for m in MODELS], threading.Event(), time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                changes = pool.submit(exchange, bed, ends)
                people = [pool.submit(leave_http, bed, random.Random(o.seed * 100 + i), whole, o.count // 6)
                          for i in range(3)]
                people += [pool.submit(leave_grpc, bed, random.Random(o.seed * 100 + i), x, o.count // 6)
                           for i in range(3, 6)]
                left = [p.result() for p in people]
                ends.set()
                exchanges = changes.result()
            took = time.monotonic() - began
            while outcomes_of(bed)[1]:  # who has left is noticed within a look or two
                assert time.monotonic() - began - took < 60, "queries that do not end"
                time.sleep(0.05)
            for m in MODELS:
                assert near(infer(bed, m, x), reference(x))
            ended = outcomes_of(bed)[0]
        finally:
            assert bed.stop() == 0
        with open(record.name, encoding="utf-8") as f:  # which the server has put in place of the empty one
            history = f.read()
    kinds = {k: history.count(f" {k} ") for k in ("ACCEPT", "RESOLVE", "CALLBACK_IN", "CALLBACK_OUT")}
    is_whole = "# dropped 0\n" in history  # else it does not reach back to the beginning
    if is_whole:
        assert kinds["ACCEPT"] > 0 and len(set(kinds.values())) == 1, kinds
    print(json.dumps({"left": o.count // 6 * 6, "seconds": round(took, 1), "exchanges": exchanges, "ended": ended,
                      "accepted": kinds["ACCEPT"], "record_is_whole": is_whole, "grpc": dict(sum(left[3:], collections.Counter()))}))
    print("ok      every query that was taken was answered once")
    return 0


if __name__ == "__main__":
    sys.exit(main())
