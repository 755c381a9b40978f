"""Modules that are loaded when they are first used, so that a help text need not wait for PyTorch."""

import importlib
from typing import Any


class Lazy:
    """A module that is imported when one of its names is used. mypy sees the module itself, by `if TYPE_CHECKING`."""

    def __init__(self, name: str) -> None:
        self.__name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python asks every class attribute for these
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name), name)
