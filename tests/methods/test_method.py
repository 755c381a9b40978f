"""The contract itself: how a run goes through its phases, what a state keeps, and what can be asked without PyTorch."""

import copy
import dataclasses
import io
import itertools
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gossamer.data.card import DataCard
from gossamer.data.columns.column import Column
from gossamer.data.records import Records
from gossamer.data.tables.card import TableCard
from gossamer.errors import CardError, GossamerError, RequestError
from gossamer.methods import METHODS
from gossamer.methods.common.learners import InTraining, Learner, adam
from gossamer.methods.contract import (
    BaseConfig,
    Logs,
    Method,
    OnPrivate,
    OnPublic,
    Phase,
    Query,
    Run,
    State,
    StatefulDataclass,
)
from gossamer.methods.job import Job, StepResult, Training
from gossamer.nets.initialised import initialised_by
from gossamer.privacy.accounting.events import poisson_gaussian
from gossamer.privacy.confined import Confined
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng

CARD = DataCard(shape=(1, 2, 2), classes=1, declared_size=100)
RELEASE = poisson_gaussian(sampling_rate=0.1, noise_multiplier=1.0)


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    """Lengths of the phases."""

    sketches: int = 3
    counts: int = 4
    second_looks: int = 2
    polishes: int = 2


@dataclass
class Diary(State):
    """Writes down what the bodies do."""

    page: nn.Module
    lines: list[str] = field(default_factory=list)

    @property
    def released(self) -> nn.Module:
        return self.page


class ToyLoop:
    """What stands in a `loop.py`."""

    def generator(self, config: Config, card: DataCard) -> nn.Module:
        return nn.Identity()

    def start(self, run: Run[Config]) -> Diary:
        return Diary(self.generator(run.config, run.card))

    def train(self, run: Run[Config], state: Diary, private: object) -> Any:
        raise AssertionError("the toy's phases have bodies of their own")


def query(times: int) -> Query:
    """One whose mechanism is known by its event alone."""
    return Query("sums", SimpleNamespace(event=RELEASE), times)


class Toy(Method[Config, Diary]):
    """Phases on public and on private records by turns; the last has nothing after its last yield."""

    name = "toy"
    title = "Toy"
    config_type = Config
    loop = ToyLoop()

    def queries(self, config: Config, card: DataCard) -> list[Query]:
        return []

    def phases(self, config: Config, card: DataCard) -> Any:
        return [
            OnPublic(name="sketch", steps=config.sketches, body=body("sketch", config.sketches)),
            OnPrivate(
                name="count", steps=config.counts, queries=[query(config.counts)], body=body("count", config.counts)
            ),
            OnPublic(name="second look", steps=config.second_looks, body=body("second look", config.second_looks)),
            OnPrivate(name="polish", steps=config.polishes, queries=[query(7)], body=polish),
        ]

    def check(self, config: Config, card: DataCard) -> None:
        if config.sketches > config.counts:
            raise RequestError("`sketches` must not be above `counts`.")


def body(name: str, steps: int) -> Any:
    """So many yields, and a last line. It holds the driver to what it says of the state."""

    def run_body(run: Run[Config], state: Diary, records: object) -> Iterator[Logs]:
        assert isinstance(records, Confined) == (name == "count")
        for done in range(state.step, steps):
            assert (state.phase, state.step) == (name, done)
            state.lines.append(f"{name} {done + 1}")
            yield {"number": done + 1.0}
        state.lines.append(f"{name} ends")

    return run_body


def polish(run: Run[Config], state: Diary, private: Confined[Records]) -> Iterator[Logs]:
    for done in range(state.step, run.config.polishes):
        state.lines.append(f"polish {done + 1}")
        yield {}


