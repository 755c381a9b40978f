"""The metrics of `gossamer evaluate` for tables: each with its figures, and the function that measures it.

`metrics.registry` says what names of figures mean. Here too, numpy and scikit-learn are loaded only when a metric is measured.

A real row weighs what it does in a method for tables: 1/m for a unit with m rows, unless the card has another `max_rows`. That
holds where shares are counted, and where models are trained and tested. A sample weighs 1.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from gossamer.errors import RequestError
from gossamer.intervals import Estimate
from gossamer.lazy import Lazy
from gossamer.metrics import metric
from gossamer.metrics.metric import GUESSED, Figure, Figures, Registry, of_baseline

if TYPE_CHECKING:
    import numpy as np

    from gossamer import intervals
    from gossamer.data.tables.table import Table
    from gossamer.metrics.tables import bins as binning
    from gossamer.metrics.tables import boosting, distances, subgroups
    from gossamer.metrics.tables import columns as by_column
    from gossamer.metrics.tables import rows as weighted
else:
    np, intervals = Lazy("numpy"), Lazy("gossamer.intervals")
    boosting, distances = Lazy("gossamer.metrics.tables.boosting"), Lazy("gossamer.metrics.tables.distances")
    subgroups, weighted = Lazy("gossamer.metrics.tables.subgroups"), Lazy("gossamer.metrics.tables.rows")
    binning, by_column = Lazy("gossamer.metrics.tables.bins"), Lazy("gossamer.metrics.tables.columns")

PAIRS, TRIPLES = 2_000, 400
"""Pairs and triples of columns at most; of more, so many at random."""
QUERIES = 1_000
FAR = 2.0
"""From so many intervals on, a column differs. Real rows seldom do: see the lab notes on evaluation."""
MOST_UNITS = 60_000
"""Units of each set at most; of more, so many at random. Every figure says how many rows took part."""
DRAWN, MOST_BARS, LEAST = 5, 40, 0.0005
"""Columns whose distributions the report shows, bins of each at most, and the share of one at least."""


@dataclass(frozen=True, kw_only=True)
class Inputs(metric.Inputs):
    """Rows that are measured: of each set, at most `MOST_UNITS` units at random.

    Args:
        values: of "samples", "real" and "tests" as numbers, float64 [N, columns]; see `decode.to_numbers`. Only the rows that
            take part stay.
        subgroups: names of columns.
        rows: the codes of the card of the rows that take part.
        bins: of each column, which follow from the training rows.
        binned: the same rows, with bins in place of the codes of the card.

    Raises:
        RequestError: a set has fewer units than the jackknife has groups.
    """

    samples: Any
    real: "Table"
    tests: "Table"
    values: "dict[str, np.ndarray]"
    subgroups: tuple[str, ...] = ()
    rows: "dict[str, weighted.Rows]" = field(init=False, default_factory=dict)
    bins: "list[binning.Bins]" = field(init=False, default_factory=list)
    binned: "dict[str, weighted.Rows]" = field(init=False, default_factory=dict)
    _predicted: "dict[str, np.ndarray]" = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for name, part in (("samples", self.samples), ("real", self.real), ("tests", self.tests)):
            rows = weighted.Rows.of(part.codes, getattr(part, "units", None), self.card.max_rows)
            if rows.units < weighted.GROUPS:
                raise RequestError(f"{_IN_WORDS[name]}: at least {weighted.GROUPS} rows of different units are needed.")
            taken = rows.some_units(MOST_UNITS)
            self.rows[name], self.values[name] = rows.take(taken), self.values[name][taken]
        self.bins.extend(map(binning.Bins.of, self.card.columns, self.values["real"].T))
        for name, rows in self.rows.items():
            every = zip(self.bins, rows.codes.T, self.values[name].T, strict=True)
            self.binned[name] = replace(rows, codes=np.array([each.codes(*of) for each, *of in every]).T)

    @property
    def card(self) -> Any:
        """The TableCard of all rows."""
        return self.samples.card

    @property
    def domain(self) -> list[int]:
        """The number of bins of each column."""
        return [len(each.names) for each in self.bins]

    def said(self, name: str) -> str:
        """In words, how many rows of a set took part."""
        part, every = len(self.rows[name]), len(getattr(self, name))
        return f"{part:,} {f'of {every:,} ' if part < every else ''}{_IN_WORDS[name]}"

    def examples(self, name: str) -> "boosting.Examples":
        """Examples of the label. name: "samples", "real" or "tests"."""
        return boosting.Examples.of(self.rows[name], self.values[name], self.card)

    def predictions(self, name: str) -> "np.ndarray":
        """What a model trained on "samples" or on "real" says of the test rows: probabilities of classes, or numbers."""
        if name not in self._predicted:
            show = self.progress(f"boosting trained on {_IN_WORDS[name]}")
            show(0, 1)
            train, features = self.examples(name), self.examples("tests").features
            if not len(train.labels):
                raise RequestError(f"the label is missing in all {_IN_WORDS[name]}. Take marginals or ranges.")
            if boosting.task_of(self.card) == "number":
                found = boosting.predicted_numbers(train, features, seed=self.seed)
            else:
                classes = self.card.columns[self.card.label_index].size
                found = boosting.probabilities(train, features, classes=classes, seed=self.seed)
            self._predicted[name] = found
            show(1, 1)
        return self._predicted[name]


_IN_WORDS = {"samples": "samples", "real": "real training rows", "tests": "real test rows"}

METRICS = Registry("tables", usual="columns,marginals,accuracy")


@dataclass(frozen=True)
class Detailed(Estimate):
    """A figure with what it is made of. This is private: it goes into metrics.json of a RUN and into the internal report.

    Args:
        pairs: the names of both columns and the figure, for each pair.
        figures: of all columns, those of the worst column first.
        drawn: the distributions of the worst columns: the column, its bins, and their shares in test rows and samples.
    """

    pairs: tuple[tuple[str, str, float], ...] = ()
    figures: tuple["by_column.Compared", ...] = ()
    drawn: tuple[dict[str, Any], ...] = ()


# ---------------------------------------------------------------------- columns


DIFFER = Figure("columns that differ", "{value} of the columns differ clearly from real test rows.", share=True)


@METRICS.metric("columns", DIFFER)
def columns(inputs: Inputs) -> Figures:
    """Each column beside real test rows, the worst first: means, SDs, quantiles, and shares of single values."""
    found = []
    for at, column in enumerate(inputs.card.columns):
        cells = [
            by_column.Cells.of(inputs.rows[name], inputs.values[name], at) for name in ("samples", "tests", "real")
        ]
        found.append((at, by_column.compared(column, *cells)))
    found.sort(key=lambda each: -each[1][0].times)
    share = sum(compared[0].times >= FAR for _, compared in found) / len(found)
    on = f"{inputs.said('samples')} beside {inputs.said('tests')}; {len(found):,} columns"
    figures = tuple(each for _, compared in found for each in compared)
    drawn = tuple(_distribution(inputs, at) for at, _ in found[:DRAWN])
    return {DIFFER.name: Detailed(share, share, share, len(found), on, figures=figures, drawn=drawn)}


def _distribution(inputs: Inputs, at: int) -> dict[str, Any]:
    """The shares of test rows and samples in the bins of a column; of many bins, in the fullest."""
    names = inputs.bins[at].names
    sets = [inputs.binned[name] for name in ("tests", "samples")]
    shares = np.array([rows.shares(rows.codes[:, at], len(names))[0] for rows in sets])
    most = shares.max(axis=0)
    shown = np.sort(np.argsort(-most, kind="stable")[:MOST_BARS])
    shown = shown[most[shown] >= LEAST]
    drawn = dict(zip(("real", "samples"), shares[:, shown].round(6).tolist(), strict=True))
    return {"column": inputs.card.columns[at].name, "bins": [names[each] for each in shown], **drawn}


# ---------------------------------------------------------------------- marginals

PAIRWISE = "2-way TV"
_SETS = {1: "single columns", 2: "pairs of columns", 3: "triples of columns"}
_FLOOR = "Its floor, what real test rows have: {value} ({range})."


def _pair(
    name: str, sentence: str, baseline: str = "", *, share: bool = False, bars: Sequence[str] = ("", "")
) -> tuple[Figure, Figure]:
    """A figure and its baseline on real rows. share: whether both are shares. bars: as of `Figure`."""
    baseline = baseline or "Trained on the real training rows: {value} ({range})."
    return Figure(name, sentence, share, bars[0]), Figure(of_baseline(name), baseline, share, bars[1])


def _variation(order: int) -> tuple[Figure, Figure]:
    return _pair(
        f"{order}-way TV",
        f"{order}-way total variation {{value}} ({{range}}): the mean distance between samples and training rows over "
        f"{_SETS[order]}. It is the share of records that would have to change; 0 is best.",
        _FLOOR,
    )


@METRICS.metric("marginals", *_variation(1), *_variation(2), *_variation(3))
def marginals(inputs: Inputs) -> Figures:
    """Total variation of 1-, 2- and 3-way marginals against the training rows, beside that of real test rows."""
    found: dict[str, Estimate] = {}
    for order, most in ((1, PAIRS), (2, PAIRS), (3, TRIPLES)):
        if sets := weighted.column_sets(len(inputs.card.columns), order, most):
            distance = partial(distances.total_variation, domain=inputs.domain)
            found |= _compared(inputs, f"{order}-way TV", sets, distance, _SETS[order])
    return found


def _compared(
    inputs: Inputs, name: str, asked: Sequence[Any], distance: Callable[..., "np.ndarray"], called: str
) -> Figures:
    """Mean distance of samples from the training rows, and of test rows.

    Args:
        inputs: the rows.
        name: of the mean.
        asked: sets of columns, or queries: the positions of their columns.
        distance: of two sets of rows by each of these, float64 [1 + groups].
        called: in words, what they are.
    """

    def of(rows: str) -> dict[str, Estimate]:
        show, found = inputs.progress(name.removeprefix("error of ")), []
        for at, each in enumerate(asked):
            if at % 50 == 0:
                show(at, len(asked))
            found.append(distance(inputs.binned[rows], inputs.binned["real"], each))
        show(len(asked), len(asked))
        every = np.array(found)
        mean, *without = every.mean(axis=0).tolist()
        on = f"{inputs.said(rows)} against {inputs.said('real')}; {len(asked):,} {called}"
        estimate = intervals.jackknife(mean, without, inputs.rows[rows].units, on, lowest=0, highest=1)
        if name != PAIRWISE or rows == "tests":
            return {name: estimate}
        named = [[inputs.card.columns[at].name for at in pair] for pair in asked]
        pairs = tuple((*pair, round(float(value), 4)) for pair, value in zip(named, every[:, 0], strict=True))
        return {name: Detailed(**vars(estimate), pairs=pairs)}

    return _beside_real(inputs, name, of("samples"), partial(of, "tests"))


def _beside_real(inputs: Inputs, key: str, found: Figures, compute: Callable[[], Figures]) -> dict[str, Estimate]:
    """Each figure, then that of real rows alone under the name of a baseline, from the cache or computed.

    key: what the baselines depend on besides rows, card and seed.
    """
    facts = f"{key} on values, {json.dumps(inputs.card.to_dict(), default=str)}"
    baselines = inputs.baselines.estimates(facts, lambda: {of_baseline(name): each for name, each in compute().items()})
    return {
        title: estimate
        for name, of_samples in found.items()
        for title, estimate in ((name, of_samples), (of_baseline(name), baselines[of_baseline(name)]))
    }


# ---------------------------------------------------------------------- range queries


@METRICS.metric(
    "ranges",
    *_pair(
        "error of range queries",
        'Answers to random questions ("how many are 30 to 39 and not married?") are wrong by {value} of all records on average '
        "({range}); 0 is best.",
        _FLOOR,
    ),
)
def ranges(inputs: Inputs) -> Figures:
    """Errors of random range queries against the training rows, as shares of all records, beside those of test rows."""
    if sum(size > 1 for size in inputs.domain) < 2:
        raise RequestError("ranges: fewer than two columns have several values. Take marginals.")
    queries = distances.random_queries(inputs.domain, [each.in_order for each in inputs.bins], QUERIES)
    return _compared(inputs, "error of range queries", queries, distances.query_error, "queries")


# ---------------------------------------------------------------------- accuracy

_LEARNT = (
    *_pair(
        "accuracy",
        "A classifier (gradient boosting) trained only on these synthetic rows gets the label of {value} of real test rows "
        "right ({range}).",
        "The same model trained on the real training rows gets {value} right ({range}).",
        bars=("the synthetic rows", "the real rows"),
    ),
    *_pair(
        "AUC",
        "AUC {value} ({range}): how often the model ranks a test row with a label above one without it. 0.5 is guessing, 1 is "
        "best.",
    ),
    *_pair(
        "log loss",
        "Log loss {value} nats ({range}): how much the true labels surprise the model. Far above that of real rows, it is too "
        "sure of itself: do not take its probabilities as risks.",
    ),
    *_pair("calibration error", "Its probabilities are wrong by {value} on average ({range}).", share=True),
    *_pair(
        "R2",
        "A model (gradient boosting) trained only on these synthetic rows explains {value} ({range}) of the label's variance "
        "among real test rows; 1 is best.",
    ),
)


@METRICS.metric("accuracy", *_LEARNT, GUESSED)
def accuracy(inputs: Inputs) -> Figures:
    """Train on samples, test on real rows: gradient boosting on values."""
    task, tests = boosting.task_of(inputs.card), inputs.examples("tests")

    def of(name: str) -> dict[str, Estimate]:
        on = f"{inputs.said('tests')}; trained on {inputs.said(name)}"
        predictions = inputs.predictions(name)
        measures = boosting.OF_NUMBERS if task == "number" else boosting.OF_CLASSES
        return {figure: measure(predictions, tests, on) for figure, measure in measures.items()}

    found = _beside_real(inputs, "accuracy", of("samples"), partial(of, "real"))
    if task == "classes":
        guess = np.zeros((len(tests.labels), inputs.card.columns[inputs.card.label_index].size))
        guess[:, np.bincount(inputs.examples("real").labels).argmax()] = 1
        found[GUESSED.name] = boosting.OF_CLASSES["accuracy"](guess, tests, inputs.said("tests"))
    return found


APART = Figure(
    "tell-apart AUC",
    "A model tells samples from real test rows with an AUC of {value} ({range}): 0.5 is guessing and best, 1 is always right.",
)


@METRICS.metric("tell-apart", APART)
def tell_apart(inputs: Inputs) -> Figures:
    """The AUC of a model that tells samples from real test rows."""
    show = inputs.progress("boosting that tells samples from real rows")
    samples, real = ((inputs.rows[name], inputs.values[name]) for name in ("samples", "tests"))
    return {APART.name: boosting.told_apart(samples, real, inputs.card, seed=inputs.seed, progress=show)}


# ---------------------------------------------------------------------- subgroups


OF_SHARE, OF_ACCURACY = Figure("share difference, {}", share=True), Figure("accuracy difference, {}", share=True)
"""Of a subgroup."""


@METRICS.metric("subgroups", OF_SHARE, OF_ACCURACY, in_all=False)
def by_subgroup(inputs: Inputs) -> Figures:
    """For each value of named columns: differences of shares and, where classes are predicted, of accuracies."""
    if not inputs.subgroups:
        raise RequestError("subgroups: no columns are named. Name them with `subgroups`, with commas between.")
    columns, rows = inputs.card.columns, inputs.rows
    chosen = subgroups.chosen_columns(inputs.subgroups, columns)
    right = None
    if inputs.card.label is not None and boosting.task_of(inputs.card) == "classes":
        labels = inputs.examples("tests").labels
        right = tuple(inputs.predictions(name).argmax(axis=1) == labels for name in ("samples", "real"))
    found: dict[str, Estimate] = {}
    for at, code, group in subgroups.named_groups(columns, chosen):
        if (share := subgroups.share_difference(rows["samples"], rows["real"], at, code)) is not None:
            found[OF_SHARE.of(group)] = share
        if right and (less := subgroups.accuracy_difference(right, rows["tests"], at, code)) is not None:
            found[OF_ACCURACY.of(group)] = less
    return found
