"""`gossamer.testing`: what it finds in methods that break a rule. That sound methods pass is `test_conformance.py`."""

import dataclasses
import importlib
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from class_means import ClassMeans

from gossamer.errors import GossamerError
from gossamer.methods import METHODS
from gossamer.methods.method import Run
from gossamer.privacy.confined import Confined
from gossamer.testing import MethodTests, checks
from gossamer.testing.trial_run import CARD, MECHANISMS, Subject, deaf, garbage, stripes

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
    class Own:
        def exact(self, held: torch.Tensor, query: object) -> torch.Tensor:
            return held

    with deaf((Own,)):
        assert torch.equal(Own().exact(torch.ones(2), None), torch.zeros(2))
    assert torch.equal(Own().exact(torch.ones(2), None), torch.ones(2))
    assert all("exact" in vars(mechanism) for mechanism in MECHANISMS)


def test_records_of_other_shapes() -> None:
    card = dataclasses.replace(CARD, shape=(3, 32, 16))
    records = stripes(20, card=card)
    assert records.images.shape == (20, 3, 32, 16) == garbage(20, card=card).images.shape
    sides = records.images[:, :, :, :8].mean((1, 2, 3)) > records.images[:, :, :, 8:].mean((1, 2, 3))
    assert (sides == (records.labels == 0)).all()


class TestOfAName:
    """A method that is named, as in the tests of another package."""

    method, card, mechanisms, subject = "moments", CARD, (), MethodTests.subject
    small: ClassVar[Any] = {"noise_multiplier": 1.0, "axes": 8, "cells": 2}
    toy: ClassVar[Any] = {"noise_multiplier": 0.3, "axes": 8, "cells": 2}

    def test_the_method_is_that_of_the_registry(self, subject: Subject) -> None:
        assert subject.method is METHODS["moments"]
