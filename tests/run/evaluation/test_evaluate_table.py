"""`gossamer evaluate` and `gossamer compare` on a table of persons with several rows, on the command line and from Python."""

import csv
import functools
import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import ensemble

import gossamer as package
from gossamer import Column, TableCard
from gossamer.data.columns.generated import GeneratedColumn
from gossamer.data.tables.read import read_table
from gossamer.data.tables.table import Table
from gossamer.errors import DataWarning
from gossamer.metrics.tables import registry
from gossamer.run.evaluation.evaluate import lines
from gossamer.run.storage.run_folder import READINGS
from gossamer.run.training.fit import fit

CARD = TableCard(
    columns=(
        Column(name="age", kind="integer", bounds=(18, 89), bins=6, outside="clip"),
        Column(name="sex", kind="category", values=("f", "m"), outside="other"),
        Column(name="bill", kind="number", bounds=(0, 1000), bins=5, decimals=2, missing=True, zero=True),
        Column(name="income", kind="category", values=("low", "high")),
    ),
    declared_size=300,
    label="income",
    unit="person",
    generated=(
        GeneratedColumn(name="pid", kind="key"),
        GeneratedColumn(name="group", kind="derived", follows="income", mapping={"low": "A", "high": "B"}),
    ),
)
SECRET = "Xanthippe"
QUIET = package.Process(progress=False)


def rows(seed: int) -> list[list[Any]]:
    """Two rows for each of 150 persons, and one for each of 50; the income follows from the sex in nine of ten."""
    draw = np.random.default_rng(seed)
    made = []
    for person in [*range(200), *range(150)]:
        sex = "fm"[draw.integers(2)]
        income = "high" if (sex == "m") ^ (draw.random() < 0.1) else "low"
        made.append([f"p{person}", int(draw.integers(18, 90)), sex, ["", 0, 321.5][draw.integers(3)], income])
    made[0][2] = SECRET
    return made


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with train.csv and test.csv, a card, and a finished run."""
    folder = tmp_path_factory.mktemp("tables")
    (folder / "parts").mkdir()
    for seed, side in enumerate(("train", "test")):
        with (folder / "parts" / f"{side}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["pid", *CARD.names], *rows(seed)])
    CARD.save(folder / "card.toml")
    fit(
        "marginals", data=package.Source(folder / "parts", units="pid"), card=CARD, epsilon=2.0, delta=1e-5,
        out=folder / "RUN", rounds=2, cells=500, iterations=30, process=QUIET,
    )  # fmt: skip
    return folder


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few trees and few queries: these tests are about what is compared with what."""
    few = functools.partial(ensemble.HistGradientBoostingClassifier, max_iter=12)
    monkeypatch.setattr(ensemble, "HistGradientBoostingClassifier", few)
    monkeypatch.setattr(registry, "QUERIES", 40)


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    """A copy of that folder."""
    return Path(shutil.copytree(made, tmp_path / "place"))


@pytest.fixture
def asked(place: Path) -> list[object]:
    """The words of a command that end before the metrics."""
    parts = place / "parts"
    return ["evaluate", place / "RUN", "--train", parts, "--test", parts, "--units", "pid", "-n", 400]


def test_all_metrics_of_a_run(gossamer: Any, place: Path, asked: list[object], tmp_path: Path) -> None:
    answer = gossamer(*asked, "--metrics", "all", "--subgroups", "sex, income")
    assert answer.status == 0, answer.err
    entries = {entry["metric"]: entry for entry in json.loads((place / "RUN" / "metrics.json").read_text())}
    assert {*entries} >= {
        *(f"{order}-way TV" for order in (1, 2, 3)),
        "error of range queries", "accuracy", "AUC", "log loss of the real-data baseline", "columns that differ",
        "tell-apart AUC", "share difference, sex = f", "accuracy difference, income = high",
    }  # fmt: skip
    assert all(entry["internal"] is True for entry in entries.values())
    assert 0.8 < entries["accuracy"]["value"] < 1 and 0.8 < entries["accuracy of the real-data baseline"]["value"] < 1
    assert entries["accuracy"]["n"] == 200  # persons, each of whom counts once
    assert (place / "RUN" / "metrics.json").stat().st_mode & 0o077 == 0
    (reading,) = [json.loads(line) for line in (place / "RUN" / "checkpoint" / READINGS).read_text().splitlines()]
    assert reading["evaluate"][-1] == "subgroups" and reading["train"] == str(place / "parts")

    page = (place / "RUN" / "report.html").read_text()
    assert page.count('class="beside"') == len(CARD.columns), "the worst five, of four"
    pairs = entries["2-way TV"]["pairs"]
    assert [pair[:2] for pair in pairs] == [[*pair] for pair in itertools.combinations(CARD.names, 2)]
    assert np.mean([pair[2] for pair in pairs]) == pytest.approx(entries["2-way TV"]["value"], abs=1e-4)
    assert page.count('class="heat"') == 2 and f"<title>age, sex: {pairs[0][2]:.3g}</title>" in page
    released = package.release(place / "RUN", tmp_path / "out") / "report.html"
    assert released.read_text().count('class="heat"') == 1, "that of the model"
    assert "How far each pair" in page and "How far each pair" not in released.read_text()
    for told in (
        "2-way total variation 0.",
        "Its floor, what real test rows have:",
        "ranks a test row with a label",
        "Subgroups:",
        "sex = f",
    ):
        assert told in page
    assert (place / "RUN" / "report.html").stat().st_mode & 0o077 == 0
    assert gossamer("release", place / "RUN", "-o", tmp_path / "RELEASE").status == 0
    for path in (tmp_path / "RELEASE").rglob("*"):
        assert path.is_dir() or not {b"total variation", b"way TV"} & {
            word for word in (b"total variation", b"way TV") if word in path.read_bytes()
        }
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()


