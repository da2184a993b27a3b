#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ocr_int8.py - what 8-bit numbers cost trained networks: text that `moire ocr` reads, in fp32 and in int8.

Draws pages of known text, calibrates the three networks of rapidocr_onnxruntime on other pages, quantizes them with
`moire quantize` by every method and with ONNX Runtime's quantizer, and reads the pages with each set of networks.
Interrupted, the same command goes on: models and pages that are done lie in the work folder.

    .venv/bin/python bench/accuracy/ocr_int8.py --json build/ocr-int8/result.json --markdown build/ocr-int8/result.md
"""
import argparse
import glob
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time

import ocr_pages

FILES = {"det": "ch_PP-OCRv4_det_infer.onnx", "cls": "ch_ppocr_mobile_v2.0_cls_infer.onnx",
         "rec": "ch_PP-OCRv4_rec_infer.onnx"}
# Sets of networks that `moire quantize` makes, and its flags.
METHODS = {"minmax": ["--method", "minmax", "--tolerance", "0.1"],
           "percentile": ["--method", "percentile", "--tolerance", "0.1"],
           "entropy": ["--method", "entropy", "--tolerance", "0.1"],
           "minmax, per tensor": ["--method", "minmax", "--tolerance", "0.1", "--per-tensor"]}
# What the tolerance is worth; every layer in int8 is how ONNX Runtime's quantizer does it.
TOLERANCES = {"minmax, tolerance 0.05": ["--method", "minmax", "--tolerance", "0.05"],
              "percentile, tolerance 0.05": ["--method", "percentile", "--tolerance", "0.05"],
              "percentile, every layer": ["--method", "percentile", "--tolerance", "1000"]}
# Sets that ONNX Runtime's quantizer makes.
THEIRS = {"ONNX Runtime, 8 bits": False, "ONNX Runtime, reduced range": True}


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def plain(name):
    return "".join(c if c.isalnum() else "-" for c in name).replace("--", "-")


def package_models():
    spec = importlib.util.find_spec("rapidocr_onnxruntime")
    return os.path.join(os.path.dirname(spec.origin), "models") if spec else None


def digest(*paths):
    h = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as f:
            h.update(hashlib.sha256(f.read()).digest())
    return h.hexdigest()


def save(path, value):
    """Whole or not at all."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".part", "w") as f:
        json.dump(value, f, indent=1, ensure_ascii=False)
    os.replace(path + ".part", path)


def load(path):
    try:
        with open(path) as f:
            return json.load(f)
    except (OSError, ValueError):
        return None


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr or done.stdout or f"exit {done.returncode}").strip().splitlines()[-1])
    return done.stdout


# --- pages and calibration ---

def draw_pages(args):
    pages = []
    for i in range(args.pages):
        path = os.path.join(args.work, "pages", f"{i:03d}.ppm")
        noise = ocr_pages.NOISES[i % len(ocr_pages.NOISES)]
        lines = ocr_pages.render(path, args.fonts, args.seed, i, ocr_pages.WORDS[::2], noise)
        pages.append({"path": path, "noise": noise, "lines": lines})
    return pages


def read(args, networks, page, dump=None):
    command = [args.moire, "ocr", page, "--generic", "--json"]
    for stage, path in networks.items():
        command += [f"--{stage}", path]
    return json.loads(run(command + (["--dump", dump] if dump else [])))


def collect(args, networks):
    """The inputs of every network on the calibration pages, a folder a network."""
    folders = {stage: os.path.join(args.work, "calibration", stage) for stage in FILES}
    for folder in folders.values():
        os.makedirs(folder, exist_ok=True)
    for i in range(args.calibration_pages):
        done = os.path.join(args.work, "calibration", f"{i:03d}.done")
        if os.path.exists(done):
            continue
        say(f"calibration: page {i + 1} of {args.calibration_pages}")
        page, dump = os.path.join(args.work, "calibration", f"{i:03d}.ppm"), os.path.join(args.work, "dump")
        ocr_pages.render(page, args.fonts, args.seed + 1, i, ocr_pages.WORDS[1::2],
                         ocr_pages.NOISES[i % len(ocr_pages.NOISES)])
        shutil.rmtree(dump, ignore_errors=True)
        read(args, networks, page, dump)
        for path in sorted(glob.glob(os.path.join(dump, "*_in.npy"))):
            number, stage, _ = os.path.basename(path).split("_")
            shutil.move(path, os.path.join(folders[stage], f"{i:03d}_{number}.npy"))
        shutil.rmtree(dump)
        save(done, True)
    return folders


# --- models ---

def quantize_ours(args, model, data, flags, out):
    told = json.loads(run([args.moire, "quantize", model, "-o", out, "--data", data, "--json", "--quiet", *flags]))
    save(out + ".json", told)


