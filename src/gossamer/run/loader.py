"""`load.py` of a release: one file that loads the generator and draws from it, with PyTorch and safetensors and no Gossamer.

It is cut out of our own source: the definitions that a method's `generator` and `sample` need, and those that these need in
turn, dependencies first, without annotations; `load.py.txt` stands around them. What needs another package (the drawing
programs need matplotlib's fonts) is refused, and the README of the release says so.
"""

import ast
import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeAlias

from gossamer.methods import METHODS
from gossamer.run.versions import versions

_ALLOWED = {"torch", "safetensors", *sys.stdlib_module_names}
_MARK = "# --- what the method needs stands here\n"

Definition: TypeAlias = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign
Place: TypeAlias = tuple[str, str]
"""A module of ours, and a name in it."""


class Unloadable(Exception):
    """Why no such file can be written, in a phrase."""


def loader(method: str) -> str:
    """The text of load.py for releases of a method.

    Raises:
        Unloadable: if it would need more than PyTorch and safetensors.
    """
    kind = type(METHODS[method])
    owner = next(each for each in kind.__mro__ if "sample" in vars(each))
    found = _Collected()
    found.take((f"{kind.__module__}.loop", "generator"))
    found.take_method((owner.__module__, owner.__name__), "sample", "sample_batch")
    frame = resources.files("gossamer.run").joinpath("load.py.txt").read_text(encoding="utf-8")
    taken = {name for node in ast.parse(frame).body for name in _names(node)} & found.texts.keys()
    if taken:
        raise Unloadable(f"{', '.join(sorted(taken))} would stand for two things")
    head, tail = frame.split(_MARK)
    head = head.replace("{version}", versions()["gossamer"]).replace("{method}", method)
    imports = sorted(found.imports - set(head.splitlines()))
    return "\n\n\n".join(["\n".join([head.rstrip(), *imports]), *found.texts.values(), tail.strip()]) + "\n"


@dataclass
class _Collected:
    """Imports and definitions of the file, as they will stand there."""

    imports: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)
    _homes: dict[str, str] = field(default_factory=dict)

    def take(self, place: Place) -> None:
        """A definition, after all that it needs."""
        module, name = _home(place)
        if self._homes.setdefault(name, module) != module:
            raise Unloadable(f"{name} would stand for two things")
        if name not in self.texts:
            self._put(module, _module(module).definitions[name], name)

    def take_method(self, owner: Place, method: str, name: str) -> None:
        """A method of a class, as a function of this name."""
        kind = _module(owner[0]).definitions[owner[1]]
        assert isinstance(kind, ast.ClassDef)
        function = next(each for each in kind.body if isinstance(each, ast.FunctionDef) and each.name == method)
        copied = _copy(function)
        assert isinstance(copied, ast.FunctionDef)
        copied.name, copied.args.args = name, copied.args.args[1:]
        if "self" in _used(copied):
            raise Unloadable(f"{owner[1]}.{method} needs its object")
        self._put(owner[0], copied, name)

    def _put(self, module: str, definition: Definition, name: str) -> None:
        known, plain = _module(module), _Plain(_module(module))
        node = plain.visit(_copy(definition))
        self.texts[name] = ""  # taken: what it needs may need it too
        for needed in [*plain.elsewhere, *((module, each) for each in sorted(_used(node)) if each in known)]:
            line, package = known.others.get(needed[1], ("", "")) if needed[0] == module else ("", "")
            if line:
                if package not in _ALLOWED:
                    raise Unloadable(f"it needs {package}")
                self.imports.add(line)
            elif needed != (module, name):
                self.take(needed)
        del self.texts[name]
        self.texts[name] = ast.unparse(ast.fix_missing_locations(node))


@dataclass(frozen=True)
class _Module:
    """The top level of a module of ours.

    Args:
        definitions: functions, classes and constants, by their names.
        ours: names from our other modules; the second part is empty where the name stands for a module.
        others: names from elsewhere, each with the line that imports it and the package.
    """

    definitions: dict[str, Definition]
    ours: dict[str, Place]
    others: dict[str, tuple[str, str]]

    def __contains__(self, name: str) -> bool:
        return name in self.definitions or name in self.ours or name in self.others


@cache
def _module(name: str) -> _Module:
    source = _source(name)
    if source is None:
        raise Unloadable(f"{name} has no source")
    found = _Module({}, {}, {})
    for node in _statements(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            _note_import(node, found)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign):
            found.definitions.update(dict.fromkeys(_names(node), node))
    return found


def _source(name: str) -> Path | None:
    """The file of a module; None where no module has this name."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:  # the first part of the name is no package
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)


def _statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Of the top level; of `if TYPE_CHECKING` what type checkers see, which is what the lazy modules stand for."""
    for node in tree.body:
        if isinstance(node, ast.If):
            yield from node.body
        else:
            yield node


def _note_import(node: ast.Import | ast.ImportFrom, found: _Module) -> None:
    source = node.module or "" if isinstance(node, ast.ImportFrom) else ""
    for alias in node.names:
        name, package = alias.asname or alias.name, (source or alias.name).split(".")[0]
        if package == "gossamer" and source:
            inner = f"{source}.{alias.name}"
            found.ours[name] = (inner, "") if _source(inner) else (source, alias.name)
        else:
            named = ast.Import([alias]) if not source else ast.ImportFrom(source, [alias], 0)
            found.others[name] = (ast.unparse(named), package)


def _home(place: Place) -> Place:
    """Where a name is defined."""
    module, name = place
    known = _module(module)
    if name in known.definitions:
        return place
    there, original = known.ours.get(name, ("", ""))
    if original != name:  # another name, a whole module in the place of a value, or nothing
        raise Unloadable(f"{name} of {module} cannot be cut out")
    return _home((there, original))


class _Plain(ast.NodeTransformer):
    """Takes annotations out, and writes `module.name` as `name` where the module is one of ours.

    Args:
        module: in which the definition stands.
    """

    def __init__(self, module: _Module) -> None:
        self._module = module
        self.elsewhere: list[Place] = []

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """No annotations."""
        node.returns = None
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
        for argument in arguments:
            if argument is not None:
                argument.annotation = None
        return self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """The fields of a dataclass are its annotations: they stay, as text."""
        for each in node.body if node.decorator_list else ():
            if isinstance(each, ast.AnnAssign):
                each.annotation = ast.Constant(ast.unparse(each.annotation))
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """The value, if there is one."""
        self.generic_visit(node)
        if isinstance(node.annotation, ast.Constant):
            return node
        return ast.Pass() if node.value is None else ast.Assign([node.target], node.value)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """`module.name` of ours."""
        self.generic_visit(node)
        if isinstance(node.value, ast.Name):
            module, name = self._module.ours.get(node.value.id, ("", " "))
            if not name:
                self.elsewhere.append((module, node.attr))
                return ast.Name(node.attr, node.ctx)
        return node


def _copy(node: Definition) -> Any:
    return ast.parse(ast.unparse(node)).body[0]


def _used(node: ast.AST) -> set[str]:
    """Names that are read in it. Some may be its own; then a definition of the same name comes along, and does no harm."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}


def _names(node: ast.stmt) -> list[str]:
    """What a statement defines."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            walked = [each for target in targets for each in ast.walk(target)]
            return [each.id for each in walked if isinstance(each, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []
