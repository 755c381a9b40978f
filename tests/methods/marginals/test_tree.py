"""The junction tree, the fit and the sampler against brute force over all rows of a small domain."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from gossamer.methods.marginals.fit import fit
from gossamer.methods.marginals.nets import MarkovField, stratified
from gossamer.methods.marginals.selection import expected
from gossamer.methods.marginals.tree import Clique, JunctionTree, cells_of, spread, summed, triangulated

SIZES = (3, 2, 4, 2, 3)
EVERY = tuple(range(len(SIZES)))
GRAPHS: list[list[Clique]] = [
    [],
    [(0, 1), (1, 2), (2, 3), (3, 4)],  # a chain
    [(0, 4), (1, 4), (2, 4), (3, 4)],  # a star
    [(0, 1), (1, 2), (2, 3), (0, 3)],  # a circle, which needs a chord; column 4 is alone
    [(0, 1, 2), (2, 3, 4)],
    [(0, 1, 2), (1, 2, 3), (0, 3), (3, 4)],
    [(0, 1, 2, 3, 4)],
]


def random_field(graph: list[Clique], seed: int = 0, root: int | None = None) -> tuple[JunctionTree, list[Tensor]]:
    tree = JunctionTree.over(graph, SIZES, root)
    draw = torch.Generator().manual_seed(seed)
    return tree, [2 * torch.randn(shape, generator=draw, dtype=torch.float64) for shape in tree.shapes]


def every_row(tree: JunctionTree, potentials: list[Tensor]) -> Tensor:
    """The unnormalised probability of each row, one axis a column."""
    total = torch.zeros(SIZES, dtype=torch.float64)
    for clique, potential in zip(tree.cliques, potentials, strict=True):
        total = total + spread(potential, clique, EVERY)
    return total.exp()


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("root", [None, 2])
def test_partition_function_and_marginals_by_brute_force(graph: list[Clique], root: int | None) -> None:
    tree, potentials = random_field(graph, root=root)
    rows = every_row(tree, potentials)
    torch.testing.assert_close(tree.log_partition(potentials), rows.sum().log())
    assert root is None or root in tree.cliques[0]
    for clique, found in zip(tree.cliques, tree.marginals(potentials), strict=True):
        torch.testing.assert_close(found, summed(rows / rows.sum(), EVERY, clique))


@pytest.mark.parametrize("graph", GRAPHS)
def test_pairs_by_brute_force(graph: list[Clique]) -> None:
    tree, potentials = random_field(graph)
    rows = every_row(tree, potentials)
    pairs = tree.pairs(tree.marginals(potentials))
    assert sorted(pairs) == list(itertools.combinations(EVERY, 2))
    for pair, found in pairs.items():
        torch.testing.assert_close(found, summed(rows / rows.sum(), EVERY, pair))


def test_expected_triples() -> None:
    """Exact within a clique and along a chain of three; of others, the three pairs that a chain keeps add up to 1."""
    tree, potentials = random_field([(0, 1), (1, 2), (2, 3, 4)])
    rows = every_row(tree, potentials)
    triples = list(itertools.combinations(EVERY, 3))
    found = dict(zip(triples, expected(triples, tree, tree.marginals(potentials)), strict=True))
    for triple in ((0, 1, 2), (2, 3, 4)):
        torch.testing.assert_close(found[triple], summed(rows / rows.sum(), EVERY, triple))
    for triple, table in found.items():
        assert table.shape == tuple(SIZES[column] for column in triple)
        torch.testing.assert_close(table.sum(), torch.tensor(1.0, dtype=torch.float64))


@pytest.mark.parametrize("graph", GRAPHS)
def test_triangulation(graph: list[Clique]) -> None:
    """Maximal cliques hold what was asked for, none holds another, and columns that two share are on the path between them."""
    cliques = triangulated(graph, SIZES)
    assert all(any(set(asked) <= set(clique) for clique in cliques) for asked in graph)
    assert {column for clique in cliques for column in clique} == set(EVERY)
    assert not any(set(a) <= set(b) for a, b in itertools.permutations(cliques, 2))
    assert cells_of(cliques, SIZES) == sum(math.prod(SIZES[each] for each in clique) for clique in cliques)
    tree = JunctionTree.over(graph, SIZES)
    for k, clique in enumerate(tree.cliques[1:], start=1):
        before = {column for each in tree.cliques[:k] for column in each}
        assert tree.parents[k] < k
        assert set(clique) & before == set(tree.separators[k]) <= set(tree.cliques[tree.parents[k]])


def test_the_circle_needs_a_chord() -> None:
    assert sorted(len(clique) for clique in triangulated(GRAPHS[3], SIZES)) == [1, 3, 3]


@pytest.mark.parametrize("graph", GRAPHS[1:])
def test_fit_recovers_exact_marginals(graph: list[Clique]) -> None:
    """Without noise, from the tables of a distribution that has other dependences too. Tolerance: 0.2 of 10,000 rows."""
    draw = np.random.default_rng(0)
    rows = torch.from_numpy(draw.dirichlet(np.full(math.prod(SIZES), 0.5)).reshape(SIZES)) * 10_000
    measured = [(clique, summed(rows, EVERY, clique)) for clique in graph]
    exact = [(clique, table, torch.zeros_like(table)) for clique, table in measured]
    tree = JunctionTree.over(graph, SIZES)
    fitted, _ = fit(exact, tree, total=10_000.0, smoothing=1.0, iterations=1_000)
    for clique, table in measured:
        home = tree.home(clique)
        assert home is not None
        found = summed(fitted[home], tree.cliques[home], clique) * 10_000
        assert float((found - table).abs().max()) < 0.2


def test_fit_goes_on_from_duals() -> None:
    draw = torch.Generator().manual_seed(1)
    graph = GRAPHS[5]
    tree = JunctionTree.over(graph, SIZES)
    tables = [(clique, torch.rand([SIZES[column] for column in clique], generator=draw).double()) for clique in graph]
    measured = [(clique, 50 * table, torch.ones_like(table)) for clique, table in tables]
    whole, duals = fit(measured, tree, total=300.0, smoothing=0.5, iterations=500)
    again, _ = fit(measured, tree, total=300.0, smoothing=0.5, iterations=1, duals=duals)
    for first, second in zip(whole, again, strict=True):
        torch.testing.assert_close(first, second, atol=1e-4, rtol=0)


def test_fit_weighs_counts_by_their_variance() -> None:
    """Two measurements of a column that contradict each other: the fit is at the weighted mean."""
    size = 2
    pair = torch.tensor([900.0, 100.0]).double(), torch.tensor([500.0, 500.0]).double()
    measured = [((0,), pair[0], torch.full((size,), 1.0).double()), ((0,), pair[1], torch.full((size,), 3.0).double())]
    fitted, _ = fit(measured, JunctionTree.over([(0,)], (size,)), total=1_000.0, smoothing=1e-6, iterations=500)
    torch.testing.assert_close(fitted[0] * 1_000, torch.tensor([800.0, 200.0]).double(), atol=0.5, rtol=0)


@pytest.mark.parametrize("total", [1.0, 12.0])
def test_noise_alone_gives_a_finite_model(total: float) -> None:
    draw = torch.Generator().manual_seed(1)
    noise = [
        (clique, 40 * torch.randn([SIZES[column] for column in clique], generator=draw).double())
        for clique in GRAPHS[5]
    ]
    measured = [(clique, table, torch.full_like(table, 1_600.0)) for clique, table in noise]
    fitted, _ = fit(measured, JunctionTree.over(GRAPHS[5], SIZES), total=total, smoothing=0.02, iterations=200)
    for table in fitted:
        assert bool(table.isfinite().all())
        assert bool((table >= 0).all())


def field_of(graph: list[Clique], label: int | None = None, seed: int = 0) -> tuple[MarkovField, Tensor]:
    tree, potentials = random_field(graph, seed, root=label)
    net = MarkovField(SIZES, label)
    net.take(tree, tree.marginals(potentials))
    rows = every_row(tree, potentials)
    return net, rows / rows.sum()


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("label", [None, 2])
def test_samples_have_the_distribution_of_the_field(graph: list[Clique], label: int | None) -> None:
    """Chi-square over all 144 rows: of one row of each of 200 calls, which are independent, and of 20,000 rows of one call.
    The rows of one call are stratified, which makes the statistic smaller, so its upper tail is tested. A right sampler fails
    with a chance of 1e-4 a case. The seed is fixed.
    """
    net, rows = field_of(graph, label)
    stream = torch.Generator().manual_seed(5)
    cells = rows.flatten().numpy()
    seen = np.zeros_like(cells)
    for _ in range(200):
        sampled = net.sample(100, None, stream).numpy()
        seen[np.ravel_multi_index(tuple(sampled[:1].T), SIZES)] += 1
    common = cells >= 5 / 200
    observed, due = (np.append(each[common], each[~common].sum()) for each in (seen, cells * 200))
    statistic = float(((observed - due) ** 2 / np.maximum(due, 1e-9)).sum())
    assert statistic < stats.chi2(max(1, len(due) - 1)).ppf(1 - 1e-4)
    whole = np.bincount(
        np.ravel_multi_index(tuple(net.sample(20_000, None, stream).numpy().T), SIZES), minlength=len(cells)
    )
    statistic = float(((whole - cells * 20_000) ** 2 / (cells * 20_000))[cells > 2.5e-4].sum())
    assert statistic < stats.chi2(int((cells > 2.5e-4).sum())).ppf(1 - 1e-4)


def test_samples_with_given_labels() -> None:
    """Conditional distributions: chi-square of the other columns for each label, 20,000 rows. Chance of a false alarm: 1e-4."""
    net, rows = field_of(GRAPHS[5], label=3)
    for label in range(SIZES[3]):
        sampled = net.sample(20_000, torch.full((20_000,), label), torch.Generator().manual_seed(1))
        assert bool((sampled[:, 3] == label).all())
        due = rows.select(3, label).flatten().numpy()
        due = due / due.sum() * 20_000
        others = [column for column in EVERY if column != 3]
        cells = np.ravel_multi_index(tuple(sampled[:, others].numpy().T), [SIZES[column] for column in others])
        seen = np.bincount(cells, minlength=len(due))
        common = due >= 5
        assert float(((seen - due) ** 2 / due)[common].sum()) < stats.chi2(int(common.sum())).ppf(1 - 1e-4)


def test_rows_of_one_call_are_stratified() -> None:
    """A column alone gets its shares of rows up to one row."""
    table = torch.tensor([[0.5, 0.3, 0.2, 0.0]]).double()
    counts = torch.bincount(stratified(table, torch.zeros(1_000, dtype=torch.int64), torch.Generator().manual_seed(0)))
    assert (counts - torch.tensor([500, 300, 200])).abs().max() <= 1


def test_no_row_and_rows_of_zeros() -> None:
    assert stratified(torch.ones(2, 3).double(), torch.zeros(0, dtype=torch.int64), torch.Generator()).shape == (0,)
    even = stratified(
        torch.zeros(1, 4).double(), torch.zeros(4_000, dtype=torch.int64), torch.Generator().manual_seed(0)
    )
    assert torch.bincount(even, minlength=4).tolist() == pytest.approx([1_000] * 4, abs=1)
    assert MarkovField(SIZES, 1).sample(0, None, torch.Generator()).shape == (0, 5)


def test_merged_values_are_split_by_their_shares() -> None:
    net = MarkovField((4, 2), 1)
    net.merge([torch.tensor([0, 1, 1, 0]), torch.arange(2)], [torch.tensor([30.0, 5.0, 15.0, -8.0]), torch.ones(2)])
    assert net.sizes == (2, 2)
    tree = JunctionTree.over([(0, 1)], (2, 2), 1)
    net.take(tree, [torch.tensor([[0.25, 0.25], [0.25, 0.25]]).double()])
    counts = torch.bincount(net.sample(4_000, None, torch.Generator().manual_seed(0))[:, 0], minlength=4)
    assert counts.tolist() == pytest.approx([2_000, 500, 1_500, 0], abs=3)


def test_weights_of_any_length_are_loaded() -> None:
    net, _ = field_of(GRAPHS[5], label=3)
    fresh = MarkovField(SIZES, 3)
    fresh.load_state_dict(net.state_dict())
    stream = torch.Generator
    assert torch.equal(*(each.sample(50, None, stream().manual_seed(1)) for each in (net, fresh)))
    assert fresh.tree == net.tree


# Rows that meet conditions


CONDITIONS = {0: torch.tensor([True, False, True]), 2: torch.tensor([False, True, True, False])}


@pytest.mark.parametrize("graph", GRAPHS)
def test_conditions_give_the_exact_distribution_of_the_rows_that_meet_them(graph: list[Clique]) -> None:
    """Each clique's table against brute force over all 144 rows, of which others are cut off."""
    net, rows = field_of(graph)
    for column, allowed in CONDITIONS.items():
        rows = rows * spread(allowed.double(), (column,), EVERY)
    found = net.conditioned(CONDITIONS)
    for clique, table in zip(found.tree.cliques, found.tables, strict=True):
        torch.testing.assert_close(table, summed(rows / rows.sum(), EVERY, clique))
    assert net.sample(300, None, torch.Generator().manual_seed(0))[:, 0].unique().tolist() == [0, 1, 2], (
        "left as it was"
    )