def quantize_theirs(model, data, reduced, out):
    import numpy
    import onnx
    from onnx import version_converter
    from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Samples(CalibrationDataReader):
        def __init__(self, name):
            self.name, self.left = name, sorted(glob.glob(os.path.join(data, "*.npy")))

        def get_next(self):
            return {self.name: numpy.load(self.left.pop(0))} if self.left else None

    facts = {p.key: p.value for p in onnx.load(model).metadata_props}
    newer, prepared, made = out + ".newer", out + ".prepared", out + ".made"
    onnx.save(version_converter.convert_version(onnx.load(model), 13), newer)
    quant_pre_process(newer, prepared, skip_symbolic_shape=True)
    name = onnx.load(prepared).graph.input[0].name
    quantize_static(prepared, made, Samples(name), quant_format=QuantFormat.QDQ, per_channel=True, reduce_range=reduced,
                    activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
                    calibrate_method=CalibrationMethod.MinMax)
    result = onnx.load(made)
    onnx.helper.set_model_props(result, facts)  # the alphabet is among them
    onnx.save(result, out)
    for path in (newer, prepared, made):
        os.remove(path)


def make_set(args, name, fp32, folders):
    """The networks of a set; those that could not be made as {"stage": "why"}."""
    networks, failures = {}, {}
    for stage, model in fp32.items():
        out = os.path.join(args.work, "models", plain(name), f"{stage}.onnx")
        os.makedirs(os.path.dirname(out), exist_ok=True)
        networks[stage] = out
        if os.path.exists(out):
            continue
        say(f"{name}: quantizing {stage}")
        try:
            if name in THEIRS:
                quantize_theirs(model, folders[stage], THEIRS[name], out)
            else:
                quantize_ours(args, model, folders[stage], {**METHODS, **TOLERANCES}[name], out)
        except Exception as e:  # whatever a tool of others throws
            failures[stage] = (str(e).strip() or repr(e)).splitlines()[0][:200]
            say(f"{name}: {stage}: {failures[stage]}")
            networks[stage] = model
    return networks, failures


# --- readings ---

def edits(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for k, y in enumerate(b, 1):
            last, row[k] = row[k], min(row[k] + 1, row[k - 1] + 1, last + (x != y))
    return row[-1]


def read_line(line, found):
    """What was read where the line is, from left to right; None: nothing was found there."""
    left, top, right, bottom = line["box"]
    here = []
    for f in found:
        x, y = (sum(p[k] for p in f["box"]) / 4 for k in (0, 1))
        if left - 4 <= x <= right + 4 and top - 4 <= y <= bottom + 4:
            here.append((x, f["text"]))
    return " ".join(text for _, text in sorted(here)) if here else None


def readings(args, name, networks, pages):
    """By page the texts read, in the order of its lines."""
    result = []
    for i, page in enumerate(pages):
        path = os.path.join(args.work, "readings", plain(name), f"{i:03d}.json")
        key, kept = digest(page["path"], *networks.values()), load(path)
        if not kept or kept["key"] != key:
            say(f"{name}: page {i + 1} of {len(pages)}")
            kept = {"key": key, "lines": read(args, networks, page["path"])["lines"]}
            save(path, kept)
        result.append([read_line(line, kept["lines"]) for line in page["lines"]])
    return result


def missed(text, line):
    """Edits of a line, at most as many as it has characters."""
    return min(edits(text or "", line["text"]), len(line["text"]))


def deviation(values):
    """Of the sum, if other lines of the kind had been drawn."""
    mean = sum(values) / len(values)
    return (sum((v - mean) ** 2 for v in values) * len(values) / max(1, len(values) - 1)) ** 0.5


def score(pages, texts, reference):
    """By noise level and "all"; "loss": of accuracy beside fp32, "loss_deviation": how sure that is."""
    totals, losses = {}, {}
    for page, got, want in zip(pages, texts, reference):
        for level in (page["noise"], "all"):
            t = totals.setdefault(level, dict.fromkeys(
                ("lines", "found", "right", "same_as_fp32", "characters", "edits"), 0))
            for line, text, theirs in zip(page["lines"], got, want):
                t["lines"] += 1
                t["found"] += text is not None
                t["right"] += text == line["text"]
                t["same_as_fp32"] += text == theirs
                t["characters"] += len(line["text"])
                t["edits"] += missed(text, line)
                losses.setdefault(level, []).append(missed(text, line) - missed(theirs, line))
    for level, t in totals.items():
        t["accuracy"] = 1 - t["edits"] / t["characters"]
        t["loss"] = sum(losses[level]) / t["characters"]
        t["loss_deviation"] = deviation(losses[level]) / t["characters"]
    return totals


# --- tables ---

def size_of(path):
    return os.path.getsize(path) / 1e6


def int8_layers(path):
    told = load(path + ".json")
    return f"{told['layers_int8']} of {told['layers_all']}" if told else ""


def tables(result):
    levels = [*ocr_pages.NOISES, "all"]
    rows = [["networks", "found", "right", "same as fp32", *[f"characters, {level}" for level in levels],
             "less than fp32"]]
    for name, s in result["sets"].items():
        t = s["scores"]["all"]
        rows.append([name, t["found"], t["right"], t["same_as_fp32"],
                     *[f"{100 * s['scores'][level]['accuracy']:.2f} %" for level in levels if level in s["scores"]],
                     f"{100 * t['loss']:.2f} ± {100 * t['loss_deviation']:.2f} %"])
    sizes = [["networks", *[f"{stage} {what}" for stage in FILES for what in ("MB", "layers in int8")]]]
    for name, s in result["sets"].items():
        if not s["alone"]:
            sizes.append([name, *[v for stage in FILES for v in (
                "failed" if stage in s["failures"] else f"{s['megabytes'][stage]:.2f}", s["int8_layers"][stage])]])
    return rows, sizes


def as_markdown(rows):
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]) + "\n"


