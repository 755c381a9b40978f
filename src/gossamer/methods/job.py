"""A method with its settings and a card (`Job`), and a run of it in memory (`Training`). No PyTorch is loaded here.

The file is long because the phases of a job and the way through them must agree.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar, cast, get_args, get_type_hints

from gossamer import plugins
from gossamer.errors import CardError, GossamerError, RequestError
from gossamer.lazy import Lazy, torch
from gossamer.methods.common import method_start
from gossamer.methods.contract import (
    FROM_EPSILON,
    AnyMethod,
    BaseConfig,
    BelowOne,
    Draw,
    Logs,
    Method,
    OnPrivate,
    OnPublic,
    OnReleased,
    Phase,
    Query,
    Records,
    Run,
    Share,
    State,
    fault,
    refuse_unknown,
)
from gossamer.methods.registry import METHODS
from gossamer.privacy.distributed import ALONE, Ranks

if TYPE_CHECKING:
    from torch import Tensor, nn

    from gossamer.privacy import confined, guarantee
    from gossamer.privacy.random.noise import Rng
else:
    confined = Lazy("gossamer.privacy.confined")
    guarantee = Lazy("gossamer.privacy.guarantee")

C_co = TypeVar("C_co", bound=BaseConfig, covariant=True)
S_co = TypeVar("S_co", bound=State, covariant=True)


def refuse_other_kind(method: AnyMethod, card: Any) -> None:
    """Refuse a card of what the method does not take. Raises CardError."""
    if not card.suits(method):
        raise CardError(
            f"{method.name} does not take {card.in_words}, which the card describes. Choose a method that does, such as "
            f"{', '.join(METHODS.taking(card.kind))}, or another card."
        )


@dataclass(frozen=True)
class Job(Generic[C_co, S_co]):
    """A method with its settings and the card: all that is asked for before a record is read, and where training begins.

    Its settings are complete: a noise multiplier that was left open has been computed.

    Raises:
        CardError: if the card describes what the method does not take.
        RequestError: if the noise multiplier is missing.
    """

    method: Method[C_co, S_co]
    config: C_co
    card: Any
    """A DataCard, or a TableCard where the method takes tables."""

    def __post_init__(self) -> None:
        refuse_other_kind(self.method, self.card)
        if getattr(self.config, "noise_multiplier", 0.0) is FROM_EPSILON:
            raise RequestError(
                f"{self.method.name} has no noise_multiplier yet: give it, or let `plan` compute it from epsilon."
            )

    @classmethod
    def of(cls, method: Method[C_co, S_co], settings: Mapping[str, Any], card: Any) -> "Job[C_co, S_co]":
        """The method with these settings, for records that the card describes. Raises RequestError: no such setting."""
        refuse_unknown(settings, method.config_type, method.name)
        return Job(method, method.config_type(**settings), card)

    @property
    def settings(self) -> dict[str, Any]:
        """The same as JSON."""
        return dataclasses.asdict(self.config)

    @property
    def plan(self) -> "guarantee.Plan":
        """What a run may release, over all phases. Pure: reads no record.

        Raises:
            RequestError: if the settings contradict each other.
        """
        self.check()
        phases = self.phases
        if problem := _problem_of(phases):
            raise fault(f"{self.method.name} has phases that cannot be run: {problem}")
        return [cost for phase in phases for cost in phase.plan]

    @property
    def queries(self) -> list[Query]:
        """All noisy queries of a run, in order."""
        return [query for phase in self.phases for query in phase.queries]

    @property
    def phases(self) -> Sequence[Phase[C_co, S_co]]:
        """All phases of a run that has public records: those of a start, the drawing of its samples, and its own."""
        own = self.method.phases(self.config, self.card)
        first = self.first
        return own if first is None else method_start.staged(own, first, cast("Any", self.config))

    @property
    def relation(self) -> "guarantee.NeighboringRelation":
        """See `Method.relation`. Raises RequestError: there is no such relation."""
        relation = self.method.relation(self.config)
        if relation not in guarantee.RELATION_NAMES:
            known = ", ".join(guarantee.RELATION_NAMES.values())
            raise fault(
                f"{self.method.name} is accounted for under the relation {relation!r}, and not under one of {known}"
            )
        return relation

    @property
    def needs_public(self) -> bool:
        """Whether the run is impossible without public records."""
        return self._using_public.method.use_of_public(self._using_public.config) == "required"

    @property
    def takes_public(self) -> bool:
        """Whether public records are of any use: to the start, or where there is none."""
        return self._using_public.method.use_of_public(self._using_public.config) != "none"

    def check_public(self, count: int) -> None:
        """Refuse so many public records. Raises RequestError: saying how many are needed."""
        using = self._using_public
        using.method.check_public(using.config, using.card, count)

    @property
    def _using_public(self) -> "Job[Any, Any]":
        """What public records go to: the start, or the method where there is none."""
        return self.first or self

    @property
    def draws(self) -> str:
        """What a program draws as the first pictures of the run or of its start; empty: nothing."""
        if "drawing" in self.settings and self.method.use_of_public(self.config) != "required":
            return str(self.settings["drawing"])
        return "" if self.first is None else self.first.draws

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
        return [job._own_facts() for job in self.jobs]

    def _own_facts(self) -> dict[str, Any]:
        name, own_input = self.method.name, dict(self.method.own_input(self.config))
        facts = {"name": name, "releases_public": self.releases_public}
        facts["bounds_units"] = self.method.bounds_units(self.card)
        if own_input and set(own_input) != {"what", "tuned"}:
            raise fault(f"own_input of {name} needs `what` and `tuned`")
        for fact, text in {**facts, **own_input}.items():
            if not isinstance(text, str) or text != plugins.one_line(text):
                raise fault(f"{fact} of {name} is not one line of text")
        return {**facts, "own_input": own_input}

    @property
    def pretrained(self) -> "list[tuple[plugins.PluginKind, str]]":
        """Kind and name of each encoder, autoencoder and generator that the settings name, those of a start included."""
        return [named for job in self.jobs for named in job.own_pretrained]

    @property
    def own_pretrained(self) -> "list[tuple[plugins.PluginKind, str]]":
        """Those without which the generator of the run cannot be made."""
        hints = get_type_hints(type(self.config), include_extras=True)
        kinds: tuple[plugins.PluginKind, ...] = ("encoder", "autoencoder", "generator")
        return [
            (kind, str(self.settings[name]))
            for name, hint in hints.items()
            for kind in kinds
            if hint == Annotated[str, kind] and self.settings[name]
        ]

    def check(self) -> None:
        """Refuse a number beyond its limit; see `Method.check`. The same of a start. Raises RequestError."""
        for name, hint in get_type_hints(type(self.config), include_extras=True).items():
            value = getattr(self.config, name)
            if (hint == Share and value > 1) or (hint == BelowOne and value >= 1):
                raise RequestError(f"`{name}` {get_args(hint)[1]}, not {value:g}.")
        self.method.check(self.config, self.card)
        if (first := self.first) is not None:
            first.check()
            if first.settings.get("own_label", 1.0) != 1:
                raise RequestError(
                    "`start`: own_label gives soft labels, which a start has no use for. Leave own_label out."
                )
            if first.relation != self.relation:
                raise RequestError(
                    f"`start={first.method.name}` protects under another relation than {self.method.name} with these settings: "
                    "take no start."
                )

    @property
    def first(self) -> "Job[BaseConfig, State] | None":
        """What makes the pictures that a run starts on; None: there is no start.

        Raises:
            RequestError: if there is no such method or setting.
        """
        named = method_start.named(self.config)
        return None if named is None else Job.of(*named, self.card)

    @property
    def jobs(self) -> "list[Job[Any, Any]]":
        """This one, and after it that of a start."""
        return [self] if self.first is None else [self, self.first]

    def generator(self) -> "nn.Module":
        """The network that a run releases, see `Method.net`. Settings that contradict each other are refused first."""
        self.check()
        if self.first is not None:
            self.first.generator()  # refused now, and not when a budget is used up
        return self.method.net(self.config, self.card)

    def sample(
        self, net: "nn.Module", n: int, labels: "Tensor | None", stream: "torch.Generator"
    ) -> "tuple[Tensor, Tensor]":
        """See `Method.sample`. Raises GossamerError: what the method has drawn are no samples of this shape and number."""
        return self._proper(self.method.sample(net, Draw(self.config, self.card, n, labels, stream)), n)

    def chunks(
        self, net: "nn.Module", sizes: Sequence[int], labels: "Tensor | None", stream: "torch.Generator"
    ) -> "Iterator[tuple[Tensor, Tensor, Tensor | None]]":
        """See `Method.chunks`: images, labels, and probabilities or None. Raises GossamerError as `sample`."""
        drawn = self.method.chunks(net, Draw(self.config, self.card, sum(sizes), labels, stream), sizes)
        for size, chunk in zip(sizes, drawn, strict=True):
            pair, more = (chunk[:2], chunk[2:]) if isinstance(chunk, tuple) else (chunk, ())
            images, given = self._proper(pair, size)
            yield images, given, more[0] if more else None

    def _proper(self, pair: object, n: int) -> "tuple[Tensor, Tensor]":
        """What a method has drawn, if these are n samples of the card. Raises GossamerError: they are not."""
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(part, torch.Tensor) for part in pair):
            raise fault(f"{self.method.name} draws no pair of tensors", GossamerError)
        images, drawn = pair
        if wrong := self.card.problem_of_samples(images, drawn, n):
            raise fault(f"{self.method.name} draws no proper samples: {wrong}", GossamerError)
        return images, drawn

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
            if self.method.ranks_take == "all records" and self.first is not None:
                raise RequestError(
                    f"{self.method.name} takes no start on several ranks: each has all records, which a start would count "
                    f"{ranks.count} times. Train it in one process, or give it public records in place of the start."
                )
        return Training(self, Run(self.config, self.card, rng, device, ranks=ranks))


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
    queries = [query for stage in stages for query in stage.queries]
    if not all(isinstance(query, Query) and isinstance(query.times, int) for query in queries):
        return "the queries of one are no list of Query"
    if any(stage.releases and not isinstance(stage, OnPrivate) for stage in stages):
        return "one that has no private records plans queries to them"
    return "a query is planned a negative number of times" if any(query.times < 0 for query in queries) else ""


@dataclass(frozen=True)
class StepResult:
    """Where a run is: the steps of a phase that are done, and what the last one may show. `logs` is None as the phase ends."""

    phase: Phase[Any, Any]
    step: int
    logs: "Logs | None"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) or (isinstance(value, torch.Tensor) and value.numel() == 1)


class Training(Generic[C_co, S_co]):
    """A run in memory: the method's state, and the way through its phases. `state` is everything that it goes on from."""

    def __init__(self, job: Job[C_co, S_co], run: Run[C_co]) -> None:
        self.job, self.run = job, run
        self.state = job.method.start(run)
        if (first := job.first) is not None:
            self.state.begun = method_start.StartState.of(first.begin(run.rng, run.device).state, run.card.shape)

    @property
    def trained(self) -> bool:
        """See `Job.trained`."""
        return self.job.trained({"phase": self.state.phase, "step": self.state.step})

    def drive(self, private: "confined.Confined[Records]", public: Records | None = None) -> Iterator[StepResult]:
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
        self, phase: Phase[C_co, S_co], private: "confined.Confined[Records]", public: Records | None
    ) -> Iterator[Logs]:
        seen = [private] if isinstance(phase, OnPrivate) else [public] if isinstance(phase, OnPublic) else []
        run = dataclasses.replace(self.run, public=public, queries=phase.queries)
        return phase.body(run, self.state, *seen)


