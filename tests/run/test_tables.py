"""Tables through the whole way: card, plan, fit, resume, sample, verify, release, on the command line and from Python."""

import csv
import dataclasses
import hashlib
import json
import math
import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from forged_sums import redo
from scipy.optimize import brentq
from scipy.stats import norm

import gossamer
from gossamer import Column, TableCard
from gossamer.data.columns.generated import GeneratedColumn
from gossamer.data.source import Source
from gossamer.data.tables.read import read_table
from gossamer.data.tables.samples import ROWS, TableSamples
from gossamer.errors import CardError, DataError, DataWarning, Interrupted, RequestError
from gossamer.events import Event
from gossamer.kinds import histograms, tables
from gossamer.methods import METHODS, Marginals
from gossamer.methods.job import Job
from gossamer.privacy.random.noise import Rng
from gossamer.run.budget.budget import budget
from gossamer.run.release import contents
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process
from gossamer.run.training.resume import resume

SECRET = "Xanthippe"
"""A value of the records that no file and no message may hold."""
COLUMNS = ["pid", "age", "sex", "bill", "income"]
SMALL = ["--rounds", "2", "--cells", "500", "--iterations", "30"]
SETTINGS: dict[str, Any] = {"rounds": 2, "cells": 500, "iterations": 30}
CARD = TableCard(
    columns=(
        Column(name="age", kind="integer", bounds=(18, 90), bins=6, outside="clip"),
        Column(name="sex", kind="category", values=("f", "m"), outside="other"),
        Column(name="bill", kind="number", bounds=(0, 1000), bins=5, decimals=2, missing=True, zero=True),
        Column(name="income", kind="category", values=("low", "high")),
    ),
    declared_size=300,
    label="income",
    unit="person",
    title="Made-up people",
    drop=(("note", "free text"),),
    generated=(
        GeneratedColumn(name="pid", kind="key", prefix="S", digits=5, place=0),
        GeneratedColumn(name="band", kind="derived", follows="age", mapping={"18": "under 65", "65": "65 and over"}),
    ),
)


