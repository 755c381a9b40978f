"""Digests of records: they identify a data set, split off a public share, and find pictures that two sets have in common.

The side on which a unit falls depends on that unit alone, so adding or removing a unit moves no other one.
"""

import hashlib
import json
from dataclasses import dataclass

import numpy as np

from gossamer.data.memory_mapped import ROOM, Filling
from gossamer.data.records import Records
from gossamer.data.units import Grouped

SALT = "gossamer public share 1"
"""The public key of the hash. It is the same for all runs, so that every run makes the same people public. A larger share
contains a smaller one."""

_PIECE = 4096
"""Names that are read at a time."""
_BYTES = 1 << 20
"""Pixels that are hashed at a time. The digests do not depend on it."""
_PARTS = 64
"""Digests are sorted in so many parts, by their first bits, to save memory."""


@dataclass(frozen=True)
class Identity:
    """Digests that identify a set of records. They are stored in private places only.

    Args:
        fingerprint: SHA-256 of the records in their order, with labels, units and names. A run resumes with the same only.
        mark: SHA-256 of the pictures alone, in any order. The budget log recognises copies by it. Empty without pictures.
    """

    fingerprint: str
    mark: str


NOBODY = Identity("", "")
"""Of no records."""


def identify(records: Records) -> Identity:
    """One pass over the pixels for both. Raises DataError: the digests are too many for the memory, and the disk is full."""
    found, sizes = digests(records.images), [len(records), records.shape]
    whole = fingerprint_of(records, "records 2", sizes, found, [records.labels])
    return Identity(whole, mark(records.shape, found))


def digests(array: np.ndarray) -> np.ndarray:
    """SHA-256 of the bytes of each row of an array [N, ...]. uint8 [N, 32]. Raises DataError: the disk is too full."""
    filling, size = Filling(32 * len(array), in_memory=ROOM), max(1, array[:1].nbytes)
    step = max(1, _BYTES // size)
    for start in range(0, len(array), step):
        row_bytes = memoryview(np.ascontiguousarray(array[start : start + step]).reshape(-1).view(np.uint8).data)
        filling.add(
            b"".join(hashlib.sha256(row_bytes[at : at + size]).digest() for at in range(0, len(row_bytes), size))
        )
    return filling.array((-1, 32))


def fingerprint_of(
    records: Grouped, kind: str, sizes: list[object], record_digests: np.ndarray, numbers: list[np.ndarray]
) -> str:
    """SHA-256 of records in their order. kind: of the records, with the version of this format. numbers: int [N] each."""
    units, ids = records.units, np.empty(0, np.str_) if records.names is None else records.names
    stated = [*sizes, units is not None, records.names is not None, len(ids)]
    digest = hashlib.sha256(f"gossamer {kind} {json.dumps(stated)}".encode())
    digest.update(record_digests.data)
    for column in [*numbers, *([] if units is None else [units])]:
        for start in range(0, len(column), _BYTES):
            digest.update(np.ascontiguousarray(column[start : start + _BYTES]).data)
    for start in range(0, len(ids), _PIECE):
        digest.update(json.dumps(ids[start : start + _PIECE].tolist()).encode())
    return digest.hexdigest()


def mark(shape: object, record_digests: np.ndarray) -> str:
    """See `Identity`: SHA-256 of the shape and of the sorted digests, uint8 [N, 32]. Empty: there are no records."""
    if not len(record_digests):
        return ""
    digest, part = hashlib.sha256(str(shape).encode()), record_digests[:, 0] // (256 // _PARTS)
    for number in range(_PARTS):
        digest.update(np.sort(record_digests[part == number].view("S32"), axis=0).tobytes())
    return digest.hexdigest()


def made_public(records: Records, *, share: float, salt: str) -> np.ndarray:
    """Which units a public share takes, bool [population]: those whose hash, a 64-bit number, lies below share x 2^64.

    A unit with an id is hashed by its id alone. A record without one is hashed by its pixels as read and resized. Labels are
    left out, so that all copies of a picture are on one side.

    Args:
        records: all records, with their units.
        share: of the units, between 0 and 1.
        salt: the public key of the hash, at most 64 bytes.

    Raises:
        ValueError: units without names, whose numbers depend on the other units.
    """
    if records.units is not None and records.names is None:
        raise ValueError("units without names have no identity: give Records their names")
    public = np.zeros(records.population, bool)
    names = np.empty(0, np.str_) if records.names is None or records.units is None else records.names
    for owner, name in enumerate(map(str, names)):
        public[owner] = name != "" and is_taken(name, share=share, salt=salt)
    for position, image in enumerate(np.asarray(records.images)):
        owner = position if records.units is None else records.units[position]
        if not len(names) or names[owner] == "":
            public[owner] = is_taken("", image.tobytes(), share=share, salt=salt)
    return public


def share_a_picture(records: Records, others: Records) -> bool:
    """Whether any picture is in both sets, pixel by pixel. Labels are left out."""
    return bool(shared(records, others).any())


def shared(records: Records, others: Records) -> np.ndarray:
    """Which of `records` have the picture of one of the others, pixel by pixel. bool [n]. Either may be larger than memory."""
    own, theirs = (digests(each.images).view("S32").ravel() for each in (records, others))
    return np.isin(own, theirs)


def is_taken(name: str, content: bytes = b"", *, share: float, salt: str, kind: bytes = b"record") -> bool:
    """Whether a share takes a unit, by its id, or, if that is "", by the content of its record: the keyed hash decides.

    Ids, pixels and rows have hash functions of their own. salt: the public key of the hash, at most 64 bytes.
    """
    identity, kind = (name.encode(errors="surrogatepass"), b"unit") if name else (content, kind)
    number = hashlib.blake2b(identity, digest_size=8, key=salt.encode(), person=kind).digest()
    return int.from_bytes(number, "big") < int(share * 2.0**64)  # exact: a power of two only moves the exponent
