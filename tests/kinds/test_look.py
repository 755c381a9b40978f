"""The look of a run: what the query adds up, what it chooses, what all of it costs, and where its answer goes."""

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from test_score import epsilon_by_hand, noises

import gossamer
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.synthetic.glyphs import Glyphs
from gossamer.data.tables.card import TableCard
from gossamer.errors import LedgerDamaged, RequestError
from gossamer.kinds.score import Facts
from gossamer.methods.common import picture_facts
from gossamer.privacy.certificate.statements import chosen
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.queries import Bounds
from gossamer.run.release.verify import _settings
from gossamer.run.storage.run_plan import Look, RunPlan, largest
from gossamer.run.training import automatic
from gossamer.run.training.open_run import OpenRun
from gossamer.run.training.plan import plan

ONE = Bounds(norms=(1.0,))
THIRDS = [1 / math.sqrt(3)] * 3
CARD = DataCard(shape=(1, 12, 12), classes=2, declared_size=200)
BUDGET = {"epsilon": 10.0, "delta": 1e-4}


def shapes(n: int, *, ground: int = 0, seed: int = 0) -> Records:
    """Bars on a plain ground, upright or lying, by class."""
    draw, images = np.random.default_rng(seed), np.full((n, 1, 12, 12), ground, np.uint8)
    labels = np.arange(n) % 2
    for image, label in zip(images, labels, strict=True):
        at, ink = draw.integers(3, 9), 255 - ground
        image[0, 2:10, at] = ink if label else ground
        image[0, at, 2:10] = image[0, at, 2:10] if label else ink
    return Records(images, labels.astype(np.int64))


def noise(n: int) -> Records:
    """No picture has a ground."""
    images = np.random.default_rng(1).integers(0, 256, size=(n, 1, 12, 12)).astype(np.uint8)
    return Records(images, np.arange(n) % 2)


def shares(records: Records, card: DataCard = CARD) -> list[float]:
    """How many records have each fact, by name of `FACTS`."""
    told: list[float] = picture_facts.facts(card)(records).mean(0).tolist()
    return told


# ---------------------------------------------------------------------- the query


def test_a_unit_moves_the_sums_by_at_most_one_at_any_position() -> None:
    draw = np.random.default_rng(0)
    told = draw.random((40, 3)) < 0.7
    units = np.sort(draw.integers(12, size=40))
    told[units == 5] = True  # it has all facts, and reaches the bound
    images = np.arange(40, dtype=np.uint8).reshape(-1, 1, 1, 1)
    query = Facts(lambda records: told[records.images.ravel()], THIRDS)

    def sums(kept: np.ndarray) -> np.ndarray:
        part = Records(images[kept], np.zeros(kept.sum(), np.int64), units[kept])
        return query.clipped_sum(part, ONE).numpy()

    whole = sums(np.ones(40, bool))
    moves = {int(one): float(np.linalg.norm(whole - sums(units != one))) for one in set(units)}
    assert max(moves.values()) == pytest.approx(1)
    assert moves[5] == pytest.approx(1)
    assert query.clipped_sum(Records(images[:0], np.zeros(0, np.int64)), ONE).tolist() == [0, 0, 0]


@pytest.mark.parametrize("classes", [2, 10])
def test_what_is_said_of_a_picture_depends_on_no_other(classes: int) -> None:
    card = replace(CARD, classes=classes)
    draw = np.random.default_rng(3)
    images = np.concatenate([shapes(20).images, noise(20).images, shapes(20, ground=255).images])
    records = Records(images, draw.integers(classes, size=60))
    told = picture_facts.facts(card)
    whole = told(records)
    assert whole.any(0)[1:].all()
    for n in range(60):
        assert (told(records[n : n + 1])[0] == whole[n]).all()
    backwards = told(Records(images[::-1].copy(), records.labels[::-1].copy()))
    assert (backwards[::-1] == whole).all()


# ---------------------------------------------------------------------- what it says and chooses