def rows() -> list[list[Any]]:
    """Two rows for each of 200 persons, and one for each of 100; the income follows from the sex in nine of ten."""
    draw = np.random.default_rng(0)
    made = []
    for person in [*range(300), *range(200)]:
        sex = "fm"[draw.integers(2)]
        income = "high" if (sex == "m") ^ (draw.random() < 0.1) else "low"
        bill = ["", 0, round(draw.uniform(1, 999), 2)][draw.integers(3)]
        made.append([f"p{person}", int(draw.integers(16, 95)), sex, bill, income])
    made[0][2] = SECRET  # which becomes "other"
    return made


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, its data dictionary, and its card."""
    folder = tmp_path_factory.mktemp("table")
    with (folder / "people.csv").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *rows()])
    CARD.save(folder / "card.toml")
    return folder


@pytest.fixture(scope="module")
def run(place: Path) -> Path:
    """A finished run."""
    fit(
        "marginals",
        data=Source(place / "people.csv", units="pid"),
        card=place / "card.toml",
        epsilon=1.0,
        delta=1e-5,
        out=place / "RUN",
        **SETTINGS,
    )
    return place / "RUN"


def epsilon_of(ledger: Path, delta: float) -> float:
    """Epsilon of the reserved queries by the closed form of Gaussians (Balle, Wang 2018), from the text of the ledger alone."""
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    (plan,) = [line["reserve"] for line in lines if "reserve" in line]
    mu = math.sqrt(sum(entry["count"] / entry["event"]["noise_multiplier"] ** 2 for entry in plan))

    def beyond(epsilon: float) -> float:
        return float(norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)) - delta

    return float(brentq(beyond, 0, 50))


def test_the_whole_way_on_the_command_line(gossamer: Any, place: Path, tmp_path: Path) -> None:
    data, card, out = place / "people.csv", tmp_path / "card.toml", tmp_path / "RUN"
    dictionary = tmp_path / "dictionary.csv"
    dictionary.write_text(
        "name,kind,values,low,high,missing\nage,integer,,0,120,\nsex,category,f|m|" + SECRET + ",,,\n"
        "bill,number,,0,1000,true\nincome,category,low|high,,,\n"
    )
    drafted = gossamer("card", data, "--units", "pid", "--dictionary", dictionary, "-o", card)
    assert drafted.status == 0, drafted.err
    assert TableCard.load(card).names == ("age", "sex", "bill", "income")
    CARD.save(card)
    budget = ["--card", card, "--epsilon", 1, "--delta", 1e-5, *SMALL]
    planned = gossamer("plan", "marginals", *budget, "--json").json
    fitted = gossamer("fit", "marginals", "--data", data, "--units", "pid", *budget, "--out", out)
    assert fitted.status == 0, fitted.err
    assert fitted.out.startswith("Differentially private: epsilon 1.000 at delta 1e-05, add-or-remove-one person.")
    certificate = json.loads((out / "certificate.json").read_text())
    assert certificate["guarantee"]["epsilon"] == pytest.approx(epsilon_of(out / "ledger.jsonl", 1e-5), rel=1e-3)
    assert certificate["guarantee"]["epsilon"] == min(entry["epsilon"] for entry in planned["guarantees"]) <= 1
    for suffix in ("csv", "parquet"):
        assert gossamer("sample", out, "-n", 500, "-o", tmp_path / f"x.{suffix}", "--seed", 3).status == 0
    table = pd.read_csv(tmp_path / "x.csv")
    assert [*table] == ["pid", "age", "sex", "bill", "income", "band"]
    assert table["pid"].tolist() == [f"S{number:05}" for number in range(1, 501)]
    assert (table["band"] == np.where(table["age"] < 65, "under 65", "65 and over")).all()
    assert len(table) == 500 and set(table["income"]) == {"low", "high"} and set(table["sex"]) <= {"f", "m", "other"}
    assert table["age"].between(18, 90).all() and table["bill"].dropna().between(0, 1000).all()
    assert (table["income"] == "high")[table["sex"] == "m"].mean() > 0.5
    assert pd.read_parquet(tmp_path / "x.parquet")["sex"].tolist() == table["sex"].tolist()
    refused = gossamer("sample", out, "-n", 5, "-o", tmp_path / "x.npz")
    assert (refused.status, "as .csv or .parquet" in refused.err) == (2, True)
    release = tmp_path / "RELEASE"
    assert gossamer("release", out, "-o", release, "--samples", 40).status == 0
    for folder in (out, release):
        verdict = gossamer("verify", folder, "--json")
        assert (verdict.status, verdict.json["ok"], verdict.json["problems"]) == (0, True, [])
    assert len(pd.read_csv(release / "samples.csv")) == 40
    again = gossamer("budget", data)
    assert again.status == 0 and "1.0" in again.out
    for path in [*out.rglob("*"), *release.rglob("*")]:
        assert path.is_dir() or SECRET.encode() not in path.read_bytes(), path


def test_sentences_of_the_certificate(run: Path) -> None:
    certificate = json.loads((run / "certificate.json").read_text())
    told = certificate["assumptions"]
    for sentence in (
        "declared size: 300 persons",
        "6 columns, with the label income",
        "column pid: not learnt; samples have running numbers in it",
        "column band: not learnt; in samples it follows from column age, by 2 values that were declared without looking at the "
        "records",
        "column age: integer from 18 to 90 in at most 6 bins; a value beyond the bounds became the nearer bound",
        'column sex: 2 declared values; another value became "other"',
        "column bill: number from 0 to 1000 in at most 5 bins, and codes of their own for zero, a missing value; another value "
        "was refused as a mistake, so the run would not have begun",
        "left out of the table: note (free text)",
        "the data owner names the person of each record, matched by a column of the table, which is not learnt",
    ):
        assert sentence in told
    whose = (
        "with all records of that person: each of its m rows weighs 1/m, and at most 1, so all of them together count as at "
        "most 1. The release describes the persons, and not the rows"
    )
    assert certificate["covered"][1] == f"each person {whose}"
    assert certificate["facts"]["protects"] == f"one person {whose}"
    assert "picture" not in json.dumps(certificate)


def test_report_and_readme_speak_of_rows(run: Path, tmp_path: Path) -> None:
    release = gossamer.release(run, tmp_path / "out", samples=3)
    page, readme = (release / "report.html").read_text(), (release / "README.md").read_text()
    assert "probabilities(images)" not in readme, "it has no classifier"
    first = gossamer.Synthesizer.load(release).sample(10, seed=0).to_pandas()
    assert all(f"<td>{sex}</td>" in page for sex in first["sex"]) and page.count("<tr><td>") == 10
    assert '<th scope="col">income</th>' in page and "A histogram of each column" in page
    assert "Which columns depend on which" in page and page.count("<li><b>") == len(
        gossamer.Synthesizer.load(run).net.tree.cliques
    )
    assert page.partition('class="heat"')[2].partition("</svg>")[0].count("<text ") == 4 and ">income</text>" in page
    assert "picture" not in page and "a generator of rows with 6 columns" in readme
    assert "import load  # load.py of this folder, which needs NumPy alone" in readme
    assert "`python load.py rows.csv 1000` writes 1,000 rows." in readme
    assert "`samples.csv` holds 3 synthetic rows" in readme
    assert (release / "samples.png").read_bytes() == (run / "samples.png").read_bytes()


def test_rows_of_a_release_are_counted(run: Path, tmp_path: Path) -> None:
    """Also where the list of digests was written again."""
    release = gossamer.release(run, tmp_path / "out", samples=3)

    def put(name: str, content: bytes) -> None:
        (release / name).write_bytes(content)
        sums = [line for line in (release / "SHA256SUMS").read_text().splitlines() if not line.endswith(f"  {name}")]
        sums.append(f"{hashlib.sha256(content).hexdigest()}  {name}")
        (release / "SHA256SUMS").write_text("\n".join(sums) + "\n")

    assert gossamer.verify(release).ok
    content = (release / "samples.csv").read_bytes()
    put("samples.csv", content[: content[:-1].rindex(b"\n") + 1])
    assert "README.md is missing, or not the page that the certificate leads to." in gossamer.verify(release).problems
    put("samples.csv", content)
    put("samples.npz", b"anything")
    assert "samples.npz is not part of this release, which is of a table." in gossamer.verify(release).problems


def test_real_rows_in_a_release_are_no_samples(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples are drawn again, with a seed that follows from the model. One value of one row is enough."""
    release = gossamer.release(run, tmp_path / "out", samples=400)
    before = (release / "samples.csv").read_bytes()
    assert gossamer.verify(release).ok
    assert not any("samples.csv" in each for each in gossamer.verify(release).not_checked)
    refused = ["samples.csv is not what the generator draws with the seed of this release."]
    lines = before.split(b"\n")
    income = lines[0].split(b",").index(b"income")
    row = lines[300].split(b",")
    row[income] = b"low" if row[income] == b"high" else b"high"
    for edited in ([*lines[:300], b",".join(row), *lines[301:]], [lines[0], *lines[:0:-1][1:], b""], [*lines, b""]):
        (release / "samples.csv").write_bytes(b"\n".join(edited))
        redo(release)
        assert gossamer.verify(release).problems == refused
    version = "of another version"
    with monkeypatch.context() as patch:  # the same file elsewhere: it may be rounding
        patch.setattr(contents, "drawn_on", lambda: version)
        verdict = gossamer.verify(release)
        assert verdict.problems == []
        (said,) = (each for each in verdict.not_checked if each.startswith("samples.csv"))
        assert said.startswith(
            "samples.csv: whether the generator drew it. It differs from what is drawn here, which may be"
        )
        (release / "samples.csv").write_bytes(before)
        redo(release)
        assert not any("samples.csv" in each for each in gossamer.verify(release).not_checked), (
            "equal is equal anywhere"
        )
    with monkeypatch.context() as patch:
        patch.setattr("gossamer.data.tables.samples.ROWS", 100)
        patch.setattr(tables, "ROWS", 100)
        patch.setattr(tables, "DRAWN_AGAIN", 200)
        long = gossamer.release(run, tmp_path / "long", samples=400)
        (said,) = (each for each in gossamer.verify(long).not_checked if each.startswith("samples.csv"))
        assert said == "samples.csv: whether the generator drew it beyond the first 200."


