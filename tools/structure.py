"""The structure of the source: modules, import arrows and circles of each package, and who may name a method. `make check`
runs it.

python tools/structure.py            a table; exit status 1 where a rule is broken
python tools/structure.py --arrows   the arrows of each package too

An arrow goes from one child of a package (a module or a folder) to another that it imports. Imports under TYPE_CHECKING and
`Lazy("...")` count. A package's own `__init__.py` declares what its modules share, such as a method's Config, and loads them
when asked; so its arrows to and from its own modules do not count, and those to other packages count as the package's.
`__main__.py` is the program and no module: nothing imports it. Folders of methods do not count as modules of `methods/`: their
number is that of the methods, and none imports another.

Nothing above `data/` and `kinds/` asks of which kind records are, and no template does.

The code in `privacy/` and `run/` names no method and no setting of one, so all that it says and does is right of a method of
another package too: a method states what is true of it. Excepted are settings that mean the same in every method
(`SHARED_SETTINGS` of methods/contract.py), docstrings, which may cite a paper, and the places in `ALLOWED`.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "src" / "gossamer"
MOST_MODULES, MOST_ARROWS = 15, 60
"""In one package, at one level. The root holds one more: the packages, and the small modules that all of them may import."""
ABOVE = ("privacy", "run")
"""What names no method and no setting of one."""
ALLOWED = {
    "run/federated/": "federation is of one method",
    "run/cli/demo.py": "it shows one method",
    "run/release/standalone_loader.py": "it writes the source of released networks into a file",
    "privacy/accounting/federated.py": "its own arguments are called like settings",
    "run/cli/calculator.py": "its own options are called like settings",
}
"""Where a method or a setting may be named, and why."""
KINDS = {"pictures", "table", "linked"}
TYPES = {
    "DataCard",
    "TableCard",
    "LinkedCard",
    "Records",
    "Table",
    "LinkedRecords",
    "Samples",
    "TableSamples",
    "LinkedSamples",
}
"""The kinds of records, and what there is of one kind alone."""
OWN_FACTS = {"column", "columns", "shape"}
"""Facts that the cards of one kind have, and of no other."""
ANSWER = re.compile("(is|are)_(a_)?(table|picture)s?")
"""What the answer is called."""
IN_A_TAG = re.compile(
    rf"""\b{ANSWER.pattern}\b|["']({"|".join(OWN_FACTS)})["']\s+(not\s+)?in\s+\S*(card|draft|facts|found)"""
    rf"""|\b(kind|takes)\b(\.name)?\s*[!=]=\s*["']({"|".join(KINDS)})["']"""
)
"""A question in a template of Jinja."""


def modules() -> dict[str, Path]:
    """The path of each module by its dotted name; a package is named after its folder."""
    named = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def imported(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """The modules of ours that a file imports, wherever the import stands."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [name if name in known else node.module for name in inside]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Lazy":
            names = [node.args[0].value] if isinstance(node.args[0], ast.Constant) else []
        else:
            continue
        yield from (str(name) for name in names if name in known)


def child(module: str, package: str) -> str:
    """The child of a package that a module is or lies in; empty: the package itself, or a module elsewhere."""
    return module[len(package) + 1 :].split(".", maxsplit=1)[0] if module.startswith(f"{package}.") else ""


def circle(arrows: set[tuple[str, str]]) -> list[str]:
    """The children that can be reached from themselves."""
    to = defaultdict(set)
    for importer, target in arrows:
        to[importer].add(target)

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = to[waiting.pop()] - seen
            seen |= new
            waiting += new
        return seen

    return sorted(name for name in list(to) if name in reached(name))


def methods(root: Path = ROOT) -> set[str]:
    """The names of the methods, as their classes state them."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in (root / "methods").glob("*/__init__.py"))
    return {
        str(node.value.value)
        for tree in trees
        for kind in tree.body
        if isinstance(kind, ast.ClassDef)
        for node in kind.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and ast.unparse(node.targets[0]) == "name"
    }


def settings(root: Path = ROOT) -> set[str]:
    """The settings of methods that do not mean the same in every method: the fields of each Config, and of `Descent`."""
    contract = ast.parse((root / "methods" / "contract.py").read_text(encoding="utf-8"))
    (shared,) = (
        {each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant)}
        for node in contract.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SHARED_SETTINGS"
    )
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in (root / "methods").glob("*/*.py"))
    configs = (kind for tree in trees for kind in tree.body if isinstance(kind, ast.ClassDef))
    fields = (
        ast.unparse(node.target)
        for kind in configs
        if kind.name.endswith(("Config", "Descent"))
        for node in kind.body
        if isinstance(node, ast.AnnAssign)
    )
    return {name for name in fields if name not in shared}


def code_above(root: Path) -> Iterator[tuple[str, list[ast.AST]]]:
    """Each file that names no method, and its nodes but docstrings."""
    for path in (path for package in ABOVE for path in sorted((root / package).rglob("*.py"))):
        name = path.relative_to(root).as_posix()
        if not name.startswith(tuple(ALLOWED)):
            nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
            docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
            yield name, [node for node in nodes if id(node) not in docstrings]


