"""`gossamer split`: split a data set into train and test before a run, so that members and non-members differ in nothing else.

The side of a unit follows from the unit alone, by the keyed hash of a public share with another key. A unit that joins
or leaves the data moves no other, so the guarantee of a run on one side holds for the whole.
"""

import csv
import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from gossamer.data.card import STORED, check_range
from gossamer.data.fingerprint import is_taken
from gossamer.data.problems import Problems
from gossamer.data.records import Records
from gossamer.data.source import Address, Data, Reading, called, is_place, refuse_keys, source_of, split_of
from gossamer.data.sources.names import ONLY_TABLES
from gossamer.data.sources.pictures.image_files import Decoder, counted
from gossamer.data.sources.pictures.picture_folders import LABELS_CSV, SPLITS, Listing, owners_of
from gossamer.data.sources.pictures.read import CLASS_NAMES, Asked, find, reachable, read
from gossamer.data.sources.tables import is_table
from gossamer.data.tables.linked.read import are_linked, places
from gossamer.data.tables.linked.split import split_linked
from gossamer.data.tables.split import split_table
from gossamer.data.units import Missing, matched
from gossamer.errors import DataError, RequestError, RunFolderError
from gossamer.events import Sink, silent
from gossamer.files import at_home

UNIT_KEY, UNITS_FILE = "unit", "units.csv"
"""The key of the units' ids in an .npz, and their file in a folder."""
Deal = Callable[[str, bytes], bool]
"""Whether a record goes to test, by the id of its unit, or if that is "" by its pixels."""


@dataclass(frozen=True)
class SplitResult:
    """What `split` wrote.

    Args:
        records: how many are in train, and in test.
        units: how many units they belong to.
        spec: --units for the new place; empty: there are no units.
        notes: what was converted on the way into an .npz, in words; and whether a split of DATA was left out.
    """

    records: tuple[int, int]
    units: tuple[int, int]
    spec: str
    notes: tuple[str, ...] = ()


def split(
    data: Data,
    *,
    out: str | Path,
    share: float = 0.2,
    seed: int = 0,
    missing_unit: Missing = "refuse",
    pixel_range: tuple[float, float] | None = None,
    window: bool = False,
    header: bool | None = None,
    sink: Sink = silent,
) -> SplitResult:
    """Split DATA into train and test at random, whole units on either side; pictures and values are left as they are.

    Args:
        data: DATA. Of its own splits, if it has any, one is read (default: train).
        out: a new folder for pictures in folders and for tables, else a new .npz file. It gets both splits.
        share: expected share of test, between 0 and 1.
        seed: number that fixes the split. Another seed gives another split.
        missing_unit: a record without an id: `refuse` it as a mistake, or `own`: it is a unit of its own.
        pixel_range: see `data.source.Reading`.
        window: see `data.source.Reading`.
        header: see `kinds.draft.draft_text`.
        sink: takes the progress of reading pictures without ids.

    Raises:
        RequestError: a wrong share, a side without records, or a name that does not fit.
        RunFolderError: something is there already, or it cannot be written.
    """
    source = source_of(data)
    name, units, out, linked = called(data, "data"), source.units, at_home(out), are_linked(data)
    table = linked or is_table(data)
    if not 0 < share < 1:
        raise RequestError(f"`share` must lie between 0 and 1, not {share:g}: with 0.2, a fifth goes to test.")
    if Address.of(source.records):
        raise RequestError(
            "`split`: the rows stay in the database. Name parts in the address: ?part=0-0.8&by=COLUMN&table=NAME to train, "
            "and part=0.8-1 to test."
        )
    if out.exists() or out.is_symlink():
        raise RunFolderError(f"{out}: something is there already, and a split replaces nothing. Choose another name.")
    salt, pictures, leaves_out = f"gossamer split {seed}", None, False
    if table:
        refuse_keys(source)
        if (pixel_range, window) != (None, False):
            raise RequestError("a table has no `pixel_range` and no `window`. Leave these out.")
        if not isinstance(units, str | None):
            raise RequestError("`units` of a table name its column with the id of each row. Put the ids there.")
    else:
        if header is not None:
            raise RequestError(ONLY_TABLES)
        if is_place(data) and Path(split_of(name)[0]).resolve() in out.resolve().parents:
            raise RequestError(f"{out} lies in {name}, whose folders are classes or splits. Choose a place beside it.")
        check_range(pixel_range or STORED)
        pictures, leaves_out = contents(source)
        if (pictures is None) != (out.suffix == ".npz"):
            kind = "a new .npz file" if pictures is None else "a new folder, for pictures in folders"
            raise RequestError(f"{out}: the split of {name} goes into {kind}. Choose another name.")
    deal = partial(is_taken, share=share, salt=salt)
    how = Reading(missing_unit=missing_unit, pixel_range=pixel_range, window=window)
    try:
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
            whole = Path(scratch) / f"whole{'' if table else out.suffix}"
            if table:
                if linked:
                    names, test = split_linked(places(data) or {}, units, whole, share, salt, header=header)
                else:
                    names, test = split_table(source, name, whole, share, salt, missing_unit, header=header)
                result = _counted(names, test, "" if linked else units or "")
            elif pictures is None:
                result = _arrays(read(source, how, sink=sink), deal, whole)
            else:
                result = _pictures(pictures, units, deal, whole, Decoder(how), sink)
            whole.rename(out)
    except OSError as error:
        raise RunFolderError(f"{out}: the split cannot be written ({error.strerror or error}).") from None
    if leaves_out:
        left_out = (
            f"{name} has a split test already, which is left out. Say {name}:train if that is meant, or use {name} as it "
            "is: `gossamer.fit` and `gossamer.attack` take its two splits."
        )
        return replace(result, notes=(*result.notes, left_out))
    return result


