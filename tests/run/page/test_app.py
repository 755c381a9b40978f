"""The steps of the page, each called as a browser calls it. Commands run in this process, as on the command line."""

import contextlib
import io
import itertools
import re
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from forms import dicom_bytes
from page_client import Client, send
from starlette.datastructures import QueryParams

from gossamer.data.card import meanings
from gossamer.data.tables import any_card
from gossamer.errors import RequestError
from gossamer.kinds import all_kinds
from gossamer.privacy.budget_log import DataSetBudget
from gossamer.privacy.certificate.declarations import QUESTIONS
from gossamer.run.budget.budget import BudgetReport
from gossamer.run.cli.main import main
from gossamer.run.page import app
from gossamer.run.page.app import STEPS, application
from gossamer.run.page.jobs import Jobs, PageJob
from gossamer.run.page.opened import Opened
from gossamer.run.page.steps import protection, release, train
from gossamer.run.release import signing
from gossamer.run.release.verify import verify

ROWS = ["patient,sex,age,ill"] + [
    f"P{n // 2},{'fm'[n % 2]},{20 + n % 50},{'yes' if n % 3 else 'no'}" for n in range(600)
]
FACTS = {
    "title": "Visits", "data_set": "clinic", "declared_size": "240", "unit": "patient", "label": "ill", "max_rows": "1",
    "missing_unit": "refuse", "column.0.kind": "category", "column.0.values": "f|m", "column.1.kind": "integer",
    "column.1.low": "0", "column.1.high": "120", "column.2.kind": "category", "column.2.values": "no|yes",
}  # fmt: skip


CARD = {
    "title": "Visits", "data_set": "clinic", "declared_size": 240, "unit": "patient", "label": "ill",
    "column": [
        {"name": "sex", "kind": "category", "values": ["f", "m"]}, {"name": "age", "kind": "integer", "bounds": [0, 120]},
        {"name": "ill", "kind": "category", "values": ["no", "yes"]},
    ],
}  # fmt: skip


def run_at_once(jobs, *words, name="", about=""):
    """In place of `Jobs.start`: the command has ended when this returns."""
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard), contextlib.suppress(SystemExit):
        main(["--events", *words])
    name = name or words[0]
    jobs._folder.mkdir(exist_ok=True)
    jobs._log(name).write_text(heard.getvalue())
    (jobs._folder / "lock").write_text(f'{{"name": "{name}", "about": "{about}", "process": 1, "started": 0}}')


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """The first data set has the address /d/1/, the next /d/2/."""
    words = itertools.count(1)
    monkeypatch.setattr("gossamer.run.page.opened.secrets", SimpleNamespace(token_hex=lambda _: str(next(words))))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Jobs, "start", run_at_once)
    return Opened(tmp_path / "state" / "gossamer")


@pytest.fixture
def client(opened):
    return Client(application(opened))


@pytest.fixture
def clinic(client, tmp_path):
    """The client, with a small table that was opened."""
    (tmp_path / "clinic.csv").write_text("\n".join(ROWS) + "\n")
    page = client.post("/open", data={"data": str(tmp_path / "clinic.csv")})
    assert page.status_code == 200
    return client


def words(page):
    """The text of a page."""
    return " ".join(re.sub(r"<[^>]+>", " ", page.text).split())


def done(page):
    """The steps that have a check mark."""
    return re.findall(r'class="done"><a href="/d/1/(\w+)["?]', page.text)


def lines_of_columns(page):
    """The line of each column, and whether the column is open."""
    found = re.findall(r'<details class="column"( open)?>\s*<summary>(.*?)</summary>', page.text, re.DOTALL)
    return [(re.sub(r"<[^>]+>", "", line), bool(is_open)) for is_open, line in found]


def test_every_step_opens_before_anything_is_done(clinic):
    for name, step in STEPS.items():
        page = clinic.get(f"/d/1/{name}")
        assert page.status_code == 200, name
        assert f'aria-current="step">{step.name.capitalize()}' in page.text
        assert "<script>" not in page.text and " style=" not in page.text, "the policy would stop it"


