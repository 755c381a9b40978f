"""Measured sensitivity and two-sided statistics of the term-wise mechanism and of the whole answer, and Table 1.

Statistical bounds hold with probability 1 - 1e-6 each (normal quantile 4.892, two-sided).
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.privacy.accounting.cost import bounds
from gossamer.privacy.accounting.events import poisson_gaussian
from gossamer.privacy.mechanisms.gaussian import PoissonGaussianSum
from gossamer.privacy.mechanisms.two_term import TermwiseGaussianSum, WholeGaussian, clip_whole
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng

Z = 4.892
RNG = Rng()
C1, C2 = 0.7, 0.3


def records(labels: list[int], units: list[int] | None = None) -> Records:
    """Records that are their label: 9 is the adversary."""
    return Records(
        np.zeros((len(labels), 1, 1, 1), np.uint8), np.array(labels), None if units is None else np.array(units)
    )


@dataclass
class Adversarial:
    """A query that turns each answer as far as it may be turned where record 9 takes part, and a group's gradient round."""

    dimension: int = 64
    size: float = 1e6
    groups: list[list[int]] = field(default_factory=list)

    def clipped_sum(self, drawn: Records, bounds: Bounds) -> Tensor:
        """Every unit adds its bound, in a direction of its own; 9 along the last axis."""
        units = (
            drawn.labels if drawn.units is None else [drawn.labels[drawn.units == u][0] for u in np.unique(drawn.units)]
        )
        total = torch.zeros(self.dimension)
        for label in units:
            total[-1 if label == 9 else 0] += bounds.norms[0]
        return total

    def group_gradient(self, drawn: Records) -> Tensor:
        assert len(drawn) > 0
        self.groups.append(sorted(drawn.labels.tolist()))
        gradient = torch.zeros(self.dimension)
        others = drawn.labels[drawn.labels != 9]
        gradient[1 + int((others**2).sum()) % (self.dimension - 2)] = (
            self.size
        )  # who else is there, as far as it can be told
        return -gradient if (drawn.labels == 9).any() else gradient

    def whole(self, drawn: Records) -> Tensor:
        return torch.full((self.dimension,), -self.size if (drawn.labels == 9).any() else self.size)


class Coins(Rng):
    """Group coins that a test has fixed, each of them its record's; the noise stays secret."""

    def __init__(self, coins: list[int]) -> None:
        super().__init__()
        self.coins = np.array(coins)

    def integers(self, n: int, high: int) -> np.ndarray:
        assert n == len(self.coins)
        return self.coins


def mechanism(noise_multiplier: float = 0.0, partitions: int = 4) -> TermwiseGaussianSum:
    return TermwiseGaussianSum(
        sampling_rate=1.0, noise_multiplier=noise_multiplier, max_norm=C1, max_norm_batch=C2, partitions=partitions
    )


def answered(coins: list[int], held: Records, query: Any) -> Tensor:
    """Without noise, and these coins."""
    return mechanism()(held, query, Coins(coins))


@pytest.mark.parametrize("partitions", [1, 2, 3, 16])
def test_the_noise_covers_two_c2_however_many_groups(partitions: int) -> None:
    """One group is a preset (the pinwheel): its clipped gradient turns round like that of any other, and moves by 2 C2."""
    asked = mechanism(noise_multiplier=1.5, partitions=partitions)
    with_it = asked.exact(records([9, 1, 2, 3]), Adversarial(), Coins([0, 0, 0, 0]))
    moved = with_it - asked.exact(records([1, 2, 3]), Adversarial(), Coins([0, 0, 0]))
    assert moved.norm(dim=1).tolist() == pytest.approx([C1, 2 * C2], rel=1e-5)
    in_noise = [float(part.norm()) / s for part, s in zip(moved, asked.deviations, strict=True)]
    assert math.hypot(*in_noise) == pytest.approx(1 / 1.5, rel=1e-5)