def named_methods(root: Path = ROOT) -> Iterator[str]:
    """Each place above methods/ that names a method, in a text or an identifier."""
    either = "|".join(sorted(re.escape(name).replace(r"\-", "[-_]") for name in methods(root)))
    named = re.compile(rf"(?<![a-z0-9])({either})(?![a-z0-9])", re.IGNORECASE)
    for name, nodes in code_above(root):
        for node in nodes:
            for _, value in ast.iter_fields(node):
                if isinstance(value, str) and (found := named.search(value)):
                    yield f"{name}, line {getattr(node, 'lineno', '?')}: the method {found[0]}"


def named_settings(root: Path = ROOT) -> Iterator[str]:
    """Each place above methods/ with a setting as a text, or as a flag in one.

    A setting of one word, such as `labels`, is an ordinary word too: it counts where it is looked up in settings.
    """
    known = settings(root)
    for name, nodes in code_above(root):
        looked_up = {id(each) for node in nodes for each in _looked_up(node)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                flags = {flag.replace("-", "_") for flag in re.findall(r"--([a-z][a-z-]+)", node.value)}
                whole = {node.value} if "_" in node.value or id(node) in looked_up else set()
                for setting in sorted((flags | whole) & known):
                    yield f"{name}, line {node.lineno}: the setting {setting}"


def _looked_up(node: ast.AST) -> list[ast.AST]:
    """What is looked up in something called settings or config, by [], `get` or `in`."""
    match node:
        case ast.Subscript(value=holder, slice=key):
            keys = [key]
        case ast.Call(func=ast.Attribute(value=holder, attr="get" | "pop" | "setdefault"), args=[key, *_]):
            keys = [key]
        case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[holder]):
            keys = [key]
        case _:
            return []
    return keys if re.search(r"(settings|config|merged)$", ast.unparse(holder)) else []


def asked_kinds(root: Path = ROOT) -> Iterator[str]:
    """Each place above `data/` and `kinds/` that asks which kind of records it has, in Python and in templates.

    To read a fact that a card may lack is no question, nor is the kind of a column.
    """
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if name.startswith(("data/", "kinds/")):
            continue
        if path.suffix == ".py":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if _asks(node):
                    yield f"{name}, line {getattr(node, 'lineno', '?')}: {ast.unparse(node).splitlines()[0]}"
        elif path.suffix in (".html", ".txt"):
            text = path.read_text(encoding="utf-8")
            for tag in re.finditer(r"{[{%].*?[%}]}", text, re.DOTALL):
                if IN_A_TAG.search(tag[0]):
                    yield f"{name}, line {text.count(chr(10), 0, tag.start()) + 1}: {tag[0]}"


def _asks(node: ast.AST) -> bool:
    """Whether an expression or a name asks which kind of records there is."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name) | ast.alias(name=name):
            return bool(ANSWER.fullmatch(name))
        case ast.keyword(arg=str(name)) | ast.arg(arg=name) | ast.Constant(value=str(name)):
            return bool(ANSWER.fullmatch(name))
        case ast.Compare(left=ast.Constant(value=fact), comparators=[holder]) if fact in OWN_FACTS:
            return bool(re.search("card|draft|facts", ast.unparse(holder)))
        case ast.Compare():
            words = re.findall(r"\w+", ast.unparse(node))
            return "takes" in words or ("kind" in words and not KINDS.isdisjoint(words))
        case ast.IfExp(body=one, orelse=other):
            either = {ast.unparse(each).strip("'") for each in (one, other)}
            return either <= KINDS or either <= TYPES
        case ast.Call(func=ast.Name(id="isinstance"), args=[_, of]):
            return not TYPES.isdisjoint(re.findall(r"\w+", ast.unparse(of)))
    return False


def main() -> int:
    """Print the table; 1 where a rule is broken."""
    known = modules()
    imports = {(module, target) for module, path in known.items() for target in imported(path, known)}
    packages = [module for module, path in known.items() if path.name == "__init__.py"]
    broken = False
    print(f"{'package':48} modules  arrows  circles")
    for package in packages:
        children = {child(module, package) for module in known} - {"", "__main__"}
        counted = {name for name in children if f"{package}.{name}.loop" not in known}  # a method more is no fault
        arrows = {(child(a, package), child(b, package)) for a, b in imports}
        arrows = {(a, b) for a, b in arrows if a and b and a != b}
        circles = circle(arrows)
        most = MOST_MODULES + (package == "gossamer")
        fault = len(counted) > most or len(arrows) > MOST_ARROWS or bool(circles)
        broken |= fault
        print(f"{package:48} {len(counted):7}  {len(arrows):6}  {', '.join(circles) or '-'}{'   <-' if fault else ''}")
        if "--arrows" in sys.argv:
            print("\n".join(f"    {a} -> {b}" for a, b in sorted(arrows)))
    if broken:
        print(f"A package has at most {MOST_MODULES} modules and {MOST_ARROWS} arrows at one level, and no circle.")
    named = [*named_methods(), *named_settings()]
    for place in named:
        print(f"{place}. Code in {' and '.join(ABOVE)} names none: the method states its facts itself.")
    asked = list(asked_kinds())
    for place in asked:
        print(
            f"{place} asks of which kind records are: ask the card, the samples or the kind (`kinds/`) for what differs."
        )
    return int(broken or bool(named or asked))


if __name__ == "__main__":
    sys.exit(main())
