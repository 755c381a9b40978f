"""The contract: what a method is, and what a run gives it.

A method is one object in one folder: `__init__.py` says what it promises and costs, `loop.py` trains. To write one, subclass
`Method`. `job.py` has a method with its settings, and the way through its phases. No PyTorch is loaded here: help texts and
checks of certificates need none. The file is long because an author needs all of it at once, and nothing else.
"""

import dataclasses
import sys
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, Self, TypeAlias, TypeVar, cast

from gossamer.errors import GossamerError, RequestError, did_you_mean
from gossamer.lazy import Lazy, torch
from gossamer.privacy.distributed import ALONE, Ranks

if TYPE_CHECKING:
    from torch import Tensor, nn

    from gossamer.data import card as data_card
    from gossamer.data import records
    from gossamer.nets import initialised
    from gossamer.privacy import guarantee
    from gossamer.privacy.confined import Confined
    from gossamer.privacy.random.noise import Rng

    DataCard: TypeAlias = data_card.DataCard
    Records: TypeAlias = records.Records
else:
    DataCard = Records = Any  # for annotations alone: their modules need NumPy
    data_card = Lazy("gossamer.data.card")
    guarantee = Lazy("gossamer.privacy.guarantee")
    initialised = Lazy("gossamer.nets.initialised")

Setting: TypeAlias = bool | int | float | str
"""A value in a Config, as JSON and the command line know it."""
Start: TypeAlias = str | Mapping[str, Any]
"""The method of a start: its name, or a mapping with its name as `method` and its settings. Empty: there is no start."""
Logs: TypeAlias = "Mapping[str, float | Tensor]"
"""Figures that may be shown, each one number: released values and what fakes give, never a loss on records."""
MaybeZero = Annotated[int, "may be zero"]
"""A count of which there may be none; every other int in a Config is at least 1."""
Share = Annotated[float, "is a share, at most 1"]
"""A number from 0 to 1."""
BelowOne = Annotated[float, "must be below 1"]
"""A decay: a number from 0 to 1, and not 1."""
Encoder = Annotated[str, "encoder"]
"""The name of an encoder that a package adds, or its `module:object`; empty: the method's own features."""
Autoencoder = Annotated[str, "autoencoder"]
"""The name of an autoencoder that a package adds, or `module:object`; empty: none."""
Generator = Annotated[str, "generator"]
"""The name of a picture generator that a package adds, or `module:object`; empty: the method's own."""


FROM_EPSILON: Any = None
"""The default of a `noise_multiplier`: it may be left open. A plan computes it from epsilon, and each `Job` has it."""


def fault(what: str, kind: type[GossamerError] = RequestError) -> GossamerError:
    """The error for what a user cannot mend."""
    return kind(f"{what}. This is a fault of the method.")


@dataclass(frozen=True, kw_only=True)
class BaseConfig:
    """The settings of one run: a frozen dataclass of `Setting`s, all public. Its fields are the method's flags.

    It knows which settings were given, also where they equal the defaults. `dataclasses.replace` gives all of them.
    """

    def __new__(cls, *_misplaced: Any, **given: Any) -> Self:
        """Note the names that are given, and refuse those of no field with a RequestError."""
        refuse_unknown(given, cls, cls.__module__.rpartition(".")[2].replace("_", "-"))
        config = super().__new__(cls)
        config.__dict__["_given"] = tuple(given)
        return config

    @property
    def given(self) -> dict[str, Setting]:
        """The settings that were named when it was made. A None counts as not given."""
        return {name: getattr(self, name) for name in self.__dict__["_given"] if getattr(self, name) is not None}

    def resolved(self, card: Any) -> Self:
        """The settings with those that follow from card and noise. Sites with noise of their own all take these of the sum."""
        del card  # for methods that need it
        return self


def refuse_unknown(settings: Iterable[str], kind: type[BaseConfig], owner: str) -> None:
    """Refuse settings that are no fields of a Config, with a RequestError. owner: what the message calls it."""
    names = [field.name for field in dataclasses.fields(kind)]
    for name in settings:
        if name not in names:
            raise RequestError(
                f"{owner} has no setting {name!r}.{did_you_mean(name, names)} Known: {', '.join(names)}."
            )


