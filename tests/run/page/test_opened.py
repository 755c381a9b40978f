"""The list of data sets: what may be opened, where the page writes, and what it refuses to touch."""

import json
import os
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from gossamer.data.source import Source
from gossamer.errors import DataError, RequestError
from gossamer.kinds import kind_of_records
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
    (tmp_path / "state").mkdir(mode=0o755)
    data_set = opened.open(str(table))
    assert data_set.folder == tmp_path / "clinic-gossamer"
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert data_set.folder.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "state" / "page.json").stat().st_mode & 0o777 == 0o600
    assert opened.open(str(table)) == data_set, "opened twice, listed once"
    assert opened.all() == [data_set] and opened.get(data_set.id) == data_set
    assert Opened(tmp_path / "state").get(data_set.id) == data_set, "another page finds it"


def test_embedded_digits_have_a_folder_where_the_page_was_started(opened, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    digits = opened.open("digits")
    assert (digits.data, digits.folder, digits.is_divided) == ("digits", tmp_path / "digits-gossamer", True)


def test_the_word_of_a_data_set_cannot_be_guessed(opened, table, tmp_path):
    """It is in its addresses and in its folder: nobody else's folder holds it."""
    words = {opened.open(str(table), str(tmp_path / f"results-{number}")).id for number in range(20)}
    assert len(words) == 20 and all(len(bytes.fromhex(word)) == 8 for word in words)
    for word in ("1", "0", "", *(word[:-1] for word in words)):
        with pytest.raises(RequestError, match="No data set of this address"):
            opened.get(word)


def strangers(folder, word="0123456789abcdef"):
    """A folder of results as an archive of somebody else may hold it."""
    for name in ("jobs", "run-1", "release-1"):
        (folder / name).mkdir(parents=True)
    for name in ("card.toml", "draft.toml", "signing-key.pem", "page.json"):
        (folder / name).write_text("theirs")
    (folder / "page-id").write_text(word)
    return folder


def test_a_folder_that_came_with_the_records_is_not_taken(opened, table, tmp_path):
    folder = strangers(tmp_path / "clinic-gossamer")
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(RequestError, match=r"may be a stranger's\. Move it away, or name another folder"):
        opened.open(str(table))
    assert opened.all() == [], "no address of the page leads to it"
    assert sorted(path.name for path in folder.iterdir()) == before
    data_set = opened.open(str(table), str(tmp_path / "mine"))
    assert sorted(path.name for path in data_set.folder.iterdir()) == ["page-id"]


def test_a_folder_that_took_the_place_of_the_own_one_is_not_taken(opened, table, tmp_path):
    """The list still knows the path."""
    data_set = opened.open(str(table))
    data_set.folder.rename(tmp_path / "old")
    with pytest.raises(RequestError, match=r"is gone\. Open the records again"):
        opened.get(data_set.id)
    strangers(data_set.folder)
    for ask in (lambda: opened.get(data_set.id), lambda: opened.open(str(table))):
        with pytest.raises(RequestError, match="was not made by your page"):
            ask()
    shutil.rmtree(data_set.folder)
    data_set.folder.symlink_to(tmp_path / "old")
    for ask in (lambda: opened.get(data_set.id), lambda: opened.open(str(table))):
        with pytest.raises(RequestError, match=r"is a link\. Remove the link"):
            ask()
    data_set.folder.unlink()
    assert opened.open(str(table)) == data_set, "a new, empty folder"
    shutil.rmtree(data_set.folder)
    (tmp_path / "old").rename(data_set.folder)
    assert opened.get(data_set.id) == data_set


def test_a_link_to_elsewhere_is_no_folder_for_results(opened, table, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "clinic-gossamer").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RequestError, match="is a link"):
        opened.open(str(table))
    (tmp_path / "elsewhere").rmdir()
    with pytest.raises(RequestError, match="cannot be made"):
        opened.open(str(table))
    assert opened.all() == []


@pytest.mark.parametrize("made", [False, True])
def test_a_folder_of_another_user_is_not_taken(opened, table, tmp_path, monkeypatch, made):
    """It is refused while it is empty too: its owner could put things into it later."""
    data_set = opened.open(str(table)) if made else None
    (tmp_path / "clinic-gossamer").mkdir(exist_ok=True)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(RequestError, match=r"belongs to another user\. Name another folder"):
        opened.open(str(table))
    if data_set is not None:
        with pytest.raises(RequestError, match="belongs to another user"):
            opened.get(data_set.id)


