"""Linked tables, such as patients and their visits: the kind `LINKED`."""

import csv
import itertools
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.attacks.arrays import Array
from gossamer.attacks.density import domias
from gossamer.attacks.rows import row_features
from gossamer.data.fingerprint import Identity
from gossamer.data.source import Source
from gossamer.data.tables.decode import to_numbers
from gossamer.data.tables.linked.card import LinkedCard
from gossamer.data.tables.linked.read import LinkedRecords, identify_linked, places, read_linked
from gossamer.data.tables.linked.samples import SHOWN, UNITS, LinkedSamples
from gossamer.data.tables.samples import row_texts
from gossamer.data.tables.table import Table
from gossamer.errors import DataError, RequestError
from gossamer.events import Sink, silent
from gossamer.kinds import histograms
from gossamer.kinds.kind import NONE_LEFT, Comparison, Kind, Named, Target, Words
from gossamer.kinds.score import right_and_wrong
from gossamer.kinds.tables import JUDGE, JUDGED, TABLES, by_distances, can_judge, judge_of
from gossamer.methods.contract import BaseConfig, State
from gossamer.methods.job import Job
from gossamer.methods.synthesizer import Synthesizer
from gossamer.metrics import linked
from gossamer.metrics.tables.registry import Inputs

_DRAWN_AGAIN = 20_000
"""Units of a release that are drawn again, at most."""


