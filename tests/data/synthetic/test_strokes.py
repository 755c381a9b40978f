"""The strokes that the package holds are those that `tools/strokes.py` renders."""

import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

from gossamer.data.synthetic import glyphs

strokes = SimpleNamespace(**runpy.run_path(str(Path(__file__).resolve().parents[3] / "tools" / "strokes.py")))


def test_the_file_has_the_rendered_strokes_class_by_class():
    """But for the few pixels that another version of FreeType rounds otherwise."""
    for classes, shapes in strokes.SHAPES.items():
        paths, first = glyphs.strokes(classes)
        rendered = np.stack([strokes.path(font, character) for group in shapes for font, character in group])
        assert first.tolist() == np.cumsum([0, *map(len, shapes)]).tolist()
        assert paths.dtype == torch.bool
        assert (paths.numpy() != rendered).mean() < 1e-3


def test_no_character_is_missing_from_its_font():
    """A font draws a box for a character it lacks; no two characters of one font may look the same."""
    for font in strokes.DIGIT_FONTS:
        box = strokes.path(font, "\U000f0000")
        for digit in "0123456789":
            assert not np.array_equal(strokes.path(font, digit), box)
    box = strokes.path(strokes.DIGIT_FONTS[0], "\U000f0000")
    for character in "".join(strokes.LOOKALIKES.values()):
        assert not np.array_equal(strokes.path(strokes.DIGIT_FONTS[0], character), box)


def test_thinning_keeps_the_topology():
    ring = np.zeros((40, 40), bool)
    ring[5:35, 5:35] = True
    ring[15:25, 15:25] = False
    thin = strokes._thin(ring)
    assert (thin & ~ring).sum() == 0
    assert 60 < thin.sum() < 100, "a closed line, one pixel wide, around a hole of 10x10"
    assert (thin.sum(1) > 0).sum() >= 15
    filled = np.zeros((40, 40), bool)
    filled[10, 5:30] = True
    np.testing.assert_array_equal(strokes._thin(filled), filled)
