"""WebDataset: .tar files whose members, in a row, share a name up to the first dot: 0017.png, 0017.cls."""

import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from gossamer.data.labels import NONE
from gossamer.data.readers.decode_workers import Source
from gossamer.data.readers.image_files import SUFFIXES, Decoder, stacked
from gossamer.errors import DataError

LARGEST = 1 << 28
"""Bytes of a member."""

_CLASS = "cls"


def read(
    paths: Sequence[Path], others: Sequence[Path], decoder: Decoder, *, images_key: str | None, labels_key: str | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pictures and labels of the tars of a split, in order, and the labels of the other split.

    Args:
        paths: uncompressed tars.
        others: those of the other split.
        decoder: what reads a picture.
        images_key: the ending of pictures, such as "left.png". None: the only ending of a record that is a picture's.
        labels_key: the ending of labels, text of a number or a name. None: "cls". "none": there are no labels.

    Returns:
        Images uint8 [N, C, H, W], labels as text [N], and labels of the other split as text.

    Raises:
        DataError: no pictures, a record without picture or label, or a damaged file.
    """
    labels: list[str] = []

    def pictures() -> Iterator[Source]:
        for path in paths:
            for name, (picture, label) in _records(path, images_key, labels_key):
                labels.append(sys.intern(label))  # one text for a class
                yield f"{path}, member {name}", picture

    images = stacked(pictures(), decoder, where=str(paths[0]))
    beyond = [label for path in others for _, (_, label) in _records(path, images_key, labels_key)]
    return images, np.array(labels, np.str_), np.array(beyond, np.str_)


def _records(path: Path, images_key: str | None, labels_key: str | None) -> Iterator[tuple[str, tuple[bytes, str]]]:
    """Name, picture and label of each record; at least one."""
    images_key, labels_key = (None if key is None else key.removeprefix(".") for key in (images_key, labels_key))
    name, members, any_found = "", dict[str, bytes](), False
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                tar.members.clear()  # type: ignore[attr-defined]  # not in typeshed; else it remembers all that it has passed
                whole = PurePosixPath(member.name)
                if member.isdir() or whole.name.startswith("."):
                    continue
                if not member.isreg() or member.issparse() or member.size > LARGEST:
                    raise DataError(
                        f"{path}, member {_shown(whole)}: only plain files of at most {LARGEST >> 20} MiB are read"
                    )
                stem, _, ending = whole.name.partition(".")
                own = str(whole.parent / stem)
                if own != name and members:
                    any_found = True
                    yield _shown(name), _record(members, images_key, labels_key, f"{path}, record {_shown(name)}")
                if own != name:
                    name, members = own, {}
                ending = ending.lower()
                if ending in ((images_key or "").lower(), (labels_key or _CLASS).lower()) or _is_picture(ending):
                    file = tar.extractfile(member)
                    members[ending] = b"" if file is None else file.read()
    except DataError:
        raise
    except Exception as error:  # what tarfile raises on damaged files is open-ended
        raise DataError(
            f"{path}: this is not a sound, uncompressed tar ({type(error).__name__}): copy or write it again"
        ) from None
    if members:
        any_found = True
        yield _shown(name), _record(members, images_key, labels_key, f"{path}, record {_shown(name)}")
    if not any_found:
        raise DataError(f"{path}: the tar holds no pictures: a record is NAME.png (or another picture) and NAME.cls")


def _record(members: dict[str, bytes], images_key: str | None, labels_key: str | None, where: str) -> tuple[bytes, str]:
    """The picture and the label of a record."""
    endings = [images_key.lower()] if images_key else [ending for ending in members if _is_picture(ending)]
    if len(endings) != 1:
        several = (
            "several pictures: choose their ending with --images-key" if endings else "no picture: add or remove it"
        )
        raise DataError(f"{where}: the record has {several}")
    ending = (labels_key or _CLASS).lower()
    if endings[0] not in members or (labels_key != NONE and ending not in members):
        raise DataError(
            f"{where}: the record lacks .{endings[0] if endings[0] not in members else ending}: every record has a picture "
            f"and a label (--images-key and --labels-key name their endings; --labels-key {NONE}: there are no labels)"
        )
    try:
        label = "0" if labels_key == NONE else members[ending].decode()
    except UnicodeDecodeError:
        raise DataError(f"{where}: the label is not text in UTF-8: write it as a number or a name") from None
    return members[endings[0]], label


def _is_picture(ending: str) -> bool:
    """Whether an ending, perhaps with several dots, is a picture's. DICOM is read from files of its own only."""
    last = f".{ending.rpartition('.')[2]}"
    return last in SUFFIXES and last != ".dcm"


def _shown(name: object) -> str:
    """A name on one line of a message."""
    return repr(str(name))
