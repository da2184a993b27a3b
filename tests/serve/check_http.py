#!/usr/bin/env python3
"""check_http.py - large bodies, clients that leave, and bounds of all bodies together, over HTTP.

What is large is parsed and written by other threads than what is small; answers are the same.
"""
import argparse
import gzip
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import numpy

from serve_bed import Bed, images, near, run, running

BODY = 100000
LARGEST_BODIES = 16


def post(url, body, headers=None):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers or {})) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as e:
        return e.code, e.read(), e.headers


def as_json(x):
    return json.dumps({"id": "large", "inputs": [{"name": "input", "shape": list(x.shape), "datatype": "FP32",
                                                   "data": x.tolist()}]}).encode()


def check_large_json(bed, reference):
    x = images(8, 3)
    body = as_json(x)
    assert len(body) > 100000
    url = bed.url + "/v2/models/configured/infer"
    wrong = []

    def ask(sent, headers):
        status, text, got = post(url, sent, headers)
        text = gzip.decompress(text) if got.get("Content-Encoding") == "gzip" else text
        answer = json.loads(text)
        y = numpy.array(answer.get("outputs", [{}])[0].get("data", []), numpy.float32).reshape(-1, 10)
        if status != 200 or answer["id"] != "large" or not near(y, reference(x)):
            wrong.append((status, text[:200]))

    kinds = [(body, {}), (gzip.compress(body), {"Content-Encoding": "gzip"}), (body, {"Accept-Encoding": "gzip"})]
    threads = [threading.Thread(target=ask, args=kinds[i % 3]) for i in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong[0]


def check_large_malformed(bed):
    body = as_json(images(8, 3))
    for bad, word in ((body[:-20], "JSON"), (body.replace(b"FP32", b"INT8"), "INT8"),
                      (body.replace(b'"input"', b'"other"'), "other")):
        status, text, _ = post(bed.url + "/v2/models/configured/infer", bad)
        assert status == 400 and word in json.loads(text)["error"], (status, text[:200])
    status, text, _ = post(bed.url + "/v2/models/configured/infer", gzip.compress(body)[:-300],
                           {"Content-Encoding": "gzip"})
    assert status == 400, (status, text[:200])


def metric(bed, name, model, outcome):
    text = urllib.request.urlopen(bed.url + "/metrics").read().decode()
    found = re.search(rf'{name}{{model="{model}",version="1",outcome="{outcome}"}} (\d+)', text)
    return int(found[1]) if found else 0


def start_request(bed, model, n):
    s = socket.create_connection(("127.0.0.1", bed.http_port))
    s.sendall(f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {n}\r\n"
              "Inference-Header-Content-Length: 0\r\n\r\n".encode())
    return s


def leave(bed, ahead, leaving, n):
    """Of ahead + leaving queries for one core the last lose their clients; returns how many of these were cancelled.

    A client may leave too late, after its answer was made: then its query counts as answered.
    """
    def outcomes():
        return [metric(bed, "moire_requests_total", "slow", o) for o in ("ok", "cancelled")]

    before = outcomes()
    sockets = [start_request(bed, "slow", n) for _ in range(ahead + leaving)]
    for s in sockets:
        s.sendall(bytes(n))
    for s in sockets[ahead:]:
        s.close()
    for s in sockets[:ahead]:
        answer = s.recv(4096)
        assert answer.startswith(b"HTTP/1.1 200"), answer
        s.close()
    end = time.monotonic() + 30
    ok = cancelled = 0
    while time.monotonic() < end and ok + cancelled < ahead + leaving:
        ok, cancelled = [now - then for now, then in zip(outcomes(), before)]
        time.sleep(0.05)
    assert ok + cancelled == ahead + leaving and cancelled <= leaving, (ok, cancelled)
    return cancelled


def check_leaving(moire):
    """Queries whose clients leave while they wait are cancelled, and each is counted once."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([moire, "zoo", "build", "resnet18", "-o", os.path.join(folder, "slow.onnx")], check=True,
                       stdout=subprocess.DEVNULL)
        bed = Bed(moire, folder, "--threads", "1")
        try:
            bed.wait()
            cancelled = [0]
            while max(cancelled) < 8 and len(cancelled) < 10:
                cancelled.append(leave(bed, 16, 8, 3 * 224 * 224 * 4))
            assert max(cancelled) == 8, cancelled
        finally:
            assert bed.stop() == 0


def check_budget(moire, folder):
    """So many bodies may be under way as all fit; what comes beside them is refused until one is gone."""
    bed = Bed(moire, folder, "--http-max-input-size", str(BODY))
    try:
        bed.wait()
        assert post(bed.url + "/v2/models/lenet/infer", bytes(BODY + 1))[0] == 413
        sockets = [start_request(bed, "lenet", BODY) for _ in range(LARGEST_BODIES)]
        for s in sockets:
            s.sendall(b"x")
        end = time.monotonic() + 30
        status = 0
        while time.monotonic() < end and status != 503:
            status, text, headers = post(bed.url + "/v2/models/lenet/infer", as_json(images(1, 1)))
        assert status == 503 and "as much" in json.loads(text)["error"] and headers["Retry-After"], (status, text)
        for s in sockets:
            s.close()
        while time.monotonic() < end and status != 200:
            status = post(bed.url + "/v2/models/lenet/infer", as_json(images(1, 1)))[0]
        assert status == 200
    finally:
        assert bed.stop() == 0


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--moire", default="build/moire")
    moire = os.path.abspath(p.parse_args().moire)
    with running(moire) as (bed, folder, reference):
        cases = [("large JSON, compressed or not", lambda: check_large_json(bed, reference)),
                 ("large and malformed", lambda: check_large_malformed(bed)),
                 ("clients that leave", lambda: check_leaving(moire)),
                 ("memory of all bodies", lambda: check_budget(moire, folder))]
        done = [run(name, call) for name, call in cases]
    sys.exit(not all(done))


if __name__ == "__main__":
    main()
