"""`gossamer.testing`: what it finds in methods that break a rule. That sound methods pass is `test_conformance.py`."""

import dataclasses
import importlib
import re
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from class_means import ClassMeans
from dp_accounting import GaussianDpEvent

from gossamer.data.records import Records
from gossamer.errors import GossamerError
from gossamer.kinds.toys import CARD, garbage, stripes
from gossamer.methods import METHODS
from gossamer.methods.common import adversarial
from gossamer.methods.contract import Run
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.mechanisms.gaussian import PoissonGaussianSum
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng
from gossamer.testing import MethodTests, checks
from gossamer.testing.neighbours import FixedChoices, _Answer, _Answers, _compared, _Noted
from gossamer.testing.trial_run import Subject, deaf

loop = importlib.import_module("class_means.loop")
SMALL = {"noise_multiplier": 1.0, "steps": 21, "warm_steps": 4}


def altered(train: Callable[..., Iterator[Any]]) -> Subject:
    """The example with another training."""

    class Altered(ClassMeans):
        """Altered."""

    method: Any = Altered()
    method.loop = types.SimpleNamespace(**{**vars(loop), "train": train})
    return Subject(method=method, small=SMALL, toy={"noise_multiplier": 0.1, "latent_size": 8})


def peeks(run: Run[Any], state: Any, private: Confined[Any]) -> Iterator[Any]:
    """Trains on a sum without noise, which it takes past the mechanism."""
    held = private._Confined__held  # type: ignore[attr-defined]
    for logs in loop.train(run, state, private):
        state.net.means.data += 1e-3 * float(held.images.mean()) / 255
        yield logs


def counts(run: Run[Any], state: Any, private: Confined[Any]) -> Iterator[Any]:
    """Shows how many records there are."""
    held = private._Confined__held  # type: ignore[attr-defined]
    for logs in loop.train(run, state, private):
        yield {**logs, "records": float(len(held))}


def asks_nothing(run: Run[Any], state: Any, private: Confined[Any]) -> Iterator[Any]:
    for _ in range(state.step, run.config.steps):
        yield {"step": 1.0}


def forgets(run: Run[Any], state: Any, private: Confined[Any]) -> Iterator[Any]:
    """Keeps something that no checkpoint has."""
    speed = 0.0
    for logs in loop.train(run, state, private):
        speed += 1e-3
        state.net.means.data += speed
        yield logs


@pytest.mark.parametrize("train", [peeks, counts])
def test_it_finds_what_goes_past_the_mechanism(train: Callable[..., Iterator[Any]]) -> None:
    with pytest.raises(AssertionError):
        checks.non_interference(altered(train), warm=False)


def test_it_finds_a_query_that_is_not_made() -> None:
    with pytest.raises(AssertionError):
        checks.spends_its_plan(checks.finished_run(altered(asks_nothing)))
    with pytest.raises(AssertionError):
        checks.learns_through_the_mechanism(altered(asks_nothing))
    with pytest.raises(AssertionError):
        checks.learns_a_toy(altered(asks_nothing))