PUBLIC = Records(np.zeros((2, 1, 2, 2), np.uint8), np.zeros(2, np.int64))
LINES = {
    "sketch": ["sketch 1", "sketch 2", "sketch 3", "sketch ends"],
    "count": ["count 1", "count 2", "count 3", "count 4", "count ends"],
    "second look": ["second look 1", "second look 2", "second look ends"],
    "polish": ["polish 1", "polish 2"],
}
"""What a whole run writes, phase by phase: one line for each yield, in a phase that is not the last one more at its end."""
WITH_PUBLIC = pytest.mark.parametrize("public", [PUBLIC, None], ids=["with public records", "without"])


def begin() -> Training[Config, Diary]:
    return Job.of(Toy(), {}, CARD).begin(Rng(0))


def drive(training: Training[Config, Diary], public: Records | None) -> Iterator[StepResult]:
    return training.drive(Confined(PUBLIC, PrivacyLedger(budget=math.inf, delta=1e-5), training.run.rng), public)


def brief(reached: StepResult) -> tuple[str, int, dict[str, Any] | None]:
    return reached.phase.name, reached.step, None if reached.logs is None else dict(reached.logs)


def names(public: Records | None) -> list[str]:
    return list(LINES) if public is not None else ["count", "polish"]


# ---------------------------------------------------------------------- the way through the phases


@WITH_PUBLIC
def test_phases_go_in_their_order_and_those_on_public_records_only_where_there_are_some(public: Records | None) -> None:
    training = begin()
    found = [(brief(reached), training.state.phase, training.state.step) for reached in drive(training, public)]
    expected: list[Any] = []
    going = names(public)
    for name, following in zip(going, [*going[1:], ""], strict=True):
        steps = len(LINES[name]) - (name != "polish")
        for step in range(1, steps + 1):
            expected.append(((name, step, {} if name == "polish" else {"number": step}), name, step))
        after = (following, 0) if following else (name, steps)
        expected.append(((name, steps, None), *after))
    assert found == expected
    assert training.state.lines == [line for name in going for line in LINES[name]]


@WITH_PUBLIC
def test_a_run_goes_on_from_every_point_and_the_end_of_a_phase_is_gone_through_once(public: Records | None) -> None:
    """A checkpoint may be written wherever the driver yields; from there the rest is what an unbroken run does."""
    whole = begin()
    reached = [brief(each) for each in drive(whole, public)]
    for at in range(1, len(reached) + 1):
        first = begin()
        for _ in itertools.islice(drive(first, public), at):
            pass
        second = begin()
        second.state.load_state_dict(copy.deepcopy(first.state.state_dict()))
        rest = [brief(each) for each in drive(second, public)]
        assert rest == (reached[at:] or reached[-1:]), f"after {at}: a finished run says again that it has ended"
        assert second.state.lines == whole.state.lines, f"after {at}"
        assert (second.state.phase, second.state.step) == ("polish", 2)


def test_a_phase_of_no_steps_still_ends() -> None:
    training = Job.of(Toy(), {"sketches": 0}, CARD).begin(Rng(0))
    assert brief(next(drive(training, PUBLIC))) == ("sketch", 0, None)
    assert training.state.lines == ["sketch ends"]
    assert (training.state.phase, training.state.step) == ("count", 0)


@WITH_PUBLIC
def test_trained_means_a_step_of_the_last_phase(public: Records | None) -> None:
    training = begin()
    assert not training.trained
    for reached in drive(training, public):
        assert training.trained == (reached.phase.name == "polish")
        assert training.trained == Job.of(Toy(), {}, CARD).trained(training.state.state_dict())
    assert training.trained


def test_two_trainings_of_a_job_share_nothing() -> None:
    job = Job.of(Toy(), {}, CARD)
    one, other = job.begin(Rng(0)), job.begin(Rng(0))
    next(drive(one, PUBLIC))
    assert (one.state.lines, other.state.lines) == (["sketch 1"], [])


# ---------------------------------------------------------------------- which events are kept


