"""What the ServerApp of `examples/flower` calls. A key of its run config is a flag, and its value that of the flag."""

import shlex
from collections.abc import Mapping
from typing import Any

from gossamer.run.cli.commands.federated import flower_app
from gossamer.run.cli.main import in_flags, paragraph
from gossamer.run.federated import METHOD


def serve(grid: Any, run_config: Mapping[str, bool | float | str]) -> None:
    """Train with the SuperNodes of a grid.

    Args:
        grid: Flower's `Grid`.
        run_config: the flags of the run. False and empty text: the flag is not given.

    Raises:
        RuntimeError: if the request is wrong or the run fails. Flower shows its text, one paragraph.
    """
    given = {key: value for key, value in run_config.items() if value is not False and value != ""}
    method = shlex.split(str(given.pop("method", METHOD)))
    words = [*method, *(f"--{key}" if value is True else f"--{key}={value}" for key, value in given.items())]
    with in_flags(flower_app, words):
        try:
            flower_app.main(words, standalone_mode=False, obj=grid)
        except Exception as error:  # every error becomes one paragraph
            raise RuntimeError(f"gossamer: {paragraph(error)[0]}") from None
