"""The list of data sets: what may be opened, where the page writes, and what it refuses to touch."""

import json

import pytest

from gossamer.errors import RequestError
from gossamer.run.page.opened import Opened


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "clinic.csv"
    path.write_text("a,b\n1,2\n")
    return path


@pytest.fixture
def opened(tmp_path):
    return Opened(tmp_path / "state")


def test_opening_makes_one_private_folder_beside_the_records(opened, table, tmp_path):
    data_set = opened.open(str(table))
    assert data_set.folder == tmp_path / "clinic-gossamer"
    assert data_set.folder.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "state" / "page.json").stat().st_mode & 0o777 == 0o600
    assert opened.open(str(table)) == data_set, "opened twice, listed once"
    assert opened.all() == [data_set] and opened.get(1) == data_set
    assert Opened(tmp_path / "state").get(1) == data_set, "another page finds it"


def test_embedded_digits_have_a_folder_where_the_page_was_started(opened, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    digits = opened.open("digits")
    assert (digits.data, digits.folder, digits.is_divided) == ("digits", tmp_path / "digits-gossamer", True)


def test_what_was_asked_about_reading_is_kept(opened, table):
    data_set = opened.change(opened.open(str(table)), {"units": "a", "number": "7", "folder": "/"})
    assert (data_set.units, data_set.number) == ("a", 1)
    assert opened.get(1) == data_set


@pytest.mark.parametrize("data", ["", "no such file", "/proc/nothing"])
def test_records_that_are_not_there_are_refused(opened, data):
    with pytest.raises(RequestError, match="There is nothing at"):
        opened.open(data)
    assert opened.all() == []


def test_a_folder_with_other_files_is_refused(opened, table, tmp_path):
    with pytest.raises(RequestError, match="holds other files"):
        opened.open(str(table), str(tmp_path))
    inside = tmp_path / "scans"
    (inside / "a").mkdir(parents=True)
    with pytest.raises(RequestError, match="lies in the records"):
        opened.open(str(inside), str(inside / "results"))
    assert sorted(path.name for path in inside.iterdir()) == ["a"]


@pytest.mark.parametrize(
    "name", ["..", ".", "", "jobs", "run-1/..", "../clinic.csv", "run-x", "run-2", "run-1\n", "/etc"]
)
def test_only_runs_and_releases_of_the_data_set_can_be_named(opened, table, name):
    data_set = opened.open(str(table))
    (data_set.folder / "run-1").mkdir()
    assert data_set.child("run-1") == data_set.folder / "run-1"
    with pytest.raises(RequestError, match="no such run or release"):
        data_set.child(name)


def test_a_link_to_elsewhere_is_no_run(opened, table, tmp_path):
    data_set = opened.open(str(table))
    (tmp_path / "secret").mkdir()
    (data_set.folder / "run-1").symlink_to(tmp_path / "secret")
    with pytest.raises(RequestError, match="no such run or release"):
        data_set.child("run-1")


def test_new_runs_are_numbered_on(opened, table):
    data_set = opened.open(str(table))
    for name in ("run-2", "run-10", "release-4"):
        (data_set.folder / name).mkdir()
    assert data_set.new("run").name == "run-11"
    assert data_set.new("release").name == "release-5"
    assert [path.name for path in data_set.releases()] == ["release-4"]


@pytest.mark.parametrize("text", ["", "{", "[{}]", '[{"data": 1}]', '{"a": 1}'])
def test_a_damaged_list_counts_as_empty(opened, table, tmp_path, text):
    opened.open(str(table))
    (tmp_path / "state" / "page.json").write_text(text)
    assert opened.all() == []
    with pytest.raises(RequestError, match="No data set of this number"):
        opened.get(1)
    assert opened.open(str(table)).number == 1
    assert len(json.loads((tmp_path / "state" / "page.json").read_text())) == 1


@pytest.mark.parametrize(
    "names, divided",
    [
        (["train", "test"], True),
        (["train-images-idx3-ubyte", "t10k-images-idx3-ubyte"], True),
        (["train"], False),
        (["a", "b"], False),
    ],
)
def test_divided_folders_are_known(opened, tmp_path, names, divided):
    folder = tmp_path / "scans"
    for name in names:
        (folder / name).mkdir(parents=True)
    assert opened.open(str(folder)).is_divided is divided
