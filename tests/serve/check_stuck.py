#!/usr/bin/env python3
"""check_stuck.py - `moire serve` with a worker that does not come back: who waits for it says so, who asks whether the
server lives is answered, and all is well when it comes back.

A thread of the server is stopped as a debugger stops it (ptrace), which its kernels do not survive any better than one
that hangs.  Times are printed, never asserted:

    check_stuck.py --moire build/moire
"""
import argparse
import concurrent.futures
import contextlib
import ctypes
import json
import os
import shutil
import sys
import tempfile
import time
import urllib.error
import urllib.request

import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

from serve_bed import Bed, images, make_repository, near, run

SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
LIBC.ptrace.restype = ctypes.c_long


def ptrace(what, tid):
    if LIBC.ptrace(what, tid, None, None):
        raise OSError(ctypes.get_errno(), f"ptrace of thread {tid}")


def workers(pid):
    """Threads on one core each, by that core."""
    found = {}
    for tid in map(int, os.listdir(f"/proc/{pid}/task")):
        with contextlib.suppress(OSError):
            cores = os.sched_getaffinity(tid)
            if len(cores) == 1:
                found.setdefault(cores.pop(), []).append(tid)
    return found


@contextlib.contextmanager
def stopped(tids):
    """Called while they have nothing to do, so that none holds a lock."""
    time.sleep(0.1)
    held = []
    try:
        for tid in tids:
            ptrace(SEIZE, tid)
            held.append(tid)
            ptrace(INTERRUPT, tid)
            os.waitpid(tid, WALL)
        yield
    finally:
        for tid in held:
            ptrace(DETACH, tid)


class Probe:
    """Asks whether the server lives, by both protocols, as long as it is open; keeps the longest times."""

    def __init__(self, bed):
        self.bed, self.worst, self.n, self.ends = bed, {"http": 0.0, "grpc": 0.0}, 0, False
        self.pool = concurrent.futures.ThreadPoolExecutor(1)

    def __enter__(self):
        self.result = self.pool.submit(self.ask)
        return self

    def ask(self):
        http = tritonclient.http.InferenceServerClient(f"127.0.0.1:{self.bed.http_port}", network_timeout=30)
        grpc = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{self.bed.grpc_port}")
        http.is_server_live(), grpc.is_server_live()
        while not self.ends:
            for name, c in (("http", http), ("grpc", grpc)):
                begin = time.monotonic()
                assert c.is_server_live()
                self.worst[name] = max(self.worst[name], time.monotonic() - begin)
                self.n += 1
            time.sleep(0.005)

    def __exit__(self, *_):
        self.ends = True
        self.result.result()


def get(bed, path, data=None):
    try:
        with urllib.request.urlopen(bed.url + path, data) as a:
            return a.status, a.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def metric(bed, name, model=None):
    for line in get(bed, "/metrics")[1].splitlines():
        if line.startswith(name) and line[len(name)] in " {" and (not model or f'model="{model}"' in line):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"no metric {name} of {model}")


def tensor(kind, x):
    t = kind.InferInput("input", list(x.shape), "FP32")
    t.set_data_from_numpy(x)
    return [t]


def await_status(bed, path, status):
    begin = time.monotonic()
    while get(bed, path)[0] != status:
        assert time.monotonic() < begin + 60, path
        time.sleep(0.002)
    return time.monotonic() - begin


def infer(bed, model, x, **more):
    with tritonclient.http.InferenceServerClient(f"127.0.0.1:{bed.http_port}", network_timeout=60) as c:
        return c.infer(model, tensor(tritonclient.http, x), **more).as_numpy("output")