@pytest.mark.parametrize("own", [0, 1])
def test_one_record_moves_both_sums_by_their_bounds_no_more_and_no_less(own: int) -> None:
    """The adversary comes first in the data: C1 on the sample-wise sum, 2 C2 on the batch-wise one."""
    labels, coins = [1, 2, 3, 4, 5], [0, 1, 2, 0, 0]
    before = answered(coins, records(labels), Adversarial())
    after = answered([own, *coins], records([9, *labels]), Adversarial())
    moved = (after - before).norm(dim=1)
    assert moved.tolist() == pytest.approx([C1, 2 * C2], rel=1e-5)


def test_a_record_alone_in_its_group_moves_the_sum_by_its_bound() -> None:
    coins = [0, 1, 2, 0, 0]
    before = answered(coins, records([1, 2, 3, 4, 5]), Adversarial())
    after = answered([3, *coins], records([9, 1, 2, 3, 4, 5]), Adversarial())
    assert float((after - before)[1].norm()) == pytest.approx(C2, rel=1e-5)


def test_a_unit_of_many_records_has_one_coin_and_moves_the_sums_as_one() -> None:
    rest = records([1, 1, 2, 3], [0, 0, 1, 2])
    everybody = records([9, 9, 9, 1, 1, 2, 3], [0, 0, 0, 1, 1, 2, 3])
    query = Adversarial()
    before, after = answered([1, 0, 1], rest, Adversarial()), answered([1, 1, 0, 1], everybody, query)
    assert query.groups == [[2], [1, 1, 3, 9, 9, 9]]
    assert (after - before).norm(dim=1).tolist() == pytest.approx([C1, 2 * C2], rel=1e-5)


@pytest.mark.parametrize("weights", [None, (0.6, 0.8), (0.96, 0.28)])
def test_in_units_of_its_noise_a_record_moves_the_pair_by_one(weights: tuple[float, float] | None) -> None:
    """The claim of the event, from measured movement and from the noise that is added."""
    coins, multiplier = [0, 1, 1], 1.7
    asked = TermwiseGaussianSum(
        sampling_rate=1.0, noise_multiplier=multiplier, max_norm=C1, max_norm_batch=C2, partitions=2, weights=weights
    )
    with_it = asked.exact(records([9, 1, 2, 3]), Adversarial(), Coins([0, *coins]))
    moved = with_it - asked.exact(records([1, 2, 3]), Adversarial(), Coins(coins))
    in_noise = [float(part.norm()) / s for part, s in zip(moved, asked.deviations, strict=True)]
    assert math.hypot(*in_noise) == pytest.approx(1 / multiplier, rel=1e-5)
    assert asked.event == poisson_gaussian(sampling_rate=1.0, noise_multiplier=multiplier)


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("weights", [None, (0.6, 0.8)])
def test_the_noise_has_the_stated_deviations(weights: tuple[float, float] | None, partitions: int) -> None:
    """Mean and variance of each sum's noise over 40,000 numbers, and their product; error rate 5e-6."""
    n, multiplier = 40_000, 1.5
    asked = TermwiseGaussianSum(
        sampling_rate=0.0, noise_multiplier=multiplier, max_norm=C1, max_norm_batch=C2,
        partitions=partitions, weights=weights,
    )  # fmt: skip
    first, second = weights or (2**-0.5, 2**-0.5)
    scales = torch.tensor([multiplier * C1 / first, multiplier * 2 * C2 / second])
    noise = asked(records([1, 2]), Adversarial(dimension=n), RNG).double() / scales[:, None]
    for part in noise:
        assert abs(float(part.mean())) < Z / n**0.5
        assert abs(float(part.square().mean()) - 1) < Z * (2 / n) ** 0.5
    assert abs(float((noise[0] * noise[1]).mean())) < Z / n**0.5


