"""What identifies a table, and which rows a public share or a split takes. `data.fingerprint` does so for pictures."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from gossamer.data.fingerprint import Identity, digests_of, fingerprint_of, hash_number, mark
from gossamer.data.tables.table import Table

_PIECE = 1 << 14


def identify(table: Table) -> Identity:
    """The fingerprint of a table in its order, of codes, and the mark of its rows in any order.

    The mark is of the rows as they were read, so that a copy is recognised whatever its card says. It is of codes where only
    codes are known.

    Raises:
        DataError: the digests are too many for the memory, and the disk is full.
    """
    rows = digests_of(table.codes)
    width = table.codes.shape[1]
    return Identity(
        fingerprint_of("table 1", [len(table), width], rows, [], table.units, table.names),
        table.mark or mark(f"table {width}", rows),
    )


def made_public(table: Table, *, share: float, salt: str) -> np.ndarray:
    """Which units a public share takes, bool [population].

    A unit with an id is hashed by its id alone. A row without one is hashed by its codes, as in `sides`.

    Raises:
        ValueError: units without names, whose numbers depend on the other units.
    """
    if table.units is not None and table.names is None:
        raise ValueError("units without names have no identity: give Table their names")
    public = np.zeros(table.population, bool)
    if table.units is None or table.names is None:
        public[:] = [*sides(_row_bytes(table.codes), share=share, salt=salt)]
        return public
    for owner, name in enumerate(table.names.tolist()):
        public[owner] = name != "" and unit_side(name, share=share, salt=salt)
    without = np.flatnonzero(table.names[table.units] == "")
    public[table.units[without]] = [*sides(_row_bytes(table.codes[without]), share=share, salt=salt)]
    return public


def unit_side(name: str, *, share: float, salt: str) -> bool:
    """Whether a share takes the unit with this id. salt: the public key of the hash, at most 64 bytes."""
    return hash_number(name.encode(errors="surrogatepass"), salt.encode(), b"unit") < int(share * 2.0**64)


def sides(rows: Iterable[bytes], *, share: float, salt: str) -> Iterator[bool]:
    """Whether a share takes each row, by its content and its number among equal rows.

    By the content alone, all equal rows would be on one side. A table has few different rows, so the sides would then differ.
    A row that is added or removed moves no other: equal rows are interchangeable.
    """
    below, key = int(share * 2.0**64), salt.encode()
    seen: Counter[bytes] = Counter()
    for row in rows:
        digest = hashlib.blake2b(row, digest_size=16).digest()
        yield hash_number(digest + seen[digest].to_bytes(8, "big"), key, b"row") < below
        seen[digest] += 1


def _row_bytes(codes: np.ndarray) -> Iterator[bytes]:
    for start in range(0, len(codes), _PIECE):
        yield from map(np.ndarray.tobytes, np.ascontiguousarray(codes[start : start + _PIECE]))
