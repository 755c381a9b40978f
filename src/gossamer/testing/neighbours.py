"""How far one unit moves each answer of a run: the run, then the same run without the unit, with the first run's answers.

Both runs see the same noisy answers, so all that is public in them is alike. Then the exact answers differ by what the unit
adds, and no more. A move is compared with the noise that is added and the event in the ledger (`privacy.mechanisms.moves`).

The contract of a query fixes the random choices of each record. Here every record of an answer has the *same* choices, and the
unit that leaves is always sampled. Any fixed choices will do: these do not change when others leave.
"""

import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gossamer.privacy.mechanisms import moves
from gossamer.privacy.queries import Mechanism
from gossamer.privacy.random.noise import Rng
from gossamer.testing.trial_run import Subject, TrialRun, asked_through


@dataclass(frozen=True)
class Move:
    """How far a unit moved the answers of one charge: the share of what the event allows. Above 1, epsilon is false.

    phase: the phase that asked. query: its class. unit: the number of the unit that left.
    """

    phase: str
    query: str
    unit: int
    ratio: float


@dataclass
class _Answer:
    """One answer of a run: exact, with noise, the standard deviation of the noise, and what its event allows."""

    phase: str
    query: str
    exact: Tensor
    each: Tensor
    allowed: float
    noisy: Tensor | None = None


@dataclass
class _Answers:
    """The answers of a run; those of the first run are played back in the others."""

    rng: "FixedChoices"
    phase: Callable[[], str]
    played: Sequence[_Answer] | None = None
    kept: list[_Answer] = field(default_factory=list)


class FixedChoices(Rng):
    """Secret choices that do not move when a unit leaves: noise aside, they follow from the position in the run alone.

    Args:
        population: number of units in the first run.
        always: units that every draw holds.
        gone: the unit that is not there.
    """

    def __init__(self, population: int, *, always: Sequence[int] = (), gone: int | None = None) -> None:
        super().__init__(noise_seed=0)
        every = np.arange(population)
        self._every, self._kept = every, every if gone is None else np.delete(every, gone)
        self._always, self._drawn = list(always), self._kept
        self._asked = Counter[str]()
        self._inside: _Alike | None = None
        self.loose = set[str]()
        """Random choices that could not be held fixed."""

    def poisson_sample(self, population: int, rate: float) -> np.ndarray:
        """See `Rng`. Each unit has its own random number."""
        if rate == 1:
            self._drawn = self._kept
            return np.arange(population)
        if population != len(self._kept):
            self.loose.add(f"which of {population} units are sampled, where there are {len(self._kept)}")
            return super().poisson_sample(population, rate)
        coins = self._stream("coins").random(len(self._every)) < rate
        coins[self._always] = True
        drawn = np.flatnonzero(coins[self._kept]).astype(np.int64)
        self._drawn = self._kept[drawn]
        return drawn

    def uniform(self, n: int) -> np.ndarray:
        """See `Rng`."""
        return self._of_units(self._stream("uniform").random(len(self._every)), n)

    def integers(self, n: int, high: int) -> np.ndarray:
        """See `Rng`."""
        return self._of_units(self._stream("integers").integers(high, size=len(self._every)), n)

    def common_integers(self, n: int, high: int) -> np.ndarray:
        """See `Rng`."""
        return self._of_units(self._stream("common").integers(high, size=len(self._every)), n)

    def normals(self, n: int, device: torch.device | str) -> Tensor:
        """See `Rng`. Inside a query it is one number, n times: it is not known which of them belong to a record."""
        stream = self._stream("normals")
        drawn = stream.standard_normal(n) if self._inside is None else np.full(n, stream.standard_normal())
        return torch.from_numpy(drawn.astype(np.float32)).to(device)

    def secret_generator(self) -> torch.Generator:
        """See `Rng`."""
        generator = torch.Generator()
        generator.manual_seed(int(self._stream("generator").integers(2**62)))
        if self._inside is not None:
            self._inside.generators.append(generator)
        return generator

    @contextmanager
    def inside_a_query(self) -> Iterator[None]:
        """Every record has the same choices, however many records there are and in however many pieces they are asked."""
        common = torch.get_rng_state()
        self._inside = _Alike()
        try:
            with self._inside:
                yield
        finally:
            self.loose |= self._inside.loose
            self._inside = None
            self._asked["answers"] += 1
        if not torch.equal(common, torch.get_rng_state()):
            self.loose.add("PyTorch's common stream, inside a query")

    def _stream(self, kind: str) -> np.random.Generator:
        """Outside a query a new one with each call. Inside it is always the same: pieces of a batch have the same choices."""
        if self._inside is None:
            self._asked[kind] += 1
        return np.random.default_rng([zlib.crc32(kind.encode()), self._asked["answers"], self._asked[kind]])

    def _of_units(self, numbers: np.ndarray, n: int) -> np.ndarray:
        """The numbers of the units that are there or sampled, where there are n of them; else one number n times."""
        for units in (self._kept, self._drawn):
            if n == len(units):
                return numbers[units]
        return np.full(n, numbers[0])


