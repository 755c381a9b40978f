"""`gossamer demo`: it ends with a release that verifies, and replaces its own folder and no other."""

import functools
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gossamer.data.tables.read import read_table
from gossamer.errors import Interrupted
from gossamer.events import Event, note, progress
from gossamer.kinds import histograms
from gossamer.metrics.metric import of_baseline
from gossamer.privacy.budget_log import BudgetLog
from gossamer.run.cli import demo
from gossamer.run.release.verify import verify
from gossamer.run.storage.run_folder import ACCOUNTS, PRIVATE
from gossamer.run.training.fit import fit


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A small model without its picture, in a folder of its own."""
    monkeypatch.setattr(histograms, "png", lambda _: b"\x89PNG")
    monkeypatch.setattr(demo, "fit", functools.partial(fit, rounds=1, cells=300, iterations=5))
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_the_demo_of_a_table(gossamer: Any, state_home: Path) -> None:
    shown = gossamer("demo", "--table")
    assert shown.status == 0, shown.err
    assert shown.err.splitlines()[-1] == "3/3 a release with 2,000 synthetic records"
    lines = shown.out.splitlines()
    assert len(lines) + 3 <= 25 and max(map(len, lines)) <= 80
    assert lines[1].split()[-1] == "diagnosis"
    assert {line.split()[-1] for line in lines[2:12]} == {"malignant", "benign"}
    shares = [float(line.rpartition(" ")[2].removesuffix("%")) for line in lines if "real test rows right" in line]
    assert shares[0] > 80 and shares[1] > 90 and 55 < shares[2] < 70
    assert lines[-3] == "verified: runs/demo-table/RELEASE (report.html explains it)"
    out = Path("runs/demo-table")
    assert [verify(out / name).problems for name in ("RUN", "RELEASE")] == [[], []]
    assert len((out / "RELEASE/samples.csv").read_text().splitlines()) == 2_001
    assert len(BudgetLog(out / "RUN" / PRIVATE / ACCOUNTS).read().entries) == 1
    assert list(state_home.iterdir()) == []
    (out / "notes.txt").write_text("mine")
    refused = gossamer("demo", "--table")
    assert (refused.status, refused.err.count("\n")) == (2, 1)
    assert refused.err.startswith("gossamer: runs/demo-table holds something other than a run of this demo")
    assert (out / "RELEASE/samples.csv").exists() and (out / "notes.txt").read_text() == "mine"


def test_ctrl_c_leaves_a_run_that_the_next_demo_replaces(tmp_path: Path) -> None:
    def stop(event: Event) -> None:
        if event.kind == "step":
            os.kill(os.getpid(), signal.SIGINT)

    for _ in range(2):
        with pytest.raises(Interrupted, match="resume"):
            demo.table_demo(tmp_path / "here", stop)
        assert not (tmp_path / "here/RUN/certificate.json").exists()
        assert not (tmp_path / "here/RELEASE").exists()


def figures() -> list[dict[str, Any]]:
    return [
        {"metric": name, "value": share}
        for name, share in (("accuracy", 0.9), (of_baseline("accuracy"), 0.95), ("accuracy of guessing", 0.1))
    ]


@pytest.mark.parametrize("make", [demo.demo, demo.table_demo])
def test_a_demo_releases_what_it_trained(make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick twin of the first test: with steps that only say what they are given, and with notes that nobody sees."""
    said: list[Any] = []
    shown: list[Event] = []
    digits = SimpleNamespace(images=np.zeros((10, 1, 28, 28), np.uint8))
    monkeypatch.setattr(demo.Samples, "grid_of", lambda *_: digits)
    monkeypatch.setattr(demo, "row_texts", lambda _: [("1",) * 11])

    def step(name: str, result: Any) -> Any:
        def record(*given: Any, **named: Any) -> Any:
            said.append((name, given, named))
            if "process" in named:
                named["process"].sink(note("a long note on other records"))
                named["process"].sink(progress("training", 1, 2))
            return result

        return record

    monkeypatch.setattr(demo, "fit", step("fit", SimpleNamespace(classes=10, sample=lambda *_, **__: None)))
    monkeypatch.setattr(demo, "evaluate", step("evaluate", SimpleNamespace(metrics=figures())))
    monkeypatch.setattr(demo, "attack", step("attack", SimpleNamespace(attacks=[])))
    monkeypatch.setattr(demo, "release", step("release", None))
    out = tmp_path / "here"
    lines = make(out, shown.append)
    given = {name: (words, named) for name, words, named in said}
    assert given["fit"][1]["accounts"] == out / "RUN" / PRIVATE / ACCOUNTS
    assert given["release"][0] == (out / "RUN", out / "RELEASE")
    assert given["fit"][1]["data"] == (out / "train.csv" if make is demo.table_demo else "digits")
    assert [event.values["text"][:4] for event in shown if event.kind == "note"] == [
        f"{at + 1}/{len(given)} " for at in range(len(given))
    ]
    assert lines[-3] == f"verified: {out / 'RELEASE'} (report.html explains it)"
    (percents,) = [[line.split()[-1] for line in lines if "right, " in line]]
    assert percents == ["90.0%", "95.0%", "10.0%"]