def test_noisy_tables_of_a_release_are_those_of_its_model(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = gossamer.release(run, tmp_path / "out", tables=True)
    written = pd.read_csv(release / "tables.csv", dtype=str, keep_default_na=False)
    found = [own for _, own in written.groupby(written["table"].astype(int))]
    synthesizer = gossamer.Synthesizer.load(release)
    assert len(found) == len(synthesizer.tables()) >= 3
    for own in found:
        counts, errors = own["count"].astype(float), own["standard_error"].astype(float)
        assert abs(counts.sum() - 300) < 6 * np.sqrt((errors**2).sum()), "each table counts the 300 persons"
    first = next(own.iloc[0] for own in found if own["column_2"].iloc[0])
    asked = synthesizer.query([first["column_1"], first["column_2"]]).to_pandas().iloc[0]
    assert [first["value_1"], first["value_2"]] == asked.iloc[:2].tolist()
    assert float(first["count"]) == pytest.approx(asked["count"], rel=1e-5)
    assert (
        float(first["standard_error"]) == pytest.approx(asked["standard_error"], rel=1e-5)
        and asked["standard_error"] > 1
    )
    assert "`tables.csv` has the noisy counts that the generator was fitted to" in (release / "README.md").read_text()
    assert gossamer.verify(release).ok and not any(
        "tables.csv" in each for each in gossamer.verify(release).not_checked
    )

    lines = (release / "tables.csv").read_text().splitlines()

    def verdict(*changed: str) -> Any:
        (release / "tables.csv").write_text("\n".join([*changed, ""]))
        redo(release)
        return gossamer.verify(release)

    *cell, count, error = lines[1].split(",")
    assert verdict(lines[0], ",".join([*cell, f"{float(count) * (1 + 1e-7):.12g}", error]), *lines[2:]).ok, "rounding"
    edits = [
        [lines[0], ",".join([*cell, f"{float(count) + 0.1:.6g}", error]), *lines[2:]],
        [lines[0], ",".join([*cell, count, f"{float(error) / 2:.6g}"]), *lines[2:]],
        [lines[0], ",".join([*cell[:-1], SECRET, count, error]), *lines[2:]],
        [lines[0], ",".join([*cell, "nan", error]), *lines[2:]],
        [lines[0], ",".join([*cell, "many", error]), *lines[2:]],
        lines[:-1],
        [*lines, lines[-1]],
        [],
    ]
    for edited in edits:
        assert verdict(*edited).problems == ["tables.csv does not hold the noisy tables of model.safetensors."]
    monkeypatch.setattr(contents, "with_source", lambda: "another version")
    assert [each for each in verdict(*lines[:-1]).not_checked if each.startswith("tables.csv: whether its counts")]
    again = "is a release and is copied as it is: declare and add files when you release its RUN"
    with pytest.raises(RequestError, match=again):
        gossamer.release(release, tmp_path / "again", tables=True)


def test_from_a_frame_or_a_dict_in_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame(rows(), columns=COLUMNS)
    draft = gossamer.draft_card(Source(frame, units="pid"))
    assert 'name = "age"\nkind = "integer"\n# measured: bounds = [16, 94]' in draft.text
    assert SECRET not in "".join(line for line in draft.text.splitlines() if not line.startswith("# measured"))
    with pytest.raises(CardError, match=r"this is a draft, .* \(4 columns, such as 'age'\)") as caught:
        gossamer.fit(Marginals(**SETTINGS), data=Source(frame, units="pid"), card=draft, epsilon=2.0, delta=1e-5)
    assert "94" not in str(caught.value) + repr(draft), "no measured value"
    assert repr(draft) == "TableDraft(4 columns, to declare: 'age', 'sex', 'bill', 'income')"
    draft.save(tmp_path / "card.toml")
    assert (tmp_path / "card.toml").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "card.toml").read_text() == draft.text
    with pytest.raises(CardError, match="this is the text of a card") as caught:
        gossamer.fit(Marginals(**SETTINGS), data=Source(frame, units="pid"), card=draft.text, epsilon=2.0, delta=1e-5)
    assert "94" not in str(caught.value)
    (tmp_path / "all.csv").write_text(
        "name,kind,values,low,high,missing\nage,integer,,0,120,\nsex,category,f|m,,,\nbill,number,,0,5000,true\n"
        "income,category,low|high,,,\n"
    )
    whole = gossamer.draft_card(Source(frame, units="pid"), dictionary=tmp_path / "all.csv")
    assert whole.measured == () and whole.declared().names == ("age", "sex", "bill", "income")
    ends = []
    for data in (frame, {name: frame[name].to_numpy() for name in COLUMNS}):
        out = tmp_path / type(data).__name__
        synthesizer = gossamer.fit(
            Marginals(**SETTINGS),
            data=Source(data, units="pid"),
            card=CARD,
            epsilon=2.0,
            delta=1e-5,
            out=out,
            process=Process(rng=Rng(0, noise_seed=1), progress=False),
        )
        ends.append((out / "model.safetensors").read_bytes())
        assert synthesizer.certificate.card["column"][1]["name"] == "age"
    assert ends[0] == ends[1]
    samples = synthesizer.sample(50, seed=1)
    assert samples.codes.shape == (50, 4)
    assert synthesizer.sample(0).codes.shape == (0, 4)
    asked = synthesizer.sample(6, labels=[0, 1] * 3, seed=1)
    assert asked.columns()["income"].tolist() == ["low", "high"] * 3
    loaded = gossamer.Synthesizer.load(tmp_path / "DataFrame")
    assert loaded.sample(50, seed=1).to_pandas().equals(samples.to_pandas())
    assert "rows of 4 columns" in repr(loaded) and "<table>" in loaded._repr_html_()
    with pytest.raises(RequestError, match="whole numbers from 0 to 1"):
        synthesizer.sample(1, labels=[2])