def the_only_worker(moire, folder, reference):
    """Nothing can be served: the model and the server say so, and what has a deadline is answered by it."""
    x = images(1, 4)
    with tempfile.TemporaryFile("w+") as log:
        bed = Bed(moire, folder, "--threads", "1", log=log)
        grpc = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{bed.grpc_port}")
        try:
            bed.wait()
            assert near(infer(bed, "lenet", x), reference(x))
            tids = [t for of in workers(bed.process.pid).values() for t in of]
            assert tids
            with concurrent.futures.ThreadPoolExecutor(1) as pool, Probe(bed) as probe:
                with stopped(tids):
                    waits = pool.submit(infer, bed, "lenet", x)
                    took = await_status(bed, "/v2/models/lenet/ready", 400)
                    status, text = get(bed, "/v2/models/lenet/ready")
                    assert status == 400 and "layers 0 to" in json.loads(text)["error"], text
                    status, text = get(bed, "/v2/health/ready")
                    assert status == 400 and "no core is left" in json.loads(text)["error"], text
                    assert get(bed, "/v2/models/configured/ready")[0] == 400
                    assert not grpc.is_server_ready() and not grpc.is_model_ready("lenet")
                    assert metric(bed, "moire_model_stuck", "lenet") == 1 and metric(bed, "moire_server_stuck") == 1
                    assert metric(bed, "moire_model_stuck", "configured") == 0
                    assert metric(bed, "moire_model_ready", "lenet") == 0
                    index = {m["name"]: m for m in json.loads(get(bed, "/v2/repository/index", b"{}")[1])}
                    assert index["lenet"]["state"] == "UNAVAILABLE" and "stuck" in index["lenet"]["reason"]
                    begin = time.monotonic()
                    try:
                        infer(bed, "configured", x, timeout=300000)
                        raise AssertionError("answered by nobody")
                    except InferenceServerException as e:
                        assert "deadline" in str(e), e
                    expired = time.monotonic() - begin - 0.3
                    assert not waits.done()
                assert near(waits.result(60), reference(x))
            await_status(bed, "/v2/health/ready", 200)
            assert get(bed, "/v2/models/lenet/ready")[0] == 200 and grpc.is_model_ready("lenet")
            assert metric(bed, "moire_model_stuck", "lenet") == 0 and metric(bed, "moire_server_stuck") == 0
            assert metric(bed, "moire_stuck_total") >= 1
            assert near(infer(bed, "configured", x), reference(x))
        finally:
            assert bed.stop() == 0
        log.seek(0)
        lines = log.read()
        assert "tenant 'lenet' is stuck: its layers 0 to" in lines and "tenant 'lenet' goes on" in lines, lines
    print(json.dumps({"not_ready_after_ms": round(took * 1e3), "live_worst_ms": {k: round(v * 1e3, 2) for k, v in
                                                                               probe.worst.items()},
                      "probes": probe.n, "expired_late_ms": round(expired * 1e3, 2)}))


def one_of_two(moire, folder, reference):
    """The other core serves: the server is ready, and so is who does not wait for the one that stands still."""
    x = images(1, 5)
    bounded = os.path.join(folder, "bounded")  # on one core at a time: on more, nobody waits for one that stands still
    os.makedirs(os.path.join(bounded, "1"))
    shutil.copy(os.path.join(folder, "lenet.onnx"), os.path.join(bounded, "1", "model.onnx"))
    with open(os.path.join(bounded, "config.pbtxt"), "w", encoding="utf-8") as f:
        f.write('max_batch_size: 8\nparameters { key: "cores" value: { string_value: "1" } }\n')
    bed = Bed(moire, folder, "--threads", "2")
    try:
        bed.wait()
        on = workers(bed.process.pid)
        if len(on) < 2:
            print("        one core here: nothing to be seen")
            return
        with concurrent.futures.ThreadPoolExecutor(64) as pool, Probe(bed) as probe:
            with stopped(on[min(on)]):
                asked = []
                while get(bed, "/v2/models/bounded/ready")[0] == 200:
                    for _ in range(2 if len(asked) < 60 else 0):  # two at once: one for each core
                        asked.append(pool.submit(infer, bed, "bounded", x))
                    time.sleep(0.02)
                assert get(bed, "/v2/health/ready")[0] == 200 and metric(bed, "moire_server_stuck") == 0
                assert metric(bed, "moire_model_stuck", "bounded") == 1
                y = images(1, 6)
                for _ in range(20):
                    assert near(infer(bed, "configured", y), reference(y))
                assert get(bed, "/v2/models/configured/ready")[0] == 200
            assert all(near(a.result(60), reference(x)) for a in asked)
        await_status(bed, "/v2/models/bounded/ready", 200)
    finally:
        shutil.rmtree(bounded)
        assert bed.stop() == 0
    print(json.dumps({"live_worst_ms": {k: round(v * 1e3, 2) for k, v in probe.worst.items()}, "probes": probe.n}))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moire", default="build/moire")
    moire = os.path.abspath(parser.parse_args().moire)
    with tempfile.TemporaryDirectory() as folder:
        reference = make_repository(moire, folder)
        good = [run(c.__name__, lambda c=c: c(moire, folder, reference)) for c in (the_only_worker, one_of_two)]
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
