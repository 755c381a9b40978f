"""A digest of the rows of a source as they are, whatever a card says of them: the budget log recognises copies by it."""

import hashlib
from collections.abc import Sequence

import numpy as np

from gossamer.data.columns.texts import MISSING_WORDS, parts
from gossamer.data.columns.times import read_datetimes, seconds_of
from gossamer.data.tables.decode import mixed
from gossamer.lazy import pa, pc

_MISSING, _OF_TIME = np.uint64(1), np.uint64(0x9E3779B97F4A7C15)
_LANES = np.arange(1, 5, dtype=np.uint64) * _OF_TIME
"""What tells the four sums of a digest apart."""
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?$|^[+-]?inf(inity)?$"
_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([t ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(z|[+-][0-9]{2}:?[0-9]{2})?)?$"
_BYTES = 1 << 22
"""Bytes of text that are hashed at once, if there is more than one text."""


class RawRows:
    """Takes the blocks of a source, and gives one digest of all rows.

    It does not depend on the order of rows and columns, on the names of columns, or on the form of the file. Numbers are
    compared as numbers, truth values as 1 and 0, times as instants, and missing values are all alike. No key is in it, so it is
    for private files only. Its size does not depend on the number of rows: it is four sums of 64 bits over hashes of the rows.
    """

    def __init__(self) -> None:
        self._sums = np.zeros(len(_LANES) + 1, np.uint64)

    def add(self, sums: np.ndarray) -> None:
        """Add the rows of a block. sums: as `sums_of` gives them."""
        self._sums += sums

    def digest(self) -> str:
        """SHA-256 of the sums and the number of rows. Empty: there are no rows."""
        sums, count = self._sums[:-1].astype("<u8").tobytes(), int(self._sums[-1])
        return hashlib.sha256(b"raw rows 2 %d " % count + sums).hexdigest() if count else ""


def sums_of(block: Sequence["pa.Array"]) -> np.ndarray:
    """The sums over some rows, and their number. uint64 [5]. block: the cells of every column, n each."""
    rows = mixed(np.array([mixed(hashes(column)) for column in block]).sum(0))
    return np.array([*(mixed(rows + lane).sum(dtype=np.uint64) for lane in _LANES), len(rows)], np.uint64)


def row_keys(block: Sequence["pa.Array"]) -> np.ndarray:
    """A hash of each row, in which the order of columns counts. uint64 [n]"""
    places = np.arange(len(block), dtype=np.uint64) * _OF_TIME
    return mixed(np.array([mixed(hashes(column) + place) for column, place in zip(block, places, strict=True)]).sum(0))


def hashes(column: "pa.Array") -> np.ndarray:
    """A hash of each cell: equal for equal numbers, truth values, times, texts, and for all missing values. uint64 [n]"""
    found = np.empty(len(column), np.uint64)
    for positions, part in parts(column):
        found[positions] = _of_type(part)
    return found


def _of_type(column: "pa.Array") -> np.ndarray:
    kind, types = column.type, pa.types
    if types.is_string(kind):
        encoded = column.dictionary_encode()
        found = np.append(_of_texts(encoded.dictionary), _MISSING)
        return np.take(found, np.asarray(pc.fill_null(encoded.indices, len(found) - 1)))
    if types.is_timestamp(kind) or types.is_date(kind):
        seconds = seconds_of(column, "", 6)
        return np.where(np.isnan(seconds), _MISSING, _of_times(np.nan_to_num(seconds)))
    if any(of(kind) for of in (types.is_null, types.is_boolean, types.is_integer, types.is_floating, types.is_decimal)):
        return _of_numbers(np.asarray(column.cast(pa.float64(), safe=False)))
    texts = [None if value is None else str(value) for value in column.to_pylist()]
    return _of_type(pa.array(texts, pa.string()))


def _of_texts(texts: "pa.Array") -> np.ndarray:
    """Texts that are numbers, truth values or times in ISO 8601 hash as these. uint64 [n]"""
    texts = pc.utf8_trim_whitespace(pc.utf8_normalize(texts, "NFC"))
    lower = pc.utf8_lower(texts)
    found = hashes_of_texts(texts)
    is_number, is_time = (np.asarray(pc.match_substring_regex(lower, form)) for form in (_NUMBER, _TIME))
    plain = pc.utf8_ltrim(lower.filter(pa.array(is_number)), "+")
    found[is_number] = _of_numbers(np.asarray(plain.cast(pa.float64())))
    for word, number in (("true", 1.0), ("false", 0.0)):
        found[np.asarray(pc.equal(lower, word))] = _of_numbers(np.array([number]))
    seconds, fits = read_datetimes(texts.filter(pa.array(is_time)))
    found[np.flatnonzero(is_time)[fits]] = _of_times(seconds[fits])
    found[np.asarray(pc.is_in(lower, pa.array([*MISSING_WORDS])))] = _MISSING
    return found


def hashes_of_texts(texts: "pa.Array") -> np.ndarray:
    """A hash of the bytes of each text. uint64 [n]"""
    sizes = np.asarray(pc.binary_length(texts)).astype(np.int64)
    if sizes.sum() > _BYTES and len(texts) > 1:
        half = len(texts) // 2
        return np.append(hashes_of_texts(texts[:half]), hashes_of_texts(texts[half:]))
    raw = np.frombuffer("".join(texts.to_pylist()).encode(), np.uint8).astype(np.uint64)
    ends = np.cumsum(sizes)
    places = np.arange(len(raw)) - np.repeat(ends - sizes, sizes)
    sums = np.append(np.uint64(0), np.cumsum(mixed((places.astype(np.uint64) << np.uint64(8)) + raw), dtype=np.uint64))
    return mixed(sums[ends] - sums[ends - sizes] + sizes.astype(np.uint64))


def _of_times(seconds: np.ndarray) -> np.ndarray:
    """uint64 [n]. seconds: since 1970, float64 [n]; microseconds count."""
    return mixed(np.rint(seconds * 1e6).astype(np.int64).astype(np.uint64) + _OF_TIME)


def _of_numbers(numbers: np.ndarray) -> np.ndarray:
    """The bits of each number; all that are none are alike. uint64 [n]"""
    return np.where(np.isnan(numbers), _MISSING, (numbers + 0.0).view(np.uint64))
