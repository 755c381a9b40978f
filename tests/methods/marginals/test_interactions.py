"""Dependence of the label on several columns at once: what is asked, what is found, what a model learns from samples."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier

from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.table import Table
from gossamer.methods.job import Job
from gossamer.methods.marginals import Config, Marginals, loop, selection
from gossamer.methods.marginals.counts import Interactions
from gossamer.methods.marginals.nets import MarkovField
from gossamer.methods.marginals.tree import JunctionTree
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.training.plan import plan

COLUMNS, ROWS = 12, 20_000
CARD = TableCard(
    columns=(
        *(Column(name=f"x{k}", kind="category", values=("a", "b")) for k in range(COLUMNS)),
        Column(name="y", kind="category", values=("no", "yes")),
    ),
    declared_size=ROWS,
    label="y",
)


def parity(order: int, n: int, seed: int, share: float = 0.5) -> np.ndarray:
    """The label is the parity of the first columns, and wrong in 5 of 100 rows. share: of ones in each column."""
    draw = np.random.default_rng(seed)
    x = draw.random((n, COLUMNS)) < share
    y = (x[:, :order].sum(1) % 2) ^ (draw.random(n) < 0.05)
    return np.column_stack([x, y]).astype(np.int32)


def fitted(
    codes: np.ndarray, epsilon: float, card: TableCard = CARD, seed: int = 0, **settings: object
) -> tuple[Job, MarkovField]:
    job = plan("marginals", card, settings, epsilon=epsilon, delta=1e-5).job
    ledger = PrivacyLedger(budget=float("inf"), delta=1e-5, relation=job.relation)
    ledger.reserve(job.plan)
    training = job.begin(Rng(seed, noise_seed=seed))
    for _ in training.drive(Confined(Table(codes), ledger, training.run.rng)):
        pass
    net = training.state.released
    assert isinstance(net, MarkovField)
    return job, net


@pytest.mark.parametrize("order", [2, 4, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 3, 5, 6, 7))])
def test_a_model_learns_a_parity_from_samples(order: int) -> None:
    """At epsilon 1, as from the records: 95 of 100 can be right. By pairs and triples alone, four columns and more gave 50."""
    job, net = fitted(parity(order, ROWS, order), 1.0, iterations=20)
    samples = job.sample(net, ROWS, None, torch.Generator().manual_seed(0))[0].numpy()
    test = parity(order, 4_000, 100 + order)
    model = HistGradientBoostingClassifier(max_iter=30, random_state=0).fit(samples[:, :-1], samples[:, -1])
    assert (model.predict(test[:, :-1]) == test[:, -1]).mean() > 0.9


def test_frequent_halves_do_not_hide_a_parity() -> None:
    """Four columns that are 1 in 7 of 10 rows. Sets that add a column to the four have interactions too, and are left out."""
    _, net = fitted(parity(4, ROWS, 1, share=0.7), 1.0, iterations=5)
    own = {0, 1, 2, 3, COLUMNS}
    assert any(own <= set(each) for each in net.tree.cliques)


def test_noise_alone_seldom_stands_out() -> None:
    """Uniform rows of six columns, 20 releases of all interactions: one stands out in fewer than 1 of 1,000."""
    net = MarkovField((2,) * 7, 6)
    asked = Interactions(
        selection.halves(net), 6, [s for k in range(1, 7) for s in itertools.combinations(range(6), k)]
    )
    exact = asked.of(Table(np.random.default_rng(0).integers(2, size=(ROWS, 7)).astype(np.int32)), 1)
    draw, found = torch.Generator().manual_seed(0), 0
    for _ in range(20):
        answer = exact + 1_000 * torch.randn(63, generator=draw, dtype=torch.float64)
        found += len(selection.standing_out(asked, answer, net, total=float(ROWS), noise=1_000.0))
    assert found == 0


def test_what_the_model_has_already_does_not_stand_out() -> None:
    """The parity of two columns: found beside uniform rows, with the error beyond chance, and not beside its own model."""
    table = torch.tensor([[[0.2, 0.05], [0.05, 0.2]], [[0.05, 0.2], [0.2, 0.05]]]).double()
    net, uniform = MarkovField((2, 2, 2, 2), 2), MarkovField((2, 2, 2, 2), 2)
    net.take(JunctionTree.over([(0, 1, 2), (3,)], (2,) * 4, 2), [table, torch.tensor([0.5, 0.5]).double()])
    sets = [(0,), (1,), (3,), (0, 1), (0, 3), (1, 3), (0, 1, 3)]
    asked = Interactions(selection.halves(uniform), 2, sets)
    exact = asked.of(Table(net.sample(50_000, None, torch.Generator().manual_seed(1)).numpy()), 1)
    assert exact[3].abs() == pytest.approx(30_000, abs=300)
    found = selection.standing_out(asked, exact, uniform, total=50_000.0, noise=1_000.0)
    assert list(found) == [(0, 1, 2)]
    assert found[0, 1, 2] == pytest.approx(30_000 - 4.5 * 1_097, abs=1_000)
    assert selection.standing_out(asked, exact, net, total=50_000.0, noise=1_000.0) == {}


def test_sets_of_interactions() -> None:
    """The smaller first; each without its last column is one too; tables with the label have few enough cells. Whole orders."""
    config = Config(noise_multiplier=0.0, clique_cells=40).resolved(CARD)
    facts = TableCard(
        columns=tuple(Column(name=n, kind="category", values=("0", "1")) for n in "abc"), declared_size=9, label="c"
    )
    assert selection.interaction_sets(config, facts, (2, 3, 2, 1, 4)) == [(0,), (1,), (4,), (0, 1), (0, 4), (1, 4)]
    pairs = 12 + 66
    for size, due in ((ROWS, 7), (4_000, 2), (600, 0)):
        card = dataclasses.replace(CARD, declared_size=size)
        asked = plan("marginals", card, {}, epsilon=1.0, delta=1e-5).job.config.resolved(card)  # type: ignore[arg-type]  # a plan has any Config; this is of marginals
        sets = selection.interaction_sets(asked, card, card.domain)
        assert len(sets[-1] if sets else ()) == due
        assert not sets or 0.4 * size >= 4.5 * selection.interaction_noise(asked, card, len(sets))
        assert len(sets) == 0 or len(sets) >= pairs


def test_halves_are_those_of_the_model() -> None:
    net = MarkovField((4, 3, 2), 2)
    net.merge(
        [torch.tensor([0, 1, 1, 2]), torch.arange(3), torch.arange(2)], [torch.ones(k).double() for k in (4, 3, 2)]
    )
    tree = JunctionTree.over([(0, 1), (2,)], (3, 3, 2), 2)
    joint = torch.tensor([0.3, 0.15, 0.55])[:, None] * torch.tensor([0.9, 0.05, 0.05])
    net.take(
        tree, [joint.double() if len(clique) == 2 else torch.tensor([0.5, 0.5]).double() for clique in tree.cliques]
    )
    halves = [each.tolist() for each in selection.halves(net)]
    assert halves == [[-1, -1, -1, 1], [-1, 1, 1], [-1, 1]]


def test_interactions_are_asked_in_the_last_round_where_noise_does_not_hide_them() -> None:
    job = plan("marginals", CARD, {}, epsilon=1.0, delta=1e-5).job
    training = job.begin(Rng(0))
    run, state = dataclasses.replace(training.run, config=job.config.resolved(CARD)), training.state
    assert isinstance(state, loop.State)
    asked = [loop.interactions(run, state, round_) for round_ in range(3)]
    assert asked[:2] == [None, None]
    assert asked[2] is not None and len(asked[2].sets[-1]) == 7
    for card in (dataclasses.replace(CARD, declared_size=500), dataclasses.replace(CARD, label=None)):
        other = Job(Marginals(), job.config.resolved(card), card).begin(Rng(0))
        assert loop.interactions(other.run, other.state, 2) is None


def test_a_plan_says_up_to_how_many_columns() -> None:
    config = plan("marginals", CARD, {}, epsilon=1.0, delta=1e-5).job.config
    told = " ".join(Marginals().outlook(config, CARD))  # type: ignore[arg-type]  # a method takes any Config and card
    assert (
        "How y depends on several columns at once is counted for up to 7 columns. To be seen, such a dependence must"
        in told
    )
    few = dataclasses.replace(CARD, declared_size=600)
    assert "How y depends on several columns at once is not counted" in " ".join(Marginals().outlook(config, few))  # type: ignore[arg-type]  # a method takes any Config and card
