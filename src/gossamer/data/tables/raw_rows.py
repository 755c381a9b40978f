"""A digest of the rows of a source as they are, whatever a card says of them: the budget log recognises copies by it."""

import hashlib
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from gossamer.data.tables.decode import mixed
from gossamer.data.tables.encode import MISSING_WORDS, MOST_REMEMBERED, Raw, texts_of

_MISSING = np.uint64(1)


class RawRows:
    """Takes the blocks of a source, and gives one digest of all rows.

    It does not depend on the order of rows and columns, on the names of columns, or on the form of the file. Numbers are
    compared as numbers, and missing values are all alike. No key is in it, so it is for private files only.
    """

    def __init__(self) -> None:
        self._rows: list[np.ndarray] = []
        self._cell_of = lru_cache(MOST_REMEMBERED)(_cell)

    def add(self, block: Sequence[Raw]) -> None:
        """Add rows. block: the raw values of every column, n each."""
        cells = np.empty((len(block), len(block[0])), np.uint64)
        for at, raw in enumerate(block):
            self._fill(cells[at], raw)
        self._rows.append(mixed(mixed(cells).sum(0, dtype=np.uint64)))

    def digest(self) -> str:
        """SHA-256 of the sorted hashes of all rows. Empty: there are no rows."""
        rows = np.sort(np.concatenate([np.empty(0, np.uint64), *self._rows]))
        return hashlib.sha256(b"raw rows 1" + rows.astype("<u8").tobytes()).hexdigest() if len(rows) else ""

    def _fill(self, cells: np.ndarray, raw: Raw) -> None:
        """Write a number for each value of a column into `cells`, uint64 [n]."""
        if isinstance(raw, np.ndarray) and raw.dtype.kind in "iuf":
            cells[:] = _of_numbers(raw.astype(np.float64))
            return
        texts = texts_of(raw)
        try:
            cells[:] = _of_numbers(np.fromiter(map(float, texts), np.float64, len(texts)))
        except ValueError:
            cells[:] = np.fromiter(map(self._cell_of, texts), np.uint64, len(texts))


def _cell(text: str) -> int:
    """The number of a text: its bits if it is a number, else a hash."""
    clean = unicodedata.normalize("NFC", text).strip()
    try:
        return int(_of_numbers(np.array([float(clean)]))[0])
    except ValueError:
        digest = hashlib.blake2b(clean.encode(errors="surrogatepass"), digest_size=8).digest()
        return int(_MISSING) if clean.casefold() in MISSING_WORDS else int.from_bytes(digest, "little")


def _of_numbers(numbers: np.ndarray) -> np.ndarray:
    """The bits of each number; all that are none are alike. uint64 [n]"""
    return np.where(np.isnan(numbers), _MISSING, (numbers + 0.0).view(np.uint64))
