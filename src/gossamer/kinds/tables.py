"""Tables of values, the kind `TABLES`."""

import csv
import dataclasses
import itertools
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np

from gossamer.attacks.arrays import Array
from gossamer.attacks.density import domias
from gossamer.attacks.distances import calibrated, full_black_box, near_copies
from gossamer.attacks.marginals import MOST_CELLS, frequencies, marginal_ratios
from gossamer.attacks.rows import most_isolated, row_features
from gossamer.attacks.scores import Attack
from gossamer.data.card import check_units
from gossamer.data.fingerprint import Identity
from gossamer.data.source import Source, called
from gossamer.data.sources.tables import open_table
from gossamer.data.sources.text_file import rows_of
from gossamer.data.tables.by_engine import TableByEngine
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.decode import to_numbers
from gossamer.data.tables.read import read_table, read_values
from gossamer.data.tables.samples import ROWS, SHOWN, TableSamples, row_texts, write_csv
from gossamer.data.tables.table import Table, identify
from gossamer.data.units import matched, names_a_file
from gossamer.errors import DataError, RequestError
from gossamer.events import Sink, silent
from gossamer.kinds import cliques, histograms
from gossamer.kinds.kind import NONE_LEFT, Comparison, Kind, Named, Target, Words, left_after
from gossamer.kinds.score import cells_of, right_and_wrong
from gossamer.methods.contract import BaseConfig, State
from gossamer.methods.job import Job
from gossamer.methods.marginals.nets import MarkovField
from gossamer.methods.synthesizer import Synthesizer
from gossamer.metrics.tables import boosting, registry
from gossamer.metrics.tables.rows import Rows
from gossamer.metrics.tables.subgroups import chosen_columns

ISOLATED = "the most isolated tenth"
_OF_ISOLATED = "The same attack on the tenth of the records that are least like other records."
_CODED = (
    "Real rows are codes, so their numbers follow from the bins of the card. Give the table itself to compare values."
)
_GLANCED, _FIRST, _BARS, _NAMED = 10_000, 5, 16, 3
"""Of a table that the owner looks at: rows that portraits are of, and rows, bars and values that are shown."""
JUDGED = 20_000
"""Rows from which the judge of a score learns. It takes seconds."""
JUDGE = f"gradient boosting trained on {JUDGED:,} samples"
DRAWN_AGAIN = 100_000
"""Rows of a release that are drawn again, at most."""


def can_judge(card: TableCard) -> bool:
    """Whether there is a label of a few values."""
    label = card.label_index
    return label is not None and 1 < card.columns[label].size <= boosting.MOST_VALUES


def by_distances(samples: Array, members: Array, nonmembers: Array, held_out: Array) -> Iterator[Named]:
    """The attacks by distances. Each takes features [n, D]."""
    yield "GAN-Leaks, full black-box", lambda: [full_black_box(samples, members, nonmembers)]
    yield "GAN-Leaks, calibrated", lambda: [calibrated(samples, members, nonmembers, held_out)]
    yield "near-copies", lambda: [near_copies(samples, members, nonmembers).excess]


def judge_of(codes: Array, card: TableCard) -> Callable[[Table], Array]:
    """Whether a model that learns from the codes of samples says the label of a row."""
    label, rows = card.names.index(str(card.label)), Rows.of(codes)
    train = boosting.Examples.of(rows, rows.codes.astype(np.float64), card)

    def is_right(records: Table) -> Array:
        features = np.delete(records.codes, label, axis=1).astype(np.float64)
        chances = boosting.probabilities(train, features, classes=card.columns[label].size, seed=0)
        return np.asarray(chances.argmax(axis=1) == records.codes[:, label])

    return is_right