def test_pieces_of_a_stream_are_the_samples(run: Path) -> None:
    synthesizer = gossamer.Synthesizer.load(run)
    whole, pieces = synthesizer.sample(ROWS + 5, seed=4), [*synthesizer.stream(ROWS + 5, seed=4)]
    assert [len(piece) for piece in pieces] == [ROWS, 5]
    values = [np.concatenate([piece.columns()[name] for piece in pieces]) for name in ("age", "income")]
    assert np.array_equal(values[0], whole.columns()["age"]) and np.array_equal(values[1], whole.columns()["income"])
    fresh = [synthesizer.sample(50).columns()["age"].tolist() for _ in range(2)]
    assert fresh[0] != fresh[1]


def interrupted_after(count: int) -> Callable[[Event], None]:
    """A sink that stops a run at a step, as Ctrl-C does."""
    seen = [0]

    def sink(event: Event) -> None:
        seen[0] += event.kind == "step"
        if event.kind == "step" and seen[0] == count:
            os.kill(os.getpid(), signal.SIGINT)

    return sink


def test_resume_equals_an_unbroken_run(place: Path, tmp_path: Path) -> None:
    def begin(out: str, **more: Any) -> None:
        fit(
            "marginals",
            data=Source(place / "people.csv", units="pid"),
            card=CARD,
            epsilon=1.0,
            delta=1e-5,
            out=tmp_path / out,
            **SETTINGS,
            process=Process(rng=Rng(0, noise_seed=5), **more),
        )

    begin("whole", progress=False)
    for count in (1, 3):
        with pytest.raises(Interrupted):
            begin(f"stopped{count}", sink=interrupted_after(count))
        out = tmp_path / f"stopped{count}"
        assert not (out / "certificate.json").exists()
        resume(out, process=Process(progress=False, rng=Rng(0, noise_seed=5)))
        assert (out / "model.safetensors").read_bytes() == (tmp_path / "whole" / "model.safetensors").read_bytes()
        assert gossamer.verify(out).problems == gossamer.verify(tmp_path / "whole").problems


