#!/usr/bin/env python3
"""check_overload.py - one tenant sends ten times its load, half of it malformed, half cancelled; what others see.

Two quiet tenants ask at a steady rate, first beside a noisy one that behaves and sends 1x, then beside one that does
not and sends 10x, in turns.  Every request must have an answer that the protocol knows, the server must stay as large
as it was, and afterwards serve as before.  Latencies are printed, never asserted:

    check_overload.py --moire build/moire --seconds 3 --rounds 5      # also: the 99th percentiles and their ratio

Then one model alone, on a server whose memory is capped: what is answered in time at its capacity, and at ten times
that load.  What is refused must be refused in words, and the server must not grow.

    check_overload.py --moire build/moire --only goodput --seconds 60
"""
import argparse
import http.client
import json
import multiprocessing
import os
import random
import resource
import struct
import subprocess
import sys
import tempfile
import time

import numpy
import onnx
import tritonclient.grpc

from serve_bed import Bed, images

QUIET = {"lenet": 100.0, "squeezenet": 5.0}  # requests/s
NOISY, NOISY_RATE = "resnet18", 10.0
CONFIG = """max_batch_size: 8
dynamic_batching {{ default_queue_policy {{ max_queue_size: 8 allow_timeout_override: true }} }}
parameters {{ key: "qos_ms" value {{ string_value: "{}" }} }}
parameters {{ key: "max_memory" value {{ string_value: "67108864" }} }}
"""
TARGETS = {"lenet": 5, "squeezenet": 60, "resnet18": 100}
ZOO = {"lenet": "lenet", "squeezenet": "squeezenet1.0", "resnet18": "resnet18"}


def make_repository(moire, folder):
    for name, target in TARGETS.items():
        os.makedirs(os.path.join(folder, name, "1"))
        subprocess.run([moire, "zoo", "build", ZOO[name], "-o", os.path.join(folder, name, "1", "model.onnx")],
                       check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(folder, name, "config.pbtxt"), "w", encoding="utf-8") as f:
            f.write(CONFIG.format(target))


def picture(name, seed=1):
    side = 32 if name == "lenet" else 224
    return images(1, seed) if name == "lenet" else numpy.random.default_rng(seed).random((1, 3, side, side)).astype("f4")


def binary_body(x, name="input"):
    head = json.dumps({"inputs": [{"name": name, "datatype": "FP32", "shape": list(x.shape),
                                   "parameters": {"binary_data_size": x.nbytes}}],
                       "parameters": {"binary_data_output": True}}).encode()
    return head + x.tobytes(), {"Inference-Header-Content-Length": str(len(head))}


def open_loop(rate, seconds, seed):
    """Moments at which to ask, each slept for; lateness counts as latency, as it would for a client."""
    draw, at, end = random.Random(seed), time.monotonic(), time.monotonic() + seconds
    while True:
        at += draw.expovariate(rate)
        if at > end:
            return
        time.sleep(max(0.0, at - time.monotonic()))
        yield at


def quiet(port, name, rate, seconds, seed, out):
    body, headers = binary_body(picture(name))
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    times, statuses = [], {}
    for at in open_loop(rate, seconds, seed):
        c.request("POST", f"/v2/models/{name}/infer", body, headers)
        a = c.getresponse()
        a.read()
        times.append(time.monotonic() - at)
        statuses[a.status] = statuses.get(a.status, 0) + 1
    out.put((name, times, statuses))


def malformed(i, x):
    """A body that no server should take, of several kinds."""
    whole, headers = binary_body(x)
    return [(b"{", {}), (whole[:-7], headers), binary_body(x[:, :1]), binary_body(x, "other"),
            (struct.pack("<I", i) * 9, {"Inference-Header-Content-Length": "36"})][i % 5]


def noisy(ports, rate, seconds, behaves, seed, out):
    os.nice(15)  # its own work is not what is measured
    draw, x = random.Random(seed), picture(NOISY)
    c = http.client.HTTPConnection("127.0.0.1", ports[0], timeout=60)
    g = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{ports[1]}")
    t = tritonclient.grpc.InferInput("input", list(x.shape), "FP32")
    t.set_data_from_numpy(x)
    statuses, calls, answered = {}, [], []
    for i, _ in enumerate(open_loop(rate, seconds, seed)):
        if behaves or i % 2:
            calls.append(g.async_infer(NOISY, [t], lambda result, error: answered.append(error)))
            if not behaves and draw.random() < 0.9:
                time.sleep(draw.random() * 0.003)
                calls[-1].cancel()
            continue
        c.request("POST", f"/v2/models/{NOISY}/infer", *malformed(i, x))
        a = c.getresponse()
        a.read()
        statuses[a.status] = statuses.get(a.status, 0) + 1
    end = time.monotonic() + 60
    while len(answered) < len(calls) and time.monotonic() < end:
        time.sleep(0.01)
    for e in answered:
        key = "ok" if e is None else str(e.status()).rsplit(".", 1)[-1]
        statuses[key] = statuses.get(key, 0) + 1
    out.put(("noisy", len(calls) - len(answered), statuses))