@pytest.mark.parametrize("graph", GRAPHS)
def test_conditional_samples_are_those_of_rejection_sampling(graph: list[Clique]) -> None:
    """Chi-square of two samples of 20,000 rows in the columns without a condition. A right sampler fails with a chance of 1e-4
    a case. The seed is fixed."""
    net, _ = field_of(graph)
    stream = torch.Generator().manual_seed(2)
    own = net.conditioned(CONDITIONS).sample(20_000, None, stream).numpy()
    every = net.sample(200_000, None, stream).numpy()
    kept = every[np.isin(every[:, 0], [0, 2]) & np.isin(every[:, 2], [1, 2])]
    counts = [np.bincount(np.ravel_multi_index(tuple(each.T), SIZES), minlength=144) for each in (own, kept)]
    assert not counts[0][(counts[1] == 0) & (counts[0] > 20)].any()
    both = np.stack(counts)[:, counts[1] >= 5]
    due = both.sum(1, keepdims=True) * both.sum(0) / both.sum()
    statistic = float(((both - due) ** 2 / due).sum())
    assert statistic < stats.chi2(both.shape[1] - 1).ppf(1 - 1e-4)


def test_conditions_on_merged_values_and_on_the_label() -> None:
    """Of values 1 and 2, which are one in the tree, 1 alone is allowed: a quarter of 20 of 100 rows, beside 40 with value 0."""
    net = MarkovField((4, 2), 1)
    net.merge(
        [torch.tensor([0, 1, 1, 2]), torch.arange(2)], [torch.tensor([9.0, 5, 15, 9]).double(), torch.ones(2).double()]
    )
    tree = JunctionTree.over([(0, 1)], (3, 2), 1)
    net.take(tree, [torch.tensor([[0.3, 0.1], [0.15, 0.05], [0.2, 0.2]]).double()])
    only = net.conditioned({0: torch.tensor([True, True, False, False])})
    counts = torch.bincount(only.sample(9_000, None, torch.Generator().manual_seed(0))[:, 0], minlength=4)
    assert counts.tolist() == pytest.approx([8_000, 1_000, 0, 0], abs=3)
    labels = net.conditioned({1: torch.tensor([False, True])}).sample(70, None, torch.Generator().manual_seed(0))
    assert labels[:, 1].unique().tolist() == [1]
    assert int((labels[:, 0] == 0).sum()) == 20


def test_conditions_that_no_row_meets_are_refused() -> None:
    net, _ = field_of(GRAPHS[6])
    with pytest.raises(ValueError, match="no row"):
        net.conditioned({0: torch.zeros(3, dtype=torch.bool)})
    table = torch.tensor([[0.5, 0.0], [0.0, 0.5]]).double()
    apart = MarkovField((2, 2), None)
    apart.take(JunctionTree.over([(0, 1)], (2, 2)), [table])
    with pytest.raises(ValueError, match="no row"):
        apart.conditioned({0: torch.tensor([True, False]), 1: torch.tensor([False, True])})
