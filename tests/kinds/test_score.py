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
from gossamer.data.columns.column import Column
from gossamer.data.records import Records
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.table import CODES, Table
from gossamer.errors import LedgerDamaged, RequestError
from gossamer.kinds import tables, toys
from gossamer.kinds.score import SCORE, Facts, Score, cells_of, right_and_wrong
from gossamer.methods.common.declared import once
from gossamer.metrics.arrays import own_randomness
from gossamer.metrics.classify import predict, predict_alone
from gossamer.nets.classifiers import SmallCNN
from gossamer.privacy.certificate.figures import CELLS, noisy_share, score, score_weights
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
ANSWER = {"answer": [1.0, 2.0], "samples": []}
ONE = Bounds(norms=(1.0,))


def told(records: Records) -> np.ndarray:
    """A judge that is right where the label is odd."""
    return records.labels % 2 == 1


def sums(labels: list[int], units: list[int] | None = None) -> list[float]:
    """Right and wrong of records with these labels."""
    images = np.zeros((len(labels), 1, 1, 1), np.uint8)
    records = Records(images, np.array(labels, np.int64), None if units is None else np.array(units))
    answer: list[float] = Facts(right_and_wrong(told), score_weights("a judge")).clipped_sum(records, ONE).tolist()
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


def of_rows(rows: Table) -> np.ndarray:
    """Whether a judge is right, and the cells of three columns."""
    one = [rows.codes[:, at, None] == np.arange(CELLS) for at in (1, 2, 3)]
    return np.concatenate([right_and_wrong(lambda held: held.codes[:, 0] == 1)(rows), *one], axis=1)


def test_a_row_of_a_table_moves_all_sums_together_by_one() -> None:
    """Right or wrong, and a cell of each of three columns: also where a unit has several rows, and at any position."""
    draw = np.random.default_rng(0)
    weights = score_weights("a judge", categories=2, numbers=1)
    codes, units = draw.integers(2, size=(40, 1 + 3 * CELLS)), np.sort(draw.integers(12, size=40))

    query, whole = Facts(of_rows, weights), Table(codes.astype(CODES), units=units)
    alone = [query.clipped_sum(Table(codes[at : at + 1].astype(CODES)), ONE).norm() for at in range(40)]
    assert np.allclose(alone, 1)
    sums = query.clipped_sum(whole, ONE)
    moves = [(sums - query.clipped_sum(whole[np.flatnonzero(units != one)], ONE)).norm() for one in set(units)]
    assert 0.9 < max(moves) <= 1 + 1e-9
    # The judge has half of the squares, and columns share the other half.
    assert weights == pytest.approx([0.5**0.5] * 2 + [(1 / 6) ** 0.5] * 12)


def test_a_record_with_more_facts_than_weights_allow_counts_as_none() -> None:
    records = Records(np.zeros((3, 1, 1, 1), np.uint8), np.array([0, 1, 1]))
    query = Facts(lambda held: np.repeat(told(held)[:, None], 2, 1) | np.array([True, False]), [1.0, 1.0])
    assert query.clipped_sum(records, ONE).tolist() == [1, 0]


def test_cells_are_quarters_or_the_most_frequent_values() -> None:
    codes = np.repeat(np.arange(8), [10, 10, 10, 10, 10, 10, 10, 30])
    assert cells_of(codes, 9, in_order=8, cells=CELLS).tolist() == [0, 0, 1, 1, 1, 2, 2, 3, 3]
    assert cells_of(np.repeat(np.arange(5), [1, 9, 3, 7, 5]), 6, in_order=0, cells=CELLS).tolist() == [3, 0, 3, 1, 2, 3]


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


def lower_bound(asked: Facts, both: Records | Table, noise: float) -> float:
    """Epsilon at the least, by an attacker who knows all records but whether the second is there. 1,000 answers each.

    He measures each answer along what the canary adds. The threshold is 2.2 deviations above none, and the noise is fixed.
    """
    query, rng = once(SCORE, noise), Rng(0, noise_seed=0)
    without = both[np.arange(len(both)) != 1]
    ledger = PrivacyLedger(budget=math.inf, delta=1e-4)
    ledger.reserve([(query.mechanism.event, 2_000)])
    low, high = (asked.clipped_sum(records, ONE) for records in (without, both))
    seen = [
        [float(Confined(records, ledger, rng).release(query.mechanism, asked) @ (high - low)) for _ in range(1_000)]
        for records in (both, without)
    ]
    threshold = float(low @ (high - low) + 2.2 * noise * (high - low).norm())
    return errors_at(*seen, threshold=threshold).epsilon(1e-4)


