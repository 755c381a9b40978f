"""DATA, as the command line takes it, to records."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np

from gossamer.data import memory_mapped
from gossamer.data.labels import MISSING, NONE, as_labels, match_labels, positions, refuse_missing
from gossamer.data.pixels.to_uint8 import as_images
from gossamer.data.problems import FORMS, no_pictures
from gossamer.data.records import Records
from gossamer.data.source import AS_STORED, Data, Reading, Source, Split, called, is_place, source_of, split_of
from gossamer.data.sources.pictures import idx, npz, parquet_csv, shards, webdataset
from gossamer.data.sources.pictures.image_files import SUFFIXES, Decoder, Sizer, range_of, read_files
from gossamer.data.sources.pictures.in_memory import stored_in_memory
from gossamer.data.sources.pictures.picture_folders import (
    FOR_FOLDERS,
    SPLITS,
    Listing,
    has_list,
    list_pictures,
    owners_of,
)
from gossamer.data.sources.pictures.stored import Stored
from gossamer.data.sources.unit_ids import unit_ids
from gossamer.data.synthetic.digits import digits
from gossamer.data.synthetic.glyphs import glyphs
from gossamer.data.units import Units, from_array, matched
from gossamer.errors import DataError
from gossamer.events import Sink, silent

EMBEDDED = ("digits", "glyphs")
DIGITS = tuple("0123456789")
"""What the classes of embedded data are called."""
CLASS_NAMES = "class_names"
"""The key of an .npz for the names of its labels, label 0 first: text [classes]."""

LEFT_OUT = "Records without a label were left out, as the card says."

IN_PIECES = (".parquet", ".arrow", ".tar")
_FOR_ARRAYS = "FILE.npz:KEY, matched by position, or :KEY in the .npz, folder of .npy or .parquet that is read"


@dataclass(frozen=True)
class Asked:
    """What is asked of a source, whatever form it has.

    Args:
        source: its keys count here.
        name: its place without a split.
        split: the one to read.
        must_split: whether `source` names the split, so that there has to be one.
        decoder: brings pictures to the form of the card.
        sink: takes the progress of reading.
    """

    source: Source
    name: str
    split: Split
    must_split: bool
    decoder: Decoder
    sink: Sink

    @classmethod
    def of(cls, source: Source, where: str, split: Split, decoder: Decoder, sink: Sink) -> Self:
        """Split the name of a source from what it is called."""
        name, named = split_of(where)
        return cls(source, name, named or split, named is not None, decoder, sink)


@dataclass(frozen=True)
class Found:
    """What is at a place. Nothing of it is opened yet.

    Args:
        read: brings images and labels as they are stored. Raises DataError.
        listing: of pictures in folders; None: they are elsewhere.
        has_test: whether there is a split `test`, besides the one that is read.
        has_keys: whether `images_key` or `labels_key` name something of it.
        are_files: whether the pictures are files, of which each has a size of its own.
    """

    read: Callable[[], Stored]
    listing: Listing | None = None
    has_test: bool = False
    has_keys: bool = True
    are_files: bool = False


def read(
    source: Data, how: Reading = AS_STORED, *, split: Split = "train", called: str = "data", sink: Sink = silent
) -> Records:
    """Read records.

    Args:
        source: a path, `digits` or `glyphs`, records in memory, or a `Source`, which says what to read of them.
        how: a card's `reading`. Default: as the records are stored.
        split: the split to read where the source has several and names none. A source without splits is read whole, unless
            its name ends in a split.
        called: what messages call records in memory, for example "train".
        sink: takes the progress of reading picture files, in per cent.

    Raises:
        DataError: anything that cannot be read as records; names the file and the index, never a value. Or a full disk.
    """
    source = source_of(source)
    where = str(source.records) if is_place(source) else called
    decoder = Decoder(replace(how, invert=how.invert and split_of(where)[0] not in EMBEDDED))
    query = Asked.of(source, where, split, decoder, sink)
    with reachable(query.name):
        found = find(query)
        keys = {"`images_key`": source.images_key, "`labels_key`": source.labels_key}
        flags = " and ".join(flag for flag, key in keys.items() if key is not None)
        if flags and not found.has_keys:
            raise DataError(f"{where}: {flags} names an array, a column or an ending, and here are none. Leave it out")
        stored = found.read()
    pixels = as_images(stored.images, where=where, notes=decoder.notes, pixel_range=how.pixel_range)
    labels, label_names = as_labels(
        stored.labels, count=len(pixels), where=where, others=stored.others, declared=how.class_names
    )
    if how.missing_label == "refuse":
        refuse_missing(labels, where=where)
    if not stored.formed:
        pixels = decoder.formed(pixels)
    decoder.notes.update(memory_mapped.remarks(pixels))
    units = source.ids
    owners = None if units is None else _units(units, query, found, stored, len(pixels))
    numbers, names = (None, None) if owners is None else (owners.numbers, owners.names)
    declared = tuple(how.class_names) or stored.class_names or label_names
    records = Records(pixels, labels, numbers, names, declared, tuple(sorted(decoder.notes)))
    if next(positions(labels, lambda batch: batch == MISSING), None) is not None:
        records = _labelled(records, where)
    if source_names := label_names or stored.class_names:  # a missing label would be the last name's
        return replace(records, labels=match_labels(records.labels, source_names, declared, where=where))
    return records


def _labelled(records: Records, source: str) -> Records:
    """The records that have a label, and their units."""
    positions = np.flatnonzero(records.labels != MISSING)
    if not len(positions):
        raise DataError(f"{source}: no record has a label: say `labels_key={NONE}` where there are none")
    labelled = records[positions]
    notes = tuple(sorted({*records.notes, *memory_mapped.remarks(labelled.images), LEFT_OUT}))
    if labelled.units is None:
        return replace(labelled, notes=notes)
    there, units = np.unique(labelled.units, return_inverse=True)
    names = None if labelled.names is None else labelled.names[there]
    return replace(labelled, units=units.astype(np.int64), names=names, notes=notes)


def sizes(source: Data, how: Reading = AS_STORED, *, sink: Sink = silent) -> tuple[Sizer, Listing | None]:
    """The sizes of the pictures of a source, by their heads, and the list of a folder's pictures. Arrays have neither.

    Arguments and errors: as of `read`.
    """
    source = source_of(source)
    sizer = Sizer(replace(how, unit_folders=True))
    query = Asked.of(source, called(source, "data"), "train", sizer, sink)
    with reachable(query.name):
        found = find(query)
        if found.are_files:
            found.read()
    return sizer, found.listing


def read_some(source: Source, how: Reading, per_class: int, classes: int) -> tuple[Records, list[int]]:
    """The first records of the first classes, and the number of records of each class. Of files, no others are decoded.

    Args:
        source: a place. Its split train is meant.
        how: a card's `reading`.
        per_class: records of a class.
        classes: that records are read of.

    Raises:
        DataError: as `read`.
    """
    query = Asked.of(source, called(source, "data"), "train", Decoder(how), silent)
    with reachable(query.name):
        listing = find(query).listing
    if listing is None:
        every = read(source, how)
        first = _first(every.labels, per_class, classes)
        return every[first], np.bincount(every.labels).tolist()
    names = listing.class_names or tuple(how.class_names)
    labels = match_labels(listing.labels, names, tuple(how.class_names), where=query.name) if names else listing.labels
    first = _first(labels, per_class, classes)
    images = read_files([listing.paths[at] for at in first], query.decoder)
    counts = np.bincount(labels[labels >= 0], minlength=len(how.class_names))
    return Records(images, labels[first], class_names=tuple(how.class_names)), counts.tolist()


def _first(labels: np.ndarray, per_class: int, classes: int) -> np.ndarray:
    """The positions of the first records of the first classes."""
    return np.concatenate([np.flatnonzero(labels == label)[:per_class] for label in range(classes)])


def deep_range(source: Source) -> tuple[float, float, bool] | None:
    """See `kinds.kind.Kind.deep_range`. Arrays have a range of their own. Raises DataError."""
    query = Asked.of(source, called(source, "data"), "train", Decoder(Reading(unit_folders=True)), silent)
    with reachable(query.name):
        listing = find(query).listing
        return None if listing is None else range_of(listing.paths[0])


@contextmanager
def reachable(name: str) -> Iterator[None]:
    """Make a DataError of what a file or a folder raises that cannot be opened."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{name}: the data cannot be read ({error.strerror or error})") from None