def test_a_run_on_a_query_of_a_database_is_resumed(place: Path, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "t.db") as connection:
        pd.read_csv(place / "people.csv").to_sql("people", connection, index=False)
    records = f"{tmp_path}/t.db?query=select * from people where pid is not null"
    with pytest.raises(Interrupted):
        fit(
            "marginals",
            data=Source(records, units="pid"),
            card=CARD,
            epsilon=1.0,
            delta=1e-5,
            out=tmp_path / "out",
            **SETTINGS,
            process=Process(sink=interrupted_after(1)),
        )
    resume(tmp_path / "out", process=Process(progress=False))
    assert gossamer.verify(tmp_path / "out").ok


def test_a_run_is_not_resumed_on_other_rows(place: Path, tmp_path: Path) -> None:
    data = tmp_path / "copy.csv"
    data.write_text((place / "people.csv").read_text())
    with pytest.raises(Interrupted):
        fit(
            "marginals",
            data=Source(data, units="pid"),
            card=CARD,
            epsilon=1.0,
            delta=1e-5,
            out=tmp_path / "out",
            **SETTINGS,
            process=Process(sink=interrupted_after(2)),
        )
    head, first, *rest = data.read_text().splitlines()
    other = "high" if first.endswith(",low") else "low"
    data.write_text("\n".join([head, f"{first.rpartition(',')[0]},{other}", *rest, ""]))
    with pytest.raises(DataError, match="is not what it was when the run began"):
        resume(tmp_path / "out", process=Process(progress=False))


