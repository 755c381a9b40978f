"""Python patterns: where a pattern stands in the source, and the source with another in its place.

A pattern is an expression or statements in Python. Layout, quotes, comments and the order of keywords do not matter.

    ...     anything: one expression, or any number of arguments, items or statements
    $name   anything, the same wherever `$name` stands: an expression, or a name

A name of a pattern that its function no longer holds stands for a local variable that was renamed.
"""

import ast
import copy
import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

WILD, ARGUMENTS = "_any_", "_any_arguments"
UNCOMPARED = {"ctx", "kind", "type_comment", "type_ignores", "type_params"}
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class PatternError(ValueError):
    """A pattern is no Python, or it stands nowhere or more than once."""


# --- patterns -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pattern:
    """A parsed pattern: statements, or one expression."""

    nodes: list[ast.AST]
    is_expression: bool


def parse(text: str) -> Pattern:
    """Parse a pattern. An expression by itself is an expression, not a statement."""
    plain = re.sub(r"\$(\w+)", rf"{WILD}\1", text.strip())
    plain = re.sub(r"(def \w+)\(\.\.\.\)", rf"\1(*{ARGUMENTS})", plain)
    try:
        return _numbered(Pattern([ast.parse(f"(\n{plain}\n)", mode="eval").body], is_expression=True))
    except SyntaxError:
        pass
    try:
        return _numbered(Pattern(list(ast.parse(plain).body), is_expression=False))
    except SyntaxError as error:
        raise PatternError(f"no Python: {text!r} ({error.msg})") from error


def _numbered(pattern: Pattern) -> Pattern:
    """Number each `...` in the order of the text, so that `put` gives back what `find` left out."""
    nodes = [node for top in pattern.nodes for node in ast.walk(top)]
    dots = [n for n in nodes if is_any_arguments(n) or (isinstance(n, ast.Constant) and n.value is ...)]
    for at, node in enumerate(sorted(dots, key=lambda node: (node.lineno, node.col_offset))):
        node.dots = at  # type: ignore[attr-defined]
    return pattern


def is_dots(node: object) -> bool:
    """Whether this is the `...` of a pattern, as an expression or as a statement."""
    return hasattr(node.value if isinstance(node, ast.Expr) else node, "dots") and not is_any_arguments(node)


def is_any_arguments(node: object) -> bool:
    """Whether this is the `...` of `def name(...)`."""
    return isinstance(node, ast.arg) and node.arg == ARGUMENTS


def _dots(node: Any) -> int:
    return int((node.value if isinstance(node, ast.Expr) else node).dots)


# --- matching -------------------------------------------------------------------------------------------------------

Found = dict[object, Any]
"""What wildcards stand for: by number for `...`, by name for `$name`, by ("local", name) for a renamed variable."""


@dataclass(frozen=True)
class Matcher:
    """Compares a pattern with the source; `locals` are the variables that may stand for one of `renamed`."""

    renamed: frozenset[str] = frozenset()
    locals: frozenset[str] = frozenset()

    def match(self, pattern: Any, node: Any, found: Found) -> Found | None:
        """What the wildcards stand for, with `found` included; None where the two differ."""
        if isinstance(pattern, str):
            return self._match_name(pattern, node, found)
        if not isinstance(pattern, ast.AST):
            same = type(pattern) is type(node) and pattern == node
            return found if same else None
        if is_dots(pattern) and isinstance(node, ast.expr):
            return found | {_dots(pattern): node}
        if isinstance(pattern, ast.Name) and pattern.id.startswith(WILD) and isinstance(node, ast.expr):
            return _bind(pattern.id, node, found)
        if type(pattern) is not type(node):
            return None
        if isinstance(pattern, ast.Name):
            return self._match_variable(pattern.id, node.id, found)
        if isinstance(pattern, ast.arg):
            found = self._match_variable(pattern.arg, node.arg, found)  # type: ignore[assignment]
            return None if found is None else self.match_fields(pattern, node, ["annotation"], found)
        if isinstance(pattern, ast.Call):
            return self._match_call(pattern, node, found)
        if isinstance(pattern, ast.FunctionDef | ast.AsyncFunctionDef) and is_any_arguments(pattern.args.vararg):
            rest = (node.args, node.returns, node.decorator_list)
            return self.match_fields(pattern, node, ["name", "body"], found | {_dots(pattern.args.vararg): rest})
        return self.match_fields(pattern, node, [name for name in pattern._fields if name not in UNCOMPARED], found)

    def match_fields(self, pattern: ast.AST, node: ast.AST, names: Sequence[str], found: Found | None) -> Found | None:
        """Match each field, with what those before it have found."""
        for name in names:
            if found is None:
                return None
            left, right = getattr(pattern, name, None), getattr(node, name, None)
            if isinstance(left, list):
                found = self.match_list(left, right if isinstance(right, list) else [], found)
            else:
                found = self.match(left, right, found)
        return found

    def match_list(self, patterns: Sequence[Any], nodes: Sequence[Any], found: Found) -> Found | None:
        """Match items one by one; `...` stands for any number of them, as few as possible."""
        if not patterns:
            return found if not nodes else None
        first, rest = patterns[0], patterns[1:]
        if is_dots(first):
            for many in range(len(nodes) + 1):
                tail = self.match_list(rest, nodes[many:], found | {_dots(first): list(nodes[:many])})
                if tail is not None:
                    return tail
            return None
        if not nodes:
            return None
        head = self.match(first, nodes[0], found)
        return None if head is None else self.match_list(rest, nodes[1:], head)

    def _match_call(self, pattern: ast.Call, node: ast.Call, found: Found) -> Found | None:
        """Keywords match by name; a `...` among the arguments stands for other keywords too."""
        dots = next((each for each in pattern.args if is_dots(each)), None)
        names = [each.arg for each in pattern.keywords]
        named = {each.arg: each for each in node.keywords if each.arg in names}
        others = [each for each in node.keywords if each.arg not in names]
        if len(named) != len(names) or (others and dots is None):
            return None
        if (result := self.match_fields(pattern, node, ["func", "args"], found)) is None:
            return None
        if dots is not None:
            result = result | {_dots(dots): result[_dots(dots)] + others}
        return self.match_list(pattern.keywords, [named[name] for name in names], result)

    def _match_name(self, pattern: str, node: object, found: Found) -> Found | None:
        if pattern.startswith(WILD) and isinstance(node, str):
            return _bind(pattern, node, found)
        return found if pattern == node else None

    def _match_variable(self, pattern: str, name: str, found: Found) -> Found | None:
        if pattern not in self.renamed:
            return self._match_name(pattern, name, found)
        if name not in self.locals or any(
            key != ("local", pattern) and found[key] == name for key in _variables(found)
        ):
            return None
        return _bind(("local", pattern), name, found)


