"""The public surface is small, and equals `__all__`."""

import ast
import subprocess
import sys
import types
from pathlib import Path

import pytest

import gossamer


def test_all_is_what_there_is() -> None:
    names = {
        name
        for name in {*vars(gossamer), *dir(gossamer)}
        if not name.startswith("_") and not isinstance(getattr(gossamer, name), types.ModuleType)
    }
    assert names == set(gossamer.__all__)
    assert len(gossamer.__all__) <= 51
    with pytest.raises(AttributeError, match="has no attribute 'fitt'"):
        _ = gossamer.fitt


def test_every_public_name_says_what_it_is() -> None:
    for name in gossamer.__all__:
        if name not in ("METHODS",):
            assert getattr(gossamer, name).__doc__, name


def test_what_a_type_checker_sees_is_what_is_loaded() -> None:
    """The names stand twice in the file: as imports that only a type checker reads, and with the modules they come from."""
    tree = ast.parse(Path(gossamer.__file__).read_text())
    (block,) = [each for each in tree.body if isinstance(each, ast.If)]
    seen = {
        alias.asname: f"{line.module}.{alias.name}"
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }
    assert seen == {name: f"{home}.{name}" for name, home in gossamer._HOME.items()}


def test_nothing_is_loaded_before_it_is_asked_for() -> None:
    code = (
        "import sys, gossamer; print(sum(name.startswith('gossamer.') for name in sys.modules), 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "False"]
