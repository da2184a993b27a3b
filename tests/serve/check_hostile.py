#!/usr/bin/env python3
"""check_hostile.py - `moire serve` beside clients that break the rules of HTTP/1.1, and where descriptors, disks and
cores run short; and how it ends.

After each case a stock client is answered as ONNX Runtime answers.

    check_hostile.py --moire build/moire
"""
import argparse
import concurrent.futures
import gzip
import json
import os
import queue
import re
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import tritonclient.grpc as client_grpc
import tritonclient.http as client_http
from geventhttpclient.response import HTTPConnectionClosed
from tritonclient.utils import InferenceServerException

from check_grpc import (END_HEADERS, HEADERS, connect as connect_grpc, data_frames, frame, message_of, request_headers)
from serve_bed import Bed, images, make_repository, near, run

CASES = []


def case(function):
    CASES.append(function)
    return function


def tensor(kind, x):
    t = kind.InferInput("input", list(x.shape), "FP32")
    t.set_data_from_numpy(x)
    return t


def clients(bed):
    return ((client_http, client_http.InferenceServerClient(f"127.0.0.1:{bed.http_port}")),
            (client_grpc, client_grpc.InferenceServerClient(f"127.0.0.1:{bed.grpc_port}")))


def still_serves(bed, reference):
    x = images(2, 77)
    for kind, c in clients(bed):
        assert near(c.infer("lenet", [tensor(kind, x)]).as_numpy("output"), reference(x))
    assert bed.process.poll() is None


def connect(bed):
    return socket.create_connection(("127.0.0.1", bed.http_port), timeout=20)


def exchange(bed, *parts):
    """What the server sends until it closes or has nothing more to say for a second."""
    got = b""
    with connect(bed) as s:
        try:
            for part in parts:
                s.sendall(part)
            s.settimeout(1)
            while piece := s.recv(65536):
                got += piece
        except OSError:
            pass
    return got


def statuses(got):
    return [int(s) for s in re.findall(rb"HTTP/1\.1 (\d{3}) ", got)]


