"""Type checkers accept a right program of a data owner, and find each mistake of a wrong one on its line."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from test_scripts import SCRIPTS as SCRIPTS_OF_THE_PAGE

ROOT = Path(__file__).resolve().parents[1]
RIGHT = """
import gossamer
from gossamer.errors import BudgetError
from gossamer.methods import DPGAN

card = gossamer.DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)
epsilon: float = gossamer.plan(DPGAN(steps=4_000, precision="bf16"), card, epsilon=10, delta=1e-5).promise.epsilon
named = gossamer.plan("dpgan", card, epsilon=10, delta=1e-5, steps=4_000)
errors: tuple[type[Exception], ...] = (BudgetError, gossamer.errors.GossamerError)
synthesizer = gossamer.fit(gossamer.methods.Moments(axes=16), data="digits", card=card, epsilon=10, delta=1e-5)
shape: tuple[int, ...] = synthesizer.sample(10, seed=0).images.shape
verdict: bool = gossamer.verify(gossamer.release("run", "release")).ok
guarantee: gossamer.privacy.Guarantee = named.promise
"""
WRONG = """
import gossamer
from gossamer.methods import DPGAN

card = gossamer.DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)
DPGAN(stepz=4_000)  # wrong
DPGAN(steps="4_000")  # wrong
DPGAN(precision="fp8")  # wrong
DPGAN(4_000)  # wrong
gossamer.fit(3, data="digits", card=card, epsilon=10, delta=1e-5)  # wrong
gossamer.fit("dpgan", data="digits", card=card, epsilon="10", delta=1e-5)  # wrong
gossamer.plan(DPGAN, card, epsilon=10, delta=1e-5)  # wrong
gossamer.fitt("dpgan")  # wrong
gossamer.methods.DPGan()  # wrong
gossamer.plan("dpgan", card, epsilon=10, delta=1e-5).promise.epsilom  # wrong
"""
SCRIPTS = {
    f"script_{at}": f"# pyright: strict, reportUnknownMemberType=false{', reportAny=error' * (at != 4)}\n{text}"
    for at, (_, text) in enumerate(SCRIPTS_OF_THE_PAGE, start=1)
}
"""To call a network gives Any, and the methods of optimisers are not typed: both are PyTorch's."""
CHECKERS = {
    "mypy": ["mypy", "--strict", "--follow-imports=silent", f"--cache-dir={ROOT / '.mypy_cache'}"],
    "pyright": ["basedpyright", "--level=error"],
}


def lines_with_errors(checker: str, programs: dict[str, str], folder: Path) -> dict[str, set[int]]:
    """The numbers of the lines in which a checker finds an error, of each program."""
    command = CHECKERS[checker]
    program_path = shutil.which(command[0], path=str(Path(sys.executable).parent))
    if program_path is None:
        pytest.skip(f"{command[0]} is not installed")
    for name, text in programs.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "pyrightconfig.json").write_text(
        f'{{"typeCheckingMode": "standard", "extraPaths": ["{ROOT / "src"}"], "pythonVersion": "3.11"}}'
    )
    files = [f"{name}.py" for name in programs]
    done = subprocess.run(
        [program_path, *command[1:], *files], cwd=folder, capture_output=True, text=True, check=False, timeout=600,
        env={"PATH": str(Path(sys.executable).parent), "MYPYPATH": str(ROOT / "src"), "HOME": str(folder)},
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(r"(\w+)\.py:(\d+)(?::\d+)?(?: -|:) error", done.stdout)
    assert bool(found) == (done.returncode == 1), done.stdout + done.stderr
    return {name: {int(line) for file, line in found if file == name} for name in programs}


@pytest.mark.parametrize("checker", [pytest.param("mypy", marks=pytest.mark.slow), "pyright"])
def test_a_right_program_passes_and_each_mistake_is_found(checker: str, tmp_path: Path) -> None:
    marked = {number for number, line in enumerate(WRONG.split("\n"), start=1) if line.endswith("# wrong")}
    found = lines_with_errors(checker, {"right": RIGHT, "wrong": WRONG, **SCRIPTS}, tmp_path)
    assert found == {"right": set(), "wrong": marked, **{name: set[int]() for name in SCRIPTS}}
