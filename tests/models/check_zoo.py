#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_zoo.py - builds zoo models, checks them with the ONNX checker and ONNX Runtime, and compares what
`moire run` computes (with compiled variants and --generic) with ONNX Runtime's answer.

Prints one row for each model: output scale, largest absolute error and that error relative to the output's
range; ends with "N passed, N failed, N skipped".  --small leaves out what takes long on two cores.  The mode
"specialised" first lets `moire compile` work on each model of --compile for --budget seconds; "threads" is the
generic mode on two cores, "avx2" and "base" hold it to that instruction set.

  tests/models/check_zoo.py --moire build/moire --folder build/zoo [--small] [--no-run] [NAME...]
"""
import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime

LARGE = {"vgg16", "vgg19", "resnext101", "ssd-resnet34-1200", "bert-large"}
TOLERANCE = 1e-3  # relative to the output range


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--moire", default="build/moire")
    p.add_argument("--folder", default="build/zoo", help="where the model files are (made when missing)")
    p.add_argument("--keep", action="store_true", help="leave the files that were made: 4 GB for all models")
    p.add_argument("--small", action="store_true", help="only models that run within seconds")
    p.add_argument("--no-run", action="store_true", help="check the files only, do not call `moire run`")
    p.add_argument("--modes", default="generic,threads,avx2,base,specialised")
    p.add_argument("--compile", default="all", help="models of the specialised mode, by comma; or all")
    p.add_argument("--budget", type=int, default=60, help="seconds of `moire compile` for each")
    p.add_argument("--store", help="folder of compiled variants; FOLDER/store when not given")
    p.add_argument("--batch", type=int, default=1)
    p.add_argument("--sequence", type=int, default=48, help="length of BERT inputs, at most 512")
    p.add_argument("names", nargs="*")
    return p.parse_args()


@contextlib.contextmanager
def model_file(args, row):
    """The file of this model; one that had to be made is there for the time of its checks only."""
    path = os.path.join(args.folder, row["name"] + ".onnx")
    made = not os.path.exists(path)
    try:
        if made:
            call([args.moire, "zoo", "build", row["name"], "-o", path])
        yield path
    finally:
        if made and not args.keep and os.path.exists(path):
            os.remove(path)


def make_inputs(row, batch, sequence):
    rng = np.random.default_rng(7)
    feed = {}
    for i in row["inputs"]:
        shape = [batch] + i["shape"][1:]
        if i["type"] == "float32":
            feed[i["name"]] = rng.standard_normal(shape).astype(np.float32)
            continue
        shape[1] = sequence
        if i["name"] == "attention_mask":
            feed[i["name"]] = np.ones(shape, np.int64)
            for n in range(batch):  # every sequence of the batch ends elsewhere
                feed[i["name"]][n, sequence - 5 - n:] = 0
        else:
            feed[i["name"]] = rng.integers(0, 2 if i["name"] == "token_type_ids" else 30522, shape)
    return feed


def reference(path, feed):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, feed)))


def healthy(outputs):
    """Finite, of order one, and not the same number everywhere."""
    for name, y in outputs.items():
        if not np.isfinite(y).all():
            return f"{name} is not finite"
        if not 0.05 < np.sqrt(np.mean(y.astype(np.float64) ** 2)) < 20:
            return f"{name} has root mean square {np.sqrt(np.mean(y ** 2)):.3g}"
        if y.std() < 0.01:
            return f"{name} is constant"
    return None


def call(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        text = (done.stderr or done.stdout).strip()
        raise RuntimeError(text.splitlines()[-1] if text else f"{command[1]}: exit status {done.returncode}")
    return done.stdout


def compile_layers(args, path, shapes):
    """Compiles what the budget allows; "N of M layers compiled"."""
    out = json.loads(call([args.moire, "compile", path, "--store", args.store, "--budget", str(args.budget),
                           "--json", *shapes]))
    totals = out["totals"]
    if totals["failed"] or totals["compiled"] + totals["reused"] == 0:
        raise RuntimeError(f"compile: {totals}")
    return f"{totals['compiled'] + totals['reused']} of {totals['layers']} layers compiled, "


def run_moire(args, path, feed, mode):
    with tempfile.TemporaryDirectory() as tmp:
        command = [args.moire, "run", path, "--output-dir", tmp]
        command += ["--store", args.store] if mode == "specialised" else ["--generic"]
        command += ["--threads", "2"] if mode == "threads" else []
        command += ["--isa", mode] if mode in ("avx2", "base") else []
        shapes = []
        for name, x in feed.items():
            file = os.path.join(tmp, "in_" + name + ".npy")
            np.save(file, x)
            command += ["--input", f"{name}={file}"]
            shapes += ["--shape", f"{name}={','.join(map(str, x.shape))}"]
        note = compile_layers(args, path, shapes) if mode == "specialised" else ""
        call(command + shapes)
        return note, {f[:-4]: np.load(os.path.join(tmp, f)) for f in os.listdir(tmp)
                if f.endswith(".npy") and not f.startswith("in_")}


def compare(got, want):
    """Largest absolute error, and that relative to the range of its output."""
    worst_abs = worst_rel = 0.0
    for name, y in want.items():
        if name not in got:
            raise RuntimeError(f"no output {name}")
        if got[name].shape != y.shape:
            raise RuntimeError(f"output {name} has shape {got[name].shape}, not {y.shape}")
        error = float(np.abs(got[name].astype(np.float64) - y).max())
        if not np.isfinite(error):
            raise RuntimeError(f"output {name} is not finite")
        worst_abs = max(worst_abs, error)
        worst_rel = max(worst_rel, error / float(y.max() - y.min()))
    return worst_abs, worst_rel


def check_reference(row, path, feed, report):
    """What ONNX Runtime answers, or None where it cannot."""
    try:
        onnx.checker.check_model(path, full_check=True)
        start = time.time()
        want = reference(path, feed)
        seconds = time.time() - start
    except Exception as e:  # the checker and the runtime raise many kinds
        report(row["name"], "onnxruntime", "failed", str(e).splitlines()[0])
        return None
    rms = ", ".join(f"{k}{list(v.shape)} rms {np.sqrt(np.mean(v ** 2)):.2f}" for k, v in want.items())
    sick = healthy(want)
    report(row["name"], "onnxruntime", "failed" if sick else "passed", sick or f"{rms} ({seconds:.1f} s)")
    return want


def check_mode(args, row, path, feed, mode, want, report):
    try:
        start = time.time()
        note, got = run_moire(args, path, feed, mode)
        error, relative = compare(got, want)
        text = f"{note}max abs error {error:.2e}, relative to range {relative:.2e} ({time.time() - start:.1f} s)"
        report(row["name"], mode, "passed" if relative <= TOLERANCE else "failed", text)
    except RuntimeError as e:
        report(row["name"], mode, "failed", str(e))


def check_model(args, row, report):
    name = row["name"]
    if args.small and name in LARGE:
        report(name, "all", "skipped", "large; run without --small")
        return
    feed = make_inputs(row, args.batch, args.sequence)
    try:
        with model_file(args, row) as path:
            want = check_reference(row, path, feed, report)
            if want is None or args.no_run:
                return
            for mode in args.modes.split(","):
                if mode != "specialised" or args.compile == "all" or name in args.compile.split(","):
                    check_mode(args, row, path, feed, mode, want, report)
    except (RuntimeError, OSError) as e:
        report(name, "all", "failed", str(e))


def main():
    args = arguments()
    args.store = args.store or os.path.join(args.folder, "store")
    os.makedirs(args.folder, exist_ok=True)
    table = json.loads(call([args.moire, "zoo", "list", "--json"]))
    count = {"passed": 0, "failed": 0, "skipped": 0}

    def report(name, what, result, text):
        count[result] += 1
        print(f"{name:18s} {what:12s} {result:8s} {text}", flush=True)

    for row in table:
        if not args.names or row["name"] in args.names:
            check_model(args, row, report)
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
