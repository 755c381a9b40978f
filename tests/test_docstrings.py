"""Files that docstrings and comments name are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
WRITTEN_BY_GOSSAMER = {"load.py"}
"""Files of a release."""


def test_files_that_the_source_names_exist() -> None:
    folders = [ROOT / name for name in ("src", "tests", "tools", "benchmarks", "examples")]
    known = {path.name for folder in folders for path in folder.rglob("*.py")} | WRITTEN_BY_GOSSAMER
    gone = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"\b(\w+\.py)\b", path.read_text(encoding="utf-8"))
        if name not in known
    ]
    assert gone == []
