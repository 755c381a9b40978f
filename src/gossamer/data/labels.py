"""Labels, as numbers or as names, to int64 [N]. A missing label is -1 until it is refused or its record is left out.

Names, not positions, say which class a record is of, wherever data have names.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from gossamer.data.problems import records
from gossamer.errors import DataError

NONE = "none"
"""What --labels-key says of data without labels: all records are of one class."""

MISSING = -1

_PIECE = 1 << 16
"""Labels that are read at a time: they may be pages of a file."""

LONGEST = 100
"""Letters of the name of a class: it becomes the name of a folder, and a word on the grid of samples."""

_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]{0,17}))(?:\.0*)?")
"""A whole number as programs write it, perhaps as a floating-point number. `01` is text."""


def as_labels(
    array: np.ndarray,
    *,
    count: int,
    where: str,
    others: np.ndarray | None = None,
    declared: Sequence[str] = (),
) -> tuple[np.ndarray, tuple[str, ...]]:
    """As `numbered`, from an array of labels.

    A missing label, a negative number, NaN or an empty name, becomes -1. False is 0 and True is 1. One-hot labels, one 1 in
    each row, become its position.

    Args:
        array: numbers or text [N], [N, 1], or one-hot [N, classes].
        count: the number of images.
        where: what has the labels, for messages.
        others: of the other split.
        declared: see `numbered`.

    Raises:
        DataError: not one number or name per image.
    """
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.dtype.kind not in "uifbU":
        raise DataError(f"{where}: labels must be whole numbers or names, not {array.dtype}: number the classes from 0")
    if array.shape[:1] != (count,) or array.ndim > (1 if array.dtype.kind == "U" else 2):
        raise DataError(f"{where}: {count} images need labels of shape [{count}], not {list(array.shape)}")
    if array.dtype.kind != "U":
        return _numbers(array, where), ()
    beyond = text_of(others, where=where) if others is not None and others.dtype.kind == "U" else []
    return numbered(text_of(array, where=where), beyond, where=where, declared=declared)


def _numbers(array: np.ndarray, where: str) -> np.ndarray:
    """Labels from numbers, int64 [N]. array: [N], or one-hot [N, classes]. Raises DataError."""
    if array.ndim == 2:
        odd = positions(array, lambda rows: ((rows != 0).sum(1) != 1) | ((rows == 1).sum(1) != 1))
        if found := records(odd):
            raise DataError(
                f"{where}: these are read as one-hot labels, with one 1 in each row. They are not for {found}."
            )
        return np.asarray(array.argmax(1), np.int64)
    if array.dtype == np.int64 and next(positions(array, lambda batch: batch < 0), None) is None:
        return array
    odd = positions(array, lambda batch: np.isinf(batch) | (batch != np.rint(batch)) & ~np.isnan(batch))
    if array.dtype.kind == "f" and (found := records(odd)):
        raise DataError(f"{where}: labels must be whole numbers or names. They are not for {found}.")
    labels: np.ndarray = np.nan_to_num(np.asarray(array), nan=MISSING).astype(np.int64)
    np.maximum(labels, MISSING, out=labels)
    return labels


def label_text(value: object) -> str:
    """A label of JSON, or a cell, as text; empty: there is none. Raises ValueError: it is neither a number nor text."""
    if not isinstance(value, str | int | float | None):
        raise ValueError("a label is a number or a name")
    return "" if value is None else str(int(value) if isinstance(value, bool) else value)


def text_of(array: np.ndarray, *, where: str) -> list[str]:
    """The texts of an array of text. Raises DataError: a damaged file holds numbers that are no characters."""
    try:
        return [str(text) for text in array.tolist()]
    except (ValueError, SystemError):  # Python raises either
        raise DataError(f"{where}: an array of text holds what is no text: write the file again") from None


def numbered(
    names: Sequence[str], others: Sequence[str], *, where: str, declared: Sequence[str] = ()
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels from text, int64 [N], and the names of the classes, label 0 first. There are no names if labels are numbers.

    Space around a name does not count. Empty text is a missing label, and so is a negative number that is not declared. Else
    a text keeps its writing: `01` is not `1`. Only `1.0` is the number 1.

    Args:
        names: of the records.
        others: of the other split.
        where: what has the labels, for messages.
        declared: the card's names. Each text is then read by itself: as the declared name, or as the number of a class if no
            declared name is a number. Other texts get numbers after the declared ones. Empty: if all texts are numbers, these
            are the labels. Else names are numbered from 0 as `place` sorts them.

    Raises:
        DataError: names and numbers mixed, by index, where nothing is declared.
    """
    names, others = [name.strip() for name in names], [name.strip() for name in others]
    there = {*names, *others} - {""}
    numbers = {name: int(match[1]) for name in there if (match := _NUMBER.fullmatch(name))}
    if not declared:
        if len(numbers) == len(there):
            return np.array([max(numbers.get(name, MISSING), MISSING) for name in names], np.int64), ()
        if numbers and not all(name.isdecimal() for name in there - {*numbers}):
            of_first = next(filter(None, names), "") in numbers
            odd = next((at for at, name in enumerate(names) if name and (name in numbers) != of_first), None)
            which = "" if odd is None else f" (record {odd}, counted from 0, is the first of another kind)"
            raise DataError(f"{where}: some labels are names and some are numbers{which}: use one kind")
    known = {_same(name): at for at, name in enumerate(declared)}
    called = {int(match[1]): at for at, name in enumerate(declared) if (match := _NUMBER.fullmatch(name))}
    by_number = called or {at: at for at in range(len(declared))}
    found = {name: known.get(_same(name)) for name in there}
    found |= {name: by_number.get(number) for name, number in numbers.items() if found[name] is None}
    found |= {name: MISSING for name, at in found.items() if at is None and numbers.get(name, 0) < 0}
    beyond = sorted((name for name, at in found.items() if at is None), key=place)
    found |= {name: len(declared) + at for at, name in enumerate(beyond)} | {"": MISSING}
    return np.array([found[name] for name in names], np.int64), (*declared, *beyond)