SHARED_SETTINGS = frozenset({
    "noise_multiplier", "steps", "max_norm", "average_decay", "expected_batch_size", "physical_batch_size", "precision",
    "start", "multiplicity", "drawing", "bands",
})  # fmt: skip
"""Settings that mean the same in every method that has them. Code outside methods/ names no other setting.

`multiplicity`: rows of a batch that a record makes. `drawing`: what a program draws as the first pictures.
"""

LARGEST_BATCH = 4_096
"""The batch of a step where nothing else is asked for: beyond it, more steps buy more than more records do."""


def batch_of(requested: int, card: DataCard) -> int:
    """How many records a step expects: what was asked for or, where that is 0, 4,096, or all where fewer are declared."""
    return requested or min(LARGEST_BATCH, card.declared_size)


AT_ONCE = 512
"""Records whose gradients are computed at once where nothing else is asked for, and no memory of a GPU decides it."""


class Loop(Lazy):
    """The functions of a module `loop.py`. It is imported when one is called, so that a plan needs no PyTorch."""

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__
        return found(name) if name.startswith("__") else lambda *given, **named: found(name)(*given, **named)


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


def _saved(value: Any) -> Any:
    if _has_state(value):
        return value.state_dict()
    return [_saved(item) for item in value] if isinstance(value, list) else value


def _loaded(value: Any, saved: Any) -> Any:
    if _has_state(value):
        value.load_state_dict(saved)
        return value
    if _holds_parts(value):
        return [_loaded(item, state) for item, state in zip(value, saved, strict=True)]
    return saved


def _has_state(value: object) -> bool:
    """Whether it has a state of its own: a module, an optimiser, a `StatefulDataclass`."""
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def _holds_parts(value: Any) -> bool:
    return isinstance(value, list) and any(_has_state(item) or _holds_parts(item) for item in value)


@dataclass(kw_only=True)
class State(StatefulDataclass, ABC):
    """Everything that a run goes on from. The driver keeps `phase` and `step`; a loop may read them. Without more: `NetState`.

    Args:
        phase: name of the present phase; empty at the start.
        step: steps of that phase that are done.
        begun: the `StartState` of a run that starts on what another method releases.
    """

    phase: str = ""
    step: int = 0
    begun: StatefulDataclass | None = None
    scores_have_no_scale: ClassVar[bool] = False
    """Whether the discriminators are critics, whose scores attackers can only rank."""

    @property
    @abstractmethod
    def released(self) -> "nn.Module":
        """The generator that the run hands out."""

    def check_sent(self) -> None:
        """Refuse a state from a centre that nobody here trusts, where a query could exceed its bounds with it.

        Raises:
            ValueError: a value is out of its range. It says nothing of a record.
        """

    @property
    def remark(self) -> str:
        """What released values say about the result, for the terminal; empty: nothing."""
        return ""

    def scores(self, records: Records) -> "Tensor | None":  # noqa: ARG002 (for methods that need it)
        """How real the discriminators find records, for white-box attacks: [D, n]; None: there are none."""
        return None


@dataclass(kw_only=True)
class NetState(State):
    """The state of a method that goes on from its net alone."""

    net: "nn.Module"

    @property
    def released(self) -> "nn.Module":
        """The net."""
        return self.net


