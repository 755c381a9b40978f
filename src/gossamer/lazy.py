"""Modules that are loaded when they are first used, so that a help text need not wait for PyTorch."""

import importlib
from typing import Any


class Lazy:
    """Stands for a module until one of its names is asked for. mypy sees the module itself, by `if TYPE_CHECKING`.

    Args:
        name: of the module, in full.
    """

    def __init__(self, name: str) -> None:
        self.__name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python asks for these of whatever stands in a class
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name), name)
