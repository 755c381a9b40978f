"""How a run is measured: with the units of a table, and quickly where the form offers it."""

import json

import pytest

from gossamer.run.page.jobs import Jobs
from gossamer.run.page.opened import DataSet
from gossamer.run.page.steps.judge import measure

TABLE = {"column": [{"name": "sex", "kind": "category", "values": ["f", "m"]}], "declared_size": 60, "unit": "patient"}
PICTURES = {"shape": [1, 28, 28], "classes": 2, "declared_size": 60, "unit": "patient"}


@pytest.mark.parametrize(
    ("card", "form", "words"),
    [
        (TABLE, {}, ["--units", "patient"]), (PICTURES, {}, []),
        (PICTURES, {"quick": "1"}, ["--protocol", "reduced", "-n", "1000"]),
    ],
)  # fmt: skip
def test_units_are_those_of_a_table(tmp_path, monkeypatch, card, form, words):
    """`evaluate` refuses units of pictures."""
    said = []
    monkeypatch.setattr(Jobs, "start", lambda _, *words, about: said.extend(words))
    (tmp_path / "run-1").mkdir()
    (tmp_path / "run-1" / "config.json").write_text(json.dumps({"card": card}))
    data_set = DataSet(id="1", data="clinic.csv", folder=tmp_path, units="patient")
    assert measure(None, data_set, {"run": "run-1", **form}) == "judge?run=run-1"
    assert said == ["evaluate", str(tmp_path / "run-1"), "--train", "clinic.csv", "--test", "clinic.csv", *words]
