"""Where a run's records come from, and whether they are still the same.

The file is long because nothing else holds raw records: they are read and isolated here.
"""

import dataclasses
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.data.card import DataCard, check, check_units
from gossamer.data.fingerprint import SALT, Identity, identify, made_public, share_a_picture
from gossamer.data.labels import listed
from gossamer.data.memory_mapped import remarks
from gossamer.data.records import Records
from gossamer.data.source import Address, Data, Source, called, is_place, source_of, split_of
from gossamer.data.sources.pictures.in_memory import FORMS
from gossamer.data.sources.pictures.read import DIGITS, EMBEDDED, read
from gossamer.data.sources.tables import file_of
from gossamer.data.tables.any_card import AnyCard
from gossamer.data.units import Grouped, matched, names_a_file
from gossamer.errors import DataError, RequestError, RunFolderError
from gossamer.events import Sink, silent
from gossamer.kinds import kind_of, kind_of_records
from gossamer.privacy.certificate.statements import NO_PUBLIC
from gossamer.privacy.confined import Confined
from gossamer.privacy.distributed import ALONE, Ranks
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng

_KEY = re.compile("`(?=(images|labels)_key)")
IN_MEMORY = "records in memory"
"""What a run folder says of records that a program passed to `fit`. `resume` needs them again."""


