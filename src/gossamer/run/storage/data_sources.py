"""Where a run's records come from, and whether they are still the same.

The file is long because nothing else holds raw records: they are read and isolated here.
"""

import dataclasses
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.data.card import DataCard, Kind, check, check_units
from gossamer.data.fingerprint import SALT, Identity, fingerprint, identify, made_public, share_a_picture
from gossamer.data.labels import listed
from gossamer.data.memory_mapped import remarks
from gossamer.data.pixels.polarity import CROWDED, contrast, crowded, nearly_constant
from gossamer.data.pixels.to_uint8 import SCALED
from gossamer.data.readers.in_memory import FORMS, own_units
from gossamer.data.readers.read import DIGITS, EMBEDDED, read, split_of
from gossamer.data.records import Records
from gossamer.data.source import Data, MapStyle, is_place
from gossamer.data.tables.any_card import AnyCard
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.identity import identify as identify_table
from gossamer.data.tables.read import read_table
from gossamer.data.units import FOLDERS, Grouped, matched
from gossamer.errors import DataError, RequestError, RunFolderError
from gossamer.events import Sink, silent
from gossamer.privacy.certificate.statements import NO_PUBLIC
from gossamer.privacy.confined import Confined
from gossamer.privacy.distributed import ALONE, Ranks
from gossamer.privacy.ledger import PrivacyLedger

_KEY = re.compile("--(?=(images|labels)-key)")
IN_MEMORY = "records in memory"
"""What a run folder says of records that a program passed to `fit`. `resume` needs them again."""


@dataclass(frozen=True, repr=False)
class Held:
    """Records in memory, as a program passed them; None: there are none, or they have a path.

    Args:
        data: the private records.
        public: the public records.
        units: the ids of the units of `data`.
    """

    data: MapStyle | None = None
    public: MapStyle | None = None
    units: MapStyle | None = None

    @classmethod
    def of(cls, **given: Any) -> "Held":
        """Keep what is in memory. given: paths are left out."""
        return cls(**{name: value for name, value in given.items() if value is not None and not is_place(value)})

    def __repr__(self) -> str:
        """Show which are there: a traceback that shows this must not show a record."""
        return f"Held({', '.join(self.names)})"

    @property
    def names(self) -> list[str]:
        """Which of them are in memory."""
        return [field.name for field in dataclasses.fields(self) if getattr(self, field.name) is not None]