def test_without_the_list_a_folder_is_a_strangers(opened, table, tmp_path):
    """So is a copy on another machine: its list does not know the folder."""
    opened.open(str(table))
    with pytest.raises(RequestError, match="was not made by your page"):
        Opened(tmp_path / "other state").open(str(table))
    (tmp_path / "state" / "page.json").unlink()
    with pytest.raises(RequestError, match="If its runs are yours, the commands still take them"):
        opened.open(str(table))


def test_two_data_sets_never_share_a_folder(opened, table, tmp_path):
    (tmp_path / "other.csv").write_text("a,b\n")
    folder = opened.open(str(table)).folder
    with pytest.raises(RequestError, match="was not made by your page for these records"):
        opened.open(str(tmp_path / "other.csv"), str(folder))


def test_many_tabs_at_once_lose_nothing(opened, tmp_path):
    """Each tab gets its own data set, and each change stays."""
    names = [f"t{number}" for number in range(8)]
    for name in names:
        (tmp_path / f"{name}.csv").write_text("a,b\n1,2\n")

    def use(name):
        own = Opened(tmp_path / "state")
        data_set = own.open(str(tmp_path / f"{name}.csv"))
        own.change(data_set.id, {"units": name})
        return own.get(data_set.id)

    with ThreadPoolExecutor(8) as threads:
        used = list(threads.map(use, names))
    assert [(each.name, each.units) for each in used] == [(f"{name}.csv", name) for name in names]
    assert sorted(opened.all(), key=lambda each: each.data) == used
    assert len({each.id for each in used}) == 8


def test_what_was_asked_about_reading_is_kept(opened, table):
    before = opened.open(str(table))
    opened.change(before.id, {"units": "a", "id": "7", "folder": "/"})
    data_set = opened.get(before.id)
    assert (data_set.units, data_set.id, data_set.folder) == ("a", before.id, before.folder)
    assert opened.get(before.id) == data_set


@pytest.mark.parametrize("data", ["", "no such file", "/proc/nothing"])
def test_records_that_are_not_there_are_refused(opened, data):
    with pytest.raises(RequestError, match="There is nothing at"):
        opened.open(data)
    assert opened.all() == []


def test_a_folder_with_other_files_is_refused(opened, table, tmp_path):
    with pytest.raises(RequestError, match="was not made by your page"):
        opened.open(str(table), str(tmp_path))
    inside = tmp_path / "scans"
    (inside / "a").mkdir(parents=True)
    with pytest.raises(RequestError, match="lies in the records"):
        opened.open(str(inside), str(inside / "results"))
    with pytest.raises(RequestError, match="lies in the records"):
        opened.open("/")
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
    before = opened.open(str(table))
    (tmp_path / "state" / "page.json").write_text(text)
    assert opened.all() == []
    with pytest.raises(RequestError, match="No data set of this address"):
        opened.get(before.id)
    assert opened.open(str(table), str(tmp_path / "new")).id != before.id
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


def test_a_database_with_linked_tables_opens_as_a_whole(tmp_path):
    with closing(sqlite3.connect(tmp_path / "clinic.db")) as database:
        for name, columns in {"patients": "patient, sex", "visits": "patient, day"}.items():
            database.execute(f"create table {name} ({columns})")
    opened = Opened(tmp_path / "state").open(str(tmp_path / "clinic.db"))
    assert kind_of_records(opened.data).columns(Source(opened.data), name="", header=None) == ["patient"]
    assert opened.folder == tmp_path / "clinic-gossamer"


def test_one_table_of_a_database_has_a_folder_of_its_own(tmp_path):
    with closing(sqlite3.connect(tmp_path / "clinic.db")) as database:
        for name in ("patients", "visits"):
            database.execute(f"create table {name} (patient, day)")
    opened = Opened(tmp_path / "state")
    with pytest.raises(DataError, match="The tables are: patients, visits"):
        opened.open(str(tmp_path / "clinic.db"))
    assert not (tmp_path / "clinic-gossamer").exists(), "refused before a folder is made"
    visits = opened.open(f"{tmp_path}/clinic.db?table=visits")
    assert visits.data == f"{tmp_path}/clinic.db?table=visits"
    assert visits.folder == tmp_path / "clinic-visits-gossamer"
    assert opened.open(f"'{tmp_path}/clinic.db?table=patients'").folder == tmp_path / "clinic-patients-gossamer"
