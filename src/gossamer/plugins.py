"""Plug-ins: methods, encoders, autoencoders and picture generators that another package adds, or a file of your own.

A package names each as an entry point of the group `gossamer.methods`, `gossamer.encoders`, `gossamer.autoencoders` or
`gossamer.generators`. An object of your own is named `module:object`, or added by `add`. A plug-in runs with your rights, and
all but a generator see the records. So Gossamer imports installed entry points, and what the user has named in this process.
It never imports a `module:object` because a run folder or a release names it.
"""

import hashlib
import importlib
import importlib.metadata
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from gossamer.errors import RequestError, did_you_mean
from gossamer.lazy import Lazy

safetensors_torch: Any = Lazy("safetensors.torch")

PluginKind: TypeAlias = Literal["method", "encoder", "autoencoder", "generator"]
NOT_KNOWN = "not known"
"""Of a fact that neither the package nor the object states."""
_LONGEST = 1_000  # letters of a fact
_OWN_ENCODERS = {"lite0": ("gossamer.nets.lite0", "load")}
"""Encoders of Gossamer itself: the module, and the function that makes one. Their packages are optional."""
_OBJECTS: tuple[PluginKind, ...] = ("encoder", "autoencoder", "generator")
"""What a `module:object` may be, if it is no method."""
_SOURCE = frozenset({".py", ".toml", ".json", ".txt"})
_added: dict[tuple[str, str], "_Added"] = {}


@dataclass(frozen=True)
class _Added:
    """An object that the user has named in this process, and the module that it is from."""

    value: Any
    module: str


@dataclass(frozen=True, kw_only=True)
class Origin:
    """What a certificate says of a plug-in: public facts, each one line of text.

    Args:
        kind: method, encoder, autoencoder or generator.
        name: of the entry point, or `module:object`.
        package: the distribution that it is from.
        version: of that distribution.
        source: SHA-256 of the source files of its package.
        weights: SHA-256 of its weights, where it is or holds a `torch.nn.Module`.
        licence: stated by the object (`licence`), or by the package.
        trained_on: what its weights were trained on, stated by the object.
    """

    kind: str
    name: str
    package: str = NOT_KNOWN
    version: str = NOT_KNOWN
    source: str = NOT_KNOWN
    weights: str = NOT_KNOWN
    licence: str = NOT_KNOWN
    trained_on: str = NOT_KNOWN

    def to_json(self) -> dict[str, str]:
        """Its facts by their names."""
        return asdict(self)


def add(kind: PluginKind, name: str, value: Any) -> None:
    """Add an object under a name, in this process: for notebooks and tests.

    Args:
        kind: method, encoder, autoencoder or generator.
        name: what it is called from now on.
        value: the object.
    """
    _added[kind, name] = _Added(value, str(getattr(value, "__module__", type(value).__module__)))


def remove(kind: PluginKind, name: str) -> None:
    """Forget what `add` or `allow` has added. Raises KeyError: there is no such object."""
    del _added[kind, name]


def allow(reference: str) -> str:
    """Import `module:object` because the user has named it, and return the name that it has from now on.

    Args:
        reference: a module and an object in it. A method is called by its own name, anything else by the reference. The
            module may lie in the working folder. `onnx:FILE` is an encoder in a file.

    Raises:
        RequestError: if there is no such module or object, or its import fails.
    """
    module, _, path = reference.partition(":")
    if not module or not path:
        raise RequestError(f"{reference!r} is not of the form module:object.")
    if module == "onnx":
        reader = importlib.import_module("gossamer.nets.onnx_files")
        _added["encoder", reference] = _Added(reader.load(path), reader.CODE)
        return reference
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # last: no file there takes the place of an installed module
    value = _imported(f"The plug-in {reference!r}", module, path)
    if hasattr(value, "config_type"):
        name = str(getattr(value, "name", reference))
        _added["method", name] = _Added(value, module)
        return name
    for kind in _OBJECTS:
        _added[kind, reference] = _Added(value, module)
    return reference


