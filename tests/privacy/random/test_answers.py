"""Noisy answers: what is noted, and which ones no noise leaves."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gossamer.errors import LedgerDamaged
from gossamer.privacy.random import answers
from gossamer.privacy.random.answers import Answers, Replay
from gossamer.privacy.random.noise import Rng, grid


def noted(rng: Rng, *calls: tuple[torch.Tensor, float]) -> Answers:
    rng.answers = Answers()
    for values, std in calls:
        rng.add_gaussian_(values, std)
    return rng.answers


def replay(tensors: dict[str, torch.Tensor], *calls: tuple[torch.Tensor, float]) -> list[torch.Tensor]:
    rng = Rng()
    rng.answers = Replay(Answers.of(tensors).parts)
    return [rng.add_gaussian_(values, std) for values, std in calls]


def test_what_leaves_is_noted_after_its_noise_and_a_sum_without_noise_never() -> None:
    sums = [torch.full((40,), 7.0), torch.full((3,), 9.0), torch.full((2,), 5.0).double()]
    kept = noted(Rng(noise_seed=1), (sums[0], 2.0), (sums[1], 0.0), (sums[2], 0.5))
    assert [std for _, std in kept.parts] == [2.0, 0.5]
    assert torch.equal(kept.parts[0][0], sums[0].double())
    assert not (kept.parts[0][0] == 7.0).all()
    sums[2].zero_()
    assert kept.parts[1][0].abs().min() > 0, "a copy"


def test_a_replay_gives_the_same_numbers_whatever_the_sums_are() -> None:
    sums = torch.arange(50.0), torch.arange(20).double()
    kept = noted(Rng(noise_seed=2), (sums[0], 3.0), (sums[1], 0.1))
    again = replay(kept.tensors(), (torch.zeros(50), 3.0), (torch.zeros(20).double(), 0.1))
    assert torch.equal(again[0], sums[0])
    assert torch.equal(again[1], sums[1])


def test_too_many_numbers_leave_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MOST", 100)
    rng = Rng(noise_seed=3)
    rng.answers = Answers(left=100)
    rng.add_gaussian_(torch.zeros(60), 1.0)
    assert len(rng.answers.parts) == 1
    rng.add_gaussian_(torch.zeros(60), 1.0)
    rng.add_gaussian_(torch.zeros(1), 1.0)
    assert rng.answers.parts == []


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ((torch.zeros(49), 1.0), "asks for 49 numbers as answer 1, and there are 50"),
        ((torch.zeros(50), 1.00001), "answer 1 states noise of another width"),
    ],
)
def test_a_replay_refuses_other_queries(call: tuple[torch.Tensor, float], problem: str) -> None:
    kept = noted(Rng(noise_seed=4), (torch.zeros(50), 1.0)).tensors()
    with pytest.raises(LedgerDamaged, match=problem):
        replay(kept, call)
    with pytest.raises(LedgerDamaged, match="asks for 50 numbers as answer 2, and there are 0"):
        replay(kept, (torch.zeros(50), 1.0), (torch.zeros(50), 1.0))


@pytest.mark.parametrize("std", [0.3, 1.0, 17.0, 1e6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_real_noise_looks_like_noise(std: float, dtype: torch.dtype) -> None:
    """Also of 20,000 numbers, of few, and of sums far beyond the noise."""
    for n, exact in ((20_000, 0.0), (20_000, 1000.0), (7, 3.0), (400, 1e4 * std)):
        values = Rng(noise_seed=5).add_gaussian_(torch.full((n,), exact, dtype=dtype), std)
        assert answers._looks_noisy(values, grid(std))


@pytest.mark.parametrize("change", [lambda values: values + 1e-12, torch.round])
def test_numbers_that_noise_does_not_leave_are_refused(change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Digits beyond single precision, and counts without noise."""
    kept = noted(Rng(noise_seed=7), (torch.zeros(50), 1.0)).tensors()
    kept["values"] = change(kept["values"])
    with pytest.raises(LedgerDamaged, match="noise of its width does not leave"):
        replay(kept, (torch.zeros(50), 1.0))


@pytest.mark.parametrize(
    "values",
    [torch.arange(20.0), torch.randn(30, generator=torch.Generator().manual_seed(0)), torch.arange(200.0) / 4],
)
def test_sums_without_noise_do_not(values: torch.Tensor) -> None:
    """Counts, numbers that were never rounded, and weighted counts."""
    assert not answers._looks_noisy(values.double(), grid(10.0))


@pytest.mark.parametrize(
    "change",
    [
        {"values": torch.tensor([1.0, math.nan, 2.0]).double()},
        {"values": torch.tensor([1.0, math.inf, 2.0]).double()},
        {"values": torch.ones(3, 1).double()},
        {"sizes": torch.tensor([4, -1])},
        {"sizes": torch.tensor([2, 2])},
        {"sizes": torch.tensor([2**62, 2**62])},
        {"sizes": torch.tensor([], dtype=torch.int64), "deviations": torch.tensor([]).double()},
        {"deviations": torch.tensor([1.0]).double()},
        {"deviations": torch.tensor([1.0, 0.0]).double()},
        {"deviations": torch.tensor([1.0, math.nan]).double()},
    ],
)
def test_tensors_of_a_stranger_are_refused(change: dict[str, Any]) -> None:
    sound = {"values": torch.ones(3).double(), "sizes": torch.tensor([2, 1]), "deviations": torch.ones(2).double()}
    assert len(Answers.of(sound).parts) == 2
    with pytest.raises(LedgerDamaged, match=r"its |not finite"):
        Answers.of(sound | change)


def test_a_checkpoint_keeps_them_and_another_run_has_none() -> None:
    rng = Rng(noise_seed=6)
    noted(rng, (torch.zeros(5), 1.0))
    saved = rng.state()
    rng.add_gaussian_(torch.zeros(5), 1.0)
    rng.restore(saved)
    assert rng.answers is not None
    assert [len(part) for part, _ in rng.answers.parts] == [5]
    assert rng.answers.left == answers.MOST - 5
    rng.restore({name: value for name, value in saved.items() if name != "answers"})
    assert rng.answers is None
