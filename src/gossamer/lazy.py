"""What is loaded when it is first used, so that `import gossamer` and a help text need not wait for PyTorch."""

import ast
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossamer.errors import did_you_mean

__all__ = ["Lazy", "exported", "modules_of", "pa", "pc", "sklearn", "torch"]


class Lazy:
    """A module that is imported when one of its names is used. mypy sees the module itself, by `if TYPE_CHECKING`."""

    def __init__(self, name: str) -> None:
        self.__name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python asks every class attribute for these
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name), name)


if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import sklearn
    import torch
else:
    torch, pa, pc, sklearn = Lazy("torch"), Lazy("pyarrow"), Lazy("pyarrow.compute"), Lazy("sklearn")
"""PyTorch and pyarrow, for modules that a help text imports. scikit-learn, for those that a fit imports: it loads pandas."""


def exported(package: str, names: Mapping[str, str]) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` of a package that loads each of its public names when it is asked for.

    Args:
        package: its `__name__`.
        names: what each public name stands for, "module:name", or "module:" for a module.
    """
    known = sorted(names)

    def load(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}.{did_you_mean(name, known)}")
        return pkgutil.resolve_name(names[name])

    return known, load, lambda: known


def modules_of(package: str, path: Iterable[str]) -> dict[str, str]:
    """The modules of a package as names for `exported`. path: its `__path__`."""
    return {module.name: f"{package}.{module.name}:" for module in pkgutil.iter_modules(path)}


def reexports(package: str, file: str) -> dict[str, str]:
    """The imports `X as Y` in the source of a package, as names for `exported`: so each stands once, for type checkers too.

    Args:
        package: its `__name__`.
        file: its `__file__`.
    """
    lines = ast.walk(ast.parse(Path(file).read_text(encoding="utf-8")))
    return {
        alias.asname: f"{package}.{alias.name}:" if line.module == package else f"{line.module}:{alias.name}"
        for line in lines
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
        if alias.asname
    }
