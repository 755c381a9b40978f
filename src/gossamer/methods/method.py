"""The contract: what a method is, what a run gives it, and how a run goes through its phases.

A method is one object in one folder: `__init__.py` says what it promises and costs, `loop.py` trains. To write one, subclass
`Method`. No PyTorch is loaded here: help texts and checks of certificates need none. The file is long because an author needs
all of it at once, and nothing else.
"""

import dataclasses
import sys
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    get_type_hints,
    runtime_checkable,
)

from gossamer import plugins
from gossamer.errors import CardError, GossamerError, RequestError, did_you_mean
from gossamer.lazy import Lazy
from gossamer.privacy.distributed import ALONE, Ranks

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from gossamer.data import card as data_card
    from gossamer.data.card import DataCard
    from gossamer.data.records import Records
    from gossamer.privacy import confined, guarantee
    from gossamer.privacy.confined import Confined
    from gossamer.privacy.guarantee import NeighboringRelation, Plan
    from gossamer.privacy.random.noise import Rng
else:
    torch = Lazy("torch")
    confined = Lazy("gossamer.privacy.confined")
    data_card = Lazy("gossamer.data.card")
    guarantee = Lazy("gossamer.privacy.guarantee")

Setting: TypeAlias = bool | int | float | str
"""A value in a Config, as JSON and the command line know it."""
Logs: TypeAlias = "Mapping[str, float | Tensor]"
"""Figures that may be shown, each one number: released values and what fakes give, never a loss on records."""
MaybeZero = Annotated[int, "may be zero"]
"""A count of which there may be none; every other int in a Config is at least 1."""
Encoder = Annotated[str, "encoder"]
"""The name of an encoder that a package adds, or its `module:object`; empty: the method's own features."""
Autoencoder = Annotated[str, "autoencoder"]
"""The name of an autoencoder that a package adds, `diffusers:FOLDER` or `module:object`; empty: none."""
Generator = Annotated[str, "generator"]
"""The name of a picture generator that a package adds, `diffusers:FOLDER` or `module:object`; empty: the method's own."""


_KINDS = {"pictures": ("pictures", "moments"), "table": ("a table", "marginals")}
"""What a card describes, in words, and a method that takes it."""
FROM_EPSILON: Any = None
"""The default of a `noise_multiplier`: a plan computes it from epsilon. Without a plan, `Method.job` refuses it."""


@dataclass(frozen=True, kw_only=True)
class BaseConfig:
    """The settings of one run: a frozen dataclass of `Setting`s, all public. Its fields are the method's flags.

    It knows which settings were given, also where they equal the defaults. `dataclasses.replace` gives all of them.
    """

    def __new__(cls, *_misplaced: Any, **given: Any) -> Self:
        """Note the names that are given, and refuse those of no field with a RequestError."""
        _refuse_unknown(given, cls, cls.__module__.rpartition(".")[2].replace("_", "-"))
        config = super().__new__(cls)
        config.__dict__["_given"] = tuple(given)
        return config

    @property
    def given(self) -> dict[str, Setting]:
        """The settings that were named when it was made. A None counts as not given."""
        return {name: getattr(self, name) for name in self.__dict__["_given"] if getattr(self, name) is not None}


def _refuse_unknown(settings: Iterable[str], kind: type[BaseConfig], owner: str) -> None:
    """Refuse settings that are no fields of a Config, with a RequestError. owner: what the message calls it."""
    names = [field.name for field in dataclasses.fields(kind)]
    for name in settings:
        if name not in names:
            raise RequestError(
                f"{owner} has no setting {name!r}.{did_you_mean(name, names)} Known: {', '.join(names)}."
            )


LARGEST_BATCH = 4_096
"""The batch of a step where nothing else is asked for: beyond it, more steps buy more than more records do."""


def batch_of(requested: int, card: "DataCard") -> int:
    """How many records a step expects: what was asked for or, where that is 0, 4,096, or all where fewer are declared."""
    return requested or min(LARGEST_BATCH, card.declared_size)


