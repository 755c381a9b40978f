"""`gossamer compare` on run folders written by hand: what stands in its table, above all its epsilons."""

import json
from pathlib import Path
from typing import Any

import pytest

from gossamer.run.evaluation import compare as comparison
from gossamer.run.evaluation.compare import evaluated, table, unlike
from gossamer.run.report.wording import aligned

ACCURACY = {"metric": "accuracy", "value": 0.1204, "low": 0.1, "high": 0.15, "n": 10, "computed_on": "10 test records"}
DENSITY = {"metric": "density", "value": 1.23456, "low": 1.0, "high": 1.5, "n": 10, "computed_on": "10 samples"}


@pytest.fixture
def entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes the entries of runs with these epsilons, in this order."""

    def made(*epsilons: float | str, delta: float = 1e-5) -> list[dict[str, Any]]:
        guarantees = {}
        for number, epsilon in enumerate(epsilons):
            folder = tmp_path / f"run{number}"
            folder.mkdir()
            (folder / "metrics.json").write_text(json.dumps([ACCURACY, DENSITY]))
            parts = {"epsilon": epsilon, "delta": delta, "relation": "add-or-remove-one", "unit": "record"}
            guarantees[folder] = parts
        monkeypatch.setattr(comparison.RunFolder, "finished", True)
        monkeypatch.setattr(
            comparison.Certificate,
            "load",
            lambda run: type("C", (), {"method": "dpgan", "guarantee": guarantees[run]})(),
        )
        return [evaluated(run) for run in guarantees]

    return made


@pytest.mark.parametrize(
    ("epsilon", "printed"),
    [
        (9.99801, "9.999"), (9.998, "9.998"), (0.0004, "0.001"), (1e-12, "0.001"), (2.0001, "2.001"), ("inf", "infinity"),
        (0.9999999999, "1.000"),
    ],
)  # fmt: skip
def test_epsilon_is_rounded_up_as_everywhere(entries: Any, epsilon: float | str, printed: str) -> None:
    (head, row) = table(entries(epsilon), ["accuracy"])
    assert row[head.index("epsilon")] == printed
    assert float(printed.replace("infinity", "inf")) >= float(epsilon)


def test_figures_that_were_not_computed_alike_are_told_apart(entries: Any) -> None:
    """Accuracies of classifiers that learnt from 1,000 samples and from 300 stand in one table."""
    found = entries(1.0, 1.0, 3.0)
    assert unlike(found, ["accuracy", "density"]) == []
    found[1]["metrics"] = {"accuracy": {**ACCURACY, "computed_on": "10 test records, 300 samples"}}
    assert unlike(found, ["accuracy", "density"]) == ["accuracy"]


def test_each_row_holds_the_figures_of_its_own_run_by_rising_epsilon(entries: Any) -> None:
    found = entries("inf", 3.0, 1.0, delta=1.25e-6)
    found[1]["metrics"] = {"density": DENSITY}
    head, *rows = table(found, ["accuracy", "density"])
    assert head == ["run", "method", "epsilon", "delta", "accuracy", "density"]
    assert [row[:4] for row in rows] == [
        ["run2", "dpgan", "1.000", "1.25e-06"],
        ["run1", "dpgan", "3.000", "1.25e-06"],
        ["run0", "dpgan", "infinity", "1.25e-06"],
    ]
    assert [row[4] for row in rows] == ["12.04% (10.00% to 15.00%)", "-", "12.04% (10.00% to 15.00%)"]
    assert {row[5] for row in rows} == {"1.235 (1 to 1.5)"}
    assert len({line.index(rows[0][4][:4]) for line in aligned([head, rows[0], rows[2]])[1:]}) == 1


def test_a_table_too_wide_for_a_terminal_is_turned(
    gossamer: Any, entries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = entries(1.0, 2.0)
    for entry in found:
        entry["metrics"] |= {f"figure {number}": {**DENSITY, "value": number} for number in range(10)}
    monkeypatch.setattr(comparison, "evaluated", lambda run: found[int(run.name[-1])])
    lines = gossamer("compare", "run0", "run1").out.splitlines()
    assert lines[0].split() == ["run", "run0", "run1"]
    assert [line.split()[0] for line in lines[1:5]] == ["method", "epsilon", "delta", "accuracy"]
    assert max(map(len, lines)) <= 120