def find(query: Asked) -> Found:
    """What is at a place or in memory, in any of its forms. Raises DataError, OSError."""
    path, name, suffix = Path(query.name), query.name, Path(query.name).suffix.lower()
    if not is_place(query.source):
        return Found(partial(stored_in_memory, query.source, query.decoder, where=name), are_files=True)
    if not name:
        raise DataError(f"DATA is empty. Give {FORMS}.")
    if name in EMBEDDED:
        return Found(partial(_embedded, name, query.split), has_test=True, has_keys=False)
    if not path.exists():
        raise DataError(f"{name}: there is no such file or folder. Give {FORMS}.")
    if idx.is_idx_folder(path):
        has_test = idx.has_split(path, "test")
        return Found(lambda: Stored(*idx.read_folder(path, query.split)), has_test=has_test, has_keys=False)
    if npz.is_arrays(path):
        both = {f"{side}_{query.source.images_key or 'images'}" for side in SPLITS}
        return Found(partial(_npz_arrays, path, query), has_test=both <= {*npz.keys(path)})
    if path.is_dir():
        return _of_folder(path, query)
    if suffix in (*IN_PIECES, parquet_csv.SAMPLES):
        return Found(partial(_of_shards, suffix, [path], [], query), are_files=suffix != parquet_csv.SAMPLES)
    if suffix in SUFFIXES or "-idx" in path.name:
        kind, folder = ("picture", "the class folders") if suffix in SUFFIXES else ("idx file", "images and labels")
        raise DataError(f"{name}: this is a single {kind}: give the folder that holds {folder}")
    raise no_pictures(path)