AT_ONCE = 512
"""Records whose gradients are computed at once where nothing else is asked for, and no memory of a GPU decides it."""


class StatefulDataclass:
    """A dataclass whose state is the state of its fields. A field without a state of its own is saved as it is.

    `run/training/checkpoint.py` seals the fields that are `Confined`. On the way back it gives the path of the sealed file,
    which such a field holds until the loop has records to confine.
    """

    def state_dict(self) -> dict[str, Any]:
        """Tensors, plain numbers and `Confined` values: what a checkpoint holds."""
        return {field.name: _saved(getattr(self, field.name)) for field in dataclasses.fields(cast(Any, self))}

    def load_state_dict(self, saved: Mapping[str, Any], /) -> None:
        """The inverse of `state_dict`, in place."""
        for field in dataclasses.fields(cast(Any, self)):
            setattr(self, field.name, _loaded(getattr(self, field.name), saved[field.name]))


@runtime_checkable
class Stateful(Protocol):
    """An object with a state dictionary: a module, an optimiser, a `StatefulDataclass`."""

    def state_dict(self) -> dict[str, Any]:
        """All that it goes on from."""
        ...

    def load_state_dict(self, saved: Any, /) -> object:
        """The inverse, in place."""
        ...


def _saved(value: Any) -> Any:
    if isinstance(value, Stateful):
        return value.state_dict()
    return [_saved(item) for item in value] if isinstance(value, list) else value


def _loaded(value: Any, saved: Any) -> Any:
    if isinstance(value, Stateful):
        value.load_state_dict(saved)
        return value
    if _holds_parts(value):
        return [_loaded(item, state) for item, state in zip(value, saved, strict=True)]
    return saved


def _holds_parts(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, Stateful) or _holds_parts(item) for item in value)


@dataclass(kw_only=True)
class State(StatefulDataclass, ABC):
    """Everything that a run goes on from. The driver keeps `phase` and `step`; a loop may read them.

    Args:
        phase: name of the present phase; empty at the start.
        step: steps of that phase that are done.
        begun: the `StartState` of a run that starts on what another method releases.
    """

    phase: str = ""
    step: int = 0
    begun: StatefulDataclass | None = None

    @property
    @abstractmethod
    def released(self) -> "nn.Module":
        """The generator that the run hands out."""

    @property
    def remark(self) -> str:
        """What released values say about the result, for the terminal; empty: nothing."""
        return ""

    def scores(self, records: "Records") -> "Tensor | None":  # noqa: ARG002 (for methods that need it)
        """How real the discriminators find records, for white-box attacks: [D, n]; None: there are none."""
        return None


C = TypeVar("C", bound=BaseConfig)
S = TypeVar("S", bound=State)
C_co = TypeVar("C_co", bound=BaseConfig, covariant=True)
S_co = TypeVar("S_co", bound=State, covariant=True)


@dataclass(frozen=True)
class Run(Generic[C]):
    """What a run gives a method: public facts, and a source of randomness.

    Args:
        config: its settings.
        card: the declared facts of the records.
        rng: secret noise and random choices, and the public streams.
        device: where the networks are.
        public: the public records, where there are any; the bodies of the phases have them, `Method.start` does not.
        ranks: the processes that train together; all public draws are the same on each.
    """

    config: C
    card: "DataCard"
    rng: "Rng"
    device: str = "cpu"
    public: "Records | None" = None
    ranks: Ranks = ALONE


