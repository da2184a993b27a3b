#!/usr/bin/env python3
"""sessions.py - what the Python package adds to a call in C, and its times beside ONNX Runtime's.

The first table is of one tiny model: `moire_run` called from Python with everything prepared, which
is the call in C and some 0.3 us of cffi, and `Session.run`.  The second one has networks of the zoo
(`moire zoo list`), files, and the three of `moire ocr` (det, cls, rec, where the package
rapidocr_onnxruntime lies), each by `Session.run` and by ONNX Runtime's `InferenceSession.run`, with
the same input and the same number of threads.

Every system has a process of its own (session_times.py), for threads of ONNX Runtime spin on after
a run.  They take turns, and between turns nobody runs; a disturbance meets all.  The least time
and the median of all turns are told, the ratio of the least, and how far outputs are apart.

    sessions.py [--threads 1,2] [--seconds S] [--turns N] [--compiled] [--json FILE] [MODEL...]

MODEL: a name of the zoo, det, cls, rec, or FILE.onnx[:1x3x224x224] for open dimensions.
--compiled: moire's column is of kernels that `moire compile` made before; without, of built-in ones.
"""

import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

import moire
from moire import commands
from moire._native import ffi, lib
from moire._tensors import tensors

HERE = os.path.dirname(os.path.abspath(__file__))
ZOO = ["lenet", "squeezenet1.0", "mobilenet-v2", "resnet50", "bert-base"]
OCR = {
    "det": ("ch_PP-OCRv4_det_infer.onnx", "1x3x640x640"),
    "cls": ("ch_ppocr_mobile_v2.0_cls_infer.onnx", "1x3x48x192"),
    "rec": ("ch_PP-OCRv4_rec_infer.onnx", "1x3x48x320"),
}
PAUSE_S = 0.3  # between turns: threads that spin have gone to sleep


class Worker:
    """One system with one model in a process of its own, which runs when it is told to."""

    def __init__(self, system, file, shape, threads, compiled):
        words = [sys.executable, os.path.join(HERE, "session_times.py"), system, file]
        words += [shape or "-", str(threads), str(int(compiled))]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.system, self.times = system, []
        self.told = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"sessions.py: the process of {self.system} ended")
        return json.loads(line)

    def turn(self, seconds):
        """Adds what it took in us, each run."""
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        self.times += self.answer()
        time.sleep(PAUSE_S)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def medians(calls, seconds):
    """Median us of each call.  They take turns of a quarter second, so that a disturbance meets
    all of them, and the first calls of a turn do not count.
    """
    times = [[] for _ in calls]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[-1]) < 5:
        for call, kept in zip(calls, times):
            for _ in range(3):
                call()
            turn = time.perf_counter() + 0.25
            while time.perf_counter() < turn:
                begin = time.perf_counter_ns()
                call()
                kept.append((time.perf_counter_ns() - begin) / 1e3)
    return [statistics.median(kept) for kept in times]


def bare_call(session, feed):
    """moire_run of the session's tenant with tensors that are made once."""
    outputs = session.run(None, feed)
    model = session._model
    with model.held() as (tenant,):
        handle = tenant.handle
    made, kept = tensors(model.arrays(feed), model.inputs)
    out, err = ffi.new("moire_tensor[]", len(outputs)), ffi.new("moire_error *")
    for tensor, array in zip(out, outputs):
        tensor.data = ffi.from_buffer(array)

    def call():
        for tensor, array in zip(out, outputs):
            tensor.bytes = array.nbytes
        if lib.moire_run(handle, made, len(feed), out, len(outputs), err):
            raise RuntimeError(ffi.string(err.message).decode())
        return kept

    return call


