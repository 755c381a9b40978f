"""The unit (writer, patient) of each record, matched by name wherever records have names.

No order of a folder is guaranteed, so its pictures are matched by name or by a folder of their unit. A record of an array has
no name: its position in the file identifies it.
"""

import hashlib
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Self

import numpy as np

from gossamer.data.problems import Problems
from gossamer.errors import DataError

FOLDERS = "folder"
"""What --units says where each class folder holds a folder per unit."""
DICOM = "dicom:"
"""How --units begins where an element of each DICOM file names the unit; its keyword follows."""
Matched = Literal["none", "name", "folder", "position", "pattern", "dicom"]
"""How the ids of units are matched with the records."""

Missing = Literal["refuse", "own"]
"""What a record without an id is: a mistake, or a unit of its own (the card says so)."""


class Grouped(ABC):
    """What records and tables have in common: a length, rows by position, and the unit of each. A frozen dataclass."""

    units: np.ndarray | None
    names: np.ndarray | None

    @property
    def population(self) -> int:
        """Number of units: what a mechanism samples from."""
        return len(self) if self.units is None else len(self._by_unit[1]) - 1

    @property
    def without_id(self) -> int:
        """Number of records without an id, each of which is a unit of its own. Private: for the terminal only."""
        return 0 if self.names is None else int((self.names == "").sum())

    def take(self, unit_numbers: np.ndarray) -> Self:
        """The records of some units. unit_numbers: int64, in rising order; units are renumbered from 0."""
        if len(unit_numbers) == self.population:
            return self
        if self.units is None:
            return self[unit_numbers]
        order, begins = self._by_unit
        counts = begins[unit_numbers + 1] - begins[unit_numbers]
        before = np.cumsum(counts) - counts
        drawn = np.sort(order[np.repeat(begins[unit_numbers] - before, counts) + np.arange(counts.sum())])
        names = None if self.names is None else self.names[unit_numbers]
        units = np.searchsorted(unit_numbers, self.units[drawn])
        return replace(self[drawn], units=units, names=names)  # type: ignore[type-var]  # a dataclass inherits it

    @cached_property
    def _by_unit(self) -> tuple[np.ndarray, np.ndarray]:
        """The positions of the records, unit by unit, int64 [N]; and where those of each unit begin, [population + 1]."""
        assert self.units is not None
        return np.argsort(self.units, kind="stable"), np.append(0, np.cumsum(np.bincount(self.units)))

    @abstractmethod
    def __len__(self) -> int:
        """Number of records."""

    @abstractmethod
    def __getitem__(self, which: slice | np.ndarray) -> Self:
        """Some of the records, by position."""


_TOGETHER = 1.5
"""Pictures of a group, on average, from which names look like those of several pictures of a person."""
WORDS = frozenset((
    "nan", "none", "null", "na", "n/a", "<na>", "nat", "-nan", "#n/a", "#na", "#n/a n/a", "1.#ind", "-1.#ind", "1.#qnan",
    "-1.#qnan",
))  # fmt: skip
"""What programs write for a missing value, or read as one, in any case."""
_WHOLE = re.compile(r"([+-]?)0*([0-9]+)(\.0*)?")
LARGEST = 2.0**53
"""From here, neighbouring whole numbers are one floating-point number."""
ROUNDED = (
    "the id of the unit is a floating-point number above 2^53, where different ids may have become one. Give ids as whole "
    "numbers or as text: pandas makes such numbers of whole ones where one is missing, and spreadsheets of long ones"
)


@dataclass(frozen=True)
class Units:
    """Unit numbers, and what each unit is called.

    Args:
        numbers: int64 [N], from 0: first the named units, then the records without an id.
        names: text [population]; "" for a record without an id.
    """

    numbers: np.ndarray
    names: np.ndarray


def matched(spec: Any) -> Matched:
    """How the ids of `--units SPEC` are matched with the records; ids in memory by position."""
    if spec is None:
        return "none"
    if not isinstance(spec, str):
        return "position"
    if spec == FOLDERS:
        return "folder"
    if spec.startswith(DICOM):
        return "dicom"
    if Path(spec).suffix.lower() == ".csv":
        return "name"
    has_group = "(" in spec and not spec.startswith(":") and ".npz:" not in spec
    return "pattern" if has_group else "position"


def names_a_file(units: Any) -> bool:
    """Whether units are FILE.csv or FILE.npz:KEY, and neither a column nor ids in memory."""
    file = units.rpartition(":")[0] if matched(units) == "position" and isinstance(units, str) else ""
    return matched(units) == "name" or (file != "" and (file.endswith(".npz") or Path(file).exists()))