@dataclass(frozen=True, kw_only=True)
class Phase:
    """A stretch of a run, and what it may release. Pure: known before a record is read.

    Args:
        name: what is counted, for progress and events: "warm start", "training".
        steps: how often its body yields; fewer, where a crash has used up releases.
        plan: what it may release, and how often; empty: nothing.
    """

    name: str
    steps: int
    plan: "Plan" = ()

    @property
    def releases(self) -> bool:
        """Whether anything leaves in it."""
        return len(self.plan) > 0

    def worth_keeping(self, step: int) -> bool:
        """Whether the event of this step is kept: about 400 of a phase that releases, and its first; 40 of another."""
        return step % max(1, self.steps // (400 if self.plan else 40)) == 0 or (step == 1 and self.releases)


@dataclass(frozen=True, kw_only=True)
class OnPublic(Phase, Generic[C, S]):
    """A phase that sees public records only; left out where there are none.

    Args:
        body: yields once per step what may be shown. Entered again after a stop, it goes on at `state.step`; every run
            executes the code after its last yield, once. The last phase has no such code.
    """

    body: "Callable[[Run[C], S, Records], Iterator[Logs]]"


@dataclass(frozen=True, kw_only=True)
class OnPrivate(Phase, Generic[C, S]):
    """A phase that has the private records, inside `Confined`. Its body is as that of `OnPublic`."""

    body: "Callable[[Run[C], S, Confined[Records]], Iterator[Logs]]"


@dataclass(frozen=True, kw_only=True)
class OnReleased(Phase, Generic[C, S]):
    """A phase that sees no records: it goes on with what has been released. Its body is as that of `OnPublic`."""

    body: "Callable[[Run[C], S], Iterator[Logs]]"


AnyPhase: TypeAlias = OnPublic[C, S] | OnPrivate[C, S] | OnReleased[C, S]
Phases: TypeAlias = Sequence[AnyPhase[C, S]]
"""The phases of a run, in order."""


@dataclass(frozen=True)
class StepResult:
    """Where a run is: the steps of a phase that are done, and what the last one may show. `logs` is None as the phase ends."""

    phase: Phase
    step: int
    logs: "Logs | None"


class Loop(Protocol[C, S]):
    """What the module `loop.py` of a method gives."""

    def generator(self, config: C, card: "DataCard", /) -> "nn.Module":
        """The network that a run releases, with fresh weights. It states `classes`, the number of labels that it knows."""
        ...

    def start(self, run: Run[C], /) -> S:
        """Networks and optimisers at the start of a run: the one place where a State is made."""
        ...

    def train(self, run: Run[C], state: S, private: "Confined[Records]", /) -> Iterator[Logs]:
        """The body of the phase that trains."""
        ...


class Method(ABC, Generic[C, S]):
    """What the author of a method writes. Its docstring is its help on the command line.

    The docstring says what is protected, under which relation and why, and names each departure from the paper with its reason.
    """

    name: ClassVar[str]
    """As on the command line."""
    title: ClassVar[str]
    """Its name with authors and year."""
    without_guarantee: ClassVar[str] = ""
    """Why it can promise nothing, whatever its settings; empty where it can."""
    takes: ClassVar[Literal["pictures", "table"]] = "pictures"
    """The kind of records that it trains on. A card describes the same kind."""
    takes_public: ClassVar[bool] = True
    """Whether it can use public records."""
    labels_public_with: ClassVar[str | None] = None
    """The setting with which its samples are the public records, with labels of its own. Empty: always. None: never."""
    can_warm_start: ClassVar[bool] = False
    """Whether other methods may start on what it releases: it is quick, and draws pictures without a sampler's many steps."""
    shards_records: ClassVar[bool] = False
    """Whether it splits its records itself where ranks train together, so that each rank needs to see all."""
    additive_over_units: ClassVar[bool] = False
    """Whether each of its releases is a sum of what every unit adds by itself. Only then may ranks take units by their place in
    the data. Else each unit goes to a random rank, because one unit less moves the places of all that follow."""
    suits_dark_background: ClassVar[tuple[str, ...]] = ()
    """Settings whose tuned values suit pictures on a black ground, such as digits, and are not advised for others."""
    scores_have_no_scale: ClassVar[bool] = False
    """Whether its discriminators are critics, whose scores attackers can only rank."""
    samples_on_gpu: ClassVar[bool] = False
    """Whether `sample` goes where the generator is. The others need a GPU for training at most."""
    one_size: ClassVar[bool] = True
    """Whether each run releases a model of the same size, so that the weights of two can be compared."""

    config_type: type[C]
    """Its settings; the fields are its flags."""
    loop: Loop[C, S]

    def __repr__(self) -> str:
        return f"METHODS[{self.name!r}]"

    def refuse_other_kind(self, card: Any) -> None:
        """Refuse a card of what the method does not take. Raises CardError."""
        if card.kind != self.takes:
            other, instead = _KINDS[card.kind]
            raise CardError(
                f"{self.name} takes {_KINDS[self.takes][0]}, and the card describes {other}: choose a method for {other}, such "
                f"as {instead}, or another card."
            )

    def presets(self) -> dict[str, dict[str, Any]]:
        """Named settings, from `presets.toml` in its folder: {name: {"about": ..., settings ...}}."""
        package = getattr(sys.modules.get(type(self).__module__), "__package__", "")
        if not package:  # a file of its own, or a notebook: it has no folder
            return {}
        file = resources.files(package).joinpath("presets.toml")
        return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}

    @abstractmethod
    def phases(self, config: C, card: "DataCard") -> Phases[C, S]:
        """The phases of a run, in order. Pure."""

    def stages(self, config: C, card: "DataCard") -> Phases[C, S]:
        """All phases of a run; more than its own, where it starts on what another method makes. Pure."""
        return self.phases(config, card)

    def first(self, config: C, card: "DataCard") -> "Job[BaseConfig, State] | None":  # noqa: ARG002 (for methods that need it)
        """What makes the pictures that a run starts on; None: there is no start."""
        return None

    def in_full(self, config: C, card: "DataCard") -> dict[str, Any]:  # noqa: ARG002 (for methods that need it)
        """Its settings by value: what a default stands for is written out, so that two ways of saying the same are equal."""
        return dataclasses.asdict(config)

    def begin(self, run: Run[C]) -> S:
        """The State of a run at its start."""
        return self.loop.start(run)

    def training(self, steps: int, plan: "Plan") -> OnPrivate[C, S]:
        """The phase of `loop.train`, the last one of most methods."""
        return OnPrivate(
            name="training",
            steps=steps,
            plan=plan,
            body=lambda run, state, private: self.loop.train(run, state, private),
        )

    def check(self, config: C, card: "DataCard") -> None:
        """Refuse settings that contradict each other. Pure.

        Raises:
            RequestError: naming the flag.
        """

    def check_ranks(self, config: C, count: int) -> None:
        """Refuse settings that are impossible on several ranks. Pure.

        Raises:
            RequestError: naming the flag.
        """

    def relation(self, config: C) -> "NeighboringRelation":  # noqa: ARG002 (for methods that need it)
        """Under which relation its plan is accounted."""
        return guarantee.ADD_OR_REMOVE_ONE

    def needs_public(self, config: C) -> bool:  # noqa: ARG002 (for methods that need it)
        """Whether these settings are impossible without public records or a start."""
        return False

    def uses_public(self, config: C) -> bool:  # noqa: ARG002 (for methods that need it)
        """Whether public records are of any use with these settings."""
        return self.takes_public

    def check_public(self, config: C, card: "DataCard", count: int) -> None:
        """Refuse so many public records, before any budget is used.

        Raises:
            RequestError: saying how many are needed.
        """

    @classmethod
    def labels_public(cls, settings: Mapping[str, Any]) -> bool:
        """Whether the samples of a release with these settings are the public records of the run."""
        setting = cls.labels_public_with
        return setting is not None and (not setting or bool(settings.get(setting)))

    @classmethod
    def releases_public(cls, settings: Mapping[str, Any]) -> str:
        """How a release with these settings has the public records of the run in it; empty: it has none of them.

        The certificate says so, in these words, after "The release contains these pictures as they are, and".
        """
        return "its samples are these pictures with other labels" if cls.labels_public(settings) else ""

    def bounds_units(self, card: "DataCard") -> str:  # noqa: ARG002 (for methods that need it)
        """How a query bounds what the records of one unit add together. The certificate says so; of a plug-in it does not."""
        return "they are sampled together, and their joint contribution to a query is bounded"

    def own_input(self, config: C) -> Mapping[str, str]:  # noqa: ARG002 (for methods that need it)
        """A public input that is part of the method: `what` it is, and on what it was `tuned`. Empty: there is none.

        The certificate lists it, unless the run has public records that take its place in the release.
        """
        return {}

    def explain(self, config: C) -> str:  # noqa: ARG002 (for methods that need it)
        """A line for `gossamer plan`; empty: none."""
        return ""

    def sample(
        self, net: "nn.Module", config: C, card: "DataCard", n: int, labels: "Tensor | None", stream: "torch.Generator"
    ) -> "tuple[Tensor, Tensor]":
        """Images [n, C, H, W] in [0, 1] and their labels [n]: one call of the net. Overridden where a sampler iterates.

        A method for tables gives codes int64 [n, columns] in place of images.

        Args:
            net: the released generator: latents [n, latent_size] and labels [n] to images.
            config: the settings of its run.
            card: has the prior of the labels.
            n: how many.
            labels: int64 [n]; None: drawn.
            stream: fixes the samples.
        """
        del config
        latents = torch.randn(n, int(net.latent_size), generator=stream)  # type: ignore[arg-type]  # every such net states it
        drawn = data_card.draw_labels(n, card, stream)
        if labels is None:
            labels = drawn if int(net.classes) > 1 else torch.zeros_like(drawn)  # type: ignore[arg-type]  # every such net states it
        with torch.no_grad():
            return net(latents, labels), labels

    def chunks(
        self,
        net: "nn.Module",
        config: C,
        card: "DataCard",
        sizes: Sequence[int],
        labels: "Tensor | None",
        stream: "torch.Generator",
    ) -> "Iterator[tuple[Tensor, ...]]":
        """Samples in chunks of these sizes, each as `sample` gives it. Overridden where all of them are chosen together.

        A method that knows how likely each class is adds the probabilities, float32 [n, classes], to images and labels.
        """
        at = 0
        for size in sizes:
            wanted = None if labels is None else labels[at : at + size]
            yield self.sample(net, config, card, size, wanted, stream)
            at += size

    def plan(self, config: C, card: "DataCard") -> "Plan":
        """What a run may release, over all phases. Pure: reads no record.

        Raises:
            RequestError: if the settings contradict each other.
        """
        self.check(config, card)
        stages = self.stages(config, card)
        if problem := _problem_of(stages):
            raise RequestError(f"{self.name} has phases that cannot be run: {problem}. This is a fault of the method.")
        return [release for phase in stages for release in phase.plan]

    def job(self, settings: Mapping[str, Any], card: Any) -> "Job[C, S]":
        """The method with these settings, for records that the card describes.

        Raises:
            CardError: if the card describes what the method does not take.
            RequestError: if there is no such setting, or the noise multiplier is missing.
        """
        _refuse_unknown(settings, self.config_type, self.name)
        self.refuse_other_kind(card)
        config = self.config_type(**settings)
        if getattr(config, "noise_multiplier", 0.0) is FROM_EPSILON:
            raise RequestError(
                f"{self.name} has no noise_multiplier yet: give it, or let `plan` compute it from epsilon."
            )
        return Job(self, config, card)