class Linked(Kind[LinkedRecords, LinkedCard]):
    """Tables with keys, as a card declares them. A unit is a row of the root with all rows below it."""

    name = "linked"
    in_words = "linked tables"
    counts_units = True
    metrics = linked.METRICS
    options = ()
    words = Words(
        records="linked tables",
        loads="""import load  # load.py of this folder, which needs Python alone
tables = load.load()  # the rows of each table in samples.zip, as dicts, by its name""",
        with_gossamer="""import gossamer  # installed from its source
release = gossamer.Synthesizer.load(".")
samples = release.sample(1000, seed=0)  # samples.to_pandas() is a dict of a DataFrame for each table""",
    )

    def read(
        self, source: Source, card: LinkedCard, *, split: Any = "train", name: str = "data", sink: Sink = silent
    ) -> LinkedRecords:
        """The parts of all tables, as codes."""
        return read_linked(source, card, split=split, called=name)

    def identify(self, records: LinkedRecords) -> Identity:
        """By codes, units and rows as they were read."""
        return identify_linked(records)

    def matched(self, units: Any) -> str:
        """By the keys."""
        return "keys"

    def columns(self, source: Source, *, name: str, header: bool | None) -> list[str]:
        """Those that each table has."""
        first, *others = (TABLES.columns(each, name=at, header=header) for at, each in _sources(source).items())
        return [column for column in first if all(column in own for own in others)]

    def glance(self, source: Source, draft: Mapping[str, Any]) -> dict[str, Any]:
        """tables: what is shown of each table, by name."""
        drafts = draft["table"]
        return {"tables": {at: TABLES.glance(each, drafts.get(at, {})) for at, each in _sources(source).items()}}

    def splits_into_folder(self, path: Path) -> bool:
        """A folder on each side."""
        return True

    # ------------------------------------------------------------------ evaluate

    def compare(self, asked: Comparison, sink: Sink) -> linked.Inputs:
        """Real tables and samples as parts. Samples are read again as they are written."""
        if asked.card is None:
            raise RequestError(f"{asked.synth} holds linked tables: give their card with `card`.")
        drawn: Any = None if asked.synthesizer is None else self.drawn(asked.synthesizer, asked.count, asked.seed)
        return self.compared(asked, Source(asked.synth) if drawn is None else Source(drawn.columns()), drawn, sink)

    def compared(self, asked: Comparison, samples: Source, drawn: Any, sink: Sink) -> linked.Inputs:
        """The same of samples in a place or in memory. drawn: as a generator gives them, or None."""
        card: LinkedCard = asked.card
        sets = {"real": asked.train, "tests": asked.test}
        read = {
            name: self.read(source, card, split=split, name=where)
            for (name, source), split, where in zip(sets.items(), ("train", "test"), asked.called, strict=True)
        }
        if self.identify(read["real"]).mark == self.identify(read["tests"]).mark:
            raise DataError("`test`: these are the training rows. Give units that the run never saw.")
        read["samples"] = self.read(samples, card, name="samples")
        baselines = self.baselines(asked, read["real"], read["tests"])
        shared: Any = {"seed": asked.seed, "sink": sink, "baselines": baselines}
        parts = {}
        for at, part in enumerate(card.parts):
            tables = {name: records.parts[at] for name, records in read.items()}
            values = {name: to_numbers(each.codes, part.card, seed=0) for name, each in tables.items()}
            own = linked.PartSamples(tables["samples"], part.card)
            parts[part.name] = Inputs(samples=own, real=tables["real"], tests=tables["tests"], values=values, **shared)
        links, notes = _links(drawn, read["samples"], card), (*read["real"].notes, *read["tests"].notes)
        every: Any = read | shared
        return linked.Inputs(card=card, parts=parts, links=links, remarks=notes, **every)

    def scored(self, job: Job[BaseConfig, State]) -> dict[str, Any]:
        """As of a table, for the first table with such a label."""
        at = _with_label(job.card)
        return {"judge": f"{JUDGE} of table {job.card.names[at]}"} if at >= 0 else {}

    def judged(self, card: LinkedCard, records: LinkedRecords) -> Table:
        """The rows of that table."""
        return records.parts[_with_label(card)]

    def score(self, synthesizer: Synthesizer, *, cells: int, sink: Sink) -> tuple[Callable[[Table], Array], Array]:
        """A row counts with the columns of its part."""
        card = synthesizer.card
        drawn = read_linked(Source(self.drawn(synthesizer, UNITS, seed=0).columns()), card, called="samples")
        judge = judge_of(self.judged(card, drawn).codes[:JUDGED], card.parts[_with_label(card)].card)
        return right_and_wrong(judge), np.empty(0)

    # ------------------------------------------------------------------ attack

    def apart(self, inside: LinkedRecords, outside: LinkedRecords) -> tuple[LinkedRecords, str]:
        """Units with the key of a member are left out."""
        assert inside.names is not None and outside.names is not None
        known = np.isin(outside.names, inside.names)
        if known.all():
            raise DataError(NONE_LEFT)
        said = f"Units that are among the members were left out of the non-members: {known.sum():,}."
        return outside[np.flatnonzero(~known)], said if known.any() else ""

    def array(self, records: LinkedRecords, card: LinkedCard) -> Array:
        """Features of each unit [n, D]: means over its rows in each table."""
        found = []
        for part, table in zip(card.parts, records.parts, strict=True):
            rows = row_features(table.codes, part.card.domain, [column.in_order for column in part.card.columns])
            assert table.units is not None
            counts = np.bincount(table.units, minlength=len(records))
            sums = np.zeros((len(records), rows.shape[1]), np.float32)
            np.add.at(sums, table.units, rows)
            found.append(sums / np.maximum(counts, 1)[:, None])
        return np.concatenate(found, axis=1)

    def attacks(self, target: Target) -> Iterator[Named]:
        """By distances and by densities, of units."""
        card = target.synthesizer.card
        drawn = read_linked(Source(target.samples.columns()), card, called="samples")
        sets = [drawn, target.members, target.nonmembers, target.held_out]
        samples, members, nonmembers, held_out = (self.array(each, card) for each in sets)
        few = min(10, len(held_out) // 4, int(np.linalg.matrix_rank(held_out - held_out.mean(axis=0))))
        yield from by_distances(samples, members, nonmembers, held_out)
        yield "DOMIAS", lambda: [domias(samples, members, nonmembers, held_out, components=few)]

    # ------------------------------------------------------------------ what leaves

    def picture(self, synthesizer: Synthesizer[Any]) -> bytes:
        """A histogram of each column of all tables."""
        return histograms.png(*(rows.samples for rows in synthesizer.sample(UNITS, seed=0).tables.values()))

    def page(self, synthesizer: Callable[[], Synthesizer[Any]]) -> dict[str, Any]:
        """The first rows of the last table."""
        *_, rows = synthesizer().sample(SHOWN, seed=0).tables.values()
        names = [column.name for column in rows.samples.card.written]
        return {"rows": [names, *map(list, row_texts(rows.samples[:10]))], "model": None}

    def first_rows(self, folder: Path, count: int) -> dict[str, list[list[str]]]:
        """Those of each table."""
        path = folder / LinkedSamples.file
        tables = _members(path) if path.is_file() else {}
        return {name: [*csv.reader(map(bytes.decode, lines[:count]))] for name, lines in tables.items()}

    def sample_count(self, path: Path) -> int:
        """The number of units."""
        return len(next(iter(_members(path).values()))) - 1

    def same_samples(self, path: Path, pieces: Iterator[Any], count: int) -> tuple[int, bool]:
        """The first rows of each table are compared as text, and the end if they are all."""
        few = list(itertools.islice(pieces, _DRAWN_AGAIN // UNITS))
        drawn = sum(map(len, few))
        with tempfile.TemporaryDirectory() as scratch:
            again = Path(scratch) / path.name
            LinkedSamples.write(again, few, count=drawn)
            expected, there = _members(again), _members(path)
        ends = drawn >= count
        same = expected.keys() == there.keys() and all(
            own[: len(lines)] == lines and (not ends or len(own) == len(lines))
            for own, lines in zip(there.values(), expected.values(), strict=True)
        )
        return drawn, same

    def described(self, card: Mapping[str, Any]) -> str:
        """The tables."""
        return f"{card['unit']}s with rows in {len(card['table'])} linked tables"


LINKED = Linked()


def _sources(source: Source) -> dict[str, Source]:
    """Each table, by name."""
    return {name: Source(place) for name, place in (places(source) or {}).items()}


def _with_label(card: LinkedCard) -> int:
    """The position of the first table with a label of a few values; -1: there is none."""
    return next((at for at, part in enumerate(card.parts) if can_judge(part.card)), -1)


def _members(path: Path) -> dict[str, list[bytes]]:
    """The lines of each .csv in an archive, the table of the units first. Raises DataError: it is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name).splitlines() for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{path}: this is no archive of tables ({type(error).__name__})") from None


def _links(drawn: Any, read: LinkedRecords, card: LinkedCard) -> tuple[int, int, int]:
    """Rows of samples, those without a parent, and those before the row before."""
    if drawn is None:  # a file, whose keys were checked as it was read
        return sum(map(len, read.parts)), 0, 0
    rows = lost = wrong = 0
    for table in card.tables:
        own = drawn.tables[table.name]
        rows += len(own.keys)
        if own.parent_keys is not None:
            lost += int((~np.isin(own.parent_keys, drawn.tables[table.parent].keys)).sum())
        if table.order:
            values = own.samples.columns()[table.order]
            same = own.parent_keys[1:] == own.parent_keys[:-1]
            wrong += int((same & (values[1:] < values[:-1])).sum())
    return rows, lost, wrong
