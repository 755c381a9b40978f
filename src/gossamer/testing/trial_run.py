"""A small training in memory, and records that a method can learn from: what the checks look at."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.tables.any_card import AnyCard
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.table import Table
from gossamer.methods.contract import AnyMethod, State
from gossamer.methods.job import Job, StepResult
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.mechanisms.sampling import Mechanism
from gossamer.privacy.random.noise import Rng
from gossamer.run.training import checkpoint

CARD = DataCard(shape=(1, 28, 28), classes=2, declared_size=200)
"""The public facts of the records of a check, unless the author gives others."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A method under test.

    Args:
        method: the method.
        small: settings with which a run takes seconds, noise multiplier included.
        toy: settings with which it learns which side of a picture is bright, or a table's first column from its label.
        card: the public facts of the records; two classes. Of a table, the label column has two values.
    """

    method: AnyMethod
    small: Mapping[str, Any]
    toy: Mapping[str, Any] = field(default_factory=dict)
    card: AnyCard = CARD


def stripes(n: int, seed: int = 0, card: AnyCard = CARD) -> Any:
    """Records of which class 0 is bright on the left, and class 1 on the right.

    Rows of a table have the first value of each column in class 0, and the last in class 1; one value in ten is another.
    """
    draw = np.random.default_rng(seed)
    if isinstance(card, TableCard):
        labels, sizes = draw.integers(2, size=(n, 1)), np.array(card.domain)
        codes = np.where(
            draw.random((n, len(sizes))) < 0.1, draw.integers(sizes, size=(n, len(sizes))), labels * (sizes - 1)
        )
        codes[:, card.label_index or 0] = labels[:, 0]
        return Table(codes.astype(np.int32))
    middle = card.shape[2] // 2
    labels = draw.integers(2, size=n)
    images = draw.integers(0, 40, size=(n, *card.shape))
    images[labels == 0, :, :, :middle] += 200
    images[labels == 1, :, :, middle:] += 200
    return Records(images.astype(np.uint8), labels)


def garbage(n: int, seed: int = 1, card: AnyCard = CARD) -> Any:
    """Records of which every pixel is random, all of class 0. Rows of a table have random values."""
    draw = np.random.default_rng(seed)
    if isinstance(card, TableCard):
        return Table(draw.integers(card.domain, size=(n, len(card.domain))).astype(np.int32))
    return Records(draw.integers(0, 256, size=(n, *card.shape)).astype(np.uint8), np.zeros(n, dtype=np.int64))


def extremes(n: int, card: AnyCard = CARD, *, several: bool = False) -> Any:
    """Records that move answers as far as records can: the first is white, the last black, all others are noise.

    Rows of a table have the last values of all columns, the first ones, and random ones.

    Args:
        n: number of records.
        card: the public facts of them.
        several: with units. The first unit has a third of the records, all white and of one class. One in the middle has four.
    """
    records, units = garbage(n, card=card), np.arange(n)
    if several:
        counts = np.array([n // 3] + [1] * (n // 9) + [4] * (n // 9) + [1] * (n // 9))
        units = np.resize(np.repeat(np.arange(len(counts)), counts), n)
    first, last = units == 0, units == units.max()
    if isinstance(card, TableCard):
        records.codes[first], records.codes[last] = np.array(card.domain) - 1, 0
    else:
        records.images[first], records.images[last] = 255, 0
        records.labels[:] = np.where(first, 0, np.arange(n) % card.classes)
    if not several:
        return records
    order = np.random.default_rng(0).permutation(n)
    return replace(records[order], units=units[order])


class TrialRun:
    """One training in memory.

    Args:
        subject: the method under test.
        records: the private records.
        rng: all randomness. With a fixed noise seed, two runs can be compared bit for bit.
        settings: of the run; default: the small ones of the subject.
        public: the public records.
    """

    def __init__(
        self,
        subject: Subject,
        records: Any,
        *,
        rng: Rng,
        settings: Mapping[str, Any] | None = None,
        public: Any = None,
    ) -> None:
        self.job = Job.of(subject.method, subject.small if settings is None else settings, subject.card)
        self.plan = self.job.plan
        self.ledger = PrivacyLedger(budget=float("inf"), delta=1e-5, relation=self.job.relation)
        self.ledger.reserve(self.plan)
        self.private, self._records = Confined(records, self.ledger, rng), records
        self.rng, self.public = rng, public
        self.training = self.job.begin(rng)
        self.events: list[dict[str, Any]] = []

    def steps(self) -> Iterator[StepResult]:
        """Train. What each step shows goes into `events`."""
        for reached in self.training.drive(self.private, self.public):
            shown = {name: float(value) for name, value in (reached.logs or {}).items()}
            self.events.append({"phase": reached.phase.name, "step": reached.step, **shown})
            yield reached

    def end(self) -> State:
        """Train to the end, and return the last state."""
        for _ in self.steps():
            pass
        state: State = self.training.state
        return state

    def save(self, folder: Path) -> None:
        """Write a checkpoint into a folder."""
        checkpoint.save(folder, self.training.state.state_dict(), self.rng.state(), self.ledger)

    def continue_from(self, folder: Path, ledger: PrivacyLedger) -> None:
        """Continue from a checkpoint in a folder."""
        saved, rng = checkpoint.load(folder, ledger) or ({}, {})
        self.training.state.load_state_dict(saved)
        self.rng.restore(rng)

    def continue_as(self, first: "TrialRun", folder: Path) -> None:
        """Continue with the ledger of a run on the same records that was stopped, from its checkpoint in a folder."""
        self.ledger, self.private = first.ledger, Confined(self._records, first.ledger, self.rng)
        self.continue_from(folder, first.ledger)


class _Deaf:
    """A mechanism that runs its query, then answers with noise only."""

    def __init__(self, mechanism: Mechanism[Any]) -> None:
        self.event, self._mechanism, self.noised = mechanism.event, mechanism, mechanism.noised

    def exact(self, value: Any, query: Any, rng: Rng, /) -> Tensor:
        return torch.zeros_like(self._mechanism.exact(value, query, rng))


@contextmanager
def asked_through(wrap: Callable[[Mechanism[Any]], Mechanism[Any]]) -> Iterator[None]:
    """Inside, each release is by the mechanism that `wrap` makes of the declared one."""
    release = Confined.release

    def wrapped(self: Confined[Any], mechanism: Mechanism[Any], query: object) -> Tensor:
        return release(self, wrap(mechanism), query)

    with mock.patch.object(Confined, "release", wrapped):
        yield


def deaf() -> AbstractContextManager[None]:
    """Let each mechanism run its query, then answer with noise only."""
    return asked_through(_Deaf)