def test_the_way_to_the_facts(clinic, tmp_path):
    """Divide, look, declare: the card is the one that the form says."""
    page = clinic.post("/d/1/data/divide", data={"units": "patient"})
    assert re.search(r"Private figures: do not publish them train: \d+ records of \d+ persons", words(page))
    page = clinic.post("/d/1/data/look")
    assert "each person" in words(page) and "Name the column that a model is to predict" not in words(page)
    page = clinic.get("/d/1/facts")
    assert "Use 0 to 120" not in words(page)
    assert 'name="accept.' in page.text and " checked" not in page.text, "no measured value is accepted by default"
    assert lines_of_columns(page) == [
        ("sex category, needs an answer", True), ("age whole number, needs an answer", False),
        ("ill category, needs an answer", False),
    ]  # fmt: skip
    assert done(page) == ["data"]
    page = clinic.post("/d/1/facts/declare", data=FACTS | {"declared_size": ""})
    assert page.status_code == 400 and "accept the measured value" in words(page)
    assert 'value="120"' in page.text, "what was written is still there"
    accepted = FACTS | {"column.0.values": "", "accept.column.0": "1", "column.1.low": "", "column.1.high": ""}
    assert lines_of_columns(clinic.post("/d/1/facts/declare", data=accepted)) == [
        ("sex category: as measured", False), ("age whole number, needs an answer", True), ("ill category: no|yes", False),
    ]  # fmt: skip
    assert not (tmp_path / "clinic-gossamer" / "card.toml").exists()
    page = clinic.post("/d/1/facts/declare", data=FACTS)
    assert page.path == "/d/1/protection"
    assert "declared_size = 240" in (tmp_path / "clinic-gossamer" / "card.toml").read_text()
    assert done(page) == ["data", "facts"]
    assert lines_of_columns(clinic.get("/d/1/facts"))[1] == ("age whole number: 0 to 120", False)
    assert done(clinic.get("/d/1/protection?epsilon=3")) == ["data", "facts"], "compared, not chosen"
    page = clinic.get("/d/1/method?epsilon=3")
    assert done(page) == ["data", "facts", "protection"]
    assert "marginals" in words(page) and "epsilon 3" in words(page)
    page = clinic.get("/d/1/train?method=marginals&epsilon=3&delta=0.001")
    assert done(page) == ["data", "facts", "protection", "method"]
    command = re.search(r"gossamer fit marginals[^<]*", page.text)[0]
    assert "--units patient" in command and "--epsilon 3" in command and "/parts " in command


def test_epsilon_and_method_are_chosen_while_a_run_begins(clinic, monkeypatch):
    for name, chosen in (("card", []), ("fit", ["protection", "method"])):
        monkeypatch.setattr(Jobs, "last", lambda jobs, name=name: PageJob(name=name, process=1, running=True))
        assert done(clinic.get("/d/1/train")) == chosen


def test_what_epsilon_promises(clinic, monkeypatch):
    monkeypatch.setattr(protection, "_known", lambda *_: "")  # takes seconds for each delta
    clinic.post("/d/1/data/divide", data={"units": "patient"})
    clinic.post("/d/1/data/look")
    page = clinic.post("/d/1/facts/declare", data=FACTS)
    text = words(page).replace("\N{NO-BREAK SPACE}", " ")
    assert "epsilon 3 The attacker is right at most 95.3 % of the time." in text
    assert "No run has used the budget" in text
    page = clinic.post("/d/1/protection/limit", data={"limit": "4", "delta": "0.001"})
    assert "your limit 4" in words(page)
    assert done(clinic.get("/d/1/data")) == ["data", "facts"], "a limit is no choice of epsilon"
    page = clinic.post("/d/1/protection/limit", data={"limit": "many", "delta": "0.001"})
    assert page.status_code == 400 and "must be numbers" in words(page)
    page = clinic.post("/d/1/protection/limit", data={"limit": "5", "delta": "0.001"})
    assert page.status_code == 400 and "Tick the box if a larger limit is meant" in words(page)
    page = clinic.post("/d/1/protection/limit", data={"limit": "5", "delta": "0.001", "larger": "1"})
    assert "your limit 5" in words(page)
    page = clinic.get("/d/1/protection?epsilon=4&delta=0.002")
    assert "epsilon 4" in words(page) and "delta = 0.002" in words(page)


@pytest.fixture
def registry(client, tmp_path):
    """The client, with two tables that are linked by a key."""
    (tmp_path / "registry").mkdir()
    patients = [f"P{n},{'fm'[n % 2]},{1940 + n % 50}" for n in range(260)]
    visits = [f"P{n},20{20 + m}-0{1 + n % 9}-01,{'ab'[(n + m) % 3 // 2]}" for n in range(260) for m in range(n % 4)]
    for name, lines in {"patients": ["patient,sex,born", *patients], "visits": ["patient,day,state", *visits]}.items():
        (tmp_path / "registry" / f"{name}.csv").write_text("\n".join(lines) + "\n")
    page = client.post("/open", data={"data": str(tmp_path / "registry")})
    assert "Linked tables" in words(page)
    assert 'value="patient"' in page.text
    assert 'value="day"' not in page.text, "a person is named by a column of every table"
    client.post("/d/1/data/divide", data={"units": "patient"})
    return client


