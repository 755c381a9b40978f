"""WebDataset: .tar files whose members, in a row, share a name up to the first dot: 0017.png, 0017.cls."""

import itertools
import json
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from gossamer.data.labels import NONE, label_text
from gossamer.data.problems import Problems, sound
from gossamer.data.sources.pictures.decode_workers import Source
from gossamer.data.sources.pictures.image_files import SUFFIXES, Decoder, stacked
from gossamer.data.sources.pictures.stored import Stored
from gossamer.errors import DataError

LARGEST = 1 << 28
"""Bytes of a member."""

_CLASS, _JSON = "cls", "json"


def read(
    paths: Sequence[Path], others: Sequence[Path], decoder: Decoder, *, images_key: str | None, labels_key: str | None
) -> Stored:
    """Pictures and labels, as text, of the tars of a split, in order.

    Args:
        paths: uncompressed tars.
        others: those of the other split.
        decoder: decodes the pictures.
        images_key: the ending of pictures, such as "left.png". None: the only ending of a record that is a picture's.
        labels_key: the ending of labels, text of a number or a name. Of "json", the field `label` is the label. None: "cls".
            "none": there are no labels.

    Raises:
        DataError: no pictures, records without picture or label, or damaged files.
    """
    pictures_end = (images_key or "").removeprefix(".").lower()
    labels_end = None if labels_key == NONE else (labels_key or _CLASS).removeprefix(".").lower()
    labels: list[str] = []

    def pictures() -> Iterator[Source]:
        for where, picture, label in _records(paths, pictures_end, labels_end):
            labels.append(sys.intern(label))  # one text for a class
            yield where, picture

    images = stacked(pictures(), decoder, where=str(paths[0]))
    beyond, problems = list[str](), Problems()
    for where, picture, label in _records(others, pictures_end, labels_end):
        beyond.append(label)
        if isinstance(picture, DataError):
            problems.add(where, picture)
    problems.refuse()
    return Stored(images, np.array(labels, np.str_), others=np.array(beyond, np.str_), formed=True)


def _records(
    paths: Sequence[Path], pictures_end: str, labels_end: str | None
) -> Iterator[tuple[str, bytes | DataError, str]]:
    """Place, picture and label of each record; of a record or a file that is not read, the error in place of a picture."""
    for path in paths:
        any_found = False
        try:
            for name, group in itertools.groupby(_members(path, {pictures_end, labels_end}), key=lambda each: each[0]):
                members = {ending: raw for _, ending, raw in group if raw is not None}
                if members:
                    any_found = True
                    yield f"{path}, record {name!r}", *_record(members, pictures_end, labels_end)
            if not any_found:
                raise DataError(f"{path}: the tar holds no pictures: a record is NAME.png and NAME.cls")
        except DataError as error:
            yield str(path), error, ""


def _members(path: Path, endings: set[str | None]) -> Iterator[tuple[str, str, bytes | None]]:
    """Name up to the first dot, ending and bytes of each member; no bytes if it is neither a picture nor of `endings`."""
    with sound(path, "this is not a sound, plain tar: write it again"), tarfile.open(path, "r:") as tar:
        for member in tar:
            tar.members.clear()  # type: ignore[attr-defined]  # not in typeshed; else it remembers all that it has passed
            whole = PurePosixPath(member.name)
            if member.isdir() or whole.name.startswith("."):
                continue
            if not member.isreg() or member.issparse() or member.size > LARGEST:
                raise DataError(f"{path}, member {str(whole)!r}: only plain files to {LARGEST >> 20} MiB are read")
            stem, _, ending = whole.name.partition(".")
            wanted = ending.lower() in endings or _is_picture(ending.lower())
            file = tar.extractfile(member) if wanted else None
            yield str(whole.parent / stem), ending.lower(), None if file is None else file.read()


def _record(members: dict[str, bytes], pictures_end: str, labels_end: str | None) -> tuple[bytes | DataError, str]:
    """The picture and the label of a record; or why there is none."""
    endings = [pictures_end] if pictures_end else [ending for ending in members if _is_picture(ending)]
    if len(endings) != 1:
        several = (
            "several pictures: choose their ending with `images_key`" if endings else "no picture: add or remove it"
        )
        return DataError(f"the record has {several}"), ""
    for ending in (endings[0], labels_end):
        if ending is not None and ending not in members:
            keys = f"`images_key` or `labels_key` ({NONE}: there are no labels)"
            return DataError(f"the record lacks .{ending}: add it, or name another ending with {keys}"), ""
    try:
        label = "0" if labels_end is None else members[labels_end].decode()
        return members[endings[0]], label_text(json.loads(label)["label"]) if labels_end == _JSON else label
    except (ValueError, KeyError, TypeError, RecursionError):
        wanted = "a JSON object whose field `label` is a number or a name" if labels_end == _JSON else "text in UTF-8"
        return DataError(f"the label is not {wanted}: correct it"), ""


def _is_picture(ending: str) -> bool:
    """Whether an ending, perhaps with several dots, is a picture's. DICOM is read from files of its own only."""
    last = f".{ending.rpartition('.')[2]}"
    return last in SUFFIXES and last != ".dcm"