@dataclass(frozen=True, kw_only=True)
class DataSources:
    """Where records come from. Private: kept in the checkpoint folder, never released.

    Args:
        data: the private records.
        name: what messages and the budget log call them: their path. For records in memory a random name, because a digest
            would confirm a guess.
        public: public records, or None.
        share: the share of `data` that is made public, in place of `public`; None: none of it.
        in_memory: which of `data`, `public` and `units` were in the memory of the process that began the run.
        only_counts: the records are only counted, see `Kind.counted`.
    """

    data: Source
    name: str
    public: Source | None = None
    share: float | None = None
    in_memory: tuple[str, ...] = ()
    only_counts: bool = False

    @classmethod
    def of(cls, data: Data, *, public: Data | None = None, share: float | None = None) -> "DataSources":
        """Return sources that name the same files from any working folder."""
        if data is None:
            raise RequestError(f"data is missing. It is {FORMS}.")
        private, other = _absolute(data), None if public is None else _absolute(public)
        name = called(private, f"{IN_MEMORY} {secrets.token_hex(4)}")
        return cls(data=private, name=name, public=other, share=share, in_memory=_in_memory(private, other))

    @classmethod
    def elsewhere(cls, name: str, *, public: Data | None) -> "DataSources":
        """Name records that others hold; the public ones are here."""
        return cls(data=Source(None), name=name, public=None if public is None else _absolute(public))

    def to_json(self) -> dict[str, Any]:
        """Return where the records are, without what is in memory."""
        public = None if self.public is None else _to_json(self.public)
        return {
            "data": _to_json(self.data), "name": self.name, "public": public, "share": self.share, "in_memory": self.in_memory
        }  # fmt: skip

    @classmethod
    def from_json(cls, stated: dict[str, Any]) -> "DataSources":
        """Return the sources that a run folder keeps.

        Raises:
            RunFolderError: if they are missing or damaged.
        """
        try:
            public, memory = stated["public"], tuple(stated["in_memory"])
            known = all(each in ("data", "public", "units") for each in memory)
            if not known or not isinstance(stated["name"], str) or not isinstance(stated["share"], float | None):
                raise TypeError
            sources = {"data": _from_json(stated["data"]), "public": None if public is None else _from_json(public)}
            return cls(**{**stated, **sources, "in_memory": memory})
        except (KeyError, TypeError):
            raise RunFolderError(
                "the private folder of this run does not say where its records are any more. Restore it from a copy, or "
                "delete an unfinished run with `gossamer.discard`."
            ) from None

    def with_memory(self, data: Data | None, public: Data | None) -> "DataSources":
        """Return the same with the records in memory that a resumed run needs again.

        Raises:
            RequestError: if it needs others, or none.
        """
        given = {name: _absolute(each) for name, each in (("data", data), ("public", public)) if each is not None}
        here = _in_memory(given.get("data"), given.get("public"))
        if missing := [name for name in self.in_memory if name not in here]:
            again = [] if self.in_memory == ("public",) else ["data=..."]
            if "units" in self.in_memory:
                again = ["data=gossamer.Source(..., units=...)"]
            if "public" in self.in_memory:
                again.append("public=...")
            raise RequestError(
                f"The {' and '.join(missing)} of this run were in memory. Pass the same records again from Python: "
                f"gossamer.resume(run, {', '.join(again)})."
            )
        began = {"data": self.data.records, "units": self.data.units, "public": self.public and self.public.records}
        others = [name for name in here if name not in self.in_memory]
        others += [name for name, source in given.items() if is_place(source) and source.records != began[name]]
        if others:
            place = f"from {began[others[0]]}" if began[others[0]] is not None else "nowhere"
            raise RequestError(f"This run has its {others[0]} {place}. Leave {others[0]} out.")
        private, other = self.data, self.public
        if "data" in given:
            units = given["data"].ids if "units" in here else private.units
            private = dataclasses.replace(private, records=given["data"].records, units=units)
        if other is not None and "public" in given:
            other = dataclasses.replace(other, records=given["public"].records)
        return dataclasses.replace(self, data=private, public=other)

    def refuse_gone(self) -> None:
        """Refuse records that are gone, with a DataError that names the place."""
        for source in (self.data, self.public):
            place = split_of(str(source.records))[0] if source is not None and is_place(source) else None
            if place is None or place in EMBEDDED or Address.of(place):
                continue
            if not file_of(place)[0].exists():
                raise DataError(
                    f"{place}: the records of this run are gone. Put them back (a link will do), and resume again."
                )

    def read(
        self, card: AnyCard, ledger: PrivacyLedger, rng: Rng, ranks: Ranks = ALONE, *, sink: Sink = silent
    ) -> "LoadedData":
        """Read the records, check them against the card, and isolate the private ones.

        Args:
            card: the public facts.
            ledger: records the cost of every query to the private records.
            rng: where queries take their sampling and their noise from.
            ranks: the processes that hold the other parts of the records.
            sink: takes the progress of reading.

        Raises:
            RequestError: if the records cannot be read, contradict the card, or are private and public at once.
        """
        return dataclasses.replace(self.read_unconfined(card, sink=sink).confine(ledger, rng, ranks), sources=self)

    def read_unconfined(self, card: AnyCard, *, sink: Sink = silent) -> "RawData":
        """Read the same without isolating it: for a simulation, which splits the records among its clients."""
        check_units(card, self.data.ids, where=self.name)
        if not card.has_public and (self.public is not None or self.share is not None):
            raise RequestError(f"{card.in_words} has no public part: leave `public` and `public=SHARE` out.")
        if self.public is not None and _one_source(self.data, self.public):
            raise RequestError(
                "`public` and `data` name the same records, and public records have no protection. Give records of "
                "other people, or make a part of `data` public with `public=SHARE`."
            )
        public, stated = self.read_public(card)
        kind = kind_of(card)
        records = kind.read(self.data, card, sink=sink) if not self.only_counts else kind.counted(self.data, card)
        private, notes = records, records.notes
        if self.share is not None:
            public, private = split_public(records, self.share, SALT)
            stated = {"kind": "share", "share": self.share, "salt": SALT}
            notes = tuple(sorted({*records.notes, *remarks(private.images)}))
        elif public is not None and share_a_picture(records, public):
            raise DataError(
                "`public`: at least one of these pictures is among the private records too, where it has no protection. Leave "
                "it out of `data`, or give other public records. Gossamer does not say which it is: that would leak "
                "information about private records."
            )
        elif public is not None:
            notes = (*notes, *(f"`public`: {note}" for note in public.notes))
        facts = DataFacts(
            public=stated,
            units={"matched": kind.matched(self.data.ids), **kind.engine(records)},
            identity=kind.identify(records),
            notes=(*notes, *_without_id(private), *kind.doubts(private, public, card)),
            one_shade=kind.is_one_shade(private),
        )
        return RawData(public, facts, private)

    def read_public(self, card: Any) -> tuple[Records | None, dict[str, Any]]:
        """Return the public records, None where there are none, and what the settings say of them.

        Raises:
            RequestError: if they cannot be read, or contradict the card. Messages name the --public options.
        """
        if self.public is None:
            return None, NO_PUBLIC
        where = called(self.public, IN_MEMORY)
        _fits_the_classes(where, card)
        how = dataclasses.replace(card.reading, unit_folders=matched(self.data.units) == "folder")
        try:
            public = read(self.public, how, called="public")
        except DataError as error:
            raise DataError(_KEY.sub("`public.", error.args[0])) from None
        check(public, card, where=where)
        return public, {
            "kind": "records",
            "name": Path(where).name,
            "count": len(public),
            "sha256": identify(public).fingerprint,
        }


