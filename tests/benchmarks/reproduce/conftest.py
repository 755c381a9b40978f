"""The command of the package, run in this process."""

from collections.abc import Callable

import pytest
from commands import Answer, in_process

from benchmarks.reproduce import __main__ as program


@pytest.fixture
def reproduce(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    return in_process(capsys, command=program.reproduce, name="python -m benchmarks.reproduce")
