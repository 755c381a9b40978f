"""A table: rows of codes and, where the unit is a person, the person of each row. No raw value is in it.

Queries ask for weighted counts of cliques of its columns, see `Countable`. A unit with m rows gives each row the weight K/m, or
1 where it has at most K rows. Weights are multiples of 2^-20, rounded down. So sums are whole numbers of these steps, and any
way to add them up gives the same bits.
"""

import hashlib
import math
import os
import re
import sys
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, NoReturn, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from gossamer.data.fingerprint import Identity, digests, fingerprint_of, mark
from gossamer.data.memory_mapped import ROOM, Filling, chosen_rows, forget, in_threads
from gossamer.data.units import Grouped

CODES: np.dtype[Any] = np.dtype(np.int16)
"""Of codes in memory. A column has at most 10,000, see `MOST_CODES`."""
_ROWS, _TABLES, _PARTS = 2**17, 128, 256
"""Rows and tables that are counted at once, and parts in which the owners of rows are sorted."""
GRID = 2**20
"""Weights are multiples of 1 / GRID. A unit with more than K x GRID rows has no weight."""
_NUMBER = re.compile("0|-?[1-9][0-9]{0,18}")
"""An id that is a whole number, as `spelled` writes it, and may have 64 bits."""
MOST_CELLS, _FEW_CELLS = 2**18, 2**16
"""Cells of a table that is counted for several cliques at once, and of one to which small ones are joined."""
Clique: TypeAlias = tuple[int, ...]
Map: TypeAlias = tuple[int, np.ndarray]
"""A column, and the merged value of each of its codes, int [codes]."""


class Countable(Grouped):
    """Rows that are counted. A table is counted once, and its counts stay as private as the rows."""

    @cached_property
    def _known(self) -> dict[Any, np.ndarray]:
        return {}

    def counts(self, maps: Sequence[Map], cliques: Sequence[Clique], max_rows: int) -> list[np.ndarray]:
        """The sums of weights in the cells of each clique, in steps of the grid. int64 [cells]

        Args:
            maps: what is counted of a column; several may be of one column.
            cliques: rising positions of maps.
            max_rows: K.
        """
        names = [(column, values.tobytes()) for column, values in maps]
        keys = [(max_rows, *(names[k] for k in clique)) for clique in cliques]
        new = {clique: key for key, clique in zip(keys, cliques, strict=True) if key not in self._known}
        covers = together(new, [size_of(each) for each in maps])
        for (cover, own), sums in zip(covers.items(), self._sums(maps, [*covers], max_rows), strict=True):
            table = sums.reshape([size_of(maps[k]) for k in cover])
            for clique in own:
                others = tuple(axis for axis, k in enumerate(cover) if k not in clique)
                self._known[new[clique]] = table.sum(others).ravel()
        return [self._known[key] for key in keys]

    @abstractmethod
    def _sums(self, maps: Sequence[Map], cliques: Sequence[Clique], max_rows: int) -> Iterator[np.ndarray]:
        """The same for some cliques, each counted by itself."""


def size_of(merged: Map) -> int:
    """Number of merged values."""
    return int(merged[1].max()) + 1


