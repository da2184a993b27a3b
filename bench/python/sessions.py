#!/usr/bin/env python3
"""sessions.py - what the Python package adds to a call in C, and its times beside ONNX Runtime's.

The first table has medians of one tiny model: `moire_run` called from Python with everything
prepared, which is the call in C and some 0.3 us of cffi, and `Session.run`.  The second one has
medians of models of the zoo (`moire zoo list`), by turns, with the same number of threads; a column
of ONNX Runtime is there if it can be imported.  Models that are compiled before (`moire compile`)
run by their compiled kernels.

    sessions.py [--threads N] [--seconds S] [--store DIR] [--pin] [MODEL...]
"""

import argparse
import os
import statistics
import tempfile
import time

import numpy

import moire
from moire import commands
from moire._native import ffi, lib
from moire._tensors import tensors

try:
    import onnxruntime
except ImportError:
    onnxruntime = None


def medians(calls, seconds):
    """Median us of each call.  They take turns of a quarter second, so that a disturbance meets
    all of them, and the first calls of a turn do not count: threads of the one before may spin.
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


def feed_of(session):
    """An input of ones for each port; open dimensions are 1."""
    return {
        port.name: numpy.ones([n or 1 for n in port.shape], port.dtype)
        for port in session.get_inputs()
    }


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
    path = os.path.join(folder, "lenet.onnx")
    commands.run("zoo", "build", "lenet", "-o", path)
    with moire.Session(path, threads=1) as session:
        feed = feed_of(session)
        bare, run = medians([bare_call(session, feed), lambda: session.run(None, feed)], seconds)
    print(
        f"lenet, 1 thread: moire_run {bare:.1f} us, Session.run {run:.1f} us, more {run - bare:.1f}"
    )


def beside(name, folder, options):
    path = os.path.join(folder, name + ".onnx")
    commands.run("zoo", "build", name, "-o", path)
    with moire.Session(
        path, threads=options.threads, store=options.store, pin=options.pin
    ) as session:
        feed = feed_of(session)
        calls = [lambda: session.run(None, feed)]
        if onnxruntime:
            settings = onnxruntime.SessionOptions()
            settings.intra_op_num_threads = options.threads
            other = onnxruntime.InferenceSession(path, settings, ["CPUExecutionProvider"])
            calls.append(lambda: other.run(None, feed))
        times = medians(calls, options.seconds)
    print(f"{name:<22}" + "".join(f"{us / 1e3:12.3f}" for us in times), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", default=["lenet", "mobilenet-v2", "resnet50"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5, help="for each model")
    parser.add_argument("--store", help="folder of compiled kernels")
    parser.add_argument("--pin", action="store_true", help="bind moire's threads to cores")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        overhead(folder, options.seconds)
        columns = ["Session.run"] + ["onnxruntime"] * bool(onnxruntime)
        threads = f"ms, {options.threads} thread" + "s" * (options.threads > 1)
        print(f"{threads:<22}" + "".join(f"{c:>12}" for c in columns))
        for name in options.models:
            beside(name, folder, options)


if __name__ == "__main__":
    main()
