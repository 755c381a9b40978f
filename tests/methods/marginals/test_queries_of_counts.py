"""What is asked of a released generator: rows that meet conditions, and the noisy counts with their errors."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.samples import merged_texts
from gossamer.data.tables.table import Table
from gossamer.errors import RequestError
from gossamer.methods.job import Job
from gossamer.methods.marginals import Marginals
from gossamer.methods.marginals.nets import MarkovField
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng

CARD = TableCard(
    columns=(
        Column(name="sex", kind="category", values=("f", "m", "x")),
        Column(name="age", kind="integer", bounds=(0, 79), bins=8),
        Column(name="ill", kind="category", values=("no", "yes")),
    ),
    declared_size=3_000,
    label="ill",
)


def people(seed: int, n: int = 3_000) -> np.ndarray:
    """Codes. The ill are older, and nobody has sex x."""
    draw = np.random.default_rng(seed)
    ill = (draw.random(n) < 0.3).astype(int)
    return np.column_stack([draw.integers(2, size=n), draw.binomial(7, 0.4 + 0.3 * ill), ill]).astype(np.int32)


def fitted(codes: np.ndarray, seed: int, **settings: Any) -> Synthesizer:
    job = Job.of(Marginals(), {"noise_multiplier": 2.0, "rounds": 1, "iterations": 1, **settings}, CARD)
    ledger = PrivacyLedger(budget=float("inf"), delta=1e-5, relation=job.relation)
    ledger.reserve(job.plan)
    training = job.begin(Rng(seed, noise_seed=seed))
    for _ in training.drive(Confined(Table(codes), ledger, training.run.rng)):
        pass
    certificate: Any = None
    return Synthesizer(training.state.released, job, certificate, Path("RUN"))


@pytest.fixture(scope="module")
def made() -> Synthesizer:
    return fitted(people(0), 0, iterations=200)


@pytest.mark.parametrize("sampling", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_intervals_cover_the_true_counts(sampling: bool) -> None:
    """95 % intervals of 100 releases cover the counts of the records, or of the population that these are sampled from, in 93
    to 97 of 100 cells."""
    fixed, expected = people(0), np.bincount(people(1, 600_000) @ [0, 2, 1], minlength=16) / 200
    covered: list[bool] = []
    for seed in range(100):
        held = people(1_000 + seed) if sampling else fixed
        made = fitted(held, seed)
        table = made.query(["age", "ill"], sampling=sampling)
        maps = made.net.maps
        cells = [maps[column].numpy()[np.arange(size)] for column, size in ((1, 8), (2, 2))]
        truth = expected if sampling else np.bincount(held @ [0, 2, 1], minlength=16)
        true = np.zeros_like(table.counts)
        np.add.at(true, np.ix_(*cells), truth.reshape(8, 2))
        covered += (np.abs(table.counts - true) <= 1.96 * table.standard_errors).ravel().tolist()
    assert len(covered) > 500
    assert 0.93 <= np.mean(covered) <= 0.97


def test_sampling_adds_the_variance_of_a_multinomial(made: Synthesizer) -> None:
    alone, both = (made.query(["age", "ill"], sampling=sampling) for sampling in (False, True))
    own = np.maximum(alone.counts, 0)
    added = both.standard_errors**2 - alone.standard_errors**2
    np.testing.assert_allclose(added, own * (1 - own / own.sum()), rtol=1e-6, atol=1e-6)


def test_a_query_is_the_mean_of_all_tables_that_hold_its_columns() -> None:
    """By the inverse of their variances; along the axes that were asked for."""
    net = MarkovField((2, 3), None)
    two = torch.tensor([[10.0, 20, 30], [1, 2, 3]]).double()
    net.keep(
        [
            ((0, 1), two, torch.full((2, 3), 2.0).double()),
            ((0,), torch.tensor([50.0, 12]).double(), torch.full((2,), 3.0).double()),
        ]
    )
    counts, variances = net.query([1, 0])
    assert counts.tolist() == two.T.tolist()
    assert variances.tolist() == [[2.0] * 2] * 3
    counts, variances = net.query([0])
    assert counts.tolist() == pytest.approx([(60 / 6 + 50 / 3) / (1 / 6 + 1 / 3), (6 / 6 + 12 / 3) / (1 / 6 + 1 / 3)])
    assert variances.tolist() == pytest.approx([2.0, 2.0])
    with pytest.raises(ValueError, match="no table"):
        MarkovField((2, 3), None).query([0])


def test_a_noisy_table_says_what_its_cells_are(made: Synthesizer) -> None:
    frame = made.query(["ill", "age"]).to_pandas()
    assert list(frame) == ["ill", "age", "count", "standard_error"]
    assert frame.ill.iloc[0] == "no" and frame.age.iloc[0].startswith("0 to ")
    assert frame["count"].sum() == pytest.approx(3_000, abs=200)
    column = Column(name="pay", kind="number", bounds=(0, 40), bins=4, zero=True, special=(-1,), missing=True)
    assert merged_texts(column, [0, 1, 1, 2, 3, 4, 3]) == ("0 to 10", "10 to 30", "30 to 40", "0, missing", "-1")
    day = Column(name="day", kind="date", bounds=("2020-01-01", "2020-01-04"), bins=2)  # type: ignore[arg-type]  # dates may be text
    assert merged_texts(day, [0, 1]) == ("2020-01-01 to 2020-01-02", "2020-01-03 to 2020-01-04")
    assert merged_texts(CARD.columns[0], [0, 1, 1]) == ("f", "m, x")


def test_what_cannot_be_asked_is_refused(made: Synthesizer) -> None:
    for columns in ([], ["age", "age"], ["bill"]):
        with pytest.raises(RequestError, match="must be different names"):
            made.query(columns)
    first = fitted(people(0), 0)
    one = torch.ones(1, 1).double()
    first.net.keep([((1, 2), one, one)])
    first.net.merge(
        [torch.zeros(size, dtype=torch.int64) for size in CARD.domain], [torch.ones(size) for size in CARD.domain]
    )
    with pytest.raises(RequestError, match="no noisy query counted 'sex', 'ill' together"):
        first.query(["sex", "ill"])


def test_rows_that_meet_conditions_are_those_of_rejection_sampling(made: Synthesizer) -> None:
    """By values: chi-square of the ages of 5,000 rows and of the matching ones among 200,000, and the share of the ill. An
    interval that cuts bins gives each of their values its share. A right sampler fails with a chance of 1e-4."""
    where = {"sex": "f", "age": (25, 47)}
    own, every = made.sample(5_000, where=where, seed=1).columns(), made.sample(200_000, seed=2).columns()
    assert (own["sex"] == "f").all()
    kept = (every["sex"] == "f") & (every["age"] >= 25) & (every["age"] <= 47)
    both = np.array(
        [np.unique(np.r_[each, 25:48], return_counts=True)[1] - 1 for each in (own["age"], every["age"][kept])]
    )
    assert both.shape == (2, 23)
    ill = np.array([[(own["ill"] == value).sum(), (every["ill"][kept] == value).sum()] for value in ("no", "yes")]).T
    for table in (both, ill):
        assert stats.chi2_contingency(table).pvalue > 1e-4


def test_samples_with_conditions_are_repeated_by_a_seed_and_keep_their_values(made: Synthesizer) -> None:
    one, other = (made.sample(50, where={"age": [(3, 5), 71]}, seed=4) for _ in range(2))
    assert one.columns()["age"].tolist() == other.columns()["age"].tolist()
    assert set(one.columns()["age"].tolist()) <= {3, 4, 5, 71}
    pieces = made.stream(50, where={"age": [(3, 5), 71]}, seed=4)
    assert [age for piece in pieces for age in piece.columns()["age"].tolist()] == one.columns()["age"].tolist()
    assert len(made.sample(0, where={"sex": "f"})) == 0


def test_impossible_conditions_are_refused_by_name(made: Synthesizer) -> None:
    fresh = dataclasses.replace(made, net=MarkovField(CARD.domain, 2))
    fresh.net.merge([torch.arange(size) for size in CARD.domain], [torch.ones(size) for size in CARD.domain])
    never = [torch.zeros(CARD.domain[clique[0]]).double() for clique in fresh.net.tree.cliques]
    for clique, table in zip(fresh.net.tree.cliques, never, strict=True):
        table[0 if clique != (0,) else 1] = 1
    fresh.net.take(fresh.net.tree, never)
    with pytest.raises(RequestError, match="no row that meets the conditions on 'sex'"):
        fresh.sample(10, where={"sex": "f"})
    with pytest.raises(RequestError, match="0 meet the conditions on 'age'"):
        made.sample(10, where={"age": (30.2, 30.8)})
    with pytest.raises(RequestError, match="cannot be given together"):
        made.sample(1, where={"sex": "f"}, labels=[0])


def test_other_methods_take_no_conditions_and_count_nothing() -> None:
    net = torch.nn.Identity()
    net.classes = 2  # type: ignore[assignment]  # only the planted net has it
    other = dataclasses.replace(fitted(people(0), 0), net=net)
    with pytest.raises(RequestError, match="take no conditions"):
        other.sample(3, where={"sex": "f"})
    with pytest.raises(RequestError, match="a generator of a table by marginals keeps no noisy tables"):
        other.query(["sex"])