class Tables(Kind[Table, TableCard]):
    """Rows of codes int16 [N, columns], as a card declares them."""

    name = "table"
    in_words = "a table"
    counts_units = True
    metrics = registry.METRICS
    options = ("subgroups",)
    words = Words(
        records="rows",
        loads="""import load  # load.py of this folder, which needs NumPy alone
release = load.load()
columns = release.sample(1000, seed=0)  # a dict of arrays [1000] by column, as pandas.DataFrame takes it""",
        with_gossamer="""import gossamer  # installed from its source
release = gossamer.Synthesizer.load(".")
samples = release.sample(1000, seed=0)  # samples.to_pandas() is a DataFrame, samples.columns() a dict of arrays""",
        in_terminal=" In a terminal, `python load.py rows.csv 1000` writes 1,000 rows.",
    )

    def read(
        self, source: Source, card: TableCard, *, split: Any = "train", name: str = "data", sink: Sink = silent
    ) -> Table:
        """Rows as codes of the card's columns."""
        return read_table(source, card, split=split, called=name)

    def counted(self, source: Source, card: TableCard) -> Table:
        """Rows with weights, in constant memory."""
        return read_table(source, card, only_counts=True)

    def engine(self, records: Any) -> dict[str, str]:
        """Its name and version."""
        return {"counted_by": records.session.name} if isinstance(records, TableByEngine) else {}

    def identify(self, records: Table) -> Identity:
        """By codes and units."""
        return identify(records)

    def matched(self, units: Any) -> str:
        """By a column, or by position. A column may be called like a CSV file, which lists units of pictures alone."""
        in_file = names_a_file(units) and matched(units) != "name"
        return "none" if units is None else "column" if isinstance(units, str) and not in_file else "position"

    def columns(self, source: Source, *, name: str, header: bool | None) -> list[str]:
        """As in the first line of the training part."""
        return open_table(source.records, split="train", where=name, header=header).names

    def glance(self, source: Source, draft: Mapping[str, Any]) -> dict[str, Any]:
        """rows: the names and the first rows, as texts. portraits: each column by the first `of` rows, see `_portrait`."""
        relation = open_table(source.records, split="train", where=called(source, "data"), header=draft.get("header"))
        _, columns = next(relation.blocks(range(len(relation.names))))
        cells = [["" if cell is None else str(cell) for cell in column[:_GLANCED].to_pylist()] for column in columns]
        first = zip(*(column[:_FIRST] for column in cells), strict=True)
        portraits = list(map(_portrait, relation.names, cells))
        return {"rows": [relation.names, *first], "portraits": portraits, "of": len(cells[0])}

    def splits_into_folder(self, path: Path) -> bool:
        """A file on each side."""
        return True

    # ------------------------------------------------------------------ evaluate

    def compare(self, asked: Comparison, sink: Sink) -> registry.Inputs:
        """All encoded by one card. Values are read again as numbers. Of codes in memory, they follow from the card."""
        card: TableCard | None = asked.card
        if card is None:
            raise RequestError(
                f"{asked.synth} is a table: give its card with `card`. `gossamer.draft_card` drafts one."
            )
        sets = {"train": asked.train, "test": asked.test}
        for source, where in zip(sets.values(), asked.called, strict=True):
            check_units(card, source.ids, where=where)
        named = asked.measures.subgroups
        subgroups = () if named is None else tuple(name.strip() for name in named.split(","))
        chosen_columns(subgroups, card.columns)
        if asked.synthesizer is None:
            samples = TableSamples(read_table(Source(asked.synth), card).codes, card)
        else:
            samples = self.drawn(asked.synthesizer, asked.count, asked.seed)
        real, tests = (self.read(source, card, split=name, name=name) for name, source in sets.items())
        if _same(real, tests):
            raise DataError(
                "`test`: these are the training rows. Give rows that the run never saw. `gossamer.split` divides a table."
            )
        if asked.synthesizer is None:
            numbers = read_values(asked.synth, card, split="train", called="samples")
        else:
            numbers = to_numbers(samples.codes, card, seed=samples.seed, rows=samples.numbers)
        coded = any(isinstance(source.records, Table) for source in sets.values())
        return registry.Inputs(
            samples=samples, real=real, tests=tests, seed=asked.seed, sink=sink, subgroups=subgroups,
            values={
                "samples": numbers,
                "real": _numbers(asked.train.records, real, card, "train"),
                "tests": _numbers(asked.test.records, tests, card, "test"),
            },
            remarks=(*real.notes, *tests.notes, _CODED if coded else ""),
            baselines=self.baselines(asked, real, tests),
        )  # fmt: skip

    # ------------------------------------------------------------------ score

    def scored(self, job: Job[BaseConfig, State]) -> dict[str, Any]:
        """Counts and quartiles of the columns, and gradient boosting, for a label of a few values."""
        numbers = sum(column.in_order > 0 for column in job.card.columns)
        judge = JUDGE if can_judge(job.card) else ""
        return {"judge": judge, "categories": len(job.card.columns) - numbers, "numbers": numbers}

    def score(self, synthesizer: Synthesizer, *, cells: int, sink: Sink) -> tuple[Callable[[Table], Array], Array]:
        """By codes, so that the values of a bin need not be read again. Categories come before numbers."""
        card = synthesizer.card
        codes = self.drawn(synthesizer, JUDGED, seed=0).codes
        judge = [right_and_wrong(judge_of(codes, card))] if can_judge(card) else []
        order = sorted(range(len(card.columns)), key=lambda at: card.columns[at].in_order > 0)
        parts = {at: cells_of(codes[:, at], card.columns[at].size, card.columns[at].in_order, cells) for at in order}

        def in_cells(rows: Table) -> Array:
            each = [parts[at][rows.codes[:, at]][:, None] == np.arange(cells) for at in order]
            return np.concatenate(each, axis=1)

        drawn = in_cells(Table(codes)).mean(0)
        return lambda rows: np.concatenate([of(rows) for of in (*judge, in_cells)], axis=1), drawn

    # ------------------------------------------------------------------ attack

    def limits(self, card: TableCard) -> tuple[str, ...]:
        """What distances cannot show."""
        return (
            "The distance to the closest record shows nothing by itself. Attacks by densities find members where distances "
            "find none (Yao et al. 2025, The DCR Delusion).",
        )

    def apart(self, inside: Table, outside: Table) -> tuple[Table, str]:
        """Rows of units that are among the members are left out.

        Without units, equal rows tell nothing of who is a member: they need not be of the same person, so they take part. Sets
        are refused where each non-member equals a member, and members seldom equal one another.
        """
        if inside.names is not None and outside.names is not None and outside.units is not None:
            known = np.isin(outside.names[outside.units], inside.names[inside.names != ""])
            said = "Rows of units that are among the members were left out of the non-members: {:,}."
            return left_after(outside, known, said)
        rows, counts = np.unique(inside.codes, axis=0, return_counts=True)
        own = {row.tobytes() for row in rows}
        among = np.mean([row.tobytes() in own for row in np.ascontiguousarray(outside.codes, inside.codes.dtype)])
        twins = counts[counts > 1].sum() / max(1, len(inside))
        if among == 1 and (twins < 0.5 or _same(inside, outside)):
            raise DataError(NONE_LEFT)
        return outside, (
            f"{among:.1%} of the non-members equal a member in all columns, and {twins:.1%} of the members equal another "
            "member. They took part, because equal rows need not be the same record."
        ).replace("%", " %")

    def array(self, records: Any, card: TableCard) -> Array:
        """Features [n, D]."""
        return row_features(records.codes, card.domain, [column.in_order for column in card.columns])

    def attacks(self, target: Target) -> Iterator[Named]:
        """By distances, by densities, and by the marginals that a generator was fitted to.

        Densities and marginals also on the most isolated records, which an average hides.
        """
        card = target.synthesizer.card
        sets = [target.samples, target.members, target.nonmembers, target.held_out]
        samples, members, nonmembers, held_out = (self.array(each, card) for each in sets)
        rank = int(np.linalg.matrix_rank(held_out - held_out.mean(axis=0)))
        few = min(10, len(held_out) // 4, rank)

        def density(inside: Array, outside: Array) -> Attack:
            return domias(samples, inside, outside, held_out, components=few)

        yield from by_distances(samples, members, nonmembers, held_out)
        apart = most_isolated(members, nonmembers, held_out)
        yield "DOMIAS", lambda: _both(density, members, nonmembers, apart)
        codes = target.members.codes, target.nonmembers.codes
        yield "marginals of samples", lambda: _both(_by_samples(card, target), *codes, apart)
        if isinstance(target.synthesizer.net, MarkovField):
            field = target.synthesizer.net
            yield "marginals of the generator", lambda: _both(_by_generator(field, target), *codes, apart)

    # ------------------------------------------------------------------ what leaves

    def picture(self, synthesizer: Synthesizer[Any]) -> bytes:
        """A histogram of each column."""
        return histograms.png(synthesizer.sample(histograms.DRAWN, seed=0))

    def page(self, synthesizer: Callable[[], Synthesizer[Any]]) -> dict[str, Any]:
        """The first samples with seed 0, and the cliques of the model."""
        generator = synthesizer()
        first: TableSamples = generator.sample(SHOWN, seed=0)
        rows = [[column.name for column in first.card.written], *map(list, row_texts(first))]
        return {"rows": rows, "model": cliques.described(generator)}

    def first_rows(self, folder: Path, count: int) -> dict[str, list[list[str]]]:
        """Those of the table."""
        with suppress(FileNotFoundError), (folder / TableSamples.file).open(encoding="utf-8", newline="") as text:
            return {TableSamples.file: [*itertools.islice(csv.reader(text), count)]}
        return {}

    def sample_count(self, path: Path) -> int:
        """The number of lines below the names."""
        return rows_of(path)

    def same_samples(self, path: Path, pieces: Iterator[Any], count: int) -> tuple[int, bool]:
        """The first rows are compared as text, and the end of the file if they are all."""
        few = list(itertools.islice(pieces, DRAWN_AGAIN // ROWS))
        drawn = sum(map(len, few))
        with tempfile.TemporaryDirectory() as scratch, path.open("rb") as file:
            again = Path(scratch) / path.name
            write_csv(again, few)
            expected = again.read_bytes()
            return drawn, file.read(len(expected)) == expected and (drawn < count or not file.read(1))

    def described(self, card: Mapping[str, Any]) -> str:
        """The number of columns."""
        return f"rows with {len(card['column'])} columns"


TABLES = Tables()


def _portrait(name: str, cells: list[str]) -> dict[str, Any]:
    """A column in short: the heights of its bars from 0 to 1, the ends of numbers or the number of values, frequent values with
    their shares, and the share of empty cells.
    """
    held = [cell.strip() for cell in cells if cell.strip()]
    counts, ends = Counter(held).most_common(), []
    heights = np.array([count for _, count in counts[:_BARS]])
    with suppress(ValueError):  # these are no numbers
        numbers = np.array([float(cell.replace(",", ".")) for cell in held])
        if len(counts) > _BARS and np.isfinite(numbers).all():
            heights, ends = np.histogram(numbers, bins=_BARS)[0], [numbers.min(), numbers.max()]
    shares = [(value[:_BARS], count / len(held)) for value, count in counts[:_NAMED]]
    bars, empty = (heights / heights.max(initial=1)).tolist(), 1 - len(held) / max(1, len(cells))
    return {"name": name, "bars": bars, "ends": ends, "kinds": len(counts), "shares": shares, "empty": empty}


def _same(one: Table, other: Table) -> bool:
    """Whether two sets hold the same rows, in any order. Codes are compared where those are all that is known of one."""
    one, other = (one, other) if one.mark and other.mark else (Table(one.codes), Table(other.codes))
    return len(one) == len(other) and identify(one).mark == identify(other).mark


def _numbers(records: Any, read: Table, card: TableCard, split: Literal["train", "test"]) -> np.ndarray:
    """The values of real rows, float64 [N, columns]. read: the same rows as codes."""
    if isinstance(records, Table):
        return to_numbers(read.codes, card, seed=0)
    return read_values(records, card, split=split, called=split)


Guess = Callable[[Array, Array], Attack]
"""From members and non-members to an attack on them."""


def _by_samples(card: TableCard, target: Target) -> Guess:
    """Ratios over all pairs of columns, as the samples have them; with one column, over that."""
    sizes = card.domain
    every = list(itertools.combinations(range(len(sizes)), min(2, len(sizes))))
    pairs = [pair for pair in every if math.prod(sizes[column] for column in pair) <= MOST_CELLS]
    if not pairs:
        raise DataError(f"each pair of columns has more than {MOST_CELLS:,} cells.")
    tables = [frequencies(target.samples.codes, pair, sizes) for pair in pairs]
    return _by_ratios("samples", tables, target, lambda codes: codes, cliques=pairs, sizes=sizes)


def _by_generator(field: MarkovField, target: Target) -> Guess:
    """Ratios over the released cliques, as the released generator has them, in its merged values."""
    maps = [each.numpy() for each in field.maps]

    def merged(codes: Array) -> Array:
        return np.stack([each[codes[:, column]] for column, each in enumerate(maps)], axis=1)

    tables, cliques = [table.flatten().numpy() for table in field.tables], field.tree.cliques
    return _by_ratios("the generator", tables, target, merged, cliques=cliques, sizes=field.sizes)


def _by_ratios(
    what: str, tables: list[Array], target: Target, values: Callable[[Array], Array], **of: Sequence[Any]
) -> Guess:
    """Ratios of what has leaked to other real rows. values: what the tables count, from codes. of: cliques and sizes."""
    reference = values(target.held_out.codes)
    return lambda inside, outside: marginal_ratios(
        tables, values(inside), values(outside), reference, **of, name=f"marginals of {what}",
        needs=f"{what}, the records in question, and reference records of the population",
        about=f"The attacker accuses rows whose values are more frequent in {what} than in other real rows.",
    )  # fmt: skip


def _both(guess: Guess, inside: Array, outside: Array, apart: Sequence[np.ndarray]) -> list[Attack]:
    """The attack on all records, and on the most isolated ones where there are enough."""
    found = [guess(inside, outside)]
    if min(mask.sum() for mask in apart) > 1:
        isolated = guess(inside[apart[0]], outside[apart[1]])
        found.append(dataclasses.replace(isolated, name=f"{isolated.name}, {ISOLATED}", about=_OF_ISOLATED))
    return found