def beside(bed, reference, attack):
    """Others are answered while it goes on, and after it."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        done = pool.submit(attack)
        still_serves(bed, reference)
        result = done.result()
    still_serves(bed, reference)
    return result


INFER = b"POST /v2/models/lenet/infer HTTP/1.1\r\nHost: x\r\n"
LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"


# --- slow and large --------------------------------------------------------------------------------------------------
@case
def slow_headers(bed, reference):
    """300 clients that send a byte of their headers now and then."""
    def attack():
        crowd = [connect(bed) for _ in range(300)]
        for at in range(8):
            for s in crowd:
                s.sendall(LIVE[at:at + 1])
            time.sleep(0.2)
        for s in crowd:
            s.close()

    beside(bed, reference, attack)


class HeadsWithoutAnEnd:
    """Clients that send a byte of the head of a request now and then, for ever: from before the other cases on, until
    the server has had enough.  One has had an answer before, one has not, and one is in the path itself."""

    def __init__(self, bed):
        self.crowd = [connect(bed) for _ in range(3)]
        self.crowd[1].sendall(LIVE)
        assert self.crowd[1].recv(65536).startswith(b"HTTP/1.1 200")
        self.crowd[0].sendall(b"GET /")
        for s in self.crowd[1:]:
            s.sendall(b"GET /v2/health/live HTTP/1.1\r\nx: ")
        self.began, self.closed = time.monotonic(), []
        self.thread = threading.Thread(target=self.send, daemon=True)
        self.thread.start()

    def send(self):
        while len(self.closed) < len(self.crowd):
            time.sleep(0.5)
            for s in self.crowd:
                if s in self.closed:
                    continue
                try:
                    s.sendall(b"a")
                except OSError:
                    self.closed.append(s)

    def check(self):
        self.thread.join(120)
        print(json.dumps({"heads_without_an_end": len(self.crowd), "closed": len(self.closed),
                          "last_after_s": round(time.monotonic() - self.began, 1)}))
        assert len(self.closed) == len(self.crowd)


@case
def slow_bodies(bed, reference):
    def attack():
        crowd = [connect(bed) for _ in range(100)]
        for s in crowd:
            s.sendall(INFER + b"Content-Length: 100\r\n\r\n")
        for _ in range(5):
            for s in crowd:
                s.sendall(b"x")
            time.sleep(0.2)
        for s in crowd:
            s.close()

    beside(bed, reference, attack)


@case
def a_body_of_small_chunks(bed, reference):
    """3 MB in chunks of one byte."""
    head = INFER + b"Transfer-Encoding: chunked\r\n\r\n"
    got = beside(bed, reference, lambda: exchange(bed, head, b"1\r\nx\r\n" * 500_000, b"0\r\n\r\n"))
    assert all(s >= 400 for s in statuses(got)), got[:200]


@case
def chunks_that_are_none(bed, reference):
    head = INFER + b"Transfer-Encoding: chunked\r\n\r\n"
    for chunk in (b"-1\r\nx\r\n", b"fffffffffffffffffffff\r\nx", b"zz\r\nx\r\n0\r\n\r\n", b"1;" + b"a" * 100_000,
                  b"5\r\nab", b"1\r\nxy\r\n0\r\n\r\n"):
        got = exchange(bed, head, chunk)
        assert all(s >= 400 for s in statuses(got)), (chunk[:20], got[:200])
    still_serves(bed, reference)


@case
def a_hundred_thousand_headers(bed, reference):
    got = beside(bed, reference, lambda: exchange(
        bed, INFER, *(b"".join(b"x-%d-%d: y\r\n" % (k, i) for i in range(1000)) for k in range(100)), b"\r\n"))
    assert all(s >= 400 for s in statuses(got)), got[:200]
    for line in (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nx: " + b"b" * 200_000 + b"\r\n\r\n"):
        got = exchange(bed, line)
        assert all(s >= 400 for s in statuses(got)), got[:200]
    still_serves(bed, reference)


@case
def bodies_that_expand(bed, reference):
    """Eight at once that are small and would be 1 GB each."""
    bomb = gzip.compress(bytes(1 << 30), 1)
    head = INFER + b"Content-Encoding: gzip\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for got in pool.map(lambda _: exchange(bed, head, bomb), range(8)):
            assert all(s >= 400 for s in statuses(got)), got[:200]
    still_serves(bed, reference)


# --- lengths ---------------------------------------------------------------------------------------------------------
@case
def lengths_that_are_none(bed, reference):
    for length in (b"-1", b"1e3", b"99999999999999999999999", b"18446744073709551616", b"9223372036854775807", b"0x10",
                   b"5, 6", b"five"):
        got = exchange(bed, INFER + b"Content-Length: " + length + b"\r\n\r\nabcde")
        assert all(s >= 400 for s in statuses(got)), (length, got[:200])
    still_serves(bed, reference)


@case
def two_lengths(bed, reference):
    """What a proxy may read otherwise than the server is no way to smuggle a request past it."""
    hidden = LIVE
    for head in (b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % (5 + len(hidden)),
                 b"Transfer-Encoding: chunked\r\nContent-Length: %d\r\n" % (5 + len(hidden)),
                 b"Content-Length: 5\r\nContent-Length: %d\r\n" % (5 + len(hidden)),
                 b"Transfer-Encoding: identity, chunked\r\nContent-Length: 3\r\n",
                 b"Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n"):
        got = exchange(bed, INFER + head + b"\r\n0\r\n\r\n" + hidden)
        assert len(statuses(got)) <= 1 and 200 not in statuses(got), (head, got[:300])
    still_serves(bed, reference)


@case
def lengths_of_the_json_part(bed, reference):
    body = b'{"inputs":[{"name":"input","shape":[1,1,32,32],"datatype":"FP32","parameters":{"binary_data_size":4096}}]}'
    whole = body + images(1, 1).tobytes()
    for length, good in ((b"%d" % len(body), True), (b"%d" % (len(whole) + 1), False), (b"-1", False), (b"", False),
                         (b"99999999999999999999", False), (b"1x", False), (b"%d" % (len(body) - 1), False),
                         (b"18446744073709551615", False), (b" %d" % len(body), True)):
        got = exchange(bed, INFER + b"Connection: close\r\nInference-Header-Content-Length: " + length +
                       b"\r\nContent-Length: %d\r\n\r\n" % len(whole) + whole)
        assert statuses(got) == [200 if good else 400], (length, got[:300])
    for size in (-1, 4095, 4097, 1 << 62, "4096"):
        part = json.dumps({"inputs": [{"name": "input", "shape": [1, 1, 32, 32], "datatype": "FP32",
                                       "parameters": {"binary_data_size": size}}]}).encode()
        got = exchange(bed, INFER + b"Connection: close\r\nInference-Header-Content-Length: %d\r\nContent-Length: %d"
                       b"\r\n\r\n" % (len(part), len(part) + 4096) + part + bytes(4096))
        assert statuses(got) == [400], (size, got[:300])
    still_serves(bed, reference)


@case
def pipelined_requests(bed, reference):
    """Answered in their order, none lost."""
    body = b'{"inputs":[{"name":"input","shape":[1,1,32,32],"datatype":"FP32","parameters":{"binary_data_size":4096}}]}'
    whole = body + images(1, 1).tobytes()
    infer = (INFER + b"Inference-Header-Content-Length: %d\r\nContent-Length: %d\r\n\r\n" % (len(body), len(whole)) +
             whole)
    parts = [part for _ in range(60) for part in (infer, LIVE, b"GET /v2/nope HTTP/1.1\r\nHost: x\r\n\r\n")]
    assert statuses(exchange(bed, *parts)) == [200, 200, 404] * 60
    still_serves(bed, reference)


@case
def odd_targets(bed, reference):
    """Paths that are none name no model and no file."""
    for path in (b"*", b"//v2", b"/v2/models/../../etc/passwd", b"/v2/models/%2e%2e/config", b"/v2/models/lenet%00/config",
                 b"/v2/models/" + b"m" * 5000, b"/v2/models/lenet/versions/9999999999999999999999", b"/v2/models//infer",
                 b"/v2/models/a%2Fb", b"http://x/v2/health/nope", b"/v2/models/%ff%fe"):
        for method in (b"GET", b"POST", b"TRACE", b"\xff\xff", b"PUT"):
            got = exchange(bed, method + b" " + path + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert all(400 <= s < 500 for s in statuses(got)), (method, path[:40], got[:200])
    still_serves(bed, reference)


@case
def bytes_that_are_no_request(bed, reference):
    import numpy
    rng = numpy.random.default_rng(3)
    good = INFER + b"Content-Length: 20\r\n\r\n" + b"{" * 20 + LIVE
    for _ in range(300):
        bad = bytearray(good)
        for at in rng.integers(0, len(bad), 5):
            bad[at] = rng.integers(0, 256)
        with connect(bed) as s:
            s.sendall(bytes(bad))
    still_serves(bed, reference)


# --- what runs short -------------------------------------------------------------------------------------------------
class Starved(Bed):
    """A server of its own with something taken from it."""

    def __init__(self, moire, folder, *flags, before=None, words=(), stderr=subprocess.DEVNULL):
        self.process = subprocess.Popen(
            [*words, moire, "serve", "--model-repository", folder, "--http-port", "0", "--grpc-port", "0",
             "--metrics-port", "-1", "--json", *flags],
            stdout=subprocess.PIPE, stderr=stderr, text=True, preexec_fn=before)
        self.doors = json.loads(self.process.stdout.readline())
        self.http_port, self.grpc_port = self.doors["http_port"], self.doors["grpc_port"]
        self.url = f"http://127.0.0.1:{self.http_port}"
        self.http = client_http.InferenceServerClient(f"127.0.0.1:{self.http_port}")


def descriptors_run_out(moire, folder, reference):
    """Who is connected is answered; there is room again when the others have gone."""
    bed = Starved(moire, folder, before=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
    try:
        bed.wait()
        x = images(1, 3)
        friends = clients(bed)
        for kind, c in friends:
            assert near(c.infer("lenet", [tensor(kind, x)]).as_numpy("output"), reference(x))
        for port in (bed.http_port, bed.grpc_port):
            crowd = []
            for _ in range(200):
                crowd.append(socket.create_connection(("127.0.0.1", port), timeout=20))
            for kind, c in friends:
                assert near(c.infer("lenet", [tensor(kind, x)]).as_numpy("output"), reference(x))
            for s in crowd:
                s.close()
        still_serves(bed, reference)
    finally:
        assert bed.stop() == 0


def the_log_cannot_be_written(moire, folder, reference):
    """Its disk is full."""
    with open("/dev/full", "w", encoding="utf-8") as full:
        bed = Starved(moire, folder, "--json-log", stderr=full)
        try:
            bed.wait()
            bed.process.send_signal(signal.SIGHUP)
            still_serves(bed, reference)
        finally:
            assert bed.stop() == 0


def cores_shrink(moire, folder, reference):
    """Started on one core; and on two, of which first one and then the other is taken away while it works, for every
    thread.  Each request is answered rightly, and one line of the log says that workers are elsewhere."""
    cores = sorted(os.sched_getaffinity(0))
    first, last = cores[0], cores[-1]
    for core in {first, last}:
        bed = Starved(moire, folder, words=("taskset", "-c", str(core)))
        try:
            bed.wait()
            still_serves(bed, reference)
        finally:
            assert bed.stop() == 0
    with tempfile.TemporaryFile("w+") as log:
        bed = Starved(moire, folder, stderr=log)
        x, right, answered, ends = images(1, 5), reference(images(1, 5)), [], threading.Event()

        def walk(i):
            kind, c = clients(bed)[i % 2]
            while not ends.is_set():
                assert near(c.infer("lenet", [tensor(kind, x)]).as_numpy("output"), right)
                answered.append(i)

        try:
            bed.wait()
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                walks = [pool.submit(walk, i) for i in range(4)]
                for core in (first, last, first, last):
                    before = len(answered)
                    subprocess.run(["taskset", "-apc", str(core), str(bed.process.pid)], check=True, capture_output=True)
                    while len(answered) < before + 400 and not any(w.done() for w in walks):
                        time.sleep(0.01)
                ends.set()
                for w in walks:
                    w.result()
            still_serves(bed, reference)
        finally:
            assert bed.stop() == 0
        log.seek(0)
        lines = [line for line in log if "the process's affinity has changed" in line]
        assert len(lines) == (1 if len(cores) > 1 else 0), lines
        print(json.dumps({"answered_while_cores_shrink": len(answered)}))


# --- the end ---------------------------------------------------------------------------------------------------------
def end_under_load(moire, folder, reference):
    """SIGTERM with both protocols at work: what was taken is answered rightly, what was not is refused.

    A connection that is closed before a byte of an answer came is a refusal to the client; the server's record of
    the run tells whether it was one.
    """
    record = tempfile.NamedTemporaryFile(suffix=".history")
    bed = Starved(moire, folder, "--record", record.name)
    bed.wait()
    x, answered, wrong, ready = images(1, 1), [], [], threading.Barrier(9)
    right = reference(x)

    def walk(i):
        kind, c = clients(bed)[i % 2]
        first = True
        while True:
            try:
                y = c.infer("lenet", [tensor(kind, x)]).as_numpy("output")
                (answered if near(y, right) else wrong).append(i)
            except (InferenceServerException, HTTPConnectionClosed, OSError) as e:
                # refused: the server said so, or nobody listens any more; an answer cut short is a loss
                if not any(t in str(e) for t in ("UNAVAILABLE", "shutting down", "refused", "503", "closed.")):
                    wrong.append(repr(e))
                return
            if first:
                first = False
                ready.wait(30)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        walks = [pool.submit(walk, i) for i in range(8)]
        ready.wait(30)
        time.sleep(0.3)
        code = bed.stop()
        for w in walks:
            w.result()
    assert code == 0 and len(answered) > 8 and not wrong, (code, len(answered), wrong[:3])
    with open(record.name) as f:  # which the server has put in place of the empty one
        history = f.read()
    assert "# dropped 0\n" in history
    assert history.count(" CALLBACK_IN ") == len(answered), (history.count(" CALLBACK_IN "), len(answered))


def a_second_signal(moire, folder, reference):
    """A client that does not take its answer holds up the end, until somebody has had enough."""
    bed = Starved(moire, folder)
    bed.wait()
    s = connect_grpc(bed, struct.pack(">HI", 4, 0))  # a window of no bytes
    s.sendall(frame(HEADERS, END_HEADERS, 1, request_headers()) + data_frames(1, message_of(images(1, 1))))
    still_serves(bed, reference)
    bed.process.send_signal(signal.SIGTERM)
    time.sleep(0.5)
    assert bed.process.poll() is None
    bed.process.send_signal(signal.SIGTERM)
    assert bed.process.wait(20) == -signal.SIGTERM
    s.close()


def nothing_holds_up_an_idle_end(moire, folder, reference):
    """Connections without a request do not: idle ones, ones that began to send, and streams without one.  Each is
    closed, and streams are told why."""
    bed = Starved(moire, folder)
    bed.wait()
    begun = [connect(bed) for _ in range(5)]
    for s in begun:
        s.sendall(INFER + b"Content-Length: 10\r\n\r\nabc")
    idle = [connect(bed) for _ in range(100)]
    for s in idle:
        s.sendall(LIVE)
    for s in idle:
        assert s.recv(65536).startswith(b"HTTP/1.1 200")
    calls = [connect_grpc(bed) for _ in range(50)]
    told, streams = queue.Queue(), []
    for _ in range(20):
        c = client_grpc.InferenceServerClient(f"127.0.0.1:{bed.grpc_port}")
        c.start_stream(lambda result, error: told.put((result, error)))
        c.async_stream_infer("lenet", [tensor(client_grpc, images(1, 1))])
        streams.append(c)
    for _ in streams:
        assert told.get(timeout=30)[1] is None
    still_serves(bed, reference)
    began = time.monotonic()
    assert bed.stop() == 0
    took = time.monotonic() - began
    for s in begun + idle + calls:
        s.settimeout(30)
        try:
            while s.recv(65536):
                pass
        except ConnectionResetError:
            pass  # of those that had sent something that nobody read
        s.close()
    for c in streams:
        c.stop_stream(cancel_requests=True)
    print(json.dumps({"idle_end_ms": round(took * 1e3), "closed": {"http": len(idle), "http_begun": len(begun),
                                                                 "grpc": len(calls), "streams": len(streams)}}))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moire", default="build/moire")
    moire = os.path.abspath(parser.parse_args().moire)
    good = []
    with tempfile.TemporaryDirectory() as folder:
        reference = make_repository(moire, folder)
        bed = Bed(moire, folder)
        try:
            bed.wait()
            heads = HeadsWithoutAnEnd(bed)
            good += [run(c.__name__, lambda c=c: c(bed, reference)) for c in CASES]
            good.append(run("heads_without_an_end", heads.check))
            still_serves(bed, reference)
        finally:
            good.append(run("it ends when asked", lambda: [None][bed.stop()]))
        good += [run(c.__name__, lambda c=c: c(moire, folder, reference))
                 for c in (descriptors_run_out, the_log_cannot_be_written, cores_shrink, end_under_load, a_second_signal,
                           nothing_holds_up_an_idle_end)]
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
