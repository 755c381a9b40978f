"""Files and headings that docstrings and comments name are there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
WRITTEN_BY_GOSSAMER = ["load.py"]
"""Files of a release."""


def test_files_that_the_source_names_exist() -> None:
    folders = [ROOT / name for name in ("src", "tests", "tools", "benchmarks", "examples")]
    known = [f"/{path.relative_to(ROOT).as_posix()}" for folder in folders for path in folder.rglob("*.py")]
    known += [f"/{name}" for name in WRITTEN_BY_GOSSAMER]
    gone = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"(?<![\w/.])([\w/]+\.py)\b", path.read_text(encoding="utf-8"))
        if not any(each.endswith(f"/{name}") for each in known)
    ]
    assert gone == []


def test_pages_and_their_headings_that_the_source_names_exist() -> None:
    gone = [
        f"{path.relative_to(ROOT)}: {page} {heading}"
        for path in (ROOT / "src").rglob("*.py")
        for page, heading in re.findall(
            r"`((?:docs|lab)/[\w/-]+\.md)`(?:, \"([^\"]+)\")?", re.sub(r"\s+", " ", path.read_text(encoding="utf-8"))
        )
        if not (ROOT / page).is_file() or (heading and heading not in _headings(ROOT / page))
    ]
    assert gone == []


def _headings(page: Path) -> set[str]:
    return set(re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE))
