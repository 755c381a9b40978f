"""`load.py` of a release: one file that loads the generator and samples from it, without Gossamer.

The file needs PyTorch and safetensors. The file of a table needs NumPy alone.

It holds the definitions of our source that a method's `generator` and `sample` need, directly or not, as they are written,
module by module. `load.py.txt` or `load_table.txt` is the frame around them. A method that needs another package has no such
file, and the README of the release says so.

Of a table, how codes are decoded comes from our source. The frame samples, with NumPy in place of PyTorch: a test compares it
with `methods.marginals.nets`.
"""

import ast
import importlib
import re
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from graphlib import TopologicalSorter
from importlib import resources
from pathlib import Path
from typing import TypeAlias

from gossamer.data.card import Kind
from gossamer.data.tables.any_card import SAMPLES, card_from
from gossamer.methods import METHODS
from gossamer.methods.common.labelling import LabelsSamples
from gossamer.methods.job import Job
from gossamer.privacy.certificate.certificate import Certificate
from gossamer.run.release.contents import DRAWN_ON
from gossamer.run.storage.versions import versions

_LEFT_OUT = {
    ("gossamer.plugins", ""): "code that is found by its name, on the machine of the user",
    ("gossamer.methods.registry", ""): "the same",
    ("gossamer.lazy", "pa"): "what reads tables",
    ("gossamer.lazy", "pc"): "the same",
}
"""Modules, or names of them, that the file does not have. In the file, what uses them cannot be called."""
_ROOT = Path(__file__).parents[3]
_GAP = "\n\n"
"""Before a definition."""
_MARK = "# --- what the method needs stands here\n"
_USED = re.compile(r'_MODULES\["(\S+)"\]\.(\w+)')
"""What a frame uses of our source."""

Definition: TypeAlias = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


class Unloadable(Exception):
    """Why no such file can be written, in a phrase."""


def loader(method: str, samples: Kind | None = None) -> str:
    """The text of load.py for releases of a method. samples: what it draws; None: what it takes.

    Raises:
        Unloadable: if it would need more than PyTorch and safetensors, or NumPy for a table.
    """
    kind = type(METHODS[method])
    name, *packages = SAMPLES[samples or kind.takes].loader
    frame = resources.files("gossamer.run.release").joinpath(name)
    text = frame.read_text(encoding="utf-8")
    needed = _Needed(frozenset({*packages, *sys.stdlib_module_names}))
    owner = next(base for base in kind.__mro__ if "sample" in vars(base))
    if "{owner}" in text:
        needed.take_method(owner.__module__, owner.__name__, "sample")
    if issubclass(kind, LabelsSamples):
        needed.take("gossamer.methods.common.softmax_regression", "softened")
    places = {"method": method, "owner": owner.__module__, "loop": f"{kind.__module__}.loop"}
    for place, value in {**places, "version": versions()["gossamer"]}.items():
        text = text.replace(f"{{{place}}}", value)
    for module, name in _USED.findall(text):
        needed.take(module, name)
    return text.replace(_MARK, needed.text())


def loadable(certificate: Certificate) -> tuple[str, str]:
    """The text of load.py for a release, and why it has none; one of the two is empty."""
    if METHODS.is_plugin(certificate.method):
        return "", "its method is a plug-in, whose code is not part of Gossamer"
    job = Job.of(METHODS[certificate.method], certificate.config, card_from(certificate.card))
    if job.own_pretrained:
        named = " and ".join(f"the {kind} {name}" for kind, name in job.own_pretrained)
        return "", f"it needs {named}, which no release contains"
    if certificate.config.get("refine"):
        return "", "it refines samples of another method"
    had_public = any("records" in entry for entry in certificate.facts["public_inputs"])
    if had_public and METHODS[certificate.method].labels_public(certificate.config):
        return "", "its samples are public pictures, which Gossamer picks so that none comes twice"
    draws = len(SAMPLES[job.card.kind].loader) > 1  # without a package, it reads samples
    if not draws and DRAWN_ON not in certificate.versions:
        return "", "it reads samples, and this release has none"
    try:
        return loader(certificate.method, job.card.kind), ""
    except Unloadable as error:
        return "", str(error)


def has_soft_labels(certificate: Certificate) -> bool:
    """Whether samples come with the answers of a released classifier, mixed with what was drawn."""
    return float(certificate.config.get("own_label", 1.0)) < 1