def test_the_figures_are_about_persons_and_not_rows(place: Path) -> None:
    """Real rows weigh 1/m: the share of a value is that of persons, counted here with pandas."""
    parts = package.Source(str(place / "parts"), units="pid")
    found = package.evaluate(
        place / "RUN", train=parts, test=parts, count=400, seed=3, metrics="columns", process=QUIET
    )
    table = pd.read_csv(place / "parts" / "test.csv")
    weights = 1 / table.groupby("pid")["pid"].transform("size")
    real = {(each["column"], each["figure"]): each["real"] for each in found.columns}
    assert real["income", 'share of "high"'] == pytest.approx(weights[table.income == "high"].sum() / weights.sum())
    assert real["bill", "missing"] == pytest.approx(weights[table.bill.isna()].sum() / weights.sum())
    assert real["age", "mean"] == pytest.approx(np.average(table.age, weights=weights))
    assert found.to_frame().columns.tolist() == ["metric", "value", "low", "high", "n", "computed_on", "internal"]


def test_a_release_a_file_and_a_table_in_memory(
    gossamer: Any, place: Path, asked: list[object], tmp_path: Path
) -> None:
    assert gossamer("release", place / "RUN", "-o", tmp_path / "RELEASE", "--samples", 400).status == 0
    before = sorted(path.name for path in (tmp_path / "RELEASE").iterdir())
    asked[1] = tmp_path / "RELEASE"
    assert gossamer(*asked, "--metrics", "marginals", "-o", tmp_path / "m.json").status == 0
    assert sorted(path.name for path in (tmp_path / "RELEASE").iterdir()) == before
    asked[1] = tmp_path / "RELEASE" / "samples.csv"
    told = gossamer(*asked)
    assert (told.status, "is a table: give its card with --card" in told.err) == (2, True)
    of_file = gossamer(*asked, "--card", place / "card.toml", "--json")
    assert of_file.status == 0, of_file.err
    names = [entry["metric"] for entry in of_file.json["metrics"]]
    assert "accuracy" in names and "columns that differ" in names

    frames = {side: pd.read_csv(place / "parts" / f"{side}.csv") for side in ("train", "test")}
    with_units = {side: package.Source(frame, units="pid") for side, frame in frames.items()}
    in_memory = package.evaluate(asked[1], card=place / "card.toml", process=QUIET, **with_units)
    assert {entry["metric"]: entry["value"] for entry in in_memory.metrics} == {
        entry["metric"]: entry["value"] for entry in of_file.json["metrics"]
    }
    codes = {
        side: read_table(package.Source(str(place / "parts"), units="pid"), CARD, split=side)  # type: ignore[arg-type]  # a word
        for side in ("train", "test")
    }
    assert all(isinstance(table, Table) for table in codes.values())
    with pytest.warns(DataWarning, match="their numbers follow from the bins of the card"):
        tables = package.evaluate(asked[1], card=place / "card.toml", process=QUIET, **codes)  # with units of their own
    assert [entry["metric"] for entry in tables.metrics] == names


def test_compare_shows_tables_side_by_side(gossamer: Any, place: Path, asked: list[object], tmp_path: Path) -> None:
    shutil.copytree(place / "RUN", place / "RUN2")
    for run in ("RUN", "RUN2"):
        asked[1] = place / run
        assert gossamer(*asked, "--metrics", "marginals,accuracy", "--subgroups", "sex").status == 0
    answer = gossamer("compare", place / "RUN", place / "RUN2", "--metric", "2-way TV", "-o", tmp_path / "plot.svg")
    assert answer.status == 0, answer.err
    lines = answer.out.splitlines()
    assert any(line.startswith("2-way TV ") for line in lines) and "Do not compare" not in answer.out
    assert "sex = f" not in answer.out
    assert "2-way TV" in (tmp_path / "plot.svg").read_text()


