"""Values within merged values: what stands out of the noise stays, tails decay, and nothing is drawn by lot."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.decode import to_numbers
from gossamer.data.tables.table import Table
from gossamer.methods.job import Job
from gossamer.methods.marginals import Config, Marginals, fine_columns, groups, is_blind, loop, selection
from gossamer.methods.marginals.loop import State
from gossamer.methods.marginals.smoothing import FineCounts, group_map, shares
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng


def noisy(counts: np.ndarray, deviation: float, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(counts + np.random.default_rng(seed).normal(0, deviation, len(counts)))


def test_groups_are_equal_runs_and_values_without_an_order_are_alone() -> None:
    assert group_map(8, 6, 3).tolist() == [0, 0, 1, 1, 2, 2, 3, 4]
    assert group_map(6, 5, 2).tolist() == [0, 0, 0, 1, 1, 2]


def test_counts_by_two_queries_are_those_of_least_squares() -> None:
    """Values 3 and 5 sum to 8, the group has 11: each gets 3 / (2 + 1) more. A value alone gets the mean."""
    fine = FineCounts(torch.tensor([3.0, 5.0, 10.0]).double(), 2.0, 2)
    both = fine.with_groups(torch.tensor([11.0, 20.0]).double(), torch.tensor([0, 0, 1]))
    assert both.counts.tolist() == pytest.approx([4, 6, 15])
    assert (fine.variance(0, 2), fine.variance(2, 3)) == (8, 4)
    assert both.variance(0, 2) == pytest.approx(4 * (2 - 4 / 3))
    assert both.variance(2, 3) == pytest.approx(2)


@pytest.mark.parametrize(("first", "beyond"), [(0, 12), (0, 3), (2, 7), (5, 6), (3, 10), (12, 13)])
def test_the_variance_of_a_sum_is_that_of_a_linear_map(first: int, beyond: int) -> None:
    """The sum is linear in 13 + 4 independent answers with a variance of 4: its variance is 4 times the sum of the squares."""
    groups, squares = group_map(13, 12, 3), 0.0
    for k in range(17):
        answers = torch.eye(17).double()[k]
        both = FineCounts(answers[:13], 2.0, 12).with_groups(answers[13:], groups)
        squares += float(both.counts[first:beyond].sum()) ** 2
    assert both.variance(first, beyond) == pytest.approx(4 * squares)


def test_merged_sums_keep_counts_and_know_their_noise() -> None:
    fine = FineCounts(torch.arange(6.0).double(), 2.0, 4)
    counts, variances = fine.sums(torch.tensor([0, 0, 1, 1, 2, 0]))
    assert counts.tolist() == [6, 5, 4]
    assert variances.tolist() == [12, 8, 4]


def test_a_tail_decays_and_keeps_its_sum() -> None:
    """Exponential counts in 60 of 1,000 bins. The last merged value has 940 empty ones, which get next to nothing."""
    true = np.zeros(1_000)
    true[:60] = 4_000 * 0.93 ** np.arange(60)
    fine = FineCounts(noisy(true, 60.0), 60.0, 1_000)
    merged = selection.merged(fine, most=32)
    rows = torch.bincount(merged, torch.from_numpy(true))
    made = shares(fine, merged, rows).numpy()
    made = np.concatenate(
        [
            own * total / own.sum()
            for own, total in zip(np.split(made, np.flatnonzero(np.diff(merged)) + 1), rows.numpy(), strict=True)
        ]
    )
    assert made.sum() == pytest.approx(true.sum())
    assert made[120:].sum() < 0.002 * true.sum()
    at = np.arange(1_000)
    assert (made * at).sum() / made.sum() == pytest.approx((true * at).sum() / true.sum(), rel=0.05)


def test_a_value_that_stands_out_keeps_its_count_within_a_merged_value() -> None:
    """700 of 1,000 rows have value 20; the others are even. In a tail too: bounds that clip put rows into the last bin."""
    for place in (20, 39):
        true = np.full(40, 300 / 39)
        true[place] = 700
        fine = FineCounts(noisy(true, 20.0), 20.0, 40)
        made = shares(fine, torch.zeros(40, dtype=torch.int64), torch.tensor([1_000.0])).numpy()
        made *= 1_000 / made.sum()
        assert made[place] == pytest.approx(700, abs=70)
        assert np.delete(made, place).max() < 30


@pytest.mark.parametrize(("many", "rows", "most"), [(50, 200, 0.33), (300, 300, 0.03)])
def test_rows_stay_at_the_few_of_many_values_that_occur(many: int, rows: int, most: float) -> None:
    """With noise of 45. Judged alone, .54 of the rows would leave 50 values; after one pass, .13 would leave 300."""
    true, merged, new = np.zeros(2_000), torch.arange(2_000) // 500, []
    places = np.random.default_rng(1).permutation(2_000)[:many]
    true[places] = rows
    for seed in range(5):
        fine = FineCounts(noisy(true, 45.0, seed), 45.0, 2_000)
        made = shares(fine, merged, torch.bincount(merged, torch.from_numpy(true))).numpy()
        new.append(1 - made[places].sum() / made.sum())
    assert np.mean(new) < most


def test_noise_alone_stands_out_in_few_runs() -> None:
    """A share of FALSE of them, with seeds: one value in 30 runs at most has a hundredth of the rows by chance."""
    found = 0
    for seed in range(30):
        fine = FineCounts(noisy(np.full(2_000, 5.0), 45.0, seed), 45.0, 2_000)
        made = shares(fine, torch.zeros(2_000, dtype=torch.int64), torch.tensor([10_000.0]))
        found += int((made > 0.01 * made.sum()).sum())
    assert found <= 1


def test_values_follow_their_counts_only_as_far_as_these_vary_by_more_than_noise() -> None:
    true = np.tile([40.0, 60.0], 200)
    together = torch.zeros(400, dtype=torch.int64)
    for deviation, low, high in ((0.1, 59, 61), (200.0, 49, 51.5)):
        fine = FineCounts(noisy(true, deviation), deviation, 400)
        made = shares(fine, together, torch.tensor([20_000.0])).numpy()
        made *= 20_000 / made.sum()
        assert low < made[1::2].mean() < high


def test_noise_takes_no_rows_from_a_value_with_nearly_all() -> None:
    """15,000 zeros, 100 rows from 1 to 500: what noise adds to values without rows is taken off such values again."""
    counts, merged = np.append(15_000.0, np.full(500, 0.2)), torch.zeros(501, dtype=torch.int64)
    found = [
        shares(FineCounts(noisy(counts, 40.0, seed), 40.0, 501), merged, torch.tensor([15_100.0])) for seed in range(20)
    ]
    zeros = [float(each[0] / each.sum()) * 15_100 for each in found]
    assert np.mean(zeros) == pytest.approx(15_000, abs=40) and min(zeros) > 14_880


def test_rare_categories_get_even_shares_and_none_is_drawn_by_lot() -> None:
    true = np.zeros(80)
    true[:40] = 5
    fine = FineCounts(noisy(true, 60.0), 60.0, 0)
    made = shares(fine, torch.zeros(80, dtype=torch.int64), torch.tensor([200.0])).numpy()
    assert (made * 200 / made.sum()).max() < 8


def test_rows_in_a_few_counted_groups_are_found_there() -> None:
    """310 rows in 40 of 320 values, each group of ten counted with a noise of 28. Rows that are spread evenly stay so."""
    groups, merged_map = group_map(320, 320, 32), torch.zeros(320, dtype=torch.int64)
    off = []
    for first, last in ((20, 60), (0, 320)):
        true = torch.zeros(320).double()
        true[first:last] = 310 / (last - first)
        for seed in range(20):
            random = torch.Generator().manual_seed(seed)
            counts, sums = (
                each + 28 * torch.randn(len(each), generator=random).double()
                for each in (true, torch.bincount(groups, true))
            )
            fine = FineCounts(counts, 28.0, 320).with_groups(sums, groups)
            made = shares(fine, merged_map, torch.tensor([310.0]).double())
            off.append(
                float((torch.bincount(groups, made) / made.sum() - torch.bincount(groups, true) / 310).abs().sum() / 2)
            )
    assert np.mean(off[:20]) < 0.25, "spread evenly, they are off by 0.87"
    assert np.mean(off[20:]) < 0.15


def test_noise_puts_no_rows_far_from_all_others() -> None:
    """1,000 rows in 40 values and 60 in the 20 that follow; the last 160 of 320 values have none, and a noise of 28 a group."""
    groups, merged = group_map(320, 320, 32), (torch.arange(320) >= 40).long()
    true = torch.where(torch.arange(320) < 40, 25.0, torch.where(torch.arange(320) < 60, 3.0, 0.0)).double()
    far = []
    for seed in range(20):
        random = torch.Generator().manual_seed(seed)
        noise = [28 * torch.randn(n, generator=random).double() for n in (320, 32)]
        sums = torch.bincount(groups, true) + noise[1]
        fine = FineCounts(true + noise[0], 28.0, 320).with_groups(sums, groups)
        made = shares(fine, merged, torch.tensor([1_000.0, 60.0]).double())
        far.append(float(made[160:].sum() / made[40:].sum()))
    assert np.mean(far) < 0.1


def test_noise_beside_a_value_with_all_rows_is_no_rows() -> None:
    """9,900 zeros and nothing from 1 to 20, a noise of 40: before, noise alone put 0.6 % of the rows far from zero."""
    true = np.append(9_900.0, np.zeros(20))
    made = [
        shares(FineCounts(noisy(true, 40.0, seed), 40.0, 21), torch.zeros(21).long(), torch.tensor([9_900.0]))
        for seed in range(40)
    ]
    assert np.mean([float(1 - each[0] / each.sum()) for each in made]) < 0.001


def test_a_tail_ends_where_its_groups_no_longer_stand_out() -> None:
    """1,500 rows in 21 of the 30 groups of a last merged value, each with a noise of 26: a decay alone goes on to the bound."""
    groups, merged = group_map(960, 960, 32), (torch.arange(960) >= 60).long()
    true = torch.where(torch.arange(960) < 60, 20.0, torch.where(torch.arange(960) < 700, 1_500 / 640, 0.0)).double()
    beyond = []
    for seed in range(20):
        random = torch.Generator().manual_seed(seed)
        counts, sums = (
            each + 26 * torch.randn(len(each), generator=random).double()
            for each in (true, torch.bincount(groups, true))
        )
        fine = FineCounts(counts, 26.0, 960).with_groups(sums, groups)
        made = shares(fine, merged, torch.tensor([1_200.0, 1_500.0]).double())
        beyond.append(float(made[760:].sum() / made[60:].sum()))
    assert np.median(beyond) < 1e-6, "without an end, 0.007"
    assert np.mean(beyond) < 0.004, "without an end, 0.009"


def test_a_list_ends_where_its_values_no_longer_stand_out() -> None:
    """Values 0 to 7 of 21 have 5,000 rows, with a noise of 20 on each value."""
    true = np.append(5_000 * 0.5 ** np.arange(1, 9), np.zeros(13))
    beyond = []
    for seed in range(20):
        fine = FineCounts(noisy(true, 20.0, seed), 20.0, 21)
        merged = selection.merged(fine, most=32)
        made = shares(fine, merged, torch.bincount(merged, torch.from_numpy(true))).numpy()
        beyond.append(made[12:].sum() / made.sum())
    assert np.median(beyond) < 1e-6, "without an end, 1e-4"


def test_a_rare_value_at_the_end_of_a_list_stays() -> None:
    """50 of 32,000 rows have the first of 16 values, with a noise of 30."""
    true = np.append([50.0, 170.0], np.full(14, 2_270.0))
    merged = torch.tensor([0, 0, *range(1, 15)])
    found = []
    for seed in range(10):
        fine = FineCounts(noisy(true, 30.0, seed), 30.0, 16)
        found.append(float(shares(fine, merged, torch.bincount(merged, torch.from_numpy(true)))[0]))
    assert min(found) > 5


def test_a_model_without_rows_in_a_merged_value_still_has_shares() -> None:
    made = shares(FineCounts(torch.zeros(6).double(), 5.0, 4), torch.tensor([0, 0, 0, 1, 2, 2]), torch.zeros(3))
    assert bool((made > 0).all())


PAY = Column(name="pay", kind="integer", bounds=(1, 1_000_000), bins=1_000, log=True, zero=True, outside="clip")
CARD = TableCard(
    columns=(PAY, Column(name="ill", kind="category", values=("no", "yes"))), declared_size=20_000, label="ill"
)


def pays(seed: int, n: int = 20_000) -> Table:
    random = np.random.default_rng(seed)
    pay = np.where(random.random(n) < 0.2, 0, random.lognormal(9, 1, n))
    edges = np.searchsorted(PAY.cuts, pay, side="right") - 1
    codes = np.where(pay < 1, PAY.plain, edges.clip(0, PAY.plain - 1))
    return Table(np.stack([codes, random.integers(0, 2, n)], 1).astype(np.int32))


def trained(card: TableCard, rows: Table, **settings: float) -> tuple[State, Job[Any, Any]]:
    job = Job.of(Marginals(), {"noise_multiplier": 3.7, **settings}, card)
    ledger = PrivacyLedger(budget=float("inf"), delta=1e-5, relation=job.relation)
    ledger.reserve(job.plan)
    training = job.begin(Rng(0, noise_seed=0))
    private: Confined[Any] = Confined(rows, ledger, training.run.rng)
    for _ in training.drive(private):
        pass
    state = training.state
    assert isinstance(state, State)
    return state, job


def test_money_with_far_too_wide_bounds_keeps_zeros_quartiles_mean_and_tail() -> None:
    """Epsilon about 1. Of the log-normal pays, 0.2 % are above 130,000, and the bounds go to 1,000,000."""
    rows = pays(0)
    state, job = trained(CARD, rows)
    made = job.sample(state.released, 20_000, None, torch.Generator().manual_seed(0))[0].numpy()
    real, own = (to_numbers(codes, CARD, seed=0)[:, 0] for codes in (rows.codes, made))
    assert np.mean(own == 0) == pytest.approx(np.mean(real == 0), abs=0.01)
    low, middle, high = np.quantile(real, [0.25, 0.5, 0.75])
    assert np.quantile(own, [0.25, 0.5, 0.75]) == pytest.approx([low, middle, high], abs=0.05 * (high - low))
    assert own.mean() == pytest.approx(real.mean(), abs=0.05 * real.std())
    far = np.quantile(real, 0.99)
    assert np.quantile(own, 0.99) == pytest.approx(far, abs=0.1 * (far - middle))


def test_a_column_with_many_bins_is_counted_twice_and_a_person_moves_each_table_by_one() -> None:
    run = dataclasses.replace(
        Job.of(Marginals(), {"noise_multiplier": 1.0}, CARD).begin(Rng(0)).run, config=Config(noise_multiplier=1.0)
    )
    query = loop.first_query(run)
    assert (query.cliques, query.again) == ([(0,), (1,), (2,)], [0])
    rows = pays(1, 50)
    bounds = Bounds(norms=query.norms, groups=(0, 1, 2))
    change = query.clipped_sum(rows, bounds) - query.clipped_sum(Table(rows.codes[1:]), bounds)
    assert [float(each.norm()) for each in query.tables(change)] == [1, 1, 1]
    fine, _, groups = query.tables(query.clipped_sum(rows, bounds))
    assert torch.equal(groups, torch.bincount(query.maps[2], fine, len(groups)))


def test_groups_are_as_many_as_stand_out() -> None:
    """Two tables with a noise of 1 in all have sqrt(2) each. 2 sqrt(3) are two of 32 parts of 55.4 rows."""
    config = Config(noise_multiplier=0.3**0.5, columns_share=0.3)
    for size, fine, due in ((91, [0], 32), (90, [0], 31), (56, [0], 19), (55, [], 19), (30, [], 10), (10, [], 4)):
        card = dataclasses.replace(CARD, declared_size=size)
        assert (fine_columns(config, card), groups(config, card)) == (fine, due)
        persons = dataclasses.replace(card, declared_size=5 * size, unit="person", max_rows=5)
        assert (fine_columns(config, persons), groups(config, persons)) == (fine, due)
    assert groups(Config(noise_multiplier=0.0), CARD) == 32


@pytest.mark.parametrize("size", [250, 20])
def test_where_noise_hides_single_values_groups_are_counted_and_a_person_moves_each_table_by_one(size: int) -> None:
    """Two tables with the noise 3 x sqrt(2) each. Two deviations leave 18 groups of 250 rows, at 0.4 of the budget."""
    card = dataclasses.replace(CARD, declared_size=size)
    run = Job.of(Marginals(), {"noise_multiplier": 3.0}, card).begin(Rng(0)).run
    query, rows = loop.first_query(run), pays(1, size)
    assert (query.cliques, query.again, query.sizes) == ([(1,), (0,)], [], [2, {250: 19, 20: 5}[size]]), "and zero"
    bounds = Bounds(norms=query.norms, groups=(0, 1))
    change = query.clipped_sum(rows, bounds) - query.clipped_sum(Table(rows.codes[1:]), bounds)
    assert [float(each.norm()) for each in query.tables(change)] == [1, 1]
    shares_of_values = trained(card, rows, noise_multiplier=3.0)[0].net.shares[: len(query.maps[0])]
    means = torch.bincount(query.maps[0], shares_of_values) / torch.bincount(query.maps[0])
    assert torch.allclose(shares_of_values, means[query.maps[0]], atol=1e-12), "values of a group are alike"


def test_where_columns_are_counted_alone_one_query_has_the_whole_budget() -> None:
    job = Job.of(Marginals(), {"noise_multiplier": 3.0}, dataclasses.replace(CARD, declared_size=20))
    assert [(event.noise_multiplier, count) for event, count in job.plan] == [(3.0, 1)]
    assert job.trained({"phase": "columns", "step": 1})
    asked = Job.of(Marginals(), {"noise_multiplier": 3.0, "columns_share": 1.0}, CARD)
    assert asked.plan == job.plan, "or where the user says so"


def test_where_noise_hides_what_depends_on_what_columns_are_counted_alone() -> None:
    small = dataclasses.replace(CARD, declared_size=20)
    for card, rows in ((small, pays(0, 20)), (CARD, pays(0))):
        state, _ = trained(card, rows, rounds=1)
        assert (max(len(clique) for clique, _, _ in state.measured) == 1) == (card is small)
    config = Config(noise_multiplier=4.0)
    least = 4 / (0.1 / 3) ** 0.5 * 3
    for size, due in ((int(least), True), (int(least) + 1, False)):
        card = dataclasses.replace(CARD, declared_size=size)
        assert is_blind(config, card) == due
        told = " ".join(Marginals().outlook(config, card))
        assert ("Columns are counted alone" in told) == due
        assert ("Pairs of columns kept" in told or "Expect pairs" in told) != due
