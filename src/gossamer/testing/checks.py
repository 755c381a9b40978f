"""What every method must do, whatever its mathematics: questions about one method, each an assertion. No pytest is needed.

A question that does not concern a method raises `unittest.SkipTest`, which pytest and unittest show as skipped.
"""

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any
from unittest import SkipTest, TestCase

import numpy as np
import torch
from dp_accounting import PoissonSampledDpEvent
from safetensors.torch import load

from gossamer.data.fingerprint import SALT, made_public
from gossamer.kinds.toys import extremes, garbage, shows_stripes, stripes
from gossamer.methods.contract import OnPublic
from gossamer.methods.job import Job
from gossamer.methods.synthesizer import model_bytes
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.per_sample_gradients import mixing
from gossamer.privacy.random.answers import Answers
from gossamer.privacy.random.noise import Rng
from gossamer.run.cli.options import documentation
from gossamer.run.release.replay import repeated
from gossamer.run.storage.data_sources import split_public
from gossamer.testing.neighbours import moves_of
from gossamer.testing.trial_run import N, Subject, TrialRun, deaf, public_of

ROUNDING = 1e-4
"""By how much a move may exceed its bound: sums in single precision are rounded."""


def finished_run(subject: Subject) -> TrialRun:
    """A run with fresh noise at its end, for the checks that only look at it."""
    run = TrialRun(subject)
    run.rng.answers = Answers()
    with TestCase().assertNoLogs(mixing.__name__):  # a loss that could not be asked about made-up records
        run.end()
    return run


def says_infinity(ledger: PrivacyLedger, reason: str) -> None:
    """The guarantee is infinity for the reason given, and by the plan alone, should the reason get lost."""
    assert ledger.reasons == [reason]
    assert ledger.promise().epsilon == ledger.spent().epsilon == float("inf")
    ledger.reasons.clear()
    assert ledger.promise().epsilon == float("inf")


def says_what_it_promises(subject: Subject) -> None:
    """The method has a docstring of its own, with its guarantee, and a help text for each setting."""
    method = subject.method
    assert type(method).__doc__, "the docstring of a method is its help"
    documented = documentation(method.config_type)
    assert [field.name for field in dataclasses.fields(method.config_type) if not documented.get(field.name)] == []


def spends_its_plan(finished: TrialRun) -> None:
    """A finished run has made each query as often as planned, and promises a finite epsilon."""
    plan, ledger = finished.plan, finished.ledger
    if reason := finished.job.method.without_guarantee:
        says_infinity(ledger, reason)
        return
    assert list(zip([event for event, _ in plan], ledger.used, strict=True)) == list(plan)
    assert ledger.promise().epsilon < float("inf")


def non_private_run_says_infinity(subject: Subject) -> None:
    """Without noise the guarantee is infinity."""
    if subject.method.without_guarantee:
        raise SkipTest("it has no private form")
    run = TrialRun(subject, settings={**subject.small, "noise_multiplier": 0.0})
    run.end()
    assert run.ledger.promise().epsilon == float("inf")


def plan_is_pure(subject: Subject) -> None:
    """The declared size decides the rate wherever records are Poisson-sampled, and nothing else."""
    plan = Job.of(subject.method, subject.small, subject.card).plan
    assert plan == Job.of(subject.method, subject.small, subject.card).plan
    twice = dataclasses.replace(subject.card, declared_size=2 * subject.card.declared_size)
    larger = Job.of(subject.method, subject.small, twice).plan
    assert (plan != larger) == (PoissonSampledDpEvent.__name__ in repr(plan))


def non_interference(subject: Subject, *, warm: bool) -> None:
    """Unrelated data of another size, same seeds, deaf mechanisms: artefact and events are equal bit for bit.

    A method without a guarantee has no mechanism: it must say infinity before it reads a record.

    Args:
        subject: the method.
        warm: with public records.
    """
    if reason := subject.method.without_guarantee:
        for held in ("no records", object()):
            run = TrialRun(subject, held, rng=Rng(3))  # nothing that could be read
            try:
                next(run.steps())
            except AttributeError:
                pass
            else:
                raise AssertionError("it has trained without records")
            says_infinity(run.ledger, reason)
        return
    with deaf():
        first, second = _on_other_records(subject, 260, public=public_of(subject) if warm else None)
    assert first.model == second.model
    assert first.events == second.events
    gone_through = [phase for phase in first.job.phases if first.public is not None or not isinstance(phase, OnPublic)]
    assert len(first.events) == sum(phase.steps + 1 for phase in gone_through)


