"""The table of results, and which runs a file has already."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_table_scores import DATA

from benchmarks.tables import __main__ as program
from benchmarks.tables.show import HEAD, markdown


def result(seed: int, **more: object) -> dict[str, object]:
    figures = {"accuracy": 0.8, "auc": 0.9, "tv1": 0.01, "tv2": 0.02, "tv3": 0.03, "cpu": 1.0, "wall": 2.0}
    return {"data": "toy", "method": "m", "epsilon": 1.0, "seed": seed, "settings": {}, **figures, **more}


def test_seeds_are_averaged_and_settings_and_errors_are_shown(tmp_path: Path):
    file = tmp_path / "results"
    broken = {"data": "toy", "method": "n", "epsilon": 10.0, "seed": 0, "settings": {"size": 2}, "error": "no memory"}
    lines = [result(0), result(1, auc=0.8, cpu=3.0), broken]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert markdown([file]) == "\n".join(
        [
            HEAD,
            "| toy | m | 1 | 80.0% | .850 | .010/.020/.030 | 2 | 2 |",
            "| toy | n size=2 | 10 | no memory |  |  |  | 1 |",
        ]
    )


def test_a_run_that_a_file_has_is_not_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(program, "load", lambda name, *, held_out: replace(DATA, name=name))
    monkeypatch.setattr(program.own, "samples", lambda method, data, epsilon, seed, settings: data.seen)
    words = ["--methods", "real", "fresh", "privae", "--epsilon", "1", "--seeds", "0", "-o", str(tmp_path / "results")]
    program.main(words)
    real, fresh, privae = map(json.loads, capsys.readouterr().out.splitlines())
    assert (real["method"], real["epsilon"], real["seed"], real["tv2"]) == ("real", None, None, 0)
    assert "auc" not in fresh, "the rows that a model learns from are no test of it"
    assert (privae["epsilon"], privae["seed"], privae["auc"]) == (1, 0, real["auc"])
    program.main(words)
    assert capsys.readouterr().out == ""
    program.main([*words, "--seeds", "1"])
    assert len((tmp_path / "results").read_text().splitlines()) == 4


def test_shuffled_rows_keep_each_column_and_lose_the_dependence():
    made = program.without_training("shuffled", DATA)
    for column in range(3):
        np.testing.assert_array_equal(np.bincount(made[:, column]), np.bincount(DATA.seen[:, column]))
    assert abs((made[:, 1] == made[:, 2]).mean() - 0.5) < 0.1
