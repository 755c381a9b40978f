"""The metrics of `gossamer evaluate` for tables: each with its figures, and the function that measures it.

`metrics.registry` says what names of figures mean. Here too, numpy and scikit-learn are loaded only when a metric is measured.

A real row weighs what it does in a method for tables: 1/m for a unit with m rows, unless the card has another `max_rows`. That
holds where shares are counted, and where models are trained and tested. A sample weighs 1.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from gossamer.errors import RequestError
from gossamer.intervals import Estimate
from gossamer.lazy import Lazy
from gossamer.metrics import metric
from gossamer.metrics.metric import Figure, Figures, Registry, of_baseline

if TYPE_CHECKING:
    import numpy as np

    from gossamer import intervals
    from gossamer.data.tables.samples import TableSamples
    from gossamer.data.tables.table import Table
    from gossamer.metrics.tables import bins, boosting, distances, subgroups
    from gossamer.metrics.tables import columns as by_column
    from gossamer.metrics.tables import rows as weighted
else:
    np, intervals = Lazy("numpy"), Lazy("gossamer.intervals")
    boosting, distances = Lazy("gossamer.metrics.tables.boosting"), Lazy("gossamer.metrics.tables.distances")
    subgroups, weighted = Lazy("gossamer.metrics.tables.subgroups"), Lazy("gossamer.metrics.tables.rows")
    bins, by_column = Lazy("gossamer.metrics.tables.bins"), Lazy("gossamer.metrics.tables.columns")

PAIRS, TRIPLES = 2_000, 400
"""Pairs and triples of columns at most; of more, so many at random."""
QUERIES = 1_000
FAR = 2.0
"""From so many intervals on, a column differs. Real rows seldom do: see the lab notes on evaluation."""
MOST_UNITS = 60_000
"""Units of each set at most; of more, so many at random. Every figure says how many rows took part."""
DRAWN, MOST_BARS = 5, 40
"""Columns whose distributions the report shows, and bins of each at most."""


@dataclass(frozen=True, kw_only=True)
class Inputs(metric.Inputs):
    """Rows that are measured.

    Args:
        values: the values of "samples", "real" and "tests" as numbers, float64 [N, columns]; see `decode.to_numbers`.
        subgroups: names of columns.

    Raises:
        RequestError: a set has fewer units than the jackknife has groups.
    """

    samples: "TableSamples"
    real: "Table"
    tests: "Table"
    values: "Mapping[str, Callable[[], np.ndarray]]"
    subgroups: tuple[str, ...] = ()
    rows: "dict[str, weighted.Rows]" = field(init=False, default_factory=dict)
    _taken: "dict[str, np.ndarray]" = field(init=False, default_factory=dict)
    _predicted: "dict[str, np.ndarray]" = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for name, part in (("samples", self.samples), ("real", self.real), ("tests", self.tests)):
            rows = weighted.Rows.of(part.codes, getattr(part, "units", None), self.card.max_rows)
            if rows.units < weighted.GROUPS:
                raise RequestError(f"{_IN_WORDS[name]}: at least {weighted.GROUPS} rows of different units are needed.")
            self._taken[name] = rows.some_units(MOST_UNITS)
            self.rows[name] = rows.take(self._taken[name])

    @property
    def card(self) -> Any:
        """The TableCard of all rows."""
        return self.samples.card

    @cached_property
    def numbers(self) -> "dict[str, np.ndarray]":
        """The values of the rows that take part, by the name of the set. float64 [n, columns]"""
        return {name: read()[self._taken[name]] for name, read in self.values.items()}

    @cached_property
    def bins(self) -> "list[bins.Bins]":
        """Bins of each column, which follow from the training rows."""
        every = zip(self.card.columns, self.numbers["real"].T, strict=True)
        return [bins.Bins.of(column, values) for column, values in every]

    @cached_property
    def binned(self) -> "dict[str, weighted.Rows]":
        """The rows that take part, with bins in place of the codes of the card."""
        return {name: self._in_bins(rows, self.numbers[name]) for name, rows in self.rows.items()}

    def _in_bins(self, rows: "weighted.Rows", values: "np.ndarray") -> "weighted.Rows":
        every = zip(self.bins, rows.codes.T, values.T, strict=True)
        return replace(rows, codes=np.array([each.codes(*of) for each, *of in every]).T)

    @property
    def domain(self) -> list[int]:
        """The number of bins of each column."""
        return [len(each.names) for each in self.bins]

    def baseline(self, key: str, compute: Callable[[], Figures]) -> Figures:
        """Figures of real rows alone, from the cache or computed. key: what they depend on besides rows, card and seed."""
        facts = json.dumps(self.card.to_dict(), default=str)
        return self.baselines.estimates(f"{key} on values, {facts}", lambda: dict(compute()))

    def said(self, name: str) -> str:
        """In words, how many rows of a set took part."""
        part, every = len(self.rows[name]), len(getattr(self, name))
        return f"{part:,} {f'of {every:,} ' if part < every else ''}{_IN_WORDS[name]}"

    def against(self, name: str) -> str:
        """In words, what is compared with the training rows: "samples" or "tests"."""
        return f"{self.said(name)} against {self.said('real')}"

    def examples(self, name: str) -> "boosting.Examples":
        """Examples of the label. name: "samples", "real" or "tests"."""
        return boosting.Examples.of(self.rows[name], self.numbers[name], self.card)

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
class Largest(Estimate):
    """The largest of many figures.

    Args:
        which: the columns it is of. A private fact: it goes into metrics.json of a RUN, and into no line.
    """

    which: str = ""


@dataclass(frozen=True)
class OverPairs(Estimate):
    """The mean of a figure over pairs of columns.

    Args:
        pairs: the names of both columns and the figure, for each pair. Private, as `which` of `Largest`. The internal report
            shows them.
    """

    pairs: tuple[tuple[str, str, float], ...] = ()


@dataclass(frozen=True)
class OverColumns(Estimate):
    """A share of columns. All of the rest is private, as `pairs` of `OverPairs`.

    Args:
        figures: of all columns, those of the worst column first; see `columns.Compared`.
        drawn: the distributions of the worst columns: the column, its bins, and their shares in test rows and samples.
    """

    figures: tuple["by_column.Compared", ...] = ()
    drawn: tuple[dict[str, Any], ...] = ()


# ---------------------------------------------------------------------- columns


@METRICS.metric(
    "columns",
    Figure(
        "columns that differ",
        "Of the columns, {value} differ clearly from real test rows in a mean, a quantile or a share; real rows seldom do.",
        share=True,
    ),
)
def columns(inputs: Inputs) -> Figures:
    """Each column beside real test rows, the worst first: means, SDs, quantiles, and shares of single values."""
    found, show = [], inputs.progress("columns")
    for at, column in enumerate(inputs.card.columns):
        show(at, len(inputs.card.columns))
        cells = {name: by_column.Cells.of(rows, inputs.numbers[name], at) for name, rows in inputs.rows.items()}
        compared = by_column.compared(column, cells["samples"], cells["tests"], cells["real"])
        found.append((at, compared))
    show(len(found), len(found))
    found.sort(key=lambda each: -each[1][0].times)
    far = sum(compared[0].times >= FAR for _, compared in found)
    on = f"{inputs.said('samples')} beside {inputs.said('tests')}; {len(found):,} columns"
    share = intervals.proportion(far, len(found), on)
    figures = tuple(each for _, compared in found for each in compared)
    drawn = tuple(_distribution(inputs, at) for at, _ in found[:DRAWN])
    return {"columns that differ": OverColumns(**vars(share), figures=figures, drawn=drawn)}


def _distribution(inputs: Inputs, at: int) -> dict[str, Any]:
    """The shares of test rows and samples in the bins of a column; of many bins, in the fullest."""
    names = inputs.bins[at].names
    sets = [inputs.binned[name] for name in ("tests", "samples")]
    shares = np.array([rows.shares(rows.codes[:, at], len(names))[0] for rows in sets])
    most = shares.max(axis=0)
    shown = np.sort(np.argsort(-most, kind="stable")[:MOST_BARS])
    shown = shown[most[shown] > 0]
    real, samples = shares[:, shown].round(6).tolist()
    return {
        "column": inputs.card.columns[at].name,
        "bins": [names[each] for each in shown],
        "real": real,
        "samples": samples,
    }


# ---------------------------------------------------------------------- marginals

_BEST = "0 is best."
PAIRWISE = "2-way TV"
_SETS = {1: "single columns", 2: "pairs of columns", 3: "triples of columns"}


def _pair(
    name: str, sentence: str, baseline: str, *, share: bool = False, bars: tuple[str, str] = ("", "")
) -> tuple[Figure, Figure]:
    """A figure and its baseline on real rows. share: whether both are shares; bars: their labels where they are drawn."""
    return (
        Figure(name, sentence, share=share, bar=bars[0]),
        Figure(of_baseline(name), baseline, share=share, bar=bars[1]),
    )


def _mean_and_largest(name: str, of_mean: str, of_largest: str) -> tuple[Figure, ...]:
    """A mean, the largest, and what real test rows have."""
    return (
        *_pair(name, of_mean, "Its floor, what real test rows have: {value} ({range})."),
        *_pair(f"largest {name}", of_largest, "Its floor, the largest of real test rows: {value} ({range})."),
    )


def _variation(order: int) -> tuple[Figure, ...]:
    return _mean_and_largest(
        f"{order}-way TV",
        f"{order}-way total variation {{value}} ({{range}}): the mean distance between samples and training rows over "
        f"{_SETS[order]}. It is the share of records that would have to change; {_BEST}",
        f"The largest {order}-way total variation is {{value}} ({{range}}).",
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


@METRICS.metric(
    "correlations",
    *_mean_and_largest(
        "difference of correlations",
        "Correlations of pairs of columns (Cramer's V, from 0 to 1) differ by {value} on average ({range}) between samples and "
        f"training rows; {_BEST}",
        "The largest difference of a correlation is {value} ({range}).",
    ),
)
def correlations(inputs: Inputs) -> Figures:
    """Differences of Cramer's V of pairs of columns, in bins of real rows, beside those of real test rows."""
    pairs = weighted.column_sets(len(inputs.card.columns), 2, PAIRS)
    if not pairs:
        raise RequestError("correlations: the table has one column only. Take marginals.")
    distance = partial(distances.correlation, domain=inputs.domain)
    return _compared(inputs, "difference of correlations", pairs, distance, _SETS[2])


