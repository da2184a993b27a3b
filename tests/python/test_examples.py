"""The longer examples of docs/python.md, as they stand there."""

import os
import re
import subprocess
import sys

import pytest

from moire import commands

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PEERS = os.path.join(ROOT, os.environ.get("VENV", ".venv"))
PACKAGES = os.path.join(PEERS, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")
MODELS = os.path.join(PACKAGES, "rapidocr_onnxruntime", "models")
NETWORKS = {
    "det": "ch_PP-OCRv4_det_infer.onnx",
    "cls": "ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "rec": "ch_PP-OCRv4_rec_infer.onnx",
}


def example(heading):
    """The first block of Python under a heading."""
    with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as file:
        return re.search(rf"## {heading}\n.*?```python\n(.*?)```", file.read(), re.S)[1]


@pytest.mark.skipif(not os.path.isdir(MODELS), reason="needs the networks and OpenCV of `make peers`")
def test_ten_lines_read_a_page(tmp_path):
    """They read what `moire ocr` reads."""
    paths = {name: tmp_path / f"{name}.onnx" for name in NETWORKS}
    for name, path in paths.items():
        path.symlink_to(os.path.join(MODELS, NETWORKS[name]))
    page = tmp_path / "page.ppm"
    python = os.path.join(PEERS, "bin", "python")
    subprocess.run([python, os.path.join(ROOT, "tools", "render-text"), "-o", page], check=True)
    wanted = [line["text"] for line in commands.run("ocr", page, generic=True, **paths)["lines"]]
    text = example("Three networks that read text")
    assert len([line for line in text.partition('"page.ppm")')[2].splitlines() if line]) == 10
    # what the wheel's environment lacks is taken from the peers': behind its own
    script = f"import sys; sys.path.append({PACKAGES!r})\n" + text
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    read = done.stdout.splitlines()
    assert len(wanted) >= 5
    assert sorted(line.replace(" ", "") for line in read) == sorted(
        line.replace(" ", "") for line in wanted
    )