def _on_other_records(subject: Subject, n: int, public: Any = None) -> list[TrialRun]:
    """Finished runs with the same seeds, on `stripes` and on so many records of garbage."""
    runs = [
        TrialRun(subject, records, rng=Rng(3, noise_seed=4), public=public)
        for records in (None, garbage(n, card=subject.card))
    ]
    for run in runs:
        run.end()
    return runs


def removing_a_protected_record_changes_nothing_public(subject: Subject, *, share: float | None) -> None:
    """No public record and no public draw depends on one protected record.

    Noise and random choices are secret and fresh here: what is public must agree all the same. The public part is the same
    for every record that is removed. The run is repeated without the first, which moves every other record by one position.

    Args:
        subject: the method.
        share: part of the records that is made public; None: none.
    """
    records = stripes(N, card=subject.card)
    if share and not subject.card.has_public:
        raise SkipTest(f"{subject.card.kind}: there is no public part")
    public, private = split_public(records, share, SALT) if share else (None, records)
    kept = np.arange(N)[~made_public(records, share=share, salt=SALT)] if share else np.arange(N)
    for gone in kept:
        rest = records[np.delete(np.arange(N), gone)]
        again, neighbour = split_public(rest, share, SALT) if share else (None, rest)
        assert len(neighbour) == len(private) - 1
        if public is not None:
            assert again is not None
            assert again.images.tobytes() == public.images.tobytes()
            assert again.labels.tobytes() == public.labels.tobytes()

    if share and not Job.of(subject.method, subject.small, subject.card).takes_public:
        public = None
    streams, starts = [], []
    for held in (private, private[1:]):
        run = TrialRun(subject, held, settings={**subject.small, **_few(subject)}, rng=Rng(3), public=public)
        starts.append([run.model])
        starts[-1] += [
            run.model for step in run.steps() if isinstance(step.phase, OnPublic) and not any(run.ledger.used)
        ]
        streams.append({name: state.tolist() for name, state in run.rng.state()["public"].items()})
    assert starts[0] == starts[1]
    assert streams[0] == streams[1]
    fresh = [model_bytes(run.job.generator()) for _ in range(2)]
    assert streams[0] or fresh[0] == fresh[1], "the initialisation at least, where any of it is random"
    if public is not None:
        assert len(starts[0]) > 1, "no phase sees public records: set takes_public = False"
        assert starts[0][0] != starts[0][-1] or "start" in subject.small, "the warm start learns"


def no_unit_moves_an_answer_too_far(subject: Subject, *, several: bool) -> None:
    """No unit moves an exact answer by more than the noise and the charged event allow: epsilon rests on this.

    The run is repeated without the first unit, one in the middle and the last, with the noisy answers of the whole run. A
    setting `max_norm` is a thousandth of what it is: then every record is clipped.

    Args:
        subject: the method.
        several: with units of several records; a table's card lets three rows of a unit count in full, unless it says more.
    """
    if subject.method.without_guarantee:
        raise SkipTest("it promises nothing")
    card, settings = subject.card, {**subject.small, **_few(subject)}
    if several and card.unit == "record":
        more: dict[str, Any] = {"max_rows": 3} if hasattr(card, "max_rows") else {}
        card = dataclasses.replace(card, unit="person", **more)
    defaults = {field.name: field.default for field in dataclasses.fields(subject.method.config_type)}
    if "max_norm" in defaults:
        settings["max_norm"] = 1e-3 * settings.get("max_norm", defaults["max_norm"])
    records = extremes(N, card, several=several)
    units = 0, records.population // 2, records.population - 1
    worst = max(
        moves_of(dataclasses.replace(subject, card=card), records, units, settings=settings),
        key=lambda move: move.ratio,
        default=None,
    )
    assert worst is not None, "it asks no query"
    assert worst.ratio <= 1 + ROUNDING, (
        f"{worst.query} in phase {worst.phase!r}: without unit {worst.unit}, the exact answer moves {worst.ratio:.6g} times "
        "as far as its noise and its event allow, so epsilon is false"
    )


def _few(subject: Subject) -> dict[str, int]:
    """Settings that make a run short."""
    return {name: count for name, count in {"steps": 6, "epochs": 2}.items() if name in subject.small}


def trains_without_records(subject: Subject) -> None:
    """A run without a record ends like any other. An error would tell that the last protected record is gone."""
    if subject.method.without_guarantee:
        raise SkipTest("its parts need records, and it promises nothing")
    run = TrialRun(subject, stripes(0, card=subject.card))
    run.end()
    assert run.ledger.used == [count for _, count in run.plan]


def learns_through_the_mechanism(subject: Subject) -> None:
    """The counterpart of non-interference: with mechanisms that are not deaf, other data give another artefact."""
    first, second = _on_other_records(subject, N)
    assert first.model != second.model