def place(name: str) -> tuple[bool, int, str]:
    """The sort key of a class name: decimal numbers first, so that 10 comes after 9.

    It depends on no other name. Else the folder of one picture could change the order of all others, which a model shows.
    """
    number = name.isascii() and name.isdigit()
    return not number, int(name) if number else 0, name


def positions(labels: np.ndarray, wrong: Callable[[np.ndarray], np.ndarray]) -> Iterator[int]:
    """The positions of all labels that are wrong. wrong: from some of the labels to bool, [n] to [n]."""
    for start in range(0, len(labels), _PIECE):
        yield from (start + np.flatnonzero(wrong(labels[start : start + _PIECE]))).tolist()


def refuse_missing(labels: np.ndarray, *, where: str) -> None:
    """Refuse missing labels, by index. Raises DataError."""
    if missing := records(positions(labels, lambda batch: batch == MISSING)):
        raise DataError(
            f'{where}: no label was found for {missing}: it is negative or empty. Add it, or set missing_label = "drop"'
        )


def wrong_with(names: Sequence[object]) -> str:
    """Why these cannot be the names of classes; empty where they can. They become names of folders that are read back."""
    for name in names:
        if not isinstance(name, str) or not name.isprintable() or not name.strip():
            return "each must be a line of text in quotes"
        if name != name.strip() or name.startswith(".") or "/" in name or "\\" in name or len(name) > LONGEST:
            return f"each becomes the name of a folder: no slash, no dot at the front, no space around it, {LONGEST} letters"
    if len({_same(str(name)) for name in names}) < len(names):
        return "no two may be the same"
    if names and set(names) <= {"train", "test"}:
        return "folders called train and test are splits and no classes: call one of them something else"
    return ""


def match_labels(labels: np.ndarray, source_names: Sequence[str], declared: Sequence[str], *, where: str) -> np.ndarray:
    """Renumber labels from the class names of a source to the declared names. Each record keeps the name of its class.

    A declared class without a record keeps its number. A name of the source without a record changes nothing. labels: int64
    [N], positions in `source_names`.

    Raises:
        DataError: records of a class that has no name, or of one that is not declared.
    """
    if beyond := records(positions(labels, lambda batch: batch >= len(source_names))):
        raise DataError(
            f"{where}: the file names {len(source_names)} classes, labels from 0. A larger label was found for {beyond}"
        )
    position = {_same(name): number for number, name in enumerate(declared)}
    number = np.array([position.get(_same(name), -1) for name in source_names], np.int64)
    if unknown := records(positions(labels, lambda batch: number[batch] < 0)):
        raise DataError(
            f"{where}: the card does not name the class of {unknown}. It names {listed(declared)}. Rename that class, take its "
            "records out, or name it in class_names in the card, where it is public."
        )
    return labels if np.array_equal(number, np.arange(len(number))) else np.asarray(number[labels])


def listed(names: Sequence[str]) -> str:
    """Names in a sentence; of many, the first dozen."""
    return ", ".join(names[:12]) + (f" and {len(names) - 12:,} more" if len(names) > 12 else "")


def _same(name: str) -> str:
    """How an accent is composed does not count: file systems differ in it."""
    return unicodedata.normalize("NFC", name)