def contents(data: Data) -> tuple[Listing | None, bool]:
    """The pictures of a folder, None of another form; and whether DATA, without a named split, has a split test too.

    No picture and no array is opened. Raises DataError: as `read`.
    """
    source = source_of(data)
    query = Asked.of(source, called(source, "data"), "train", Decoder(), silent)
    with reachable(query.name):
        found = find(query)
    return found.listing, found.has_test and not query.must_split


def _arrays(records: Records, deal: Deal, path: Path) -> SplitResult:
    """One .npz with the keys of two splits."""
    ids = None if records.units is None or records.names is None else records.names[records.units]
    names = [""] * len(records) if ids is None else ids.tolist()
    test = np.array([deal(name, image.tobytes()) for name, image in zip(names, records.images, strict=True)], bool)
    arrays: dict[str, np.ndarray] = {CLASS_NAMES: np.array(records.class_names)} if records.class_names else {}
    for side, mask in zip(SPLITS, (~test, test), strict=True):
        arrays |= {f"{side}_images": records.images[mask], f"{side}_labels": records.labels[mask]}
        if records.units is not None:
            arrays[f"{side}_{UNIT_KEY}"] = np.array(names)[mask]
    result = _counted(names, test, "" if records.units is None else f":{UNIT_KEY}")
    np.savez(path, **arrays)  # type: ignore[arg-type]  # numpy's stubs take the arrays for its flag
    path.chmod(0o600)
    return replace(result, notes=records.notes)


def _pictures(listing: Listing, units: str | None, deal: Deal, path: Path, decoder: Decoder, sink: Sink) -> SplitResult:
    """Copies of the pictures below train and test, readable by the owner.

    If a CSV gave the units, one for the new places; if a list gave the labels, one on each side.
    """
    owners = None if units is None else owners_of(listing, units, decoder.how.missing_unit)
    names = [""] * len(listing.paths) if owners is None else owners.names[owners.numbers].tolist()
    test, problems = np.zeros(len(names), bool), Problems()
    nameless = [source for source, name in zip(listing.paths, names, strict=True) if not name]
    sources = ((str(source), source) for source in nameless)
    found = decoder.read_all(counted(sources, len(nameless), decoder.doing, sink))
    for at, (source, name) in enumerate(zip(listing.paths, names, strict=True)):
        image = b"" if name else next(found)[1]  # no pixel counts beside an id, so none is decoded
        if isinstance(image, DataError):
            problems.add(source, image)
        else:
            test[at] = deal(name, bytes(image))
    problems.refuse()
    how = matched(units)
    result = _counted(names, test, UNITS_FILE if how == "name" else units or "")
    below = len(listing.root.parts)
    below_side = [Path(*source.parts[below:]) for source in listing.paths]
    places = [Path(SPLITS[int(side)], place) for side, place in zip(test, below_side, strict=True)]
    path.mkdir(mode=0o700)
    for side in SPLITS:
        for name in ("", *(() if listing.by_list else listing.class_names)):  # an empty class is one all the same
            (path / side / name).mkdir()
    for source, place in zip(listing.paths, places, strict=True):
        (path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, path / place)
    if how == "name":
        _write(path / UNITS_FILE, "name", "unit", zip(places, names, strict=True))
    if listing.by_list:
        words = dict(enumerate(listing.class_names or range(listing.labels.max() + 1)))
        rows = [*zip(below_side, (words.get(label, "") for label in listing.labels), strict=True)]  # "": it is missing
        for number, side in enumerate(SPLITS):
            _write(path / side / LABELS_CSV, "file_name", "label", itertools.compress(rows, test == number))
    return result


def _write(path: Path, picture: str, value: str, rows: Iterable[tuple[Path, object]]) -> None:
    """A list of pictures as CSV."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([(picture, value), *((place.as_posix(), of) for place, of in rows)])


def _counted(names: list[str], test: np.ndarray, spec: str) -> SplitResult:
    """Return how many are on either side. Raises RequestError: a side has no unit."""
    sides = [[name for name, there in zip(names, mask, strict=True) if there] for mask in (~test, test)]
    for side, there in zip(SPLITS, sides, strict=True):
        if not there:
            raise RequestError(f"no unit fell to {side}, which happens with few units: give another `share` or `seed`.")
    people = [len({name for name in there if name}) + there.count("") for there in sides]
    return SplitResult((len(sides[0]), len(sides[1])), (people[0], people[1]), spec)
