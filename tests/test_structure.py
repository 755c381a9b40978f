"""`tools/structure.py`, which `make check` runs: what code above methods/ and kinds/ does not name and not ask."""

import dataclasses
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from gossamer.data.tables.any_card import CARDS
from gossamer.methods import METHODS
from gossamer.methods.contract import SHARED_SETTINGS

TOOL = Path(__file__).resolve().parents[1] / "tools" / "structure.py"
METHOD = """class Config(BaseConfig):
    noise_multiplier: float = FROM_EPSILON
    own_rounds: int = 1
    rounds: int = 1


class Two(Method):
    name = "two-step"
    title = "Two"
"""
CONTRACT = 'SHARED_SETTINGS = frozenset({"noise_multiplier", "steps"})\n'


@pytest.fixture(scope="module")
def structure() -> ModuleType:
    spec = importlib.util.spec_from_file_location("structure", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_method_and_no_setting_is_named(structure: ModuleType) -> None:
    assert structure.methods() == {name for name in METHODS if not METHODS.is_plugin(name)}
    every = {field.name for method in METHODS.values() for field in dataclasses.fields(method.config_type)}
    assert structure.settings() == every - SHARED_SETTINGS
    assert every >= SHARED_SETTINGS
    assert [*structure.named_methods(), *structure.named_settings()] == []


def test_each_place_that_is_excepted_is_there_and_names_one(
    structure: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = structure.ALLOWED
    monkeypatch.setattr(structure, "ALLOWED", {})
    named = [*structure.named_methods(), *structure.named_settings()]
    assert [place for place in allowed if not any(each.startswith(place) for each in named)] == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('SAID = {"two-step": "words"}\n', True),
        ('def f(settings):\n    return settings["method"] == "two-step"\n', True),
        ("def said_by_two_step(settings):\n    return settings\n", True),
        ('def f(text):\n    return f"the method Two-Step says {text}"\n', True),
        ('"""After the paper on two-step."""\n\nX = 1  # of two-step\n', False),
        ('X = "two-stepped"\n', False),
    ],
)
@pytest.mark.parametrize("package", ["privacy/certificate", "run/report"])
def test_a_planted_name_is_found(structure: ModuleType, tmp_path: Path, package: str, text: str, named: bool) -> None:
    write(tmp_path, f"{package}/sentences.py", text)
    places = list(structure.named_methods(tmp_path))
    assert bool(places) == named
    assert all(place.startswith(f"{package}/sentences.py, line ") for place in places)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('def f(settings):\n    return settings["own_rounds"]\n', True),
        ('def f(job):\n    return job.settings.get("rounds", 1)\n', True),
        ('def f(config):\n    return "rounds" in config\n', True),
        ('NAMES = ("own_rounds",)\n', True),
        ('def f():\n    return "Leave --own-rounds out."\n', True),
        ('def f(settings):\n    return settings["noise_multiplier"]\n', False),
        ('def f(rows):\n    return rows["rounds"]\n', False),
        ('"""What own_rounds is."""\n\nX = 1  # own_rounds\n', False),
    ],
)
def test_a_planted_setting_is_found(structure: ModuleType, tmp_path: Path, text: str, named: bool) -> None:
    write(tmp_path, "run/sentences.py", text)
    places = list(structure.named_settings(tmp_path))
    assert bool(places) == named
    assert all(place.startswith("run/sentences.py, line ") for place in places)


def write(root: Path, name: str, text: str) -> None:
    """A source of one method and one other file."""
    for path, content in (
        ("methods/two/__init__.py", METHOD), ("methods/contract.py", CONTRACT), ("privacy/x.py", ""), ("run/x.py", ""),
        (name, text),
    ):  # fmt: skip
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)


def test_nothing_above_the_kinds_asks_which_it_is(structure: ModuleType) -> None:
    assert list(structure.asked_kinds()) == []


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ('def f(card):\n    return card.kind == "table"\n', True),
        ("def f(method, other):\n    return method.takes != other\n", True),
        ("def f(card):\n    return isinstance(card, str | DataCard)\n", True),
        ("def f(x):\n    return isinstance(x, (Records, int))\n", True),
        ('def f(card):\n    return "column" in card\n', True),
        ('def f(run):\n    return "shape" not in run.config()["card"]\n', True),
        ("def f(data):\n    return read.is_table(data)\n", True),
        ("from gossamer.data.tables.read import is_table\n", True),
        ('def f(answer):\n    return {"is_table": answer}\n', True),
        ('def f(x):\n    return "table" if x else "pictures"\n', True),
        ("def f(x):\n    return fields(DataCard if x else TableCard)\n", True),
        ('def f(kind):\n    return kind in ("table", "tables")\n', True),
        ('def f(column):\n    return column.kind == "category"\n', False),
        ('def f(card):\n    return [column["kind"] != "key" for column in card.get("column", [])]\n', False),
        ('def f(how):\n    return how == "column"\n', False),
        ('def f(names):\n    return "column" in names\n', False),
        ('"""Whether it is_table."""\n\nX = 1  # is_table\n', False),
        ("def f(card):\n    return isinstance(card, Card)\n", False),
        ('def f(config):\n    return config.drawing == "pictures"\n', False),
    ],
)
def test_a_question_which_kind_it_is_is_found(structure: ModuleType, tmp_path: Path, text: str, asks: bool) -> None:
    assert asked_in(structure, tmp_path, "some.py", text) == ({"run/some.py"} if asks else set())


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("{% if not is_table %}\n", True),
        ('{% if "column" in found %}\n', True),
        ('<p>{{ "A grid" if kind.name == "pictures" else "Rows" }}</p>\n', True),
        ("{% macro samples(run, is_table) %}\n", True),
        ('{% if kind == "category" or not kind %}\n', False),
        ('{% import "page/kinds/" ~ kind.name ~ ".html" as of_kind with context %}\n', False),
        ('<p>is_table, and "column" in found</p>\n', False),
    ],
)
def test_no_template_asks_which_kind_it_is(structure: ModuleType, tmp_path: Path, text: str, asks: bool) -> None:
    assert asked_in(structure, tmp_path, "some.html", text) == ({"run/some.html"} if asks else set())


def asked_in(structure: ModuleType, root: Path, name: str, text: str) -> set[str]:
    """The files in which a question is found, of three that have the same text."""
    for folder in ("run", "data", "kinds"):
        (root / folder).mkdir()
        (root / folder / name).write_text(text)
    return {place.partition(",")[0] for place in structure.asked_kinds(root)}


def test_a_fact_of_one_kind_is_on_no_card_of_another(structure: ModuleType) -> None:
    assert set(CARDS) == structure.KINDS
    named = {kind: [field.name for field in dataclasses.fields(card)] for kind, card in CARDS.items()}
    facts = {fact: [kind for kind in named if fact in named[kind]] for fact in structure.OWN_FACTS}
    assert facts.pop("column") == [], "what `columns` are called in a file"
    assert sorted(facts.values()) == [["pictures"], ["table"]]
