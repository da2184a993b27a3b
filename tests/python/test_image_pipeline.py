"""examples/image_pipeline: what it reads is what ONNX Runtime reads, image by image and line by line.

Images: pages with known text that tools/render-text draws, as PNG and JPEG, and photographs and a scan of scikit-image.
Networks: those of rapidocr_onnxruntime.  Of both packages only the files are used."""

import asyncio
import importlib.util
import os
import subprocess
import sys

import numpy
import onnxruntime
import pytest
from PIL import Image

import moire

ROOT = os.path.join(os.path.dirname(__file__), "../..")
sys.path.insert(0, os.path.join(ROOT, "examples/image_pipeline"))
import images
import read_images

TEXT = [
    "Many networks, one machine",
    "each within 15.0 ms of its arrival",
    "Order 2048-77: 3 units at $19.95",
    "Blocks of layers share the cache.",
    "UPSIDE-DOWN-180",
    "95% of all queries in time",
]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Paths of files: the first two hold TEXT without a loss."""
    folder = tmp_path_factory.mktemp("pages")
    drawn, made = str(folder / "drawn.ppm"), []
    for turn, name in ((5, "a.png"), (1, "b.ppm"), (2, "c.jpg"), (3, "d.jpg")):
        command = [sys.executable, os.path.join(ROOT, "tools/render-text"), "-o", drawn, "--turn", str(turn)]
        subprocess.run(command, check=True)
        made.append(str(folder / name))
        Image.open(drawn).save(made[-1])
    data = os.path.join(os.path.dirname(importlib.util.find_spec("skimage").origin), "data")
    return made + [os.path.join(data, name) for name in ("page.png", "rocket.jpg", "astronaut.png", "horse.png")]


def one_by_one(paths):
    """The reference: decode, detect, read a line at a time, by ONNX Runtime."""
    folder = read_images.models_of_package()
    sessions = {
        stage: onnxruntime.InferenceSession(os.path.join(folder, name), providers=["CPUExecutionProvider"])
        for stage, name in read_images.FILES.items()
    }
    characters = read_images.characters_of(os.path.join(folder, read_images.FILES["rec"]))

    def run(stage, x):
        return sessions[stage].run(None, {"x": x})[0]

    def read_line(line):
        upright, turned = run("cls", images.fitted(line, images.TURN_WIDTH)[None])[0]
        if turned > max(upright, read_images.TURNED):
            line = line.rotate(180)
        return images.text_of(run("rec", images.fitted(line, images.width_of(line))[None])[0], characters)

    found = {}
    for path in paths:
        page = images.decode(path)
        lines = map(read_line, images.lines_of(page, run("det", page.pixels)[0, 0]))
        found[path] = [text for text in lines if text]
    return found


def test_it_reads_what_onnx_runtime_reads(pages, capsys):
    found = asyncio.run(read_images.read_all(pages, threads=2))
    told = capsys.readouterr().out.split()
    assert found == one_by_one(pages)
    for path in pages[:2]:  # the recogniser is not sure of blanks
        assert ["".join(line.split()) for line in found[path]] == ["".join(line.split()) for line in TEXT]
    assert "Region-based segmentation" in found[pages[4]] and not any(found[path] for path in pages[5:])
    assert told[:2] == ["8", "images,"] and int(told[2]) > 0  # decoded while a network computed
    rows, batches = int(told[7]), int(told[10])
    assert rows >= 2 * sum(map(len, found.values())) and rows / read_images.ROWS <= batches < rows


class Stub:
    """A runtime whose model doubles, one batch at a time, and fails where a row is negative."""

    def __init__(self):
        self.open = 0

    async def run_async(self, name, inputs):
        assert name == "m" and self.open == 0
        self.open += 1
        await asyncio.sleep(0)
        self.open -= 1
        if (inputs["x"] < 0).any():
            raise moire.Failed("a row is negative")
        return [2 * inputs["x"]]


def test_a_batcher_gives_each_row_its_own_answer():
    async def run():
        batcher = read_images.Batcher(Stub(), "m")
        rows = [numpy.full((1, 2), i, numpy.float32) for i in range(9)]
        answers = await asyncio.gather(*map(batcher.run, rows))
        assert all(numpy.array_equal(a, 2 * row) for a, row in zip(answers, rows))
        assert (batcher.batches, batcher.rows) == (3, 9)  # of 4, 4 and 1: what waits goes together
        gone = asyncio.create_task(batcher.run(rows[1]))
        kept = asyncio.create_task(batcher.run(rows[2]))
        await asyncio.sleep(0)
        gone.cancel()
        assert numpy.array_equal(await kept, 2 * rows[2])
        with pytest.raises(moire.Failed):
            await batcher.run(-rows[1])
        assert numpy.array_equal(await batcher.run(rows[3]), 2 * rows[3])  # it goes on
        batcher.task.cancel()

    asyncio.run(run())


def test_rectangles_of_connected_parts():
    mask = numpy.array(
        [
            [1, 0, 0, 1, 0, 0, 1],
            [1, 0, 0, 1, 0, 1, 0],
            [1, 1, 1, 1, 0, 0, 0],
            [0, 0, 0, 0, 0, 0, 0],
            [0, 1, 1, 0, 0, 0, 1],
        ],
        bool,
    )
    found = sorted(images.rectangles(mask))
    assert found == [[0, 0, 4, 3], [1, 4, 3, 5], [5, 0, 7, 2], [6, 4, 7, 5]]
    assert images.rectangles(numpy.zeros((3, 3), bool)) == []
    comb = numpy.zeros((40, 40), bool)
    comb[::4] = comb[:, 0] = True
    assert images.rectangles(comb) == [[0, 0, 40, 40]]
    assert images.rectangles(comb[::-1, ::-1]) == [[0, 0, 40, 40]]
