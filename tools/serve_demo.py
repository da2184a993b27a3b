#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve_demo.py - the second half of tools/serve-demo: a repository of real models, a server, a mixed load, a table.

The load is Poisson and open: requests come when they come, whether the server is ready or not.  They are sent by
tritonclient over gRPC.  Each model has an equal share of the machine's time, and a target of a few times what it takes
alone; so which models are hard to serve depends on the machine as little as possible.  --flame draws where the server's
time went meanwhile, by perf.
"""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request

import numpy
import tritonclient.grpc as client

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "serve"))
import browser  # noqa: E402 (its folder is known from here on)

ZOO = ["lenet", "mobilenet-v2", "squeezenet1.0", "googlenet", "resnet50", "tiny-yolov2"]
# Text recognition: three trained networks, whose inputs take any size.
OCR = {"ocr-det": ("ch_PP-OCRv4_det_infer.onnx", [1, 3, 320, 320]),
       "ocr-cls": ("ch_ppocr_mobile_v2.0_cls_infer.onnx", [1, 3, 48, 192]),
       "ocr-rec": ("ch_PP-OCRv4_rec_infer.onnx", [1, 3, 48, 320])}
TARGET_TIMES, LEAST_TARGET_MS, MOST_PER_SECOND = 6, 5, 60


def say(text):
    print(f"\n== {text}", flush=True)


def ocr_models():
    import rapidocr_onnxruntime
    folder = os.path.join(os.path.dirname(rapidocr_onnxruntime.__file__), "models")
    return {name: (os.path.join(folder, file), shape) for name, (file, shape) in OCR.items()}


def solo_ms(moire, path, shape):
    command = [moire, "run", path, "--repeat", "7", "--json"]
    if shape:
        command += ["--shape", "x=" + ",".join(map(str, shape))]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["median_ms"]


def make_repository(moire, folder):
    """Returns {name: solo ms}."""
    solo = {}
    found = {name: (None, None) for name in ZOO}
    found.update(ocr_models())
    for name, (path, shape) in found.items():
        os.makedirs(os.path.join(folder, name, "1"), exist_ok=True)
        model = os.path.join(folder, name, "1", "model.onnx")
        if not os.path.exists(model):
            if path:
                os.symlink(path, model)
            else:
                subprocess.run([moire, "zoo", "build", name, "-o", model], check=True, stdout=subprocess.DEVNULL)
        solo[name] = solo_ms(moire, model, shape)
        target = max(LEAST_TARGET_MS, round(TARGET_TIMES * solo[name]))
        with open(os.path.join(folder, name, "config.pbtxt"), "w", encoding="utf-8") as f:
            f.write(f'name: "{name}"\nparameters {{ key: "qos_ms" value: {{ string_value: "{target}" }} }}\n')
        print(f"  {name:16} alone {solo[name]:8.2f} ms, target {target} ms", flush=True)
    return solo


class Server:
    def __init__(self, moire, folder, http_port):
        self.process = subprocess.Popen(
            [moire, "serve", "--model-repository", folder, "--http-port", str(http_port), "--grpc-port", "0",
             "--metrics-port", "-1", "--json"], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit("serve-demo: the server does not start; its reason stands above")
        ports = json.loads(line)
        self.url, self.grpc = f"http://127.0.0.1:{ports['http_port']}", f"127.0.0.1:{ports['grpc_port']}"
        self.stopped = False

    def live(self):
        with urllib.request.urlopen(self.url + "/v2/moire/live?since=none") as answer:
            return json.load(answer)

    def wait(self):
        while not self.live()["ready"]:
            if self.process.poll() is not None:
                sys.exit("serve-demo: the server has ended")
            time.sleep(0.2)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


def request_of(asker, name):
    port = asker.get_model_metadata(name).inputs[0]
    shape = [1 if i == 0 and d < 0 else d for i, d in enumerate(port.shape)]
    if name in OCR:
        shape = OCR[name][1]
    x = numpy.random.default_rng(1).random(shape, dtype=numpy.float32)
    tensor = client.InferInput(port.name, shape, port.datatype)
    tensor.set_data_from_numpy(x)
    return [tensor]


def send(asker, name, inputs, per_second, seconds, seed, lost):
    """Poisson arrivals; every answer is awaited."""
    draw, ended, n, lock = random.Random(seed), threading.Semaphore(0), 0, threading.Lock()

    def answered(result, error):
        if error:
            with lock:
                lost[name] = lost.get(name, 0) + 1
        ended.release()

    at = time.monotonic()
    end = at + seconds
    while True:
        at += draw.expovariate(per_second)
        if at > end:
            break
        time.sleep(max(0, at - time.monotonic()))
        asker.async_infer(name, inputs, answered)
        n += 1
    for _ in range(n):
        ended.acquire()


class Flame:
    """perf beside the server, and what it saw as a flame graph by thread; docs/serving-perf.md reads one."""
    HERTZ, STACK = 499, 8192

    def __init__(self, pid, folder):
        if not shutil.which("perf"):
            sys.exit("serve-demo: --flame needs perf (Debian: linux-perf)")
        self.data = os.path.join(folder, "perf.data")
        self.perf = subprocess.Popen(
            ["perf", "record", "-q", "-F", str(self.HERTZ), "-e", "cpu-clock", "--call-graph", f"dwarf,{self.STACK}",
             "-p", str(pid), "-o", self.data])

    def draw(self, title, file):
        self.perf.send_signal(signal.SIGINT)
        self.perf.wait(60)
        script = subprocess.Popen(["perf", "script", "--no-inline", "-F", "comm,ip,sym,dso", "-i", self.data],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        with open(file, "w", encoding="utf-8") as f:
            subprocess.run([os.path.join(os.path.dirname(os.path.abspath(__file__)), "flame-graph"), "--threads",
                            "--title", title], stdin=script.stdout, stdout=f, check=True)
        if script.wait(60):
            sys.exit("serve-demo: perf script failed; it may say why: perf script -i " + self.data)


def quantile(times, bounds, q):
    rank = q * times["count"]
    for bucket, count in enumerate(times["buckets"]):
        if rank <= count:
            return bounds[min(bucket, len(bounds) - 1)]
        rank -= count
    return 0


def print_table(live, lost):
    print(f"\n{'model':16} {'target ms':>9} {'requests':>9} {'in time':>8} {'p50 ms':>8} {'p99 ms':>8}  errors")
    for m in live["models"]:
        share = m["total"]["in_time"] / max(1, m["total"]["due"])
        print(f"{m['name']:16} {m['target_ms']:9g} {m['total']['due']:9} {share:8.1%} "
              f"{quantile(m['request'], live['bounds_ms'], .5):8g} {quantile(m['request'], live['bounds_ms'], .99):8g}"
              f"  {lost.get(m['name'], 0)}")
    below = [m["name"] for m in live["models"] if m["below"]]
    print("\nbelow its target (95 % in time): " + ", ".join(below) if below else "\nevery model is within its target")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--moire", default="build/moire")
    p.add_argument("--out", default="build/serve-demo")
    p.add_argument("--seconds", type=float, default=30)
    p.add_argument("--load", type=float, default=0.5, help="share of the machine's time that the models need alone")
    p.add_argument("--http-port", type=int, default=8000, help="0: any that is free")
    p.add_argument("--dark", action="store_true", help="the picture in dark colours")
    p.add_argument("--no-browser", action="store_true", help="no picture, though Chromium is there")
    p.add_argument("--flame", metavar="FILE", help="a flame graph of the server under this load, by perf")
    a = p.parse_args()
    looks = browser.find() is not None and not a.no_browser
    say("models, each alone")
    solo = make_repository(a.moire, os.path.join(a.out, "models"))
    server = Server(a.moire, os.path.join(a.out, "models"), a.http_port)
    try:
        server.wait()
        asker = client.InferenceServerClient(server.grpc)
        inputs = {name: request_of(asker, name) for name in solo}
        for name in solo:
            asker.infer(name, inputs[name])
        say(f"a mixed load of tritonclient for {a.seconds:g} s; look at it: {server.url}/")
        page = browser.Browser(scale=2, dark=a.dark) if looks else None
        if page:
            page.open(server.url + "/")
            page.wait("document.querySelector('#rows tr') !== null")
        flame = Flame(server.process.pid, a.out) if a.flame else None
        lost, threads = {}, []
        for seed, (name, ms) in enumerate(solo.items()):
            rate = min(MOST_PER_SECOND, a.load / len(solo) / (ms / 1000))
            threads.append(threading.Thread(target=send, args=(asker, name, inputs[name], rate, a.seconds, seed, lost)))
            threads[-1].start()
        for t in threads:
            t.join()
        live = server.live()
        if flame:
            flame.draw(f"moire serve, nine models at load {a.load:g}", a.flame)
            say(f"where the server's time went: {a.flame}")
        if page:
            page.picture(os.path.join(a.out, "page.png"))
            page.close()
        print_table(live, lost)
        with open(os.path.join(a.out, "live.json"), "w", encoding="utf-8") as f:
            json.dump(live, f, indent=1)
        asker.close()
    finally:
        code = server.stop()
    say(f"the server has ended with {code}" + (f"; the page: {a.out}/page.png" if looks else
                                             f"; the data: {a.out}/live.json"))
    sys.exit(code)


if __name__ == "__main__":
    main()
