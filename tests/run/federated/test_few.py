"""A federation of few: sites answer the queries of one plan, with files alone. Flower is not needed here."""

import dataclasses
import json
import math
import re
import runpy
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chi2, norm

from gossamer.data.card import DataCard
from gossamer.data.columns.column import Column
from gossamer.data.records import Records
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.table import Table
from gossamer.errors import BudgetExceeded, ConfinedError, GossamerError, RequestError, RunFolderError, UnplannedRelease
from gossamer.files import write_atomically
from gossamer.kinds import histograms
from gossamer.methods.contract import Run
from gossamer.methods.marginals import selection
from gossamer.methods.marginals.loop import first_query, of_site
from gossamer.privacy.certificate.sites import problem_of
from gossamer.privacy.confined import Confined
from gossamer.privacy.elsewhere import Elsewhere
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.cli.main import main
from gossamer.run.federated import centre, site
from gossamer.run.federated.centre import Waiting, ask
from gossamer.run.federated.network import Local, Reply
from gossamer.run.federated.questions import Answer, Malformed, Question, Terms, digest, read, written
from gossamer.run.federated.site import Site
from gossamer.run.release.release import release
from gossamer.run.release.verify import verify
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.training.plan import plan

CARD = TableCard(
    columns=(
        Column(name="sex", kind="category", values=("f", "m")),
        Column(name="age", kind="integer", bounds=(18, 97), bins=4),
        Column(name="ill", kind="category", values=("no", "yes")),
    ),
    declared_size=600,
    label="ill",
)
PICTURES = DataCard(shape=(1, 8, 8), classes=2, declared_size=90)
NAMES = ("a", "b", "c")
DELTA, EPSILON = 1e-4, 2.0
SMALL = {"rounds": 1, "iterations": 3}


def people(number: int, count: int = 100) -> dict[str, np.ndarray]:
    """Rows of one site: those of the next site are older."""
    rng = np.random.default_rng(number)
    ages = rng.integers(18 + 20 * number, 50 + 20 * number, count)
    ill = rng.random(count) < ages / 120
    return {
        "sex": np.array(["f", "m"])[rng.integers(0, 2, count)],
        "age": ages,
        "ill": np.array(["no", "yes"])[ill * 1],
    }


def written_rows(columns: dict[str, np.ndarray], file: Path) -> None:
    rows = zip(*(values.tolist() for values in columns.values()), strict=True)
    file.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]))


def site_of(folder: Path, number: int, **changed: Any) -> Site:
    sources = DataSources.of(people(number, 100 * (number + 1)))
    given = {"sources": sources, "card": CARD, "epsilon": EPSILON, "delta": DELTA, "accounts": folder / "log"}
    return Site(folder=RunFolder(folder / NAMES[number]), **{**given, **changed})


def sites_of(folder: Path, **changed: Any) -> dict[str, Site]:
    return {name: site_of(folder, number, **changed) for number, name in enumerate(NAMES)}


class Here(Local):
    wait = 0.3


def answering(sites: Mapping[str, Site]) -> Here:
    return Here({name: one.answer for name, one in sites.items()})


def asked(out: Path, **changed: Any) -> Any:
    request = plan("marginals", CARD, SMALL, epsilon=EPSILON, delta=DELTA)
    return ask(request, sites=NAMES, out=out / "centre", **changed)


def exchange(out: Path) -> Path:
    return out / "centre" / "checkpoint" / "exchange"


FINISHED: list[Path] = []


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of three sites, with its folders. Once for all modules."""
    if not FINISHED:
        out = tmp_path_factory.mktemp("few")
        asked(out, network=answering(sites_of(out)))
        FINISHED.append(out)
    return FINISHED[0]


@pytest.fixture
def no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """For runs whose pictures nobody looks at: drawing them takes longer than all else."""
    monkeypatch.setattr(histograms, "png", lambda *_: b"")


def question_of(out: Path, number: int, name: str = "a") -> str:
    return (exchange(out) / f"question-{number}-{name}.json").read_text()


def changed(text: str, **entries: Any) -> str:
    return written(dataclasses.replace(read(Question, text), **entries))


def epsilon_of(folder: Path, times: int = 1) -> float:
    """Of the plan in a ledger's lines, by the closed form of Gaussians (Dong, Roth, Su 2022, corollaries 2.13 and 3.3)."""
    lines = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]
    (plan_,) = [line["reserve"] for line in lines if "reserve" in line]
    assert sum("charge" in line for line in lines) == sum(each["count"] for each in plan_) == 3
    mu = math.sqrt(times * sum(each["count"] / each["event"]["noise_multiplier"] ** 2 for each in plan_))
    low, high = 0.0, 50.0
    for _ in range(60):
        middle = (low + high) / 2
        delta = norm.cdf(mu / 2 - middle / mu) - math.exp(middle) * norm.cdf(-mu / 2 - middle / mu)
        low, high = (middle, high) if delta > DELTA else (low, middle)
    return high


