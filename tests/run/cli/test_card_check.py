"""`gossamer card --check`: what a card changes in a table, for the terminal or a file that only the user can read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
CARD = """declared_size = 30
[[column]]
name = "age"
kind = "integer"
bounds = [20, 40]
outside = "clip"
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text("age,sex\n" + "".join(f"{age},f\n" for age in range(12, 42)))
    (tmp_path / "card.toml").write_text(CARD)
    return tmp_path


def test_a_check_names_the_rows_and_is_private(gossamer: Run, place: Path) -> None:
    answer = gossamer("card", place / "t.csv", "--check", "--card", place / "card.toml")
    assert answer.status == 0, answer.err
    assert answer.out == (
        "Private: do not publish. What the card does to 30 rows:\n"
        "age, rows 0, 1, 2, 3, 4 (counted from 0) and 4 more: moved to the nearer bound\n"
    )
    assert sorted(file.name for file in place.iterdir()) == ["card.toml", "t.csv"], "nothing is written unless asked"
    gossamer("card", place / "t.csv", "--check", "--card", place / "card.toml", "-o", place / "check.txt")
    assert (place / "check.txt").read_text() == answer.out
    assert (place / "check.txt").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("flags", [["--check"], ["--card", "card.toml"]])
def test_check_and_card_go_together(gossamer: Run, place: Path, flags: list[str]) -> None:
    answer = gossamer("card", place / "t.csv", *flags)
    assert answer.status == 2 and "go together" in answer.err
