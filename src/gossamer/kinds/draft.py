"""A draft of a card, of pictures or of a table, with hints for the data owner. Both are for the terminal only."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.data.card import STORED, DataCard, check_range, rounded
from gossamer.data.pixels.polarity import CROWDED, NEARLY_CONSTANT, crowded, nearly_constant
from gossamer.data.pixels.to_uint8 import MADE_COLOUR, SCALED
from gossamer.data.records import Records, absent, at_once, uneven
from gossamer.data.source import Data, Reading
from gossamer.data.sources.names import ONLY_TABLES
from gossamer.data.sources.pictures.picture_folders import Listing
from gossamer.data.sources.pictures.read import LEFT_OUT, read, sizes
from gossamer.data.sources.tables import is_table
from gossamer.data.tables.card import TableDraft
from gossamer.data.tables.draft import draft_table_card
from gossamer.data.tables.linked.card import LinkedDraft
from gossamer.data.tables.linked.draft import draft_linked_card
from gossamer.data.tables.linked.read import are_linked, places
from gossamer.data.units import grouping
from gossamer.errors import DataError, RequestError
from gossamer.events import Sink, say, silent

KEPT = (28, 512)
"""The shortest and the longest side of pictures whose size a draft keeps."""
_MANY = 1_000
"""Number of labels above which `draft` does not take them for classes."""
_HEADER = """\
# A draft, measured from the data. Nothing here is public yet. Each line that you keep becomes a fact that you, the
# data owner, declare public. Write what is known without looking at the records: a rounded size, and classes that would
# be there without any one person. Label shares must be known from elsewhere; else leave them uniform.

