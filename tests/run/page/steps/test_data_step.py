"""How the records are read: the options that commands get, before and after the records are divided."""

from dataclasses import replace

import pytest

from gossamer.run.page.jobs import Jobs
from gossamer.run.page.opened import DataSet, Opened
from gossamer.run.page.steps.data import look, reading_flags, units_of


@pytest.fixture
def scans(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "scans" / "benign").mkdir(parents=True)
    return DataSet(id="1", data=str(tmp_path / "scans"), folder=folder, units="owners.csv")


def test_records_that_are_not_divided_have_the_units_that_were_named(scans):
    assert units_of(scans) == "owners.csv"
    assert scans.used == scans.data


def test_the_parts_of_pictures_have_a_list_of_their_own(scans):
    """`split` writes the ids of the pictures that it copies beside them."""
    (scans.folder / "parts").mkdir()
    assert units_of(scans) == "owners.csv", "folders of patients are copied as they are"
    (scans.folder / "parts" / "units.csv").write_text("name,unit\n")
    assert units_of(scans) == str(scans.folder / "parts" / "units.csv")
    assert scans.used == str(scans.folder / "parts")


def test_the_parts_of_arrays_hold_the_ids(scans):
    (scans.folder / "parts.npz").write_bytes(b"")
    assert units_of(scans) == f"{scans.folder / 'parts.npz'}:unit"


def test_options_name_what_was_asked():
    one = DataSet(id="1", data="digits", folder=None, labels="none")
    assert reading_flags(one, "") == ["--labels-key", "none"]
    table = DataSet(id="1", data="t.csv", folder=None, header="no")
    assert reading_flags(table, "pid") == ["--units", "pid", "--no-header"]
    assert reading_flags(replace(table, header="yes"), "") == ["--header"]
    assert reading_flags(one, "folder") == ["--units", "folder", "--labels-key", "none"]


@pytest.mark.parametrize(
    "units, expected",
    [("owners.csv", "HERE/owners.csv"), ("ids.npz:who", "HERE/ids.npz:who"), (":who", ":who"), ("folder", "folder"),
     ("(P\\d+)_", "(P\\d+)_"), ("dicom:PatientID", "dicom:PatientID"), ("", "")],
)  # fmt: skip
def test_paths_are_those_of_the_page_in_the_folder_of_a_job_too(tmp_path, monkeypatch, units, expected):
    """A job works in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Jobs, "start", lambda *_, **__: None)
    (tmp_path / "scans").mkdir()
    opened = Opened(tmp_path / "state")
    data_set = opened.open("scans")
    look(opened, data_set, {"units": units, "public": "near:train", "dictionary": "words.csv", "labels": "none"})
    (kept,) = opened.all()
    assert kept.units == expected.replace("HERE", str(tmp_path))
    assert (kept.public, kept.dictionary) == (f"{tmp_path}/near:train", f"{tmp_path}/words.csv")
    look(opened, data_set, {"public": "glyphs", "units": "", "dictionary": ""})
    (kept,) = opened.all()
    assert (kept.units, kept.public, kept.dictionary, kept.labels) == ("", "glyphs", "", "none")


def test_a_column_of_a_table_is_no_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Jobs, "start", lambda *_, **__: None)
    for name in ("clinic.csv", "who.csv"):
        (tmp_path / name).write_text("who.csv,b\n1,2\n")
    opened = Opened(tmp_path / "state")
    look(opened, opened.open("clinic.csv"), {"units": "who.csv"})
    assert opened.all()[0].units == "who.csv"