@pytest.mark.parametrize("width, across", [(80, 5), (120, 10)])
def test_digits_in_blocks_fit_the_terminal(monkeypatch: pytest.MonkeyPatch, width: int, across: int) -> None:
    """Light: the upper left quarter of the first digit, the right half of the second, and one quarter of a character."""
    monkeypatch.setenv("COLUMNS", str(width))
    images = np.zeros((10, 28, 28), np.uint8)
    images[0, 2:14, 4:14] = 255
    images[1, :, 14:] = 255
    images[2, 2:4, 4] = 128
    lines = demo._in_blocks(images)
    assert len(lines) == 6 * 10 // across and max(map(len, lines)) <= width
    assert lines[0] == f"{'█' * 5}{' ' * 12}{'█' * 5}  ▘" and lines[5] == f"{' ' * 17}{'█' * 5}"


def test_a_table_leaves_out_columns_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    rows = [("one", "two", "three", "label"), ("1", "2", "3", "malignant")]
    assert demo._fitting(rows) == ["one  two  label", "1    2    malignant"]
    monkeypatch.setenv("COLUMNS", "80")
    assert demo._fitting(rows)[0] == "one  two  three  label"


def test_a_folder_with_another_card_or_run_is_refused(gossamer: Any, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    (taken / "RUN").mkdir(parents=True)
    assert gossamer("demo", "--table", "--out", taken).status == 2
    (taken / "card.toml").write_text(demo.TABLE_CARD.dumps())
    (taken / "RUN" / "letter.txt").write_text("mine")
    assert gossamer("demo", "--table", "--out", taken).status == 2
    assert (taken / "RUN" / "letter.txt").read_text() == "mine" and not (taken / "train.csv").exists()
    file = tmp_path / "file"
    file.write_text("mine")
    assert gossamer("demo", "--table", "--out", file).status == 2 and file.read_text() == "mine"


def test_no_row_of_the_demo_is_outside_the_bounds_but_by_a_little(tmp_path: Path) -> None:
    """The card was rounded by hand: at most one value in fifty becomes a bound."""
    demo.write_rows(tmp_path)
    table = read_table(tmp_path / "train.csv", demo.TABLE_CARD)
    values = [line.split(",") for line in (tmp_path / "train.csv").read_text().splitlines()[1:]]
    beyond = [
        not each.bounds[0] <= float(row[at]) <= each.bounds[1]
        for row in values
        for at, each in enumerate(demo.TABLE_CARD.columns[:-1])
    ]
    assert len(table) == len(values) == 400 and sum(beyond) <= len(beyond) / 50
