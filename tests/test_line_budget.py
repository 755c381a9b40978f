"""`tools/budget.py`, which `make check` runs: a planted line, a planted silenced rule and a joined line are found."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).resolve().parents[1] / "tools" / "budget.py"
SOURCE = '''"""A docstring
of two lines."""

import math  # noqa: F401


def f(x: float) -> float:
    """Return the double."""
    # a comment
    text = """a text
    of two lines"""
    return 2 * x if text else (
        0
    )  # fmt: skip


def g() -> int:
    return 1.5  # type: ignore[return-value]
'''
LINES = 9
"""import, def f, the text's two, the return's three, def g and its return."""


@pytest.fixture(scope="module")
def budget() -> ModuleType:
    spec = importlib.util.spec_from_file_location("budget_of_lines", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "mod.py").write_text(SOURCE)
    (tmp_path / "top.py").write_text("X = 1\n")
    return tmp_path


@pytest.fixture
def allowed(budget: ModuleType, source: Path):
    """The budget that the planted source meets exactly, and what changes of it make of it."""
    found = budget.count(source)
    numbers = {kind: len(places) for kind, places in found.silenced.items()}

    def make(**changes):
        return budget.Budget(**{"lines": LINES + 1, "characters": found.mean, "silenced": numbers, **changes})

    return make


def test_the_numbers_of_a_source(budget: ModuleType, source: Path) -> None:
    found = budget.count(source)
    assert dict(found.lines) == {"one": LINES, "top.py": 1}
    code = ["import math", "def f(x: float) -> float:", 'text = """a text', 'of two lines"""', "X = 1"]
    code += ["return 2 * x if text else (", "0", ")", "def g() -> int:"]
    code += ["return 1.5"]
    assert found.characters == sum(map(len, code))
    assert found.mean == round(found.characters / 10, 1)
    assert found.silenced == {
        "noqa": ["one/mod.py, line 4"],
        "fmt: skip": ["one/mod.py, line 14"],
        "type: ignore": ["one/mod.py, line 18"],
        "pragma: no cover": [],
    }


def test_a_source_within_its_budget_passes(
    budget: ModuleType, source: Path, allowed, capsys: pytest.CaptureFixture[str]
) -> None:
    assert budget.main(source, allowed()) == 0
    assert "      10  lines of code, of 10" in capsys.readouterr().out


def test_a_line_too_many_fails(budget: ModuleType, source: Path, allowed, capsys: pytest.CaptureFixture[str]) -> None:
    (source / "top.py").write_text('"""Free."""\n\nX = 1\n# free\nY = 2\n')
    assert budget.main(source, allowed()) == 1
    assert "1 lines of code too many" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("comment", "kind"),
    [
        ("# noqa: E501", "noqa"),
        ("# ruff: noqa", "noqa"),
        ("# why  # noqa", "noqa"),
        ("# fmt: skip", "fmt: skip"),
        ("# fmt: off", "fmt: skip"),
        ("# type: ignore[arg-type]", "type: ignore"),
        ("# pyright: ignore", "type: ignore"),
        ("# pragma: no cover", "pragma: no cover"),
    ],
)
def test_a_planted_silenced_rule_fails(
    budget: ModuleType, source: Path, allowed, comment: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    most = allowed().silenced[kind]
    (source / "top.py").write_text(f"X = 1  {comment}\n")
    assert budget.main(source, allowed()) == 1
    assert f"{most + 1} comments `{kind}`, and {most} are allowed" in capsys.readouterr().out


def test_a_text_that_quotes_a_silenced_rule_is_none(budget: ModuleType, source: Path, allowed) -> None:
    (source / "top.py").write_text('X = "# noqa"\n')
    assert budget.main(source, allowed(characters=99.0)) == 0


def test_with_fewer_silenced_rules_the_number_is_lowered(
    budget: ModuleType, source: Path, allowed, capsys: pytest.CaptureFixture[str]
) -> None:
    fewer = {**allowed().silenced, "noqa": 3}
    assert budget.main(source, allowed(silenced=fewer)) == 1
    assert "Only 1 comments `noqa` are left, so lower the number 3" in capsys.readouterr().out


def test_joined_lines_fail(budget: ModuleType, source: Path, allowed, capsys: pytest.CaptureFixture[str]) -> None:
    joined = SOURCE.replace("if text else (\n        0\n    )  # fmt: skip", "if text else (0)  # fmt: skip")
    (source / "one" / "mod.py").write_text(joined)
    assert joined != SOURCE
    assert budget.main(source, allowed()) == 1
    assert "Do not join lines to save them." in capsys.readouterr().out