def test_it_finds_what_a_resume_forgets(tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        checks.resume_equals_an_unbroken_run(altered(forgets), tmp_path, at=9)


class Unclipped(loop.Sums):  # type: ignore[misc]  # imported by name
    """All pictures, none of them clipped."""

    def clipped_sum(self, records: Records, bounds: Bounds, /) -> torch.Tensor:
        return super().clipped_sum(records, Bounds(norms=(float("inf"),)))


class Split(loop.Sums):  # type: ignore[misc]
    """Each record is clipped by itself, whoever it belongs to."""

    def clipped_sum(self, records: Records, bounds: Bounds, /) -> torch.Tensor:
        return super().clipped_sum(dataclasses.replace(records, units=None), bounds)


class Centred(loop.Sums):  # type: ignore[misc]
    """All pictures are seen from the mean of the draw."""

    def clipped_sum(self, records: Records, bounds: Bounds, /) -> torch.Tensor:
        centre = records.images.mean(0).astype(np.uint8) if len(records) else 0
        return super().clipped_sum(dataclasses.replace(records, images=records.images - centre), bounds)


class Shifting(loop.Sums):  # type: ignore[misc]
    """Secret choices that are no one's own: a permutation of all that were sampled."""

    rng: Rng

    def clipped_sum(self, records: Records, bounds: Bounds, /) -> torch.Tensor:
        order = torch.randperm(len(records), generator=self.rng.secret_generator()).numpy()
        return super().clipped_sum(dataclasses.replace(records, labels=records.labels[order]), bounds)


class OfTheCommonStream(loop.Sums):  # type: ignore[misc]
    """Drops records at random, by numbers that another record shifts."""

    def clipped_sum(self, records: Records, bounds: Bounds, /) -> torch.Tensor:
        return super().clipped_sum(records[(torch.rand(len(records)) < 0.5).numpy()], bounds)


class OneNumberEach(loop.Sums):  # type: ignore[misc]
    """Sound: each record has numbers of its own, of all kinds, in pieces of 16."""

    rng: Rng

    def clipped_sum(self, records: Records, bounds: Bounds, /) -> torch.Tensor:
        if records.units is not None:
            return super().clipped_sum(records, bounds)
        total = torch.zeros(self.dimension)
        for lo in range(0, len(records), 16):
            piece = records[lo : lo + 16]
            stream, n = self.rng.secret_generator(), len(piece)
            drawn = torch.randn(n, 3, generator=stream).sum(1) + torch.rand((n,), generator=stream)
            more = self.rng.uniform(n) + self.rng.integers(n, 3) + self.rng.normals(n, "cpu").numpy()
            kept = (drawn.numpy() > 0.5) ^ (more > 1.5)
            total += super().clipped_sum(piece[kept], bounds)
        return total


class LittleNoise(PoissonGaussianSum):
    """Adds half of the noise that it is charged for."""

    def noised(self, total: torch.Tensor, query: object, rng: Rng, /) -> torch.Tensor:
        return rng.add_gaussian_(total, self.noise_multiplier * self.max_norm / 2)


class NoNoise(PoissonGaussianSum):
    """Leaves one number without noise."""

    def noised(self, total: torch.Tensor, query: object, rng: Rng, /) -> torch.Tensor:
        rng.add_gaussian_(total[1:], self.noise_multiplier * self.max_norm)
        return total


def asking(query: Any, *, max_norm: float = 1.0, mechanism: Any = PoissonGaussianSum, seen: Any = None) -> Subject:
    """The example with another query, bound or mechanism. seen: what it makes of the records before it asks."""

    def train(run: Run[Any], state: Any, private: Confined[Any]) -> Iterator[Any]:
        release = mechanism(sampling_rate=1.0, max_norm=max_norm, noise_multiplier=run.config.noise_multiplier)
        asked = query(run.card.classes, run.card.shape)
        vars(asked)["rng"] = run.rng
        private = private if seen is None else private.map(seen)
        for _ in range(state.step, run.config.steps):
            if private.remaining(release.event):
                state.target = private.release(release, asked).view_as(state.net.means)
            yield {"distance": state.net.approach(state.target)}

    return altered(train)


def centred(records: Records) -> Records:
    """Mixes records before a query sees them."""
    return dataclasses.replace(records, images=records.images - records.images.mean(0).astype(np.uint8))


def without_units(records: Records) -> Records:
    """Every record becomes a unit of its own."""
    return dataclasses.replace(records, units=None)


SENSITIVE: dict[str, tuple[Subject, bool, float]] = {
    "a query that does not clip, with a bound far too small": (asking(Unclipped, max_norm=0.01), False, 2_000),
    "a bound on each record, for a unit of 60": (asking(Split), True, 59),
    "records seen from the mean of all": (asking(Centred), False, 1.5),
    "records seen from the mean before they are asked": (asking(loop.Sums, seen=centred), False, 1.5),
    "units that are lost before it asks": (asking(loop.Sums, seen=without_units), True, 59),
    "half of the noise": (asking(loop.Sums, mechanism=LittleNoise), False, 1.99),
    "a number without noise": (asking(loop.Sums, mechanism=NoNoise), False, float("inf")),
}
"""What is wrong, whether it takes units of several records to see it, and how far it is above the bound at least."""


@pytest.mark.parametrize("case", SENSITIVE)
def test_it_finds_an_answer_that_a_unit_moves_too_far(case: str) -> None:
    broken, several, at_least = SENSITIVE[case]
    with pytest.raises(AssertionError, match="so epsilon is false") as found:
        checks.no_unit_moves_an_answer_too_far(broken, several=several)
    (ratio,) = re.findall(r"moves (\S+) times", str(found.value))
    assert float(ratio) >= at_least
    if several:
        checks.no_unit_moves_an_answer_too_far(broken, several=False)


def test_a_setting_for_the_bound_makes_small_gradients_show() -> None:
    """With a bound that no record reaches, a query that does not clip would pass."""

    class Roomy(ClassMeans):
        """Unclipped, under a bound of 100."""

    method: Any = Roomy()
    method.loop = types.SimpleNamespace(**{**vars(loop), "Sums": Unclipped})
    method.loop.train = types.FunctionType(loop.train.__code__, {**vars(loop), "Sums": Unclipped})
    with pytest.raises(AssertionError, match="so epsilon is false"):
        checks.no_unit_moves_an_answer_too_far(
            Subject(method=method, small={**SMALL, "max_norm": 100.0}), several=False
        )


@pytest.mark.parametrize(
    ("query", "what"),
    [(Shifting, "randperm with a secret generator"), (OfTheCommonStream, "PyTorch's common stream")],
)
def test_it_says_which_choices_it_cannot_hold_fixed(query: Any, what: str) -> None:
    with pytest.raises(AssertionError, match=rf"cannot be held fixed: {what}, inside a query"):
        checks.no_unit_moves_an_answer_too_far(asking(query), several=False)


@pytest.mark.parametrize("several", [False, True])
def test_choices_of_each_record_are_held_fixed(several: bool) -> None:
    checks.no_unit_moves_an_answer_too_far(asking(OneNumberEach), several=several)


def test_units_that_leave_are_always_sampled_and_others_keep_their_coins() -> None:
    whole, without = (FixedChoices(50, always=(0, 25, 49), gone=gone) for gone in (None, 25))
    assert whole.poisson_sample(50, 0.0).tolist() == [0, 25, 49]
    assert without.poisson_sample(49, 0.0).tolist() == [0, 48]
    first, second = whole.poisson_sample(50, 0.3), without.poisson_sample(49, 0.3)
    assert np.delete(np.arange(50), 25)[second].tolist() == [unit for unit in first.tolist() if unit != 25]
    assert len(first) > 5
    without.poisson_sample(12, 0.3)
    assert without.loose == {"which of 12 units are sampled, where there are 49"}


def test_the_second_run_gets_the_noisy_answers_of_the_first() -> None:
    first = [_Answer("training", "Sums", torch.zeros(1), torch.ones(1), 1.0, noisy=torch.full((2 * 28 * 28,), 7.0))]
    choices = FixedChoices(3)
    release = PoissonGaussianSum(sampling_rate=1.0, max_norm=1.0, noise_multiplier=1.0)
    noted, query = _Noted(release, _Answers(choices, lambda: "training", first)), loop.Sums(2, (1, 28, 28))
    total = noted.exact(stripes(3), query, choices)
    assert noted.noised(total, query, choices).tolist() == [7.0] * (2 * 28 * 28)
    noted.exact(stripes(3), query, choices)
    with pytest.raises(AssertionError, match="more queries"):
        noted.noised(total, query, choices)


def test_answers_under_one_charge_move_together() -> None:
    """A pass over critics is charged once: two that move by 3 and by 4 have moved by 5, of the 10 that are allowed."""

    def answers(first: float, second: float) -> list[Any]:
        each = torch.ones(1, dtype=torch.float64)
        return [_Answer("training", "Rows", torch.tensor([value]).double(), each, ten)
                for value, ten in ((first, 10.0), (second, 0.0), (7.0, 2.0))]  # fmt: skip

    moves = _compared(0, answers(3, 0), answers(0, 4))
    assert [move.ratio for move in moves] == [0.5, 0.0]


def test_it_finds_a_number_of_queries_that_depends_on_the_records() -> None:
    def fewer(run: Run[Any], state: Any, private: Confined[Any]) -> Iterator[Any]:
        held = private._Confined__held  # type: ignore[attr-defined]
        if len(held) == checks.N:
            yield from loop.train(run, state, private)
        else:
            yield {"distance": 0.0}

    with pytest.raises(AssertionError, match="the number of queries depends on the records"):
        checks.no_unit_moves_an_answer_too_far(altered(fewer), several=False)


def test_it_finds_a_plan_that_is_not_pure() -> None:
    class Impure(ClassMeans):
        """Impure."""

        asked = 0

        def phases(self, config: Any, card: Any) -> Any:
            self.asked += 1
            noisier = dataclasses.replace(config, noise_multiplier=config.noise_multiplier + self.asked)
            return super().phases(noisier, card)

    with pytest.raises(AssertionError):
        checks.plan_is_pure(Subject(method=Impure(), small=SMALL))


def test_it_finds_a_method_without_a_docstring() -> None:
    class Silent(ClassMeans):
        pass

    with pytest.raises(AssertionError, match="docstring"):
        checks.says_what_it_promises(Subject(method=Silent(), small=SMALL))


def test_it_finds_figures_that_are_no_numbers() -> None:
    def train(run: Run[Any], state: Any, private: Confined[Any]) -> Iterator[Any]:
        for logs in loop.train(run, state, private):
            yield {**logs, "nothing": float("nan")}

    with pytest.raises(ValueError, match="JSON"):
        checks.events_are_public_json(checks.finished_run(altered(train)))
    with pytest.raises(GossamerError, match="no mapping of names to numbers"):
        checks.finished_run(altered(lambda run, state, private: iter([{"rows": torch.zeros(3)}])))


def test_mechanisms_of_an_author_are_deaf_too() -> None:
    event = GaussianDpEvent(1.0)
    asked: list[float] = []

    class Own:
        event = GaussianDpEvent(1.0)

        def exact(self, held: torch.Tensor, query: object, rng: Rng) -> torch.Tensor:
            asked.append(float(held.sum()))
            return held.clone()

        def noised(self, total: torch.Tensor, query: object, rng: Rng) -> torch.Tensor:
            return total + 5

    ledger = PrivacyLedger(budget=float("inf"), delta=1e-5)
    ledger.reserve([(event, 2)])
    private = Confined(torch.ones(2), ledger, Rng())
    with deaf():
        assert private.release(Own(), None).tolist() == [5.0, 5.0]
    assert private.release(Own(), None).tolist() == [6.0, 6.0]
    assert asked == [2.0, 2.0], "the query is run all the same"
    assert ledger.unused == [0]


def test_records_of_other_shapes() -> None:
    card = dataclasses.replace(CARD, shape=(3, 32, 16))
    records = stripes(20, card=card)
    assert records.images.shape == (20, 3, 32, 16) == garbage(20, card=card).images.shape
    sides = records.images[:, :, :, :8].mean((1, 2, 3)) > records.images[:, :, :, 8:].mean((1, 2, 3))
    assert (sides == (records.labels == 0)).all()


class TestOfAName:
    """A method that is named, as in the tests of another package."""

    method, card, subject = "moments", CARD, MethodTests.subject
    small: ClassVar[Any] = {"noise_multiplier": 1.0, "axes": 8, "cells": 2}
    toy: ClassVar[Any] = {"noise_multiplier": 0.3, "axes": 8, "cells": 2}

    def test_the_method_is_that_of_the_registry(self, subject: Subject) -> None:
        assert subject.method is METHODS["moments"]


def test_it_finds_a_loss_that_nobody_could_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss that fails on made-up records is taken, with a warning that its author may not see.

    Made-up records are seven. A draw of so few records is out of the question.
    """
    small = {"noise_multiplier": 1.0, "steps": 2, "expected_batch_size": 100, "width": 4, "latent_size": 8}
    subject = Subject(method=METHODS["dpgan"], small=small)
    checks.finished_run(subject)
    real = adversarial.loss_on_records

    def of_few(net: Any, records: Records) -> torch.Tensor:
        if len(records) == 7:
            raise ValueError
        return real(net, records)

    monkeypatch.setattr(adversarial, "loss_on_records", of_few)
    with pytest.raises(AssertionError, match="Unexpected logs found"):
        checks.finished_run(subject)