def test_shapes_are_told_from_other_pictures_and_dark_from_light() -> None:
    assert shares(shapes(50)) == [0, 1, 1]
    assert shares(shapes(50, ground=255)) == [0, 1, 0]
    assert shares(noise(50))[1:] == [0, 0]
    bold = np.zeros((1, 1, 20, 20), np.uint8)
    bold[..., 4:16, 4:16] = 200  # full ink on 36 % of the picture
    assert shares(Records(bold, np.zeros(1, np.int64)), replace(CARD, shape=(1, 20, 20))) == [0, 0, 1]
    bold[..., 12:, :] = 0  # on 24 %
    assert shares(Records(bold, np.zeros(1, np.int64)), replace(CARD, shape=(1, 20, 20))) == [0, 1, 1]


def test_drawn_digits_are_known_by_their_classes() -> None:
    draw, program = torch.Generator().manual_seed(5), Glyphs("digits", 1.0, 0.0)
    labels = torch.arange(200) % 10
    images = program.draw(program.random(torch.randn(200, program.normals, generator=draw), labels), labels, 28)
    drawn = Records(images.numpy(), labels.numpy())
    card = replace(CARD, shape=(1, 28, 28), classes=10)
    assert shares(drawn, card)[0] > 0.5
    assert shares(Records(255 - drawn.images, drawn.labels), card)[0] < 0.3
    assert shares(drawn, replace(CARD, classes=11))[0] == 0  # no program draws them


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ([0.6, 0.9, 1.0], "digits"),
        ([0.3, 0.9, 1.0], "shapes"),
        ([0.9, 0.5, 0.9], "things on black"),
        ([0.0, 0.5, 0.5], "anything"),
    ],
)
def test_the_answer_follows_from_the_shares(told: list[float], shown: str) -> None:
    assert picture_facts.shown(told) == shown
    look = Look(noise_multiplier=1.0, shows=["anything", "things on black", "shapes", "digits"])
    answer = [share * CARD.declared_size / math.sqrt(3) for share in told]
    assert look.shows[look.choice(answer, CARD)] == shown


def test_the_first_job_is_for_a_word_that_none_is_for() -> None:
    assert Look(noise_multiplier=1.0, shows=["anything", "shapes"]).choice([0, 0, 200.0], CARD) == 0


# ---------------------------------------------------------------------- what it costs


@pytest.mark.parametrize(("size", "epsilon", "score"), [(5_000, 1.0, None), (5_000, 10.0, 0.0), (60_000, 1.0, 0.2)])
def test_the_whole_run_costs_what_was_asked_for(size: int, epsilon: float, score: float | None) -> None:
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=size)
    asked = plan("auto", card, epsilon=epsilon, delta=1e-6, score=score)
    assert asked.asks.look is not None
    by_hand = epsilon_by_hand(noises(asked), 1e-6)
    assert 0.995 * epsilon < by_hand <= asked.promise.epsilon * (1 + 1e-9) <= epsilon * (1 + 1e-9)
    squares = sum(noise**-2 for noise in noises(asked))
    assert asked.asks.look.noise_multiplier**-2 / squares == pytest.approx(automatic.LOOK_SHARE, rel=0.02)
    for job in asked.asks.jobs:  # whatever is chosen is a part of the plan, beside look and score
        left = Counter(dict(asked.plan))
        left.subtract(dict(job.plan))
        own = [asked.asks.look.query.mechanism.event] + (
            [asked.asks.score.query.mechanism.event] if asked.asks.score else []
        )
        left.subtract(own)
        assert min(left.values()) >= 0


