"""What the classes are called. Names, not positions, say which class a record is of, wherever data have names."""

import unicodedata
from collections.abc import Sequence

import numpy as np

from gossamer.data.labels import positions
from gossamer.data.problems import records
from gossamer.data.records import Labelled
from gossamer.errors import DataError

LONGEST = 100
"""Letters of a name: it becomes the name of a folder, and a word on the grid of samples."""


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


def absent(records: Labelled, where: str) -> list[str]:
    """A note on classes that have a name and no record; empty where there are none."""
    there = set(records.labels.tolist())
    gone = [name for number, name in enumerate(records.class_names) if number not in there]
    if not gone:
        return []
    return [f"{where} holds no record of {len(gone)} of its classes: {listed(gone)}. Each keeps its number."]


def listed(names: Sequence[str]) -> str:
    """Names in a sentence; of many, the first dozen."""
    return ", ".join(names[:12]) + (f" and {len(names) - 12:,} more" if len(names) > 12 else "")


def _same(name: str) -> str:
    """How an accent is composed does not count: file systems differ in it."""
    return unicodedata.normalize("NFC", name)
