"""Settings of the whole suite, made before torch is loaded."""

import gc
import os
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

# The collector of reference cycles takes a quarter of the time in which tests are collected, and finds nothing to free.
gc.disable()

pytest_plugins = ["commands"]

# On some virtual machines oneDNN takes the processor's matrix unit (AMX) for its bfloat16 convolutions and dies of an illegal
# instruction, and the worker with it. Without that unit the same tests run on the same numbers.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

# A second thread sleeps while it waits for work. By default it spins, which takes a processor from the other tests.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Turn the collector on again. From here on it passes over the modules and tests that exist already."""
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def state_home(no_budget_log_at_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder for each test: no test touches the budget log of whoever runs it, nor that of another test."""
    with tempfile.TemporaryDirectory(dir=no_budget_log_at_home) as name:
        monkeypatch.setenv("XDG_STATE_HOME", name)
        yield Path(name)


@pytest.fixture(autouse=True, scope="session")
def no_waiting_for_the_disk() -> Iterator[None]:
    """Nothing is synced in the process of the tests: it takes milliseconds each time, and no test cuts the power.

    That files are synced, and when, is asked by the tests that put their own function here.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def no_budget_log_at_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The same for fixtures that outlive a test."""
    before, folder = os.environ.get("XDG_STATE_HOME"), tmp_path_factory.mktemp("session-state")
    os.environ["XDG_STATE_HOME"] = str(folder)
    yield folder
    if before is None:
        del os.environ["XDG_STATE_HOME"]
    else:
        os.environ["XDG_STATE_HOME"] = before
