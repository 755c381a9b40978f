"""croissant.json and the entry of the registry: valid, filled from the certificate and from declarations, nothing invented."""

import csv
import dataclasses
import io
import json
import shutil
import sys
import warnings
from collections.abc import Callable
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from forged_sums import redo

import gossamer
from gossamer.data.columns.column import Column
from gossamer.data.columns.generated import GeneratedColumn
from gossamer.data.tables.card import TableCard
from gossamer.errors import RequestError, RunFolderError
from gossamer.privacy.certificate.certificate import Certificate
from gossamer.privacy.certificate.declarations import NOT_DECLARED
from gossamer.run.cli.commands import release as command
from gossamer.run.release.release import release
from gossamer.run.release.texts import CROISSANT, registry_entry
from gossamer.run.release.verify import read_sums, verify
from gossamer.run.storage.run_folder import DECLARED

DECLARATIONS = {
    "made_by": 'The "data office", Ümit & Sons',
    "intended_use": "teaching <b>only</b>: it's small",
    "region": "Bavaria",
    "sector": "Healthcare",
    "licence": "CC-BY-4.0",
    "settings_chosen": "before",
    "expires": "2030-12-31",
    "epsilon_chosen": "1, by the board",
}
SCHEMA: dict[str, tuple[set[str], set[str]]] = {
    "basic": (
        {
            "name", "data_curators", "description", "intended_use", "data_product_type", "data_product_region",
            "publication_date",
        },
        {"data_product_sector"},
    ),
    "dp_variant": (set(), {"variant_name", "data_domain", "unprotected_quantities"}),
    "privacy_loss": (
        set(),
        {"privacy_unit", "privacy_unit_details", "privacy_parameters", "privacy_parameters_details"},
    ),
    "deployment_model": (
        set(),
        {
            "model_name", "model_name_details", "actors", "release_type", "release_type_details", "data_source_type",
            "data_source_type_details", "access_type", "access_type_details",
        },
    ),
    "accounting": (set(), {"post_processing", "composition"}),
    "implementation": (set(), {"preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"}),
    "administrative": ({"registry_authors"}, {"sources", "notes"}),
}  # fmt: skip
"""The required and the other fields of an entry, by its part, in the registry's schema of July 2026 (at 3e9c812)."""
CHOICES = {
    "data_product_type": {"Synthetic data"}, "variant_name": {"Approximate DP"}, "model_name": {"Central", "Federated"},
    "release_type": {"One release"}, "data_source_type": {"Static"}, "access_type": {"Non-interactive"},
    "data_product_sector": {"Technology", "Healthcare", "Education", "Government", "Energy", "Finance"},
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a table with a column of each type."""
    folder = tmp_path_factory.mktemp("clinic")
    rows = [f"{'yes' if at % 3 else 'no'},{at % 50},{at / 7:.2f},2026-01-{at % 28 + 1:02},true" for at in range(160)]
    (folder / "data.csv").write_text(
        "\n".join(["ill: now,age,dose,day,old", *rows, "no,,1.00,2026-01-01,false"]) + "\n"
    )
    columns = (
        Column(name="ill: now", kind="category", values=("yes", "no")),
        Column(name="age", kind="integer", bounds=(0, 99), bins=5, missing=True),
        Column(name="dose", kind="number", bounds=(0, 30), bins=5, decimals=2),
        Column(name="day", kind="date", bounds=(date(2026, 1, 1), date(2026, 1, 31)), bins=5),
        Column(name="old", kind="boolean"),
    )
    key = (GeneratedColumn(name="case id", kind="key"),)
    card = TableCard(columns=columns, generated=key, declared_size=160, title='Visits of "A" & <i>B</i>')
    gossamer.fit(
        "marginals", data=folder / "data.csv", card=card, out=folder / "run", accounts=folder / "log", epsilon=1.0,
        delta=1e-5, rounds=1, cells=300, iterations=5,
    )  # fmt: skip
    return folder / "run"


@pytest.fixture(scope="module")
def out(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("released")
    return release(run, folder / "out", declared=DECLARATIONS, samples=40, registry=folder / "entry.yaml")


def described(out: Path) -> dict[str, Any]:
    entries: dict[str, Any] = json.loads((out / CROISSANT).read_text(encoding="utf-8"))
    return entries


def test_croissant_names_every_other_file_with_its_digest_and_each_column_with_its_type(out: Path) -> None:
    entries, certificate = described(out), Certificate.load(out)
    assert entries["name"] == 'Synthetic records: Visits of "A" & <i>B</i>'
    assert certificate.statement in entries["description"]
    assert (entries["creator"]["name"], entries["license"]) == (DECLARATIONS["made_by"], "CC-BY-4.0")
    assert entries["rai:dataUseCases"] == [DECLARATIONS["intended_use"]]
    assert entries["rai:dataLimitations"] == certificate.facts["not_promised"]
    files = {each["contentUrl"]: each["sha256"] for each in entries["distribution"]}
    sums = read_sums(out)
    assert {*sums} - {*files} == {CROISSANT}
    assert files.items() <= sums.items()
    (table,) = entries["recordSet"]
    types = {each["name"]: each["dataType"].partition(":")[2] for each in table["field"]}
    assert types == {
        "case id": "Text", "ill: now": "Text", "age": "Integer", "dose": "Float", "day": "Date", "old": "Boolean",
    }  # fmt: skip
    assert [each["@id"] for each in table["field"] if each["name"] == "case id"] == [table["key"]["@id"]]
    (about,) = (each["description"] for each in table["field"] if each["name"] == "age")
    assert about.startswith("column age: integer from 0 to 99 in at most 5 bins")


def test_nothing_is_invented_where_nothing_is_declared(run: Path, tmp_path: Path) -> None:
    entries = described(release(run, tmp_path / "out"))
    assert not {"creator", "license", "rai:dataUseCases", "rai:dataReleaseMaintenancePlan", "recordSet"} & {*entries}


def test_mlcroissant_finds_it_valid_and_reads_the_rows(out: Path) -> None:
    mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed: pip install mlcroissant")
    with warnings.catch_warnings():  # of its own libraries
        warnings.simplefilter("ignore")
        dataset = mlcroissant.Dataset(jsonld=str(out / CROISSANT))
        rows = [*dataset.records("samples")]
    assert not dataset.metadata.ctx.issues.errors
    with (out / "samples.csv").open(encoding="utf-8", newline="") as file:
        written = [*csv.DictReader(file)]
    place = {each["name"]: each["@id"] for each in described(out)["recordSet"][0]["field"]}
    assert [row[place["dose"]] for row in rows] == [float(row["dose"]) for row in written]
    assert [row[place["ill: now"]].decode() for row in rows] == [row["ill: now"] for row in written]
    assert [f"{row[place['day']]:%Y-%m-%d}" for row in rows] == [row["day"] for row in written]


@pytest.mark.parametrize("edit", ["other words", "left out"])
def test_another_croissant_json_does_not_verify(out: Path, tmp_path: Path, edit: str) -> None:
    forged = release(out, tmp_path / "out")
    if edit == "left out":
        lines = (forged / "SHA256SUMS").read_text().splitlines(keepends=True)
        (forged / "SHA256SUMS").write_text("".join(line for line in lines if CROISSANT not in line))
        (forged / CROISSANT).unlink()
    else:
        redo(forged)
        assert verify(forged).ok, "what a forger renews is what Gossamer writes"
        text = (forged / CROISSANT).read_text(encoding="utf-8")
        (forged / CROISSANT).write_text(text.replace("epsilon 1.000", "epsilon 0.010"), encoding="utf-8")
        lines = (forged / "SHA256SUMS").read_text().splitlines()
        digest = gossamer.privacy.certificate.certificate.sha256(forged / CROISSANT)
        redone = [f"{digest}  {CROISSANT}" if line.endswith(CROISSANT) else line for line in lines]
        (forged / "SHA256SUMS").write_text("\n".join(redone) + "\n")
    assert verify(forged).problems == [f"{CROISSANT} is missing, or not the page that the certificate leads to."]


def test_an_entry_of_the_registry_has_the_fields_of_its_schema(out: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    text = (out.parent / "entry.yaml").read_text(encoding="utf-8")
    entry = yaml.safe_load(text)
    assert {name: entry[name] for name in ("status", "tier")} == {"status": "Draft", "tier": 3}
    assert entry["url_slug"] == "synthetic-records-visits-of-a-i-b-i--the-data-office-ümit-sons-" + str(
        date.today().year
    )
    assert entry["deployment"].keys() == SCHEMA.keys()
    for part, (required, others) in SCHEMA.items():
        fields = entry["deployment"][part]
        assert required <= {*fields} <= required | others, part
        for name, value in fields.items():
            assert value in CHOICES.get(name, {value} if isinstance(value, str) else [value]), name
    assert entry["deployment"]["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-5}
    basic = entry["deployment"]["basic"]
    assert (
        basic["data_curators"] == entry["deployment"]["administrative"]["registry_authors"] == [DECLARATIONS["made_by"]]
    )
    assert (basic["intended_use"], basic["data_product_region"]) == (DECLARATIONS["intended_use"], "Bavaria")
    assert entry["deployment"]["implementation"]["justification"] == "1, by the board"
    assert "Released from these records before: not declared." in text


def test_epsilon_in_the_registry_is_never_below_the_bound(out: Path) -> None:
    certificate = Certificate.load(out)
    given = dataclasses.replace(certificate, guarantee={**certificate.guarantee, "epsilon": 1.0001})
    assert "      epsilon: 1.001\n" in registry_entry(given)


def test_the_registry_gets_nothing_that_nobody_declared(run: Path, tmp_path: Path) -> None:
    declared = {name: said for name, said in DECLARATIONS.items() if name not in ("region", "made_by")}
    with pytest.raises(RequestError, match="asks for made_by, region, which only you know"):
        release(run, tmp_path / "out", declared=declared, registry=tmp_path / "entry.yaml")
    assert [*tmp_path.iterdir()] == []
    (tmp_path / "entry.yaml").write_text("mine")
    with pytest.raises(RunFolderError, match=r"entry\.yaml exists"):
        release(run, tmp_path / "out", declared=DECLARATIONS, registry=tmp_path / "entry.yaml")
    assert (tmp_path / "entry.yaml").read_text() == "mine"


def test_a_release_without_a_guarantee_is_no_deployment(out: Path) -> None:
    certificate = Certificate.load(out)
    given = dataclasses.replace(certificate, guarantee={**certificate.guarantee, "epsilon": "inf"})
    with pytest.raises(RequestError, match="without a guarantee"):
        registry_entry(given)


def test_the_readme_is_a_card_of_a_hub(out: Path, run: Path, tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    pages = [folder / "README.md" for folder in (out, release(run, tmp_path / "out"))]
    full, bare = (yaml.safe_load(page.read_text(encoding="utf-8").split("---\n")[1]) for page in pages)
    assert full["pretty_name"] == 'Synthetic records: Visits of "A" & <i>B</i>'
    assert (full["license"], "license" in bare) == ("cc-by-4.0", False)
    assert full["configs"] == [{"config_name": "default", "data_files": "samples.csv"}]
    assert (bare["viewer"], "configs" in bare) == (False, False)
    guarantee = {"epsilon": "1.000", "delta": "1e-05", "relation": "add-or-remove-one", "unit": "record"}
    assert full["privacy"] == bare["privacy"] == guarantee
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed: pip install huggingface_hub")
    for kind in (hub.DatasetCard, hub.ModelCard):
        assert kind.load(out / "README.md").data.to_dict()["privacy"] == guarantee


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """A function that lets a person at a terminal answer. Returns what was asked, later."""

    def answer(text: str) -> list[str]:
        questions: list[str] = []
        lines = io.StringIO(text)
        monkeypatch.setattr(command, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))

        def prompt(about: str, **_: Any) -> str:
            questions.append(about.partition(":")[0])
            return lines.readline().rstrip("\n")

        monkeypatch.setattr("click.prompt", prompt)
        return questions

    return answer


def test_release_asks_once_on_a_terminal_and_remembers(
    gossamer: Callable[..., Any], run: Path, tmp_path: Path, asked: Callable[[str], list[str]]
) -> None:
    mine = tmp_path / "run"
    shutil.copytree(run, mine)
    questions = asked("The office\n\nteaching\n\n\nHospitals\nHealthcare\n")
    first = gossamer("release", mine, "-o", tmp_path / "first")
    assert first.status == 0, first.err
    assert questions[:8] == ["made_by", "contact", "intended_use", "licence", "region", "sector", "sector", "expires"]
    assert "sector must be one of Technology" in " ".join(first.err.split())
    assert not {"public_records", "pretrained", "baseline"} & {*questions}, "the run had no public inputs"
    again = asked("")
    assert gossamer("release", mine, "-o", tmp_path / "second").status == 0
    assert again == []
    for name in ("first", "second"):
        said = Certificate.load(tmp_path / name).declared
        assert (said["made_by"], said["intended_use"], said["sector"]) == ("The office", "teaching", "Healthcare")
        assert said["contact"] == NOT_DECLARED
        assert not (tmp_path / name / DECLARED).exists()
    assert (mine / DECLARED).stat().st_mode & 0o777 == 0o600
    assert verify(mine).ok
    assert not any(DECLARED in note for note in verify(mine).notes)


def test_release_asks_nobody_without_a_terminal(gossamer: Callable[..., Any], run: Path, tmp_path: Path) -> None:
    assert not sys.stdin.isatty()
    assert gossamer("release", run, "-o", tmp_path / "out").status == 0
    assert not (run / DECLARED).exists()
