"""The examples run, are short, and say what their pages say they do."""

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from slowly import slow_among

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

NOTEBOOKS = ("arrays_to_release", "table_to_release")
"""These are notebooks too: tests/site/test_notebook.py runs them as that, and their pages show them."""

SAYS = {
    "arrays_to_release": ["epsilon 1.000 at delta 0.0001", "signature.json", "verified: True"],
    "fit_and_sample": ["epsilon 3.000 at delta 0.0001", "samples: (1000, 1, 28, 28) uint8 and sevens: {7}", "verified: True"],
    "judge_and_attack": ["accuracy: ", "accuracy of the real-data baseline: ", "epsilon "],
    "own_model": ["epsilon 3.9", "add-or-remove-one patient", "accuracy on patients who are not in the data: "],
    "people_with_several_records": ["add-or-remove-one record", "add-or-remove-one writer"],
    "table_to_release": ["epsilon 3.000 at delta 0.0001", "samples.csv", "verified: True"],
    "plan_and_compare": ["moments       1.000", "dpgan         9.998", "costs epsilon 5.147"],
}  # fmt: skip


@pytest.mark.parametrize(
    "example",
    slow_among(
        EXAMPLES,
        [
            each
            for each in EXAMPLES
            if each.stem
            in ("judge_and_attack", "own_model", "people_with_several_records", "plan_and_compare", *NOTEBOOKS)
        ],
    ),
    ids=lambda path: path.stem,
)
def test_runs(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In this process, which has imported PyTorch."""
    monkeypatch.setattr(sys, "argv", [str(example), str(tmp_path / "out")])
    runpy.run_path(str(example), run_name="__main__")
    said = capsys.readouterr().out
    assert [words for words in SAYS[example.stem] if words not in said] == []


def test_the_script_of_the_readme_goes_from_arrays_to_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = (ROOT / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    assert len([line for line in script.splitlines() if line]) <= 12
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    exec(script, {})
    said = capsys.readouterr().out
    assert said.startswith("Differentially private: epsilon 9.999 at delta 0.0001, add-or-remove-one record.")
    assert "(1000, 1, 28, 28) [" in said
    assert not (tmp_path / "gossamer").exists(), "no budget log"


@pytest.mark.slow
def test_the_script_of_the_readme_runs_in_a_fresh_environment(tmp_path: Path) -> None:
    """In an environment that has nothing but the package, made from a copy of the source."""
    script = (ROOT / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    source = tmp_path / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environment |= {"OMP_NUM_THREADS": "1", "XDG_STATE_HOME": str(tmp_path), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)

    assert run(sys.executable, "-m", "venv", "fresh").returncode == 0
    python = tmp_path / "fresh/bin/python"
    index = run(python, "-m", "pip", "download", "--no-deps", "--dest", tmp_path / "probe", "setuptools>=77")
    if index.returncode:
        pytest.skip("pip has no package index here")
    pinned = ("--constraint", ROOT / "constraints.txt")
    installed = run(python, "-m", "pip", "install", "--quiet", *pinned, source)
    assert installed.returncode == 0, installed.stderr
    done = run(python, "-c", script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Differentially private: epsilon 9.999 at delta 0.0001, add-or-remove-one record.")
    assert "(1000, 1, 28, 28) [" in done.stdout


def test_each_is_short_and_shown_on_the_site() -> None:
    assert [path.stem for path in EXAMPLES] == sorted(SAYS)
    page = "".join((ROOT / f"docs/{name}.md").read_text(encoding="utf-8") for name in ("python", "own-model"))
    for example in (each for each in EXAMPLES if each.stem not in NOTEBOOKS):
        assert len(example.read_text(encoding="utf-8").splitlines()) <= 72
        assert f'--8<-- "examples/{example.name}"' in page
