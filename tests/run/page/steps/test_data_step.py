"""How the records are read: the options that commands get, before and after the records are divided."""

from dataclasses import replace

import pytest

from gossamer.run.page.opened import DataSet
from gossamer.run.page.steps.data import reading_flags, units_of


@pytest.fixture
def scans(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "scans" / "benign").mkdir(parents=True)
    return DataSet(number=1, data=str(tmp_path / "scans"), folder=folder, units="owners.csv")


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
    one = DataSet(number=1, data="digits", folder=None, labels="none")
    assert reading_flags(one, "") == ["--labels-key", "none"]
    table = DataSet(number=1, data="t.csv", folder=None, header="no")
    assert reading_flags(table, "pid") == ["--units", "pid", "--no-header"]
    assert reading_flags(replace(table, header="yes"), "") == ["--header"]
    assert reading_flags(one, "folder") == ["--units", "folder", "--labels-key", "none"]