LINKED = {
    "title": "Registry", "data_set": "registry", "declared_size": "240", "unit": "patient", "table.patients.key": "patient",
    "table.visits.parent": "patients", "table.visits.parent_key": "patient", "table.visits.order": "day",
    "table.visits.label": "state", "table.visits.max_rows": "5", "column.0.kind": "category", "column.0.values": "f|m",
    "column.1.kind": "integer", "column.1.low": "1900", "column.1.high": "2020", "column.2.kind": "date",
    "column.2.low": "2020-01-01", "column.2.high": "2024-12-31", "column.3.kind": "category", "column.3.values": "a|b",
}  # fmt: skip


def test_linked_tables_have_a_form_of_their_own(registry, tmp_path):
    page = registry.post("/d/1/data/look")
    assert "patients 2 columns visits, of patients 2 columns" in words(page)
    assert "visits patient day state P" in words(page), "the first rows of each table"
    page = words(registry.get("/d/1/facts"))
    assert "visits Each row belongs to a row of patients, by the column patient." in page
    assert "Use the measured value: 3 . I declare" in page, "the most rows of a patient"
    page = registry.post("/d/1/facts/declare", data=LINKED | {"table.visits.max_rows": "", "column.1.low": "x"})
    assert page.status_code == 400
    assert {"table.visits.max_rows-wrong", "column.1.low-wrong"} <= set(
        re.findall(r'class="wrong" id="(.*?)"', page.text)
    )
    assert registry.post("/d/1/facts/declare", data=LINKED).path == "/d/1/protection"
    card = any_card.load_card(tmp_path / "registry-gossamer" / "card.toml")
    assert card.names == ("patients", "visits")
    visits = card.tables[card.names.index("visits")]
    assert (visits.max_rows, visits.order, visits.card.label, visits.card.columns[1].values) == (
        5,
        "day",
        "state",
        ("a", "b"),
    )
    page = registry.get("/d/1/train?method=marginals&epsilon=3&delta=0.001")
    assert "No earlier run has used these records" in words(page) and "--units" not in page.text, "keys say it"


@pytest.mark.slow
def test_the_whole_way_of_linked_tables(registry, tmp_path):
    """From two CSV files with a key to a signed release that `verify` accepts."""
    for where, form in (
        ("data/look", {}), ("facts/declare", {**LINKED, "accept.all": "1"}),
        ("train/start", {"method": "marginals", "epsilon": "3", "delta": "0.001"}),
        ("judge/measure", {"run": "run-1"}), ("judge/attack", {"run": "run-1", "quick": "1"}),
        ("release/make", {"run": "run-1", "samples": "50", "made_by": "me"}), ("release/sign", {"release": "release-1"}),
    ):  # fmt: skip
        assert registry.post(f"/d/1/{where}", data=form).status_code == 200, where
    page = words(registry.get("/d/1/judge"))
    assert "visits: A classifier" in page and "Attack again" in page
    page = registry.get("/d/1/release?release=release-1&check=1")
    assert "Signed and verified." in words(page)
    assert "The first synthetic rows of visits.csv patient day state" in words(page)
    assert registry.get("/d/1/file/release-1/samples.zip").headers["content-type"] == "application/zip"
    archive = zipfile.ZipFile(io.BytesIO(release.zipped(tmp_path / "registry-gossamer" / "release-1")))
    archive.extractall(tmp_path / "sent")
    assert verify(tmp_path / "sent/release-1", key=str(tmp_path / "state/gossamer/signing-key.pem.pub")).ok


