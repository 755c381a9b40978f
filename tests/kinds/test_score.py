"""The score of a run: what the query adds up, what it costs, and where its answer goes."""

import copy
import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dp_accounting import GaussianDpEvent
from scipy.special import ndtr

import gossamer
from gossamer.attacks.audit import errors_at
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import LedgerDamaged, RequestError
from gossamer.kinds import toys
from gossamer.kinds.score import SCORE, Facts, Score, right_and_wrong
from gossamer.methods.common.declared import once
from gossamer.metrics.arrays import own_randomness
from gossamer.metrics.classify import predict, predict_alone
from gossamer.nets.classifiers import SmallCNN
from gossamer.privacy.certificate.figures import noisy_share
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng
from gossamer.run.release.verify import _settings
from gossamer.run.storage.run_plan import RunPlan
from gossamer.run.training.open_run import OpenRun
from gossamer.run.training.plan import Request, plan

CARD = DataCard(shape=(1, 8, 8), classes=2, declared_size=60)
BUDGET = {"epsilon": 10.0, "delta": 1e-4}
ONE = Bounds(norms=(1.0,))


def told(records: Records) -> np.ndarray:
    """A judge that is right where the label is odd."""
    return records.labels % 2 == 1


def sums(labels: list[int], units: list[int] | None = None) -> list[float]:
    """Right and wrong of records with these labels."""
    images = np.zeros((len(labels), 1, 1, 1), np.uint8)
    records = Records(images, np.array(labels, np.int64), None if units is None else np.array(units))
    answer: list[float] = right_and_wrong(told).clipped_sum(records, ONE).tolist()
    return answer


def test_each_record_is_right_or_wrong_once() -> None:
    assert sums([1, 1, 0, 1]) == [3, 1]
    assert sums([]) == [0, 0]


def test_the_records_of_a_unit_weigh_together_as_one() -> None:
    assert sums([1, 1, 0, 0, 1], [0, 1, 1, 1, 2]) == pytest.approx([2 + 1 / 3, 2 / 3])


def test_a_unit_moves_the_sums_by_at_most_one_at_any_position() -> None:
    draw = np.random.default_rng(0)
    labels, units = draw.integers(2, size=40), np.sort(draw.integers(12, size=40))
    whole = np.array(sums([*labels], [*units]))
    moves = [np.linalg.norm(whole - sums([*labels[units != one]], [*units[units != one]])) for one in set(units)]
    assert max(moves) <= 1 + 1e-12
    assert max(moves) > 0.99  # the bound is reached


def epsilon_by_hand(noises: list[float], delta: float) -> float:
    """Of Gaussians that all see every record: Balle and Wang 2018, theorem 8, by bisection."""
    mu = math.sqrt(sum(noise**-2 for noise in noises))
    low, high = 0.0, 100.0
    for _ in range(80):
        middle = (low + high) / 2
        left = ndtr(mu / 2 - middle / mu) - math.exp(middle) * ndtr(-mu / 2 - middle / mu)
        low, high = (middle, high) if left > delta else (low, middle)
    return high


def noises(asked: Request) -> list[float]:
    """Of all queries of a plan."""
    return [event.noise_multiplier for event, times in asked.plan for _ in range(times)]


@pytest.mark.parametrize(("epsilon", "share"), [(1.0, 0.03), (10.0, 0.03), (3.0, 0.5)])
def test_the_whole_run_costs_what_was_asked_for(epsilon: float, share: float) -> None:
    asked = plan("moments", CARD, epsilon=epsilon, delta=1e-4, score=share)
    without = plan("moments", CARD, epsilon=epsilon, delta=1e-4)
    assert asked.asks.score is not None
    assert asked.plan == [*asked.job.plan, (GaussianDpEvent(asked.asks.score.noise_multiplier), 1)]
    by_hand = epsilon_by_hand(noises(asked), 1e-4)
    assert asked.promise.epsilon <= epsilon
    assert by_hand == pytest.approx(asked.promise.epsilon, rel=2e-3)
    # The budget is divided by the squares of 1 / noise.
    squares = [noise**-2 for noise in noises(asked)]
    assert squares[-1] / sum(squares) == pytest.approx(share, rel=0.02)
    assert sum(squares) == pytest.approx(noises(without)[0] ** -2, rel=0.01)


