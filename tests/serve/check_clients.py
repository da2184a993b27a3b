#!/usr/bin/env python3
"""check_clients.py - `moire serve` answers stock clients: tritonclient, and urllib where a request must be odd.

Answers are compared with ONNX Runtime's.  Prints a line for each case and one with the sum.

    check_clients.py --moire build/moire
"""
import argparse
import concurrent.futures
import gzip
import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request

import numpy
import tritonclient.http as client
from tritonclient.utils import InferenceServerException

from serve_bed import Bed, images, near, run, running

CASES = []


def case(function):
    CASES.append(function)
    return function


def tensor(x, binary=True):
    t = client.InferInput("input", list(x.shape), "FP32")
    t.set_data_from_numpy(x, binary_data=binary)
    return t


def ask(bed, x, binary=True, **options):
    wanted = [client.InferRequestedOutput("output", binary_data=binary)]
    return bed.http.infer(options.pop("model", "lenet"), [tensor(x, binary)], outputs=wanted,
                            **options).as_numpy("output")


@case
def metadata_and_configuration(bed, reference):
    assert bed.http.is_server_live()
    assert bed.http.is_model_ready("lenet") and bed.http.is_model_ready("lenet", "1")
    assert bed.http.get_server_metadata()["name"] == "moire"
    m = bed.http.get_model_metadata("lenet")
    assert m["inputs"] == [{"name": "input", "datatype": "FP32", "shape": [-1, 1, 32, 32]}], m
    assert m["outputs"][0]["shape"] == [-1, 10], m
    c = bed.http.get_model_config("configured")
    assert c["max_batch_size"] == 8 and c["input"][0]["dims"] == [1, 32, 32], c


@case
def answers_are_onnx_runtimes(bed, reference):
    for seed in range(20):
        x = images(1, seed)
        assert near(ask(bed, x), reference(x))
        assert near(ask(bed, x, binary=False), reference(x))


@case
def any_batch(bed, reference):
    for n in (2, 3, 5, 8):
        assert near(ask(bed, images(n, n)), reference(images(n, n)))


@case
def more_shapes_than_are_kept(bed, reference):
    for n in list(range(1, 21)) + [1, 20, 3]:
        assert near(ask(bed, images(n, n)), reference(images(n, n)))


@case
def a_batch_beyond_max_batch_size(bed, reference):
    assert near(ask(bed, images(8, 1), model="configured"), reference(images(8, 1)))
    try:
        ask(bed, images(9, 1), model="configured")
        raise AssertionError("a batch of 9 was answered")
    except InferenceServerException as e:
        assert "max_batch_size" in e.message(), e


@case
def asynchronous_requests(bed, reference):
    xs = [images(1, 100 + i) for i in range(200)]
    running = [bed.http.async_infer("lenet", [tensor(x)]) for x in xs]
    for x, r in zip(xs, running):
        assert near(r.get_result().as_numpy("output"), reference(x))


@case
def nobody_gets_anothers_answer(bed, reference):
    xs = [images(1 + i % 3, 1000 + i) for i in range(60)]
    right = [reference(x) for x in xs]

    def walk(k):
        with client.InferenceServerClient(f"127.0.0.1:{bed.http_port}") as c:
            for i in range(300):
                at = (i * 7 + k * 13) % len(xs)
                y = c.infer("lenet", [tensor(xs[at])], request_id=f"{k}-{i}")
                assert y.get_response()["id"] == f"{k}-{i}"
                assert near(y.as_numpy("output"), right[at])

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(walk, range(8)))


@case
def a_raw_body(bed, reference):
    x = images(2, 5)
    request = urllib.request.Request(bed.url + "/v2/models/lenet/infer", x.tobytes(),
                                     {"Inference-Header-Content-Length": "0"})
    with urllib.request.urlopen(request) as answer:
        n = int(answer.headers["Inference-Header-Content-Length"])
        body = answer.read()
    shape = json.loads(body[:n])["outputs"][0]["shape"]
    assert near(numpy.frombuffer(body[n:], numpy.float32).reshape(shape), reference(x))


