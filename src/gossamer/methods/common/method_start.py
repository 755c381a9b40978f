"""Starts: on public records, or on what another method releases, within the same budget.

The first phases of a run of the second kind are those of that method, with their cost in the same ledger. Then samples are
drawn from the generator that they made, once. They are used as public records would be: post-processing of a release costs
nothing more.
"""

import copy
import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from gossamer.errors import RequestError, did_you_mean
from gossamer.lazy import Lazy, torch
from gossamer.methods import contract
from gossamer.methods.contract import BaseConfig, C, Logs, OnPublic, OnReleased, Phase, Phases, Run, S, State
from gossamer.methods.registry import METHODS

if TYPE_CHECKING:
    from torch import Tensor

    from gossamer.data import records
    from gossamer.data.records import Records
else:
    records = Lazy("gossamer.data.records")

_AT_ONCE = 1_000
"""Records that are drawn in a step; fewer where they are large (`at_once`)."""


@dataclass(frozen=True, kw_only=True)
class StartConfig(BaseConfig):
    """What a run starts on.

    Args:
        start: method that runs first, within the budget, and its settings: moments, or "evolve --steps 1". Its samples replace
            public records. In Python a mapping, such as {"method": "evolve", "steps": 1}. Empty: none.
        start_noise: noise multiplier of the method in `start`, divided by `noise_multiplier`.
        start_records: number of samples of the method in `start`.
    """

    start: contract.Start = ""
    start_noise: float = 1.0
    start_records: int = 20_000


class WarmStarted(contract.Method[C, S], Generic[C, S]):
    """One whose loop has `warm_start`, and whose Config says how many steps that takes: `warm_steps`."""

    def phases(self, config: C, card: Any) -> Phases[C, S]:
        """A free warm start, then the training."""
        asked: Any = config
        warm: OnPublic[C, S] = OnPublic(name="warm start", steps=asked.warm_steps, body=self.loop.warm_start)
        return [warm, self.training(config, card)]


@dataclass
class StartState(contract.StatefulDataclass):
    """The state of the method that a run starts on, and samples of it: images uint8 [n, C, H, W], labels int64 [n]."""

    state: State
    images: "Tensor"
    labels: "Tensor"

    @classmethod
    def of(cls, state: State, shape: tuple[int, ...]) -> "StartState":
        """Before anything is drawn."""
        return cls(state, torch.zeros(0, *shape, dtype=torch.uint8), torch.zeros(0, dtype=torch.int64))

    @property
    def drawn(self) -> "Records":
        """The samples, instead of public records."""
        return records.Records(self.images.numpy(), self.labels.numpy())

    def add(self, images: "Tensor", labels: "Tensor") -> None:
        """Keep what was drawn. images: [n, C, H, W] in [0, 1]; labels: [n]."""
        grey = (images.clamp(0, 1) * 255).round().to(torch.uint8)
        self.images, self.labels = torch.cat([self.images, grey]), torch.cat([self.labels, labels.cpu()])


def staged(own: Phases[Any, Any], first: Any, config: StartConfig) -> Phases[Any, Any]:
    """The phases of the start, the drawing of its records, then the method's own, for which these are public.

    Args:
        own: those of the method.
        first: the Job of the start.
        config: of the run.
    """
    before = list(first.phases)
    return [
        *(_before(phase, first.config, [*before[at:], *own]) for at, phase in enumerate(before, start=1)),
        OnReleased(
            name="drawing",
            steps=-(-config.start_records // records.at_once(first.card.shape, _AT_ONCE)),
            body=lambda run, state: _draw(run, state, first),
        ),
        *(_after(phase) for phase in own),
    ]


def named(config: BaseConfig) -> tuple[contract.Method[Any, Any], dict[str, Any]] | None:
    """The method that a run starts on, and its settings; None: there is no start.

    Raises:
        RequestError: if there is no such method, or its noise is given twice.
    """
    if not isinstance(config, StartConfig) or not config.start:
        return None
    settings = {"method": config.start} if isinstance(config.start, str) else dict(config.start)
    able = {name: each for name, each in METHODS.items() if each.can_warm_start}
    name = settings.pop("method", "")
    if name not in able:
        raise RequestError(f"{name!r} is no start.{did_you_mean(str(name), able)} Starts are: {', '.join(able)}.")
    if "noise_multiplier" in settings:
        raise RequestError("`start` has a noise_multiplier, which follows from `start_noise`. Leave it out.")
    training = float(config.noise_multiplier)  # type: ignore[attr-defined]  # who can start has one
    if config.start_noise == 0 and training > 0:
        raise RequestError("`start_noise=0` releases the start without privacy: give more than 0.")
    return able[name], {**settings, "noise_multiplier": config.start_noise * training}


def _before(phase: Phase[Any, Any], config: BaseConfig, later: Sequence[Phase[Any, Any]]) -> Phase[Any, Any]:
    """A phase of the start as one of the whole run. config: of the start.

    Its loop ends where the ledger holds no more of its event, and a later phase may release the same event. So it is stopped
    after its steps, also in a resumed run. It is also stopped where only what later phases have reserved is left.
    """
    owed = Counter[Any]()
    for event, count in (entry for later_phase in later for entry in later_phase.plan):
        owed[event] += count

    def over(state: State, seen: Sequence[Any]) -> bool:
        if not phase.releases:
            return False
        (private,) = seen
        return state.step >= phase.steps or any(private.remaining(event) <= owed[event] for event, _ in phase.plan)

    def body(run: Run[Any], state: State, *seen: Any) -> Iterator[Logs]:
        assert isinstance(state.begun, StartState)
        inner = state.begun.state
        inner.phase, inner.step = phase.name, state.step
        if over(state, seen):
            return
        for logs in phase.body(dataclasses.replace(run, config=config), inner, *seen):
            yield logs
            inner.step = state.step
            if over(state, seen):
                return

    return dataclasses.replace(phase, name=f"start: {phase.name}", body=body)


def _after(phase: Phase[Any, Any]) -> Phase[Any, Any]:
    """A phase of the method itself, for which the drawn records are public."""

    def body(run: Run[Any], state: State, *seen: Any) -> Iterator[Logs]:
        assert isinstance(state.begun, StartState)
        run = dataclasses.replace(run, public=state.begun.drawn)
        return phase.body(run, state, *([run.public] if isinstance(phase, OnPublic) else seen))

    kind = OnReleased if isinstance(phase, OnPublic) else type(phase)
    return kind(name=phase.name, steps=phase.steps, queries=phase.queries, body=body)


def _draw(run: Run[Any], state: State, first: Any) -> Iterator[Logs]:
    """Records of the start's generator, on a public stream: the same ones, whatever the records are, once it is released."""
    start, total = state.begun, run.config.start_records
    assert isinstance(start, StartState)
    stream, step = run.rng.public("start records"), records.at_once(run.card.shape, _AT_ONCE)
    net = copy.deepcopy(start.state.released).cpu()  # samples come from the processor, wherever it has learnt
    while (n := min(step, total - len(start.images))) > 0:
        start.add(*first.sample(net, n, None, stream))
        yield {}