def _problem_of(stages: object) -> str:
    """Why these are no phases of a run; empty: they are."""
    if not isinstance(stages, Sequence) or not stages:
        return "they are no list"
    if not all(isinstance(stage, OnPublic | OnPrivate | OnReleased) for stage in stages):
        return "one is no OnPublic, OnPrivate or OnReleased"
    names = [stage.name for stage in stages]
    if not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
        return "each needs a name of its own"
    if not all(isinstance(stage.steps, int) and stage.steps >= 0 for stage in stages):
        return "the steps of one are no number of zero or more"
    if any(stage.releases and not isinstance(stage, OnPrivate) for stage in stages):
        return "one that has no private records plans queries to them"
    entries = [entry for stage in stages for entry in stage.plan]
    if not all(isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[1], int) for entry in entries):
        return "a plan is no list of pairs, a query and how often it is made"
    return "a query is planned a negative number of times" if any(count < 0 for _, count in entries) else ""


AnyMethod: TypeAlias = Method[Any, Any]


@dataclass(frozen=True)
class Job(Generic[C_co, S_co]):
    """A method with its settings and the card: all that is asked for before a record is read, and where training begins."""

    method: Method[C_co, S_co]
    config: C_co
    card: Any
    """A DataCard, or a TableCard where the method takes tables."""

    @property
    def settings(self) -> dict[str, Setting]:
        """The same as JSON."""
        return dataclasses.asdict(self.config)

    @property
    def plan(self) -> "Plan":
        """See `Method.plan`."""
        return self.method.plan(self.config, self.card)

    @property
    def phases(self) -> Sequence[AnyPhase[C_co, S_co]]:
        """The phases of a run that has public records; see `Method.stages`."""
        return self.method.stages(self.config, self.card)

    @property
    def relation(self) -> "NeighboringRelation":
        """See `Method.relation`. Raises RequestError: there is no such relation."""
        relation = self.method.relation(self.config)
        if relation not in guarantee.RELATION_NAMES:
            raise RequestError(
                f"{self.method.name} is accounted for under the relation {relation!r}, and not under one of "
                f"{', '.join(guarantee.RELATION_NAMES.values())}. This is a fault of the method."
            )
        return relation

    @property
    def needs_public(self) -> bool:
        """Whether the run is impossible without public records."""
        return self.method.needs_public(self.config) if self.first is None else self.first.needs_public

    @property
    def releases_public(self) -> str:
        """See `Method.releases_public`."""
        return self.method.releases_public(vars(self.config))

    @property
    def facts(self) -> list[dict[str, Any]]:
        """What the method says of itself for the certificate, and after it what the start says. config.json keeps it.

        Raises:
            RequestError: if a fact is not one line of text.
        """
        own: dict[str, Any] = {
            "name": self.method.name,
            "releases_public": self.releases_public,
            "bounds_units": self.method.bounds_units(self.card),
            "own_input": dict(self.method.own_input(self.config)),
        }
        words = {**own, **own["own_input"]}
        if set(own["own_input"]) not in (set(), {"what", "tuned"}):
            raise RequestError(
                f"own_input of {self.method.name} needs `what` and `tuned`. This is a fault of the method."
            )
        for fact in (name for name in words if name != "own_input"):
            if not isinstance(words[fact], str) or words[fact] != plugins.one_line(words[fact]):
                raise RequestError(
                    f"{fact} of {self.method.name} is not one line of text. This is a fault of the method."
                )
        return [own, *([] if self.first is None else self.first.facts)]

    @property
    def takes_public(self) -> bool:
        """Whether public records are of any use: to the start, or where there is none."""
        return self.method.uses_public(self.config) if self.first is None else self.first.takes_public

    def check_public(self, count: int) -> None:
        """See `Method.check_public`. count: of the public records."""
        if self.first is None:
            self.method.check_public(self.config, self.card, count)
        else:
            self.first.check_public(count)

    @property
    def in_full(self) -> dict[str, Any]:
        """See `Method.in_full`."""
        return self.method.in_full(self.config, self.card)

    @property
    def pretrained(self) -> "list[tuple[plugins.Kind, str]]":
        """Kind and name of each encoder, autoencoder and generator that the settings name, those of a start included."""
        return [*self.own_pretrained, *([] if self.first is None else self.first.pretrained)]

    @property
    def own_pretrained(self) -> "list[tuple[plugins.Kind, str]]":
        """Those without which the generator of the run cannot be made."""
        hints = get_type_hints(type(self.config), include_extras=True)
        kinds: tuple[plugins.Kind, ...] = ("encoder", "autoencoder", "generator")
        return [
            (kind, str(self.settings[name]))
            for name, hint in hints.items()
            for kind in kinds
            if hint == Annotated[str, kind] and self.settings[name]
        ]

    def check(self) -> None:
        """See `Method.check`."""
        self.method.check(self.config, self.card)

    @property
    def first(self) -> "Job[BaseConfig, State] | None":
        """See `Method.first`."""
        return self.method.first(self.config, self.card)

    def generator(self) -> "nn.Module":
        """See `Loop.generator`; settings that contradict each other are refused first."""
        self.check()
        if self.first is not None:
            self.first.generator()  # refused now, and not when a budget is used up
        return self.method.loop.generator(self.config, self.card)

    def sample(
        self, net: "nn.Module", n: int, labels: "Tensor | None", stream: "torch.Generator"
    ) -> "tuple[Tensor, Tensor]":
        """See `Method.sample`. Raises GossamerError: what the method has drawn are no samples of this shape and number."""
        return self._proper(self.method.sample(net, self.config, self.card, n, labels, stream), n)

    def chunks(
        self, net: "nn.Module", sizes: Sequence[int], labels: "Tensor | None", stream: "torch.Generator"
    ) -> "Iterator[tuple[Tensor, Tensor, Tensor | None]]":
        """See `Method.chunks`: images, labels, and probabilities or None. Raises GossamerError as `sample`."""
        drawn = self.method.chunks(net, self.config, self.card, sizes, labels, stream)
        for size, chunk in zip(sizes, drawn, strict=True):
            pair, more = (chunk[:2], chunk[2:]) if isinstance(chunk, tuple) else (chunk, ())
            images, given = self._proper(pair, size)
            yield images, given, more[0] if more else None

    def _proper(self, pair: object, n: int) -> "tuple[Tensor, Tensor]":
        """What a method has drawn, if these are n samples of the card. Raises GossamerError: they are not."""
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(part, torch.Tensor) for part in pair):
            raise GossamerError(f"{self.method.name} draws no pair of tensors. This is a fault of the method.")
        images, drawn = pair
        wrong = self._wrong_codes(images, n) if self.method.takes == "table" else self._wrong_pictures(images, n)
        if wrong := wrong or self._wrong_labels(drawn, n):
            raise GossamerError(f"{self.method.name} draws no proper samples: {wrong}. This is a fault of the method.")
        return images, drawn

    def _wrong_labels(self, labels: "Tensor", n: int) -> str:
        """Why these are not n labels of the card; empty: they are. Those of a table are the codes of its label column."""
        if self.method.takes == "table":
            classes = 1 if self.card.label_index is None else self.card.domain[self.card.label_index]
        else:
            classes = self.card.classes
        if tuple(labels.shape) != (n,) or labels.dtype != torch.int64:
            return f"labels are {labels.dtype} {list(labels.shape)} and not int64 [{n}]"
        if n and (int(labels.min()) < 0 or int(labels.max()) >= classes):
            return f"labels are not all from 0 to {classes - 1}"
        return ""

    def _wrong_pictures(self, images: "Tensor", n: int) -> str:
        """Why these are not n pictures of the card; empty: they are."""
        if tuple(images.shape) == (n, *self.card.shape) and images.is_floating_point():
            return "" if bool(images.isfinite().all()) else "pixels are not all finite numbers"
        return f"images are {images.dtype} {list(images.shape)} and not floating-point {[n, *self.card.shape]}"

    def _wrong_codes(self, codes: "Tensor", n: int) -> str:
        """Why these are not n rows of codes of the card; empty: they are."""
        domain = torch.tensor(self.card.domain)
        if tuple(codes.shape) != (n, len(domain)) or codes.dtype != torch.int64:
            return f"codes are {codes.dtype} {list(codes.shape)} and not int64 {[n, len(domain)]}"
        inside = (codes >= 0) & (codes < domain)
        return "" if bool(inside.all()) else "a code is none of its column"

    def paid_for(self, saved: Mapping[str, Any]) -> bool:
        """Whether the state of a checkpoint has a step of the last phase that releases: what is left is free."""
        for phase in reversed(self.phases):
            if phase.name == saved["phase"]:
                return not phase.releases or bool(saved["step"] > 0)
            if phase.releases:
                break
        return False

    def trained(self, saved: Mapping[str, Any]) -> bool:
        """Whether the state of a checkpoint has done a step of the last phase. Before that, nothing can be certified."""
        *_, last = self.phases
        return bool(saved["phase"] == last.name and saved["step"] > 0)

    def begin(self, rng: "Rng", device: str = "cpu", ranks: Ranks = ALONE) -> "Training[C_co, S_co]":
        """A training at its start; `load_state_dict` of its state goes on from a checkpoint.

        Raises:
            RequestError: if the settings are impossible on so many ranks.
        """
        if ranks.count > 1:
            self.method.check_ranks(self.config, ranks.count)
            if self.method.shards_records and self.first is not None:
                raise RequestError(
                    f"{self.method.name} takes no start on several ranks: each has all records, which a start would count "
                    f"{ranks.count} times. Train it in one process, or give it public records in place of the start."
                )
        return Training(self, Run(self.config, self.card, rng, device, ranks=ranks))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) or (isinstance(value, torch.Tensor) and value.numel() == 1)


