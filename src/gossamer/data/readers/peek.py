"""What lies at a source, by a glance: no picture is opened, and no array."""

from pathlib import Path

from gossamer.data.labels import NONE
from gossamer.data.readers import class_folders, idx, metadata_csv, npz, shards
from gossamer.data.readers.read import EMBEDDED, IN_PIECES, Split, pictures_of, split_of
from gossamer.errors import DataError


def list_class_folders(
    source: str, *, split: Split, labels_key: str | None = None, unit_folders: bool = True
) -> class_folders.Listing | None:
    """The pictures of class folders, none of them opened; None where `read` would take the source for something else.

    Raises:
        DataError: as `read`.
    """
    name, named_split = split_of(source)
    path = Path(name)
    try:
        if name in EMBEDDED or not path.is_dir() or not _has_classes(path, labels_key):
            return None
        return class_folders.list_folder(
            path, named_split or split, must_split=named_split is not None, unit_folders=unit_folders
        )
    except OSError as error:
        raise DataError(f"{name}: the data cannot be read ({error.strerror or error})") from None


def leaves_out(
    source: str,
    *,
    split: Split,
    images_key: str | None = None,
    labels_key: str | None = None,
    unit_folders: bool = False,
) -> bool:
    """Whether a source has records of the other split too, of which nobody spoke: it names no split, and `read` takes one.

    Raises:
        DataError: as `read`.
    """
    name, named_split = split_of(source)
    path, other = Path(name), "test" if split == "train" else "train"
    if named_split is not None:
        return False
    if name in EMBEDDED:
        return True
    if idx.is_idx_folder(path):
        return idx.has_split(path, other)
    if npz.is_arrays(path):
        both = {f"{side}_{images_key or 'images'}" for side in (split, other)}
        return path.exists() and both <= {*npz.keys(path)}
    if not path.is_dir():
        return False
    if pieces := shards.endings(path, IN_PIECES):
        return bool(shards.of_split(path, pieces[0], split, must_split=False).others)
    return bool(pictures_of(path, split, False, labels_key=labels_key, unit_folders=unit_folders).others)


def _has_classes(folder: Path, labels_key: str | None) -> bool:
    """Whether a folder has none of the other forms, so that its subfolders are its classes."""
    in_pieces = bool(shards.endings(folder, IN_PIECES))
    arrays = idx.is_idx_folder(folder) or npz.is_folder(folder)
    return not (arrays or in_pieces or labels_key == NONE or metadata_csv.has_list(folder))