@case
def compressed_bodies(bed, reference):
    x = images(8, 3)
    for coding in ("gzip", "deflate"):
        y = bed.http.infer("lenet", [tensor(x, binary=False)], request_compression_algorithm=coding,
                             response_compression_algorithm=coding,
                             outputs=[client.InferRequestedOutput("output", binary_data=False)])
        assert near(y.as_numpy("output"), reference(x))
        y = bed.http.infer("lenet", [tensor(x)], request_compression_algorithm=coding,
                             response_compression_algorithm=coding)
        assert near(y.as_numpy("output"), reference(x))
    for coding, body, status in (("gzip", gzip.compress(b"{}") + b"x", 400), ("gzip", gzip.compress(b"{}")[:-9], 400),
                                 ("gzip", gzip.compress(bytes(80 << 20)), 400), ("br", b"{}", 501)):
        request = urllib.request.Request(bed.url + "/v2/models/lenet/infer", body, {"Content-Encoding": coding})
        try:
            urllib.request.urlopen(request)
            raise AssertionError(f"{coding}: {body[:9]} was answered")
        except urllib.error.HTTPError as e:
            assert e.code == status, (coding, e.code, e.read())


@case
def timeouts_and_priorities(bed, reference):
    x = images(1, 1)
    assert near(ask(bed, x, model="configured", timeout=5_000_000, priority=1), reference(x))
    try:
        ask(bed, images(8, 1), model="configured", timeout=1)
        raise AssertionError("a timeout of a microsecond was kept")
    except InferenceServerException as e:
        assert "deadline" in e.message(), e


@case
def errors_have_their_status(bed, reference):
    assert bed.status("/v2/models/nope") == 404
    assert bed.status("/v2/models/lenet/versions/9/ready") == 404
    assert bed.status("/v2/health/live", b"") == 405
    assert bed.status("/v2/models/lenet/infer", b"{") == 400
    for name in ("input", "other"):
        try:
            t = client.InferInput(name, [1, 2], "FP32")
            t.set_data_from_numpy(numpy.zeros((1, 2), numpy.float32))
            bed.http.infer("lenet", [t])
            raise AssertionError("a wrong input was answered")
        except InferenceServerException as e:
            assert name in e.message()


@case
def statistics(bed, reference):
    before = bed.http.get_inference_statistics("configured")["model_stats"][0]["inference_stats"]["success"]["count"]
    ask(bed, images(1, 1), model="configured")
    after = bed.http.get_inference_statistics("configured")["model_stats"][0]
    assert after["inference_stats"]["success"]["count"] == before + 1
    assert {m["name"] for m in bed.http.get_inference_statistics()["model_stats"]} == {"lenet", "configured"}


@case
def the_repository(bed, reference):
    assert {m["name"]: m["state"] for m in bed.http.get_model_repository_index()} == {
        "lenet": "READY", "configured": "READY"}


def control(moire, folder):
    bed = Bed(moire, folder, "--model-control-mode", "explicit")
    try:
        assert not bed.http.is_model_ready("lenet")
        bed.http.load_model("lenet")
        assert bed.http.is_model_ready("lenet")
        bed.http.unload_model("lenet")
        assert not bed.http.is_model_ready("lenet")
        try:
            bed.http.load_model("nope")
            raise AssertionError("a model that is not there was loaded")
        except InferenceServerException as e:
            assert "nope" in e.message()
    finally:
        assert bed.stop() == 0