def test_centre_sites_and_release_verify(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [verify(whole / name).problems for name in ("centre", *NAMES)] == [[], [], [], []]
    text = (whole / "centre" / "certificate.json").read_text()
    statement = json.loads(text)["statement"]
    assert "the centre included, for each of 3 sites" in statement
    assert "a 3 of 3, b 3 of 3, c 3 of 3" in statement
    own = json.loads((whole / "a" / "certificate.json").read_text())
    assert "It holds against everyone, because this site added the noise" in own["statement"]
    assert own["covered"][0].startswith("everything that this site sent: all its noisy answers")
    release(whole / "centre", tmp_path / "release")
    assert verify(tmp_path / "release").ok
    script = runpy.run_path(str(Path(__file__).parents[3] / "tools" / "check_release.py"))
    script["check"](tmp_path / "release")
    said = capsys.readouterr().out
    assert "the ledgers of a, b, c reserve the same plan" in said
    (recomputed,) = re.findall(r"PLD: epsilon ([0-9.]+)", said)
    assert float(recomputed) == pytest.approx(epsilon_of(whole / "centre"), rel=1e-3)  # by the closed form
    assert any("other finite numbers" in each for each in json.loads(text)["assumptions"])
    shown = json.loads((tmp_path / "release" / "sites.json").read_text())
    (tmp_path / "release" / "sites.json").write_text(json.dumps({**shown, "a": shown["b"]}))
    with pytest.raises(ValueError, match="not that noted"):
        script["check"](tmp_path / "release")
    (tmp_path / "release" / "sites.json").unlink()
    assert "sites.json is missing" in " ".join(verify(tmp_path / "release").problems)


def test_epsilon_of_a_site_and_of_two_is_that_of_its_gaussians(whole: Path) -> None:
    stated = json.loads((whole / "a" / "certificate.json").read_text())["guarantee"]["epsilon"]
    assert stated == pytest.approx(epsilon_of(whole / "a"), rel=1e-3) and stated <= EPSILON
    (of_two,) = re.findall(
        r"For a record at two sites: epsilon ([0-9.]+)", (whole / "centre" / "certificate.json").read_text()
    )
    assert float(of_two) == pytest.approx(epsilon_of(whole / "centre", 2), abs=2e-3)


@pytest.mark.usefixtures("no_picture")
def test_files_give_the_same_weights_bit_for_bit(whole: Path, tmp_path: Path) -> None:
    """People carry the answers: the command stops at each query, and each new process goes on from the question."""
    for number in range(3):
        with pytest.raises(Waiting, match=f"query {number + 1} of 3 waits for a, b, c"):
            asked(tmp_path)
        for name in NAMES:
            assert question_of(tmp_path, number, name) == question_of(whole, number, name)
            shutil.copy(exchange(whole) / f"answer-{number}-{name}.json", exchange(tmp_path))
    asked(tmp_path)
    weights = [(out / "centre" / "model.safetensors").read_bytes() for out in (whole, tmp_path)]
    assert weights[0] == weights[1]
    assert asked(tmp_path).certificate.guarantee["epsilon"] <= EPSILON  # a finished run stays as it is


@pytest.mark.usefixtures("no_picture")
def test_the_commands_do_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    CARD.save(tmp_path / "card.toml")
    for number, name in enumerate(NAMES):
        written_rows(people(number), tmp_path / f"{name}.csv")
    budget = ["--card", str(tmp_path / "card.toml"), "--epsilon", "2", "--delta", "1e-4"]
    centre_words = ["federated", "ask", "marginals", *budget, "--sites", "a,b,c", "--out", str(tmp_path / "centre")]
    for number in range(4):
        with pytest.raises(SystemExit) as end:
            main([*centre_words, "--rounds", "1", "--iterations", "3"])
        assert not end.value.code, capsys.readouterr().err
        for name in NAMES:
            files = [str(exchange(tmp_path) / f"{kind}-{number}-{name}.json") for kind in ("question", "answer")]
            site_words = ["--data", str(tmp_path / f"{name}.csv"), "--run", str(tmp_path / name)]
            site_words += ["--accounts", str(tmp_path / "log")]
            with pytest.raises(SystemExit) as end:
                main(["federated", "answer", files[0], "-o", files[1], *site_words, *budget])
            assert not end.value.code, capsys.readouterr().err
    assert "for each of 3 sites" in capsys.readouterr().out
    assert all(verify(tmp_path / name).ok for name in ("centre", *NAMES))


# ---------------------------------------------------------------------- what a site refuses


def test_a_site_refuses_what_is_not_in_the_plan(whole: Path, tmp_path: Path) -> None:
    one = site_of(whole, 0)
    first = question_of(whole, 0)
    lines = (whole / "a" / "ledger.jsonl").read_bytes()
    assert digest(one.answer(first)) == digest((exchange(whole) / "answer-0-a.json").read_text())
    other = read(Question, first).state
    other["total"] = 7.0
    for text in (
        changed(first, state=other),  # twice, and another question
        changed(first, number=4),
        changed(first, number=-1),
        changed(first, site="d"),
        changed(first, terms={**read(Question, first).terms, "delta": 1e-3}),
        changed(first, terms={**read(Question, first).terms, "seed": 1, "more": 2}),
        first.replace('"number": 0', '"number": NaN'),
        first[:100],
    ):
        with pytest.raises(Malformed):
            one.answer(text)
    (whole / "a" / "checkpoint" / "answer-3.json").rename(tmp_path / "answer-3.json")
    with pytest.raises(RunFolderError, match="under other terms"):
        one.answer(changed(question_of(whole, 3), terms={**read(Question, first).terms, "seed": 1}))
    (tmp_path / "answer-3.json").rename(whole / "a" / "checkpoint" / "answer-3.json")
    assert (whole / "a" / "ledger.jsonl").read_bytes() == lines

    fresh = site_of(tmp_path, 0)
    for text in (
        changed(first, about="Counts: columns 0-1 in 8 cells"),
        changed(first, state={**read(Question, first).state, "phase": "training", "step": 2}),
    ):
        with pytest.raises(Malformed, match=r"another query|no further query"):
            fresh.answer(text)
        shutil.rmtree(tmp_path / "a")
    with pytest.raises(Malformed, match="card or the delta"):
        site_of(tmp_path, 0, card=dataclasses.replace(CARD, declared_size=601)).answer(first)
    assert not (tmp_path / "a").exists()


def test_a_plan_beyond_the_budget_of_a_site_reads_no_record(whole: Path, tmp_path: Path) -> None:
    poor = site_of(tmp_path, 0, epsilon=0.9 * EPSILON)
    with pytest.raises(BudgetExceeded, match="No record has been read"):
        poor.answer(question_of(whole, 0))
    assert not (tmp_path / "a" / "ledger.jsonl").exists() and not (tmp_path / "log").exists()


def test_the_plan_is_reserved_and_in_the_budget_log_before_the_first_answer(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    one = site_of(tmp_path, 0)

    def look(*_: Any) -> None:
        ledger = PrivacyLedger.load(tmp_path / "a" / "ledger.jsonl")
        seen.append((ledger.plan == PrivacyLedger.load(whole / "a" / "ledger.jsonl").plan, sum(ledger.used)))
        seen.append(any((tmp_path / "log").rglob("*.json*")))

    monkeypatch.setattr(Site, "_goes_on", lambda self, *given: look() or going_on(self, *given))
    one.answer(question_of(whole, 0))
    assert seen == [(True, 0), True]
    assert sum(PrivacyLedger.load(tmp_path / "a" / "ledger.jsonl").used) == 1


going_on = Site._goes_on


def test_a_state_that_breaks_a_bound_is_refused(whole: Path, tmp_path: Path) -> None:
    for number, entry, value, error, message in (
        (0, "merged", -1, Malformed, "out of its range"),
        (0, "merged", 99, Malformed, "out of its range"),
        (0, "probabilities", math.nan, Malformed, "not finite"),
        (1, "probabilities", 1e12, ConfinedError, "error in clipped_sum"),
    ):
        text = question_of(whole, number)
        state = read(Question, text).state
        state["net"] = {name: held.clone() for name, held in state["net"].items()}
        state["net"][entry][-1] = value
        with pytest.raises(error, match=message):
            site_of(tmp_path, 0).answer(changed(text, state=state))
        assert sum(PrivacyLedger.load(tmp_path / "a" / "ledger.jsonl").used) == number
        shutil.rmtree(tmp_path / "a")


@pytest.mark.parametrize("entry", ["basis", "centre", "scale"])
def test_axes_from_a_centre_are_of_length_one(entry: str) -> None:
    state = plan("moments", PICTURES, {"axes": 4}, epsilon=1, delta=DELTA).job.begin(Rng()).state
    state.check_sent()
    getattr(state.net.latent, entry).fill_(0 if entry == "scale" else 1e9)
    with pytest.raises(ValueError, match="out of its range"):
        state.check_sent()


def test_terms_need_noise_and_a_method_of_sums(whole: Path, tmp_path: Path) -> None:
    quiet = plan("marginals", CARD, SMALL, epsilon=math.inf, delta=DELTA).job
    with pytest.raises(RequestError, match="needs noise"):
        Terms(quiet, DELTA, 0, NAMES)
    own = read(Question, question_of(whole, 0)).terms
    for noise in (0.0, -1.0):  # by its class alone, the event of the first is a Gaussian
        loud = {**own, "config": {**own["config"], "noise_multiplier": noise}}
        with pytest.raises(Malformed, match="no terms"):
            site_of(tmp_path, 0, epsilon=math.inf).answer(changed(question_of(whole, 0), terms=loud))
    assert not any(tmp_path.iterdir())
    job = plan("marginals", CARD, SMALL, epsilon=1, delta=DELTA).job
    for names in ((), ("a", "a"), ("a/b",), ("..",)):
        with pytest.raises(RequestError, match="name of its own"):
            Terms(job, DELTA, 0, names)
    with pytest.raises(RequestError, match="noisy sums"):
        Terms(
            plan("dpgan", dataclasses.replace(PICTURES, shape=(1, 28, 28)), epsilon=1, delta=DELTA).job, DELTA, 0, NAMES
        )


# ---------------------------------------------------------------------- crashes, and sites that are gone


def test_a_crash_gives_no_second_answer(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between charge and answer: the answer is lost, and its cost stays. After the answer: it is the same one."""
    one = site_of(tmp_path, 0)

    def killed(path: Path, *given: Any, **more: Any) -> None:
        if path.name.startswith("answer"):
            raise KeyboardInterrupt
        write_atomically(path, *given, **more)

    with monkeypatch.context() as patched:
        patched.setattr(site, "write_atomically", killed)
        with pytest.raises(KeyboardInterrupt):
            one.answer(question_of(whole, 0))
    again = site_of(tmp_path, 0)
    with pytest.raises(UnplannedRelease, match="lost its answer"):
        again.answer(question_of(whole, 0))
    assert sum(PrivacyLedger.load(tmp_path / "a" / "ledger.jsonl").used) == 1
    answer = again.answer(question_of(whole, 1))
    assert site_of(tmp_path, 0).answer(question_of(whole, 1)) == answer
    assert sum(PrivacyLedger.load(tmp_path / "a" / "ledger.jsonl").used) == 2
    with pytest.raises(UnplannedRelease):
        again.answer(question_of(whole, 0))


@pytest.mark.usefixtures("no_picture")
def test_a_site_that_is_gone_is_left_out_and_the_release_says_so(tmp_path: Path) -> None:
    sites = sites_of(tmp_path)

    class UntilTheSecond(Here):
        def exchange(self, texts: Mapping[str, str]) -> Iterator[tuple[str, Reply]]:
            if any(read(Question, text).number == 1 for text in texts.values()):
                self.sites = {name: reply for name, reply in self.sites.items() if name != "c"}
            return super().exchange({name: text for name, text in texts.items() if name in self.sites})

    net = asked(tmp_path, network=UntilTheSecond(answering(sites).sites))
    assert "a 3 of 3, b 3 of 3, c 1 of 3" in net.certificate.statement
    assert verify(tmp_path / "centre").ok
    total = read(Question, question_of(tmp_path, 2)).state["total"]
    assert total == pytest.approx(600, abs=80)


@pytest.mark.usefixtures("no_picture")
def test_a_name_within_another_counts_for_itself(tmp_path: Path) -> None:
    request = plan("marginals", CARD, SMALL, epsilon=EPSILON, delta=DELTA)
    sites = {"x-a": site_of(tmp_path, 0)}
    net = ask(request, sites="a, x-a", out=tmp_path / "centre", without="a", network=answering(sites))
    assert "a 0 of 3, x-a 3 of 3" in net.certificate.statement


def test_what_a_missing_site_would_have_is_made_up_for_by_released_totals(tmp_path: Path) -> None:
    """The last of three unequal sites has half of all rows: later tables count it by its own noisy total."""
    run = type("Run", (), {"folder": RunFolder(tmp_path)})
    here = centre.Centre(
        run, Terms(plan("marginals", CARD, SMALL, epsilon=1, delta=DELTA).job, DELTA, 0, NAMES), None, set()
    )  # type: ignore[arg-type]  # all that a centre needs here
    exchange_ = tmp_path / "checkpoint" / "exchange"
    exchange_.mkdir(parents=True)
    one = torch.ones(1).double()
    assert here._weight(object(), {"a": one, "b": one}) == 1.5
    told = type("Told", (), {"total": staticmethod(lambda values: float(values.sum()))})()
    assert here._weight(told, {"a": 100 * one, "b": 200 * one, "c": 300 * one}) == 1
    assert here._weight(object(), {"a": one, "b": one}) == 2


def test_an_answer_that_is_none_shuts_its_site_out(whole: Path, tmp_path: Path) -> None:
    given = (exchange(whole) / "answer-0-a.json").read_text()
    honest = read(Answer, given)
    assert honest.values is not None
    ledger = honest.ledger.splitlines()
    for text in (
        "{}",
        written(dataclasses.replace(honest, values=honest.values[1:])),
        written(dataclasses.replace(honest, values=honest.values.float())),
        written(dataclasses.replace(honest, values=honest.values / 0)),
        written(dataclasses.replace(honest, values=None)),
        written(dataclasses.replace(honest, question=digest("another"))),
        written(dataclasses.replace(honest, site="b")),
        written(dataclasses.replace(honest, ledger="\n".join(ledger[:1]) + "\n")),
        written(dataclasses.replace(honest, ledger=honest.ledger.replace("add-or-remove-one", "replace-one"))),
    ):
        with pytest.raises(Waiting):
            asked(tmp_path)
        for name in NAMES:
            shutil.copy(exchange(whole) / f"answer-0-{name}.json", exchange(tmp_path))
        (exchange(tmp_path) / "answer-0-a.json").write_text(text)
        with pytest.raises(Waiting, match="query 2 of 3 waits for b, c"):
            asked(tmp_path)
        shutil.rmtree(tmp_path / "centre")


def test_a_ledger_without_the_plan_counts_for_nothing(whole: Path, tmp_path: Path) -> None:
    """A site that has reserved less than the terms say; and sites.json that was changed after the run."""
    shutil.copytree(whole / "centre", tmp_path / "centre")
    shown = json.loads((tmp_path / "centre" / "sites.json").read_text())
    file = tmp_path / "centre" / "sites.json"
    shutil.copy(whole / "b" / "config.json", tmp_path)
    for change in (
        {"a": shown["b"]},
        {"a": "\n".join(shown["a"].splitlines()[:-1]) + "\n"},
        {"a": 7},
        {"d": shown["a"]},
    ):
        file.write_text(json.dumps({**shown, **change}))
        assert not verify(tmp_path / "centre").ok
    file.write_text(json.dumps(shown))
    assert verify(tmp_path / "centre").ok
    own = PrivacyLedger.load(whole / "centre" / "ledger.jsonl")
    assert problem_of("a", shown["a"], own) == ""
    for count, delta, unit in ((1, DELTA, "record"), (3, 2 * DELTA, "record"), (3, DELTA, "patient")):
        less = PrivacyLedger(budget=math.inf, delta=delta, unit=unit)
        less.reserve(own.plan[:count])
        less.create(tmp_path / "less.jsonl")
        less.close()
        assert "does not reserve the plan" in problem_of("a", (tmp_path / "less.jsonl").read_text(), own)
        (tmp_path / "less.jsonl").unlink()


# ---------------------------------------------------------------------- what leaves a site


@pytest.mark.parametrize("method", ["marginals", "moments"])
def test_one_unit_less_at_a_site_moves_each_query_by_at_most_its_bound(method: str) -> None:
    """Of every query that a whole run asks of a site: groups of the exact answer, with and without one unit."""
    card: Any = CARD if method == "marginals" else PICTURES
    settings = SMALL if method == "marginals" else {"axes": 4, "cells": 2, "axes_noise": 2.0, "align": True}
    job = plan(method, card, settings, epsilon=EPSILON, delta=DELTA).job
    terms = Terms.of(job, DELTA, 0, NAMES)
    rng = np.random.default_rng(5)
    if method == "marginals":
        every: Any = Table(np.stack([rng.integers(0, size, 60) for size in CARD.domain], 1).astype(np.int32))
    else:
        every = Records(rng.integers(0, 256, (60, 1, 8, 8)).astype(np.uint8), rng.integers(0, 2, 60))
    moved, noise_of = [], []

    def answer(mechanism: Any, query: Any, held: Confined[Any]) -> torch.Tensor:
        own = terms.own(mechanism)
        whole_ = held.declassify(reason="a test")
        exact = own.exact(whole_, query, Rng()).double()
        less = own.exact(whole_.take(np.arange(1, 60)), query, Rng()).double()
        norms = own.bounds.norms if hasattr(own, "bounds") else (own.max_norm,)
        sizes = query.sizes if len(norms) > 1 else [len(exact)]
        for part, bound in zip((exact - less).split(list(sizes)), norms, strict=True):
            moved.append(float(part.norm()) / bound)
        noise_of.append(own.noise_multiplier)
        return exact + torch.randn(len(exact)).double()

    ledger = PrivacyLedger(budget=math.inf, delta=DELTA)
    training = terms.pooled.begin(Rng())
    for _ in training.drive(terms.stand_in(answer, Confined(every, ledger, Rng()))):
        pass
    assert len(noise_of) == terms.count == len([None for query in job.queries for _ in range(query.times)])
    assert noise_of == [query.mechanism.noise_multiplier for query in job.queries]
    assert max(moved) <= 1 + 1e-9 and min(moved) > 0


def test_the_centre_sees_the_whole_noise_of_each_site(whole: Path, tmp_path: Path) -> None:
    """An audit by what the centre sees, the answers of one site: half of them with a canary that has a cell of its own in each
    table. The noise has the standard deviation that the ledger reserves, and the canary is no clearer. A right site fails with
    2e-6."""
    text, count = question_of(whole, 0), 12
    rows = {"sex": np.array(["f"] * 30), "age": np.full(30, 20), "ill": np.array(["no"] * 30)}
    canary = {"sex": np.array(["m"]), "age": np.array([90]), "ill": np.array(["yes"])}
    answers = []
    for held in (rows, {name: np.r_[values, canary[name]] for name, values in rows.items()}):
        for _ in range(count):
            one = site_of(tmp_path, 0, sources=DataSources.of(held), accounts=False)
            values = read(Answer, one.answer(text)).values
            assert values is not None
            answers.append(values)
            shutil.rmtree(tmp_path / "a")
    without, with_it = torch.stack(answers).split(count)
    terms = Terms.from_json(read(Question, text).terms)
    first = terms.job.queries[0].mechanism
    run = Run(terms.pooled.config.resolved(CARD), CARD, Rng())
    query = first_query(run)
    tables = len(query.cliques)
    assert without.shape[1] == query.dimension
    deviation = first.noise_multiplier * math.sqrt(tables)  # the tables share the noise
    both = torch.cat([each - each.mean(0) for each in (without, with_it)])
    freedom = (2 * count - 2) * query.dimension
    assert chi2.ppf(5e-7, freedom) < float(both.square().sum()) / deviation**2 < chi2.isf(5e-7, freedom)
    cells = torch.cat([torch.arange(size) == size - 1 for size in query.sizes]).double()
    seen = [each @ cells / math.sqrt(tables) for each in (without, with_it)]
    shift, error = float(seen[1].mean() - seen[0].mean()), deviation * math.sqrt(2 / count)
    assert abs(shift - math.sqrt(tables)) < 5 * error  # the canary is there, in each table
    assert (shift - 5 * error) / deviation <= 1 / first.noise_multiplier  # and no clearer than the ledger says


def test_nothing_leaves_a_stand_in_without_noise() -> None:
    stand_in = Elsewhere(PrivacyLedger(budget=1, delta=DELTA), lambda *_: torch.zeros(1))
    with pytest.raises(ConfinedError):
        stand_in.declassify(reason="a test")
    job = plan("marginals", CARD, SMALL, epsilon=EPSILON, delta=DELTA).job
    with pytest.raises(GossamerError):
        stand_in.release(job.queries[0].mechanism, None)


def test_the_loop_at_the_centre_goes_by_the_noise_of_the_sum() -> None:
    """Answers of three sites have three times the variance of one."""
    job = plan("marginals", CARD, SMALL, epsilon=EPSILON, delta=DELTA).job
    pooled = Terms.of(job, DELTA, 0, NAMES).pooled
    assert pooled.config.noise_multiplier == pytest.approx(job.config.noise_multiplier * math.sqrt(3))


@pytest.mark.parametrize(("size", "queries"), [(4_000, 3), (40, 1)])
def test_each_site_divides_its_noise_as_the_sum_has_it(size: int, queries: int) -> None:
    """Of 40 rows, the noise of the sum hides which columns depend on each other, and that of a site does not."""
    card = dataclasses.replace(CARD, declared_size=size)
    terms = Terms.of(plan("marginals", card, SMALL, epsilon=EPSILON, delta=DELTA).job, DELTA, 0, NAMES)
    ratios = [
        pooled.mechanism.noise_multiplier / own.mechanism.noise_multiplier
        for pooled, own in zip(terms.pooled.queries, terms.job.queries, strict=True)
    ]
    assert ratios == pytest.approx([math.sqrt(3)] * queries)
    assert Terms.from_json(terms.to_json()).job == terms.job


@pytest.mark.parametrize("bins", [4, 3])
def test_a_site_compares_its_tables_with_its_own_counts(bins: int) -> None:
    """Two sites whose people differ, and a model that is right for both together: the errors of each are noise, and far below
    those against its share of the tables of all."""
    cliques = [(0, 1), (1, 2)]
    sexes, ages = torch.tensor([0.5, 0.5]).double(), torch.tensor([0.3, 0.7]).double()
    every = [1_000 * torch.outer(sexes, ages), 1_000 * torch.outer(ages, sexes)]
    own = [(300 * each, torch.full((2,), 4.0).double()) for each in (sexes, torch.tensor([0.9, 0.1]).double(), sexes)]
    found = selection.of_part(cliques, every, own)
    truth = 300 * torch.outer(sexes, torch.tensor([0.9, 0.1]).double())
    assert [table.shape for table in found] == [table.shape for table in every]
    assert float((found[0] - truth).abs().sum()) < 15
    assert float((0.3 * every[0] - truth).abs().sum()) > 300
    assert float((found[1] - truth.T).abs().sum()) < 15
    job = plan("marginals", CARD, {**SMALL, "bins": bins}, epsilon=EPSILON, delta=DELTA).job
    run = Run(job.config.resolved(CARD), CARD, Rng(), queries=job.queries)
    answer = torch.cat([torch.full((size,), 300 / size) for size in first_query(run).sizes]).double()
    state = job.begin(Rng()).state
    (first,) = of_site(dataclasses.replace(run, answered=(answer, 1.0)), state, [(0, 1)], [torch.full((2, 4), 75.0)])
    assert float(first.sum()) == pytest.approx(300, rel=0.05)  # of 600 rows in the model
