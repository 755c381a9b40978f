"""A small training in memory, and records that a method can learn from: what the checks look at."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from gossamer.data.tables.any_card import AnyCard
from gossamer.kinds.toys import CARD, stripes
from gossamer.methods.contract import AnyMethod, State
from gossamer.methods.job import Job, StepResult
from gossamer.methods.synthesizer import model_bytes
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.queries import Mechanism
from gossamer.privacy.random.noise import Rng
from gossamer.run.training import checkpoint

N = 180
"""Records of a trial run: another number than the card declares."""
PUBLIC = 30
"""Its public records."""


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


def public_of(subject: Subject) -> Any:
    """Made-up public records."""
    return stripes(PUBLIC, seed=5, card=subject.card)


class TrialRun:
    """One training in memory.

    Args:
        subject: the method under test.
        records: the private records; None: `stripes`.
        rng: all randomness; None: fresh. With a fixed noise seed, two runs can be compared bit for bit.
        settings: of the run; default: the small ones of the subject.
        public: the public records; None: made-up ones where the settings need some, else none.
    """

    def __init__(
        self,
        subject: Subject,
        records: Any = None,
        *,
        rng: Rng | None = None,
        settings: Mapping[str, Any] | None = None,
        public: Any = None,
    ) -> None:
        self.job = Job.of(subject.method, subject.small if settings is None else settings, subject.card)
        self.plan = self.job.plan
        self.ledger = PrivacyLedger(budget=float("inf"), delta=1e-5, relation=self.job.relation)
        self.ledger.reserve(self.plan)
        self.rng = Rng() if rng is None else rng
        self._records = stripes(N, card=subject.card) if records is None else records
        self.private = Confined(self._records, self.ledger, self.rng)
        self.public = public_of(subject) if public is None and self.job.needs_public else public
        self.training = self.job.begin(self.rng)
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

    @property
    def model(self) -> bytes:
        """The file that it would release now."""
        return model_bytes(self.training.state.released)

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
