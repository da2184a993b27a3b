#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tvm_tune.py MODEL.onnx --minutes M [--threads N] [--shape NAME=d,d,...]... - a program of TVM for this machine.

Searches with MetaSchedule for so long, builds the program, compares its answers with ONNX Runtime's and keeps it
for tvm_runner.py.  A program that is there already stays; --more goes on with its search.
Standard output: what it took, as JSON."""
import argparse
import json
import logging
import os
import sys
import time

import tvm_cache
import tvm_schedule

RIGHT = 1e-3  # of an output's range


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("--minutes", type=float, required=True, help="time of import, search and build together")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--shape", action="append", default=[], metavar="NAME=d,d,...")
    p.add_argument("--more", action="store_true", help="search on where there is a program already")
    return p.parse_args()


def shapes_of(words):
    """--shape of the command line as {input: [dims]}."""
    shapes = {}
    for word in words:
        name, _, dims = word.rpartition("=")
        if not name:
            raise ValueError(f"--shape {word}: must be NAME=d,d,...")
        shapes[name] = [int(d) for d in dims.split(",")]
    return shapes


def distance(want, got):
    """Largest difference, in parts of the range of what is wanted."""
    import numpy
    if want.shape != got.shape or not numpy.isfinite(got).all():
        return float("inf")
    return float(abs(want - got).max() / max(float(want.max() - want.min()), 1e-30))


def compare(model, inputs, outputs):
    """How far TVM's outputs are from ONNX Runtime's."""
    import onnxruntime
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return max(distance(want, got) for want, got in zip(session.run(None, inputs), outputs))


def tune(options, folder, ports):
    import tvm
    import tvm_runner
    import tvm_search
    start = time.monotonic()

    def progress(trials, task, failed):
        print(f"tvm_tune: {time.monotonic() - start:.0f} s, {trials} candidates, task {task}"
              + (f"; {len(failed)} failed: {failed[0][-100:]}" if failed else ""), file=sys.stderr, flush=True)

    target = tvm_search.target_of(options.threads)
    network = tvm_search.read(options.model, ports, target)
    tasks, trials = tvm_search.search(network, target, folder, start + 60 * options.minutes, os.cpu_count(), progress)
    searched = time.monotonic()
    program = tvm_search.build(network, target, folder)
    program.export_library(os.path.join(folder, tvm_cache.PROGRAM))
    seconds = time.monotonic() - start
    inputs = {name: tvm_runner.made_up(dims, kind) for name, dims, kind in ports}
    got = tvm.relax.VirtualMachine(program, tvm.cpu())["main"](*[tvm.runtime.tensor(x) for x in inputs.values()])
    got = [t.numpy() for t in (got if not hasattr(got, "numpy") else [got])]
    off = compare(options.model, inputs, got)
    if not off <= RIGHT:
        raise RuntimeError(f"TVM's answers are wrong: off by {off:.2g} of the range; the program is not kept")
    return {"tasks": tasks, "trials": trials, "seconds": seconds, "build_seconds":
            seconds - (searched - start), "minutes": options.minutes, "threads": options.threads,
            "target": str(target), "tvm": tvm_cache.version(), "off": off,
            "best": tvm_schedule.best_of(folder)}


def main():
    options = arguments()
    logging.disable(logging.WARNING)  # MetaSchedule tells every round
    if tvm_cache.version() is None:
        sys.exit("tvm_tune: TVM is not installed here; run `tools/setup --tvm` and use its Python")
    os.environ["TVM_NUM_THREADS"] = str(options.threads)
    import converted
    import tvm_runner
    tenant = {"model": options.model, "shapes": shapes_of(options.shape)}
    ports = list(converted.inputs_of(tenant, tvm_runner.TYPE))
    folder = tvm_cache.folder_of(options.model, ports, options.threads)
    told = tvm_cache.about(folder)
    if told is None or options.more:
        os.makedirs(folder, exist_ok=True)
        told = tune(options, folder, ports)
        tvm_cache.keep(folder, told)
    print(json.dumps({**told, "folder": folder}))


if __name__ == "__main__":
    main()