def names(kind: PluginKind) -> list[str]:
    """All names of this kind: encoders of Gossamer itself, then plug-ins of installed packages, then those of this process."""
    own = [*_OWN_ENCODERS] if kind == "encoder" else []
    return list(dict.fromkeys([*own, *sorted(_installed(kind)), *(name for of, name in _added if of == kind)]))


def load(kind: PluginKind, name: str) -> Any:
    """The object of this name.

    Raises:
        RequestError: if there is none, if its import fails, or if it is a `module:object` that the user has not named.
    """
    if kind == "encoder" and name in _OWN_ENCODERS and (kind, name) not in _added:
        module, maker = _OWN_ENCODERS[name]
        made = importlib.import_module(module)
        _added[kind, name] = _Added(getattr(made, maker)(), made.CODE)
    if (kind, name) in _added:
        return _added[kind, name].value
    if name in (known := _installed(kind)):
        *_, point = known[name]
        packages = sorted({_package(each.dist) for each in known[name]})
        if len(packages) > 1:
            raise RequestError(
                f"The packages {' and '.join(packages)} all add a {kind} {name!r}. Uninstall all but the one that you want."
            )
        return _imported(f"The {kind} {name!r} of the package {packages[0]}", point.module, point.attr)
    if other := next((of for of, added in _added if added == name), ""):
        raise RequestError(f"{name!r} is no {kind}, but of the kind {other}. Name a {kind}.")
    if ":" in name:
        raise RequestError(
            f"The {kind} {name!r} is no installed plug-in, and code is not imported because a file names it. If you trust it, "
            f"name it yourself: `gossamer --plugin {name} COMMAND`, or gossamer.plugins.allow({name!r}) in Python."
        )
    raise RequestError(
        f"there is no {kind} {name!r}.{did_you_mean(name, names(kind))} Installed: {', '.join(names(kind)) or 'none'}. "
        "Your own is named module:object."
    )


def origin(kind: PluginKind, name: str) -> Origin:
    """What is known of a plug-in. It is imported for this; see `load`."""
    value = load(kind, name)
    if (kind, name) in _added:
        module, package = _added[kind, name].module, _distribution_of(_added[kind, name].module)
    else:
        module, package = _installed(kind)[name][-1].module, _installed(kind)[name][-1].dist
    facts = {} if package is None else {"package": package.name, "version": package.version}
    stated = {
        **facts,
        "source": source_of(module),
        "weights": _weights(value),
        "licence": getattr(value, "licence", None) or _licence(package),
        "trained_on": getattr(value, "trained_on", None),
    }
    return Origin(kind=kind, name=name, **{fact: one_line(text) for fact, text in stated.items() if text})


def source_of(module: str) -> str:
    """SHA-256 of the source files of the package that has this module; empty: it has no file, as in a notebook."""
    package = getattr(sys.modules.get(module), "__package__", None) or ""
    for depth in range(1, len(package.split(".")) + 1):  # the outermost that is no namespace package
        outer = sys.modules.get(".".join(package.split(".")[:depth]))
        if package and outer is not None and getattr(outer, "__file__", None):
            folder = Path(str(outer.__file__)).parent
            files = [path for path in folder.rglob("*") if path.suffix in _SOURCE and "__pycache__" not in path.parts]
            return _digest((path.relative_to(folder).as_posix(), path.read_bytes()) for path in sorted(files))
    file = getattr(sys.modules.get(module), "__file__", None)
    return _digest([(Path(file).name, Path(file).read_bytes())]) if file and Path(file).is_file() else ""