@pytest.mark.slow
def test_the_whole_way_of_a_table(clinic, tmp_path):
    """From a CSV file to a signed release that `verify` accepts."""
    for where, form in (
        ("data/divide", {"units": "patient"}), ("data/look", {}), ("facts/declare", FACTS),
        ("train/start", {"method": "marginals", "epsilon": "3", "delta": "0.001"}),
        ("judge/measure", {"run": "run-1"}), ("judge/attack", {"run": "run-1", "quick": "1"}),
    ):  # fmt: skip
        assert clinic.post(f"/d/1/{where}", data=form).status_code == 200, where
    assert "Differentially private: epsilon 3" in words(clinic.get("/d/1/train"))
    assert done(clinic.get("/d/1/data")) == ["data", "facts", "protection", "method", "train", "judge"]
    page = words(clinic.get("/d/1/judge"))
    assert "GAN-Leaks, calibrated The attacker accuses records that are closer to a sample" in page
    assert re.search(r"After learning from the samples it gets \d+\.\d.% of test records right", page)
    assert "Always guessing the most frequent label" in page
    assert "May you publish these figures? Yes, this one." in page and "And all others on this page? No." in page
    assert page.count("Private figures: do not publish them") >= 3
    page = clinic.post("/d/1/release/make", data={"run": "run-1", "samples": "50", "made_by": "me", "expires": "soon"})
    assert page.status_code == 400 and "YYYY-MM-DD" in words(page)
    assert not (tmp_path / "clinic-gossamer" / "declared.toml").exists()
    page = clinic.post("/d/1/release/make", data={"run": "run-1", "samples": "50", "made_by": "me"})
    assert "Release-1" in words(page) and "The first synthetic rows sex age ill" in words(page)
    assert "What is promised, and to whom" in words(page) and "|---|" not in page.text, "the README is rendered"
    page = clinic.post("/d/1/release/sign", data={"release": "release-1"})
    assert "Signed and verified." in words(page)
    assert "Release-1 is signed and verified." in words(clinic.get("/d/1/runs"))
    archive = zipfile.ZipFile(io.BytesIO(release.zipped(tmp_path / "clinic-gossamer" / "release-1")))
    archive.extractall(tmp_path / "sent")
    assert verify(tmp_path / "sent/release-1", key=str(tmp_path / "state/gossamer/signing-key.pem.pub")).ok
    assert clinic.get("/d/1/file/release-1/release-1.zip").headers["content-type"] == "application/zip"
    assert clinic.get("/d/1/file/run-1/run-1.zip").status_code == 404, "a run has private files"
    rows = clinic.get("/d/1/file/release-1/samples.csv")
    assert (rows.headers["content-type"], rows.text.count("\n")) == ("text/csv; charset=utf-8", 51)
    again = clinic.get("/d/1/train?method=marginals&epsilon=3&delta=0.001")
    assert "With this run, all runs use epsilon 6.000 together, at most." in words(again)
    folder, state = tmp_path / "clinic-gossamer", tmp_path / "state" / "gossamer"
    assert verify(folder / "release-1", key=str(state / "signing-key.pem.pub")).ok
    assert (state / "signing-key.pem").stat().st_mode & 0o777 == 0o600
    assert state.stat().st_mode & 0o777 == 0o700 and list(folder.rglob("*.pem*")) == []
    page = clinic.get("/d/1/runs")
    assert '<a href="/d/1/judge?run=run-1">run-1</a>' in page.text
    assert re.search(r"run-1 : \S+ marginals, finished 3.000", words(page))
    assert "all runs together 3.000" in words(page), "a bound is rounded up"
    assert clinic.get("/d/1/file/run-1/samples.png").headers["content-type"] == "image/png"
    report = clinic.get("/d/1/file/run-1/report.html")
    assert "script" not in report.headers["content-security-policy"]


@pytest.mark.parametrize(
    "path",
    ["/d/2/data", "/d/0/data", "/d/1/nothing", "/d/1/file/run-1/samples.png", "/d/1/file/jobs/card.jsonl", "/static/app.py",
     "/d/1/file/..%2F/samples.png", "/d/1/file/run-1/..%2F..%2Fclinic.csv", "/d/1/judge?run=../state"],
)  # fmt: skip
def test_what_was_not_opened_is_refused(clinic, tmp_path, path):
    page = clinic.get(path)
    assert page.status_code in (200, 404) if "judge" in path else page.status_code == 404
    assert "P1," not in page.text and str(tmp_path / "state") not in page.text


def test_a_file_that_is_no_sample_and_no_report_is_refused(clinic, tmp_path):
    run = tmp_path / "clinic-gossamer" / "run-1"
    (run / "checkpoint").mkdir(parents=True)
    (run / "checkpoint" / "source.json").write_text("secret")
    (run / "config.json").write_text("secret")
    (run / "samples.png").symlink_to(tmp_path / "clinic.csv")
    for name in ("checkpoint", "checkpoint%2Fsource.json", "config.json", "samples.png"):
        page = clinic.get(f"/d/1/file/run-1/{name}")
        assert page.status_code == 404 and "secret" not in page.text and "P1" not in page.text


