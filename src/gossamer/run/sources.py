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

EMBEDDED = ("digits", "glyphs")


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where records come from. Private: kept in the checkpoint folder, never released.

    Args:
        data: DATA as on the command line.
        public: public records, or None.
        labels_key: the key of the labels in an .npz, or None.
        units: FILE.npz:KEY with the unit of each record, or None.
    """

    data: str
    public: str | None = None
    labels_key: str | None = None
    units: str | None = None

    def records(self, card: DataCard) -> Records:
        """The private records, checked against the card."""
        records = read(self.data, split="train", labels_key=self.labels_key, units=self.units, shape=card.shape)
        check(records, card, where=self.data)
        return records

    def public_records(self, card: DataCard) -> Records | None:
        """The public records, checked against the same card."""
        if self.public is None:
            return None
        records = read(self.public, split="train", shape=card.shape)
        check(records, card, where=self.public)
        return records

    @classmethod
    def of(
        cls, data: str | Path, *, public: str | Path | None, labels_key: str | None, units: str | Path | None
    ) -> "Sources":
        """Sources that still name the same files from another working folder."""
        return cls(
            data=_absolute(data),
            public=None if public is None else _absolute(public),
            labels_key=labels_key,
            units=None if units is None else str(Path(units).absolute()),
        )

    def to_json(self, records: Records) -> dict[str, Any]:
        """What the private folder keeps: where the records are, and what they were."""
        return {"sources": dataclasses.asdict(self), "fingerprint": fingerprint(records)}


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
