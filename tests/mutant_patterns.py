"""Patterns of Python: what matches a pattern, and what it becomes.

A pattern is an expression or statements in Python. Layout, quotes, comments and the order of keywords do not matter.

    ...     anything: one expression, or any number of arguments, items or statements
    $name   anything, the same wherever `$name` stands: an expression, or a name

A name of a pattern that its function no longer holds stands for a local variable that was renamed.
"""

import ast
import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

WILD, ARGUMENTS = "_any_", "_any_arguments"
UNCOMPARED = {"ctx", "kind", "type_comment", "type_ignores", "type_params"}


class PatternError(ValueError):
    """A pattern is no Python, or it stands nowhere or more than once."""


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
        node.dots = at
    return pattern


def is_dots(node: object) -> bool:
    """Whether this is the `...` of a pattern, as an expression or as a statement."""
    return hasattr(node.value if isinstance(node, ast.Expr) else node, "dots") and not is_any_arguments(node)


def is_any_arguments(node: object) -> bool:
    """Whether this is the `...` of `def name(...)`."""
    return isinstance(node, ast.arg) and node.arg == ARGUMENTS


def _dots(node: Any) -> int:
    return int((node.value if isinstance(node, ast.Expr) else node).dots)


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
            found = self._match_variable(pattern.arg, node.arg, found)
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
            node.keywords += [each for each in node.args if isinstance(each, ast.keyword)]
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