"""
_STORED_IN_COLOUR = (
    "The pictures are stored in colour, and all are grey. So the draft has 1 as the first number of shape. Write 3 if colours "
    "may occur."
)
_MEASURED = 64
"""The longest side of pictures on which most methods were measured."""
_LARGE = (
    "Of all methods, only moments was run on pictures above 64 pixels. It shows no more detail there, because it has 64 "
    "numbers for each picture at any size. With an encoder and public pictures, feature-moments and teacher release a "
    "classifier instead."
)


def draft_text(
    data: Data,
    *,
    pixel_range: tuple[float, float] | None = None,
    shape: str | None = None,
    window: bool = False,
    dictionary: str | Path | None = None,
    header: bool | None = None,
    sink: Sink = silent,
) -> tuple[str, list[str]]:
    """Return a card as TOML text, and what the data owner must decide. Errors: as of `readers.read.read`.

    Args:
        data: the private records. A table without pictures gets the card of a table.
        pixel_range: see `data.source.Reading`.
        shape: height and width of the pictures in the card, as 64x64, or with 1 or 3 channels before them, as 3x64x64. Default:
            the size of your pictures if all have the same and its sides are 28 to 512 pixels, else 32x32.
        window: see `data.source.Reading`.
        dictionary: for a table, a CSV file with the columns name, kind, values (separated by |), low, high, and any other entry
            of a card. The draft takes them in place of comments.
        header: for a table, whether the first line of the file names the columns, whatever it looks like. If it is a row, the
            columns are called column_1, column_2 and so on. Default: it names them, and names that look like values are
            refused.
        sink: takes the progress of reading pictures.
    """
    linked = are_linked(data)
    if linked or is_table(data):
        given = {"`pixel_range`": pixel_range, "`shape`": shape, "`window`": window or None}
        if flags := ", ".join(flag for flag, value in given.items() if value is not None):
            raise RequestError(f"{flags}: this is for pictures, and the data are a table. Leave it out.")
        if linked and (tables := places(data)):
            if dictionary is not None:
                raise RequestError("`dictionary` describes one table, and these are several. Leave it out.")
            return draft_linked_card(tables, header=header)
        return draft_table_card(data, dictionary=dictionary, header=header)
    if dictionary is not None:
        raise RequestError("`dictionary` describes the columns of a table, and the data are pictures. Leave it out.")
    if header is not None:
        raise RequestError(ONLY_TABLES)
    check_range(pixel_range or STORED)
    wanted = None if shape is None else parsed_shape(shape)
    how = Reading(missing_unit="own", missing_label="drop", pixel_range=pixel_range, window=window)
    looked, listing = sizes(data, how, sink=sink)
    form: tuple[int, ...] | None = (looked.channels, *common_size(looked.sizes)) if looked.sizes else None
    if wanted is not None and (looked.sizes or len(wanted) == 3):
        form = (looked.channels, *wanted)[-3:]
    records = read(data, replace(how, shape=form), sink=sink)
    hints = [*records.notes, *_of_colours(looked.colours)]
    if len(wanted or ()) < 3 and records.shape[0] == 3 and _are_grey(records.images):
        records = replace(records, images=records.images[:, :1])
        hints = [_STORED_IN_COLOUR, *(note for note in records.notes if note != MADE_COLOUR)]
    declared = None if wanted is None else (records.shape[0], *wanted)[-3:]
    has_units = records.units is not None
    text = draft(
        records, declared, unit="person" if has_units else "record", window=window,
        missing_label="drop" if LEFT_OUT in records.notes else "refuse",
        pixel_range=tuple(int(end) if float(end).is_integer() else end for end in pixel_range or ()) or STORED,
    )  # fmt: skip
    hints += remarks(records, looked.sizes or Counter([records.shape[1:]]), declared)
    return text, hints if listing is None or has_units else [*hints, *of_several(listing, looked.any_dicom)]


def draft_card(data: Data, **options: Any) -> DataCard | TableDraft | LinkedDraft:
    """Draft a card from records, and print what you must declare. Nothing in a draft is public yet.

    Args:
        data: the private records, as `fit` takes them.
        options: `pixel_range` and `window`, as `Reading` has them. For pictures also `shape`, such as "64x64". For a table,
            `dictionary`: a CSV file that describes its columns. And `header`: False if the first line of the file is a row,
            True if it has names that look like values.

    Returns:
        A DataCard. For a table, a TableDraft: its measured bounds and values are comments, and `fit` refuses it as long as
        there are some. Declare them with `draft.with_column(...)`. Or save it with `draft.save("card.toml")`, edit the file,
        and pass its path to `fit`.

    Raises:
        DataError: if the records cannot be read.
        CardError: if no card can describe them.
    """
    text, hints = draft_text(data, **options)
    for hint in hints:
        say(f"Note: {hint}")
    drafted = LinkedDraft if are_linked(data) else TableDraft if is_table(data) else None
    if drafted is not None:
        say(f"A draft, measured on the records. {drafted.remedy}")
        return drafted(text)
    card = DataCard.loads(text)
    say(
        f"A draft, measured on the records. Declare what may be public, such as a rounded size known from elsewhere:\n"
        f"card = gossamer.{card!r}"
    )
    return card


def draft(records: Records, shape: tuple[int, ...] | None = None, **facts: Any) -> str:
    """A proposal for a card, as TOML text: measured, so nothing in it is public until the data owner declares it.

    The size is rounded to two digits, because an exact count is no public fact.

    Args:
        records: of any size.
        shape: of the card. None: that of the pictures, or 32x32 where a side is outside `KEPT`.
        facts: other facts of the card.

    Raises:
        DataError: if the labels cannot number classes.
        CardError: if the classes are called what no class can be called.
    """
    channels, *size = records.shape
    card = DataCard(
        shape=shape or (channels, *common_size(Counter([(size[0], size[1])]))),
        classes=len(records.class_names) or _drafted_classes(records.labels),
        class_names=records.class_names,
        declared_size=rounded(records.population),
        **facts,
    )
    return _HEADER + card.dumps()


def _drafted_classes(labels: np.ndarray) -> int:
    """One more than the largest label, where labels look like the numbers of classes."""
    used, numbers = len(np.unique(labels)), int(labels.max()) + 1
    if 2 * used < numbers or numbers > _MANY:
        raise DataError(
            "these labels do not look like the numbers of classes: there are very many, or most numbers below the largest "
            "never occur. Number the classes from 0 (`names, labels = np.unique(labels, return_inverse=True)`), or name "
            "the right array with `labels_key`."
        )
    return numbers


def parsed_shape(text: str) -> tuple[int, ...]:
    """Height and width, or channels, height and width, from "64x64" or "3x64x64". Raises RequestError: it is neither."""
    numbers = text.lower().split("x")
    if len(numbers) not in (2, 3) or not all(number.isdecimal() and int(number) for number in numbers):
        raise RequestError(f"`shape` must be height and width, such as 64x64, or 3x64x64 in colour. It is {text!r}.")
    if len(numbers) == 3 and int(numbers[0]) not in (1, 3):
        raise RequestError(
            f"`shape`: pictures have 1 channel (grey) or 3 (colour), not {numbers[0]}. Write 1x64x64 or 3x64x64."
        )
    return tuple(map(int, numbers))


def common_size(sizes: Counter[tuple[int, int]]) -> tuple[int, int]:
    """The height and width of a draft: that of all pictures, where they have one that a draft keeps; else 32 and 32."""
    (common,) = sizes if len(sizes) == 1 else ((32, 32),)
    shortest, longest = KEPT
    return common if min(common) >= shortest and max(common) <= longest else (32, 32)


def remarks(records: Records, sizes: Counter[tuple[int, int]], shape: tuple[int, ...] | None = None) -> Iterator[str]:
    """What the drafted card does to the pictures, and which classes and pictures need a decision.

    Args:
        records: of any size.
        sizes: height and width of the pictures as they are stored.
        shape: of the card. None: as `draft` has it.
    """
    height, width = common_size(sizes) if shape is None else shape[1:]
    if set(sizes) != {(height, width)}:
        yield _sizes(sizes, height, width)
    if (height, width) not in ((28, 28), (32, 32)):
        yield (
            f"Not every method takes {width}x{height} pixels, but all take 32x32. `gossamer.recommend(card=CARD, epsilon=E)` "
            "lists those that do, and why the others do not."
        )
    if max(height, width) > _MEASURED:
        yield _LARGE
    if records.class_names:
        yield "class_names are public, and records are matched by them: keep no class that exists because of one person."
    elif len(set(records.labels.tolist())) <= int(records.labels.max()):
        yield (
            "Some numbers below the largest label have no record, and each is drafted as a class of its own. If they are none, "
            "number the classes from 0 without gaps."
        )
    yield from absent(records, "DATA")
    yield from uneven(records, "DATA", shares=True)
    if records.names is not None and (records.names == "").any():
        who = "No record has a" if (records.names == "").all() else "Some records have no"
        yield (
            f"{who} unit, and `fit` refuses them as drafted. Give their ids, or say missing_unit = "
            '"own" in the card if each is a unit of its own.'
        )
    if records.names is not None and (records.names != "").all():
        yield from _unlikely_units(records)
    if SCALED in records.notes and crowded(records):
        yield CROWDED
    elif nearly_constant(records):
        yield NEARLY_CONSTANT


def _are_grey(images: np.ndarray) -> bool:
    """Whether pictures in colour are grey, but for what JPEG rounds. images: uint8 [N, 3, H, W]"""
    step = at_once(images.shape[1:], _MANY)
    return all(int(np.ptp(images[at : at + step], axis=1).max()) <= 3 for at in range(0, len(images), step))


def _of_colours(colours: Counter[bool]) -> Iterator[str]:
    """That some pictures are in colour and others are grey. colours: how many are in colour."""
    if len(colours) > 1:
        yield (
            f"{colours[True]:,} of {colours.total():,} pictures are in colour, and the others are grey. The draft keeps "
            "colour. If colour means nothing, write 1 as the first number of shape in the card."
        )


def of_several(listing: Listing, any_dicom: bool) -> Iterator[str]:
    """That pictures may belong to one person, where nobody said whose they are. any_dicom: some are DICOM files."""
    if sign := grouping(listing.names(listing.paths), len(set(listing.labels.tolist()))):
        yield (
            f"The file names come in groups that differ only after the last `{sign}`. If a group is one person, protect the "
            f"person: add `units='(.+){sign}'` to every command."
        )
    elif any_dicom:
        yield "If a patient has several of these DICOM files, protect the patient: add `units=dicom:PatientID` to each command."


def _unlikely_units(records: Records) -> Iterator[str]:
    """What looks wrong with the units of records that all have one."""
    if records.population == len(records) > 1:
        yield "Each record has a unit of its own, so these units protect no more than the record does. Check `units`."
    elif records.population == 1 < len(records):
        yield "All records belong to one unit, so a run learns nothing from them. Check `units`."


def _sizes(sizes: Counter[tuple[int, int]], height: int, width: int) -> str:
    """What becomes of pictures of these sizes."""
    (high, wide), _ = sizes.most_common(1)[0]
    text = f"{wide}x{high} pixels (width x height)" + (f" and {len(sizes) - 1:,} other sizes" if len(sizes) > 1 else "")
    become = f"The pictures are {text} and become {width}x{height}. For another size, give `shape`, such as 64x64."
    if all(wide * height == high * width for high, wide in sizes):
        return become
    return (
        f'{become} Their proportions are others. Choose resize in the card: "squash" (as drafted) distorts them, "crop" keeps '
        'the middle, and "pad" adds black bars.'
    )
