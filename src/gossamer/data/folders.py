"""A folder of class folders of PNG or JPEG files."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from gossamer.data.images import resize
from gossamer.errors import DataError

_SUFFIXES = (".png", ".jpg", ".jpeg")
_SPLITS = ("train", "test")


def read_folder(
    folder: Path, split: str, *, must_split: bool, shape: tuple[int, ...] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 [N, C, H, W] and labels int64 [N].

    The names of the class folders, sorted, give the labels from 0 (names that are numbers are sorted as numbers; an
    empty class folder still counts). Where the folder holds nothing but `train` and `test`, the classes are those of
    both, and one split is read.

    Args:
        folder: the folder.
        split: which split to read, where there are splits.
        must_split: whether to refuse a folder without splits.
        shape: each picture is resized to it as it is read. None: all must have one size.

    Raises:
        DataError: no class folders, a file that is not a picture, or pictures that differ in size or colour.
    """
    splits = _split_folders(folder)
    if must_split and split not in splits:
        raise DataError(f"{folder}: there is no subfolder {split}: leave the split out, or make the subfolder")
    roots = list(splits.values()) or [folder]
    names = sorted({path.name for root in roots for path in _subfolders(root)}, key=_by_number(roots))
    chosen = splits.get(split) if splits else folder
    if chosen is None or not names:
        raise DataError(
            f"{folder}: no {'subfolder ' + split if splits else 'class folders'}: put the pictures of each class "
            "into a folder of their own, optionally below train and test"
        )
    files = [(path, label) for label, name in enumerate(names) for path in _pictures(chosen / name)]
    if not files:
        raise DataError(f"{chosen}: the class folders hold no {', '.join(_SUFFIXES)} files")
    return _load([path for path, _ in files], shape), np.array([label for _, label in files], np.int64)


def _split_folders(folder: Path) -> dict[str, Path]:
    """The split folders by name; empty where the subfolders are classes."""
    found = {path.name: path for path in _subfolders(folder)}
    return found if found and set(found) <= set(_SPLITS) else {}


def _subfolders(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]


def _by_number(roots: Sequence[Path]) -> type[int] | None:
    """The sort key of the class names: int where all are decimal numbers, so that 10 comes after 9."""
    names = [path.name for root in roots for path in _subfolders(root)]
    return int if all(name.isascii() and name.isdigit() for name in names) else None


def _pictures(folder: Path) -> list[Path]:
    """The files of one class, sorted. Hidden files are the file system's own and are passed over."""
    if not folder.is_dir():
        return []
    files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    for path in files:
        if path.suffix.lower() not in _SUFFIXES or not path.is_file():
            raise DataError(f"{path}: a class folder holds {', '.join(_SUFFIXES)} files and nothing else: move it away")
    return files


def _load(paths: Sequence[Path], shape: tuple[int, ...] | None) -> np.ndarray:
    """Read and, with a shape, resize each picture. [N, C, H, W]"""
    first = _pixels(paths[0], shape)
    images = np.empty((len(paths), *first.shape), np.uint8)
    for path, image in zip(paths, images, strict=True):
        pixels = _pixels(path, shape)
        if pixels.shape != first.shape:
            raise DataError(
                f"{path}: the picture differs from {paths[0]} in size or colour: convert all to one mode, and give a "
                "card, to whose shape they are resized"
            )
        image[:] = pixels
    return images


def _pixels(path: Path, shape: tuple[int, ...] | None) -> np.ndarray:
    """One picture as uint8 [C, H, W]."""
    try:
        with Image.open(path) as picture:
            grey = picture.mode in ("1", "L")
            if not grey and picture.mode not in ("RGB", "P"):
                raise DataError(
                    f"{path}: pictures of mode {picture.mode} are not read: convert it to 8-bit grey or RGB"
                )
            array = np.asarray(picture.convert("L" if grey else "RGB"))
    except DataError:
        raise
    except Exception as error:  # what Pillow's decoders raise on damaged files is open-ended
        raise DataError(f"{path}: the picture cannot be read ({type(error).__name__}): mend or remove it") from None
    image = array[None] if grey else array.transpose(2, 0, 1)
    return image if shape is None else resize(image[None], shape, where=str(path))[0]
