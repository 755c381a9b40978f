"""The form that every picture is brought to: proportions, and dark and light."""

import numpy as np
import pytest

from gossamer.data.labels import match_labels, wrong_with
from gossamer.data.pixels.polarity import contrast, ground, nearly_constant
from gossamer.data.pixels.to_uint8 import resize
from gossamer.data.records import Records
from gossamer.errors import DataError

# 20 high and 40 wide: dark, a bright middle square, a grey band at the right.
WIDE = np.zeros((1, 1, 20, 40), np.uint8)
WIDE[..., 8:32] = 200
WIDE[..., 36:] = 100


def test_squash_keeps_everything_and_the_proportions_change() -> None:
    image = resize(WIDE, (1, 10, 10))[0, 0]
    assert (image[:, 4:7] == 200).all()
    assert (image[:, 9] == 86).all(), "the filter reaches into what is dark"
    assert (image[:, 0] == 0).all()


def test_crop_cuts_the_middle_out() -> None:
    assert (resize(WIDE, (1, 10, 10), "crop") == 200).all()
    tall = WIDE.transpose(0, 1, 3, 2)
    assert (resize(tall, (1, 10, 10), "crop") == 200).all()
    assert resize(WIDE, (1, 10, 30), "crop").shape == (1, 1, 10, 30)


@pytest.mark.parametrize(("invert", "bar", "middle"), [(False, 0, 200), (True, 0, 55)])
def test_pad_keeps_everything_between_black_bars(invert: bool, bar: int, middle: int) -> None:
    """Inverted pictures have black bars too: they are inverted before."""
    image = resize(WIDE, (1, 20, 20), "pad", invert=invert)[0, 0]
    assert (image[:5] == bar).all()
    assert (image[15:] == bar).all()
    assert (image[5:15, 7:13] == middle).all()


@pytest.mark.parametrize("how", ["squash", "crop", "pad"])
@pytest.mark.parametrize("size", [(7, 3), (3, 7), (480, 640), (1, 9), (33, 32)])
def test_every_way_gives_the_shape(how, size: tuple[int, int]) -> None:
    """A picture of one value keeps it where nothing is padded; none of the sizes trips over rounding."""
    flat = np.full((2, 3, *size), 77, np.uint8)
    found = resize(flat, (3, 28, 32), how)
    assert found.shape == (2, 3, 28, 32)
    assert (found == 77).all() or how == "pad"
    assert (found == 77).any()


def test_without_a_shape_pictures_keep_their_size() -> None:
    assert resize(WIDE) is WIDE
    np.testing.assert_array_equal(resize(WIDE, invert=True), 255 - WIDE)


def on(value: int, ink: int, n: int = 20) -> Records:
    images = np.full((n, 1, 28, 28), value, np.uint8)
    images[:, :, 8:20, 8:20] = ink
    return Records(images, np.zeros(n, np.int64))


def test_the_ground_is_told_by_the_edges_and_most_must_agree() -> None:
    paper, screen, grey = on(250, 0), on(3, 255), on(128, 0)
    assert [ground(each) for each in (paper, screen, grey)] == ["light", "dark", "neither"]
    assert ground(on(250, 0, 0)) == "neither"
    mixed = Records(np.concatenate([paper.images, screen.images[:3]]), np.zeros(23, np.int64))
    assert ground(mixed) == "neither"
    assert "ink on white, and those of --public like white on black" in contrast("--data", paper, "--public", screen)
    assert contrast("--data", paper, "--public", paper) == contrast("--data", grey, "--public", screen) == ""


@pytest.mark.parametrize(("spread", "constant"), [(0, True), (16, True), (17, False), (255, False)])
def test_pictures_of_one_shade_are_nearly_constant(spread: int, constant: bool) -> None:
    """Whatever the shade, and though channels differ; one picture in ten may show more."""
    images = np.zeros((40, 3, 4, 4), np.uint8)
    images[:, 1] = 200 - spread // 2
    images[:, 2, 1, 1] = spread
    assert nearly_constant(Records(images, np.zeros(40, np.int64))) is constant
    images[:4] = np.arange(16).reshape(4, 4) * 17
    assert nearly_constant(Records(images, np.zeros(40, np.int64))) is constant
    images[4] = images[0]
    assert nearly_constant(Records(images, np.zeros(40, np.int64))) is False
    assert nearly_constant(Records(images[:0], np.zeros(0, np.int64))) is False


def test_labels_follow_the_names() -> None:
    labels = np.array([0, 1, 2, 1])
    assert match_labels(labels, ["c", "a", "b"], ["a", "b", "c"], where="here").tolist() == [2, 0, 1, 0]
    assert match_labels(labels, ["c", "a", "b", "unknown"], ["a", "b", "c"], where="here").tolist() == [2, 0, 1, 0]
    with pytest.raises(
        DataError,
        match=r"here: the card does not name the class of records 1, 3 \(counted from 0\)\. It names a, b, c\.",
    ) as caught:
        match_labels(labels, ["c", "fracture", "a"], ["a", "b", "c"], where="here")
    assert "fracture" not in str(caught.value), "what a record holds is nothing for an exception text"
    with pytest.raises(DataError, match=r"names 2 classes, labels from 0\. A larger label was found for record 2 "):
        match_labels(labels, ["c", "b"], ["b", "c"], where="here")


@pytest.mark.parametrize("name", ["", " ", " a", "a ", ".a", "..", "a/b", "a\\b", "a\nb", "x" * 101, 7])
def test_names_become_folders(name: object) -> None:
    assert wrong_with([name, "b"])
    assert wrong_with(["a", "b"]) == wrong_with([]) == ""
    assert wrong_with(["e\u0301", "\u00e9"]) == "no two may be the same"
