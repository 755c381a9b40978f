"""Mistakes that only several ranks can make, and others, planted on two of them and found by the audit of the loop."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from several import Several
from slowly import slow_among
from torch import Tensor

from gossamer.data.card import DataCard
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.methods.teacher import Teacher
from gossamer.privacy.distributed import Group, Ranks
from gossamer.privacy.mechanisms.gaussian import PoissonSampled
from gossamer.privacy.per_sample_gradients import clipping
from gossamer.privacy.random.noise import Rng
from gossamer.run.auditing.audit import lower_bound
from gossamer.run.auditing.canary_trials import TrialRunner

DELTA, TRIALS = 1e-5, 300
Patch = Callable[[pytest.MonkeyPatch, Ranks], None]


@pytest.fixture(scope="module")
def two() -> Iterator[Several]:
    with Several(2) as several:
        yield several


def clean(patch: pytest.MonkeyPatch, ranks: Ranks) -> None:
    """Nothing is wrong."""


def halved_noise(patch: pytest.MonkeyPatch, ranks: Ranks) -> None:
    add = Rng.add_gaussian_
    patch.setattr(Rng, "add_gaussian_", lambda self, out, std: add(self, out, std / 2))


def shared_noise(patch: pytest.MonkeyPatch, ranks: Ranks) -> None:
    """Each rank adds a share of the noise, as if standard deviations added up."""

    def release(self: Group, exact: Any, noised: Any, belief: Any) -> Tensor:
        part = exact().double()
        noise = noised(torch.zeros_like(part)) / self.count
        total: Tensor = self.total(part + noise)
        return total.float()

    patch.setattr(Group, "release", release)


def records_on_both(patch: pytest.MonkeyPatch, ranks: Ranks) -> None:
    """The parts overlap: a record stands on both ranks, is clipped on each, and adds twice its bound."""
    patch.setattr(Ranks, "shard", lambda self, n: slice(0, n))


def no_clipping_on_one(patch: pytest.MonkeyPatch, ranks: Ranks) -> None:
    if ranks.number == 1:
        patch.setattr(
            clipping, "_factors", lambda squares, bounds, dtype: [torch.ones_like(s, dtype=dtype) for s in squares]
        )


def noise_of_the_first_step(patch: pytest.MonkeyPatch, ranks: Ranks) -> None:
    add = Rng.add_gaussian_
    patch.setattr(Rng, "add_gaussian_", lambda self, out, std: add(Rng(noise_seed=1), out, std))


def rate_of_all_ranks(patch: pytest.MonkeyPatch, ranks: Ranks) -> None:
    """Each rank draws as if it had to fill the whole batch."""

    def drawn(self: PoissonSampled, held: Any, rng: Rng) -> Any:
        return held.take(rng.poisson_sample(held.population, min(1.0, 2 * self.sampling_rate)))

    patch.setattr(PoissonSampled, "_drawn", drawn)


def sum_without_noise(patch: pytest.MonkeyPatch, ranks: Ranks) -> None:
    """Every rank gets the sum, and rank 0 adds noise to its own copy."""

    def release(self: Group, exact: Any, noised: Any, belief: Any) -> Tensor:
        part = exact()
        dist.all_reduce(part)
        own: Tensor = noised(part.clone()) if self.first else part
        return own

    patch.setattr(Group, "release", release)


def found(ranks: Ranks, plant: Patch, noise: float, steps: int, share: float) -> tuple[float, float]:
    """What is claimed, and what this rank finds."""
    torch.manual_seed(0)
    card = DataCard(shape=(1, 8, 8), classes=2, declared_size=60 + TRIALS)
    settings = {
        **Teacher.trial.settings, "noise_multiplier": noise, "steps": steps,
        "expected_batch_size": round(share * card.declared_size),
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        plant(patch, ranks)
        runs = TrialRunner(Job.of(METHODS["teacher"], settings, card), DELTA, 0, 7, ranks)
        inside, outside = runs.observations(TRIALS)
    declared, lower = inside.declared, lower_bound(inside, outside, delta=DELTA, confidence=0.95)
    return declared.epsilon(declared.noise, DELTA), max(lower.lower_bound, lower.counted)


CASES: dict[str, tuple[Patch, float, int, float]] = {
    "noise halved": (halved_noise, 1.0, 2, 1.0),
    "noise shared out among ranks": (shared_noise, 1.0, 2, 1.0),
    "records on both ranks": (records_on_both, 1.0, 2, 1.0),
    "no clipping on one rank": (no_clipping_on_one, 1.0, 2, 1.0),
    "one noise draw reused": (noise_of_the_first_step, 1.0, 4, 0.5),
    "each rank fills the batch": (rate_of_all_ranks, 0.7, 4, 0.25),
    "a rank without noise": (sum_without_noise, 1.0, 2, 1.0),
}


@pytest.mark.parametrize(
    "name", slow_among(CASES, {"noise halved", "one noise draw reused", "each rank fills the batch"})
)
def test_a_mistake_on_two_ranks_is_refuted(name: str, two: Several) -> None:
    """Noise and coins are fixed: clean code is consistent on both ranks, the mistake is refuted on one at least."""
    plant, *terms = CASES[name]
    for claim, lower in two.all(found, clean, *terms):
        assert 0 < lower <= claim, "clean code"
    assert any(lower > claim for claim, lower in two.all(found, plant, *terms))