def test_groups_are_chosen_by_independent_coins() -> None:
    """Over 1,000 draws of 40 records into 4 groups: size of a group in mean and variance (error rate 2e-6), and two
    neighbours are together a quarter of the time (1e-6)."""
    query, draws, n, b = Adversarial(), 1_000, 40, 4
    asked = TermwiseGaussianSum(sampling_rate=1.0, noise_multiplier=0.0, max_norm=1.0, max_norm_batch=1.0, partitions=b)
    held = records(list(range(100, 100 + n)))
    for _ in range(draws):
        asked(held, query, RNG)
    with_first = [group for group in query.groups if 100 in group]
    sizes = np.array([len(group) - 1 for group in with_first])
    variance = (n - 1) * (1 / b) * (1 - 1 / b)
    assert abs(sizes.mean() - (n - 1) / b) < Z * (variance / draws) ** 0.5
    assert abs(sizes.var() / variance - 1) < Z * (2 / draws) ** 0.5
    together = np.mean([101 in group for group in with_first])
    assert abs(together - 1 / b) < Z * (1 / b * (1 - 1 / b) / draws) ** 0.5


def test_without_a_batch_term_it_is_the_ordinary_mechanism() -> None:
    """Same noise seed, same numbers; no group is asked, and the second sum is zero."""
    common = {"sampling_rate": 0.5, "noise_multiplier": 1.3, "max_norm": C1}
    query, held = Adversarial(), records([1, 2, 3, 9])
    asked = TermwiseGaussianSum(**common, max_norm_batch=0.0, partitions=4, weights=(0.6, 0.8))
    sums = asked(held, query, Rng(noise_seed=1))
    assert torch.equal(sums[0], PoissonGaussianSum(**common)(held, query, Rng(noise_seed=1)))
    assert not sums[1].any()
    assert query.groups == []


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_group_that_is_not_finite_counts_as_zero(bad: float) -> None:
    class Sick(Adversarial):
        def group_gradient(self, drawn: Records) -> Tensor:
            return super().group_gradient(drawn) * (bad if 2 in drawn.labels else 1.0)

    labels, coins = [1, 2, 3], [0, 1, 0]
    sums = answered(coins, records(labels), Sick())
    healthy = answered([0, 0], records([1, 3]), Adversarial())
    assert torch.equal(sums[1], healthy[1])


def test_an_empty_draw_is_an_ordinary_step() -> None:
    asked = TermwiseGaussianSum(sampling_rate=0.0, noise_multiplier=1.0, max_norm=C1, max_norm_batch=C2, partitions=4)
    query = Adversarial()
    assert asked(records([1, 2]), query, RNG).shape == (2, 64)
    assert query.groups == []


@pytest.mark.parametrize(
    "settings",
    [
        {"weights": (0.8, 0.8)}, {"weights": (1.0, 0.0)}, {"partitions": 0}, {"max_norm": 0.0}, {"max_norm": math.inf},
        {"max_norm_batch": -1.0}, {"max_norm_batch": math.inf}, {"max_norm_batch": math.nan},
    ],
)  # fmt: skip
def test_settings_that_noise_cannot_cover_are_refused(settings: dict[str, object]) -> None:
    whole = {"sampling_rate": 0.1, "noise_multiplier": 1.0, "max_norm": 1.0, "max_norm_batch": 1.0}
    with pytest.raises(RequestError):
        TermwiseGaussianSum(**{**whole, "partitions": 2, **settings})


