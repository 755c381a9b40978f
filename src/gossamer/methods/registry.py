"""The registry: each method by its name on the command line."""

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from gossamer import plugins
from gossamer.errors import GossamerError, RequestError
from gossamer.lazy import Lazy
from gossamer.methods.contract import FROM_EPSILON, AnyMethod, BaseConfig, Method, Start, presets_of

any_card: Any = Lazy("gossamer.data.tables.any_card")

AUTO = "auto"
"""In place of the name of a method: a run chooses it."""
ABOUT = ("about", "records", "epsilon", "in_proportion", "shows")
"""Keys of a preset that are no settings."""
TAKEN = frozenset({
    "accounts", "as_json", "card", "confidence", "data", "delta", "device", "epsilon", "final", "help", "images_key", "jobs",
    "json", "labels_key", "method", "more", "name", "out", "preset", "progress", "public", "public_images_key",
    "public_labels_key", "public_share", "public_test_data", "rng", "run", "score", "seed", "settings", "sink", "trials",
    "units", "process",
})  # fmt: skip
"""What no setting of a plug-in may be called: options and arguments of the commands that have a METHOD."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_FIELD = re.compile(r"[a-z][a-z0-9_]*")


class Registry(MutableMapping[str, AnyMethod]):
    """The methods of Gossamer, then those of other packages. A plug-in is imported when it is asked for."""

    def __init__(self) -> None:
        self._own: dict[str, AnyMethod] = {}
        self._loaded: dict[str, tuple[object, AnyMethod]] = {}

    def fill(self, methods: Iterable[AnyMethod]) -> None:
        """Enter the methods of Gossamer. No plug-in takes the place of one."""
        self._own = {method.name: method for method in methods}

    def is_plugin(self, name: str) -> bool:
        """Whether the method of this name is not one of Gossamer's."""
        return name not in self._own

    def broken(self) -> dict[str, str]:
        """Installed plug-ins that cannot be used, and why."""
        return {name: error for name in plugins.names("method") if (error := self._problem(name))}

    def __getitem__(self, name: str) -> AnyMethod:
        """The method of this name. Raises KeyError: there is none; RequestError: the plug-in cannot be used."""
        if name in self._own:
            return self._own[name]
        if name not in plugins.names("method"):
            raise KeyError(name)
        value = plugins.load("method", name)
        known, method = self._loaded.get(name, (None, None))
        if method is None or known is not value:
            method = _checked(name, value)
            self._loaded[name] = (value, method)
        return method

    def check(self, name: str) -> None:
        """Raise a RequestError if the plug-in of this name has the name of a method of Gossamer, or cannot be used."""
        if name in self._own:
            raise RequestError(f"{name!r} is a method of Gossamer. A plug-in needs another name.")
        _ = self[name]

    def __setitem__(self, name: str, method: AnyMethod) -> None:
        """Add a method in this process. Raises RequestError: the name is taken, or this is no method."""
        if name in self._own:
            raise RequestError(f"{name!r} is a method of Gossamer. A plug-in needs another name.")
        _checked(name, method)
        plugins.add("method", name, method)

    def __delitem__(self, name: str) -> None:
        """Forget a method that was added in this process."""
        plugins.remove("method", name)

    def __iter__(self) -> Iterator[str]:
        """The names of the methods that can be used."""
        yield from self._own
        yield from (name for name in plugins.names("method") if not self._problem(name))

    def __len__(self) -> int:
        """How many can be used."""
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"METHODS({', '.join(self)})"

    def taking(self, kind: str) -> dict[str, AnyMethod]:
        """The methods that take records of this kind."""
        return {name: method for name, method in self.items() if any_card.CARDS[kind].suits(method)}

    def _problem(self, name: str) -> str:
        """Why the plug-in of this name cannot be used; empty: it can."""
        try:
            self.check(name)
        except RequestError as error:
            return str(error)
        return ""


METHODS = Registry()
"""The `__init__` of this package fills it."""


def method_of_config(kind: type[BaseConfig]) -> AnyMethod | None:
    """The registered method with this class of settings; None: there is none."""
    return next((method for method in METHODS.values() if method.config_type is kind), None)


def changed_plugins(
    named: Iterable[tuple[plugins.PluginKind, str]], begun_with: Iterable[Mapping[str, str]], *facts: str
) -> list[str]:
    """Say of each plug-in which facts are not those with which its run began.

    Args:
        named: kind and name of each.
        begun_with: the entries under `plugins` of config.json.
        facts: source or weights, which are compared by SHA-256.

    Raises:
        RequestError: if a plug-in is not there.
    """
    then = {(entry["kind"], entry["name"]): entry for entry in begun_with}
    changed = []
    for kind, name in named:
        now, before = plugins.origin(kind, name).to_json(), then.get((kind, name), {})
        if other := [fact for fact in facts if before.get(fact, now[fact]) != now[fact]]:
            restore = (
                f"version {before['version']} of it" if before["version"] != plugins.NOT_KNOWN else "what it was then"
            )
            changed.append(
                f"The {kind} {name!r} has another SHA-256 of its {' and '.join(other)} than when the run began. Restore "
                f"{restore}"
            )
    return changed


