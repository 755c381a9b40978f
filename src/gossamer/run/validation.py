"""Checks of arguments, settings and output files, before anything is done with them."""

import abc
import dataclasses
import functools
import inspect
import json
import numbers
import os
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from gossamer.errors import RequestError, RunFolderError, did_you_mean
from gossamer.files import at_home
from gossamer.methods.contract import AnyMethod, BaseConfig

P = ParamSpec("P")
R = TypeVar("R")

_NAMES = {
    str: "text",
    BaseConfig: "a Config",
    Path: "a path",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    type(None): "None",
}


def checked_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with a check of its arguments' types: it refuses `epsilon="10"`. A `seed` must be in range.

    The check passes over annotations that are more than a class or a union of classes. An argument that may be a path is
    passed as a Path, where `~` at its beginning is the home folder.

    Raises:
        RequestError: naming the argument and the types, never the value (except of a seed, which is public).
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        hints, bound = _hints(function), signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            if name in hints:
                check_type(name, value, hints[name])
            if Path in hints.get(name, ()) and isinstance(value, str | Path):
                bound.arguments[name] = at_home(value)
            if name == "seed":
                check_seed(name, value)
        return function(*bound.args, **bound.kwargs)

    return call


def refuse_misspelt(
    settings: Mapping[str, Any], function: Callable[..., Any], method: AnyMethod, **values: type
) -> None:
    """Refuse a keyword that is neither an argument of the function nor a setting of the method, with a RequestError.

    Args:
        settings: the keywords.
        function: that takes them.
        method: whose settings they may be.
        values: dataclasses that arguments of the function may be, by the names of these arguments.
    """
    known = [field.name for field in dataclasses.fields(method.config_type)]
    arguments = [name for name in inspect.signature(function).parameters if name not in ("settings", "more")]
    for name in settings:
        if name in known:
            continue
        for argument, value in values.items():
            field = name.removeprefix("public_") if argument == "public" else name
            if field in [each.name for each in dataclasses.fields(value)]:
                before = "" if argument == "process" else f"{argument}, "
                call = f"{argument}=gossamer.{value.__name__}({before}{field}=...)"
                raise RequestError(f"{function.__name__} has no argument {name!r}. Pass {call}.")
        if near := did_you_mean(name, arguments):
            raise RequestError(f"{function.__name__} has no argument {name!r}.{near}")


def check_type(name: str, value: object, kinds: tuple[type, ...]) -> None:
    """Refuse a value of none of these kinds, with a RequestError. numpy's numbers are numbers, and truth values are none."""
    if not any(_is(value, kind) for kind in kinds):
        expected = " or ".join(_NAMES.get(kind, f"a {kind.__name__}") for kind in kinds)
        quoted = isinstance(value, str) and not {int, float, bool}.isdisjoint(kinds)
        raise RequestError(
            f"`{name}` must be {expected}, not of type {type(value).__name__}{': leave out the quotes' if quoted else ''}."
        )


def check_fields(value: Any) -> None:
    """Refuse a dataclass with a field of another type than it declares, with a RequestError."""
    declared: Callable[..., Any] = type(value)
    for name, kinds in _hints(declared).items():
        check_type(name, getattr(value, name), kinds)


def check_seed(name: str, seed: Any) -> None:
    """Refuse a seed that some random generator does not take, with a RequestError; None is no seed."""
    if seed is not None and not 0 <= seed < 2**63:
        raise RequestError(f"`{name}` must be a whole number from 0 to {2**63 - 1:,}, not {seed:,}.")


def check_place(out: str | Path | None) -> None:
    """Refuse an output file that cannot be written, before an hour of work. Earlier figures may be overwritten.

    Raises:
        RequestError: if its folder is missing, it is a folder itself, or it is a file without such figures.
    """
    if out is None:
        return
    if not Path(out).absolute().parent.is_dir() or Path(out).is_dir():
        raise RequestError(f"{out} cannot be written: give a file in a folder that is there.")
    if Path(out).exists() and not _holds_figures(Path(out)):
        raise RequestError(f"{out} is there already, and holds something other than figures: give another file.")


def check_own_place(run: Path) -> None:
    """Refuse a RUN that is read-only, with a RunFolderError, before an hour of work."""
    if not os.access(run, os.W_OK):
        raise RunFolderError(f"{run} cannot be written, and must hold the figures: make it writable, or take a copy.")


def _holds_figures(path: Path) -> bool:
    """Whether a file is from `evaluate` or `attack` (JSON that marks figures as internal), or empty."""
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if text.strip() else []
    except (OSError, ValueError):
        return False
    entries = content.get("attacks") if isinstance(content, dict) else content
    return isinstance(entries, list) and all(isinstance(entry, dict) and "internal" in entry for entry in entries)


def plain(value: Any) -> Any:
    """Return a value with numpy's numbers as Python's, for JSON."""
    return value.item() if isinstance(value, np.generic) else value


@functools.cache
def _hints(function: Callable[..., Any]) -> dict[str, tuple[type, ...]]:
    """Return the types of each argument, where all of them are classes."""
    types_by_name = {}
    for name, hint in typing.get_type_hints(function).items():
        kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
        if name != "return" and all(type(kind) in (type, abc.ABCMeta) for kind in kinds):
            types_by_name[name] = kinds
    return types_by_name


def _is(value: object, kind: type) -> bool:
    if kind in (int, float):
        number = numbers.Integral if kind is int else numbers.Real
        return isinstance(value, number) and not isinstance(value, bool)
    return isinstance(value, kind)