def as_text(rows):
    widths = [max(len(str(row[k])) for row in rows) for k in range(len(rows[0]))]
    return "\n".join("  ".join(str(v).ljust(w) if k == 0 else str(v).rjust(w) for k, (v, w) in enumerate(zip(row, widths)))
                     for row in rows) + "\n"


def measure(args, name, networks, failures, pages, result, alone=False):
    texts = readings(args, name, networks, pages)
    reference = result.setdefault("fp32 texts", texts)
    result["sets"][name] = {
        "scores": score(pages, texts, reference), "failures": failures, "alone": alone,
        "megabytes": {stage: size_of(path) for stage, path in networks.items()},
        "int8_layers": {stage: int8_layers(path) for stage, path in networks.items()}}
    t = result["sets"][name]["scores"]["all"]
    say(f"{name}: {100 * t['accuracy']:.2f} % of characters, {t['right']} of {t['lines']} lines right")
    return t


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--moire", default="build/moire")
    p.add_argument("--models", default=package_models())
    p.add_argument("--work", default="build/ocr-int8", help="pages, calibration, models and readings")
    p.add_argument("--fonts", default="/usr/share/fonts/truetype/dejavu")
    p.add_argument("--pages", type=int, default=21, help="of 12 lines each")
    p.add_argument("--calibration-pages", type=int, default=6)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--sets", nargs="+", default=[*METHODS, *TOLERANCES, *THEIRS], metavar="SET",
                   choices=[*METHODS, *TOLERANCES, *THEIRS], help="only these sets of networks beside fp32, by name")
    p.add_argument("--json", help="file for the results")
    p.add_argument("--markdown", help="file for the tables")
    args = p.parse_args()
    if not args.models:
        sys.exit("ocr_int8: the networks of rapidocr_onnxruntime are not installed")
    os.makedirs(os.path.join(args.work, "pages"), exist_ok=True)
    say(f"seed {args.seed}; fonts {', '.join(ocr_pages.fonts(args.fonts))}")
    fp32 = {stage: os.path.join(args.models, file) for stage, file in FILES.items()}
    pages = draw_pages(args)
    folders = collect(args, fp32)
    result = {"seed": args.seed, "fonts": ocr_pages.fonts(args.fonts), "sets": {}}
    measure(args, "fp32", fp32, {}, pages, result)
    accuracy, made = {}, {}
    for name in args.sets:
        made[name], failures = make_set(args, name, fp32, folders)
        t = measure(args, name, made[name], failures, pages, result)
        accuracy[name] = (t["accuracy"], t["same_as_fp32"])
    best = max((name for name in args.sets if name not in THEIRS), key=accuracy.get, default=None)
    for stage in FILES if best else ():
        measure(args, f"{best}, {stage} alone", {**fp32, stage: made[best][stage]}, {}, pages, result, alone=True)
    del result["fp32 texts"]
    rows, sizes = tables(result)
    lines = sum(len(page["lines"]) for page in pages)
    print(f"{lines} lines, seed {args.seed}\n\n{as_text(rows)}\n{as_text(sizes)}")
    for name, s in result["sets"].items():
        for stage, why in s["failures"].items():
            print(f"{name}: {stage} is fp32: {why}")
    if args.json:
        save(args.json, result)
    if args.markdown:
        with open(args.markdown, "w") as f:
            f.write(f"{lines} lines, seed {args.seed}.\n\n{as_markdown(rows)}\n{as_markdown(sizes)}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