def _compared(
    inputs: Inputs,
    name: str,
    asked: Sequence[Any],
    distance: Callable[..., "np.ndarray"],
    called: str,
    by: str = " with ",
) -> Figures:
    """Mean and largest distance of samples from the training rows, and of test rows.

    Args:
        inputs: the rows.
        name: of the mean.
        asked: sets of columns, or queries: the positions of their columns.
        distance: of two sets of rows by each of these, float64 [1 + groups].
        called: in words, what they are.
        by: what is written between the columns of the largest.
    """
    columns = [[inputs.card.columns[at].name for at in each] for each in asked]

    def of(rows: str) -> dict[str, Estimate]:
        show, found = inputs.progress(name.removeprefix("error of ")), []
        for at, each in enumerate(asked):
            if at % 50 == 0:
                show(at, len(asked))
            found.append(distance(inputs.binned[rows], inputs.binned["real"], each))
        show(len(asked), len(asked))
        values, on = np.array(found), f"{inputs.against(rows)}; {len(asked):,} {called}"
        mean, largest = (
            vars(intervals.jackknife(float(one[0]), one[1:].tolist(), inputs.rows[rows].units, on, lowest=0, highest=1))
            for one in (values.mean(axis=0), values.max(axis=0))
        )
        pairs = [(*names, round(float(value), 4)) for names, value in zip(columns, values[:, 0], strict=True)]
        which = by.join(map(repr, columns[int(values[:, 0].argmax())]))
        return {
            name: OverPairs(**mean, pairs=tuple(pairs)) if name == PAIRWISE else Estimate(**mean),
            f"largest {name}": Largest(**largest, which=which),
        }

    return _beside_real(inputs, name, of("samples"), lambda: of("tests"))