def plugins_of(job: "Job[Any, Any]") -> list[tuple[plugins.PluginKind, str]]:
    """Kind and name of each plug-in of a run: methods, then encoders, autoencoders and generators."""
    names: list[str] = [each.method.name for each in job.jobs]
    own: list[tuple[plugins.PluginKind, str]] = [("method", name) for name in names if METHODS.is_plugin(name)]
    return list(dict.fromkeys([*own, *job.pretrained]))


def try_out(job: "Job[Any, Any]", state: State) -> None:
    """Refuse a plug-in whose run could not be finished, before its budget is used. Reads no record.

    Args:
        job: the run.
        state: its state at the start.

    Raises:
        RequestError: naming what is wrong.
    """
    what = f"The plug-in {job.method.name!r}"
    if not isinstance(state, State):
        raise RequestError(
            f"{what} starts with a {type(state).__name__} and not with a gossamer.methods.contract.State."
        )
    net, fresh = state.released, job.generator()
    for network in (net, fresh):
        if not isinstance(network, torch.nn.Module) or not isinstance(getattr(network, "classes", None), int):
            raise RequestError(
                f"{what} has a generator that is no torch.nn.Module with an attribute `classes`, a number."
            )
    shapes = [{key: value.shape for key, value in each.state_dict().items()} for each in (net, fresh)]
    if shapes[0] != shapes[1]:
        raise RequestError(f"{what} releases other tensors than its `generator` makes, so a release could not be read.")
    state.state_dict()
    job.sample(net, 2, None, torch.Generator())