class _Alike(TorchFunctionMode):
    """What secret generators give inside a query: the same for each record, that is, in each row."""

    def __init__(self) -> None:
        super().__init__()
        self.generators: list[torch.Generator] = []
        self.loose = set[str]()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        given = dict(kwargs or {})
        if not any(given.get("generator") is known for known in self.generators):
            return func(*args, **given)
        if func in (torch.randn, torch.rand):
            size = given.pop("size", args[0] if args and not isinstance(args[0], int) else args)
            return self._rows(func, tuple(size), given)
        self.loose.add(f"{getattr(func, '__name__', func)} with a secret generator, inside a query")
        return func(*args, **given)

    def _rows(self, func: Any, size: tuple[int, ...], given: dict[str, Any]) -> Tensor:
        """One row, so that it does not depend on their number, for all."""
        row: Tensor = func(size[1:], **given)
        return row.expand(size).clone()


class _Noted:
    """A mechanism whose exact answers are kept, and whose noisy answers are those of the first run where there is one."""

    def __init__(self, mechanism: Mechanism[Any], answers: _Answers) -> None:
        self._mechanism, self._answers = mechanism, answers
        self.event = mechanism.event

    def exact(self, value: Any, query: Any, rng: Rng, /) -> Tensor:
        with self._answers.rng.inside_a_query():
            total = self._mechanism.exact(value, query, rng)
        exact, each = total.detach().double().clone(), moves.deviations(self._mechanism, query, total)
        kept = _Answer(self._answers.phase(), type(query).__name__, exact, each, moves.allowed(self.event))
        self._answers.kept.append(kept)
        return total

    def noised(self, total: Tensor, query: Any, rng: Rng, /) -> Tensor:
        kept, played = self._answers.kept, self._answers.played
        if played is None:
            total = self._mechanism.noised(total, query, rng)
            kept[-1].noisy = total.clone()
            return total
        assert len(kept) <= len(played), "it asks more queries if a unit leaves"
        noisy = played[len(kept) - 1].noisy
        assert noisy is not None
        assert noisy.shape == total.shape, "the size of an answer depends on the records"
        return noisy.clone()


def moves_of(
    subject: Subject,
    records: Any,
    gone: Sequence[int],
    *,
    settings: Mapping[str, Any] | None = None,
    public: Any = None,
    rng: type[FixedChoices] = FixedChoices,
) -> list[Move]:
    """Return how far each of some units moves the answers of a run, charge by charge.

    Args:
        subject: the method under test.
        records: all of them, with a `population` and `take`.
        gone: numbers of the units that leave, one at a time.
        settings: of the run; default: the small ones of the subject.
        public: the public records.
        rng: where the run takes its secret choices from.

    Raises:
        AssertionError: the number or the size of answers depends on the records, or a random choice cannot be held fixed.
    """
    population = records.population

    def answers(unit: int | None, played: Sequence[_Answer] | None = None) -> list[_Answer]:
        held = records if unit is None else records.take(np.delete(np.arange(population), unit))
        choices = rng(population, always=gone, gone=unit)
        run = TrialRun(subject, held, rng=choices, settings=settings, public=public)
        noted = _Answers(choices, lambda: str(run.training.state.phase), played)
        with asked_through(lambda mechanism: _Noted(mechanism, noted)):
            run.end()
        assert not choices.loose, f"these random choices cannot be held fixed: {', '.join(sorted(choices.loose))}"
        return noted.kept

    first = answers(None)
    return [move for unit in gone for move in _compared(unit, first, answers(unit, first))]


def _compared(unit: int, first: Sequence[_Answer], second: Sequence[_Answer]) -> list[Move]:
    """The moves between two runs. Answers that another charge covers count with it."""
    assert len(first) == len(second), "the number of queries depends on the records"
    charges: list[tuple[_Answer, float]] = []
    for a, b in zip(first, second, strict=True):
        far = moves.distance(a.exact - b.exact, a.each)
        if a.allowed == 0 and charges:  # the charge before covers it
            charged, before = charges.pop()
            charges.append((charged, math.hypot(before, far)))
        else:
            charges.append((a, far))
    return [Move(answer.phase, answer.query, unit, far / answer.allowed) for answer, far in charges]
