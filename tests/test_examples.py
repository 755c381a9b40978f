"""The examples run, are short, and say what their pages say they do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from slowly import slow_among

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

SAYS = {
    "fit_and_sample": ["epsilon 3.000 at delta 0.0001", "samples: (1000, 1, 28, 28) uint8 and sevens: {7}", "verified: True"],
    "judge_and_attack": ["accuracy: ", "accuracy of the real-data baseline: ", "epsilon "],
    "people_with_several_records": ["add-or-remove-one record", "add-or-remove-one writer"],
    "plan_and_compare": ["moments       1.000", "dpgan         9.998", "costs epsilon 5.147"],
}  # fmt: skip


@pytest.mark.parametrize(
    "example",
    slow_among(
        EXAMPLES,
        [
            each
            for each in EXAMPLES
            if each.stem in ("judge_and_attack", "people_with_several_records", "plan_and_compare")
        ],
    ),
    ids=lambda path: path.stem,
)
def test_runs(example: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(example), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert [words for words in SAYS[example.stem] if words not in done.stdout] == []


def test_the_script_of_the_readme_goes_from_arrays_to_a_frame(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="the script ends in a DataFrame")
    script = (ROOT / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    assert len([line for line in script.splitlines() if line]) <= 12
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "XDG_STATE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Differentially private: epsilon 9.999 at delta 0.0001, add-or-remove-one record.")
    assert "[1000 rows x 785 columns]" in done.stdout
    assert not (tmp_path / "gossamer").exists(), "no budget log"


def test_each_is_short_and_shown_on_the_site() -> None:
    assert [path.stem for path in EXAMPLES] == sorted(SAYS)
    page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    for example in EXAMPLES:
        assert len(example.read_text(encoding="utf-8").splitlines()) < 60
        assert f'--8<-- "examples/{example.name}"' in page