def together(cliques: Iterable[Clique], sizes: Sequence[int]) -> dict[Clique, list[Clique]]:
    """Cliques that hold some of these each. Their tables have at most MOST_CELLS cells, or those of one clique.

    Columns are put into blocks, and cliques of the same blocks are counted together. So 19,900 pairs of columns of six values
    need 2,211 tables.
    """
    cliques, blocks, number, cells = [*cliques], {}, 0, 1
    widest = max(map(len, cliques), default=1)
    for k in sorted({*()}.union(*cliques)):
        cells *= sizes[k]
        if cells**widest > MOST_CELLS:
            number, cells = number + 1, sizes[k]
        blocks[k] = number
    groups = defaultdict(list)
    for clique in cliques:
        groups[frozenset(blocks[k] for k in clique)].append(clique)
    found = defaultdict[Clique, list[Clique]](list)
    for own in groups.values():
        cover = tuple(sorted({*()}.union(*own)))
        small = math.prod(sizes[k] for k in cover) <= MOST_CELLS
        found.update({cover: own} if small else {clique: [clique] for clique in own})
    few = {cover: found.pop(cover) for cover in [*found] if math.prod(sizes[k] for k in cover) <= _FEW_CELLS // 2}
    for cover, own in _joined(few, np.log2(sizes)):
        found[cover] += own
    return found


def _joined(found: Mapping[Clique, list[Clique]], logs: np.ndarray) -> list[tuple[Clique, list[Clique]]]:
    """Fewer and larger tables: each goes to where the fewest cells come of it. Two may become the same table.

    logs: of sizes, float64 [maps]
    """
    covers, joined = np.zeros((len(found), len(logs)), bool), defaultdict[int, list[Clique]](list)
    for cover in sorted(found, key=lambda each: -logs[[*each]].sum()):
        own = np.isin(np.arange(len(logs)), cover)
        cells = (covers[: len(joined)] | own) @ logs
        at = int(cells.argmin()) if cells.min(initial=np.inf) <= math.log2(_FEW_CELLS) else len(joined)
        covers[at] |= own
        joined[at] += found[cover]
    return [(tuple(np.flatnonzero(covers[at]).tolist()), own) for at, own in joined.items()]


def row_weights(units: np.ndarray, max_rows: int) -> np.ndarray:
    """min(1, max_rows / m) for each row of a unit with m rows, in steps of the grid and rounded down, float64 [N]."""
    _, own, counts = np.unique(units, return_inverse=True, return_counts=True)
    return unit_weights(counts, max_rows)[own.reshape(-1)]


def unit_weights(counts: np.ndarray, max_rows: int) -> np.ndarray:
    """The same for each unit. counts: its number of rows, int64 [units]"""
    return np.asarray(np.minimum(GRID, GRID * max_rows // counts).astype(np.float64))


@dataclass(frozen=True, repr=False)
class Table(Countable):
    """Rows of codes, as a `TableCard` declares them. Some of the rows have no mark.

    Args:
        codes: int16 [N, columns], each from 0 to the column's number of codes - 1; in memory or memory-mapped.
        units: int64 [N], from 0; rows with equal numbers belong to one unit. None: every row is its own unit.
        names: text [population], the id of each unit, "" for a row without one. None: no unit has one.
        notes: what the readers converted, in words: for the terminal, and for no file.
        mark: digest of the rows as they were read, see `RawRows`. Empty: it is not known.
    """

    codes: np.ndarray
    units: np.ndarray | None = None
    names: np.ndarray | None = None
    notes: tuple[str, ...] = ()
    mark: str = ""

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        """Show number and shape: a log or a notebook that shows a table must not show what is in it."""
        return f"Table({self.in_words})"

    @property
    def in_words(self) -> str:
        """Number of rows and columns, without a code."""
        return f"{len(self):,} rows of {self.codes.shape[1]} columns"

    def __getitem__(self, which: slice | np.ndarray) -> "Table":
        """Some of the rows, by position. A slice makes no copy. Raises DataError: the disk is too full for a copy."""
        codes = self.codes[which] if isinstance(which, slice) else chosen_rows(self.codes, which)
        return Table(codes, None if self.units is None else self.units[which], self.names, self.notes)

    def _sums(self, maps: Sequence[Map], cliques: Sequence[Clique], max_rows: int) -> Iterator[np.ndarray]:
        """See `Countable`. In float64, which is exact up to 2^53. A code out of range is the nearest: a message would leak."""
        weights = self._weights(max_rows)
        for first in range(0, len(cliques), _TABLES):
            yield from self._counted(maps, cliques[first : first + _TABLES], weights)

    def _counted(self, maps: Sequence[Map], cliques: Sequence[Clique], weights: np.ndarray | None) -> list[np.ndarray]:
        """The same, by one pass over the rows. weights: see `_weights`."""
        sizes = {k: size_of(maps[k]) for k in {*()}.union(*cliques)}
        sums, turn = [np.zeros(math.prod(sizes[k] for k in clique)) for clique in cliques], Lock()

        def add(start: int) -> None:
            rows = slice(start, start + _ROWS)
            own = None if weights is None else weights[rows].astype(np.float64)
            merged = {k: maps[k][1].astype(np.int32).take(self.codes[rows, maps[k][0]], mode="clip") for k in sizes}
            for at, clique in enumerate(cliques):
                cells: np.ndarray = merged[clique[0]].astype(np.int32 if len(sums[at]) < 2**31 else np.int64)
                for k in clique[1:]:
                    cells *= sizes[k]
                    cells += merged[k]
                found = np.bincount(cells, own, len(sums[at]))
                with turn:
                    sums[at] += found

        for _ in in_threads(add, range(0, len(self), _ROWS)):
            forget(self.codes)
        return [(each * (GRID if weights is None else 1)).astype(np.int64) for each in sums]

    def _weights(self, max_rows: int) -> np.ndarray | None:
        """The weight of each row in steps of the grid; None: every row is its own unit, and weighs 1."""
        return None if self.units is None else row_weights(self.units, max_rows)


@dataclass(frozen=True, repr=False, kw_only=True)
class Together(Countable):
    """Rows of which is known how much they weigh, and not whose they are. They are counted together.

    Args:
        population: number of units.
        without_id: how many of them are rows without an id.
        notes: see `Table`.
        mark: see `Table`.
    """

    population: int = 0
    without_id: int = 0
    notes: tuple[str, ...] = ()
    mark: str = ""
    units = names = None

    def __getitem__(self, which: object) -> NoReturn:
        raise TypeError("rows that are weighted already are counted together")


@dataclass(frozen=True, repr=False, kw_only=True)
class WeightedTable(Together, Table):
    """Rows of codes, and how much each weighs.

    Args:
        weights: int32 [N], in steps of the grid, for one `max_rows`.
        max_rows: the rows of a unit that count in full.
    """

    weights: np.ndarray
    max_rows: int

    def _weights(self, max_rows: int) -> np.ndarray:
        if max_rows != self.max_rows:
            raise ValueError(f"rows are weighted for {self.max_rows} of a unit, and not for {max_rows}")
        return self.weights


class Owners:
    """Whose each row is, by keyed hashes of the ids: in constant memory, until the rows are weighted.

    The key is secret, and of this process alone. Whole numbers are encrypted by AES, so no two have one hash. Two of 100
    million other ids have one hash of 128 bits in 1 of 10^22 cases.
    """

    def __init__(self) -> None:
        self._key, self._count, self._alone = os.urandom(16), 0, 0
        self._encrypt = Cipher(AES(self._key), ECB()).encryptor().update
        self._parts = [Filling(in_memory=ROOM // _PARTS) for _ in range(_PARTS)]

    def add(self, ids: Sequence[str]) -> None:
        """The rows of a block. ids: as `units.checked` gives them. A row without one gets a random hash, so it is alone."""
        known = {each: self._hash(each) for each in {*ids}}
        self._add(b"".join(known[each] if each else os.urandom(16) for each in ids))
        self._alone += sum(each == "" for each in ids)

    def add_numbers(self, ids: np.ndarray) -> None:
        """The same, where ids are whole numbers of 64 bits, and there is none without one. int64 [n]"""
        blocks = np.zeros((len(ids), 2), np.int64)
        blocks[:, 0] = ids
        self._add(self._encrypt(blocks.tobytes()))

    def _add(self, hashes: bytes) -> None:
        """Of each row its hash and its number, to the part of its hash."""
        given = np.frombuffer(hashes, np.uint64).reshape(-1, 2)
        rows = np.column_stack([given, np.arange(self._count, self._count + len(given), dtype=np.uint64)])
        at = (given[:, 0] % np.uint64(_PARTS)).astype(np.uint8)
        ends = np.bincount(at, minlength=_PARTS).cumsum()
        for part, own in zip(self._parts, np.split(rows[at.argsort(kind="stable")], ends[:-1]), strict=True):
            part.add(own)
        self._count += len(given)

    def _hash(self, name: str) -> bytes:
        if _NUMBER.fullmatch(name) and -(2**63) <= (number := int(name)) < 2**63:
            return self._encrypt(number.to_bytes(8, sys.byteorder, signed=True) + bytes(8))
        return hashlib.blake2b(name.encode(errors="surrogatepass"), digest_size=16, key=self._key).digest()

    def weighted(self, table: Table, max_rows: int) -> WeightedTable:
        """The rows with their weights. Owners are sorted in parts, by their hashes."""
        weights, count = np.empty(self._count, np.int32), 0
        while self._parts:  # each leaves the disk after its turn
            rows = self._parts.pop().array((-1, 3), np.dtype(np.uint64))
            rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
            first = np.append(True, (rows[1:, :2] != rows[:-1, :2]).any(1))[: len(rows)]
            counts = np.diff(np.flatnonzero(first), append=len(rows))
            weights[rows[:, 2]] = np.repeat(unit_weights(counts, max_rows), counts)
            count += len(counts)
        facts: dict[str, Any] = {"max_rows": max_rows, "population": count, "without_id": self._alone}
        return WeightedTable(table.codes, notes=table.notes, mark=table.mark, weights=weights, **facts)


def identify(table: Table | Together) -> Identity:
    """The fingerprint of a table in its order, of codes, and the mark of its rows in any order.

    Of rows that are counted together, the fingerprint is of the mark, which the ids of units are part of.

    The mark is of the rows as they were read, so that a copy is recognised whatever its card says. It is of codes where only
    codes are known.

    Raises:
        DataError: the digests are too many for the memory, and the disk is full.
    """
    if isinstance(table, Together):
        stated = f"gossamer weighted table 1 {len(table)} {table.population} {table.mark}"
        return Identity(hashlib.sha256(stated.encode()).hexdigest(), table.mark)
    rows = digests(table.codes.astype(CODES, copy=False))
    width = table.codes.shape[1]
    return Identity(
        fingerprint_of(table, "table 2", [len(table), width], rows, []),
        table.mark or mark(f"table {width}", rows),
    )