def test_a_copy_at_another_place_with_another_card_adds_up(place: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.csv"
    copy.write_text(
        "\n".join(sorted((place / "people.csv").read_text().splitlines(), key=lambda line: line[:3] != "pid"))
    )
    few = dataclasses.replace(CARD, columns=(dataclasses.replace(CARD.columns[0], bins=2), CARD.columns[3]))
    log: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "accounts": tmp_path / "log", **SETTINGS}
    fit("marginals", data=Source(place / "people.csv", units="pid"), card=CARD, out=tmp_path / "1", **log)
    with pytest.warns(DataWarning, match="Columns that the card does not name were left out, by position from 1: 3, 4"):
        fit("marginals", data=Source(copy, units="pid"), card=few, out=tmp_path / "2", **log)
    report = budget(str(copy), accounts=tmp_path / "log")
    assert [Path(entry.charge.folder).name for entry in report.account.entries] == ["1", "2"]


def test_a_card_of_the_other_kind_is_refused_by_every_method(gossamer: Any, place: Path, tmp_path: Path) -> None:
    pictures = tmp_path / "pictures.toml"
    pictures.write_text("shape = [1, 28, 28]\nclasses = 2\ndeclared_size = 300\n")
    for name, method in METHODS.items():
        card, other = (place / "card.toml", "a table") if method.takes == "pictures" else (pictures, "pictures")
        budget = [] if method.without_guarantee else ["--epsilon", 1, "--delta", 1e-5]
        for command in (
            ["plan", name, "--card", card, *budget],
            ["fit", name, "--data", place / "people.csv", "--card", card, *budget, "--out", tmp_path / "never"],
        ):
            answer = gossamer(*command)
            assert (answer.status, answer.out) == (2, "")
            assert answer.err.startswith(f"gossamer: {name} does not take {other}, which the card describes. Choose")
            assert ("such as marginals" in answer.err) == (other == "a table")
            assert answer.err.count("\n") == 1
    assert not (tmp_path / "never").exists()
    with pytest.raises(CardError, match="moments does not take a table, which the card describes"):
        Job.of(METHODS["moments"], {"noise_multiplier": 1.0}, CARD)


def test_what_is_not_built_for_tables_is_refused_in_a_sentence(
    gossamer: Any, place: Path, run: Path, tmp_path: Path
) -> None:
    data, card = place / "people.csv", place / "card.toml"
    for command, told in (
        (["audit", "marginals", "--epsilon", 1, "--final"], "--final compares weights: leave it out"),
        (
            ["fit", "marginals", "--data", data, "--card", card, "--units", "pid", "--epsilon", 1, "--delta", 1e-5, "--out",
             tmp_path / "out", "--public", data],
            "has no use for public records",
        ),
        (
            ["fit", "marginals", "--data", data, "--card", card, "--epsilon", 1, "--delta", 1e-5, "--out", tmp_path / "out"],
            "Give --units: the name of the column that holds the id of each row's unit.",
        ),
        (
            ["fit", "marginals", "--data", data, "--card", card, "--units", "pid", "--epsilon", 1, "--delta", 1e-5, "--out",
             tmp_path / "out", "--labels-key", "income"],
            "--labels-key: this is for pictures, and the data are a table",
        ),
    ):  # fmt: skip
        answer = gossamer(*command)
        assert (answer.status, answer.out, told in answer.err, answer.err.count("\n")) == (2, "", True, 1), answer.err
        assert SECRET not in answer.err
    assert not (tmp_path / "out").exists()