def test_nothing_that_came_with_the_records_is_shown_or_used(client, opened, tmp_path):
    """An archive may bring a folder of results, with runs, releases, a card and a key."""
    (tmp_path / "clinic.csv").write_text("\n".join(ROWS) + "\n")
    folder = tmp_path / "clinic-gossamer"
    for name in ("jobs", "run-1", "release-1"):
        (folder / name).mkdir(parents=True)
        (folder / name / "samples.png").write_text("theirs")
    for name in ("card.toml", "draft.toml", "signing-key.pem", "signing-key.pem.pub", "page.json", "page-id"):
        (folder / name).write_text("1")
    (folder / "page-id").write_text("2")
    page = client.post("/open", data={"data": str(tmp_path / "clinic.csv")})
    assert page.status_code == 400 and opened.all() == []
    assert f"{folder} was not made by your page for these records" in words(page)
    for path in ("/d/1/data", "/d/1/release", "/d/1/file/run-1/samples.png", "/d/clinic-gossamer/data"):
        assert client.get(path).status_code == 404
    assert client.post("/d/1/release/sign", data={"release": "release-1"}).status_code == 404
    page = client.post("/open", data={"data": str(tmp_path / "clinic.csv"), "folder": str(tmp_path / "mine")})
    assert page.status_code == 200 and done(page) == []
    assert "run-1" not in client.get("/d/2/train").text and "release-1" not in client.get("/d/2/release").text


def test_a_folder_that_was_exchanged_is_said_in_one_paragraph(clinic, tmp_path):
    (tmp_path / "clinic-gossamer" / "page-id").write_text("0")
    for page in (clinic.get("/d/1/release"), clinic.post("/d/1/release/sign", data={"release": "release-1"})):
        assert page.status_code == 404 and "was not made by your page for these records" in words(page)


def test_one_key_of_the_user_signs(clinic, opened, tmp_path, monkeypatch):
    """A key beside the records does not, and eight tabs at once make one key."""
    folder, used = tmp_path / "clinic-gossamer", []
    (folder / "release-1").mkdir()
    (folder / "signing-key.pem").write_text("theirs")
    monkeypatch.setattr("gossamer.run.release.release.sign", lambda run, *, key: used.append(key.read_text()))
    monkeypatch.setattr(signing, "new_key", lambda path, make=signing.new_key: (time.sleep(0.1), make(path)))
    form = QueryParams(release="release-1")
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: release.sign(opened, opened.get("1"), form), range(8)))
    made = tmp_path / "state" / "gossamer" / "signing-key.pem"
    assert used == [made.read_text()] * 8 and made.stat().st_mode & 0o777 == 0o600
    assert used[0].startswith("-----BEGIN PRIVATE KEY")


def test_many_tabs_at_once_get_each_their_own_records(client, opened, tmp_path):
    names = [f"t{number}.csv" for number in range(8)]
    for name in names:
        (tmp_path / name).write_text("\n".join(ROWS) + "\n")
    with ThreadPoolExecutor(8) as threads:
        pages = list(threads.map(lambda name: client.post("/open", data={"data": str(tmp_path / name)}), names))
    assert [re.search(r"A table: \S+", words(page))[0] for page in pages] == [
        f"A table: {tmp_path / name}" for name in names
    ]
    assert sorted(data_set.name for data_set in opened.all()) == names


@pytest.mark.parametrize("epsilon", ["-1", "0", "nan", "inf", "1e9", "0.001", "", "x"])
def test_an_epsilon_that_promises_nothing_is_refused_everywhere(clinic, opened, monkeypatch, epsilon):
    """A page that says it promises something would mislead. No limit and no run comes of it."""
    (data_set,) = opened.all()
    any_card.card_from(CARD).save(data_set.card)
    monkeypatch.setattr(protection, "_known", lambda *_: "")
    for page in (
        clinic.get(f"/d/1/protection?epsilon={epsilon}"), clinic.get(f"/d/1/method?epsilon={epsilon}"),
        clinic.get(f"/d/1/train?method=marginals&epsilon={epsilon}&delta=0.001"),
        clinic.post("/d/1/train/start", data={"method": "marginals", "epsilon": epsilon, "delta": "0.001"}),
        clinic.post("/d/1/protection/limit", data={"limit": epsilon, "delta": "0.001"}),
    ):  # fmt: skip
        assert page.status_code == 400
        assert re.search("too little for any advice|promises next to nothing|no guarantee|must be numbers", words(page))
    assert protection.used(data_set) is None and data_set.jobs.last() is None


