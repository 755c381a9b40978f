"""`tools/structure.py`, which `make check` runs: what code above methods/ and kinds/ does not name and not ask."""

import dataclasses
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

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


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ('def f(card):\n    return card.kind == "table"\n', True),
        ("def f(method, other):\n    return method.takes != other\n", True),
        ("def f(card):\n    return isinstance(card, str | DataCard)\n", True),
        ("def f(x):\n    return isinstance(x, (Records, int))\n", True),
        ('def f(column):\n    return column.kind == "category"\n', False),
        ("def f(card):\n    return isinstance(card, Card)\n", False),
        ('def f(config):\n    return config.drawing == "pictures"\n', False),
    ],
)
def test_nothing_above_the_kinds_asks_which_it_is(structure: ModuleType, tmp_path: Path, text: str, asks: bool) -> None:
    assert list(structure.asked_kinds()) == []
    for folder in ("run", "data", "kinds"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "some.py").write_text(text)
    assert [place.partition(",")[0] for place in structure.asked_kinds(tmp_path)] == ["run/some.py"] * asks