class Training(Generic[C_co, S_co]):
    """A run in memory: the method's state, and the way through its phases. `state` is everything that it goes on from."""

    def __init__(self, job: Job[C_co, S_co], run: Run[C_co]) -> None:
        self.job, self.run = job, run
        self.state = job.method.begin(run)

    @property
    def trained(self) -> bool:
        """See `Job.trained`."""
        return self.job.trained({"phase": self.state.phase, "step": self.state.step})

    def drive(self, private: "Confined[Records]", public: "Records | None" = None) -> Iterator[StepResult]:
        """Go through the phases, from where the state is: one `StepResult` for each step, and one as each phase ends."""
        state = self.state
        phases = [stage for stage in self.job.phases if public is not None or not isinstance(stage, OnPublic)]
        names = [stage.name for stage in phases]
        if public is None and self.job.needs_public:
            raise RequestError(f"these settings of {self.job.method.name} need public records")
        state.phase = state.phase or names[0]
        if state.phase not in names:
            raise RequestError(f"the {state.phase} of this run had public records; without them it cannot go on")
        self._agree()
        for phase, following in zip(phases, [*names[1:], ""], strict=True):
            if phase.name != state.phase:
                continue
            for logs in self._steps(phase, private, public):
                if not isinstance(logs, Mapping) or not all(map(_is_number, logs.values())):
                    raise GossamerError(
                        f"{self.job.method.name} has a fault: a step of the {phase.name} gives no mapping of names to numbers."
                    )
                state.step += 1
                yield StepResult(phase, state.step, logs)
            done = state.step
            if following:  # before the next checkpoint: the end of a phase is not gone through twice
                state.phase, state.step = following, 0
            self._agree()
            yield StepResult(phase, done, None)

    def _agree(self) -> None:
        """Every rank goes on from what rank 0 has: without a release between them, the last digits of nets may drift apart."""
        if self.run.ranks.count > 1:
            mine = self.state.state_dict()
            inside = {name: value for name, value in mine.items() if isinstance(value, confined.Confined)}
            shared = self.run.ranks.broadcast({name: value for name, value in mine.items() if name not in inside})
            self.state.load_state_dict({**shared, **inside})

    def _steps(
        self, phase: AnyPhase[C_co, S_co], private: "Confined[Records]", public: "Records | None"
    ) -> Iterator[Logs]:
        run = dataclasses.replace(self.run, public=public)
        if isinstance(phase, OnPrivate):
            return phase.body(run, self.state, private)
        if isinstance(phase, OnReleased):
            return phase.body(run, self.state)
        assert public is not None
        return phase.body(run, self.state, public)
