"""A picture of many samples: one row for each class."""

import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from gossamer.lazy import Lazy

matplotlib: Any = Lazy("matplotlib")

_WIDTH = 640
"""A grid is enlarged by a whole factor to about this many pixels."""
_NAME, _GREY = 24, (128, 128, 128, 255)
"""Letters of a name on the grid, and their colour."""


def sample_grid(
    images: NDArray[np.uint8], labels: NDArray[np.integer[Any]], *, columns: int, names: Sequence[str] = ()
) -> bytes:
    """Return a PNG with one row for each class, in rising order, and the first samples of the class in it.

    The space between samples is transparent, for light pages and for dark pages. So are the places that a class with fewer
    samples leaves empty.

    Args:
        images: uint8 [N, C, H, W], one channel (grey) or three (colour).
        labels: integers [N].
        columns: samples in a row.
        names: names of the labels, written to the left of their rows; empty: none are written.
    """
    _, _, height, width = images.shape
    scale = max(1, _WIDTH // (columns * width))
    gap = max(2, round(0.1 * width * scale))
    classes = np.unique(labels)
    step_down, step_right = height * scale + gap, width * scale + gap
    sheet = np.zeros((len(classes) * step_down - gap, columns * step_right - gap, 4), dtype=np.uint8)
    for row, label in enumerate(classes):
        for column, image in enumerate(images[labels == label][:columns]):
            tile = np.broadcast_to(image, (3, height, width)).transpose(1, 2, 0).repeat(scale, 0).repeat(scale, 1)
            top, left = row * step_down, column * step_right
            sheet[top : top + height * scale, left : left + width * scale, :3] = tile
            sheet[top : top + height * scale, left : left + width * scale, 3] = 255
    whole = _titled(sheet, [names[label] for label in classes], step_down) if names else Image.fromarray(sheet)
    file = io.BytesIO()
    whole.save(file, format="PNG", optimize=True)
    return file.getvalue()


def _titled(sheet: NDArray[np.uint8], names: Sequence[str], step: int) -> Image.Image:
    """A sheet with a name to the left of each row, in a grey that a light page and a dark page show."""
    file = Path(matplotlib.get_data_path()) / "fonts/ttf/DejaVuSans.ttf"
    font = ImageFont.truetype(str(file), min(max(16, sheet.shape[1] // 40), step - 2))
    shown = [name if len(name) <= _NAME else f"{name[: _NAME - 1]}\u2026" for name in names]
    margin = math.ceil(max(font.getlength(name) for name in shown)) + 10
    whole = Image.new("RGBA", (sheet.shape[1] + margin, sheet.shape[0]))
    whole.paste(Image.fromarray(sheet), (margin, 0))
    pen = ImageDraw.Draw(whole)
    for row, name in enumerate(shown):
        pen.text((margin - 10, row * step + step // 2), name, fill=_GREY, font=font, anchor="rm")
    return whole