def test_the_bound_of_a_look_holds_for_a_record_with_all_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Facts] = []
    monkeypatch.setattr(OpenRun, "_aside", lambda _run, _private, _query, facts: asked.append(facts) or [0.0] * 3)
    ledger = SimpleNamespace(look=None, remaining=lambda _event: 1, note_look=lambda *_: None, choice=0)
    job: Any = SimpleNamespace(card=CARD)
    asks = RunPlan(jobs=[job], look=Look(noise_multiplier=1.0, shows=["shapes"]))
    OpenRun(folder=None, job=job, asks=asks, ledger=ledger, rng=None).looked(None)  # type: ignore[arg-type]  # none is reached
    assert np.square(asked[0].weights).sum() == pytest.approx(1)
    assert asked[0].dimension == 3


def test_of_each_event_the_largest_plan_counts() -> None:
    assert dict(largest([[("a", 2), ("b", 1), ("a", 1)], [("a", 1), ("c", 4)]])) == {"a": 3, "b": 1, "c": 4}


def test_few_records_at_a_small_epsilon_may_be_drawn() -> None:
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=1_000)
    found = {word: job.method.name for word, job in automatic.choices(card, 1.0).items()}
    assert found == {"anything": "moments", "things on black": "moments", "shapes": "moments", "digits": "evolve"}
    some = automatic.choices(replace(card, declared_size=5_000), 1.0)
    assert {word: job.settings.get("axes", 0) for word, job in some.items()} == {
        "anything": 40, "things on black": 40, "shapes": 100, "digits": 0,
    }, "`any-few` twice, `few-records`, and `votes`, which is as near but for digits alone"  # fmt: skip
    *_, last = automatic.choices(replace(card, declared_size=20_000), 3.0).values()
    assert last.settings["align"] and last.method.name == "moments"
    rows = TableCard.from_dict(
        {"declared_size": 100, "column": [{"name": "a", "kind": "category", "values": ["x", "y"]}]}
    )
    assert [job.method.name for job in automatic.choices(rows, 1.0).values()] == ["marginals"]


def test_auto_chooses_its_settings_itself() -> None:
    with pytest.raises(RequestError, match="uses no public records"):
        gossamer.fit("auto", data="digits", card=CARD, public="glyphs", **BUDGET)
    with pytest.raises(RequestError, match="chooses method and settings"):
        plan("auto", CARD, {"axes": 4}, **BUDGET)
    with pytest.raises(RequestError, match="needs `epsilon`"):
        plan("auto", CARD, delta=1e-4)


# ---------------------------------------------------------------------- a whole run


