"""A run that starts on what another method releases, within the same budget, instead of public records.

Its first phases are those of that method, with their cost in the same ledger. Then samples are drawn from the generator that
they made, once. They are used as public records would be: post-processing of a release costs nothing more.
"""

import copy
import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

from gossamer.errors import RequestError, did_you_mean
from gossamer.lazy import Lazy
from gossamer.methods.contract import (
    AnyMethod,
    AnyPhase,
    BaseConfig,
    Logs,
    OnPublic,
    OnReleased,
    Phases,
    Run,
    State,
    StatefulDataclass,
)
from gossamer.methods.registry import METHODS

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from gossamer.data import records
    from gossamer.data.records import Records
else:
    torch, records = Lazy("torch"), Lazy("gossamer.data.records")

_AT_ONCE = 1_000
"""Records that are drawn in a step; fewer where they are large (`at_once`)."""


@dataclass(frozen=True, kw_only=True)
class StartConfig(BaseConfig):
    """What a run starts on.

    Args:
        start: method that runs first, within the budget: evolve or moments. Its samples replace public records. Empty: none.
        start_settings: settings of the method in `start`, for example "drawing=letters,candidates=500". Empty: its defaults.
        start_noise: noise multiplier of the method in `start`, divided by `noise_multiplier`.
        start_records: number of samples of the method in `start`.
    """

    start: str = ""
    start_settings: str = ""
    start_noise: float = 1.0
    start_records: int = 20_000


@dataclass
class StartState(StatefulDataclass):
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


def named(config: BaseConfig) -> tuple[AnyMethod, dict[str, Any]] | None:
    """The method that a run starts on, and its settings; None: there is no start.

    Raises:
        RequestError: if there is no such method or setting.
    """
    if not isinstance(config, StartConfig):
        return None
    if not config.start:
        if config.start_settings:
            raise RequestError("`start_settings` are those of a start: give `start` as well, such as `start=evolve`.")
        return None
    able = {name: method for name, method in METHODS.items() if method.can_warm_start}
    if config.start not in able:
        raise RequestError(
            f"{config.start!r} is no start.{did_you_mean(config.start, able)} Starts are: {', '.join(able)}."
        )
    training = float(config.noise_multiplier)  # type: ignore[attr-defined]  # who can start has one
    if config.start_noise == 0 and training > 0:
        raise RequestError("`start_noise=0` releases the start without privacy: give more than 0.")
    method = able[config.start]
    return method, settings_of(method, config.start_settings, config.start_noise * training)


def refuse(name: str, relation: object, first: Any) -> None:
    """Refuse a start that a method cannot use, with a RequestError.

    Args:
        name: of the method.
        relation: under which its plan is accounted.
        first: the Job of the start.
    """
    if first.settings.get("own_label", 1.0) != 1:
        raise RequestError(
            "`start_settings`: own_label gives soft labels, which a start has no use for. Leave own_label out."
        )
    if first.relation != relation:
        raise RequestError(
            f"`start={first.method.name}` protects under another relation than {name} with these settings: take no start."
        )


def settings_of(method: AnyMethod, text: str, noise: float) -> dict[str, Any]:
    """Settings out of "name=value,name=value", of the types of the method's Config, with this noise multiplier.

    Raises:
        RequestError: if a name or a value is none.
    """
    kinds, settings = get_type_hints(method.config_type, include_extras=True), {}
    kinds.pop("noise_multiplier")
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (part.strip() for part in entry.partition("="))
        if not equals or name not in kinds:
            raise RequestError(
                f"`start_settings={text!r}`: {entry!r} is no setting of {method.name}.{did_you_mean(name, kinds)} It is "
                f"name=value, with commas between, and the names are: {', '.join(kinds)}."
            )
        settings[name] = _value(name, value, kinds[name])
    return {**settings, "noise_multiplier": noise}


def _value(name: str, text: str, kind: Any) -> Any:
    if get_origin(kind) is Annotated and get_args(kind)[0] is str:  # the name of a plug-in
        return text
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            raise RequestError(f"`start_settings`: {name} is one of {', '.join(get_args(kind))}, not {text!r}.")
        return text
    if kind is bool:
        if text.lower() not in ("true", "false"):
            raise RequestError(f"`start_settings`: {name} is true or false, and {text!r} is neither.")
        return text.lower() == "true"
    least = 1 if kind is int else 0
    try:
        number = float(text) if kind is float else int(text)
    except ValueError:
        number = math.nan
    if not least <= number < math.inf:
        kind_name = "a number" if kind is float else "a whole number"
        raise RequestError(f"`start_settings`: {name} is {kind_name} of at least {least}, and {text!r} is not.")
    return number


def _before(phase: AnyPhase[Any, Any], config: BaseConfig, later: Sequence[AnyPhase[Any, Any]]) -> AnyPhase[Any, Any]:
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

    wrapped: Any = body
    return dataclasses.replace(phase, name=f"start: {phase.name}", body=wrapped)


def _after(phase: AnyPhase[Any, Any]) -> AnyPhase[Any, Any]:
    """A phase of the method itself, for which the drawn records are public."""
    if isinstance(phase, OnPublic):
        of_public = phase.body

        def on_drawn(run: Run[Any], state: State) -> Iterator[Logs]:
            run = _with_drawn(run, state)
            assert run.public is not None
            return of_public(run, state, run.public)

        return OnReleased(name=phase.name, steps=phase.steps, body=on_drawn)
    body: Any = phase.body
    wrapped: Any = lambda run, state, *seen: body(_with_drawn(run, state), state, *seen)  # noqa: E731 (its type is the phase's)
    return dataclasses.replace(phase, body=wrapped)


def _with_drawn(run: Run[Any], state: State) -> Run[Any]:
    assert isinstance(state.begun, StartState)
    return dataclasses.replace(run, public=state.begun.drawn)


def _draw(run: Run[Any], state: State, first: Any) -> Iterator[Logs]:
    """Records of the start's generator, on a public stream: the same ones, whatever the records are, once it is released."""
    start, total = state.begun, run.config.start_records
    assert isinstance(start, StartState)
    stream, step = run.rng.public("start records"), records.at_once(run.card.shape, _AT_ONCE)
    net = copy.deepcopy(start.state.released).cpu()  # samples come from the processor, wherever it has learnt
    while (n := min(step, total - len(start.images))) > 0:
        start.add(*first.sample(net, n, None, stream))
        yield {}
