"""A column with a planted fault is the first in the list; real rows beside real rows give an empty list."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.samples import TableSamples
from gossamer.data.tables.table import Table
from gossamer.metrics.baseline_cache import Baselines
from gossamer.metrics.tables.columns import Cells, Compared, compared
from gossamer.metrics.tables.registry import FAR, METRICS, Inputs

NAN = float("nan")
PAYMENT = {"bounds": (-100_000, 1_000_000), "bins": 16, "missing": True}
COLUMNS = (
    Column(name="payment", kind="number", **PAYMENT),
    Column(name="bill", kind="integer", **PAYMENT),
    Column(name="clinic", kind="category", values=tuple(f"ward {k}" for k in range(30)), missing=True),
    Column(name="admitted", kind="date", bounds=("2020-01-01", "2024-12-31"), missing=True),
    Column(name="stay", kind="duration", bounds=("0 days", "90 days"), missing=True),
)
CARD = TableCard(columns=COLUMNS, declared_size=6_000)


def real(n: int, seed: int) -> np.ndarray:
    """Rows of values: payments with zeros, round bills with a tail, rare wards, and gaps."""
    draw = np.random.default_rng(seed)
    rows = np.stack(
        [
            np.where(draw.random(n) < 0.18, 0, draw.lognormal(8, 1, n).round(2)),
            (draw.lognormal(10, 1, n) / 100).round() * 100,
            np.minimum(draw.geometric(0.3, n) - 1, 29),
            draw.integers(18_262, 20_088, n),
            draw.integers(0, 90, n) * 86_400,
        ],
        axis=1,
    ).astype(float)
    rows[draw.random(n) < 0.1, 3] = NAN
    return rows


TRAIN, TESTS, SAMPLES = real(12_000, 1), real(6_000, 2), real(9_000, 3)


def inputs(samples: np.ndarray, **more: Any) -> Inputs:
    """All sets, as a reader gives them."""
    values = {"samples": samples, "real": TRAIN, "tests": TESTS}
    codes = {}
    for name, rows in values.items():
        codes[name] = np.zeros(rows.shape, np.int32)
        codes[name][:, 2] = rows[:, 2]
        for at in (0, 1, 3, 4):
            codes[name][np.isnan(rows[:, at]), at] = COLUMNS[at].missing_code
    return Inputs(
        samples=TableSamples(codes["samples"], CARD), real=Table(codes["real"]), tests=Table(codes["tests"]),
        values=values, baselines=Baselines(None, ""), **more,
    )  # fmt: skip


def worst(samples: np.ndarray) -> list[Compared]:
    """What differs, the worst first."""
    found = METRICS["columns"].compute(inputs(samples))["columns that differ"]
    differing = [each for each in found.figures if each.times >= FAR]
    assert found.value == len({each.column for each in differing}) / len(COLUMNS)
    return differing


def test_real_rows_beside_real_rows_show_nothing() -> None:
    """The lab notes have the rate: of 100 columns of real rows, fewer than one differs, or up to five with a heavy tail."""
    for seed in range(4, 8):
        assert worst(real(9_000, seed)) == []


def coarse(rows: np.ndarray, draw: np.random.Generator) -> None:
    """Each payment is the middle of one of 16 bins."""
    cuts = COLUMNS[0].cuts
    rows[:, 0] = ((cuts[:-1] + cuts[1:]) / 2)[np.searchsorted(cuts, rows[:, 0], side="right") - 1]


def uniform_in_bins(rows: np.ndarray, draw: np.random.Generator) -> None:
    """Each payment is a random value of its bin of the card: the card sees no fault."""
    cuts = COLUMNS[0].cuts
    at = np.searchsorted(cuts, rows[:, 0], side="right") - 1
    rows[:, 0] = draw.uniform(cuts[at], cuts[at + 1]).round(2)


def without_zeros(rows: np.ndarray, draw: np.random.Generator) -> None:
    """No payment is 0."""
    zeros = rows[:, 0] == 0
    rows[zeros, 0] = draw.choice(rows[~zeros, 0], zeros.sum())


def noisy_tail(rows: np.ndarray, draw: np.random.Generator) -> None:
    """In every fiftieth row, the bill is a random one up to the declared bound."""
    rows[::50, 1] = draw.integers(0, 10_000, len(rows[::50])) * 100


def fine_bills(rows: np.ndarray, draw: np.random.Generator) -> None:
    """Bills are no longer round."""
    rows[:, 1] += draw.integers(1, 99, len(rows))


def rare_ward(rows: np.ndarray, draw: np.random.Generator) -> None:
    """A ward of one row in 3,000 is in 2 % of the rows."""
    rows[draw.random(len(rows)) < 0.02, 2] = 20


def absent_ward(rows: np.ndarray, draw: np.random.Generator) -> None:
    """A ward that no real row has is in 2 % of the rows, although the card lists it."""
    rows[draw.random(len(rows)) < 0.02, 2] = 29


def more_gaps(rows: np.ndarray, draw: np.random.Generator) -> None:
    """14 % of the dates are missing in place of 10 %."""
    rows[draw.random(len(rows)) < 0.045, 3] = NAN


def later(rows: np.ndarray, draw: np.random.Generator) -> None:
    """All dates are half a year later."""
    rows[:, 3] += 182


def longer(rows: np.ndarray, draw: np.random.Generator) -> None:
    """Stays are up to 180 days."""
    rows[:, 4] *= 2


@pytest.mark.parametrize(
    ("fault", "column", "words"),
    [
        (coarse, "payment", 'share of "3125" '),
        (uniform_in_bins, "payment", "median "),
        (without_zeros, "payment", "zeros 0.0 %, real 18.1 % (16.9 to 19.4 %)"),
        (noisy_tail, "bill", "mean "),
        (fine_bills, "bill", "values that no training row has 100.0 %, real 4.4 % "),
        (rare_ward, "clinic", 'share of "ward 20" 1.9 %, real 0.03 % '),
        (absent_ward, "clinic", 'share of "ward 29" 1.9 %, real 0.0 % '),
        (more_gaps, "admitted", "missing 14."),
        (later, "admitted", "1 % quantile 2020-07-17, real 2020-01-25 "),
        (longer, "stay", "mean 88 days "),
    ],
)
def test_a_planted_fault_is_the_first(fault: Callable[..., None], column: str, words: str) -> None:
    rows = SAMPLES.copy()
    fault(rows, np.random.default_rng(0))
    found = worst(rows)
    assert {each.column for each in found} == {column}, found
    assert any(each.words.startswith(words) for each in found[:6]), [each.words for each in found]


def test_bins_do_not_depend_on_the_card() -> None:
    """Through the 16 bins of the card, values at random in them have no fault; here 1-way TV and the worst pair have it."""
    rows = SAMPLES.copy()
    uniform_in_bins(rows, np.random.default_rng(0))
    found = METRICS["marginals"].compute(inputs(rows))
    assert found["1-way TV"].low > 4 * found["1-way TV of the real-data baseline"].high
    assert "payment" in max(found["2-way TV"].pairs, key=lambda pair: pair[2])
    assert inputs(rows).domain == inputs(SAMPLES).domain


def test_the_report_gets_the_distributions_of_the_worst_columns() -> None:
    rows = SAMPLES.copy()
    without_zeros(rows, np.random.default_rng(0))
    first, *_ = METRICS["columns"].compute(inputs(rows))["columns that differ"].drawn
    assert first["column"] == "payment" and first["bins"][0] == "0"
    assert first["real"][0] == pytest.approx((TESTS[:, 0] == 0).mean(), abs=1e-6) and first["samples"][0] == 0
    assert sum(first["real"]) == pytest.approx(1, abs=1e-3) == pytest.approx(sum(first["samples"]), abs=1e-3)


def test_large_tables_are_measured_on_stated_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gossamer.metrics.tables.registry.MOST_UNITS", 2_000)
    given = inputs(SAMPLES)
    assert [len(rows) for rows in given.rows.values()] == [2_000] * 3
    kept = {row.tobytes() for row in TESTS}
    assert all(row.tobytes() in kept for row in given.values["tests"]), "values of the same rows"
    wards = given.values["tests"][:, 2]
    assert np.array_equal(given.rows["tests"].codes[:, 2], wards)
    found = METRICS["columns"].compute(given)["columns that differ"]
    assert found.computed_on == "2,000 of 9,000 samples beside 2,000 of 6,000 real test rows; 5 columns"


def of(values: list[float], weights: list[float] | None = None) -> Cells:
    numbers = np.array(values, float)
    given = np.ones(len(numbers)) if weights is None else np.array(weights, float)
    return Cells(np.zeros(len(numbers), np.int32), numbers, given, given.sum())


def figures(column: Column, *sets: Cells) -> dict[str, Compared]:
    return {each.figure: each for each in compared(column, *sets)}


def test_figures_by_hand() -> None:
    column = Column(name="x", kind="number", bounds=(0, 10))
    tests = of([1, 2, 3, 4], [3, 1, 1, 1])  # half of the weight is at 1
    found = figures(column, of([4, 4, 4, 4]), tests, tests)
    assert (found["mean"].samples, found["mean"].real) == (4, 2)
    assert "SD" not in found, "of so few rows"
    assert (found["median"].samples, found["median"].real) == (4, 1)
    assert found["75 % quantile"].real == 3 and found["99 % quantile"].real == 4
    assert found['share of "4"'].real == pytest.approx(1 / 6) and found['share of "4"'].samples == 1


def test_the_interval_of_a_mean_is_that_of_two_samples() -> None:
    draw = np.random.default_rng(0)
    tests, samples = of(draw.normal(0, 1, 4_000)), of(draw.normal(0, 1, 12_000))
    mean = figures(Column(name="x", kind="number", bounds=(0, 1)), samples, tests, tests)["mean"]
    error = 1.96 * np.sqrt(1 / 4_000 + 1 / 12_000)
    assert mean.high - mean.real == pytest.approx(error, rel=0.03) and mean.low < mean.samples < mean.high
    assert mean.times == pytest.approx(abs(mean.samples - mean.real) / max(mean.high - mean.real, 0.05), rel=0.02)


def test_an_empty_side_has_shares_only() -> None:
    column = Column(name="x", kind="number", bounds=(0, 1), missing=True)
    missing = Cells(np.full(50, column.missing_code, np.int32), np.full(50, NAN), np.ones(50), 50.0)
    found = figures(column, missing, of([0.5] * 40), of([0.5] * 40))
    assert found["missing"].samples == 1 and found["missing"].times > FAR and "mean" not in found