def side_by_side(bed, behaves, seconds, seed):
    out = multiprocessing.Queue()
    ports = (bed.http_port, bed.grpc_port)
    people = [multiprocessing.Process(target=quiet, args=(ports[0], n, r, seconds, seed + i, out))
              for i, (n, r) in enumerate(QUIET.items())]
    people.append(multiprocessing.Process(target=noisy, args=(ports, NOISY_RATE * (1 if behaves else 10), seconds,
                                                              behaves, seed, out)))
    for p in people:
        p.start()
    got = {name: (a, b) for name, a, b in (out.get(timeout=seconds + 120) for _ in people)}
    for p in people:
        p.join()
    return got


def resident(bed):
    with open(f"/proc/{bed.process.pid}/status", encoding="utf-8") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) / 1024


def check(got, behaves):
    lost, statuses = got["noisy"]
    assert lost == 0, f"{lost} calls without an answer"
    known = {"ok", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED", 400}
    assert set(statuses) <= known, statuses
    assert behaves or statuses.get(400, 0) > 0, statuses
    for name in QUIET:
        assert set(got[name][1]) == {200}, (name, got[name][1])


# --- one model, ten times what it can do ---
LIMITED, TARGET_MS, MEMORY_MIB, LANES = "work", 100, 256, 4


def make_work(folder):
    """16 KiB in and out, some 20 ms on one core: so that the client, too, can do ten times as much."""
    wide = numpy.random.default_rng(1).standard_normal((64, 1024)).astype("f4") / 64
    nodes = []
    for i in range(50):
        nodes += [onnx.helper.make_node("MatMul", ["input" if i == 0 else f"r{i - 1}", "wide"], [f"m{i}"]),
                  onnx.helper.make_node("MatMul", [f"m{i}", "narrow"], [f"n{i}"]),
                  onnx.helper.make_node("Relu", [f"n{i}"], ["output" if i == 49 else f"r{i}"])]
    weights = [onnx.numpy_helper.from_array(w, n) for w, n in ((wide, "wide"), (wide.T.copy(), "narrow"))]
    ends = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 64, 64]) for n in ("input", "output")]
    graph = onnx.helper.make_graph(nodes, LIMITED, ends[:1], ends[1:], weights)
    os.makedirs(os.path.join(folder, LIMITED, "1"))
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8),
              os.path.join(folder, LIMITED, "1", "model.onnx"))
    with open(os.path.join(folder, LIMITED, "config.pbtxt"), "w", encoding="utf-8") as f:
        f.write('parameters { key: "qos_ms" value { string_value: "%d" } }\n'
                'parameters { key: "admission" value { string_value: "predicted" } }\n' % TARGET_MS)


