"""Hints for the data owner before a draft becomes a card. They come from the records: for the terminal only."""

from collections import Counter
from collections.abc import Iterator

from gossamer.data.class_names import absent
from gossamer.data.polarity import NEARLY_CONSTANT, ground, nearly_constant
from gossamer.data.records import Records

USUAL = ((28, 28), (32, 32))
"""Heights and widths that every method takes, and that a draft keeps."""


def drafted_size(sizes: Counter[tuple[int, int]]) -> tuple[int, int]:
    """The height and width of a draft: that of all pictures where it is a usual one, else 32 and 32."""
    (common,) = sizes if len(sizes) == 1 else ((32, 32),)
    return common if common in USUAL else (32, 32)


def remarks(records: Records, sizes: Counter[tuple[int, int]]) -> Iterator[str]:
    """What the drafted card does to the pictures, and which classes and pictures need a decision.

    Args:
        records: of any size.
        sizes: height and width of the pictures as they are stored.
    """
    height, width = drafted_size(sizes)
    if set(sizes) != {(height, width)}:
        yield _sizes(sizes, height, width)
    if records.class_names:
        yield "class_names are public, and records are matched by them: keep no class that exists because of one person."
    elif len(set(records.labels.tolist())) <= int(records.labels.max()):
        yield (
            "Some numbers below the largest label have no record, and each is drafted as a class of its own. If they are none, "
            "number the classes from 0 without gaps."
        )
    yield from absent(records, "DATA")
    if records.names is not None and (records.names == "").any():
        who = "No record has a" if (records.names == "").all() else "Some records have no"
        yield (
            f"{who} unit, and `fit` refuses them as drafted. Give their ids, or say missing_unit = "
            '"own" in the card if each is a unit of its own.'
        )
    if nearly_constant(records):
        yield NEARLY_CONSTANT
    if ground(records) == "light":
        yield (
            "Nearly all pictures look like ink on white. `glyphs`, MNIST and most public digits are white on black. With such "
            "--public records, set invert = true in the card: all data are then read inverted."
        )


def _sizes(sizes: Counter[tuple[int, int]], height: int, width: int) -> str:
    """What becomes of pictures of these sizes."""
    (high, wide), _ = sizes.most_common(1)[0]
    text = f"{wide}x{high} pixels (width x height)" + (f" and {len(sizes) - 1:,} other sizes" if len(sizes) > 1 else "")
    become = f"The pictures are {text} and become {width}x{height}: declare another shape where the method has one."
    if all(wide * height == high * width for high, wide in sizes):
        return become
    return (
        f'{become} Their proportions are others. Choose resize in the card: "squash" (as drafted) distorts them, "crop" keeps '
        'the middle, and "pad" adds black bars.'
    )