def _beside_real(inputs: Inputs, key: str, found: Figures, compute: Callable[[], Figures]) -> dict[str, Estimate]:
    """Each figure, then the same figure of real rows under the name of a baseline."""

    def plain(estimate: Estimate) -> Estimate:
        return Estimate(estimate.value, estimate.low, estimate.high, estimate.n, estimate.computed_on)

    baselines = inputs.baseline(key, lambda: {of_baseline(name): plain(each) for name, each in compute().items()})
    return {
        title: estimate
        for name, of_samples in found.items()
        for title, estimate in ((name, of_samples), (of_baseline(name), baselines[of_baseline(name)]))
    }


# ---------------------------------------------------------------------- range queries


@METRICS.metric(
    "ranges",
    *_mean_and_largest(
        "error of range queries",
        'Answers to random questions ("how many are 30 to 39 and not married?") are wrong by {value} of all records on average '
        f"({{range}}); {_BEST}",
        "The largest error of such an answer is {value} ({range}).",
    ),
)
def ranges(inputs: Inputs) -> Figures:
    """Errors of random range queries against the training rows, as shares of all records, beside those of test rows."""
    if sum(size > 1 for size in inputs.domain) < 2:
        raise RequestError("ranges: fewer than two columns have several values. Take marginals.")
    queries = distances.random_queries(inputs.domain, [each.in_order for each in inputs.bins], QUERIES)
    return _compared(inputs, "error of range queries", queries, distances.query_error, "queries", by=", ")