def _embedded(name: str, split: Split) -> Stored:
    records = digits(split) if name == "digits" else glyphs(split)
    return Stored(records.images, records.labels, class_names=DIGITS)


def _of_folder(path: Path, query: Asked) -> Found:
    """A folder of pieces or of pictures."""
    split, must_split, labels_key = query.split, query.must_split, query.source.labels_key
    pieces = shards.endings(path, IN_PIECES)
    if len(pieces) > 1:
        raise DataError(f"{path}: the folder holds both {pieces[0]} and {pieces[1]} files: name the ones you mean")
    if pieces:
        if beside := shards.other_folders(path):
            raise DataError(
                f"{path}: it holds {pieces[0]} files beside the folder {beside[0]}: name the file, or move one away"
            )
        paths, others = shards.of_split(path, pieces[0], split, must_split=must_split)
        return Found(partial(_of_shards, pieces[0], paths, others, query), has_test=bool(others), are_files=True)
    has_keys = labels_key == NONE or has_list(path)
    listing = list_pictures(
        path,
        split,
        must_split=must_split,
        labels_key=labels_key,
        unit_folders=query.decoder.how.unit_folders or matched(query.source.units) == "folder",
        declared=query.decoder.how.class_names,
    )
    return Found(
        partial(_of_files, listing, query), listing, has_test=bool(listing.others), has_keys=has_keys, are_files=True
    )


def _of_files(listing: Listing, query: Asked) -> Stored:
    images = read_files(listing.paths, query.decoder, query.sink)
    return Stored(images, listing.labels, class_names=listing.class_names, formed=True)


def _of_shards(suffix: str, paths: list[Path], others: list[Path], query: Asked) -> Stored:
    """.parquet, .arrow or .tar files of one split."""
    keys = {"images_key": query.source.images_key, "labels_key": query.source.labels_key}
    if suffix == ".tar":
        return webdataset.read(paths, others, query.decoder, **keys)
    return replace(parquet_csv.read(paths, others, query.decoder, **keys), tables=paths)


def _npz_arrays(path: Path, query: Asked) -> Stored:
    """The split's arrays, else the whole file's. A given key is sought with the split before it, then alone."""
    there, images_key, key = npz.keys(path), query.source.images_key or "images", query.source.labels_key
    found = npz.first_of(path, f"{query.split}_{images_key}", *([] if query.must_split else [images_key]))
    prefix = found.removesuffix(images_key)
    images = npz.member(path, found)
    if key == NONE:
        return Stored(images, np.zeros(len(images) if images.ndim else 0, np.int64))
    labels = npz.member(path, npz.first_of(path, prefix + (key or "labels"), *([key] if key else [])))
    names = npz.names(path, CLASS_NAMES) if CLASS_NAMES in there and key is None else ()
    other = f"{'test' if query.split == 'train' else 'train'}_{key or 'labels'}"
    beyond = npz.member(path, other) if prefix and other in there else None
    return Stored(images, labels, others=beyond, class_names=names)


def _units(spec: Any, query: Asked, found: Found, stored: Stored, count: int) -> Units:
    """The units of the records that were read. Pictures are matched by name or folder, arrays by position."""
    name, missing = query.name, query.decoder.how.missing_unit
    if found.listing is not None:
        return owners_of(found.listing, spec, missing)
    if not isinstance(spec, str):
        return from_array(unit_ids(spec, "units"), count, missing, where="units")
    if matched(spec) != "position":
        raise DataError(f"{spec}: this form of `units` is for pictures in folders. Give {_FOR_ARRAYS}.")
    if spec.startswith(":") and stored.tables:
        ids = parquet_csv.column_of(stored.tables, spec[1:])
        return from_array(ids, count, missing, where=f"{name}{spec}")
    file, colon, key = spec.rpartition(":")
    if not file and colon and npz.is_arrays(Path(name)):
        file = name
    if not file or not key or not Path(file).exists():
        raise DataError(f"{spec}: there is no such file or key: give {_FOR_ARRAYS}; in class folders {FOR_FOLDERS}")
    of_data = npz.is_arrays(Path(name)) and Path(file).samefile(name)
    of_split = f"{query.split}_{key}"
    key = npz.first_of(Path(file), *([of_split, key] if of_data else [key, of_split]))
    where = f"{file}:{key}"
    return from_array(unit_ids(npz.member(Path(file), key), where), count, missing, where=where)


def check_two_arrays(units: str, sources: Sequence[tuple[str, Split]]) -> None:
    """Refuse one array of ids for several sets of records, each given with its default split. Raises DataError.

    The unit of a record follows from its position in its own set.
    """
    file, _, key = units.rpartition(":")
    if matched(units) != "position" or not file or not Path(file).is_file():
        return
    wanted = {f"{split_of(source)[1] or split}_{key}" for source, split in sources}
    if len(wanted) < len(sources) or not wanted <= {*npz.keys(Path(file))}:
        raise DataError(
            f"{units}: one array cannot have the ids of members and of non-members. Put two into the file, train_{key} for "
            f"`members` and test_{key} for `nonmembers`. Or give `units` :{key} if both sets have an array of that name."
        )
