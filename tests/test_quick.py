"""`tools/quick.py`: which tests belong to which file, and that it ends in time."""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
TESTS = [
    "tests/test_public.py",
    "tests/data/test_card.py",
    "tests/data/test_units.py",
    "tests/data/sources/pictures/test_read.py",
    "tests/methods/test_method.py",
    "tests/methods/dpgan/test_dpgan.py",
    "tests/run/cli/test_card_sizes.py",
]


@pytest.fixture(scope="module")
def quick() -> ModuleType:
    spec = importlib.util.spec_from_file_location("quick", ROOT / "tools" / "quick.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for test in TESTS:
        (tmp_path / test).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / test).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("file", "tests"),
    [
        ("src/gossamer/data/card.py", ["data/test_card.py", "run/cli/test_card_sizes.py", "data/test_units.py"]),
        ("src/gossamer/data/sources/pictures/idx.py", ["data/sources/pictures/test_read.py"]),
        ("src/gossamer/data/sources/pictures/deeper/idx.py", ["data/sources/pictures/test_read.py"]),
        ("src/gossamer/methods/dpgan/loop.py", ["methods/dpgan/test_dpgan.py"]),
        ("src/gossamer/methods/dpgan/presets.toml", ["methods/dpgan/test_dpgan.py"]),
        ("src/gossamer/methods/privae/loop.py", ["methods/test_method.py"]),
        ("src/gossamer/files.py", []),
        ("tests/data/test_units.py", ["data/test_units.py"]),
        ("tests/data/test_deleted.py", []),
        ("tests/fixtures/kinds.py", []),
        ("docs/data.md", []),
    ],
)
def test_the_tests_of_a_file(quick: ModuleType, checkout: Path, file: str, tests: list[str]) -> None:
    assert quick.selected([file], checkout) == [f"tests/{test}" for test in tests]


def test_the_closest_tests_come_first_and_once(quick: ModuleType, checkout: Path) -> None:
    files = ["src/gossamer/data/card.py", "tests/data/test_units.py"]
    expected = ["tests/data/test_units.py", "tests/data/test_card.py", "tests/run/cli/test_card_sizes.py"]
    assert quick.selected(files, checkout) == expected


def test_the_core_is_there(quick: ModuleType) -> None:
    assert [path for path in (quick.CORE, *quick.STATISTICS) if not (ROOT / path).exists()] == []


def test_changed_are_commits_of_the_branch_and_what_is_not_committed(quick: ModuleType, tmp_path: Path) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    def commit(name: str) -> None:
        (tmp_path / name).write_text(name)
        git("add", name)
        git("commit", "-m", name)

    git("init", "-b", "main")
    commit("first")
    commit("second")
    assert quick.changed(root=tmp_path) == ["second"], "on main: since the commit before"
    git("checkout", "-b", "branch")
    commit("third")
    commit("fourth")
    (tmp_path / "first").write_text("changed")
    (tmp_path / "fifth").write_text("new")
    assert quick.changed(root=tmp_path) == ["fifth", "first", "fourth", "third"]
    assert quick.changed("HEAD", root=tmp_path) == ["fifth", "first"]


@pytest.mark.parametrize("processes", ["0", "2"])
@pytest.mark.parametrize("seconds", [-1.0, 60.0])
def test_no_test_begins_after_the_end(tmp_path: Path, seconds: float, processes: str) -> None:
    """In a process of its own: pytest in pytest shares plug-ins and warnings."""
    (tmp_path / "test_many.py").write_text("".join(f"def test_{n}():\n    pass\n\n\n" for n in range(40)))
    words = ["-m", "pytest", "-p", "no:cacheprovider", "-p", "quick", "--numprocesses", processes, "test_many.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools"), "GOSSAMER_QUICK_END": str(time.time() + seconds)}
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, env=environment, check=False
    )
    passed = int(done.stdout.split(" passed")[0].split()[-1])
    if seconds > 0:
        assert (done.returncode, passed) == (0, 40)
    else:
        assert done.returncode == pytest.ExitCode.INTERRUPTED, done.stdout
        assert 1 <= passed <= 2, "one in each process"
