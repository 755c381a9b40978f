"""What identifies a table, and which rows a split takes. `data.fingerprint` does so for pictures."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator

from gossamer.data.fingerprint import Identity, digests, fingerprint_of, hash_number, mark
from gossamer.data.tables.table import Table


def identify(table: Table) -> Identity:
    """The fingerprint of a table in its order, of codes, and the mark of its rows in any order.

    The mark is of the rows as they were read, so that a copy is recognised whatever its card says. It is of codes where only
    codes are known.

    Raises:
        DataError: the digests are too many for the memory, and the disk is full.
    """
    rows = digests(table.codes)
    width = table.codes.shape[1]
    return Identity(
        fingerprint_of("table 1", [len(table), width], rows, [], table.units, table.names),
        table.mark or mark(f"table {width}", rows),
    )


def unit_side(name: str, *, share: float, salt: str) -> bool:
    """Whether a split takes the unit with this id into a share. salt: the public key of the hash, at most 64 bytes."""
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