def memory_is_given_back(moire, folder, reference):
    """Loads that go well and loads that fail: no memory, file or mapping is left behind."""
    with open(os.path.join(folder, "lenet.onnx"), "rb") as whole, open(os.path.join(folder, "broken.onnx"), "wb") as f:
        f.write(whole.read(3000))
    bed = Bed(moire, folder, "--model-control-mode", "explicit")
    proc = f"/proc/{bed.process.pid}"

    def held():
        with open(f"{proc}/status", encoding="utf-8") as f, open(f"{proc}/maps", encoding="utf-8") as m:
            rss = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
            return rss, len(os.listdir(f"{proc}/fd")), len(m.readlines())

    def cycle():
        bed.http.load_model("lenet")
        assert near(ask(bed, images(1, 1)), reference(images(1, 1)))
        bed.http.unload_model("lenet")
        try:
            bed.http.load_model("broken")
            raise AssertionError("a broken model was loaded")
        except InferenceServerException as e:
            assert "broken.onnx" in e.message()

    try:
        for _ in range(50):
            cycle()
        first = held()
        for _ in range(450):
            cycle()
        last = held()
        # a thread that allocates for the first time has a heap of its own: two mappings
        assert last[0] - first[0] <= 1024 and last[1] <= first[1] and last[2] <= first[2] + 16, (first, last)
    finally:
        os.unlink(os.path.join(folder, "broken.onnx"))
        bed.stop()


def reload_under_load(moire, folder, reference):
    """SIGHUP with a file that is touched: every request is answered, and right."""
    bed = Bed(moire, folder)
    bed.wait()
    x, stop, wrong = images(1, 1), threading.Event(), []
    right = reference(x)

    def walk(_):
        with client.InferenceServerClient(f"127.0.0.1:{bed.http_port}") as c:
            while not stop.is_set():
                try:
                    if not near(c.infer("lenet", [tensor(x)]).as_numpy("output"), right):
                        wrong.append("another answer")
                except InferenceServerException as e:
                    wrong.append(e.message())

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        walks = [pool.submit(walk, i) for i in range(4)]
        for _ in range(10):
            os.utime(os.path.join(folder, "lenet.onnx"))
            bed.process.send_signal(signal.SIGHUP)
            time.sleep(0.1)
        stop.set()
        for w in walks:
            w.result()
    assert bed.stop() == 0
    assert not wrong, wrong[:3]


def end_under_load(moire, folder, reference):
    """SIGTERM: what was taken is answered; what was not is refused, never lost in silence."""
    bed = Bed(moire, folder)
    bed.wait()
    x, lost, answered = images(1, 1), [], []
    right = reference(x)

    def walk(_):
        body = json.dumps({"inputs": [{"name": "input", "datatype": "FP32", "shape": list(x.shape),
                                       "data": x.ravel().tolist()}]}).encode()
        while True:
            try:
                with urllib.request.urlopen(bed.url + "/v2/models/lenet/infer", body) as answer:
                    y = numpy.array(json.load(answer)["outputs"][0]["data"], numpy.float32)
                    (answered if near(y.reshape(right.shape), right) else lost).append(1)
            except urllib.error.HTTPError as e:
                if e.code != 503:
                    lost.append(e.code)
                return
            except OSError:
                return  # the connection was refused or closed before anything was taken

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        walks = [pool.submit(walk, i) for i in range(4)]
        time.sleep(0.5)
        code = bed.stop()
        for w in walks:
            w.result()
    assert code == 0 and answered and not lost, (code, len(answered), lost[:3])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moire", default="build/moire")
    moire = os.path.abspath(parser.parse_args().moire)
    with running(moire) as (bed, folder, reference):
        good = [run(c.__name__, lambda c=c: c(bed, reference)) for c in CASES]
        good.append(run("it ends when asked", lambda: [None][bed.stop()]))
        good.append(run("control", lambda: control(moire, folder)))
        good.append(run("memory_is_given_back", lambda: memory_is_given_back(moire, folder, reference)))
        good.append(run("reload_under_load", lambda: reload_under_load(moire, folder, reference)))
        good.append(run("end_under_load", lambda: end_under_load(moire, folder, reference)))
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