# ---------------------------------------------------------------------- accuracy


CALIBRATION = (
    *_pair(
        "calibration error",
        "Its probabilities are wrong by {value} on average ({range}), the expected calibration error. Near 0, they can be taken "
        "as risks.",
        "Trained on the real training rows, they are wrong by {value} ({range}).",
        share=True,
    ),
    *_pair(
        "mean prediction",
        "On average, it expects {value} of the test rows to have the label that the true rate is of ({range}).",
        "Trained on the real training rows, it expects {value} ({range}).",
        share=True,
    ),
    Figure("true rate", "The true rate of that label among the test rows is {value} ({range}).", share=True),
)


@METRICS.metric(
    "accuracy",
    *_pair(
        "accuracy",
        "A classifier (gradient boosting) trained only on these synthetic rows gets the label of {value} of real test rows "
        "right ({range}).",
        "The same model trained on the real training rows gets {value} right ({range}).",
        share=True,
        bars=("the synthetic rows", "the real rows"),
    ),
    *_pair(
        "AUC",
        "AUC {value} ({range}): how often the model, trained on synthetic rows, ranks a test row with a label above one "
        "without it. 0.5 is guessing, 1 is best.",
        "Trained on the real training rows, its AUC is {value} ({range}).",
    ),
    *_pair(
        "log loss",
        "Log loss {value} nats ({range}): how much the true labels surprise the model. Far above that of real rows, it is too "
        "sure of itself: do not take its probabilities as risks.",
        "Trained on the real training rows, its log loss is {value} ({range}).",
    ),
    *CALIBRATION,
    *_pair(
        "R2",
        "A model (gradient boosting) trained only on these synthetic rows explains {value} ({range}) of the label's variance "
        "among real test rows; 1 is best.",
        "Trained on the real training rows, it explains {value} ({range}).",
    ),
)
def accuracy(inputs: Inputs) -> Figures:
    """Train on samples, test on real rows: gradient boosting on values."""
    task = boosting.task_of(inputs.card)
    tests = inputs.examples("tests")

    def of(name: str) -> dict[str, Estimate]:
        predictions = inputs.predictions(name)
        on = f"{inputs.said('tests')}; trained on {inputs.said(name)}"
        if task == "number":
            return {"R2": boosting.explained(predictions, tests, on)}
        return {
            "accuracy": boosting.accuracy(predictions, tests, on),
            "AUC": boosting.area(predictions, tests, on),
            "log loss": boosting.log_loss(predictions, tests, on),
            "calibration error": boosting.calibration_error(predictions, tests, on),
            "mean prediction": boosting.mean_prediction(predictions, tests, on),
        }

    found = _beside_real(inputs, "accuracy", of("samples"), partial(of, "real"))
    if task == "classes":
        found["true rate"] = boosting.true_rate(tests, inputs.said("tests"))
    return found


APART = Figure(
    "tell-apart AUC",
    "A model tells samples from real test rows with an AUC of {value} ({range}): 0.5 is guessing and best, 1 is always right.",
)


@METRICS.metric("tell-apart", APART)
def tell_apart(inputs: Inputs) -> Figures:
    """The AUC of a model that tells samples from real test rows."""
    show = inputs.progress("boosting that tells samples from real rows")
    return {
        APART.name: boosting.told_apart(
            *((inputs.rows[name], inputs.numbers[name]) for name in ("samples", "tests")),
            inputs.card,
            seed=inputs.seed,
            progress=show,
        )
    }


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
