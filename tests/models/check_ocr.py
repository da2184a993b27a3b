#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_ocr.py - reads a rendered page with `moire ocr` and checks every step against ONNX Runtime.

The command dumps the input and output of each network call; ONNX Runtime gets the same inputs.  Tensors must
agree within 1e-3 of the output's range, and the text decoded from ONNX Runtime's answers must be the text that
moire printed.  Where the rapidocr_onnxruntime package is installed its own reading is compared as well.

  tests/models/check_ocr.py --moire build/moire [--models FOLDER] [--image PAGE.ppm] [--modes specialised,generic]
"""
import argparse
import glob
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime

FILES = {"det": "ch_PP-OCRv4_det_infer.onnx", "cls": "ch_ppocr_mobile_v2.0_cls_infer.onnx",
         "rec": "ch_PP-OCRv4_rec_infer.onnx"}
TOLERANCE = 1e-3
HERE = os.path.dirname(os.path.abspath(__file__))


def package_models():
    spec = importlib.util.find_spec("rapidocr_onnxruntime")
    return os.path.join(os.path.dirname(spec.origin), "models") if spec else None


def decode(session, probabilities):
    """The text of [1, steps, classes]: best class at each step, repeats merged, blanks dropped."""
    characters = ["", *session.get_modelmeta().custom_metadata_map["character"].splitlines(), " "]
    best = probabilities[0].argmax(axis=1)
    keep = (best != 0) & np.insert(best[1:] != best[:-1], 0, True)
    return "".join(characters[i] for i in best[keep])


def read_page(moire, models, image, mode, folder, store):
    command = [moire, "ocr", image, "--dump", folder, "--json"]
    for stage, name in FILES.items():
        command += [f"--{stage}", os.path.join(models, name)]
    if mode == "generic":
        command.append("--generic")
    elif store:
        command += ["--store", store]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout).strip().splitlines()[-1])
    return json.loads(done.stdout)


def compile_networks(args, folder):
    """For the shapes that the generic mode met."""
    shapes = {}
    for path in sorted(glob.glob(os.path.join(folder, "*_in.npy"))):
        shapes[os.path.basename(path).split("_")[1]] = np.load(path, mmap_mode="r").shape
    for stage, shape in shapes.items():
        command = [args.moire, "compile", os.path.join(args.models, FILES[stage]), "--budget", str(args.budget),
                   "--shape", "x=" + ",".join(map(str, shape)), *(["--store", args.store] if args.store else [])]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError((done.stderr or done.stdout).strip().splitlines()[-1])


def kinds(page):
    """Per stage, and for all, the kernels that really ran: "specialised" only where the plans hold compiled ones."""
    names = {stage: "specialised" if n["compiled_layers"] else "generic" for stage, n in page["networks"].items()
             if n["layers"]}
    found = set(names.values())
    return names, found.pop() if len(found) == 1 else "mixed"


def check_calls(sessions, folder):
    """Per stage (calls, largest absolute error, largest relative error); and the texts decoded from ONNX Runtime."""
    worst, texts = {}, []
    for path in sorted(glob.glob(os.path.join(folder, "*_in.npy"))):
        stage = os.path.basename(path).split("_")[1]
        session = sessions[stage]
        want = session.run(None, {session.get_inputs()[0].name: np.load(path)})[0]
        got = np.load(path.replace("_in.npy", "_out.npy"))
        if got.shape != want.shape:
            raise RuntimeError(f"{stage}: output has shape {got.shape}, not {want.shape}")
        error = float(np.abs(got - want).max())
        calls, absolute, relative = worst.get(stage, (0, 0.0, 0.0))
        worst[stage] = (calls + 1, max(absolute, error), max(relative, error / float(want.max() - want.min())))
        if stage == "rec":
            texts.append(decode(session, want))
            if decode(session, got) != texts[-1]:
                raise RuntimeError(f"rec: reads '{decode(session, got)}', ONNX Runtime '{texts[-1]}'")
    return worst, texts


def package_reading(image):
    """What the package that ships the networks reads, or None."""
    try:
        from PIL import Image
        from rapidocr_onnxruntime import RapidOCR
        with tempfile.TemporaryDirectory() as tmp:
            png = os.path.join(tmp, "page.png")
            Image.open(image).save(png)
            result, _ = RapidOCR()(png)
        return [line[1] for line in result or []]
    except ImportError:
        return None


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--moire", default="build/moire")
    p.add_argument("--models", default=package_models())
    p.add_argument("--image", help="PPM; a page is rendered when not given")
    p.add_argument("--print", action="store_true", help="show the lines that were read")
    p.add_argument("--modes", default="generic,specialised")
    p.add_argument("--store", help="folder of compiled variants for the specialised mode")
    p.add_argument("--budget", type=int, default=0, help="seconds to compile each network before that mode")
    args = p.parse_args()
    if not args.models or not os.path.exists(os.path.join(args.models, FILES["rec"])):
        print("ocr: the networks of rapidocr_onnxruntime are not installed\n0 passed, 0 failed, 1 skipped")
        return 0
    count = {"passed": 0, "failed": 0, "skipped": 0}

    def report(what, good, text):
        count["passed" if good else "failed"] += 1
        print(f"ocr {what:24s} {'passed' if good else 'failed':8s} {text}", flush=True)

    sessions = {k: onnxruntime.InferenceSession(os.path.join(args.models, f), providers=["CPUExecutionProvider"])
                for k, f in FILES.items()}
    page = None
    with tempfile.TemporaryDirectory() as tmp:
        image = args.image
        if not image:
            image = os.path.join(tmp, "page.ppm")
            subprocess.run([sys.executable, os.path.join(HERE, "../../tools/render-text"), "-o", image], check=True)
        theirs = package_reading(image)
        for mode in args.modes.split(","):
            folder = os.path.join(tmp, mode)
            try:
                if mode == "specialised" and args.budget:
                    compile_networks(args, os.path.join(tmp, "generic"))
                page = read_page(args.moire, args.models, image, mode, folder, args.store)
                worst, texts = check_calls(sessions, folder)
            except RuntimeError as e:
                report(mode, False, str(e))
                continue
            ran, all_ran = kinds(page)
            if mode not in ran.values() and (args.budget or mode == "generic"):
                report(mode, False, f"what ran is {ran}")
            elif mode not in ran.values():
                count["skipped"] += 1
                print("ocr specialised              skipped  no kernel is compiled for these networks; --budget S does it",
                      flush=True)
            if mode not in ran.values():
                continue
            for stage, (calls, absolute, relative) in worst.items():
                report(f"{ran[stage]} {stage}", relative <= TOLERANCE,
                       f"{calls} calls, max abs error {absolute:.2e}, relative to range {relative:.2e}")
            lines = [line["text"] for line in page["lines"]]
            report(f"{all_ran} text", lines and sorted(lines) == sorted(t for t in texts if t),
                   f"{len(lines)} lines equal to ONNX Runtime's: {lines}")
            if theirs is not None:
                report(f"{all_ran} package", lines == theirs, f"rapidocr reads {theirs}")
    for line in page["lines"] if args.print and page else []:
        print(f"   | {line['text']:44s} {line['score']:.3f}{'  (was upside down)' if line['flipped'] else ''}")
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