def _variables(found: Found) -> list[object]:
    return [key for key in found if isinstance(key, tuple)]


def _bind(key: object, node: Any, found: Found) -> Found | None:
    if key not in found:
        return found | {key: node}
    return found if same(found[key], node) else None


def same(left: Any, right: Any) -> bool:
    """Whether two nodes or names are the same Python."""
    if isinstance(left, ast.AST) and isinstance(right, ast.AST):
        return Matcher().match(left, right, {}) is not None
    return bool(left == right)


class _Filler(ast.NodeTransformer):
    """Puts what was found in place of the wildcards."""

    def __init__(self, found: Found) -> None:
        self.found = found

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Fill names and lists; then whatever is below."""
        for name, value in ast.iter_fields(node):
            if isinstance(value, str) and value.startswith(WILD):
                setattr(node, name, self._get(value))
            elif isinstance(value, list):
                setattr(node, name, [copy.deepcopy(new) for each in value for new in self._spread(each)])
        if isinstance(node, ast.Call):
            node.keywords += [each for each in node.args if isinstance(each, ast.keyword)]  # type: ignore[misc]
            node.args = [each for each in node.args if not isinstance(each, ast.keyword)]
        return super().generic_visit(node)

    def _spread(self, each: Any) -> list[Any]:
        if not is_dots(each) or _dots(each) not in self.found:
            return [each]
        found = self.found[_dots(each)]
        return found if isinstance(found, list) else [found]

    def _get(self, name: str) -> Any:
        if name not in self.found:
            raise PatternError(f"${name.removeprefix(WILD)} is not in the text to find")
        return self.found[name]

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id.startswith(WILD):
            found = self._get(node.id)
            return copy.deepcopy(found) if isinstance(found, ast.AST) else ast.Name(found, node.ctx)
        return ast.Name(self.found.get(("local", node.id), node.id), node.ctx)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not is_dots(node) or _dots(node) not in self.found:
            return node
        found = self.found[_dots(node)]
        return copy.deepcopy(found) if isinstance(found, ast.AST) else node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if is_any_arguments(node.args.vararg):
            node.args, node.returns, node.decorator_list = copy.deepcopy(self.found[_dots(node.args.vararg)])
        return self.generic_visit(node)


def fill(put: Pattern, found: Found) -> list[ast.AST]:
    """What to write for `put`, given what `find` has found."""
    box = ast.Module(copy.deepcopy([ast.Expr(each) if put.is_expression else each for each in put.nodes]), [])
    body = _Filler(found).visit(box).body
    return [body[0].value] if put.is_expression else body


# --- the source -----------------------------------------------------------------------------------------------------


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
        return f"{'/'.join(self.definition.file.module)}, line {self.nodes[0].lineno}"  # type: ignore[attr-defined]


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


# --- writing --------------------------------------------------------------------------------------------------------


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
    """Of nodes, in characters; `ast` counts columns in bytes."""
    starts = [0]
    lines = [f"{line}\n" for line in text.split("\n")]  # not splitlines(), which splits at more signs than Python
    for line in lines:
        starts.append(starts[-1] + len(line))
    first = min([nodes[0], *getattr(nodes[0], "decorator_list", [])], key=lambda node: node.lineno)
    column: Callable[[int, int], int] = lambda row, byte: len(lines[row - 1].encode()[:byte].decode())  # noqa: E731
    start = starts[first.lineno - 1] + column(first.lineno, first.col_offset)
    if first is not nodes[0]:
        start = starts[first.lineno - 1] + len(lines[first.lineno - 1]) - len(lines[first.lineno - 1].lstrip())
    return start, starts[nodes[-1].end_lineno - 1] + column(nodes[-1].end_lineno, nodes[-1].end_col_offset)