def capped():
    """Data, and with it every private page that may be written, as a memory limit of a container would hold it."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MIB << 20, MEMORY_MIB << 20))


def offer(port, rate, seconds, seed, out):
    """Each request at its moment, over gRPC, whatever became of those before."""
    x = numpy.ones((1, 64, 64), "f4")
    g = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{port}")
    t = tritonclient.grpc.InferInput("input", list(x.shape), "FP32")
    t.set_data_from_numpy(x)
    n, in_time, ended = 0, [], {}

    def done(began, error):
        key = "ok" if error is None else str(error.status()).rsplit(".", 1)[-1]
        ended[key] = ended.get(key, 0) + 1
        if error is None and time.monotonic() - began <= TARGET_MS / 1000:
            in_time.append(began)

    for at in open_loop(rate, seconds, seed):
        g.async_infer(LIMITED, [t], lambda result, error, at=at: done(at, error))
        n += 1
    end = time.monotonic() + 60
    while sum(ended.values()) < n and time.monotonic() < end:
        time.sleep(0.01)
    out.put((n, len(in_time), ended))


def offered(bed, rate, seconds, seed):
    out = multiprocessing.Queue()
    p = multiprocessing.Process(target=offer, args=(bed.grpc_port, rate, seconds, seed, out))
    p.start()
    n, in_time, ended = out.get(timeout=seconds + 120)
    p.join()
    assert sum(ended.values()) == n, f"{n - sum(ended.values())} calls without an answer"
    assert set(ended) <= {"ok", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "DEADLINE_EXCEEDED"}, ended
    return {"offered_per_s": round(rate, 1), "in_time_per_s": round(in_time / seconds, 2), "ended": ended,
            "resident_MiB": round(resident(bed), 1)}


def capacity(bed, seconds):
    """Requests/s of as many clients as keep it busy, each with one under way."""
    out = multiprocessing.Queue()

    def ask():
        body, headers = binary_body(numpy.ones((1, 64, 64), "f4"))
        c, n, end = http.client.HTTPConnection("127.0.0.1", bed.http_port, timeout=60), 0, time.monotonic() + seconds
        while time.monotonic() < end:
            c.request("POST", f"/v2/models/{LIMITED}/infer", body, headers)
            n += c.getresponse().read() is not None
        out.put(n)

    people = [multiprocessing.Process(target=ask) for _ in range(LANES)]
    for p in people:
        p.start()
    total = sum(out.get(timeout=seconds + 60) for _ in people)
    for p in people:
        p.join()
    return total / seconds


def goodput(moire, folder, seconds):
    bed = Bed(moire, folder, "--threads", "1", before=capped)  # the other core is the client's
    try:
        bed.wait(180)
        capacity(bed, 2)  # sizes of batches are prepared
        most = capacity(bed, max(2, seconds / 4))
        calm = offered(bed, 0.8 * most, seconds, 1)
        rows = [offered(bed, 10 * most, seconds, 2 + k) for k in range(2)]
        assert rows[1]["resident_MiB"] - rows[0]["resident_MiB"] <= 16, rows
        assert rows[1]["ended"].get("ok", 0) > 0 and sum(rows[1]["ended"].values()) > rows[1]["ended"]["ok"], rows
    finally:
        assert bed.stop() == 0
    best = max(calm["in_time_per_s"], 1e-9)
    print(json.dumps({"capped_MiB": MEMORY_MIB, "closed_loop_per_s": round(most, 2), "calm": calm, "tenfold": rows,
                      "goodput_ratio": round(min(r["in_time_per_s"] for r in rows) / best, 3)}))
    print("ok      ten times the load was answered or refused in words, in as much memory")


def neighbours(o, folder):
    times, sizes, ok = {True: {n: [] for n in QUIET}, False: {n: [] for n in QUIET}}, [], []
    bed = Bed(os.path.abspath(o.moire), folder)
    try:
        bed.wait(180)
        for k in range(4):
            side_by_side(bed, False, max(2, o.seconds), k)  # sizes of batches are prepared
        for k in range(o.rounds):
            for behaves in (True, False):
                got = side_by_side(bed, behaves, o.seconds, 100 * k + behaves)
                check(got, behaves)
                ok.append((behaves, got["noisy"][1]))
                for name in QUIET:
                    times[behaves][name] += got[name][0]
            sizes.append(resident(bed))
        assert sizes[-1] - sizes[0] <= 16, f"it grows: {sizes} MiB"
    finally:
        assert bed.stop() == 0
    for name in QUIET:
        calm, loud = (numpy.percentile(times[b][name], [50, 99]) * 1000 for b in (True, False))
        print(json.dumps({"tenant": name, "requests": len(times[False][name]), "calm_ms": [round(v, 2) for v in calm],
                          "loud_ms": [round(v, 2) for v in loud], "p99_ratio": round(loud[1] / calm[1], 3)}))
    print(json.dumps({"resident_MiB": [round(s, 1) for s in sizes], "last_outcomes": ok[-1][1]}))
    print("ok      every request was answered, and the server stayed as large as it was")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moire", default="build/moire")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", choices=("neighbours", "goodput"))
    o = parser.parse_args()
    if o.only != "goodput":
        with tempfile.TemporaryDirectory() as folder:
            make_repository(os.path.abspath(o.moire), folder)
            neighbours(o, folder)
    if o.only != "neighbours":
        with tempfile.TemporaryDirectory() as folder:
            make_work(folder)
            goodput(os.path.abspath(o.moire), folder, o.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
