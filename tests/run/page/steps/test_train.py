"""What the page knows of earlier runs before it starts one."""

from pathlib import Path

import pytest

from gossamer.data.source import Source
from gossamer.data.tables import any_card
from gossamer.kinds import histograms
from gossamer.run.budget import budget
from gossamer.run.budget.budget import budget_of_records
from gossamer.run.page.steps import train
from gossamer.run.training.fit import fit

CARD = {
    "title": "Visits", "data_set": "", "declared_size": 200,
    "column": [
        {"name": "sex", "kind": "category", "values": ["f", "m"]}, {"name": "age", "kind": "integer", "bounds": [0, 120]},
    ],
}  # fmt: skip
QUICK = {"rounds": 1, "cells": 300, "iterations": 5}


@pytest.fixture(autouse=True)
def own_log(monkeypatch, tmp_path):
    monkeypatch.setattr(histograms, "png", lambda _: b"\x89PNG")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_a_run_on_the_same_records_under_another_name_is_known(tmp_path):
    rows = [f"{'fm'[n % 2]},{20 + n % 50}" for n in range(200)]
    for name, order in (("old", rows), ("copy", rows[::-1])):
        (tmp_path / f"{name}.csv").write_text("\n".join(["sex,age", *order]) + "\n")
    (tmp_path / "other.csv").write_text("\n".join(["sex,age", *rows[1:]]) + "\n")
    named, card = any_card.card_from(CARD | {"data_set": "visits"}), any_card.card_from(CARD)
    fit("marginals", data=tmp_path / "old.csv", card=named, out=tmp_path / "run", epsilon=1.0, delta=1e-5, **QUICK)
    known = budget_of_records(Source(str(tmp_path / "copy.csv")), card)
    assert [Path(entry.charge.folder).name for entry in known.account.entries] == ["run"]
    assert "visits" in known.account.names and min(bound.guarantee.epsilon for bound in known.bounds) <= 1
    other = budget_of_records(Source(str(tmp_path / "other.csv")), card)
    assert other.account.entries == () and other.bounds == ()


def test_records_are_read_only_where_a_log_has_runs_under_other_names(tmp_path, monkeypatch):
    """And never of large records: a view of the page must not wait for them."""
    (tmp_path / "own.csv").write_text("\n".join(["sex,age", *["f,20"] * 200]) + "\n")
    (tmp_path / "other.csv").write_text("\n".join(["sex,age", *["m,30"] * 200]) + "\n")
    card = any_card.card_from(CARD)

    def known(name, **given):
        return len(budget_of_records(Source(str(tmp_path / f"{name}.csv")), card, **given).account.entries)

    fit("marginals", data=tmp_path / "own.csv", card=card, out=tmp_path / "run", epsilon=1.0, delta=1e-5, **QUICK)
    kind, read = budget.kind_of(card), []
    monkeypatch.setattr(type(kind), "read", lambda *_: read.append(1) or pytest.fail("no record is needed"))
    assert (known("own"), known("other", look=False), read) == (1, 0, [])
    with pytest.raises(pytest.fail.Exception):
        known("other")


def test_what_is_small_is_what_can_be_read_while_somebody_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(train, "SMALL", 3 * train.BLOCK)
    for number in range(3):
        (tmp_path / f"{number}.png").write_bytes(b"1")
    assert train._is_small(str(tmp_path)) and train._is_small("digits")
    (tmp_path / "3.png").write_bytes(b"1")
    assert not train._is_small(str(tmp_path)), "each file takes its time"
    (tmp_path / "table.csv").write_bytes(bytes(3 * train.BLOCK + 1))
    assert not train._is_small(str(tmp_path / "table.csv"))
