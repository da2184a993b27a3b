#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""read_images.py - reads the text in images: files are decoded while networks run, and lines are read in batches.

  pip install moire-*.whl pillow onnx && pip install --no-deps rapidocr_onnxruntime
  python read_images.py page.png photo.jpg ...

    file -> decode, resize -> detector -> cut out lines -> turned? -> recogniser -> text
            (threads)         (a page)    (threads)        (batches)  (batches, by width)

Three networks are tenants of one runtime.  An image goes through the stages as a task of asyncio; a few are under way
at once, so that Pillow, which leaves the interpreter free while it decodes, works on the next ones while moire
computes.  Lines of all images meet in batchers: what comes while a batch is computed is the next one.  No line waits
for a batch to fill, and shapes are fixed, so that nothing is loaded while images are read."""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional

import images
import moire
import numpy as np
import onnx

ROWS = 4  # of a batch
AHEAD = 4  # images under way
FILES = {
    "det": "ch_PP-OCRv4_det_infer.onnx",
    "cls": "ch_ppocr_mobile_v2.0_cls_infer.onnx",
    "rec": "ch_PP-OCRv4_rec_infer.onnx",
}
TURNED = 0.9  # that a line is upside down


def models_of_package() -> str:
    """The folder of networks in rapidocr_onnxruntime, which is not imported."""
    spec = importlib.util.find_spec("rapidocr_onnxruntime")
    if not spec or not spec.origin:
        raise SystemExit("the networks are missing: pip install --no-deps rapidocr_onnxruntime")
    return os.path.join(os.path.dirname(spec.origin), "models")


def characters_of(path: str) -> list[str]:
    """What the recogniser's classes mean; 0 is the blank."""
    properties = {p.key: p.value for p in onnx.load(path, load_external_data=False).metadata_props}
    return ["", *properties["character"].splitlines(), " "]


class Batcher:
    """Rows that come one by one, computed by a tenant some at a time: all that wait, when the last batch is back."""

    def __init__(self, runtime: moire.Runtime, name: str):
        self.runtime, self.name = runtime, name
        self.waiting: asyncio.Queue[tuple[images.Floats, asyncio.Future[Any]]] = asyncio.Queue()
        self.batches = self.rows = 0
        self.task = asyncio.create_task(self.work())

    async def run(self, row: images.Floats) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.waiting.put_nowait((row, answer))
        return await answer

    async def work(self) -> None:
        while True:
            taken = [await self.waiting.get()]
            while len(taken) < ROWS and not self.waiting.empty():
                taken.append(self.waiting.get_nowait())
            batch = np.zeros((ROWS, *taken[0][0].shape), np.float32)  # rows that are left over stay empty
            for i, (row, _) in enumerate(taken):
                batch[i] = row
            self.batches += 1
            self.rows += len(taken)
            try:
                (out,) = await self.runtime.run_async(self.name, {"x": batch})
            except Exception as e:  # whoever waits is told
                self.settle(taken, [e] * len(taken))
            else:
                self.settle(taken, out)

    @staticmethod
    def settle(taken: list[tuple[images.Floats, asyncio.Future[Any]]], results: Any) -> None:
        for (_, answer), result in zip(taken, results):
            if answer.done():  # cancelled
                continue
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)


class Pipeline:
    """The three networks, loaded for the shapes that images.py makes; used in an `async with`."""

    def __init__(self, models: str, *, threads: int = 0, decoders: int = 2):
        files = {stage: os.path.join(models, name) for stage, name in FILES.items()}
        self.characters = characters_of(files["rec"])
        self.overlaps = 0  # images that were decoded while a network computed
        self.computing = 0
        self.runtime = moire.Runtime(threads=threads)
        self.runtime.load(files["det"], "det", shapes={"x": (1, 3, *images.PAGE)})
        self.runtime.load(files["cls"], "cls", shapes={"x": (ROWS, 3, images.HEIGHT, images.TURN_WIDTH)})
        for width in images.WIDTHS:  # tenants of one file share its weights
            self.runtime.load(files["rec"], f"rec{width}", shapes={"x": (ROWS, 3, images.HEIGHT, width)})
        self.pool = ThreadPoolExecutor(decoders)
        self.batchers: dict[str, Batcher] = {}

    async def __aenter__(self) -> Pipeline:
        for name in ("cls", *(f"rec{width}" for width in images.WIDTHS)):
            self.batchers[name] = Batcher(self.runtime, name)
        self.ahead = asyncio.Semaphore(AHEAD)
        return self

    async def __aexit__(self, *_: Any) -> None:
        for batcher in self.batchers.values():
            batcher.task.cancel()
        self.pool.shutdown()
        self.runtime.close()

    async def on_thread(self, call: Any, *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.pool, call, *args)

    async def read(self, path: str) -> list[str]:
        """The lines of an image, from top to bottom."""
        async with self.ahead:
            page = await self.on_thread(images.decode, path)
            self.overlaps += self.computing > 0
            self.computing += 1
            try:
                (probability,) = await self.runtime.run_async("det", {"x": page.pixels})
                lines = await self.on_thread(images.lines_of, page, probability[0, 0])
                read = await asyncio.gather(*map(self.read_line, lines))
            finally:
                self.computing -= 1
        return [text for text in read if text]

    async def read_line(self, line: Any) -> str:
        upright, turned = await self.batchers["cls"].run(images.fitted(line, images.TURN_WIDTH))
        if turned > max(upright, TURNED):
            line = line.rotate(180)
        width = images.width_of(line)
        found = await self.batchers[f"rec{width}"].run(images.fitted(line, width))
        return images.text_of(found, self.characters)


async def read_all(paths: list[str], models: Optional[str] = None, threads: int = 0) -> dict[str, list[str]]:
    async with Pipeline(models or models_of_package(), threads=threads) as pipeline:
        found = await asyncio.gather(*map(pipeline.read, paths))
        rows, batches = (sum(getattr(b, n) for b in pipeline.batchers.values()) for n in ("rows", "batches"))
    print(f"{len(paths)} images, {pipeline.overlaps} decoded beside the networks; {rows} rows in {batches} batches")
    return dict(zip(paths, found))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("image", nargs="+")
    parser.add_argument("--models", help="folder of the networks; that of rapidocr_onnxruntime when not given")
    parser.add_argument("--threads", type=int, default=0)
    args = parser.parse_args()
    for path, lines in asyncio.run(read_all(args.image, args.models, args.threads)).items():
        print(path, *(f"    {line}" for line in lines), sep="\n")


if __name__ == "__main__":
    main()