@pytest.mark.parametrize("delta", ["0.0042", "1", "0", "-1", "nan", "x"])
def test_a_delta_that_is_not_below_one_record_is_refused_everywhere(clinic, opened, monkeypatch, delta):
    (data_set,) = opened.all()
    any_card.card_from(CARD).save(data_set.card)
    monkeypatch.setattr(protection, "_known", lambda *_: "")
    for page in (
        clinic.get(f"/d/1/protection?epsilon=3&delta={delta}"), clinic.get(f"/d/1/method?epsilon=3&delta={delta}"),
        clinic.post("/d/1/train/start", data={"method": "marginals", "epsilon": "3", "delta": delta}),
        clinic.post("/d/1/protection/limit", data={"limit": "3", "delta": delta}),
    ):  # fmt: skip
        assert page.status_code == 400
        assert re.search("is not below 1 / 240|must lie between 0 and 1|must be numbers", words(page))
    assert protection.used(data_set) is None and data_set.jobs.last() is None


TEMPLATES = Path(app.__file__).with_name("templates")


def asked_in(*names):
    """What templates ask for."""
    text = "".join((TEMPLATES / name).read_text() for name in names)
    return set(re.findall(r'{{ (?:ask|choose)\("(\w+)"', text))


@pytest.mark.parametrize("kind", all_kinds())
def test_the_form_asks_for_each_fact(kind):
    """What a form does not ask for, nobody who uses the page can declare."""
    by_reading = {"pixel_range", "window", "header", "decimal"}  # `gossamer card` takes these as options
    facts = {*meanings(any_card.CARDS[kind])} - {"drop"}
    assert asked_in("facts.html", "questions.html", f"kinds/{kind}.html") == facts - by_reading


def test_the_form_asks_for_each_declaration():
    assert asked_in("release.html") == {*QUESTIONS}


def test_what_the_page_shows_of_a_kind_is_in_a_file_of_its_own():
    """So a third kind adds a file, and no template changes."""
    asked = {name for path in TEMPLATES.glob("*.html") for name in re.findall(r"of_kind\.(\w+)\(", path.read_text())}
    own = {path.stem: set(re.findall(r"{% macro (\w+)", path.read_text())) for path in TEMPLATES.glob("kinds/*")}
    assert asked and own == dict.fromkeys(all_kinds(), asked)


def test_names_are_escaped(client, tmp_path):
    evil = tmp_path / "<script>alert(1)<"
    evil.mkdir()
    page = client.post("/open", data={"data": str(evil)})
    assert "<script>alert" not in page.text and "&lt;script&gt;alert" in page.text
    page = client.post("/open", data={"data": "<script>alert(2)"})
    assert page.status_code == 400 and "<script>alert" not in page.text


def test_an_error_that_nobody_foresaw_shows_no_value(clinic, monkeypatch):
    def fail(data):
        raise ValueError("patient P17")

    monkeypatch.setattr("gossamer.run.page.steps.data.kind_of_records", fail)
    page = clinic.get("/d/1/data")
    assert page.status_code == 500
    assert "Unexpected ValueError" in words(page) and "P17" not in page.text


def test_a_refused_job_is_said_on_the_step(clinic, monkeypatch):
    def refuse(jobs, *words, **named):
        raise RequestError("Another job works on these records.")

    monkeypatch.setattr(Jobs, "start", refuse)
    page = clinic.post("/d/1/data/divide", data={"units": "patient"})
    assert page.status_code == 400 and "Another job works" in words(page)


def test_the_message_of_a_failed_job_is_shown(clinic, tmp_path):
    (tmp_path / "clinic.csv").write_text("patient,sex\n")
    page = clinic.post("/d/1/data/divide", data={"units": "nobody"})
    assert "The last attempt ended with a message." in words(page) and "nobody" in words(page)


def test_a_run_beyond_the_limit_is_refused_in_the_words_of_the_page(clinic, opened):
    """The message names a button, and leads to it. It has no flag of the command line."""
    clinic.post("/d/1/data/divide", data={"units": "patient"})
    (data_set,) = opened.all()
    any_card.card_from(CARD).save(data_set.card)
    clinic.post("/d/1/protection/limit", data={"limit": "1", "delta": "0.001"})
    clinic.post("/d/1/train/start", data={"method": "marginals", "epsilon": "3", "delta": "0.001"})
    page = clinic.get("/d/1/train?epsilon=3")
    assert "Clinic may use epsilon 1 at delta 0.001 in all" in words(page)
    assert "raise the limit: the step Protection, “Change the limit” with its box ticked." in words(page)
    assert "--" not in words(page) and "gossamer budget" not in words(page)
    assert 'href="/d/1/protection?epsilon=3#limit">Go to Protection</a>' in page.text
    assert 'id="limit"' in clinic.get("/d/1/protection?epsilon=3").text
    plan = "/d/1/train?method=marginals&delta=0.001&epsilon="
    told = words(clinic.get(f"{plan}3"))
    assert "This run will be refused, before it uses anything." in told and "The last attempt" in told
    for within in (words(clinic.get(f"{plan}1")), told):
        assert ("The last attempt" in within) == ("will be refused" in within), "what is over is not said again"