def overhead(folder, seconds):
    """us of moire_run and of Session.run, of LeNet on one thread."""
    file, _ = file_of("lenet", folder)
    with moire.Session(file, threads=1) as session:
        feed = {"input": numpy.ones((1, 1, 32, 32), numpy.float32)}
        bare, run = medians([bare_call(session, feed), lambda: session.run(None, feed)], seconds)
    print(f"lenet, 1 thread: moire_run {bare:.1f} us, Session.run {run:.1f} us, more {run - bare:.1f}")
    return {"moire_run_us": round(bare, 2), "session_run_us": round(run, 2)}


def ocr_file(name):
    """Where the package has it; None: there is no such package."""
    package = importlib.util.find_spec("rapidocr_onnxruntime")
    folder = package and os.path.join(package.submodule_search_locations[0], "models")
    return folder and os.path.join(folder, OCR[name][0])


def file_of(model, folder):
    """Path and shape of a model as the command line has it; the zoo's are made in the folder."""
    if model in OCR:
        return ocr_file(model), OCR[model][1]
    if ".onnx" in model:
        path, _, shape = model.partition(":")
        return path, shape
    path = os.path.join(folder, model + ".onnx")
    if not os.path.exists(path):
        commands.run("zoo", "build", model, "-o", path)
    about = next(one for one in commands.run("zoo", "list") if one["name"] == model)
    return path, "x".join(map(str, about["inputs"][0]["shape"]))


def apart(outputs):
    """The largest difference of the first outputs, as a part of the largest number of the second's."""
    first, second = ([numpy.load(path) for path in paths] for paths in outputs)
    most = max(float(abs(b).max()) for b in second)
    return max(float(abs(a - b).max()) for a, b in zip(first, second)) / (most or 1)


def beside(model, threads, folder, o):
    """A row of the table."""
    file, shape = file_of(model, folder)
    systems = ["moire"] + ["onnxruntime"] * bool(importlib.util.find_spec("onnxruntime"))
    workers = [Worker(system, file, shape, threads, o.compiled) for system in systems]
    for _ in range(o.turns):
        for worker in workers:
            worker.turn(o.seconds / o.turns)
    row = {"model": model, "threads": threads}
    for worker in workers:
        row[worker.system] = {
            "least_ms": round(min(worker.times) / 1e3, 4),
            "median_ms": round(statistics.median(worker.times) / 1e3, 4),
            "runs": len(worker.times),
            "version": worker.told["version"],
        }
    if len(workers) == 2:
        row["apart"] = apart([worker.told["outputs"] for worker in workers])
        row["ratio"] = round(row["onnxruntime"]["least_ms"] / row["moire"]["least_ms"], 3)
    for worker in workers:
        worker.close()
    return row


def shown(row):
    cells = [f"{row['model'][-28:]:<28}{row['threads']:>8}"]
    for system in ("moire", "onnxruntime"):
        if system in row:
            cells.append(f"{row[system]['least_ms']:>12.3f}{row[system]['median_ms']:>10.3f}")
    if "ratio" in row:
        cells.append(f"{row['ratio']:>8.2f}{row['apart']:>10.1e}")
    print("".join(cells), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    usual = ZOO + [name for name in OCR if ocr_file(name)]
    parser.add_argument("models", nargs="*", default=usual)
    parser.add_argument("--threads", default="1,2", help="numbers of threads")
    parser.add_argument("--seconds", type=float, default=3, help="for each model and system")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--compiled", action="store_true", help="moire by its compiled kernels")
    parser.add_argument("--json", metavar="FILE")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = {"processor": platform.processor() or platform.machine(), "compiled": o.compiled}
        result |= {"overhead": overhead(folder, min(o.seconds, 3)), "rows": []}
        print(f"{'ms':<28}{'threads':>8}{'moire least':>12}{'median':>10}", end="")
        print(f"{'ort least':>12}{'median':>10}{'ratio':>8}{'apart':>10}")
        for model in o.models:
            for threads in map(int, o.threads.split(",")):
                row = beside(model, threads, folder, o)
                result["rows"].append(row)
                shown(row)
    if o.json:
        with open(o.json, "w", encoding="utf-8") as f:
            json.dump(result, f, indent=1)


if __name__ == "__main__":
    main()