def test_values_that_the_card_refuses_are_not_quoted(gossamer: Any, place: Path, tmp_path: Path) -> None:
    card = tmp_path / "card.toml"
    card.write_text((place / "card.toml").read_text().replace('outside = "other"', 'outside = "refuse"'))
    answer = gossamer(
        "fit", "marginals", "--data", place / "people.csv", "--card", card, "--units", "pid", "--epsilon", 1, "--delta", 1e-5,
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert answer.status == 2 and "column 'sex'" in answer.err and SECRET not in answer.err
    assert not (tmp_path / "out").exists()


def test_split_of_a_table_is_by_person_and_fit_reads_it(gossamer: Any, place: Path, tmp_path: Path) -> None:
    answer = gossamer("split", place / "people.csv", "--units", "pid", "-o", tmp_path / "parts")
    assert answer.status == 0 and f"gossamer fit --data {tmp_path / 'parts'} --units pid" in answer.out
    parts = [pd.read_csv(tmp_path / "parts" / f"{side}.csv") for side in ("train", "test")]
    assert not set(parts[0]["pid"]) & set(parts[1]["pid"]) and sum(map(len, parts)) == 500
    assert len(read_table(Source(tmp_path / "parts", units="pid"), CARD)) == len(parts[0])
    assert gossamer("card", tmp_path / "parts").status == 0
    (tmp_path / "parts" / "images").mkdir()  # pictures beside a list of them
    assert gossamer("card", tmp_path / "parts").status == 2


def test_a_wide_table_is_drawn_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names with signs that a drawing library takes for formulas, and with letters that its font lacks."""
    monkeypatch.setattr(histograms, "MOST_DRAWN", 4)
    names = [f"$col_{at}^{{$ 列" for at in range(6)]
    card = TableCard(columns=tuple(Column(name=n, kind="category", values=("a", "b")) for n in names), declared_size=40)
    codes = np.random.default_rng(0).integers(2, size=(40, len(names))).astype(np.int32)
    assert histograms.png(TableSamples(codes, card)).startswith(b"\x89PNG")


def test_the_card_of_the_documentation_is_one() -> None:
    page = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    (shown,) = [block for block in page.split("```toml\n")[1:] if "[[column]]" in block.split("```")[0]]
    card = TableCard.loads(shown.split("```")[0])
    assert (card.names, card.label) == (("age", "bill", "ill"), "ill")
    assert Job.of(METHODS["marginals"], {"noise_multiplier": 1.0}, card).plan


def test_samples_that_meet_conditions(gossamer: Any, run: Path, tmp_path: Path) -> None:
    """Conditions on one column are alternatives, and all columns with one must meet theirs."""
    out = tmp_path / "some.csv"
    words = ["sample", run, "-n", 300, "-o", out, "--where", "sex=m", "--where", "age=30..41", "--where", "age=77"]
    told = gossamer(*words)
    assert told.status == 0, told.err
    with out.open() as file:
        made = list(csv.DictReader(file))
    ages = {int(row["age"]) for row in made}
    assert len(made) == 300 and {row["sex"] for row in made} == {"m"}
    assert ages <= {*range(30, 42), 77} and 77 in ages and len(ages) > 10
    refused = gossamer("sample", run, "-n", 3, "-o", tmp_path / "none.csv", "--where", "sexx=m")
    assert (refused.status, "Did you mean 'sex'?" in refused.err) == (2, True)
    assert not (tmp_path / "none.csv").exists()


def test_labels_by_name_are_refused_with_what_takes_names(run: Path) -> None:
    synthesizer = gossamer.Synthesizer.load(run)
    with pytest.raises(RequestError, match="Or give none; of a table, `where`"):
        synthesizer.sample(2, labels="yes")  # type: ignore[arg-type]  # what a user writes
    with pytest.raises(RequestError, match="of a table, give `where`"):
        synthesizer.sample(2, label="yes")
