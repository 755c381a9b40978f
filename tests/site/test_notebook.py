"""The notebooks in examples/ run in a kernel, and their pages show their code and what they show today."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from building import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import notebook_page

COMMITTED = {name: (notebook_page.PAGES / f"{name}.md").read_text(encoding="utf-8") for name in notebook_page.NAMES}


def masked(page: str) -> list[str]:
    """The outputs of a page, without what is drawn at random: hexadecimal keys, and figures."""
    lines = [line for line in page.splitlines() if line.startswith(notebook_page.OUTPUT)]
    return [re.sub(r"(?:\d[\d.,]*|\b[0-9a-f]{64}\b)", "0", re.sub(r"\b[0-9a-f]{64}\b", "0", line)) for line in lines]


@pytest.fixture(scope="module", params=notebook_page.NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=["committed", pytest.param("today", marks=pytest.mark.slow)])
def page(request: pytest.FixtureRequest, name: str) -> str:
    """A page in docs/, or as a kernel makes it today."""
    made: str = request.getfixturevalue("today") if request.param == "today" else COMMITTED[name]
    return made


@pytest.fixture(scope="module")
def today(name: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page as a kernel makes it today."""
    pytest.importorskip("nbclient", reason="a notebook needs gossamer[notebook]")
    pytest.importorskip("ipykernel", reason="a notebook needs gossamer[notebook]")
    target = tmp_path_factory.mktemp("notebook") / f"{name}.md"
    command = [sys.executable, ROOT / "tools/notebook_page.py", name, target]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    pictures = notebook_page.PAGES.glob(f"{name}-*.png")
    assert [each.name for each in target.parent.glob("*.png")] == [each.name for each in pictures]
    return target.read_text(encoding="utf-8")


def test_the_code_and_words_of_the_page_are_those_of_the_source(name: str) -> None:
    parts = notebook_page.cells((notebook_page.EXAMPLES / f"{name}.py").read_text(encoding="utf-8"))
    code = [part for part in parts if part.is_code]
    assert len(code) > 8
    without = [line for line in COMMITTED[name].splitlines() if line and not line.startswith(notebook_page.OUTPUT)]
    assert without == [line for line in notebook_page.page(parts, [[]] * len(code)).splitlines() if line]


@pytest.mark.slow  # test_examples runs the script
def test_the_outputs_of_the_page_are_those_of_a_kernel_today(name: str, today: str) -> None:
    """Run `python tools/notebook_page.py` where this fails."""
    assert masked(today) == masked(COMMITTED[name])


def test_bars_end_without_a_clock_and_without_an_accuracy(page: str) -> None:
    """A notebook is saved with its outputs, and the time of a step depends on the records."""
    bars = [line for line in page.splitlines() if "border-radius" in line]
    words = [" ".join(re.sub(r"<[^>]+>", " ", line).split()) for line in bars]
    assert len(words) > 1
    assert [each for each in words if not re.search(r" (\d+) of \1 done( epsilon used \d\.\d{3})?$", each)] == []


def test_no_output_names_a_place_or_is_an_error(page: str) -> None:
    outputs = [line for line in page.splitlines() if line.startswith(notebook_page.OUTPUT)]
    assert len(outputs) > 8
    assert [line for line in outputs if "/tmp" in line or str(Path.home()) in line or "Warning" in line] == []


@pytest.mark.parametrize(
    "source, found",
    [
        ("# ---\n# x\n# ---\n\n# %% [markdown]\n# # Title\n#\n# Words.\n\n# %%\na = 1\n\nb = 2\n",
         [("# Title\n\nWords.", False), ("a = 1\n\nb = 2", True)]),
        ("# %%\n# a comment\n", [("# a comment", True)]),
    ],
)  # fmt: skip
def test_cells(source: str, found: list[tuple[str, bool]]) -> None:
    assert notebook_page.cells(source) == [notebook_page.Cell(*each) for each in found]