def test_a_given_noise_leaves_the_score_beside_it() -> None:
    asked = plan("moments", CARD, {"noise_multiplier": 2.0}, delta=1e-4, score=0.1)
    assert noises(asked)[0] == 2
    assert noises(asked)[1] == pytest.approx(2 / math.sqrt(0.1), rel=0.01)
    assert asked.epsilon == asked.promise.epsilon >= epsilon_by_hand(noises(asked), 1e-4) * (1 - 1e-9)


@pytest.mark.parametrize("share", [1.0, 1.5, -0.1])
def test_a_share_is_below_one(share: float) -> None:
    with pytest.raises(RequestError, match="share of the budget"):
        plan("moments", CARD, **BUDGET, score=share)


def test_what_has_no_classes_has_no_score() -> None:
    with pytest.raises(RequestError, match="no classes"):
        plan("moments", replace(CARD, classes=1), **BUDGET, score=0.1)


def lower_bound(asked: Facts, without: Records, canary: Records, noise: float) -> float:
    """Epsilon at the least, by an attacker who knows all records but whether the canary is there. 1,000 answers each.

    He measures each answer along what the canary adds. The threshold is 2.2 deviations above none, and the noise is fixed.
    """
    query, rng = once(SCORE, noise), Rng(0, noise_seed=0)
    both = Records(
        *(np.concatenate([getattr(part, name) for part in (without, canary)]) for name in ("images", "labels"))
    )
    ledger = PrivacyLedger(budget=math.inf, delta=1e-4)
    ledger.reserve([(query.mechanism.event, 2_000)])
    low, high = (asked.clipped_sum(records, ONE) for records in (without, both))
    seen = [
        [float(Confined(records, ledger, rng).release(query.mechanism, asked) @ (high - low)) for _ in range(1_000)]
        for records in (both, without)
    ]
    threshold = float(low @ (high - low) + 2.2 * noise * (high - low).norm())
    return errors_at(*seen, threshold=threshold).epsilon(1e-4)


@pytest.mark.parametrize("of", ["score", "look"])
def test_an_attacker_finds_no_more_than_epsilon(of: str) -> None:
    """Of the score, and of a look at a record that has all facts. A query that reads each record twice is refuted."""
    records = Records(np.zeros((20, 1, 1, 1), np.uint8), np.arange(20) % 2)
    canary, noise = records[1:2], 1.5
    facts = Facts(lambda held: np.repeat(told(held)[:, None], 3, 1), most=3, dimension=3)
    asked = facts if of == "look" else right_and_wrong(told)
    claim = epsilon_by_hand([noise], 1e-4)
    assert 0.2 * claim < lower_bound(asked, records, canary, noise) < claim
    twice = Facts(lambda held: 3 * facts.are_true(held), most=3, dimension=3)
    assert lower_bound(twice, records, canary, noise) > claim


# ---------------------------------------------------------------------- a whole run