def test_a_heading_comes_before_the_records_are_read(clinic, monkeypatch):
    """It has the same steps as the whole page. What comes after it is the rest of that page."""
    whole = clinic.get("/d/1/data").text
    monkeypatch.setattr(app, "_SOON", 0)
    parts, asked = [], STEPS["data"].module.show

    def show(data_set, query):
        time.sleep(1.2)
        return asked(data_set, query)

    monkeypatch.setattr(STEPS["data"].module, "show", show)
    text = send(clinic._app, "/d/1/data", parts=parts).text
    heading, line, rest = whole.partition("</h1>")
    seen = [f'<p class="waiting" role="status">Gossamer looks at these records: {n} s</p>' for n in (0, 1)]
    assert parts[0] == f"{heading}{line}{seen[0]}" and text == f"{heading}{line}{seen[0]}{seen[1]}{rest}"


def test_without_a_job_there_is_no_progress(clinic):
    assert clinic.get("/d/1/progress").status_code == 204


def test_the_list_shows_names_and_no_address_has_a_path(client, tmp_path):
    (tmp_path / "archive" / "scans").mkdir(parents=True)
    (tmp_path / "archive" / "results").mkdir()
    (tmp_path / "archive" / "results" / "page-id").touch()  # what the page has made of other records
    for name in ("clinic.csv", "letter.odt", ".hidden.csv"):
        (tmp_path / "archive" / name).write_text("patient\nP1\n")
    page = client.get("/")
    assert "archive/" in words(page)
    page = client.post("/browse", data={"browse": str(tmp_path / "archive")})
    assert page.path == "/browse" and page.status_code == 200
    assert "scans/ clinic.csv" in words(page)
    assert "letter" not in page.text and "hidden" not in page.text and "P1" not in page.text
    assert "href=" in page.text and not re.search(rf'(href|action)="[^"]*{tmp_path.name}', page.text)
    page = client.post("/browse", data={"browse": str(tmp_path / "nowhere")})
    assert page.status_code == 400 and "cannot be listed" in words(page)
    assert client.get(f"/browse?browse={tmp_path}").status_code == 405, "an address would stay in the history"


def test_a_data_set_leaves_the_list_and_comes_back(clinic, opened, tmp_path):
    page = clinic.post("/hide", data={"id": "1"})
    assert "Continue" not in words(page)
    assert clinic.get("/d/1/data").status_code == 200, "its folder stays"
    clinic.post("/open", data={"data": f'"{tmp_path / "clinic.csv"}"'})
    assert "Continue clinic.csv" in words(clinic.get("/"))
    assert len(opened.all()) == 1


def test_a_file_that_holds_no_records_gets_no_folder(client, tmp_path):
    (tmp_path / "passwd").write_text("root:x:0:0\n")
    page = client.post("/open", data={"data": str(tmp_path / "passwd")})
    assert page.status_code == 400 and "no table and no array" in words(page)
    assert not (tmp_path / "passwd-gossamer").exists()


def test_the_records_are_shown_to_the_owner_and_stored_nowhere(clinic, tmp_path):
    clinic.post("/d/1/data/divide", data={"units": "patient"})
    clinic.post("/d/1/data/look")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    page = clinic.get("/d/1/data")
    assert re.search(r"Private: only you see these records. patient sex age ill P\d+ [fm] \d\d (yes|no) ", words(page))
    assert "age 20 to 69" in words(page) and re.search(r"patient 2\d\d different values", words(page))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_deep_pictures_are_read_by_a_choice(client, tmp_path):
    """The header of the first file gives the choices. They hold for the draft; later commands have them from the card."""
    scans = tmp_path / "scans"
    pixels = np.random.default_rng(0).integers(0, 4096, (12, 30, 30), dtype=np.uint16)
    deep = {"BitsStored": 12, "HighBit": 11, "WindowCenter": "2000", "WindowWidth": "1000"}
    for at, each in enumerate(pixels):
        (scans / "ab"[at % 2]).mkdir(parents=True, exist_ok=True)
        (scans / "ab"[at % 2] / f"{at}.dcm").write_bytes(dicom_bytes(each, **deep))
    page = client.post("/open", data={"data": str(scans)})
    assert 'value="0 4095" checked' in page.text and 'value="window 0 4095"' in page.text
    client.post("/d/1/data/divide", data={"pixels": "0 4095"})
    client.post("/d/1/data/look", data={"pixels": "other", "pixels.other": "0 2000"})
    assert "pixel_range = [0, 2000]" in (tmp_path / "scans-gossamer" / "draft.toml").read_text()
    page = client.post("/d/1/data/look", data={"pixels": "window 0 4095"})
    assert "window = true" in (tmp_path / "scans-gossamer" / "draft.toml").read_text()
    assert 'src="data:image/png;base64,' in page.text and re.search(r"class pictures compared a \d b \d", words(page))


