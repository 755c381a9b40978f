"""Settings of the whole suite, made before torch is loaded."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest_plugins = ["commands"]

# On some virtual machines oneDNN takes the processor's matrix unit (AMX) for its bfloat16 convolutions and dies of an illegal
# instruction, and the worker with it. Without that unit the same tests run on the same numbers.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")


@pytest.fixture(autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of its own for every test: no test touches the account book of whoever runs it, nor another test's."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


@pytest.fixture(autouse=True, scope="session")
def no_book_at_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The same for fixtures that outlive a test."""
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(tmp_path_factory.mktemp("session-state"))
    yield
    if before is None:
        del os.environ["XDG_STATE_HOME"]
    else:
        os.environ["XDG_STATE_HOME"] = before
