"""The registry: each method by its name on the command line."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, MutableMapping

from gossamer import plugins
from gossamer.errors import RequestError
from gossamer.methods.method import AnyMethod, BaseConfig, Job, Method, State


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
        return {name: error for name, error in self._looked_at().items() if error}

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

    def __setitem__(self, name: str, method: AnyMethod) -> None:
        """Add a method in this process. Raises RequestError: the name is taken, or this is no method."""
        if name in self._own:
            raise RequestError(f"{name!r} is a method of Gossamer. Give yours another name.")
        _checked(name, method)
        plugins.add("method", name, method)

    def __delitem__(self, name: str) -> None:
        """Forget a method that was added in this process."""
        plugins.remove("method", name)

    def __iter__(self) -> Iterator[str]:
        """The names of the methods that can be used."""
        yield from self._own
        yield from (name for name, error in self._looked_at().items() if not error)

    def __len__(self) -> int:
        """How many can be used."""
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"METHODS({', '.join(self)})"

    def _looked_at(self) -> dict[str, str]:
        """Each plug-in by its name, and why it cannot be used; empty: it can."""
        return {name: self._problem(name) for name in plugins.names("method")}

    def _problem(self, name: str) -> str:
        if name in self._own:
            return f"The name {name!r} of a plug-in is that of a method of Gossamer, which stays."
        try:
            self[name]
        except RequestError as error:
            return str(error)
        return ""


METHODS = Registry()
"""The `__init__` of this package fills it."""


def plugins_of(job: Job[BaseConfig, State]) -> list[tuple[plugins.Kind, str]]:
    """Kind and name of each plug-in of a run: methods, then encoders and generators."""
    methods = [job.method.name, *([] if job.first is None else [job.first.method.name])]
    own: list[tuple[plugins.Kind, str]] = [("method", name) for name in methods if METHODS.is_plugin(name)]
    return list(dict.fromkeys([*own, *job.pretrained]))


def changed_plugins(
    named: Iterable[tuple[plugins.Kind, str]], begun_with: Iterable[Mapping[str, str]], *facts: str
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
            changed.append(
                f"The {kind} {name!r} has another SHA-256 of its {' and '.join(other)} than when the run began. Restore "
                f"version {before['version']} of it"
            )
    return changed


def _checked(name: str, value: object) -> AnyMethod:
    """The method of a plug-in, made if it is a class. Raises RequestError: it is no method of this name."""
    what = f"The plug-in {name!r}"
    try:
        method = value() if isinstance(value, type) else value
    except Exception as error:  # the code of others raises anything
        raise RequestError(f"{what} cannot be made ({type(error).__name__}).") from error
    if not isinstance(method, Method):
        raise RequestError(f"{what} is not a gossamer.methods.Method.")
    if method.name != name:
        raise RequestError(f"{what} calls itself {method.name!r}. A method has one name.")
    config = getattr(method, "config_type", None)
    if not (isinstance(config, type) and issubclass(config, BaseConfig) and dataclasses.is_dataclass(config)):
        raise RequestError(f"{what} has no config_type that is a dataclass of BaseConfig.")
    return method