def fitted(out: Path, **more: Any) -> gossamer.Synthesizer:
    """A run on light shapes, without a score."""
    return gossamer.fit(
        "auto", data=gossamer.Source(shapes(200, ground=255), public_test_data=True), card=CARD, out=out, score=0,
        **BUDGET, **more, process=gossamer.Process(sink=lambda _event: None),
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("looked") / "run"
    fitted(folder)
    yield folder


def test_the_certificate_has_the_method_that_was_chosen(run: Path) -> None:
    ledger, settings = PrivacyLedger.load(run / "ledger.jsonl"), json.loads((run / "config.json").read_text())
    assert ledger.look is not None
    assert settings["look"]["shows"][ledger.choice] == "shapes"
    certificate = gossamer.Synthesizer.load(run).certificate
    assert certificate.config == settings["choices"][ledger.choice]["config"]
    assert certificate.config["align"]
    assert not settings["config"]["align"]
    assert "for shapes" in certificate.figures["look"]["statement"]
    assert float(certificate.guarantee["epsilon"]) <= 10


def test_the_settings_are_those_of_the_job_of_the_ledger() -> None:
    ledger: Any = SimpleNamespace(choice=1)
    settings = {"config": "first", "choices": [{"config": "first"}, {"config": "second"}]}
    assert chosen(settings, ledger)["config"] == "second"
    with pytest.raises(LedgerDamaged, match=r"a choice that config\.json does not have"):
        chosen({"choices": [{}]}, ledger)


def test_verify_chooses_again_from_the_answer(run: Path) -> None:
    verdict = gossamer.verify(run, replay=True)
    assert verdict.problems == []
    assert any("A noisy look" in note for note in verdict.notes)
    ledger, settings = PrivacyLedger.load(run / "ledger.jsonl"), json.loads((run / "config.json").read_text())
    assert _settings(chosen(settings, ledger), ledger, []) == []
    assert ledger.look is not None
    ledger.look = ledger.look[0], 0
    problems = _settings(chosen(settings, ledger), ledger, [])
    assert any("'choice'" in problem for problem in problems)


def test_a_choice_that_the_settings_do_not_have_is_refused(run: Path) -> None:
    ledger, settings = PrivacyLedger.load(run / "ledger.jsonl"), json.loads((run / "config.json").read_text())
    assert ledger.look is not None
    ledger.look = ledger.look[0], 9
    with pytest.raises(LedgerDamaged, match="does not have"):
        chosen(settings, ledger)


def test_a_release_says_it(run: Path, tmp_path: Path) -> None:
    gossamer.release(run, tmp_path / "out")
    assert "A noisy look at the records chose" in (tmp_path / "out/README.md").read_text()
    assert gossamer.verify(tmp_path / "out", replay=True).ok


@pytest.mark.parametrize("lost", ["note_look", "charge"])
def test_a_stopped_run_does_not_look_twice(lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash between the cost and the answer it trains the first job. After the answer, the chosen one."""
    with monkeypatch.context() as patch:
        own, calls = PrivacyLedger.charge, []

        def charge(self: PrivacyLedger, *event: Any) -> None:
            calls.append(event)
            if len(calls) == 2:  # the look is over
                raise KeyboardInterrupt
            own(self, *event)

        crash = charge if lost == "charge" else lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        patch.setattr(PrivacyLedger, lost, crash)
        with pytest.raises((KeyboardInterrupt, gossamer.errors.Interrupted)):
            fitted(tmp_path / "run")
    before = PrivacyLedger.load(tmp_path / "run/ledger.jsonl").look
    resumed = gossamer.resume(
        tmp_path / "run", data=shapes(200, ground=255), process=gossamer.Process(sink=lambda _event: None)
    )
    after = PrivacyLedger.load(tmp_path / "run/ledger.jsonl")
    assert (after.look is None) == (lost == "note_look")
    assert after.look == before
    assert resumed.certificate.config["align"] == (lost == "charge")
    assert dict(after.charged)[resumed_look(tmp_path / "run")] == 1
    assert gossamer.verify(tmp_path / "run").ok


def resumed_look(run: Path) -> Any:
    """The event of the look of a run."""
    settings = json.loads((run / "config.json").read_text())
    return Look(**settings["look"]).query.mechanism.event


def test_a_look_is_asked_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that has its answer does not ask again, although its ledger might have a query left."""
    ledger = PrivacyLedger.load(run / "ledger.jsonl")
    monkeypatch.setattr(PrivacyLedger, "remaining", lambda *_: 1)
    asks = RunPlan(jobs=[], look=Look(noise_multiplier=1.0, shows=[]))
    opened = OpenRun(folder=None, job=None, asks=asks, ledger=ledger, rng=None)  # type: ignore[arg-type]  # none is reached
    assert opened.looked(None) is opened  # type: ignore[arg-type]  # it would read the records


def test_a_ledger_has_one_look_and_before_all_else() -> None:
    look = {"look": {"answer": [1.0], "choice": 0}}
    event = Look(noise_multiplier=1.0, shows=[]).query.mechanism.event
    ledger = PrivacyLedger(budget=10.0, delta=1e-4)
    ledger.reserve([(event, 3)])
    with pytest.raises(ValueError, match="a second look"):
        ledger._apply(look, 2)
    ledger.charge(event)
    ledger._apply(look, 2)
    with pytest.raises(ValueError, match="a second look"):
        ledger._apply(look, 3)
    late = PrivacyLedger(budget=10.0, delta=1e-4)
    late.reserve([(event, 3)])
    late.charge(event)
    late.charge(event)
    with pytest.raises(ValueError, match="a second look"):
        late._apply(look, 2)
