# SPDX-License-Identifier: Apache-2.0
"""images.py - what happens to an image before and between the networks: decoding, resizing, cutting out lines.

The networks are those of PP-OCR as the package rapidocr_onnxruntime has them.  They take planes of blue, green and red,
-1 to 1.  Every function here is pure, so the pipeline calls them on any thread, and a test calls them one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Floats = NDArray[np.float32]
PAGE = (544, 960)  # height and width that the detector is loaded for; pages are put into it
HEIGHT = 48  # of a line
TURN_WIDTH = 192  # of what the network sees that says whether a line is upside down
WIDTHS = (320, 640, 960)  # that lines are padded to, so that lines of several lengths are one batch
THRESHOLD, SCORE, GROW = 0.3, 0.5, 1.6  # of a pixel, of a box; the detector marks a shrunken core of each line
LEAST = 3  # pixels
SURE = 0.5  # mean probability of a line's characters


@dataclass
class Page:
    """A decoded image, the detector's input, and how many of its pixels are one of that input."""

    image: Image.Image
    pixels: Floats
    scale: float


def planes(image: Image.Image) -> Floats:
    """An RGB image as the networks take it, without the batch."""
    rgb = np.asarray(image, np.float32)
    return np.ascontiguousarray(((rgb / 255 - 0.5) / 0.5)[:, :, ::-1].transpose(2, 0, 1), np.float32)


def decode(path: str) -> Page:
    """Reads a file of any format that Pillow knows, and fits it into the upper left of the detector's input."""
    with Image.open(path) as file:
        image = file.convert("RGB")
    scale = max(image.height / PAGE[0], image.width / PAGE[1])
    size = max(1, round(image.width / scale)), max(1, round(image.height / scale))
    pixels = np.zeros((1, 3, *PAGE), np.float32)
    pixels[0, :, : size[1], : size[0]] = planes(image.resize(size, Image.Resampling.BILINEAR))
    return Page(image, pixels, scale)


def rectangles(mask: NDArray[np.bool_]) -> list[list[int]]:
    """Left, top, right and bottom (both beyond the last pixel) of every connected part of a mask.

    Row by row: a run of pixels joins the parts of the row above that it touches, corners too."""
    found: list[list[int]] = []
    above: list[tuple[int, int, list[int]]] = []
    for y in np.flatnonzero(mask.any(axis=1)).tolist():
        edges = np.flatnonzero(np.diff(mask[y].astype(np.int8), prepend=0, append=0)).tolist()
        here: list[tuple[int, int, list[int]]] = []
        for left, right in zip(edges[::2], edges[1::2]):
            part = [left, y, right, y + 1]
            for other_left, other_right, other in above:
                if other_left > right or left > other_right or other[3] < y or other is part:
                    continue
                part[0], part[1] = min(part[0], other[0]), min(part[1], other[1])
                part[2] = max(part[2], other[2])
                found = [p for p in found if p is not other]
                here = [(a, b, part if p is other else p) for a, b, p in here]
                above = [(a, b, part if p is other else p) for a, b, p in above]
            found.append(part)
            here.append((left, right, part))
        above = here
    return found


def lines_of(page: Page, probability: Floats) -> list[Image.Image]:
    """The lines of text that the detector marks, from top to bottom, cut out of the image itself."""
    boxes = []
    for left, top, right, bottom in rectangles(probability > THRESHOLD):
        width, height = right - left, bottom - top
        if min(width, height) < LEAST or probability[top:bottom, left:right].mean() < SCORE:
            continue
        grow = width * height * GROW / (2 * (width + height))
        box = left - grow, top - grow, right + grow, bottom + grow
        boxes.append([round(side * page.scale) for side in box])
    boxes.sort(key=lambda box: (box[1], box[0]))
    w, h = page.image.size
    cut = [(max(0, a), max(0, b), min(w, c), min(h, d)) for a, b, c, d in boxes]
    return [page.image.crop(box) for box in cut if box[0] < box[2] and box[1] < box[3]]


def fitted(line: Image.Image, width: int) -> Floats:
    """A line of the networks' height, as wide as it is or as `width`, with nothing to its right."""
    wide = min(width, max(1, round(line.width * HEIGHT / line.height)))
    out = np.zeros((3, HEIGHT, width), np.float32)
    out[:, :, :wide] = planes(line.resize((wide, HEIGHT), Image.Resampling.BILINEAR))
    return out


def width_of(line: Image.Image) -> int:
    """The one of WIDTHS that the line is padded to; longer ones are squeezed."""
    wide = line.width * HEIGHT / line.height
    return next((width for width in WIDTHS if wide <= width), WIDTHS[-1])


def text_of(probabilities: Floats, characters: list[str]) -> str:
    """[steps, characters] as text: the best one of each step, repeats and blanks (0) left out; "" if it is unsure."""
    best = probabilities.argmax(axis=1)
    keep = (best != 0) & np.insert(best[1:] != best[:-1], 0, True)
    if not keep.any() or probabilities.max(axis=1)[keep].mean() < SURE:
        return ""
    return "".join(characters[i] for i in best[keep])
