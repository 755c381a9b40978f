"""Run the quick tests: those of the privacy core, and those of what you changed. `make quick` runs it, in at most a minute.

python tools/quick.py            compares the files with the branch main; on main, with the commit before
python tools/quick.py BASE       compares them with another commit

tests/ has the same folders as src/gossamer/. A changed file of src/ selects the test files of its folder in tests/, first
those that bear its name. A changed test file selects itself. Files that you have not committed count too.
After LIMIT seconds no further test begins, and the last line says so. `make test` runs all.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 52
"""Seconds after which no test begins. The rest of the minute is for the tests that run then, and for the end."""
END = "GOSSAMER_QUICK_END"
"""The environment variable with that moment, in seconds since 1970: processes of pytest read it."""
CORE = "tests/privacy"
"""What is always run: records leave through charged queries only, and each query has its bound, its noise and its cost."""
STATISTICS = (
    "tests/privacy/random/test_noise.py",
    "tests/privacy/per_sample_gradients/test_rounding.py",
    "tests/privacy/test_device_check.py",
)
"""Half of the core's time. They run where they are selected."""


def changed(base: str | None = None, root: Path = ROOT) -> list[str]:
    """The files that differ from a commit, by their paths from the root of the checkout; new files are among them."""

    def git(*words: str) -> list[str]:
        done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
        return done.stdout.split("\n")[:-1] if done.returncode == 0 else []

    if base is None:
        common = git("merge-base", "HEAD", "main") or git("merge-base", "HEAD", "origin/main")
        base = common[0] if common and common != git("rev-parse", "HEAD") else "HEAD~"
    found = {*git("diff", "--name-only", "--no-renames", base), *git("ls-files", "--others", "--exclude-standard")}
    return sorted(found)


def selected(files: Iterable[str], root: Path = ROOT) -> list[str]:
    """The test files of changed files, the closest first: changed tests, tests of the same name, tests of the same folder."""
    ranked: dict[str, int] = {}
    for path in map(Path, files):
        if path.parts[0] == "tests" and path.name.startswith("test_") and path.suffix == ".py":
            found = {path: 0} if (root / path).exists() else {}
        elif path.parts[:2] == ("src", "gossamer"):
            found = _tests_of(path, root)
        else:
            found = {}
        for test, rank in found.items():
            ranked[str(test)] = min(rank, ranked.get(str(test), rank))
    return sorted(ranked, key=lambda test: (ranked[test], test))


def _tests_of(source: Path, root: Path) -> dict[Path, int]:
    """The test files of a source file, each with its rank. A folder without tests has those of the folder above."""
    folder = root / "tests" / source.relative_to("src/gossamer").parent
    while not any(folder.glob("test_*.py")) and folder != root / "tests":
        folder = folder.parent
    of_its_name = set((root / "tests").rglob(f"test_{source.stem}*.py"))
    of_its_folder = set() if folder == root / "tests" else set(folder.glob("test_*.py"))
    return {test.relative_to(root): 1 if test in of_its_name else 2 for test in of_its_name | of_its_folder}


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """This module is a plug-in of the pytest that it starts: no test begins in a process after END."""
    if time.time() > float(os.environ[END]):
        item.session.shouldstop = "the minute is over"


def main(words: list[str]) -> int:
    """Run the tests; the exit status is pytest's, and 0 where all passed that began in time."""
    tests = selected(changed(*words))
    print(f"The privacy core, and {len(tests)} files of what changed.", flush=True)
    left_out = [f"--ignore={path}" for path in STATISTICS if path not in tests]
    own = [test for test in tests if not test.startswith(f"{CORE}/")]
    end = time.time() + LIMIT
    os.environ[END] = str(end)
    status = int(pytest.main(["-p", "quick", "--numprocesses", "2", CORE, *left_out, *own]))
    if time.time() > end and status == pytest.ExitCode.INTERRUPTED:
        print(f"After {LIMIT} seconds no further test began. None has failed so far; `make test` runs all.")
        return 0
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
