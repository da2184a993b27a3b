#!/usr/bin/env python3
"""check_extensions.py - what Triton's extensions do to `moire serve`: shared memory, traces, the log, recorded runs,
classes, a socket file.

Answers are compared with ONNX Runtime's.  Prints a line for each case and one with the sum.

    check_extensions.py --moire build/moire
"""
import argparse
import http.client
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading

import numpy
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from serve_bed import Bed, images, make_repository, near, run

NAME = f"/moire-test-{os.getpid()}"


def tensor(kind, x):
    t = kind.InferInput("input", list(x.shape), "FP32")
    t.set_data_from_numpy(x)
    return t


def refused(call, text):
    try:
        call()
    except InferenceServerException as e:
        assert text in str(e), e
        return
    raise AssertionError(f"not refused: {text}")


def doors(bed):
    return ((tritonclient.http, bed.http),
            (tritonclient.grpc, tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{bed.grpc_port}")))


# --- shared memory -----------------------------------------------------------------------------------------
def through_memory(kind, door, x, name="region", size=None):
    given, wanted = kind.InferInput("input", list(x.shape), "FP32"), kind.InferRequestedOutput("output")
    given.set_shared_memory(name, size or x.nbytes)
    wanted.set_shared_memory(name, x.shape[0] * 40, offset=x.nbytes)
    return door.infer("lenet", [given], outputs=[wanted])


def shared_memory(moire, folder, reference):
    bed = Bed(moire, folder, "--shared-memory", NAME, "--http-max-input-size", "1048576")
    bed.wait()
    x = images(8, 1)
    for kind, door in doors(bed):
        region = shm.create_shared_memory_region("mine", NAME, 2 * x.nbytes)
        door.register_system_shared_memory("region", NAME, 2 * x.nbytes)
        for seed in range(20):
            x = images(8, seed)
            shm.set_shared_memory_region(region, [x])
            through_memory(kind, door, x)
            y = shm.get_contents_as_numpy(region, numpy.float32, [8, 10], offset=x.nbytes)
            assert near(y, reference(x))
        refused(lambda: through_memory(kind, door, x, "nope"), "nope")
        refused(lambda: through_memory(kind, door, x, size=x.nbytes - 4), "take")
        refused(lambda: through_memory(kind, door, x, size=2 * x.nbytes + 4), "within")
        refused(lambda: door.register_system_shared_memory("other", "/" + "x" * 300, 4), "key")
        for key in ("/else", "/../x", NAME + "/x", "no-slash", ""):
            refused(lambda: door.register_system_shared_memory("other", key, 4), "key")
        refused(lambda: door.register_system_shared_memory("other", NAME + "-not-there", 4), "there is no")
        os.truncate("/dev/shm" + NAME, 100)
        refused(lambda: through_memory(kind, door, x), "shorter")
        assert bed.process.poll() is None
        door.unregister_system_shared_memory()
        refused(lambda: through_memory(kind, door, x), "region")
        shm.destroy_shared_memory_region(region)
    assert bed.stop() == 0, "exit code"


def cut_and_gone_under_way(moire, folder, reference):
    """Regions are shortened, made longer and unregistered while they are used: right answers or errors, no crash."""
    bed = Bed(moire, folder, "--shared-memory", NAME)
    bed.wait()
    x, stop, ended = images(8, 3), threading.Event(), []
    region = shm.create_shared_memory_region("mine", NAME, 2 * x.nbytes)

    def vex():
        door = tritonclient.http.InferenceServerClient(f"127.0.0.1:{bed.http_port}")
        while not stop.is_set():
            os.truncate("/dev/shm" + NAME, 64)
            os.truncate("/dev/shm" + NAME, 2 * x.nbytes)
            door.unregister_system_shared_memory("region")
            try:
                door.register_system_shared_memory("region", NAME, 2 * x.nbytes)
            except InferenceServerException:
                pass

    other = threading.Thread(target=vex)
    other.start()
    try:
        for _ in range(300):
            try:
                through_memory(tritonclient.http, bed.http, x)
                ended.append("answered")
            except InferenceServerException as e:
                assert "region" in str(e), e
                ended.append("refused")
    finally:
        stop.set()
        other.join()
        shm.destroy_shared_memory_region(region)
    assert near(bed.http.infer("lenet", [tensor(tritonclient.http, x)]).as_numpy("output"), reference(x))
    assert bed.stop() == 0 and len(ended) == 300


def no_memory_unless_asked_for(moire, folder, _):
    bed = Bed(moire, folder)
    bed.wait()
    region = shm.create_shared_memory_region("mine", NAME, 64)
    for _, door in doors(bed):
        refused(lambda: door.register_system_shared_memory("region", NAME, 64), "--shared-memory")
        door.unregister_system_shared_memory()
    assert "system_shared_memory" not in bed.http.get_server_metadata()["extensions"]
    shm.destroy_shared_memory_region(region)
    assert bed.stop() == 0, "exit code"


# --- traces ------------------------------------------------------------------------------------------------
ORDER = ["REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START", "COMPUTE_END",
         "REQUEST_END"]


def traces_of(path):
    with open(path, encoding="utf-8") as f:
        parts = json.load(f)
    times = {p["id"]: p["timestamps"] for p in parts if "timestamps" in p}
    return [(p, times[p["id"]]) for p in parts if "model_name" in p]


def traces(moire, folder, _):
    with tempfile.TemporaryDirectory() as top:
        path = os.path.join(top, "trace.json")
        bed = Bed(moire, folder, "--trace-file", path)
        bed.wait()
        x = images(1, 1)

        def ask(n, model="lenet", start=0):
            for i in range(n):
                bed.http.infer(model, [tensor(tritonclient.http, x)], request_id=f"{model} {start + i}")

        ask(5)
        assert bed.http.get_trace_settings()["trace_level"] == ["OFF"]
        bed.http.update_trace_settings(settings={"trace_level": ["TIMESTAMPS"], "trace_rate": "2"})
        ask(10)
        bed.http.update_trace_settings("configured", {"trace_level": ["OFF"]})
        ask(10, "configured")
        door = doors(bed)[1][1]
        door.update_trace_settings("configured", {"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": "3"})
        ask(10, "configured", 100)
        assert door.get_trace_settings("configured").settings["trace_count"].value[0] == "0"
        refused(lambda: door.update_trace_settings(settings={"trace_file": path + "x"}), "--trace-file")
        assert bed.stop() == 0, "exit code"
        made = traces_of(path)
        ids = [p["request_id"] for p, _ in made]
        assert ids == [f"lenet {i}" for i in (1, 3, 5, 7, 9)] + [f"configured {100 + i}" for i in range(3)], ids
        for _, times in made:
            assert [t["name"] for t in times] == ORDER
            assert all(a["ns"] <= b["ns"] for a, b in zip(times, times[1:])), times
        assert os.listdir(top) == ["trace.json"] and os.stat(path).st_mode & 0o77 == 0


def numbered_traces(moire, folder, _):
    with tempfile.TemporaryDirectory() as top:
        path = os.path.join(top, "trace.json")
        bed = Bed(moire, folder, "--trace-file", path)
        bed.wait()
        bed.http.update_trace_settings(settings={"trace_level": ["TIMESTAMPS"], "trace_rate": "1", "log_frequency": "4"})
        for i in range(10):
            bed.http.infer("lenet", [tensor(tritonclient.http, images(1, i))], request_id=str(i))
        assert bed.stop() == 0, "exit code"
        parts = [traces_of(f"{path}.{i}") for i in range(3)]
        assert [[p["request_id"] for p, _ in part] for part in parts] == [list("0123"), list("4567"), list("89")], parts


# --- the log -----------------------------------------------------------------------------------------------
def log_settings(moire, folder, _):
    with tempfile.TemporaryFile("w+") as log:
        bed = Bed(moire, folder, log=log)
        bed.wait()
        ask = lambda i: bed.http.infer("lenet", [tensor(tritonclient.http, images(1, 1))], request_id=f"request-{i}")
        ask(1)
        assert bed.http.update_log_settings({"log_verbose_level": 1, "log_format": "ISO8601"})["log_verbose_level"] == 1
        ask(2)
        door = doors(bed)[1][1]
        door.update_log_settings({"log_verbose_level": 0, "log_info": False})
        ask(3)
        assert not door.get_log_settings().settings["log_info"].bool_param
        assert bed.stop() == 0, "exit code"
        log.seek(0)
        lines = log.read().splitlines()
    assert sum("request-2" in line and line[:2] == "20" for line in lines) == 1, lines
    assert not any("request-1" in line or "request-3" in line or "ends when" in line for line in lines), lines


# --- a run, recorded ---------------------------------------------------------------------------------------
def recorded_run(moire, folder, _):
    with tempfile.TemporaryDirectory() as top:
        path = os.path.join(top, "run.trace")
        bed = Bed(moire, folder, "--record", path, "--record-events", "4096")
        bed.wait()
        for i in range(40):
            for model in ("lenet", "configured"):
                bed.http.infer(model, [tensor(tritonclient.http, images(1, i))])
        assert bed.stop() == 0, "exit code"
        told = subprocess.run([moire, "whatif", path, "--json"], check=True, capture_output=True, text=True).stdout
        names = json.dumps(json.loads(told))
        assert "lenet" in names and "configured" in names, told[:500]
    left = subprocess.run([moire, "serve", "--model-repository", folder, "--record", os.path.join(folder, "no", "f")],
                          check=False, capture_output=True, text=True)
    assert left.returncode != 0 and "cannot write" in left.stderr, left


# --- classes, the socket file ------------------------------------------------------------------------------
def classes(moire, folder, reference):
    bed = Bed(moire, folder)
    bed.wait()
    x = images(3, 5)
    right = reference(x)
    for kind, door in doors(bed):
        y = door.infer("configured", [tensor(kind, x)],
                       outputs=[kind.InferRequestedOutput("output", class_count=3)]).as_numpy("output")
        assert y.shape == (3, 3), y
        for row, values in zip(y, right):
            pairs = [text.decode().split(":") for text in row]
            assert [int(i) for _, i in pairs] == list(numpy.argsort(-values)[:3])
            assert all(abs(float(v) - values[int(i)]) < 1e-4 for v, i in pairs)
    assert bed.stop() == 0, "exit code"


class SocketFile(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def socket_file(moire, folder, reference):
    with tempfile.TemporaryDirectory() as top:
        path = os.path.join(top, "door")
        bed = Bed(moire, folder, "--unix", path)
        bed.wait()
        x = images(1, 7)
        body = json.dumps({"inputs": [{"name": "input", "datatype": "FP32", "shape": list(x.shape),
                                       "data": x.ravel().tolist()}]})
        c = SocketFile(path)
        for headers in ({}, {"Expect": "100-continue"}):
            c.request("POST", "/v2/models/lenet/infer", body, headers)
            y = numpy.array(json.load(c.getresponse())["outputs"][0]["data"], numpy.float32)
            assert near(y.reshape(1, 10), reference(x))
        assert os.stat(path).st_mode & 0o77 == 0
        assert bed.stop() == 0 and not os.path.exists(path)


CASES = [shared_memory, cut_and_gone_under_way, no_memory_unless_asked_for, traces, numbered_traces, log_settings,
         recorded_run, classes, socket_file]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moire", default="build/moire")
    moire = os.path.abspath(parser.parse_args().moire)
    with tempfile.TemporaryDirectory() as folder:
        reference = make_repository(moire, folder)
        good = [run(c.__name__, lambda c=c: c(moire, folder, reference)) for c in CASES]
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
