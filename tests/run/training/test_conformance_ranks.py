"""What every method must do, on two ranks: see `tests/methods/test_conformance.py`."""

import copy
import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from several import Several
from slowly import slow_among
from test_distributed import CARD, METHODS_ON_RANKS, flat, stripes
from torch import Tensor

from gossamer.data.records import Records
from gossamer.methods import METHODS
from gossamer.methods.contract import BaseConfig, State
from gossamer.methods.job import Job, Training
from gossamer.privacy.confined import Confined
from gossamer.privacy.distributed import Ranks
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.mechanisms.gaussian import GroupedGaussianSum, PoissonGaussianSum
from gossamer.privacy.mechanisms.sanitized_rows import SanitizedRows
from gossamer.privacy.mechanisms.two_term import TermwiseGaussianSum
from gossamer.privacy.random.noise import Rng
from gossamer.run.training.distributed import part_of

Shown = list[tuple[str, int, dict[str, float]]]


@pytest.fixture(scope="module")
def two() -> Iterator[Several]:
    with Several(2) as several:
        yield several


@pytest.fixture(params=list(METHODS_ON_RANKS))
def method(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def garbage(n: int) -> Records:
    draw = np.random.default_rng(1)
    return Records(draw.integers(0, 256, size=(n, 1, 28, 28)).astype(np.uint8), np.zeros(n, dtype=np.int64))


class Going:
    """A training on this rank, with noise and coins that repeat."""

    def __init__(self, ranks: Ranks, method: str, records: Records) -> None:
        job = Job.of(METHODS[method], METHODS_ON_RANKS[method], CARD)
        self.ledger = PrivacyLedger(budget=math.inf, delta=1e-5, relation=job.relation)
        self.ledger.reserve(job.plan)
        self.rng = Rng(0, noise_seed=1, rank=ranks.number)
        self.training: Training[BaseConfig, State] = job.begin(self.rng, ranks=ranks)
        self.private = Confined(part_of(records, job, ranks, self.rng), self.ledger, self.rng, ranks)
        self.public = stripes(30, seed=1) if job.takes_public else None
        self.shown: Shown = []

    def drive(self, at_most: int = 10**9) -> "Going":
        """So many more steps, in all phases."""
        for reached in self.training.drive(self.private, self.public):
            if reached.logs is not None:
                shown = {name: float(value) for name, value in reached.logs.items()}
                self.shown.append((reached.phase.name, reached.step, shown))
                at_most -= 1
                if at_most == 0:
                    break
        return self

    @property
    def found(self) -> tuple[Tensor, Shown]:
        return flat(self.training.state.released), self.shown


def whole(ranks: Ranks, method: str, records: Records, deaf: bool) -> tuple[Tensor, Shown, list[int]]:
    """A training to its end; deaf: the mechanisms run the query, then answer with noise only."""
    with pytest.MonkeyPatch.context() as patch:
        for mechanism in (PoissonGaussianSum, GroupedGaussianSum, SanitizedRows, TermwiseGaussianSum):
            if deaf:
                ask = mechanism.exact
                patch.setattr(
                    mechanism,
                    "exact",
                    lambda self, held, query, rng, ask=ask: torch.zeros_like(ask(self, held, query, rng)),
                )
        going = Going(ranks, method, records).drive()
    return *going.found, going.ledger.unused


@pytest.mark.parametrize(
    "method",
    slow_among(METHODS_ON_RANKS, set(METHODS_ON_RANKS) - {"moments", "feature-moments", "teacher"}),
)
def test_non_interference(method: str, two: Several) -> None:
    """Unrelated records, the same seeds: with a deaf mechanism artefact and events are the same, bit for bit; else not."""
    for deaf in (True, False):
        first = two.all(whole, method, stripes(180), deaf)
        second = two.all(whole, method, garbage(180), deaf)
        for (weights, shown, left), (others, told, _) in zip(first, second, strict=True):
            assert not any(left)
            assert (torch.equal(weights, others) and shown == told) == deaf


@pytest.mark.parametrize("n", slow_among([0, 1], {1}))
def test_a_rank_without_records_is_no_reason_to_stop(method: str, n: int, two: Several) -> None:
    for _, _, left in two.all(whole, method, stripes(n), False):
        assert not any(left)


def broken(ranks: Ranks, method: str, at: int) -> tuple[bool, bool]:
    """Whether a training that is broken off and gone on with ends as an unbroken one does: weights, and what is left."""
    unbroken = Going(ranks, method, stripes(180)).drive()
    first = Going(ranks, method, stripes(180)).drive(at)
    saved = copy.deepcopy(first.training.state.state_dict()), copy.deepcopy(first.rng.state())
    second = Going(ranks, method, stripes(180))
    second.ledger.catch_up(first.ledger.used)
    second.training.state.load_state_dict(saved[0])
    second.rng.restore(saved[1])
    second.drive()
    same = torch.equal(unbroken.found[0], second.found[0]) and unbroken.shown == first.shown + second.shown
    return same, second.ledger.unused == unbroken.ledger.unused


@pytest.mark.parametrize(
    "method",
    slow_among(
        [name for name in METHODS_ON_RANKS if name != "gs-wgan"],  # see test_torchrun.py
        {"dp-wgan", "privae", "dp-mepf"},
    ),
)
def test_resume_equals_an_unbroken_run_on_every_rank(method: str, two: Several) -> None:
    steps = 1 if "moments" in method else 5
    assert two.all(broken, method, steps) == [(True, True)] * 2