def stated(entries: Any) -> Iterator[Mapping[str, str]]:
    """The plug-ins that the settings of a run name. Raises ValueError: this is not their form."""
    facts = Origin.__dataclass_fields__
    for entry in entries:
        if not isinstance(entry, dict) or entry.keys() != facts.keys() or entry["kind"] not in get_args(PluginKind):
            raise ValueError("an entry of plugins has other facts")
        if not all(isinstance(text, str) and text == one_line(text) for text in entry.values()):
            raise ValueError("a fact of a plug-in is not one line of text")
        yield entry


@cache
def _installed(kind: str) -> dict[str, list[importlib.metadata.EntryPoint]]:
    """What packages add under each name."""
    found: dict[str, list[importlib.metadata.EntryPoint]] = {}
    for point in importlib.metadata.entry_points(group=f"gossamer.{kind}s"):
        found.setdefault(point.name, []).append(point)
    return found


def _imported(what: str, module: str, path: str) -> Any:
    try:
        value = importlib.import_module(module)
        for part in path.split("."):
            value = getattr(value, part)
    except (Exception, SystemExit) as error:  # the code of others raises anything
        raise RequestError(f"{what} cannot be imported ({described(error)}).") from error
    return value


def described(error: BaseException) -> str:
    """Return type and text of an error on one line. For errors before a record is read: later, the text could hold one."""
    text = one_line(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def blamed(error: BaseException) -> str:
    """Name the plug-in in whose code an error arose, as "The method 'mine'"; empty: in none."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    used = {
        (kind, name): points[-1].module for kind in get_args(PluginKind) for name, points in _installed(kind).items()
    }
    used |= {key: added.module for key, added in _added.items()}
    for (kind, name), module in used.items():
        own = getattr(sys.modules.get(module), "__file__", None)
        if own is None or not files:
            continue
        within = str(Path(own).parent) + os.sep if Path(own).name == "__init__.py" else own
        if any(file == own or file.startswith(within) for file in files):
            return f"The {kind} {name!r}"
    return ""


def _package(distribution: importlib.metadata.Distribution | None) -> str:
    return NOT_KNOWN if distribution is None else f"{distribution.name} {distribution.version}"


def _distribution_of(module: str) -> importlib.metadata.Distribution | None:
    found = _distributions().get(module.split(".", maxsplit=1)[0], [])
    return importlib.metadata.distribution(found[0]) if found else None


@cache  # reading what all packages have installed takes half a second
def _distributions() -> Mapping[str, list[str]]:
    """The packages that have installed each module."""
    return importlib.metadata.packages_distributions()


def _licence(distribution: importlib.metadata.Distribution | None) -> str:
    if distribution is None:
        return ""
    entries = distribution.metadata
    return next((str(entries[name]) for name in ("License-Expression", "License") if name in entries), "")


def _weights(value: Any) -> str:
    """SHA-256 of the weights of a module, or of the modules that an object holds; empty: there are none."""
    held = [("", value), *sorted(vars(value).items())] if hasattr(value, "__dict__") else [("", value)]
    found = [(name, part.state_dict()) for name, part in held if callable(getattr(type(part), "state_dict", None))]
    found = found[:1] if found and not found[0][0] else found  # a module has its parts in its own state
    return _digest((name, _bytes_of(state)) for name, state in found if state)


def _bytes_of(state: Mapping[str, Any]) -> bytes:
    """The tensors of a state dictionary in the safetensors format."""
    tensors = {key: value for key, value in state.items() if hasattr(value, "detach")}
    return bytes(safetensors_torch.save({key: tensor.detach().cpu().clone() for key, tensor in tensors.items()}))


def _digest(parts: Iterable[tuple[str, bytes]]) -> str:
    """SHA-256 of named contents; empty: there are none."""
    digest, count = hashlib.sha256(), 0
    for name, content in parts:
        digest.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
        count += 1
    return digest.hexdigest() if count else ""


def one_line(text: object) -> str:
    """One line of printable text, not too long."""
    return "".join(letter for letter in " ".join(str(text).split()) if letter.isprintable())[:_LONGEST].strip()