@pytest.mark.parametrize("steps", [1, 7, 39, 40, 41, 399, 400, 401, 799, 800, 1_000, 4_000, 123_456])
@pytest.mark.parametrize("releases", [True, False])
def test_about_400_events_of_a_phase_that_releases_are_kept_and_40_of_another(steps: int, releases: bool) -> None:
    phase: Phase[Any, Any] = Phase(name="any", steps=steps, queries=[query(steps)] if releases else (), body=iter)
    most = 400 if releases else 40
    kept = [step for step in range(1, steps + 1) if phase.worth_keeping(step)]
    every = max(1, steps // most)
    regular = list(range(every, steps + 1, every))
    assert kept == (sorted({1, *regular}) if releases else regular)
    assert len(kept) == steps if steps <= most else most <= len(kept) <= 2 * most
    assert phase.releases == releases


# ---------------------------------------------------------------------- what a state keeps


@dataclass
class Small(StatefulDataclass):
    """A part with a part of its own."""

    layer: nn.Linear
    count: int


@dataclass
class Group(StatefulDataclass):
    """A part with a list of parts."""

    members: list[Small]
    best: float | None
    rows: list[list[Small | None]]


@dataclass
class Whole(StatefulDataclass):
    """One field of each sort that a state has."""

    learner: Learner[nn.Linear]
    generator: InTraining[nn.Linear]
    module: nn.Module
    optimiser: torch.optim.Optimizer
    part: Small
    groups: list[Group]
    absent: Small | None
    present: Small | None
    empty: list[Small]
    number: int
    share: float | None
    word: str
    figures: dict[str, float]
    norms: list[float]
    tensor: torch.Tensor

    @classmethod
    def fresh(cls, seed: int) -> "Whole":
        stream = torch.Generator().manual_seed(seed)

        def linear() -> nn.Linear:
            with initialised_by(stream):
                return nn.Linear(2, 1)

        def group(size: int) -> Group:
            members = [Small(linear(), seed + i) for i in range(size)]
            return Group(members, seed / 7 if seed else None, [[None, Small(linear(), seed)], []])

        rate = adam(0.1, (0.5, 0.9))
        module, generator = linear(), InTraining(linear(), rate, 0.6)
        generator.average.follow()
        return cls(
            learner=Learner(linear(), rate),
            generator=generator,
            module=module,
            optimiser=rate(list(module.parameters())),
            part=Small(linear(), 3 * seed),
            groups=[group(2), group(1)],
            absent=None,
            present=Small(linear(), seed),
            empty=[],
            number=seed,
            share=0.25 if seed else None,
            word=f"seed {seed}",
            figures={"loss": float(seed)},
            norms=[1.0] * (seed + 1),
            tensor=torch.full((2,), float(seed)),
        )

    def learn(self) -> None:
        """A step of everything that has an optimiser, the same one wherever the weights and moments are the same."""
        x = torch.ones(1, 2)
        for _ in range(2):
            self.learner.step(torch.linspace(-1, 1, 3))
            self.generator.descend(self.generator.net(x).sum())
            self.generator.average.follow()
            self.optimiser.zero_grad()
            self.module(x).square().sum().backward()
            self.optimiser.step()


def parts_of(whole: Whole) -> list[Any]:
    """The objects that must stay what they are: others hold them too, as an optimiser does the parameters."""
    inner = [each for group in whole.groups for each in [*group.members, group.rows[0][1]] if each is not None]
    parts = [
        whole.learner,
        whole.generator,
        whole.module,
        whole.optimiser,
        whole.part,
        whole.present,
        *whole.groups,
        *inner,
    ]
    return [*parts, whole.part.layer, whole.learner.vector, *(each.layer for each in inner)]


def flat(saved: Any) -> list[Any]:
    """All that a state holds, in order."""
    if isinstance(saved, dict):
        return [each for name in saved for each in (name, *flat(saved[name]))]
    if isinstance(saved, list | tuple):
        return [each for part in saved for each in flat(part)]
    return [saved.tolist() if isinstance(saved, torch.Tensor) else saved]


def test_a_state_comes_back_as_it_was_and_goes_on_as_if_it_had_not_stopped() -> None:
    """Through the format of a checkpoint, into another state, whose parts stay the objects that they are."""
    one, other = Whole.fresh(0), Whole.fresh(5)
    one.learn()
    alike = [name for name, value in one.state_dict().items() if flat(value) == flat(other.state_dict()[name])]
    assert alike == ["absent", "empty"], "what is to come back is not there already"
    parts = parts_of(other)
    file = io.BytesIO()
    torch.save(one.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert flat(other.state_dict()) == flat(one.state_dict())
    assert all(mine is theirs for mine, theirs in zip(parts_of(other), parts, strict=True))
    assert (other.share, other.groups[0].best, other.absent, other.norms, other.word) == (
        None,
        None,
        None,
        [1.0],
        "seed 0",
    )
    one.learn()
    assert flat(other.state_dict()) != flat(one.state_dict())
    other.learn()
    assert flat(other.state_dict()) == flat(one.state_dict())


def test_every_field_is_saved() -> None:
    assert list(Whole.fresh(0).state_dict()) == [each.name for each in dataclasses.fields(Whole)]
    assert list(begin().state.state_dict()) == ["phase", "step", "begun", "page", "lines"]


def test_another_number_of_parts_is_refused() -> None:
    one, other = Whole.fresh(0), Whole.fresh(0)
    other.groups.pop()
    with pytest.raises(ValueError, match="zip"):
        other.load_state_dict(one.state_dict())


@dataclass
class Holder(StatefulDataclass):
    """A state that holds something that has seen records."""

    inside: Confined[Small] | Path | None
    number: int


def test_what_is_confined_stays_so_and_comes_back_as_the_path_of_a_sealed_file(tmp_path: Path) -> None:
    """The checkpoint gets the `Confined` value itself, not what is in it, and `load_state_dict` opens nothing."""
    inside = Confined(Small(nn.Linear(2, 1), 4), PrivacyLedger(budget=math.inf, delta=1e-5), Rng())
    saved = Holder(inside, 1).state_dict()
    assert saved["inside"] is inside
    for held in (None, inside):
        other = Holder(held, 2)
        other.load_state_dict({"inside": tmp_path / "inside.sealed", "number": 1})
        assert (other.inside, other.number) == (tmp_path / "inside.sealed", 1)


# ---------------------------------------------------------------------- what is asked before a run


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"sketchs": 3},
            "toy has no setting 'sketchs'. Did you mean 'sketches'\\? Known: sketches, counts, second_looks, ",
        ),
        ({"counts": 5, "poolishes": 1}, "toy has no setting 'poolishes'. Did you mean 'polishes'\\?"),
        ({"zzz": 1}, "toy has no setting 'zzz'. Known: "),
        ({"phase": "count"}, "toy has no setting 'phase'. "),
    ],
)
def test_an_unknown_setting_is_refused_with_the_nearest_name(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(RequestError, match=says):
        Job.of(Toy(), settings, CARD)


def test_a_job_says_what_its_method_does() -> None:
    job = Job.of(Toy(), {"counts": 9}, CARD)
    assert job.settings == {"sketches": 3, "counts": 9, "second_looks": 2, "polishes": 2}
    assert (job.config, job.card, job.method.name) == (Config(counts=9), CARD, "toy")
    assert job.plan == [(RELEASE, 9), (RELEASE, 7)], "of all phases"
    assert [phase.name for phase in job.phases] == list(LINES)
    assert (job.relation, job.needs_public, job.method.explain(job.config)) == (ADD_OR_REMOVE_ONE, False, "")
    assert job.begin(Rng(0)).state.scores(PUBLIC) is None


def test_a_plan_is_made_of_settings_that_were_checked() -> None:
    with pytest.raises(RequestError, match="`sketches` must not be above `counts`"):
        _ = Job.of(Toy(), {"sketches": 9}, CARD).plan


def test_a_phase_that_declares_no_such_query_gives_no_other() -> None:
    asked = Run(Config(), CARD, Rng(0), queries=[query(1)])
    assert asked.query("sums").event == RELEASE
    with pytest.raises(GossamerError, match="declares no query 'votes'"):
        asked.query("votes")


def test_a_job_takes_no_card_of_the_other_kind() -> None:
    table = TableCard(columns=(Column(name="age", kind="integer", bounds=(0, 99)),), declared_size=100)
    with pytest.raises(CardError, match="toy does not take a table, which the card describes"):
        Job(Toy(), Config(), table)


def test_no_pytorch_is_loaded_for_plans_relations_and_presets() -> None:
    """Nor is what certifies them: help texts and checks of certificates need not wait for it."""
    code = """
import dataclasses, sys
from gossamer.data.card import DataCard
from gossamer.data.tables.card import TableCard
from gossamer.data.columns.column import Column
from gossamer.methods import METHODS
from gossamer.methods.contract import presets_of
from gossamer.methods.job import Job
pictures = DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)
table = TableCard(columns=(Column(name="age", kind="integer", bounds=(0, 99)),), declared_size=60_000)
for name, method in METHODS.items():
    assert method.name == name and method.title and method.__doc__
    fields = [each.name for each in dataclasses.fields(method.config_type)]
    card = table if method.takes == "table" else pictures
    job = Job.of(method, {"noise_multiplier": 4.0} if "noise_multiplier" in fields else {}, card)
    assert job.plan and job.phases and job.relation and job.settings
    job.needs_public, method.explain(job.config), presets_of(method)
    print(name)
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [*METHODS, "False"]


LABELLED = "its samples are these pictures with other labels"
DETAIL = "each sample has the fine detail of one of them"


@pytest.mark.parametrize(
    ("name", "settings", "contains", "program"),
    [
        ("dpgan", {}, "", ""),
        ("moments", {}, "", ""),
        ("feature-moments", {"encoder": "any"}, LABELLED, ""),
        ("moments", {"public_detail": True}, DETAIL, ""),
        ("teacher", {}, LABELLED, "digits and letters"),
        ("evolve", {"drawing": "letters"}, LABELLED, "with the setting drawing = letters"),
        ("evolve", {"drawing": "pictures"}, LABELLED, ""),
        ("evolve", {"generator": "any"}, LABELLED, ""),
    ],
)
def test_a_method_says_what_its_release_contains_and_what_it_brings(
    name: str, settings: dict[str, Any], contains: str, program: str
) -> None:
    """Of public records where there are some. The certificate has these words."""
    (own,) = Job.of(METHODS[name], {"noise_multiplier": 1.0, **settings}, CARD).facts
    assert (own["name"], own["releases_public"]) == (name, contains)
    assert own["bounds_units"] == "they are sampled together, and their joint contribution to a query is bounded"
    assert own["own_input"].get("what", "").endswith(program)
    assert bool(own["own_input"]) == bool(program)


def test_a_run_with_a_start_says_both() -> None:
    start = {"start": {"method": "evolve", "drawing": "letters"}}
    own, first = Job.of(METHODS["dp-diffusion"], {"noise_multiplier": 1.0, **start}, CARD).facts
    assert (own["name"], own["releases_public"], own["own_input"]) == ("dp-diffusion", "", {})
    assert first["name"] == "evolve"
    assert first["own_input"]["what"].endswith(
        "drawing program of this version of Gossamer, with the setting drawing = letters"
    )
    (critics,) = Job.of(METHODS["gs-wgan"], {"noise_multiplier": 1.0}, CARD).facts
    assert critics["bounds_units"].startswith("they all go to one critic, which is sampled as a whole")
