"""The source as mutants see it: definitions by name, places of a pattern in them, and the file with something else there."""

import ast
import copy
import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from mutant_patterns import WILD, Found, Matcher, Pattern, PatternError, fill, is_dots

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Definition:
    """A function, class or constant, or a whole module.

    Args:
        file: the module that holds it.
        name: qualified within the module: ("PrivacyLedger", "charge"); () for the module itself.
        node: its tree.
    """

    file: "File"
    name: tuple[str, ...]
    node: ast.AST

    @property
    def dotted(self) -> str:
        """With its module, below the package."""
        return ".".join((*self.file.module, *self.name))

    def is_called(self, words: Sequence[str]) -> bool:
        """Whether `words` end in this qualified name; words before it name parts of the module's path, in order."""
        cut = len(words) - len(self.name)
        if not self.name:
            return tuple(words) == self.file.module[-len(words) :]
        parts = iter(self.file.module)
        return cut >= 0 and tuple(words[cut:]) == self.name and all(word in parts for word in words[:cut])

    @cached_property
    def variables(self) -> frozenset[str]:
        """Names of parameters and of what is assigned."""
        named = {each.arg for each in ast.walk(self.node) if isinstance(each, ast.arg)}
        stored = {n.id for n in ast.walk(self.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        return frozenset(named | stored)

    @cached_property
    def names(self) -> frozenset[str]:
        """All names."""
        return self.variables | {each.id for each in ast.walk(self.node) if isinstance(each, ast.Name)}


@dataclass(frozen=True)
class File:
    """A module."""

    path: Path
    module: tuple[str, ...]

    @cached_property
    def text(self) -> str:
        """As on disk."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """Parsed."""
        return ast.parse(self.text)

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The node around each node."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def definitions(self) -> list[Definition]:
        """The module, and each definition in it, also within others."""
        return [Definition(self, (), self.tree), *self._within(self.tree, ())]

    def _within(self, scope: ast.AST, name: tuple[str, ...]) -> Iterator[Definition]:
        for node in ast.iter_child_nodes(scope):
            if isinstance(node, SCOPES):
                yield Definition(self, (*name, node.name), node)
                yield from self._within(node, (*name, node.name))
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            if isinstance(scope, ast.Module | ast.ClassDef) and isinstance(node, ast.Assign | ast.AnnAssign):
                yield from (Definition(self, (*name, each.id), node) for each in targets if isinstance(each, ast.Name))
            elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
                yield from self._within(node, name)


@dataclass(frozen=True)
class Place:
    """Where a pattern stands: one expression, or statements one after the other in a block."""

    definition: Definition
    nodes: list[ast.AST]
    found: Found

    @property
    def line(self) -> str:
        """File and line, for messages."""
        return f"{'/'.join(self.definition.file.module)}, line {self.nodes[0].lineno}"


@dataclass(frozen=True)
class Source:
    """A package on disk."""

    root: Path
    files: list[File] = field(init=False)

    def __post_init__(self) -> None:
        """List the modules."""
        files = []
        loaders = self.root.rglob("load*.txt")  # Python too, which a release brings
        for path in sorted([*self.root.rglob("*.py"), *loaders]):
            *folders, name = path.relative_to(self.root).parts
            last = name.partition(".")[0]
            files.append(File(path, tuple(folders) if last == "__init__" else (*folders, last)))
        object.__setattr__(self, "files", files)

    @cached_property
    def definitions(self) -> list[Definition]:
        """Everything that has a name."""
        return [each for file in self.files for each in file.definitions]

    @cached_property
    def _by_last(self) -> dict[str, list[Definition]]:
        table: dict[str, list[Definition]] = {}
        for each in self.definitions:
            for last in (each.name or each.file.module)[-1:]:
                table.setdefault(last, []).append(each)
        return table

    def named(self, name: str) -> list[Definition]:
        """Definitions that `name` names; a module only where nothing else is called so."""
        words = name.split(".")
        called = [each for each in self._by_last.get(words[-1], []) if each.is_called(words)]
        return [each for each in called if each.name] or called

    def find(self, name: str, find: Pattern, put: Pattern | None) -> Place:
        """The only place of `find` in what `name` names.

        Raises:
            PatternError: if there is none, or more than one.
        """
        if not (within := self.named(name)):
            raise PatternError(f"nothing is called {name}")
        places = distinct(place for each in within for place in places_in(each, find, put))
        places = places or distinct(place for each in within for place in places_in(each, find, put, renamed=True))
        if not places:
            raise PatternError(f"it does not stand in {name}")
        if len(places) > 1:
            raise PatternError(f"it stands {len(places)} times in {name}: {', '.join(each.line for each in places)}")
        return places[0]

    def advice(self, name: str, find: Pattern, put: Pattern | None) -> str:
        """Where the pattern, or the nearest to it, is now; for a mutant that cannot be made."""
        if places := self.elsewhere(find, put):
            return f"it stands in {' and '.join(f'{self.short(owner(each))} ({each.line})' for each in places[:3])}"
        if within := self.named(name):
            return nearest(within, find)
        known = {".".join(each.name): each for each in self.definitions if each.name}
        close = difflib.get_close_matches(name, known, 1)
        return f"a name like it: {known[close[0]].dotted}" if close else "no name is like it"

    def short(self, definition: Definition) -> str:
        """Its qualified name, with a part of the module's path where others are called so too."""
        name = ".".join(definition.name)
        hinted = [f"{part}.{name}" for part in reversed(definition.file.module)] if name else []
        for short in [name, *hinted]:
            if short and {each.file for each in self.named(short)} == {definition.file}:
                return short
        return definition.dotted

    def elsewhere(self, find: Pattern, put: Pattern | None) -> list[Place]:
        """All places of `find`, in whatever definition holds it most closely below a class or module."""
        return distinct(place for file in self.files for place in places_in(Definition(file, (), file.tree), find, put))


def owner(place: Place) -> Definition:
    """The function, method or constant around a place; the class or module where there is none."""
    file = place.definition.file
    nodes = {id(place.nodes[0]), *map(id, _ancestors(file, place.nodes[0]))}
    around = [each for each in file.definitions if id(each.node) in nodes]
    is_method = len(around) > 1 and isinstance(around[1].node, ast.ClassDef)
    return [each for each in around if len(each.name) <= 1 + is_method][-1]


def _ancestors(file: File, node: ast.AST) -> Iterator[ast.AST]:
    while (parent := file.parents.get(node)) is not None:
        yield parent
        node = parent


def distinct(places: Iterator[Place]) -> list[Place]:
    """Places without those found twice, as a function is found again in its class."""
    return list({id(place.nodes[0]): place for place in places}.values())


def places_in(definition: Definition, find: Pattern, put: Pattern | None, *, renamed: bool = False) -> list[Place]:
    """All places of `find` in a definition.

    Args:
        put: an expression stands for an expression; statements, or nothing (None), stand for statements.
        renamed: let names that the definition does not hold stand for its variables.
    """
    mentioned = {n.id for top in find.nodes for n in ast.walk(top) if isinstance(n, ast.Name)}
    mentioned = {name for name in mentioned if not name.startswith(WILD)}
    unknown = frozenset(mentioned - definition.names)
    if renamed and not unknown:
        return []
    matcher = Matcher(unknown, definition.variables - mentioned) if renamed else Matcher()
    if find.is_expression and put is not None and put.is_expression:
        kind = None if is_wild(find.nodes[0]) else type(find.nodes[0])
        nodes = (node for node in ast.walk(definition.node) if kind is None or type(node) is kind)
        tried = ((node, matcher.match(find.nodes[0], node, {})) for node in nodes)
        return [Place(definition, [node], found) for node, found in tried if found is not None]
    wanted = [ast.Expr(find.nodes[0])] if find.is_expression else find.nodes
    return [
        Place(definition, block[at : at + size], found)
        for block in _blocks(definition.node)
        for at in range(len(block))
        for size, found in _starts(matcher, wanted, block[at:])
    ]


def is_wild(node: ast.AST) -> bool:
    """Whether a pattern is one wildcard."""
    return is_dots(node) or (isinstance(node, ast.Name) and node.id.startswith(WILD))


def _starts(matcher: Matcher, wanted: Sequence[ast.AST], block: Sequence[ast.AST]) -> Iterator[tuple[int, Found]]:
    sizes = range(1, len(block) + 1) if any(map(is_dots, wanted)) else [len(wanted)]
    for size in sizes:
        if size <= len(block) and (found := matcher.match_list(wanted, block[:size], {})) is not None:
            yield size, found
            return


def _blocks(node: ast.AST) -> Iterator[list[Any]]:
    """Lists of statements; a definition by itself is one."""
    if isinstance(node, ast.stmt):
        yield [node]
    for each in ast.walk(node):
        for _, value in ast.iter_fields(each):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield value


def nearest(within: Sequence[Definition], find: Pattern) -> str:
    """Of the code of the same kind as the pattern, the most similar, for a message."""
    wanted = "\n".join(map(ast.unparse, find.nodes))
    kind = type(find.nodes[0])
    nodes = [n for each in within for n in ast.walk(each.node) if type(n) is kind]
    texts = {ast.unparse(node): node for node in nodes}
    close = difflib.get_close_matches(wanted, texts, 1, 0.3)
    return f"nearest, line {texts[close[0]].lineno}: {close[0]}" if close else "nothing there is like it"


def replaced(place: Place, put: Pattern | None) -> str:
    """The text of the file, with `put` at this place; nothing (None) becomes `pass`."""
    text, nodes = place.definition.file.text, place.nodes
    new = fill(put, place.found) if put else [ast.Pass()]
    if isinstance(nodes[0], ast.expr):
        if string := _string_around(place):  # Python 3.11 does not know where an expression in an f-string stands
            new, nodes = [copy.deepcopy(string, {id(nodes[0]): new[0]})], [string]
        start, end = _span(text, nodes)
        return f"{text[:start]}({_source_of(new)}){text[end:]}"
    start, end = _span(text, nodes)
    block = _source_of(new)
    if text[start:].startswith("elif") and isinstance(nodes[0], ast.If):
        block = f"el{block}" if isinstance(new[0], ast.If) else "else:\n    " + block.replace("\n", "\n    ")
    indent = " " * (start - text.rfind("\n", 0, start) - 1)
    return text[:start] + _indented(block, indent) + text[end:]


def _source_of(nodes: Sequence[ast.AST]) -> str:
    return "\n".join(ast.unparse(ast.fix_missing_locations(each)) for each in nodes)


def _string_around(place: Place) -> ast.JoinedStr | None:
    """The outermost f-string that a place is in."""
    strings = (each for each in ast.walk(place.definition.node) if isinstance(each, ast.JoinedStr))
    return next((each for each in strings if any(node is place.nodes[0] for node in ast.walk(each))), None)


def _indented(text: str, indent: str) -> str:
    """With each line but the first indented, and the inside of long strings as it is."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(re.sub(r"^el(if|se:)", lambda m: "if" if m[1] == "if" else "if 1:", text))):
        if isinstance(node, ast.Constant | ast.JoinedStr) and node.end_lineno != node.lineno:
            inside |= set(range(node.lineno + 1, (node.end_lineno or 0) + 1))
    lines = text.split("\n")
    return "\n".join(line if at == 1 or at in inside else indent + line for at, line in enumerate(lines, 1))


def _span(text: str, nodes: Sequence[Any]) -> tuple[int, int]:
    """Of nodes, in characters. `ast` counts columns in bytes, and does not count decorators."""
    lines = text.split("\n")  # not splitlines(), which splits at more signs than Python

    def offset(line: int, column: int) -> int:
        return sum(len(each) + 1 for each in lines[: line - 1]) + len(lines[line - 1].encode()[:column].decode())

    line, column = nodes[0].lineno, nodes[0].col_offset
    if decorators := getattr(nodes[0], "decorator_list", []):
        line = decorators[0].lineno
        column = lines[line - 1].index("@")
    return offset(line, column), offset(nodes[-1].end_lineno, nodes[-1].end_col_offset)