def allow(reference: str) -> str:
    """Import `module:object` because the user has named it, and return the name that it has from now on.

    Raises:
        RequestError: if it cannot be imported; or it is a method that cannot be used, or has the name of one of Gossamer's.
    """
    name = plugins.allow(reference)
    if name in plugins.names("method"):
        try:
            METHODS.check(name)
        except RequestError:
            plugins.remove("method", name)
            raise
    return name


@contextmanager
def asked(name: str) -> Iterator[None]:
    """Turn any error of a plug-in into a RequestError that names it. Only for what is asked before a record is read."""
    try:
        yield
    except GossamerError:
        raise
    except Exception as error:  # the code of others raises anything
        if name not in plugins.names("method") or not METHODS.is_plugin(name):
            raise
        raise RequestError(
            f"The plug-in {name!r} failed ({plugins.described(error)}). No budget is used. Report this to its author; --debug "
            "shows where."
        ) from error


def _checked(name: str, value: object) -> AnyMethod:
    """The method of a plug-in, made if it is a class. Raises RequestError: it is no method of this name that can be used."""
    what = f"The plug-in {name!r}"
    try:
        method = value() if isinstance(value, type) else value
    except Exception as error:  # the code of others raises anything
        raise RequestError(f"{what} cannot be made ({plugins.described(error)}).") from error
    if not isinstance(method, Method):
        raise RequestError(f"{what} is not a gossamer.methods.Method.")
    own = getattr(method, "name", None)
    if own != name:
        raise RequestError(f"{what} calls itself {own!r}. A method has one name.")
    if not _NAME.fullmatch(name):
        raise RequestError(f"{what}: a name has letters, digits and - . _ only, and begins with a letter.")
    for fact in ("title", "without_guarantee"):
        text = getattr(method, fact, None)
        if not isinstance(text, str) or text != " ".join(text.split()) or (fact == "title" and not text):
            raise RequestError(f"{what} has no {fact} that is one line of text.")
    if method.loop is None and (type(method).net is Method.net or type(method).train is Method.train):
        raise RequestError(f"{what} has no loop: write `net` and `train`, or set it to the module loop.py.")
    config = getattr(method, "config_type", None)
    if not (isinstance(config, type) and issubclass(config, BaseConfig) and "__dataclass_fields__" in vars(config)):
        raise RequestError(f"{what} has no config_type that is a dataclass of BaseConfig.")
    if problem := _problem_of(config, promises=not method.without_guarantee):
        raise RequestError(f"{what} has a Config that cannot become options: {problem}.")
    try:
        _check_presets(presets_of(method), config)
    except Exception as error:  # a damaged file, or the code of others
        raise RequestError(f"{what} has presets that cannot be read ({plugins.described(error)}).") from error
    return method


def _problem_of(config: type[BaseConfig], *, promises: bool) -> str:
    """Why the fields of a Config cannot become options; empty: they can."""
    try:
        hints = get_type_hints(config, include_extras=True)
    except Exception as error:  # a type that is not there at run time
        return f"its types cannot be read ({plugins.described(error)})"
    fields = {field.name: field for field in dataclasses.fields(config)}
    for name, field in fields.items():
        kind, default = hints[name], field.default
        if not _FIELD.fullmatch(name) or name in TAKEN:
            return f"{name} is no name for a setting, because a command has an option or a word of this name"
        hint = get_args(kind)[0] if get_origin(kind) is Annotated else kind
        kinds = set(map(type, get_args(hint))) if get_origin(hint) is Literal else {hint}
        if not kinds <= {bool, int, float, str, Start}:
            return f"{name} is not a bool, an int, a float, a str or a Literal of texts"
        if name == "noise_multiplier":
            if default not in (dataclasses.MISSING, FROM_EPSILON):
                return "noise_multiplier has a default other than FROM_EPSILON"
        elif default is dataclasses.MISSING:
            return f"{name} has no default"
    if promises and "noise_multiplier" not in fields:
        return "it has no noise_multiplier, which follows from epsilon"
    return ""


def _check_presets(presets: object, config: type[BaseConfig]) -> None:
    """Refuse presets of another form than {name: {"about": text, setting: value}}, with a ValueError."""
    known = {field.name for field in dataclasses.fields(config)} | set(ABOUT)
    if not isinstance(presets, dict):
        raise ValueError("they are no table")
    for name, entry in presets.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("about"), str):
            raise ValueError(f"{name} has no text `about`")
        if unknown := sorted(entry.keys() - known):
            raise ValueError(f"{name} has {unknown[0]}, which is no setting")