def numbered(ids: Sequence[str], missing: Missing, place: Callable[[int], str]) -> Units:
    """Units from one id per record, [N], spelled as `spelled` says. An empty id is missing, and no other.

    place: from a position to the place of its id, for messages.

    Raises:
        DataError: missing ids that are refused, words that may mean one, and rounded numbers; names their places.
    """
    names = np.array(checked(ids, missing, place), dtype=np.str_)
    alone = names == ""
    repeated, several = np.unique(names[~alone], return_inverse=True)
    numbers = np.empty(len(names), np.int64)
    numbers[~alone] = several
    numbers[alone] = len(repeated) + np.arange(alone.sum())
    return Units(numbers, np.concatenate([repeated, np.full(int(alone.sum()), "", dtype=repeated.dtype)]))


def checked(ids: Sequence[str], missing: Missing, place: Callable[[int], str]) -> list[str]:
    """Ids as `spelled`. Arguments and errors: as of `numbered`."""
    names = {unit_id: spelled(unit_id) for unit_id in {*ids}}
    wrong, problems = {each: found for each, name in names.items() if (found := _problem(name, missing))}, Problems()
    for index in range(len(ids)) if wrong else ():
        if ids[index] in wrong:
            problems.add(place(index), wrong[ids[index]])
    problems.refuse()
    return [names[unit_id] for unit_id in ids]


def from_array(ids: Sequence[str], count: int, missing: Missing, *, where: str) -> Units:
    """Units from one id per record, in the order of the records. count: of the records. Raises DataError."""
    if len(ids) != count:
        raise DataError(
            f"{where}: {count} records need one unit each, and there are {len(ids)} ids. Are they of the same split?"
        )
    return numbered(ids, missing, lambda index: f"{where}, index {index} (counted from 0)")


def from_pattern(pattern: str, pictures: Sequence[str], missing: Missing) -> Units:
    """Units from the names of pictures: what the first group of a regular expression matches.

    Args:
        pattern: is searched in the file name; if it has a slash, in the path below DATA.
        pictures: paths below DATA, [N].
        missing: what a picture is whose name does not match.

    Raises:
        DataError: no regular expression with a group, or names that do not match; says how many, because a name may tell who
            somebody is.
    """
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise DataError(f"`units={pattern}`: this is no regular expression ({error.msg})") from None
    if not expression.groups:
        raise DataError(f"`units={pattern}`: the pattern needs a group in parentheses, which matches the unit")
    texts = pictures if "/" in pattern else [PurePosixPath(name).name for name in pictures]
    found = [expression.search(text) for text in texts]
    ids = ["" if match is None else match[1] or "" for match in found]
    without = sum(not spelled(unit_id) for unit_id in ids)
    if without and missing == "refuse":
        raise DataError(
            f"`units={pattern}`: {without:,} of {len(ids):,} names of pictures do not match. Correct the pattern, or say "
            'missing_unit = "own" in the card if each is its own unit'
        )
    return numbered(ids, missing, lambda _: f"`units={pattern}`")


def pseudonym(unit_id: str) -> str:
    """A hash of an id, the same for every run; the id itself if it is missing, or may be."""
    name = spelled(unit_id)
    if not name or _problem(name, "own"):
        return name
    return hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=16, person=b"dicom unit").hexdigest()


def spelled(unit_id: str) -> str:
    """An id without space around it, its accents composed. A whole number is one id with zeros in front or behind: 7, 07, 7.0.

    Exports and programs that guess types change these. All else is what is written: 1e03 is the end of a hash, and not 1000.
    """
    name = unicodedata.normalize("NFC", unit_id).strip()
    whole = _WHOLE.fullmatch(name)
    if whole is None or (whole[3] and float(whole[2]) >= LARGEST):
        return name
    return whole[2] if whole[1] != "-" or whole[2] == "0" else f"-{whole[2]}"


def number_of(text: str) -> int | float | None:
    """The number that a text is; 0x1A is 26. None: it is none. Python's own spelling 1_000 is none."""
    if "_" in text or not text.isascii():
        return None
    try:
        return int(text, 16 if text[:2] in ("0x", "0X") else 10)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return None


def _problem(name: str, missing: Missing) -> str:
    """What is wrong with an id; empty: nothing."""
    if name.casefold() in WORDS:
        return (
            "the id of the unit is a word that often means a missing one (nan, none, null, NA). Leave a missing id empty, "
            "or rename the unit"
        )
    has_sign = "." in name or "+" in name  # without one it may be a text such as 12e34
    if has_sign and isinstance(number := number_of(name), float) and abs(number) >= LARGEST:
        return ROUNDED
    if not name and missing == "refuse":
        return (
            "this record has no unit, and a unit without all its records is not protected. Give the id, "
            'or say missing_unit = "own" in the card if such a record is a unit of its own'
        )
    return ""


def grouping(pictures: Sequence[str], classes: int) -> str:
    """The sign before the last part of file names that come in groups, as P0001_1 and P0001_2 do. Empty: they do not.

    pictures: paths, [N]. classes: groups that are no more than the classes are taken for them.
    """
    stems = [PurePosixPath(name).stem for name in pictures]
    for sign in "_-":
        begins = {stem.rpartition(sign)[0] for stem in stems}
        if "" not in begins and max(classes, 1) < len(begins) <= len(stems) / _TOGETHER:
            return sign
    return ""