def test_an_address_of_a_refused_form_leads_to_its_step(clinic):
    answer = send(clinic._app, "/d/1/facts/declare")
    assert (answer.status_code, answer.headers["location"]) == (303, "/d/1/facts")


def test_all_that_is_wrong_is_said_at_once_at_its_field(clinic, tmp_path):
    clinic.post("/d/1/data/look", data={"units": "patient"})
    wrong = FACTS | {"declared_size": "many", "max_rows": "0", "column.0.values": "", "column.1.low": "x"}
    page = clinic.post("/d/1/facts/declare", data=wrong)
    said = dict(re.findall(r'<p class="wrong" id="(\S+)-wrong">(.*?)</p>', page.text))
    assert page.status_code == 400 and said.keys() == {"declared_size", "max_rows", "column.0.values", "column.1.low"}
    assert said["declared_size"].startswith("Must be a whole number") and page.text.count('aria-invalid="true"') == 4
    assert 'value="many"' in page.text and not (tmp_path / "clinic-gossamer" / "card.toml").exists()


def test_one_button_accepts_all_that_was_measured(clinic, tmp_path):
    clinic.post("/d/1/data/look", data={"units": "patient"})
    facts = {name: text for name, text in FACTS.items() if not name.endswith((".values", ".low", ".high"))}
    page = clinic.post(
        "/d/1/facts/declare",
        data=facts | {"declared_size": "", "accept.all": "1", "column.1.low": "0", "column.1.high": "120"},
    )
    assert page.path == "/d/1/protection"
    card = any_card.load_card(tmp_path / "clinic-gossamer" / "card.toml")
    assert (card.declared_size, card.columns[0].values, card.columns[1].bounds) == (300, ("f", "m"), (0, 120))


def test_a_refused_run_keeps_every_answer(clinic, opened, monkeypatch):
    (data_set,) = opened.all()
    any_card.card_from(CARD).save(data_set.card)
    monkeypatch.setattr(Jobs, "start", lambda jobs, *words, name="", about="": None)
    query = "method=marginals&epsilon=3&delta=0.001"
    monkeypatch.setattr(
        train.spending, "budget_of_records", lambda *_, **__: BudgetReport(DataSetBudget((), ("clinic",), ()), ())
    )
    answer = send(clinic._app, "/d/1/train/start", method="POST", body=query.encode())
    assert answer.headers["location"] == "/d/1/train?epsilon=3&delta=0.001&method=marginals&run=run-1"
    page = clinic.get(answer.headers["location"])
    assert "No earlier run has used these records" in words(page)
    assert re.findall(r'type="hidden" name="(\w+)" value="([^"]+)"', page.text) == [
        ("method", "marginals"), ("epsilon", "3"), ("delta", "0.001"),
    ]  # fmt: skip
    assert '/d/1/method?epsilon=3&amp;delta=0.001&amp;method=marginals"' in page.text, "the other steps know them too"


def test_a_day_that_is_past_is_no_end_of_a_release(clinic, tmp_path):
    (tmp_path / "clinic-gossamer" / "run-1").mkdir()
    page = clinic.post("/d/1/release/make", data={"run": "run-1", "samples": "0", "expires": "2020-01-01"})
    assert page.status_code == 400 and "would have expired" in words(page)


def test_a_run_is_not_handed_out(clinic, tmp_path):
    (tmp_path / "clinic-gossamer" / "run-1").mkdir()
    (tmp_path / "clinic-gossamer" / "run-1" / "secret").write_text("P1")
    page = clinic.get("/d/1/file/run-1/run-1.zip")
    assert page.status_code == 404 and "P1" not in page.text
    made = tmp_path / "clinic-gossamer" / "release-1"
    made.mkdir()
    (made / "notes.txt").write_text("P1")
    with pytest.raises(RequestError, match="is no release"):
        release.zipped(made)
    (made / "certificate.json").write_text("c")
    (made / "model.safetensors").symlink_to(tmp_path / "clinic.csv")
    (made / "SHA256SUMS").write_text("0  certificate.json\n0  model.safetensors\n")
    held = zipfile.ZipFile(io.BytesIO(release.zipped(made)))
    assert held.namelist() == ["release-1/certificate.json", "release-1/SHA256SUMS"], "no file besides, and no link"
