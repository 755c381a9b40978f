"""Samples to files: .npz, .csv, .parquet, or a folder of .png, chunk by chunk and all or nothing."""

import shutil
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image

from gossamer.data.records import Labelled
from gossamer.errors import RunFolderError
from gossamer.lazy import Lazy, pa

parquet: Any = Lazy("pyarrow.parquet")

_NUMERALS = [str(value) for value in range(256)]


Form: TypeAlias = tuple[Callable[[Path, Iterator[Any], int], object], Callable[[Any], int]]
"""Writes so many samples, in chunks, to a path; and the bytes that one of a chunk takes there, at least."""


@contextmanager
def new_place(path: Path, *, force: bool) -> Iterator[Path]:
    """A place to write samples to. They appear at `path` when they are whole.

    Raises:
        RunFolderError: something is there already, the place cannot be written, or its disk is too full.
    """
    _refuse_taken(path, force)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as scratch:
            whole = Path(scratch) / "samples"
            yield whole
            if path.is_dir():
                path.rename(Path(scratch) / "replaced")
            whole.replace(path)
    except OSError as error:
        raise RunFolderError(
            f"{path}: the samples cannot be written ({error.strerror or error}): check the folder and the space left"
        ) from None


def with_room(path: Path, chunks: Iterator[Any], count: int, least: Callable[[Any], int]) -> Iterator[Any]:
    """The chunks. Raises RunFolderError at the first one: all of them cannot fit on the disk."""
    first = next(chunks)
    needed, free = count * least(first), shutil.disk_usage(path.parent).free
    if needed > free:
        raise RunFolderError(
            f"{path}: {count:,} samples need {needed / 1e9:,.1f} GB, and there are {free / 1e9:,.1f} GB left: ask for fewer"
        )
    yield first
    del first  # memory holds one chunk
    yield from chunks


def _refuse_taken(path: Path, force: bool) -> None:
    """Refuse to overwrite, unless forced. Even then refuse a folder that holds more than samples."""
    if not path.parent.is_dir():
        raise RunFolderError(f"{path}: the folder {path.parent} is not there: make it first")
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not force:
        raise RunFolderError(
            f"{path}: something is there already: choose another name, or give `force=True` to replace it"
        )
    if path.is_dir() != (path.suffix == ""):
        raise RunFolderError(f"{path}: a file and a folder do not replace each other: choose another name")
    if path.is_dir() and not _holds_samples(path):
        raise RunFolderError(f"{path}: the folder holds more than samples, so it is not replaced: choose another name")


def _holds_samples(path: Path) -> bool:
    """Whether a folder holds class folders of .png with the numbers 0, 1, 2 ... over all of them, and nothing else."""
    folders = list(path.iterdir())
    if not all(entry.is_dir() for entry in folders):
        return False
    files = [file for entry in folders for file in entry.iterdir()]
    if not all(file.suffix == ".png" and file.stem.isascii() and file.stem.isdigit() for file in files):
        return False
    return sorted(int(file.stem) for file in files) == list(range(len(files)))


def _write_npz(path: Path, chunks: Iterator[Labelled], count: int) -> None:
    """Uncompressed members without dates, so that equal samples give equal files."""
    labels: list[np.ndarray] = []
    probabilities: list[np.ndarray] = []
    names: tuple[str, ...] = ()
    with zipfile.ZipFile(path, "w") as archive:
        with archive.open(zipfile.ZipInfo("images.npy"), "w", force_zip64=True) as member:
            for chunk in chunks:
                if not labels:
                    header = {"descr": "|u1", "fortran_order": False, "shape": (count, *chunk.shape)}
                    np.lib.format.write_array_header_1_0(member, header)
                member.write(np.ascontiguousarray(chunk.images).data)
                labels.append(chunk.labels.astype(np.int64))
                names = chunk.class_names
                if getattr(chunk, "probabilities", None) is not None:
                    probabilities.append(chunk.probabilities)  # type: ignore[attr-defined]  # Samples have it
        arrays = {"labels": np.concatenate(labels)}
        arrays |= {"class_names": np.array(names)} if names else {}
        arrays |= {"probabilities": np.concatenate(probabilities)} if probabilities else {}
        for key, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{key}.npy"), "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _write_csv(path: Path, chunks: Iterator[Labelled], _count: int) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        for number, chunk in enumerate(chunks):
            quoted = ['"' + name.replace('"', '""') + '",' for name in chunk.class_names]
            if number == 0:
                first = ["label", *(["class"] if quoted else [])]
                file.write(",".join([*first, *(f"pixel{i}" for i in range(chunk.images[0].size))]) + "\n")
            for image, label in zip(chunk.images, chunk.labels.tolist(), strict=True):
                name = quoted[label] if quoted else ""
                file.write(f"{label},{name}{','.join([_NUMERALS[value] for value in image.tobytes()])}\n")


def _write_parquet(path: Path, chunks: Iterator[Labelled], _count: int) -> None:
    with parquet_file(path) as (pa, write):
        for chunk in chunks:
            pixels = pa.FixedSizeListArray.from_arrays(pa.array(chunk.images.reshape(-1)), chunk.images[0].size)
            class_column = {"class": [chunk.class_names[label] for label in chunk.labels]} if chunk.class_names else {}
            table = pa.table({"label": chunk.labels.astype(np.int64), **class_column, "pixels": pixels})
            write(table.replace_schema_metadata({"shape": ",".join(map(str, chunk.shape))}))


@contextmanager
def parquet_file(path: Path) -> Iterator[tuple[Any, Callable[[Any], None]]]:
    """Give pyarrow, and a function that adds a table of it to a new file."""
    with ExitStack() as stack:
        writers: list[Any] = []

        def write(table: Any) -> None:
            if not writers:
                writers.append(stack.enter_context(parquet.ParquetWriter(path, table.schema)))
            writers[0].write_table(table)

        yield pa, write


def _write_pngs(path: Path, chunks: Iterator[Labelled], count: int) -> None:
    """path/CLASS/NUMBER.png. Classes that do not occur get an empty folder, so that the names still give the labels."""
    digits = len(str(count - 1))
    number = highest = 0
    names: tuple[str, ...] = ()
    for chunk in chunks:
        names = chunk.class_names
        for image, label in zip(chunk.images, chunk.labels.tolist(), strict=True):
            folder = path / (names[label] if names else str(label))
            folder.mkdir(parents=True, exist_ok=True)
            picture = image[0] if len(image) == 1 else image.transpose(1, 2, 0)
            Image.fromarray(np.ascontiguousarray(picture)).save(folder / f"{number:0{digits}d}.png", compress_level=1)
            number, highest = number + 1, max(highest, label)
    for name in names or map(str, range(highest)):
        (path / name).mkdir(exist_ok=True)


PICTURES: dict[str, Form] = {
    ".npz": (_write_npz, lambda chunk: chunk.images[0].size + 8),
    ".csv": (_write_csv, lambda chunk: 2 * chunk.images[0].size + 2),
    ".parquet": (_write_parquet, lambda _: 0),
    "": (_write_pngs, lambda _: 64),
}
"""Forms of pictures.

A .npz has the keys images and labels, uncompressed, class_names if classes have names, and probabilities if the samples have
them. A .csv has the columns label, class and C x H x W pixels. A .parquet has label, class and pixels, and the shape in its
metadata. Without an ending, it is a folder with a folder of .png for each class.
"""
