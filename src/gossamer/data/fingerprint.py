"""Who is who: by what a set of records is known again, on which side of a public share a unit lies, and whether two sets of
records hold the same picture.

A side depends on that unit alone, so that adding or removing a unit leaves every other one where it was. A rule that looked at
the position of a unit, at their number or at a permutation of all of them would not.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gossamer.data.memory_mapped import Filling
from gossamer.data.records import Records

SALT = "gossamer public share 1"
"""The public key of the hash, the same for all runs: whoever is given up is given up in every run on the data, and a larger
share contains a smaller one. A key of each run's own would give up other people each time."""

_PIECE = 4096
"""Records, or names, that are looked at at a time."""
_BYTES = 1 << 20
"""Of pixels that are hashed at a time; what is found does not depend on it."""
_ROOM = 1 << 26
"""Bytes of digests that are kept in memory, those of two million records; more go to a file without a name."""
_PARTS = 64
"""In which digests are sorted, by their first bits: so much less memory than all of them take."""


@dataclass(frozen=True)
class Identity:
    """Digests that identify a set of records. They are stored in private places only.

    Args:
        fingerprint: SHA-256 of the records as they stand: another order, label, unit or name is another set. A run goes on with
            the same records only.
        mark: SHA-256 of the pictures alone, independent of their order, splits, labels and units. The budget log recognises
            copies by it. Empty without pictures.
    """

    fingerprint: str
    mark: str


NOBODY = Identity("", "")
"""Of no records."""


def identify(records: Records) -> Identity:
    """One pass over the pixels for both. Raises DataError: the digests are too many for the memory, and the disk is full."""
    record_digests = digests(records)
    return Identity(fingerprint(records, record_digests), _mark(records, record_digests))


def digests(records: Records) -> np.ndarray:
    """SHA-256 of the pixels of each record. uint8 [N, 32]. Raises DataError: there is no room on the disk."""
    filling, size = Filling(32 * len(records), room=_ROOM), max(1, records.images[:1].nbytes)
    step = max(1, _BYTES // size)
    for start in range(0, len(records), step):
        pixels = memoryview(np.ascontiguousarray(records.images[start : start + step]).reshape(-1).data)
        filling.add(b"".join(hashlib.sha256(pixels[at : at + size]).digest() for at in range(0, len(pixels), size)))
    return filling.array((-1, 32))


def fingerprint(records: Records, record_digests: np.ndarray | None = None) -> str:
    """See `Identity`. record_digests: those of its records, where they are computed already. Raises DataError as `digests`."""
    record_digests = digests(records) if record_digests is None else record_digests
    units, names = records.units, np.empty(0, np.str_) if records.names is None else records.names
    numbers = [records.labels, *([] if units is None else [units])]
    sizes = [len(records), records.shape, units is not None, records.names is not None, len(names)]
    digest = hashlib.sha256(f"gossamer records 2 {json.dumps(sizes)}".encode())
    digest.update(record_digests.data)
    for column in numbers:
        for start in range(0, len(column), _BYTES):
            digest.update(np.ascontiguousarray(column[start : start + _BYTES]).data)
    for start in range(0, len(names), _PIECE):
        digest.update(json.dumps(names[start : start + _PIECE].tolist()).encode())
    return digest.hexdigest()


def _mark(records: Records, record_digests: np.ndarray) -> str:
    """See `Identity`: SHA-256 of the shape and of the sorted digests."""
    if not len(records):
        return ""
    digest, part = hashlib.sha256(str(records.shape).encode()), record_digests[:, 0] // (256 // _PARTS)
    for number in range(_PARTS):
        digest.update(np.sort(record_digests[part == number].view("S32"), axis=0).tobytes())
    return digest.hexdigest()


def made_public(records: Records, *, share: float, salt: str) -> np.ndarray:
    """Which units a public share takes: those whose hash, read as a 64-bit number, lies below share x 2^64.

    A unit with an id is hashed by its id, as text, and no record of it matters. A record without one is hashed by its
    pixels as read and resized; its label is left out, so that copies of a picture lie on one side whatever they are called.

    Args:
        records: any number.
        share: between 0 and 1.
        salt: the public key of the hash, at most 64 bytes.

    Returns:
        bool [population]

    Raises:
        ValueError: if there are units and nobody said what they are called: a unit's number depends on the others.
    """
    if records.units is not None and records.names is None:
        raise ValueError("units without names have no identity: give Records their names")
    below, key = int(share * 2.0**64), salt.encode()  # the product is exact: a power of two only moves the exponent
    public = np.zeros(records.population, bool)
    names = np.empty(0, np.str_) if records.names is None or records.units is None else records.names
    for start in range(0, len(names), _PIECE):
        for owner, name in enumerate(names[start : start + _PIECE].tolist(), start):
            public[owner] = name != "" and _number(name.encode(errors="surrogatepass"), key, b"unit") < below
    for position, image in enumerate(_images(records)):
        owner = position if records.units is None else records.units[position]
        if not len(names) or names[owner] == "":
            public[owner] = _number(image.tobytes(), key, b"record") < below
    return public


def share_a_picture(records: Records, others: Records) -> bool:
    """Whether any picture stands in both sets, pixel by pixel; labels are left out. Nothing else is told."""
    fewer, more = sorted((records, others), key=len)
    return not set(_digests(fewer)).isdisjoint(_digests(more))


def shared(records: Records, others: Records) -> np.ndarray:
    """Which of `records` have the picture of one of the others, pixel by pixel; labels are left out. bool [n]

    Of each of the others 16 bytes are kept meanwhile, so both may be larger than memory.
    """
    other_digests = set(_digests(others))
    return np.fromiter((digest in other_digests for digest in _digests(records)), dtype=bool, count=len(records))


def _number(identity: bytes, key: bytes, kind: bytes) -> int:
    """A keyed hash in 0 ... 2^64 - 1. Ids and pixels have hash functions of their own."""
    return int.from_bytes(hashlib.blake2b(identity, digest_size=8, key=key, person=kind).digest(), "big")


def _digests(records: Records) -> Iterator[bytes]:
    """BLAKE2b of the pixels of each record, 16 bytes."""
    return (hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in _images(records))


def _images(records: Records) -> Iterator[np.ndarray]:
    """The image of each record, [C, H, W]."""
    for start in range(0, len(records), _PIECE):
        yield from np.asarray(records.images[start : start + _PIECE])