def fitted(out: Path, **more: Any) -> gossamer.Synthesizer:
    """A run on stripes, which a classifier can tell."""
    return gossamer.fit(
        "moments", data=gossamer.Source(toys.stripes(60, card=CARD), public_test_data=True), card=CARD, out=out,
        axes=4, **BUDGET, **more, process=gossamer.Process(sink=lambda _event: None),
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("scored") / "run"
    fitted(folder, score=0.5)
    yield folder


def test_the_certificate_has_the_answer_of_the_ledger(run: Path) -> None:
    ledger = PrivacyLedger.load(run / "ledger.jsonl")
    assert ledger.score is not None
    certificate = gossamer.Synthesizer.load(run).certificate
    score, settings = certificate.figures["score"], json.loads((run / "config.json").read_text())["score"]
    expected = noisy_share(*ledger.score, settings["noise_multiplier"])
    assert (score["low"], score["accuracy"], score["high"]) == expected
    assert score["high"] > 0.85
    assert f"{100 * expected[1]:.1f} % of the private records right" in score["statement"]
    assert "600 samples" in settings["judge"]
    assert certificate.figures["components"][-1]["purpose"] == "score"
    assert float(certificate.guarantee["epsilon"]) <= 10


def test_verify_and_the_release_say_it(run: Path, tmp_path: Path) -> None:
    verdict = gossamer.verify(run)
    statement = gossamer.Synthesizer.load(run).certificate.figures["score"]["statement"]
    assert verdict.ok
    assert any(statement in note for note in verdict.notes)
    gossamer.release(run, tmp_path / "out")
    assert f"## What this is good for\n\n{statement}" in (tmp_path / "out/README.md").read_text()
    assert gossamer.verify(tmp_path / "out").ok


def test_nobody_exchanges_the_figure(run: Path, tmp_path: Path) -> None:
    """Neither in the certificate, where it follows from the ledger, nor in the ledger, whose hashes it breaks."""
    gossamer.release(run, tmp_path / "out")
    text = (tmp_path / "out/ledger.jsonl").read_text()
    line = text.splitlines()[-1]
    assert '"score"' in line
    (tmp_path / "out/ledger.jsonl").write_text(text.replace(line, line.replace('"score": [', '"score": [9')))
    verdict = gossamer.verify(tmp_path / "out")
    assert not verdict.ok
    assert any("the hash does not fit" in problem for problem in verdict.problems)


def test_another_judge_than_that_of_the_settings_is_refused(run: Path) -> None:
    settings = json.loads((run / "config.json").read_text())
    settings["score"]["judge"] = "an oracle"
    ledger = PrivacyLedger.load(run / "ledger.jsonl")
    problems = _settings(settings, ledger, [])
    assert any("'score'" in problem and "an oracle" in problem for problem in problems)


def test_where_classes_are_nearly_as_likely_double_precision_decides() -> None:
    """So that a picture is judged alike whatever is beside it."""
    images = np.random.default_rng(0).integers(0, 256, size=(200, 1, 8, 8)).astype(np.uint8)
    pixels = torch.from_numpy(images).float().div(255).double()
    with own_randomness(0), torch.no_grad():
        net = SmallCNN((1, 8, 8), 2).eval()
        net.out.weight[1] = net.out.weight[0] + 1e-7 * torch.randn(128)
        net.out.bias.zero_()
        net.out.bias[1] = -(copy.deepcopy(net).double()(pixels) @ torch.tensor([-1.0, 1.0]).double()).median()
        expected = copy.deepcopy(net).double()(pixels).argmax(1).numpy()
    assert predict_alone(net, images).tolist() == expected.tolist()
    assert predict(net, images).tolist() != expected.tolist()  # single precision would be wrong here


def test_a_crash_between_cost_and_answer_loses_the_score_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(PrivacyLedger, "note_score", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fitted(tmp_path / "run", score=0.5)
    resumed = gossamer.resume(
        tmp_path / "run", data=toys.stripes(60, card=CARD), process=gossamer.Process(sink=lambda _event: None)
    )
    assert "score" not in resumed.certificate.figures
    assert gossamer.verify(tmp_path / "run").ok


def test_a_score_is_asked_once(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that has its answer does not ask again, although its ledger might have a query left."""
    ledger = PrivacyLedger.load(run / "ledger.jsonl")
    with pytest.raises(ValueError, match="a second score"):
        ledger._apply({"score": [1.0, 2.0]}, 99)
    monkeypatch.setattr(PrivacyLedger, "remaining", lambda *_: 1)
    asks = RunPlan(jobs=[], score=Score(noise_multiplier=1.0, judge=""))
    opened = OpenRun(folder=None, job=None, asks=asks, ledger=ledger, rng=None)  # type: ignore[arg-type]  # none is reached
    opened.measure(None, None)  # type: ignore[arg-type]  # it would read both
    assert ledger.score is not None


def test_a_ledger_has_no_score_before_a_query(tmp_path: Path) -> None:
    ledger = PrivacyLedger(budget=10.0, delta=1e-4)
    ledger.reserve([(GaussianDpEvent(1.0), 1)])
    with pytest.raises(ValueError, match="before any query"):
        ledger.note_score(1.0, 2.0)
    ledger = PrivacyLedger(budget=10.0, delta=1e-4)
    ledger.reserve([(GaussianDpEvent(1.0), 1)])
    ledger.create(tmp_path / "ledger.jsonl")
    ledger.charge(GaussianDpEvent(1.0))
    ledger._append([{"score": [1.0, 2.0]}, {"score": [1.0, 2.0]}][:1])
    ledger._write([{"score": [1.0, 2.0]}])
    ledger.close()
    with pytest.raises(LedgerDamaged, match="line 5"):
        PrivacyLedger.load(tmp_path / "ledger.jsonl")


def test_a_run_with_a_score_is_replayed_without_it(run: Path) -> None:
    """Nothing in the model follows from the score, so it is none of the answers that a replay needs."""
    verdict = gossamer.verify(run, replay=True)
    assert verdict.problems == []
    assert any(note.startswith("Replayed: model.safetensors follows bit for bit.") for note in verdict.notes)