def test_requests_that_do_not_fit_are_refused_in_a_sentence(
    gossamer: Any, place: Path, asked: list[object], tmp_path: Path
) -> None:
    without_units = [word for word in asked if word not in ("--units", "pid")]
    for words, told in (
        (
            [*asked, "--metrics", "fid"],
            "there is no metric 'fid' for tables. Known: all, columns, marginals, ranges",
        ),
        (
            [*asked, "--metrics", "marginal"],
            "there is no metric 'marginal' for tables. Did you mean 'marginals'? Known: all, columns",
        ),
        ([*asked, "--protocol", "reduced"], "--protocol is for pictures, and"),
        ([*asked, "--labels-key", "x"], "--labels-key: this is for pictures, and the data are a table"),
        (without_units, "Give --units: the name of the column"),
        ([*asked, "--subgroups", "sexx"], "there is no column 'sexx'. Did you mean 'sex'?"),
        ([*asked, "--metrics", "subgroups"], "no columns are named. Name them with --subgroups"),
    ):
        answer = gossamer(*words)
        assert (answer.status, answer.out, told in answer.err, answer.err.count("\n")) == (2, "", True, 1), answer.err
        assert SECRET not in answer.err
    assert not (place / "RUN" / "metrics.json").exists()


def test_arguments_for_tables_are_refused_of_pictures(gossamer: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", images=np.zeros((40, 8, 8), np.uint8), labels=np.arange(40) % 2)
    words = ["evaluate", tmp_path / "x.npz", "--train", tmp_path / "x.npz", "--test", tmp_path / "x.npz"]
    answer = gossamer(*words, "--units", "pid")
    assert (answer.status, "--units is for tables, and" in answer.err, "is of pictures" in answer.err) == (
        2,
        True,
        True,
    )
    answer = gossamer(*words, "--metrics", "tell-apart")
    assert (
        answer.status,
        "there is no metric 'tell-apart' for pictures. Known: all, accuracy, inception-score" in answer.err,
    ) == (
        2,
        True,
    )


def test_training_rows_are_no_test_rows(gossamer: Any, place: Path, asked: list[object]) -> None:
    """The rule of `attack`: in any order. A table of other rows with the same number of rows is no copy."""
    asked[5] = f"{place / 'parts'}:train"
    answer = gossamer(*asked, "--metrics", "columns")
    assert (answer.status, answer.out) == (2, "") and "--test: these are the training rows" in answer.err
    train = pd.read_csv(place / "parts" / "train.csv")
    shuffled = package.Source(train.sample(frac=1, random_state=0), units="pid")
    with pytest.raises(package.errors.DataError, match="these are the training rows"):
        package.evaluate(place / "RUN", train=package.Source(train, units="pid"), test=shuffled, process=QUIET)


def figure(column: str, times: float, words: str) -> dict[str, Any]:
    return {"column": column, "times": times, "words": words}


def test_a_terminal_shows_the_worst_five_columns_and_what_real_rows_have() -> None:
    figures = [figure(f"c{k}", 9.0 - k, f"median {k}, real 0 (0 to 0)") for k in range(7)]
    figures += [
        figure("c0", 3, "zeros 0.0 %, real 18.0 % (17.0 to 19.0 %)"),
        figure("c9", 1.9, "mean 1, real 2 (1 to 3)"),
    ]
    plain = {"low": 0.5, "high": 0.75, "n": 9, "computed_on": "on rows"}
    entries = [
        {"metric": "columns that differ", "value": 0.5, **plain, "figures": figures},
        {"metric": "AUC", "value": 0.625, **plain},
        {"metric": "AUC of the real-data baseline", "value": 0.75, **plain},
    ]
    head, first, *others = lines(entries)
    assert head == "Columns that differ most from real test rows, 5 of 7:"
    assert first == "c0: median 0, real 0 (0 to 0); zeros 0.0 %, real 18.0 % (17.0 to 19.0 %)"
    assert [line[:2] for line in others[:4]] == ["c1", "c2", "c3", "c4"] and others[4] == ""
    assert others[6:] == ["AUC                    0.625 (0.5 to 0.75), real 0.75 (0.5 to 0.75)  on rows"]
    nothing = [{**entries[0], "figures": figures[-1:]}]
    assert lines(nothing)[0] == "No column differs clearly from real test rows."
