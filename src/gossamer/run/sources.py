"""Where a run's records come from, and whether they are still the same."""

import dataclasses
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.data.card import DataCard, check
from gossamer.data.readers import read
from gossamer.data.records import Records
from gossamer.errors import DataError, RequestError
from gossamer.privacy.promise import NO_PUBLIC

EMBEDDED = ("digits", "glyphs")


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where records come from. Private: kept in the checkpoint folder, never released.

    Args:
        data: DATA as on the command line.
        public: public records, or None.
        labels_key: the key of the labels in an .npz, or None.
        units: FILE.npz:KEY with the unit of each record, or None.
        split: units of `data` that are given up as public, in place of `public`; 0: none.
        split_seed: fixes which ones.
    """

    data: str
    public: str | None = None
    labels_key: str | None = None
    units: str | None = None
    split: int = 0
    split_seed: int = 0

    def read(self, card: DataCard) -> "Found":
        """The private and the public records, checked against the card, and the fingerprint of all that `data` holds."""
        records = read(self.data, split="train", labels_key=self.labels_key, units=self.units, shape=card.shape)
        check(records, card, where=self.data)
        mark = fingerprint(records)
        if self.split:
            public, private = _split(records, self.split, self.split_seed, self.data)
            share = self.split / (self.split + card.declared_size)
            return Found(private, public, {"kind": "share", "share": share}, mark)
        if self.public is None:
            return Found(records, None, NO_PUBLIC, mark)
        public = read(self.public, split="train", shape=card.shape)
        check(public, card, where=self.public)
        return Found(records, public, {"kind": "records", "name": Path(self.public).name, "count": len(public)}, mark)

    @classmethod
    def of(
        cls,
        data: str | Path,
        *,
        public: str | Path | None,
        labels_key: str | None,
        units: str | Path | None,
        split: int = 0,
        split_seed: int = 0,
    ) -> "Sources":
        """Sources that still name the same files from another working folder."""
        return cls(
            data=_absolute(data),
            public=None if public is None else _absolute(public),
            labels_key=labels_key,
            units=None if units is None else str(Path(units).absolute()),
            split=split,
            split_seed=split_seed,
        )


@dataclass(frozen=True)
class Found:
    """What `Sources.read` found.

    Args:
        private: the records to protect.
        public: public records, or None.
        public_facts: what the settings say of them; the words of the certificate follow from it.
        fingerprint: SHA-256 of all records of `data`.
    """

    private: Records
    public: Records | None
    public_facts: dict[str, Any]
    fingerprint: str


def public_part(card: DataCard, share: float) -> tuple[DataCard, int]:
    """The card of what stays private, and the number of units given up, if `share` of the declared size is public.

    The declared size of a run counts the private part only, and the number comes from the declared size, not from the records.

    Raises:
        RequestError: if the share is not between 0 and 1, or gives up no unit or all.
    """
    given_up = round(share * card.declared_size) if 0 < share < 1 else 0
    if not 0 < given_up < card.declared_size:
        raise RequestError(
            f"--public-share must lie between 0 and 1 and leave some units on both sides, not {share:g}: 0.02 gives up 2 %."
        )
    return dataclasses.replace(card, declared_size=card.declared_size - given_up), given_up


def _split(records: Records, given_up: int, seed: int, where: str) -> tuple[Records, Records]:
    """The public part and the private part, whole units on either side."""
    if given_up >= records.population:
        raise DataError(
            f"{where}: --public-share gives up {given_up:,} units, and there are not that many in the data."
        )
    public = np.zeros(records.population, dtype=bool)
    public[np.random.default_rng([seed, 0x5E97]).permutation(records.population)[:given_up]] = True
    return records.take(np.flatnonzero(public)), records.take(np.flatnonzero(~public))


def fingerprint(records: Records) -> str:
    """SHA-256 of the records, kept in the private folder: a resume must go on with the same ones."""
    digest = hashlib.sha256()
    for start in range(0, len(records), 4096):
        piece = records[start : start + 4096]
        digest.update(np.ascontiguousarray(piece.images).tobytes())
        digest.update(np.ascontiguousarray(piece.labels).tobytes())
    if records.units is not None:
        digest.update(np.ascontiguousarray(records.units).tobytes())
    return digest.hexdigest()


def _absolute(source: str | Path) -> str:
    """A source that still names the same file from another working folder. Names of embedded data stay as they are."""
    path, _, split = str(source).rpartition(":") if str(source).endswith((":train", ":test")) else (str(source), "", "")
    if path in EMBEDDED:
        return str(source)
    return f"{Path(path).resolve()}:{split}" if split else str(Path(path).resolve())