C = TypeVar("C", bound=BaseConfig)
S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class Query:
    """A noisy query of a run, declared once: plan, ledger, loop, audit and certificate go by it. Pure.

    Args:
        name: as the loop calls it, see `Run.query`.
        mechanism: how it is asked, as `Confined.release` takes it. A loop may fill in a bound: the event does not depend on it.
        times: how often its cost is recorded, at most. A charge of banded noise covers as many answers as it has bands.
    """

    name: str
    mechanism: Any
    times: int

    @property
    def plan(self) -> "guarantee.Plan":
        """What it releases, and how often."""
        return [(self.mechanism.event, self.times)]

    @property
    def answers(self) -> int:
        """How often it is asked, at most."""
        return self.times * int(getattr(self.mechanism, "bands", 1))


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
        queries: what the present phase may ask.
        answered: at a site of a federation, its own noisy answer to the first query, once it has given it, and the noise
            multiplier of that query.
    """

    config: C
    card: DataCard
    rng: "Rng"
    device: str = "cpu"
    public: Records | None = None
    ranks: Ranks = ALONE
    queries: Sequence[Query] = ()
    answered: "tuple[Tensor, float] | None" = None

    def query(self, name: str) -> Any:
        """The mechanism of a query that the present phase declares. Raises GossamerError: it declares none of this name."""
        for query in self.queries:
            if query.name == name:
                return query.mechanism
        raise fault(f"the phase declares no query {name!r}", GossamerError)


@dataclass(frozen=True)
class Draw(Generic[C]):
    """What is asked of a released generator.

    Args:
        config: the settings of its run.
        card: of the kind that the method takes; a DataCard has the prior of the labels.
        n: how many samples.
        labels: int64 [n]; None: drawn.
        stream: fixes the samples.
    """

    config: C
    card: Any
    n: int
    labels: "Tensor | None"
    stream: "torch.Generator"


@dataclass(frozen=True, kw_only=True)
class Phase(Generic[C, S]):
    """A stretch of a run, and what it may release. Pure: known before a record is read. One of the three classes below.

    Args:
        name: what is counted, for progress and events: "warm start", "training".
        steps: how often its body yields; fewer, where a crash has used up releases.
        queries: what it may ask of the records; empty: nothing.
        body: called with the run, its state and the records that it gets, yields once per step what may be shown. Entered again
            after a stop, it goes on at `state.step`; every run executes the code after its last yield, once. The last phase
            has no such code.
    """

    name: str
    steps: int
    queries: Sequence[Query] = ()
    body: Callable[..., Iterator[Logs]]

    @property
    def plan(self) -> "guarantee.Plan":
        """What it may release, and how often."""
        return [(query.mechanism.event, query.times) for query in self.queries]

    @property
    def releases(self) -> bool:
        """Whether anything leaves in it."""
        return len(self.queries) > 0

    def worth_keeping(self, step: int) -> bool:
        """Whether the event of this step is kept: about 400 of a phase that releases, and its first; 40 of another."""
        return step % max(1, self.steps // (400 if self.queries else 40)) == 0 or (step == 1 and self.releases)


class OnPublic(Phase[C, S]):
    """A phase that sees public records only, `Records`; left out where there are none."""


class OnPrivate(Phase[C, S]):
    """A phase that has the private records, `Confined[Records]`."""


class OnReleased(Phase[C, S]):
    """A phase that sees no records: it goes on with what has been released."""


Phases: TypeAlias = Sequence[Phase[C, S]]
"""The phases of a run, in order."""


@dataclass(frozen=True, kw_only=True)
class TrialConfig:
    """How `gossamer audit` tries a method: runs of its own loop on small nets, with a record that an attacker looks for.

    Args:
        canary: the record. "gradients": one with a gradient on a weight of its own, many in a run. "record": one unlike the
            others, found along what it adds. "row": one row of a table with values of its own. "critic": one that turns
            its critic around. "terms": one that adds to a sum and turns its group around.
        settings: of its Config, small and quick.
        shape: of the records, where they are pictures.
        columns: number of values of each column, where they are rows of a table. The last column is the label.
        about: the canary in words; empty: those of its kind.
        max_trials: trials at epsilon 1, where most are needed; without meaning for "gradients".
        ordinary: number of records beside the canaries.
        of_a_run: settings that say where noise goes. The audit of a finished run takes over its values.
        revealed: whether the run makes public which of its queries had the canary.
        one_size: whether each run releases a model of the same size, so that the weights of two can be compared.
        adjust: what changes where its settings call for another canary.
    """

    canary: Literal["gradients", "record", "row", "critic", "terms"]
    settings: Mapping[str, Setting]
    shape: tuple[int, int, int] = (1, 28, 28)
    classes: int = 2
    columns: tuple[int, ...] = ()
    about: str = ""
    max_trials: int = 30_000
    ordinary: int = 60
    of_a_run: tuple[str, ...] = ("max_norm", "bands")
    revealed: bool = False
    one_size: bool = True
    adjust: "Callable[[TrialConfig], TrialConfig] | None" = None

    def given(self, settings: Mapping[str, Setting]) -> "TrialConfig":
        """The trial with these settings in place of its own."""
        trial = dataclasses.replace(self, settings={**self.settings, **settings})
        return trial if self.adjust is None else self.adjust(trial)


class Method(ABC, Generic[C, S]):
    """What the author of a method writes. Its docstring is its help on the command line.

    The docstring says what is protected, under which relation and why, and names each departure from the paper with its reason.
    Name, title, settings and queries have no default.
    """

    name: ClassVar[str]
    """As on the command line."""
    title: ClassVar[str]
    """Its name with authors and year."""
    without_guarantee: ClassVar[str] = ""
    """Why it can promise nothing, whatever its settings; empty where it can."""
    takes: ClassVar[Literal["pictures", "table"]] = "pictures"
    """The kind of records that it trains on. A card describes the same kind."""
    takes_linked: ClassVar[bool] = False
    """Whether it also trains on linked tables, one after another."""
    takes_public: ClassVar[bool] = True
    """Whether it can use public records."""
    can_warm_start: ClassVar[bool] = False
    """Whether other methods may start on what it releases: it is quick, and draws pictures without a sampler's many steps."""
    ranks_take: ClassVar[Literal["units in secret", "units by place", "all records", "counts"]] = "units in secret"
    """Which records each rank has where ranks train together. By place in the data: only where each release is a sum of what
    every unit adds by itself. Else each unit goes to a random rank, because one unit less moves the places of all that follow.
    All records: where the method splits them itself. Counts: nothing else is asked, in one process; see `Kind.counted`."""
    can_ask_sites: ClassVar[bool] = False
    """Whether sites with records of their own can answer its queries, and their sum serves as an answer. Its state then has a
    `check_sent`."""

    trial: ClassVar[TrialConfig | None] = None
    """How an audit tries it; None: it cannot be audited."""

    config_type: type[C]
    """Its settings; the fields are its flags."""
    loop: Any = None
    """`Loop("package.loop")`, a module with the functions `generator`, `start` and `train`. None: `net` and `train` are written
    below."""

    def __repr__(self) -> str:
        return f"METHODS[{self.name!r}]"

    @abstractmethod
    def queries(self, config: C, card: DataCard) -> Sequence[Query]:
        """The noisy queries of the training, each declared once. Another phase holds its own. Pure."""

    def net(self, config: C, card: DataCard) -> "nn.Module":
        """The network that a run releases, with fresh weights. It states `classes`, the number of labels that it knows.

        One with `samples_on_gpu` draws samples where it is. The others need a GPU for training at most.
        """
        net: nn.Module = self.loop.generator(config, card)
        return net

    def start(self, run: Run[C]) -> S:
        """The State of a run at its start. By default it has the net alone, whose weights follow from the seed."""
        if self.loop is not None:
            return cast("S", self.loop.start(run))
        with initialised.initialised_by(run.rng.public("initialisation")):
            net = self.net(run.config, run.card)
        return cast("S", NetState(net=net.to(run.device)))

    def train(self, run: Run[C], state: S, private: "Confined[Records]") -> Iterator[Logs]:
        """The body of the training, see `OnPrivate`."""
        yields: Iterator[Logs] = self.loop.train(run, state, private)
        return yields

    def phases(self, config: C, card: DataCard) -> Phases[C, S]:
        """The phases of a run, in order: the training alone, unless a method has more. Pure."""
        return [self.training(config, card)]

    def training(self, config: C, card: DataCard, *, steps: int | None = None) -> OnPrivate[C, S]:
        """The phase of `train`, the last one of most methods. steps: None: as often as its first query is asked."""
        queries = self.queries(config, card)
        return OnPrivate(
            name="training",
            steps=queries[0].answers if steps is None else steps,
            queries=queries,
            body=self.train,
        )

    def check(self, config: C, card: DataCard) -> None:
        """Refuse settings that contradict each other. Pure.

        Raises:
            RequestError: naming the flag.
        """

    def check_ranks(self, config: C, count: int) -> None:
        """Refuse settings that are impossible on several ranks. Pure.

        Raises:
            RequestError: naming the flag.
        """

    def relation(self, config: C) -> "guarantee.NeighboringRelation":  # noqa: ARG002 (for methods that need it)
        """Under which relation its plan is accounted."""
        return guarantee.ADD_OR_REMOVE_ONE

    def use_of_public(self, config: C) -> Literal["none", "optional", "required"]:  # noqa: ARG002 (for methods that need it)
        """Whether these settings have a use for public records. A start takes their place."""
        return "optional" if self.takes_public else "none"

    def check_public(self, config: C, card: DataCard, count: int) -> None:
        """Refuse so many public records, before any budget is used.

        Raises:
            RequestError: saying how many are needed.
        """

    @classmethod
    def labels_public(cls, settings: Mapping[str, Any]) -> bool:  # noqa: ARG003 (for methods that need it)
        """Whether the samples of a release with these settings are the public records of the run, with labels of its own."""
        return False

    @classmethod
    def releases_public(cls, settings: Mapping[str, Any]) -> str:
        """How a release with these settings has the public records of the run in it; empty: it has none of them.

        The certificate says so, in these words, after "The release contains these pictures as they are, and".
        """
        return "its samples are these pictures with other labels" if cls.labels_public(settings) else ""

    def bounds_units(self, card: DataCard) -> str:  # noqa: ARG002 (for methods that need it)
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

    def outlook(self, config: C, card: Any) -> Sequence[str]:  # noqa: ARG002 (for methods that need it)
        """What the noise leaves of such records, as far as the card alone tells it: sentences for `gossamer recommend`."""
        return ()

    def sample(self, net: "nn.Module", draw: Draw[C]) -> "tuple[Tensor, Tensor]":
        """Images [n, C, H, W] in [0, 1] and their labels [n]: one call of the net. Overridden where a sampler iterates.

        A method for tables gives codes int64 [n, columns] in place of images. net: the released generator, of latents
        [n, latent_size] and labels [n].
        """
        latents = torch.randn(draw.n, int(net.latent_size), generator=draw.stream)  # type: ignore[arg-type]  # every such net states it
        drawn = data_card.draw_labels(draw.n, draw.card, draw.stream)
        labels = draw.labels
        if labels is None:
            labels = drawn if int(net.classes) > 1 else torch.zeros_like(drawn)  # type: ignore[arg-type]  # every such net states it
        with torch.no_grad():
            return net(latents, labels), labels

    def chunks(self, net: "nn.Module", draw: Draw[C], sizes: Sequence[int]) -> "Iterator[tuple[Tensor, ...]]":
        """Samples in chunks of these sizes, each as `sample` gives it. Overridden where all of them are chosen together.

        A method that knows how likely each class is adds the probabilities, float32 [n, classes], to images and labels.
        """
        at = 0
        for size in sizes:
            wanted = None if draw.labels is None else draw.labels[at : at + size]
            yield self.sample(net, dataclasses.replace(draw, n=size, labels=wanted))
            at += size


AnyMethod: TypeAlias = Method[Any, Any]


def presets_of(method: AnyMethod) -> dict[str, dict[str, Any]]:
    """Named settings, from `presets.toml` in the folder of a method: {name: {"about": ..., settings ...}}."""
    package = getattr(sys.modules.get(type(method).__module__), "__package__", "")
    if not package:  # a file of its own, or a notebook: it has no folder
        return {}
    file = resources.files(package).joinpath("presets.toml")
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