@dataclass(frozen=True, kw_only=True)
class DataSources:
    """Where records come from. Private: kept in the checkpoint folder, never released.

    A field whose records are in memory says `IN_MEMORY`, and `held` has them.

    Args:
        data: DATA as on the command line.
        public: public records, or None.
        labels_key: see `data.readers.read.read`, like all other keys.
        units: the unit of each record, as --units names it, or None.
        share: the share of `data` that is made public, in place of `public`; None: none of it.
    """

    data: str
    public: str | None = None
    labels_key: str | None = None
    units: str | None = None
    share: float | None = None
    images_key: str | None = None
    public_images_key: str | None = None
    public_labels_key: str | None = None
    held: Held = field(default=Held(), repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return all fields but `held`."""
        return {entry.name: getattr(self, entry.name) for entry in dataclasses.fields(self) if entry.name != "held"}

    def named(self) -> "DataSources":
        """Return the same, with a random name for records in memory: messages show it, and a digest would confirm a guess."""
        return (
            dataclasses.replace(self, data=f"{IN_MEMORY} {secrets.token_hex(4)}")
            if self.held.data is not None
            else self
        )

    def with_held(self, held: Held) -> "DataSources":
        """Return the same with the records in memory that a resumed run needs again.

        Raises:
            RequestError: if it needs others, or none.
        """
        wanted = [name for name in ("data", "public", "units") if str(getattr(self, name)).startswith(IN_MEMORY)]
        if missing := [name for name in wanted if name not in held.names]:
            again = ", ".join(f"{name}=..." for name in wanted)
            raise RequestError(
                f"The {' and '.join(missing)} of this run were in memory. Pass the same records again from Python: "
                f"gossamer.resume(run, {again})."
            )
        if more := [name for name in held.names if name not in wanted]:
            source = getattr(self, more[0])
            place = f"from {source}" if source else "nowhere"
            raise RequestError(f"This run has its {more[0]} {place}. Leave {more[0]} out.")
        return dataclasses.replace(self, held=held)

    def refuse_gone(self) -> None:
        """Refuse records that are gone, with a DataError that names the place."""
        for source in (self.data, self.public):
            place = None if source is None or source.startswith(IN_MEMORY) else split_of(source)[0]
            if place is not None and place not in EMBEDDED and not Path(place).exists():
                raise DataError(
                    f"{place}: the records of this run are gone. Put them back (a link will do), and resume again."
                )

    def read(self, card: AnyCard, ledger: PrivacyLedger, ranks: Ranks = ALONE, *, sink: Sink = silent) -> "LoadedData":
        """Read the records, check them against the card, and isolate the private ones.

        Args:
            card: the public facts.
            ledger: records the cost of every query to the private records.
            ranks: the processes that hold the other parts of the records.
            sink: takes the progress of reading.

        Raises:
            RequestError: if the records cannot be read, contradict the card, or are private and public at once.
        """
        return dataclasses.replace(self.read_unconfined(card, sink=sink).confine(ledger, ranks), sources=self)

    def read_unconfined(self, card: AnyCard, *, sink: Sink = silent) -> "RawData":
        """Read the same without isolating it: for a simulation, which splits the records among its clients."""
        check_units(card, self.units, where=self.data)
        if isinstance(card, TableCard):
            return self._read_table(card)
        if self.public is not None and _one_source(self):
            raise RequestError(
                "--public and --data name the same records, and public records have no protection. Give records of "
                "other people, or make a part of --data public with --public-share."
            )
        public, stated = self.read_public(card)
        records = read(
            _first(self.held.data, self.data), split="train", images_key=self.images_key, labels_key=self.labels_key,
            units=_first(self.held.units, self.units), missing_unit=card.missing_unit, sink=sink,
            **card.reading,
        )  # fmt: skip
        check(records, card, where=self.data)
        private, notes = records, records.notes
        if self.share is not None:
            public, private = split_public(records, self.share, SALT)
            stated = {"kind": "share", "share": self.share, "salt": SALT}
            notes = tuple(sorted({*records.notes, *remarks(private.images)}))
        elif public is not None and share_a_picture(records, public):
            raise DataError(
                "--public: at least one of these pictures is among the private records too, where it has no protection. Leave "
                "it out of --data, or give other public records. Gossamer does not say which it is: that would leak "
                "information about private records."
            )
        elif public is not None:
            notes = (*notes, *(f"--public: {note}" for note in public.notes))
        if SCALED in records.notes and crowded(private):
            notes = (*notes, CROWDED)
        notes = (*notes, *_without_id(private))
        different = "" if public is None else contrast("--data", private, "--public", public)
        facts = DataFacts(
            public=stated,
            units={"matched": matched(self.units)},
            identity=identify(records),
            notes=(*notes, different) if different else notes,
            one_shade=nearly_constant(private),
        )
        return RawData(public, facts, private)

    def _read_table(self, card: TableCard) -> "RawData":
        """Read a table."""
        if self.public is not None or self.share is not None:
            raise RequestError("a table has no public part: leave --public and --public-share out.")
        table = read_table(_first(self.held.data, self.data), card, units=_first(self.held.units, self.units))
        by_column = self.held.units is None and self.units is not None and not _in_npz(self.units)
        how = "none" if self.units is None else "column" if by_column else "position"
        return RawData(
            None,
            DataFacts(
                public=NO_PUBLIC,
                units={"matched": how},
                identity=identify_table(table),
                notes=(*table.notes, *_without_id(table)),
            ),
            table,
        )

    def read_public(self, card: DataCard) -> tuple[Records | None, dict[str, Any]]:
        """Return the public records, None where there are none, and what the settings say of them.

        Raises:
            RequestError: if they cannot be read, or contradict the card.
        """
        if self.public is None:
            return None, NO_PUBLIC
        _fits_the_classes(self.public, card)
        public = self._read_public(_first(self.held.public, self.public), card)
        check(public, card, where=self.public)
        name, count = Path(self.public).name, len(public)
        return public, {"kind": "records", "name": name, "count": count, "sha256": fingerprint(public)}

    def _read_public(self, public: Data, card: DataCard) -> Records:
        """Read the public records. Messages name the --public options in place of those for --data."""
        try:
            return read(
                public, split="train", images_key=self.public_images_key, labels_key=self.public_labels_key,
                unit_folders=self.units == FOLDERS, called="public", **card.reading,
            )  # fmt: skip
        except DataError as error:
            raise DataError(_KEY.sub("--public-", error.args[0])) from None

    @classmethod
    def of(
        cls,
        data: Data,
        *,
        kind: Kind = "pictures",
        public: Data | None = None,
        units: Data | None = None,
        **other: Any,
    ) -> "DataSources":
        """Return sources that name the same files from any working folder, and hold what is in memory.

        Args:
            data: the private records.
            kind: what the card describes. The units of a table may be a column.
            public: the public records.
            units: the ids of units.
            other: further fields.
        """
        if data is None:
            raise RequestError(f"data is missing. It is {FORMS}.")
        held = Held.of(data=data, public=public, units=own_units(data) if units is None else units)
        return cls(
            data=_absolute(data),
            public=None if public is None else _absolute(public),
            units=IN_MEMORY if held.units is not None else None if units is None else _absolute_units(str(units), kind),
            held=held,
            **other,
        )

    @classmethod
    def elsewhere(cls, name: str, *, public: str | Path | None) -> "DataSources":
        """Name records that others hold; the public ones are here."""
        return cls(data=name, public=None if public is None else _absolute(public))

    @classmethod
    def from_json(cls, stated: dict[str, Any]) -> "DataSources":
        """Return the sources that a run folder keeps.

        Raises:
            RunFolderError: if they are missing, or of a version that picked public records by their positions.
        """
        texts = all(isinstance(value, str | int | float | None) for value in stated.values())
        if not texts or not isinstance(stated.get("data"), str):
            raise RunFolderError(
                "the private folder of this run does not say where its records are any more. Restore it from a copy, or "
                "delete an unfinished run with `gossamer discard`."
            )
        if not set(stated) <= {entry.name for entry in dataclasses.fields(cls)} - {"held"}:
            raise RunFolderError(
                "this run began under an earlier version, which chose public records in another way. Start a new run."
            )
        return cls(**stated)


@dataclass(frozen=True, kw_only=True)
class DataFacts:
    """What is known of the records besides themselves. Only `public` and `units` go into files that leave.

    Args:
        public: what the settings say of the public records; the certificate quotes it.
        units: what the settings say of units.
        identity: digests of all records of `data`. For private files only.
        notes: what the readers converted and what looks wrong. For the terminal only.
        one_shade: whether nearly every private picture has one shade. For the terminal only.
    """

    public: dict[str, Any]
    units: dict[str, Any]
    identity: Identity
    notes: tuple[str, ...] = ()
    one_shade: bool = False

    def refuse_others(self, source_json: dict[str, Any], sources: DataSources) -> None:
        """Refuse to go on with other records than those that a run began with.

        Raises:
            DataError: if they are others.
            RunFolderError: if the run began under a version whose digest cannot be compared.
        """
        if "records" not in source_json:
            raise RunFolderError(
                "this run began under an earlier version, so Gossamer cannot check whether its records are still the "
                "same. Start a new run; the cost of this one stays in the budget log."
            )
        if self.identity.fingerprint != source_json["records"]:
            raise DataError(
                f"{sources.data} is not what it was when the run began. Restore the records, or start a new run."
            )


@dataclass(frozen=True)
class PublicData:
    """The public records, or None, and what is known of all records."""

    public: Records | None
    facts: DataFacts


@dataclass(frozen=True)
class LoadedData(PublicData):
    """What a run has of its data: the records to protect are isolated.

    Args:
        sources: where the records are, for other ranks; None: other ranks cannot read them.
    """

    private: Confined[Any]
    sources: DataSources | None = None


@dataclass(frozen=True)
class RawData(PublicData):
    """The same before the private records are isolated."""

    private: Any
    """Records, or a Table."""

    def confine(self, ledger: PrivacyLedger, ranks: Ranks = ALONE) -> LoadedData:
        """Isolate the private records. ledger: records the cost of every query to them."""
        return LoadedData(self.public, self.facts, Confined(self.private, ledger, ranks))


def split_public(records: Records, share: float, salt: str) -> tuple[Records, Records]:
    """Split into the public part and the private part, by whole units. The private part may be empty.

    Raises:
        RequestError: if no unit is in the public part. That follows from the public part alone.
    """
    public = made_public(records, share=share, salt=salt)
    if not public.any():
        raise RequestError(f"--public-share {share:g}: no unit is in the public part. Give a larger share.")
    return records.take(np.flatnonzero(public)), records.take(np.flatnonzero(~public))


def _without_id(private: Grouped) -> tuple[str, ...]:
    """A note on records that no id protects together with others."""
    if not private.without_id:
        return ()
    return (f"Records without an id: {private.without_id:,}. Each counts as a unit of its own, as the card says.",)


def _fits_the_classes(public: str, card: DataCard) -> None:
    """Refuse embedded digits as the public records of other classes, with a RequestError. Reads no record."""
    name = split_of(public)[0]
    if name not in EMBEDDED or (card.classes >= len(DIGITS) and set(DIGITS) <= {*(card.class_names or DIGITS)}):
        return
    names = f", called {listed(card.class_names)}" if card.class_names else ""
    raise RequestError(
        f"--public {public}: these are the ten digits 0 to 9, and the card declares {card.classes} classes{names}. Give "
        "pictures of your classes with --public, or --public-share, or leave it out. If your classes are the digits, "
        "declare ten, and call them 0 to 9 in class_names or leave that out."
    )


def _one_source(sources: DataSources) -> bool:
    """Whether data and public are one source, also by another path, through a link, or with and without its split."""
    if sources.held.data is not None or sources.held.public is not None:
        return sources.held.data is sources.held.public
    data, public = sources.data, str(sources.public)
    (one, split), (other, other_split) = split_of(data), split_of(public)
    if (split or "train") != (other_split or "train"):
        return False
    if one in EMBEDDED or other in EMBEDDED:
        return one == other
    try:
        return Path(one).samefile(other)
    except OSError:  # one of them is missing: the reader says so
        return False


def _first(held: MapStyle | None, place: Any) -> Any:
    """Return records in memory, or where there are none the place."""
    return place if held is None else held


def _in_npz(units: str) -> bool:
    """Whether the units of a table are FILE.npz:KEY, and no column."""
    file, colon, _ = units.rpartition(":")
    return bool(colon) and Path(file).is_file()


def _absolute_units(units: str, kind: Kind) -> str:
    """Return a source of units that names the same file from any working folder. A column of a table stays as it is."""
    if kind == "table" and not _in_npz(units):
        return units
    is_place = matched(units) in ("name", "position") and not units.startswith(":")
    return str(Path(units).absolute()) if is_place else units


def _absolute(source: Data) -> str:
    """Return a source that names the same file from any working folder. Names of embedded data stay as they are."""
    if not is_place(source):
        return IN_MEMORY
    path, split = split_of(str(source))
    if path in EMBEDDED:
        return str(source)
    return f"{Path(path).resolve()}:{split}" if split else str(Path(path).resolve())
