"""`gossamer demo --table`: it ends with a release that verifies, and replaces its own folder and no other."""

import functools
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gossamer.data.tables.read import read_table
from gossamer.errors import Interrupted, PrivacyError
from gossamer.events import Event, silent
from gossamer.kinds import histograms
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
    first, *figures, rows, report = shown.out.splitlines()
    assert first.startswith("Differentially private: epsilon 3.000 at delta 0.0001")
    assert rows == "synthetic rows: runs/demo-table/RELEASE/samples.csv"
    assert report == "verified; the report is runs/demo-table/RELEASE/report.html"
    (auc,) = (line for line in figures if line.startswith("AUC"))
    samples, real = (float(part.split("(")[0].split()[-1]) for part in auc.split(", real "))
    assert samples > 0.8 and real > 0.95
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


def test_the_demo_verifies_what_it_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quick twin of the first test: with steps that only say what they are given."""
    said: list[Any] = []
    certificate = SimpleNamespace(statement="Statement.")
    monkeypatch.setattr(demo, "fit", lambda *_, **named: said.append(named) or SimpleNamespace(certificate=certificate))
    monkeypatch.setattr(demo, "evaluate", lambda run, **named: said.append((run, named["train"], named["test"])))
    monkeypatch.setattr(demo, "release", lambda run, out, **named: said.append((run, out, named)))
    monkeypatch.setattr(demo, "verify", lambda out: said.append(out) or SimpleNamespace(ok=False, problems=["Forged."]))
    out = tmp_path / "here"
    with pytest.raises(PrivacyError, match="Forged"):
        demo.table_demo(out, silent)
    fitted, evaluated, released, verified = said
    assert (fitted["data"], fitted["card"], fitted["accounts"]) == (
        out / "train.csv", out / "card.toml", out / "RUN" / PRIVATE / ACCOUNTS,
    )  # fmt: skip
    assert evaluated == (out / "RUN", out / "train.csv", out / "test.csv")
    assert released == (out / "RUN", out / "RELEASE", {"samples": 2_000, "force": True}) and verified == out / "RELEASE"


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
        not low <= float(row[at]) <= high for row in values for at, (low, high, _) in enumerate(demo.BOUNDS.values())
    ]
    assert len(table) == len(values) == 400 and sum(beyond) <= len(beyond) / 50
