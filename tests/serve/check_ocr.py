#!/usr/bin/env python3
"""check_ocr.py - the pipeline that reads text, served: what stock clients read is what `moire ocr` reads.

Pages are drawn by tools/render-text and read by the networks of the package rapidocr_onnxruntime; where that is not
installed the test says so and ends well.

    check_ocr.py --moire build/moire
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading

import numpy
import tritonclient.grpc
import tritonclient.http
from tritonclient.utils import InferenceServerException

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import serve_bed  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
FILES = {"det": "ch_PP-OCRv4_det_infer.onnx", "cls": "ch_ppocr_mobile_v2.0_cls_infer.onnx",
         "rec": "ch_PP-OCRv4_rec_infer.onnx"}
PAGES = (["--turn", "5"], ["--turn", "2", "--width", "1400", "Invoice 4711", "Upside down, and much longer than others",
                           "Total: 1,234.50", "a", "Thank you."], ["--width", "500", "One line"])
NAMES = ("text", "score", "box", "flipped")


def networks():
    spec = importlib.util.find_spec("rapidocr_onnxruntime")
    folder = spec and os.path.join(os.path.dirname(spec.origin), "models")
    return [f"--{k}={os.path.join(folder, f)}" for k, f in FILES.items()] if folder else None


def read_ppm(path):
    with open(path, "rb") as f:
        assert f.readline() == b"P6\n"
        width, height = map(int, f.readline().split())
        assert f.readline() == b"255\n"
        return numpy.frombuffer(f.read(), numpy.uint8).reshape(height, width, 3)


def draw_pages(moire, folder, flags):
    """Each page, and what `moire ocr` reads in it."""
    pages = []
    for i, how in enumerate(PAGES):
        path = os.path.join(folder, f"page{i}.ppm")
        subprocess.run([sys.executable, os.path.join(HERE, "../../tools/render-text"), "-o", path, *how], check=True)
        read = subprocess.run([moire, "ocr", path, *flags, "--json"], check=True, capture_output=True, text=True)
        pages.append((read_ppm(path), json.loads(read.stdout)["lines"]))
    assert [len(lines) for _, lines in pages[::2]] == [6, 1] and any(line["flipped"] for line in pages[1][1])
    return pages


def question(kind, image):
    x = kind.InferInput("image", image.shape, "UINT8")
    x.set_data_from_numpy(image)
    return [x]


def ask_http(http, image, binary=True, **options):
    wanted = [tritonclient.http.InferRequestedOutput(n, binary_data=binary) for n in NAMES]
    return http.infer("ocr", question(tritonclient.http, image), outputs=wanted, **options)


def same(answer, lines):
    text, score, box, flipped = (answer.as_numpy(n) for n in NAMES)
    assert [t if isinstance(t, str) else t.decode() for t in text] == [line["text"] for line in lines], text
    assert box.shape == (len(lines), 4, 2) and (box == [line["box"] for line in lines]).all(), box
    assert flipped.dtype == bool and flipped.tolist() == [line["flipped"] for line in lines], flipped
    assert numpy.abs(score - [line["score"] for line in lines]).max() < 1e-3, score


def text_is_the_command_s(bed, pages):
    grpc = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{bed.grpc_port}")
    for image, lines in pages:
        for binary in (True, False):
            same(ask_http(bed.http, image, binary), lines)
        same(grpc.infer("ocr", question(tritonclient.grpc, image)), lines)
    grpc.close()
    counts = {s["name"]: s["inference_stats"]["success"]["count"]
              for s in bed.http.get_inference_statistics()["model_stats"]}
    read = 3 * sum(len(lines) for _, lines in pages)
    assert counts["ocr"] == counts["ocr-det"] == counts["ocr-text"] == 3 * len(pages), counts
    assert counts["ocr-rec"] == counts["ocr-cls"] == counts["ocr-best"] >= read, (counts, read)


def documents_tell_of_functions(bed):
    assert bed.http.get_model_metadata("ocr")["outputs"][0] == {"name": "text", "datatype": "BYTES", "shape": [-1]}
    config = bed.http.get_model_config("ocr-boxes")
    assert config["backend"] == "moire_host" and config["parameters"]["function"]["string_value"] == "ocr_boxes"
    assert [o["name"] for o in config["output"]] == ["boxes", "lines", "shapes"]
    grpc = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{bed.grpc_port}")
    step = grpc.get_model_config("ocr").config.ensemble_scheduling.step[3]
    assert step.model_name == "ocr-cls" and step.input_map["x:shapes"] == "upright-shapes", step
    grpc.close()


def a_page_without_text_has_no_lines(bed):
    answer = ask_http(bed.http, numpy.full((64, 200, 3), 255, numpy.uint8))
    assert answer.as_numpy("text").shape == (0,) and answer.as_numpy("box").shape == (0, 4, 2)
    for n in NAMES:
        assert answer.get_output(n)["shape"][0] == 0, n


def says(call, *texts):
    try:
        call()
    except InferenceServerException as e:
        assert all(t in e.message() for t in texts), e.message()
        return e
    raise AssertionError(f"no fault that says {texts}")


def ask_step(bed, model, **tensors):
    types = {"float32": "FP32", "int64": "INT64", "int32": "INT32", "uint8": "UINT8"}
    inputs = []
    for name, value in tensors.items():
        inputs.append(tritonclient.http.InferInput(name, value.shape, types[value.dtype.name]))
        inputs[-1].set_data_from_numpy(value)
    return bed.http.infer(model, inputs)


def wrong_images_are_said(bed, pages):
    image, _ = pages[0]
    says(lambda: ask_http(bed.http, image[:, :, :2].copy()), "takes [-1,-1,3]")
    says(lambda: ask_http(bed.http, image[:0]), "step 0: model 'ocr-page': the image has no pixels")
    for shape in ((16385, 1, 3), (4097, 4097, 3)):
        fault = says(lambda s=shape: ask_http(bed.http, numpy.zeros(s, numpy.uint8)), "step 0", "is too large")
        assert fault.status() == "400", fault.status()
    says(lambda: ask_http(bed.http, image, timeout=1), "the deadline of the ensemble has passed")


def steps_take_nothing_on_trust(bed, pages):
    """A client may ask a step by itself, with tensors that no step would give it."""
    image, lines = pages[0]
    page = ask_step(bed, "ocr-page", image=image).as_numpy("page")
    assert page.shape[:2] == (1, 3) and page.shape[2] % 32 == 0 and -1 <= page.min() <= page.max() <= 1
    box = numpy.array([line["box"] for line in lines[:2]], numpy.float32)
    up = numpy.array([1, 0, 1, 0], numpy.float32)
    cut = ask_step(bed, "ocr-lines", image=image, boxes=box, directions=up)
    assert cut.as_numpy("shapes").shape == (2, 4) and cut.as_numpy("lines").size == cut.as_numpy("shapes").prod(1).sum()
    for bad in (numpy.float32("nan"), numpy.float32("inf"), numpy.float32(-1), numpy.float32(image.shape[1])):
        wrong = box.copy()
        wrong[1, 2, 0] = bad
        says(lambda w=wrong: ask_step(bed, "ocr-lines", image=image, boxes=w, directions=up), "box 1 has a corner")
    says(lambda: ask_step(bed, "ocr-lines", image=image, boxes=box[:, :1].repeat(4, 1), directions=up), "a box is empty")
    says(lambda: ask_step(bed, "ocr-lines", image=image, boxes=box, directions=up[:3]), "not two for each of 2 boxes")
    whole = numpy.array([[[0, 0], [1, 0], [1, 1], [0, 1]]], numpy.float32) * (image.shape[1] - 1, image.shape[0] - 1)
    says(lambda: ask_step(bed, "ocr-lines", image=image, boxes=whole.astype(numpy.float32).repeat(9, 0),
                          directions=up.repeat(5)[:18]), "lines of text overlap")

    def text(classes, shape):
        n = len(shape)
        return ask_step(bed, "ocr-text", boxes=box[:n], directions=up[:2 * n], classes=numpy.array(classes, numpy.int32),
                        scores=numpy.ones(len(classes), numpy.float32), shapes=numpy.array(shape, numpy.int64))
    assert text([0, 1, 1, 0, 1], [[1, 5]]).as_numpy("score").tolist() == [1]
    says(lambda: text([0, 1 << 30], [[1, 2]]), "class 1073741824 of")
    says(lambda: text([0, -1], [[1, 2]]), "class -1 of")
    for shape in ([[1, 3]], [[1, -1]], [[2, 1]], [[1, 1 << 62]]):
        says(lambda s=shape: text([0, 1], s), "does not fit its classes")


def many_at_once(bed, pages):
    """Clients with patience read right, those without are let go, and the server goes on."""
    wrong = []

    def reads(k):
        http = tritonclient.http.InferenceServerClient(f"127.0.0.1:{bed.http_port}", network_timeout=120)
        try:
            for i in range(4):
                image, lines = pages[(k + i) % len(pages)]
                same(ask_http(http, image), lines)
        except Exception as e:  # said below
            wrong.append(e)
        http.close()

    def leaves(k):
        grpc = tritonclient.grpc.InferenceServerClient(f"127.0.0.1:{bed.grpc_port}")
        for i in range(8):
            try:
                grpc.infer("ocr", question(tritonclient.grpc, pages[0][0]), client_timeout=0.01 * (1 + (k + i) % 12))
            except InferenceServerException:
                pass
        grpc.close()
    threads = [threading.Thread(target=f, args=(k,)) for k in range(4) for f in (reads, leaves)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong, wrong


def a_full_pipeline_says_so(bed, folder, pages):
    """max_queue_size bounds what waits: the rest is answered 429 at once, and nothing is lost."""
    path = os.path.join(folder, "ocr", "config.pbtxt")
    with open(path, encoding="utf-8") as f:
        config = f.read()
    with open(path, "w", encoding="utf-8") as f:
        f.write(config.replace("ensemble_scheduling {", "dynamic_batching { default_queue_policy { max_queue_size: 1 } }\n"
                               "ensemble_scheduling { max_inflight_requests: 1"))
    bed.http.load_model("ocr")
    http = tritonclient.http.InferenceServerClient(f"127.0.0.1:{bed.http_port}", concurrency=12, network_timeout=120)
    image, lines = pages[2]
    asked = [http.async_infer("ocr", question(tritonclient.http, image)) for _ in range(12)]
    ends = {"ok": 0, "429": 0}
    for a in asked:
        try:
            same(a.get_result(), lines)
            ends["ok"] += 1
        except InferenceServerException as e:
            ends[e.status()] += 1
            assert "is full (max_queue_size)" in e.message(), e.message()
    assert ends["ok"] >= 1 and ends["429"] >= 1 and sum(ends.values()) == 12, ends
    http.close()
    with open(path, "w", encoding="utf-8") as f:
        f.write(config)


def loads_and_unloads(bed, folder, pages):
    http = bed.http
    http.load_model("ocr")  # and all that it needs, in two pipelines
    same(ask_http(http, pages[2][0]), pages[2][1])
    http.unload_model("ocr-best")
    says(lambda: ask_http(http, pages[2][0]), "'ocr-line'")
    http.load_model("ocr-best")
    same(ask_http(http, pages[2][0]), pages[2][1])
    characters = os.path.join(folder, "ocr-text", "1", "characters.txt")
    with open(characters, encoding="utf-8") as f:
        right = f.read()
    with open(characters, "w", encoding="utf-8") as f:
        f.write("\n".join(right.split("\n")[:3]))
    http.load_model("ocr-text")  # the wrong file for this recogniser
    says(lambda: ask_http(http, pages[2][0]), "model 'ocr-text': recogniser: class")
    with open(characters, "w", encoding="utf-8") as f:
        f.write(right)
    http.load_model("ocr-text")
    same(ask_http(http, pages[2][0]), pages[2][1])


def faults_are_said(moire, folder):
    def check(model, was, becomes):
        path = os.path.join(folder, model, "config.pbtxt")
        with open(path, encoding="utf-8") as f:
            right = f.read()
        assert was in right, right
        with open(path, "w", encoding="utf-8") as f:
            f.write(right.replace(was, becomes))
        done = subprocess.run([moire, "serve", "--check", folder], capture_output=True, text=True, check=False)
        with open(path, "w", encoding="utf-8") as f:
            f.write(right)
        return done.returncode, done.stdout
    code, out = check("ocr-page", "ocr_page", "ocr_page")
    assert code == 0 and "ocr-text, version 1: function ocr_text" in out, out
    cases = (("ocr-page", "ocr_page", "ocr_pages", "there is no function 'ocr_pages'; there are: ocr_page, ocr_boxes"),
             ("ocr-page", "moire_host", "moire", "has backend: \"moire_host\" and the parameter \"function\""),
             ("ocr-text", "characters.txt", "letters.txt", "there is no "),
             ("ocr-text", "default_model_filename: \"characters.txt\"", "", "needs a file in the version's folder"),
             ("ocr-page", "backend", "default_model_filename: \"x\" backend", "has no file"),
             ("ocr-page", "backend", "max_batch_size: 4 backend", "a function has no batches"),
             ("ocr", "key: \"x:shapes\"", "key: \"y:shapes\"", "has no input 'y:shapes'"),
             ("ocr", "value: \"line-shapes\" }\n    output_map { key: \"classes\"",
              "value: \"boxes\" }\n    output_map { key: \"classes\"", "input 'line:shapes' of model 'ocr-line'"),
             ("ocr", "TYPE_STRING", "TYPE_FP32", "tensor 'text' is BYTES [-1]"))
    for model, was, becomes, text in cases:
        code, out = check(model, was, becomes)
        assert code == 2 and text in out, (becomes, out)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--moire", default="build/moire")
    moire, flags, ok = p.parse_args().moire, networks(), True
    if not flags:
        print("skipped ocr: the package rapidocr_onnxruntime is not installed")
        return 0
    with tempfile.TemporaryDirectory() as tmp:
        folder = os.path.join(tmp, "models")
        subprocess.run([moire, "zoo", "repository", folder, *flags], check=True, stderr=subprocess.DEVNULL)
        pages = draw_pages(moire, tmp, flags)
        bed = serve_bed.Bed(moire, folder)
        try:
            bed.wait()
            for name, call in (("text", lambda: text_is_the_command_s(bed, pages)),
                               ("documents", lambda: documents_tell_of_functions(bed)),
                               ("a page without text", lambda: a_page_without_text_has_no_lines(bed)),
                               ("wrong images", lambda: wrong_images_are_said(bed, pages)),
                               ("steps by themselves", lambda: steps_take_nothing_on_trust(bed, pages)),
                               ("many at once", lambda: many_at_once(bed, pages))):
                ok &= serve_bed.run("ocr: " + name, call)
        finally:
            ok &= bed.stop() == 0
        bed = serve_bed.Bed(moire, folder, "--model-control-mode", "explicit")
        try:
            ok &= serve_bed.run("ocr: loads and unloads", lambda: loads_and_unloads(bed, folder, pages))
            ok &= serve_bed.run("ocr: full", lambda: a_full_pipeline_says_so(bed, folder, pages))
        finally:
            ok &= bed.stop() == 0
        ok &= serve_bed.run("ocr: faults", lambda: faults_are_said(moire, folder))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
