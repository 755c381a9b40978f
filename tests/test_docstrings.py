"""Files that docstrings and comments name are there."""

import re
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "gossamer"
WRITTEN_BY_GOSSAMER = {"load.py"}
"""Files of a release."""


def test_files_that_the_source_names_exist() -> None:
    modules = sorted(SOURCE.rglob("*.py"))
    known = {path.name for path in modules} | WRITTEN_BY_GOSSAMER
    gone = [
        f"{path.relative_to(SOURCE)}: {name}"
        for path in modules
        for name in re.findall(r"\b(\w+\.py)\b", path.read_text(encoding="utf-8"))
        if name not in known
    ]
    assert gone == []