@dataclass(frozen=True)
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

    def refuse_others(self, config_json: dict[str, Any], source_json: dict[str, Any], *, name: str) -> None:
        """Refuse to go on with other records than those that a run began with.

        Args:
            config_json: its public settings.
            source_json: its private sources.
            name: what messages call the private records.

        Raises:
            DataError: if they are others.
        """
        if self.identity.fingerprint != source_json.get("records"):
            raise DataError(f"{name} is not what it was when the run began. Restore the records, or start a new run.")
        if self.public != config_json["public"]:
            raise DataError("`public` is not what it was when the run began. Restore the records, or start a new run.")


@dataclass(frozen=True)
class LoadedData:
    """What a run has of its data: the public records, or None, the facts, and the records to protect, which are isolated.

    Args:
        sources: where the records are, for other ranks; None: other ranks cannot read them.
    """

    public: Records | None
    facts: DataFacts
    private: Confined[Any]
    sources: DataSources | None = None


@dataclass(frozen=True)
class RawData:
    """The same before the private records, or a `Table`, are isolated."""

    public: Records | None
    facts: DataFacts
    private: Any

    def confine(self, ledger: PrivacyLedger, rng: Rng, ranks: Ranks = ALONE) -> LoadedData:
        """Isolate the private records. See `Confined`."""
        return LoadedData(self.public, self.facts, Confined(self.private, ledger, rng, ranks))


def split_public(records: Records, share: float, salt: str) -> tuple[Records, Records]:
    """Split into the public part and the private part, by whole units. The private part may be empty.

    Raises:
        RequestError: if no unit is in the public part. That follows from the public part alone.
    """
    public = made_public(records, share=share, salt=salt)
    if not public.any():
        raise RequestError(f"`public={share:g}`: no unit is in the public part. Give a larger share.")
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
        f"`public={public}`: these are the ten digits 0 to 9, and the card declares {card.classes} classes{names}. Give "
        "pictures of your classes with `public`, or `public=SHARE`, or leave it out. If your classes are the digits, "
        "declare ten, and call them 0 to 9 in class_names or leave that out."
    )


def _one_source(data: Source, public: Source) -> bool:
    """Whether data and public are one source, also by another path, through a link, or with and without its split."""
    if not (is_place(data) and is_place(public)):
        return data.records is public.records
    (one, split), (other, other_split) = split_of(str(data.records)), split_of(str(public.records))
    if (split or "train") != (other_split or "train"):
        return False
    if one in EMBEDDED or other in EMBEDDED:
        return one == other
    try:
        return Path(one).samefile(other)
    except OSError:  # one of them is missing: the reader says so
        return False


def _in_memory(data: Source | None, public: Source | None) -> tuple[str, ...]:
    """Which of the records and the units are in memory."""
    private, ids = (None, None) if data is None else (data.records, data.ids)
    values = {"data": private, "public": None if public is None else public.records, "units": ids}
    return tuple(name for name, value in values.items() if value is not None and not is_place(value))


def _to_json(source: Source) -> dict[str, Any]:
    """Return a source as text, without what is in memory."""
    units = source.units if isinstance(source.units, str) else None
    place = str(source.records) if is_place(source) else None
    return {"records": place, "images_key": source.images_key, "labels_key": source.labels_key, "units": units}


def _from_json(stated: dict[str, Any]) -> Source:
    """The inverse of `_to_json`. Raises TypeError."""
    if not isinstance(stated, dict) or not all(isinstance(value, str | None) for value in stated.values()):
        raise TypeError
    return Source(**stated)


def _absolute(data: Data) -> Source:
    """Return a source that names the same files from any working folder. Embedded data and columns keep their names."""
    source = source_of(data)
    units, records = source.units, source.records
    if names_a_file(units) and kind_of_records(source).matched(units) != "column":
        units = str(Path(units).absolute())
    if is_place(source) and not Address.of(records):
        path, split = split_of(str(records))
        file, inside = file_of(path)
        resolved = path if path in EMBEDDED else f"{file.resolve()}{inside}"
        records = f"{resolved}:{split}" if split else resolved
    return dataclasses.replace(source, records=records, units=units)