def saves_only_the_generator(finished: TrialRun) -> None:
    """The released file of a finished run has the tensors of the generator, and no other."""
    saved, fresh = load(finished.model), finished.job.generator()
    assert saved.keys() == fresh.state_dict().keys()
    fresh.load_state_dict(saved)  # refuses other shapes, except where the generator takes any
    assert model_bytes(fresh) == finished.model


def replays_from_its_answers(finished: TrialRun) -> None:
    """A finished run can be repeated without a record: its noisy answers and public inputs give the same model, bit for bit."""
    if finished.job.method.without_guarantee:
        raise SkipTest("it has no noisy answers")
    assert finished.rng.answers is not None
    noted = Answers.of(finished.rng.answers.tensors())
    state, ledger = repeated(finished.job, noted, {"seed": finished.rng.seed, "device": "cpu"}, finished.public)
    assert model_bytes(state.released) == finished.model, "the loop depends on more than its answers and public inputs"
    assert ledger.used == finished.ledger.used


def events_are_public_json(finished: TrialRun) -> None:
    """What a finished run has shown can be written as JSON: finite numbers and text."""
    for event in finished.events:
        json.dumps(event, allow_nan=False)


def _repeatable(subject: Subject) -> TrialRun:
    """A run with public records, whose noise is fixed."""
    return TrialRun(subject, rng=Rng(1, noise_seed=2), public=public_of(subject))


def resume_equals_an_unbroken_run(subject: Subject, tmp_path: Path, *, at: int) -> None:
    """A run that is stopped and resumed ends as an unbroken run does, where tests fix the noise.

    Args:
        subject: the method.
        tmp_path: an empty folder.
        at: steps before the stop.
    """
    whole = _repeatable(subject)
    whole.end()
    _resumed_like(whole, subject, tmp_path, at)


def resume_at_the_ends_of_phases(subject: Subject, tmp_path: Path) -> None:
    """At the last step of a phase and at its end: what its body does last is done once. tmp_path: an empty folder."""
    whole = _repeatable(subject)
    ends = [number for number, reached in enumerate(whole.steps(), start=1) if reached.logs is None]
    for at in [number - before for number in ends[:-1] for before in (1, 0)]:
        (tmp_path / str(at)).mkdir()
        _resumed_like(whole, subject, tmp_path / str(at), at)


def _resumed_like(whole: TrialRun, subject: Subject, folder: Path, at: int) -> None:
    first, second = _repeatable(subject), _repeatable(subject)
    for _ in itertools.islice(first.steps(), at):
        pass
    first.save(folder)
    second.continue_as(first, folder)
    second.end()
    assert second.model == whole.model
    assert first.ledger.used == whole.ledger.used


def checkpoint_holds_no_noise_state(subject: Subject, tmp_path: Path) -> None:
    """Without a fixed noise seed a resumed run draws fresh noise: two resumes of one checkpoint differ.

    tmp_path: an empty folder.
    """
    if subject.method.without_guarantee:
        raise SkipTest("it draws no noise")
    run = TrialRun(subject, rng=Rng(1))
    steps, last = run.steps(), [phase for phase in run.job.phases if phase.releases][-1]
    while run.training.state.phase != last.name or run.training.state.step < min(5, last.steps - 1):
        next(steps)
    run.save(tmp_path)
    results = []
    for _ in range(2):
        again = TrialRun(subject, rng=Rng(1))
        again.continue_from(tmp_path, run.ledger)
        next(reached for reached in again.steps() if reached.phase.name == run.job.phases[-1].name)
        results.append(again.model)
    assert results[0] != results[1]


def learns_a_toy(subject: Subject) -> None:
    """With little noise the classes come out on the right sides; an untrained generator shows no difference.

    A classifier is asked which class fresh records are of; an untrained classifier names class 0 always. Of a table, the first
    column follows from the label in nine rows of ten.
    """
    run = TrialRun(subject, stripes(200, card=subject.card), settings=subject.toy, rng=Rng(0))
    net = run.end().released
    fresh = stripes(100, seed=1, card=subject.card)
    if hasattr(net, "probabilities") and hasattr(fresh, "tensors"):  # a classifier of pictures
        images, labels = fresh.tensors()
        assert (net.probabilities(images).argmax(1) == labels).float().mean() > 0.95  # type: ignore[operator]  # it has it
        return

    def draw(n: int, label: int | None) -> tuple[torch.Tensor, torch.Tensor]:
        labels = None if label is None else torch.full((n,), label)
        return run.job.sample(net, n, labels, torch.Generator().manual_seed(0))

    assert shows_stripes(subject.card, draw)