@pytest.mark.parametrize("of", ["score", "look", "table"])
def test_an_attacker_finds_no_more_than_epsilon(of: str) -> None:
    """Of scores, and of a look at a record that has all facts. A query that reads each record three times is refuted."""
    records: Any = Records(np.zeros((20, 1, 1, 1), np.uint8), np.arange(20) % 2)
    asked, noise = Facts(right_and_wrong(told), score_weights("a judge")), 1.5
    if of == "look":
        asked = Facts(lambda held: np.repeat(told(held)[:, None], 3, 1), [1 / math.sqrt(3)] * 3)
    if of == "table":
        records = Table(np.random.default_rng(0).integers(CELLS, size=(20, 4)).astype(CODES))
        asked = Facts(of_rows, score_weights("a judge", categories=2, numbers=1))
    claim = epsilon_by_hand([noise], 1e-4)
    assert 0.2 * claim < lower_bound(asked, records, noise) < claim
    thrice = Facts(asked.are_true, asked.weights, lambda held: held[np.repeat(np.arange(len(held)), 3)])
    assert lower_bound(thrice, records, noise) > claim


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
    found, settings = certificate.figures["score"], json.loads((run / "config.json").read_text())["score"]
    (right, wrong), samples = ledger.score
    assert samples == []
    expected = noisy_share(right, wrong, settings["noise_multiplier"])
    assert (found["low"], found["accuracy"], found["high"]) == expected
    assert found["high"] > 0.85
    assert f"{100 * expected[1]:.1f} % of the private records right" in found["statement"]
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
    (tmp_path / "out/ledger.jsonl").write_text(text.replace(line, line.replace('"answer": [', '"answer": [9')))
    verdict = gossamer.verify(tmp_path / "out")
    assert not verdict.ok
    assert any("the hash does not fit" in problem for problem in verdict.problems)


def test_another_judge_than_that_of_the_settings_is_refused(run: Path) -> None:
    settings = json.loads((run / "config.json").read_text())
    settings["score"]["judge"] = "an oracle"
    ledger = PrivacyLedger.load(run / "ledger.jsonl")
    problems = _settings(settings, ledger, [])
    assert any("'score.judge'" in problem and "an oracle" in problem for problem in problems)


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
        ledger._apply({"score": ANSWER}, 99)
    monkeypatch.setattr(PrivacyLedger, "remaining", lambda *_: 1)
    asks = RunPlan(jobs=[], score=Score(noise_multiplier=1.0, judge=""))
    opened = OpenRun(folder=None, job=None, asks=asks, ledger=ledger, rng=None)  # type: ignore[arg-type]  # none is reached
    opened.measure(None, None)  # type: ignore[arg-type]  # it would read both
    assert ledger.score is not None


def test_a_ledger_has_no_score_before_a_query(tmp_path: Path) -> None:
    ledger = PrivacyLedger(budget=10.0, delta=1e-4)
    ledger.reserve([(GaussianDpEvent(1.0), 1)])
    with pytest.raises(ValueError, match="before any query"):
        ledger.note_score([1.0, 2.0], [])
    ledger = PrivacyLedger(budget=10.0, delta=1e-4)
    ledger.reserve([(GaussianDpEvent(1.0), 1)])
    ledger.create(tmp_path / "ledger.jsonl")
    ledger.charge(GaussianDpEvent(1.0))
    ledger._append([{"score": ANSWER}])
    ledger._write([{"score": ANSWER}])
    ledger.close()
    with pytest.raises(LedgerDamaged, match="line 5"):
        PrivacyLedger.load(tmp_path / "ledger.jsonl")


def test_a_run_with_a_score_is_replayed_without_it(run: Path) -> None:
    """Nothing in the model follows from the score, so it is none of the answers that a replay needs."""
    verdict = gossamer.verify(run, replay=True)
    assert verdict.problems == []
    assert any(note.startswith("Replayed: model.safetensors follows bit for bit.") for note in verdict.notes)


# ---------------------------------------------------------------------- tables


def test_a_table_has_a_score_of_its_counts_and_quartiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows with nearly no noise: the errors are those of the model."""
    monkeypatch.setattr(tables, "JUDGED", 2_000)
    columns = tuple(Column(name=name, kind="integer", bounds=(0, 5)) for name in "ab")
    columns += (Column(name="c", kind="category", values=("x", "y")),)
    card = TableCard(columns=columns, declared_size=400, label="c")
    rows, few = toys.stripes(400, card=card), {"epsilon": 1e5, "delta": 1e-5, "score": 0.5}
    run = gossamer.fit(
        "marginals", data=gossamer.Source(rows, public_test_data=True), card=card, out=tmp_path / "run", **few,
        rounds=1, iterations=10, process=gossamer.Process(sink=lambda _event: None),
    )  # fmt: skip
    figures, codes = run.certificate.figures["score"], run.sample(2_000, seed=0).codes
    assert 0.85 < figures["accuracy"] < 1
    of_c = [np.bincount(part[:, 2], minlength=2) / len(part) for part in (codes, rows.codes)]
    assert figures["counts"]["error"] == pytest.approx(
        np.sqrt(np.square(np.diff(of_c, axis=0)).sum() / CELLS), abs=2e-3
    )
    below = [
        [(part[:, at] < cut).mean() for part in (codes, rows.codes)]
        for at in (0, 1)
        for cut in np.searchsorted(cells_of(codes[:, at], 6, in_order=6, cells=CELLS), [1, 2, 3])
    ]
    assert figures["quantiles"]["error"] == pytest.approx(np.sqrt(np.square(np.diff(below)).mean()), abs=2e-3)
    assert gossamer.verify(run.path).ok
    without = plan("marginals", replace(card, label=None), **few).asks.score
    assert without is not None
    assert (without.judge, without.categories, without.numbers) == ("", 1, 2)
    assert np.square(score_weights("", 1, 2)).sum() == pytest.approx(CELLS)  # one cell of each column is true


def test_a_score_of_another_length_than_the_settings_say_is_refused(run: Path) -> None:
    ledger = PrivacyLedger.load(run / "ledger.jsonl")
    with pytest.raises(LedgerDamaged, match="not as long"):
        score(ledger, 1.0, "a judge", categories=1)
