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

_NUMBER = re.compile(r"-?[0-9]{1,18}")


def as_labels(
    array: np.ndarray, *, count: int, where: str, others: np.ndarray | None = None
) -> tuple[np.ndarray, tuple[str, ...]]:
    """As `numbered`, from an array of whole numbers or text, [N]. count: the number of images. others: of the other split.

    A missing label, a negative number or an empty name, becomes -1. Raises DataError: not one number or name per image.
    """
    if array.dtype.kind not in "uiU":
        raise DataError(f"{where}: labels must be whole numbers or names, not {array.dtype}: number the classes from 0")
    if array.shape != (count,):
        raise DataError(
            f"{where}: {count} images need labels of shape [{count}], not {list(array.shape)}: "
            "check that both come from the same split and that neither is cut"
        )
    if array.dtype.kind != "U":
        if array.dtype == np.int64 and next(positions(array, lambda batch: batch < 0), None) is None:
            return array, ()
        labels = np.asarray(array).astype(np.int64)
        return np.maximum(labels, MISSING, out=labels), ()
    beyond = text_of(others, where=where) if others is not None and others.dtype.kind == "U" else []
    return numbered(text_of(array, where=where), beyond, where=where)


def text_of(array: np.ndarray, *, where: str) -> list[str]:
    """The texts of an array of text. Raises DataError: a damaged file holds numbers that are no characters."""
    try:
        return [str(text) for text in array.tolist()]
    except (ValueError, SystemError):  # Python raises either
        raise DataError(f"{where}: an array of text holds what is no text: write the file again") from None


def numbered(names: Sequence[str], others: Sequence[str], *, where: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Labels from text, int64 [N], and the names of the classes, label 0 first. There are no names if labels are numbers.

    Names are numbered in sorted order from 0, with those of `others`, the other split. Space around a name does not count.
    Empty text is a missing label.

    Raises:
        DataError: names and numbers mixed, by index. One record would otherwise decide how all others are read.
    """
    names, others = [name.strip() for name in names], [name.strip() for name in others]
    kinds = [bool(_NUMBER.fullmatch(name)) for name in (*names, *others) if name]
    if all(kinds):
        return np.array([max(int(name), MISSING) if name else MISSING for name in names], np.int64), ()
    if any(kinds):
        odd = next((at for at, name in enumerate(names) if name and bool(_NUMBER.fullmatch(name)) != kinds[0]), None)
        which = "" if odd is None else f" (record {odd}, counted from 0, is the first of another kind)"
        raise DataError(
            f"{where}: some labels are names and some are numbers{which}: use one kind, and leave a missing label empty"
        )
    classes = tuple(sorted({*names, *others} - {""}))
    number = {name: at for at, name in enumerate(classes)}
    return np.array([number.get(name, MISSING) for name in names], np.int64), classes


def positions(labels: np.ndarray, wrong: Callable[[np.ndarray], np.ndarray]) -> Iterator[int]:
    """The positions of all labels that are wrong. wrong: from some of the labels to bool, [n] to [n]."""
    for start in range(0, len(labels), _PIECE):
        yield from (start + np.flatnonzero(wrong(labels[start : start + _PIECE]))).tolist()


def refuse_missing(labels: np.ndarray, *, where: str) -> None:
    """Refuse missing labels, by index. Raises DataError."""
    if missing := records(positions(labels, lambda batch: batch == MISSING)):
        raise DataError(
            f"{where}: no label was found for {missing}: it is negative or empty. Give each a class. To leave them out, write "
            'missing_label = "drop" in the card; declared_size then counts the others.'
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
            f"{where}: the file names {len(source_names)} classes, labels from 0. A larger label was found for {beyond}: name "
            "every class"
        )
    position = {_same(name): number for number, name in enumerate(declared)}
    number = np.array([position.get(_same(name), -1) for name in source_names], np.int64)
    if unknown := records(positions(labels, lambda batch: number[batch] < 0)):
        raise DataError(
            f"{where}: the card does not name the class of {unknown}. It names {listed(declared)}. Rename that class, take its "
            "records out, or name it in class_names in the card, where it is public. Without names, classes are 0, 1 and so on."
        )
    return labels if np.array_equal(number, np.arange(len(number))) else np.asarray(number[labels])


def listed(names: Sequence[str]) -> str:
    """Names in a sentence; of many, the first dozen."""
    return ", ".join(names[:12]) + (f" and {len(names) - 12:,} more" if len(names) > 12 else "")


def _same(name: str) -> str:
    """How an accent is composed does not count: file systems differ in it."""
    return unicodedata.normalize("NFC", name)
