#!/usr/bin/env python3
"""session_times.py - one system with one model for sessions.py: it runs as long as it is told to.

    session_times.py moire|onnxruntime FILE SHAPE|- THREADS COMPILED

Says first, as JSON, its version and the files of the outputs of one run.  Then each line of the
input is a number of seconds, and answered with the us of every run; the first three do not count.
Inputs are drawn: floats from a normal distribution, integers 0 or 1, which every vocabulary has.
"""

import json
import os
import sys
import tempfile
import time

import numpy


def by_moire(file, threads, compiled):
    import moire

    return moire.Session(file, threads=threads, generic_only=not compiled), moire.__version__


def by_onnxruntime(file, threads, _):
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(file, settings, ["CPUExecutionProvider"])
    return session, onnxruntime.__version__


def feed_of(session, shape):
    """Both systems name types alike: tensor(float), tensor(int64)."""
    draw, feed = numpy.random.default_rng(1), {}
    for port in session.get_inputs():
        dims = shape or [n if isinstance(n, int) else 1 for n in port.shape]
        made = draw.standard_normal(dims, numpy.float32)
        feed[port.name] = made if port.type == "tensor(float)" else (made > 0).astype("int64")
    return feed


def times(call, seconds):
    for _ in range(3):
        call()
    found, end = [], time.perf_counter_ns() + seconds * 1e9
    while not found or time.perf_counter_ns() < end:
        begin = time.perf_counter_ns()
        call()
        found.append((time.perf_counter_ns() - begin) / 1e3)
    return found


def main():
    system, file, shape, threads, compiled = sys.argv[1:]
    shape = [] if shape == "-" else [int(n) for n in shape.split("x")]
    make = {"moire": by_moire, "onnxruntime": by_onnxruntime}[system]
    session, version = make(file, int(threads), compiled == "1")
    feed = feed_of(session, shape)
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for i, array in enumerate(session.run(None, feed)):
            paths.append(os.path.join(folder, f"{i}.npy"))
            numpy.save(paths[-1], array)
        print(json.dumps({"version": version, "outputs": paths}), flush=True)
        for line in sys.stdin:
            print(json.dumps(times(lambda: session.run(None, feed), float(line))), flush=True)


if __name__ == "__main__":
    main()