@dataclass(frozen=True)
class _Needed:
    """What the file holds: lines by the names that they define, by module. allowed: packages that it may import."""

    allowed: frozenset[str]
    lines: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    imported: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def text(self) -> str:
        """Each module as a string that the frame runs, after those that it imports."""
        blocks = []
        for module in TopologicalSorter({name: sorted(self.imported[name]) for name in self.lines}).static_order():
            order = {name: at for at, name in enumerate(_module(module).definitions)}
            body = sorted(self.lines[module].items(), key=lambda entry: order.get(entry[0], -1))
            source = "\n".join(dict.fromkeys(f"{_GAP * (name in order)}{line}" for name, line in body)).lstrip()
            if "'''" in source:
                raise Unloadable(f"{module} cannot be quoted")
            blocks.append(f"_add({module!r}, r'''\n{source}\n''')\n")
        return "\n\n".join(blocks)

    def take(self, module: str, name: str) -> None:
        """Add a definition or an import of a module of ours, with all that it needs."""
        if name in self.lines[module]:
            return
        if name in _module(module).definitions:
            self._define(module, name, _module(module).definitions[name])
            return
        origin, original = _module(module).imports.get(name, ("", ""))
        if _file(origin):
            self.lines[module][name] = f"{name} = _MODULES[{origin!r}]{original and '.'}{original}"
            self.imported[module].add(origin)
            if original:
                self.take(origin, original)
        elif origin.split(".")[0] not in self.allowed:
            raise Unloadable(f"it needs {origin.split('.')[0] or f'{name} of {module}'}")
        else:
            line = f"from {origin} import {original}" if original else f"import {origin}"
            self.lines[module][name] = line if name in (origin.split(".")[0], original) else f"{line} as {name}"

    def take_method(self, module: str, owner: str, name: str) -> None:
        """Add a method of a class as a function, whose first argument it does not use."""
        body = getattr(_module(module).definitions[owner], "body", [])
        (function,) = (part for part in body if isinstance(part, ast.FunctionDef) and part.name == name)
        if any(isinstance(node, ast.Name) and node.id == "self" for node in ast.walk(function)):
            raise Unloadable(f"{owner}.{name} needs its object")
        self._define(module, name, function)

    def _define(self, module: str, name: str, node: Definition) -> None:
        source = _module(module)
        if isinstance(node, ast.Assign) and ast.unparse(node.value).endswith(".read_text()"):
            content = getattr(importlib.import_module(module), name)  # of a file of the package
            self.lines[module][name] = f'{name} = """\\\n{content}"""'
            return
        parts = list(_run(node))
        used = {part.id for part in parts if isinstance(part, ast.Name)} & (source.definitions | source.imports).keys()
        origins = {source.imports.get(each, ("", "")) for each in used}
        if any(not {origin, (origin[0], "")}.isdisjoint(_LEFT_OUT) for origin in origins):
            raises = "    def __init__(self, *given):\n        raise NotImplementedError(given)"
            self.lines[module][name] = f"class {name}:\n{raises}"
            return
        self.lines[module][name] = source.written(node)
        for each in sorted(used):
            self.take(module, each)
        for part in parts:
            match part:
                case ast.Attribute(value=ast.Name(id=alias), attr=attribute) if alias in used:
                    origin, original = source.imports.get(alias, ("", ""))
                    if not original and _file(origin):
                        self.take(origin, attribute)


@dataclass(frozen=True)
class _Module:
    """The top level of a module of ours.

    Args:
        lines: of its text.
        definitions: functions, classes and constants, by their names.
        imports: module and name there, by the name here; the name there is empty where it stands for the module.
    """

    lines: list[str]
    definitions: dict[str, Definition]
    imports: dict[str, tuple[str, str]]

    def written(self, node: Definition) -> str:
        """A definition as it is written."""
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        return textwrap.dedent("\n".join(self.lines[first - 1 : node.end_lineno]))


@cache
def _module(name: str) -> _Module:
    path = _file(name)
    assert path is not None
    text = path.read_text(encoding="utf-8")
    module = _Module(text.splitlines(), {}, {})
    for node in ast.parse(text).body:
        for statement in node.body if isinstance(node, ast.If) else [node]:  # the real imports of lazy modules
            match statement:
                case ast.Import(names=names):
                    module.imports.update({each.asname or each.name.split(".")[0]: (each.name, "") for each in names})
                case ast.ImportFrom(module=str(origin), names=names):
                    for each in names:
                        inner = f"{origin}.{each.name}"
                        there = (inner, "") if _file(inner) else (origin, each.name)
                        module.imports[each.asname or each.name] = there
                case ast.FunctionDef(name=defined) | ast.ClassDef(name=defined):
                    module.definitions[defined] = statement
                case ast.Assign() | ast.AnnAssign():
                    targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                    found = [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
                    module.definitions.update(dict.fromkeys(found, statement))
    return module


@cache
def _file(module: str) -> Path | None:
    """The file of a module of ours; None: we have none of this name."""
    if not f"{module}.".startswith("gossamer."):
        return None
    path = _ROOT.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def _run(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a definition, but for annotations, which the file does not evaluate."""
    yield node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns"):
            for part in value if isinstance(value, list) else [value]:
                if isinstance(part, ast.AST):
                    yield from _run(part)
