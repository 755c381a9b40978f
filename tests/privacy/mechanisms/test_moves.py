"""How far a unit may move an answer: at the move that its sensitivity allows, a mechanism is exactly at its event's limit."""

import dataclasses
import math
from typing import Any

import dp_accounting
import pytest
import torch
from dp_accounting import ComposedDpEvent, GaussianDpEvent, NoOpDpEvent
from torch import Tensor

from gossamer.errors import RequestError
from gossamer.privacy.mechanisms.gaussian import GroupedGaussianSum, PoissonGaussianSum
from gossamer.privacy.mechanisms.moves import allowed, deviations, distance
from gossamer.privacy.mechanisms.sanitized_rows import SanitizedRows
from gossamer.privacy.mechanisms.two_term import TermwiseGaussianSum, WholeGaussian
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng

C, Z = 0.7, 1.6
POISSON: dict[str, Any] = {"sampling_rate": 0.25, "noise_multiplier": Z}
ROWS: dict[str, Any] = {"critics": 3, "batch_size": 4, "max_norm": C, "noise_multiplier": Z}
GROUPED = GroupedGaussianSum(bounds=Bounds((C, 3 * C), (1, 0, 1)), weights=(0.6, 0.8), **POISSON)
TERMS = TermwiseGaussianSum(max_norm=C, max_norm_batch=2 * C, partitions=2, weights=(0.6, 0.8), **POISSON)


class ThreeTensors:
    sizes, dimension = (1, 2, 1), 4


def opposite(length: float, rows: int) -> Tensor:
    """Rows that turn round: each moves by twice its length."""
    return torch.full((rows, 9), 2 * length / 3)


REACHED: dict[str, tuple[Any, Tensor]] = {
    "one bound": (PoissonGaussianSum(max_norm=C, **POISSON), torch.tensor([0.6, 0.8]) * C),
    "all units": (PoissonGaussianSum(max_norm=C, **{**POISSON, "sampling_rate": 1.0}), torch.tensor([C])),
    "two groups": (GROUPED, torch.tensor([3 * C * 0.6, C * 0.6, C * 0.8, 3 * C * 0.8])),
    "two groups alike": (dataclasses.replace(GROUPED, weights=None), torch.tensor([3 * C * 0.6, C, 0, 3 * C * 0.8])),
    "two terms": (TERMS, torch.tensor([[C, 0.0], [0.0, 4 * C]])),
    "one term": (dataclasses.replace(TERMS, max_norm_batch=0.0), torch.tensor([[C, 0.0], [0.0, 0.0]])),
    "a whole answer": (WholeGaussian(max_norm=C, **POISSON), opposite(C, 1)[0]),
    "rows, secret": (SanitizedRows(draw="secret", **ROWS), opposite(C, 4)),
    "rows, two answers": (SanitizedRows(draw="secret", answers=2, **ROWS), opposite(C, 8)),
    "rows, in turns": (SanitizedRows(draw="round_robin", **ROWS), opposite(C, 4)),
    "rows, known": (SanitizedRows(draw="paper", **ROWS), opposite(C, 4)),
}
"""A mechanism, and a move of its answer by all that a unit can do."""


@pytest.mark.parametrize("case", REACHED)
def test_the_sensitivity_is_what_the_event_allows(case: str) -> None:
    mechanism, move = REACHED[case]
    each = deviations(mechanism, ThreeTensors(), move)
    assert each.shape == move.shape
    assert each.dtype == torch.float64
    assert distance(move, each) == pytest.approx(allowed(mechanism.event), rel=1e-6)
    assert distance(1.01 * move, each) > 1.005 * allowed(mechanism.event)


def test_noise_is_as_the_deviations_say() -> None:
    """The noise that `noised` really adds, over its deviations: 40,000 standard normals, error rate 1e-6."""
    wide = GroupedGaussianSum(bounds=Bounds((C, 3 * C), (1, 0)), weights=(0.6, 0.8), **POISSON)

    class Two:
        sizes = (20_000, 20_000)

    unit = wide.noised(torch.zeros(40_000), Two(), Rng(noise_seed=1)).double() / deviations(
        wide, Two(), torch.zeros(40_000)
    )  # type: ignore[arg-type]  # sizes are enough
    assert float(unit[:20_000].std()) == pytest.approx(1, abs=0.025)
    assert float(unit[20_000:].std()) == pytest.approx(1, abs=0.025)


def test_what_a_charge_allows() -> None:
    one = GaussianDpEvent(2.0)
    assert allowed(one) == 0.5
    assert allowed(dp_accounting.PoissonSampledDpEvent(0.1, one)) == 0.5
    assert allowed(dp_accounting.SampledWithoutReplacementDpEvent(9, 1, one)) == 0.5
    assert allowed(NoOpDpEvent()) == 0.0
    assert allowed(ComposedDpEvent([one, NoOpDpEvent(), GaussianDpEvent(1.0)])) == math.hypot(0.5, 1)
    assert allowed(GaussianDpEvent(0.0)) == math.inf
    with pytest.raises(RequestError, match="LaplaceDpEvent says nothing about Gaussian noise"):
        allowed(dp_accounting.LaplaceDpEvent(1.0))


def test_a_number_without_noise_may_not_move() -> None:
    each = torch.tensor([1.0, 0.0])
    assert distance(torch.tensor([3.0, 0.0]), each) == 3.0
    assert distance(torch.tensor([3.0, 1e-9]), each) == math.inf
    assert distance(torch.tensor([float("nan"), 0.0]), each) == math.inf


def test_noise_that_is_added_twice_adds_up_as_squares() -> None:
    class Twice(PoissonGaussianSum):
        def noised(self, total: Tensor, query: object, rng: Rng, /) -> Tensor:
            return rng.add_gaussian_(rng.add_gaussian_(total, 3.0), 4.0)

    assert deviations(Twice(max_norm=C, **POISSON), None, torch.zeros(2)).tolist() == [5.0, 5.0]


def test_the_mechanism_keeps_its_place() -> None:
    """A pass of the round robin goes on where it was."""
    turns = SanitizedRows(draw="round_robin", **ROWS)
    deviations(turns, None, torch.zeros(4, 9))
    assert turns.next_critic(Rng()) == 0