def test_a_whole_answer_moves_by_twice_its_bound_and_so_does_its_noise() -> None:
    exact = WholeGaussian(sampling_rate=1.0, noise_multiplier=0.0, max_norm=C1)
    moved = exact(records([9, 1, 2]), Adversarial(), RNG) - exact(records([1, 2]), Adversarial(), RNG)
    assert float(moved.norm()) == pytest.approx(2 * C1, rel=1e-5)
    n = 40_000
    mechanism = WholeGaussian(sampling_rate=1.0, noise_multiplier=1.5, max_norm=C1)
    answer = mechanism(records([1, 2]), Adversarial(dimension=n, size=0.0), RNG).double() / (1.5 * 2 * C1)
    assert abs(float(answer.mean())) < Z / n**0.5
    assert abs(float(answer.square().mean()) - 1) < Z * (2 / n) ** 0.5
    assert mechanism.event == poisson_gaussian(sampling_rate=1.0, noise_multiplier=1.5)


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan])
def test_a_whole_answer_needs_a_bound(bound: float) -> None:
    with pytest.raises(RequestError, match="above zero"):
        WholeGaussian(sampling_rate=0.1, noise_multiplier=1.0, max_norm=bound)


def test_clip_whole_keeps_what_is_short_and_drops_what_is_not_finite() -> None:
    short, long = torch.tensor([0.3, 0.4]), torch.tensor([3e30, 4e30])
    assert torch.equal(clip_whole(short, 0.5 + 1e-6), short)
    torch.testing.assert_close(clip_whole(long, 0.5), short, atol=1e-6, rtol=0)
    assert torch.equal(clip_whole(long, math.inf), long)
    assert not clip_whole(torch.tensor([1.0, math.nan]), 1.0).any()
    assert not clip_whole(torch.zeros(2), 1.0).any()


B, GROUPS, STEPS, DELTA = 256, 16, 2_344, 1e-5


@pytest.mark.parametrize(("sigma", "one", "rdp", "pld"), [(1.0, 1.100, 3.479, 2.812), (2.0, 0.387, 0.692, 0.616)])
def test_golden_numbers(sigma: float, one: float, rdp: float, pld: float) -> None:
    """`accounting.md`, PriVAE: N 60,000, B 256, 2,344 steps. Noise sigma C1 and sigma 2 C2 on the two terms is a joint
    multiplier of sigma / sqrt(2); the paper's sigma C1 and sigma C2 is one of sigma / sqrt(5)."""
    alone = TermwiseGaussianSum(
        sampling_rate=B / 60_000, noise_multiplier=sigma, max_norm=C1, max_norm_batch=0.0, partitions=GROUPS
    )
    assert alone.deviations == (sigma * C1, 0.0)
    found = {b.accountant: b.guarantee.epsilon for b in bounds([(alone.event, STEPS)], delta=DELTA)}
    assert found["PLD"] == pytest.approx(one, abs=5e-4)
    both = TermwiseGaussianSum(
        sampling_rate=B / 60_000, noise_multiplier=sigma / 2**0.5, max_norm=C1, max_norm_batch=C2,
        partitions=GROUPS,
    )  # fmt: skip
    assert both.deviations == pytest.approx((sigma * C1, sigma * 2 * C2))
    found = {b.accountant: b.guarantee.epsilon for b in bounds([(both.event, STEPS)], delta=DELTA)}
    assert found["RDP"] == pytest.approx(rdp, abs=5e-4)
    assert found["PLD"] == pytest.approx(pld, abs=5e-4)


def test_the_papers_kappa_covers_less_than_it_says() -> None:
    """kappa = 2 sqrt(ln(delta/2) / ln(delta)) = 2.06 on C1 and C2; a record moves the pair by sqrt(5) = 2.236 of those."""
    kappa = 2 * math.sqrt(math.log(DELTA / 2) / math.log(DELTA))
    assert kappa == pytest.approx(2.06, abs=5e-3)
    needed = math.hypot(1, 2)
    sound, claimed = (
        min(b.guarantee.epsilon for b in bounds([(event, STEPS)], delta=DELTA))
        for event in (
            poisson_gaussian(sampling_rate=B / 60_000, noise_multiplier=1.0 * kappa / needed),
            poisson_gaussian(sampling_rate=B / 60_000, noise_multiplier=1.0),
        )
    )
    assert sound > 1.1 * claimed
