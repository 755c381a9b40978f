"""`tools/structure.py`, which `make check` runs: privacy/ names no method, and nothing above kinds/ asks the kind."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from gossamer.methods import METHODS

TOOL = Path(__file__).resolve().parents[1] / "tools" / "structure.py"
METHOD = 'class Two(Method):\n    """Its help."""\n\n    name = "two-step"\n    title = "Two"\n'


@pytest.fixture(scope="module")
def structure() -> ModuleType:
    spec = importlib.util.spec_from_file_location("structure", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_privacy_names_no_method(structure: ModuleType) -> None:
    assert structure.methods() == {name for name in METHODS if not METHODS.is_plugin(name)}
    assert list(structure.named_methods()) == []


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
def test_a_planted_name_is_found(structure: ModuleType, tmp_path: Path, text: str, named: bool) -> None:
    for name, content in (("methods/two/__init__.py", METHOD), ("privacy/certificate/sentences.py", text)):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(content)
    places = list(structure.named_methods(tmp_path))
    assert bool(places) == named
    assert all(place.startswith("privacy/certificate/sentences.py, line ") for place in places)


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
