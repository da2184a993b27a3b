# SPDX-License-Identifier: Apache-2.0
"""ocr_pages.py - pages of known text for ocr_int8.py: drawn with Pillow, each from its own seed.

A line is a piece of known text in a known place.  Words for calibration and words for tests differ.
"""
import os
import random

import numpy
from PIL import Image, ImageDraw, ImageFilter, ImageFont

WIDTH, HEIGHT, LINES = 800, 736, 12  # the height at which the detector does not scale
SIZES = [18, 20, 22, 24, 26, 28, 30, 32, 34, 36]
NOISES = ["none", "moderate", "strong"]
TURNED = 6  # one line of so many is upside down

WORDS = """about above across action after again against agent album almost alone along already always amount angle animal
another answer apple april argue around arrive artist aside august author autumn average avoid award balance basket battle
beauty because become before begin behind believe belong benefit beside better beyond blanket blossom border borrow bottle
bottom branch breath bridge bright bring broken brother budget build butter button camera candle canvas captain carbon
career carpet castle center chair chance change chapter cheese choice circle citizen clever client climate closet coffee
collect column comfort common compare concert copper corner cotton couple course cousin cradle create credit crystal culture
current custom damage danger daughter decide degree deliver desert design detail dinner direct doctor dollar double dozen
drawing dream driver during eager early earth eight either elbow electric element empty engine enough equal escape evening
event every exact example except expect fabric factor family famous farmer father feather festival figure filter final finger
finish flavor flight flower follow forest forget formal fortune forward fourth freedom fresh friend frozen future garden
gather general gentle ghost giant glass global golden gravity great ground growth guess guitar habit hammer handle happen
harbor harvest heavy height hidden history honest horizon horse hotel house human hundred hungry husband imagine impact
income indeed inside island jacket journal journey judge jungle junior kettle keyboard kitchen knife ladder language laptop
large later laugh leader leather lecture legend lemon letter level library light limit liquid listen little local lovely
lucky lumber machine magnet manner marble margin market master matter measure medium melody member memory mental message
metal middle million minute mirror mobile modern moment monkey morning mother motion mountain muscle museum music mystery
narrow nation nature nearly network never night noble normal north notice number object ocean office often olive opinion
orange orbit order origin other outside owner oxygen package palace paper parent park partner pattern pencil people pepper
perfect period person phone picture pillow pilot planet plastic please pocket poem point police portrait potato powder
present price prince print prison problem profit project proper public purple puzzle quality quarter queen question quick
quiet rabbit radio railway random rather reason record region remain remote repair report rescue result return reward rhythm
ribbon river rocket royal rubber saddle salad sample school science season second secret section select senior series seven
shadow shelter short shoulder signal silver simple single sister sketch smooth social sound south spider spirit spring square
station storm story strange street string strong student study sudden summer sunset supply surface system table talent target
teacher temple theory thing thought thread through ticket timber title today together tomato topic toward travel treaty
triangle trouble trust tunnel twelve twenty under unique until upper useful valley value velvet village violin vision visit
voice volume voyage wagon water wealth weather wheel whisper white window winter wisdom wonder worker world worry writer
yellow yesterday young zebra""".split()

FAMILIES = ["DejaVuSans.ttf", "DejaVuSerif.ttf", "DejaVuSansMono.ttf", "DejaVuSans-Bold.ttf", "DejaVuSerif-Bold.ttf",
            "DejaVuSansCondensed.ttf", "DejaVuSerifCondensed.ttf", "DejaVuSans-Oblique.ttf", "DejaVuSerif-Italic.ttf"]


def fonts(folder):
    """Names of the fonts that are there, and "built-in" for the one that Pillow carries."""
    return [name for name in FAMILIES if os.path.exists(os.path.join(folder, name))] + ["built-in"]


def open_font(folder, name, size):
    return ImageFont.load_default(size) if name == "built-in" else ImageFont.truetype(os.path.join(folder, name), size)


def number(r):
    return r.choice([lambda: str(r.randint(10, 99999)), lambda: f"{r.randint(1, 999)}.{r.randint(0, 99):02d}",
                     lambda: f"{r.randint(1, 99)}%", lambda: f"{r.randint(1, 23)}:{r.randint(0, 59):02d}",
                     lambda: f"{r.randint(1, 28):02d}/{r.randint(1, 12):02d}/{r.randint(1980, 2030)}",
                     lambda: f"${r.randint(1, 999)}.{r.randint(0, 99):02d}"])()


def mixed(r, words):
    return r.choice([lambda: f"{r.choice(words).capitalize()}-{r.randint(1, 99)}", lambda: r.choice(words).upper(),
                     lambda: f"{r.choice('ABCDEFGHKLMNPRSTUVWXYZ')}{r.randint(100, 9999)}",
                     lambda: f"{r.choice(words)}@{r.choice(words)}.com", lambda: number(r), lambda: r.choice(words)])()


def draw_text(r, words, font, room):
    """Words, numbers or both, as many as fit."""
    kind = r.choice(["words", "words", "numbers", "mixed"])
    text, want = "", r.randint(2, 6)
    for _ in range(want):
        piece = {"words": lambda: r.choice(words), "numbers": lambda: number(r), "mixed": lambda: mixed(r, words)}[kind]()
        longer = f"{text} {piece}".strip()
        if font.getlength(longer) > room:
            break
        text = longer
    text = text or r.choice(words)
    return text[0].upper() + text[1:] if kind == "words" and r.random() < 0.6 else text


def damage(page, noise, random_bits):
    if noise == "none":
        return page
    pixels = numpy.asarray(page, dtype=numpy.float32)
    if noise == "strong":
        pixels = numpy.asarray(page.filter(ImageFilter.GaussianBlur(0.9)), dtype=numpy.float32)
        pixels = 128 + (pixels - 128) * 0.45
    pixels = pixels + random_bits.normal(0, 14 if noise == "moderate" else 22, pixels.shape)
    return Image.fromarray(numpy.clip(numpy.rint(pixels), 0, 255).astype(numpy.uint8))


def render(path, folder, seed, number_of_page, words, noise):
    """Writes the page; its lines as {"text", "box": [left, top, right, bottom], "font", "size"}."""
    r = random.Random(seed * 1000 + number_of_page)
    light, dark = [r.randint(225, 255) for _ in range(3)], [r.randint(0, 70) for _ in range(3)]
    page, names, lines = Image.new("RGB", (WIDTH, HEIGHT), tuple(light)), fonts(folder), []
    for i in range(LINES):
        name, size = names[(number_of_page + i) % len(names)], r.choice(SIZES)
        font = open_font(folder, name, size)
        text = draw_text(r, words, font, WIDTH - 120)
        left, top, right, bottom = font.getbbox(text)
        strip = Image.new("RGB", (int(right - left) + 8, int(bottom - top) + 8), tuple(light))
        ImageDraw.Draw(strip).text((4 - left, 4 - top), text, font=font, fill=tuple(dark))
        if i % TURNED == TURNED - 1:
            strip = strip.rotate(180)
        x, y = r.randint(20, max(21, WIDTH - 20 - strip.width)), 14 + i * (HEIGHT - 20) // LINES
        page.paste(strip, (x, y))
        lines.append({"text": text, "box": [x, y, x + strip.width, y + strip.height], "font": name, "size": size})
    page = damage(page, noise, numpy.random.default_rng(seed * 1000 + number_of_page))
    with open(path, "wb") as f:
        f.write(b"P6\n%d %d\n255\n" % page.size + page.tobytes())
    return lines
