"""Renders the strokes that `data/synthetic/glyphs.py` draws with, and writes them to `strokes.txt` beside it.

    python tools/strokes.py

The fonts are those of matplotlib. Another version of FreeType may round a pixel otherwise. So the strokes are a file: the same
glyphs on every machine.
"""

import base64
import zlib
from functools import cache
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont

FILE = Path(__file__).resolve().parents[1] / "src" / "gossamer" / "data" / "synthetic" / "strokes.txt"
_LINE = 100
DIGIT_FONTS = (
    "DejaVuSans", "DejaVuSans-Oblique", "DejaVuSerif", "DejaVuSerif-Italic", "STIXGeneral", "STIXGeneralItalic",
    "cmr10", "cmss10", "cmtt10", "cmmi10",
)  # fmt: skip
LETTER_FONTS = ("DejaVuSans", "DejaVuSans-Oblique", "DejaVuSerif-Italic", "STIXGeneralItalic", "cmss10", "cmtt10")
LOOKALIKES = {
    "0": "Oo", "1": "|/lI", "2": "zZՁƨ", "3": "ЗƷɜʒЭ", "4": "Чɥу", "5": "sSƼƽ", "6": "bь", "7": "⁊ך", "8": "ȣ&B", "9": "qɋգ٩",
}  # fmt: skip
"""Other characters of the first font that look like a handwritten digit; each is drawn as often as a digit of two fonts."""

_FIELD = 64
"""Side of a rendered character, in its own pixels; the character itself is at most _INK of them."""
_INK = 40

SHAPES = {
    "digits": [
        [(font, digit) for font in DIGIT_FONTS] + 2 * [(DIGIT_FONTS[0], form) for form in lookalikes]
        for digit, lookalikes in LOOKALIKES.items()
    ],
    "letters": [
        [(font, form) for font in LETTER_FONTS for form in (letter, letter.lower())]
        for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    ],
}
"""Font and characters of each shape, by class."""


def text() -> str:
    """The content of the file."""
    blocks = []
    for name, shapes in SHAPES.items():
        paths = np.stack([path(font, character) for group in shapes for font, character in group])
        first = np.cumsum([0] + [len(group) for group in shapes])
        packed = base64.b85encode(zlib.compress(np.packbits(paths).tobytes(), 9)).decode()
        lines = [packed[at : at + _LINE] for at in range(0, len(packed), _LINE)]
        blocks.append("\n".join([name, " ".join(map(str, first)), *lines]) + "\n")
    return "\n".join(blocks)


@cache
def path(font: str, character: str) -> np.ndarray:
    """The thinned strokes of one character. bool [F, F]"""
    file = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{font}.ttf"
    canvas = Image.new("L", (4 * _FIELD, 4 * _FIELD))
    font_file = ImageFont.truetype(str(file), 2 * _FIELD)
    for part in character:
        ImageDraw.Draw(canvas).text((_FIELD, _FIELD), part, font=font_file, fill=255)
    picture = canvas.crop(canvas.getbbox())
    shrink = _INK / max(picture.size)
    side = [max(round(length * shrink), 1) for length in picture.size]
    picture = picture.resize((side[0], side[1]), Image.Resampling.BOX)
    field = Image.new("L", (_FIELD, _FIELD))
    field.paste(picture, ((_FIELD - side[0]) // 2, (_FIELD - side[1]) // 2))
    return _thin(np.asarray(field) > 127)


def _thin(shape: np.ndarray) -> np.ndarray:
    """The strokes of a shape as lines one pixel wide. bool [F, F]. Zhang and Suen 1984: peel until nothing changes."""
    shape = shape.copy()
    changed = True
    while changed:
        changed = False
        for odd in (True, False):
            north, east, south, west = (
                np.roll(shape, shift, axis) for shift, axis in ((1, 0), (-1, 1), (-1, 0), (1, 1))
            )
            ring = [
                north, np.roll(north, -1, 1), east, np.roll(south, -1, 1),
                south, np.roll(south, 1, 1), west, np.roll(north, 1, 1),
            ]  # fmt: skip
            neighbours = sum(part.astype(np.int8) for part in ring)
            rises = sum((~here & after).astype(np.int8) for here, after in zip(ring, ring[1:] + ring[:1], strict=True))
            corner = ~(east & south & (north | west)) if odd else ~(north & west & (east | south))
            peel = shape & (neighbours >= 2) & (neighbours <= 6) & (rises == 1) & corner
            changed = changed or bool(peel.any())
            shape &= ~peel
    return shape


if __name__ == "__main__":
    FILE.write_text(text())
