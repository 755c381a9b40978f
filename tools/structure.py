"""The structure of the source: modules, import arrows and circles of each package, and who may name a method. `make check`
runs it.

python tools/structure.py            a table; exit status 1 where a rule is broken
python tools/structure.py --arrows   the arrows of each package too

An arrow goes from one child of a package (a module or a folder) to another that it imports. Imports under TYPE_CHECKING and
`Lazy("...")` count. A package's own `__init__.py` declares what its modules share, such as a method's Config, and loads them
when asked; so its arrows to and from its own modules do not count, and those to other packages count as the package's.
`__main__.py` is the program and no module: nothing imports it.

Nothing above `data/` and `kinds/` asks of which kind records are.

The code in `privacy/` names no method. What a certificate says of a method comes from the method itself (`Job.facts`), so it
is right of a method of another package too. Docstrings may cite a paper.
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
ASK_THE_KIND = (
    "methods/registry.py",  # which methods take a kind: `takes` is compared here
    "methods/method.py",  # the same for one method; and samples, which the cards will check
    "run/recommend/recommend.py",  # its advice for tables is another text
    "run/release/standalone_loader.py",  # its program for tables is another text
    "run/storage/data_sources.py",  # what public records are is a question of pictures alone
    "run/training/memory.py",
)
"""Files besides `data/` and `kinds/` that may ask of which kind records are. The list only gets shorter."""


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


def named_methods(root: Path = ROOT) -> Iterator[str]:
    """Each place in the code of `privacy/` that names a method: in a text or an identifier, and in no docstring."""
    either = "|".join(sorted(re.escape(name).replace(r"\-", "[-_]") for name in methods(root)))
    named = re.compile(rf"(?<![a-z0-9])({either})(?![a-z0-9])", re.IGNORECASE)
    for path in sorted((root / "privacy").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in (node for node in nodes if id(node) not in docstrings):
            for _, value in ast.iter_fields(node):
                if isinstance(value, str) and (found := named.search(value)):
                    yield f"{path.relative_to(root)}, line {getattr(node, 'lineno', '?')}: {found[0]}"


def asked_kinds(root: Path = ROOT) -> Iterator[str]:
    """Each place above `data/` and `kinds/` that asks which kind of records it has, in a file that may not."""
    types = {"DataCard", "TableCard", "Records", "Table", "Samples", "TableSamples"}
    kinds = {"pictures", "table"}
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name.startswith(("data/", "kinds/")) or name in ASK_THE_KIND:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            asks = False
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                names = {each.attr for each in sides if isinstance(each, ast.Attribute)}
                words = {each.value for each in sides if isinstance(each, ast.Constant)}
                asks = "takes" in names or ("kind" in names and not words.isdisjoint(kinds))
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
                asks = not types.isdisjoint(
                    ast.unparse(node.args[1]).strip("()").replace("|", ",").replace(",", " ").split()
                )
            if asks:
                yield f"{name}, line {node.lineno}: {ast.unparse(node)}"


def main() -> int:
    """Print the table; 1 where a rule is broken."""
    known = modules()
    imports = {(module, target) for module, path in known.items() for target in imported(path, known)}
    packages = [module for module, path in known.items() if path.name == "__init__.py"]
    broken = False
    print(f"{'package':48} modules  arrows  circles")
    for package in packages:
        children = {child(module, package) for module in known} - {"", "__main__"}
        arrows = {(child(a, package), child(b, package)) for a, b in imports}
        arrows = {(a, b) for a, b in arrows if a and b and a != b}
        circles = circle(arrows)
        most = MOST_MODULES + (package == "gossamer")
        fault = len(children) > most or len(arrows) > MOST_ARROWS or bool(circles)
        broken |= fault
        print(f"{package:48} {len(children):7}  {len(arrows):6}  {', '.join(circles) or '-'}{'   <-' if fault else ''}")
        if "--arrows" in sys.argv:
            print("\n".join(f"    {a} -> {b}" for a, b in sorted(arrows)))
    if broken:
        print(f"A package has at most {MOST_MODULES} modules and {MOST_ARROWS} arrows at one level, and no circle.")
    named = list(named_methods())
    for place in named:
        print(f"{place} is a method, and privacy/ names none: the method states its facts itself.")
    asked = list(asked_kinds())
    for place in asked:
        print(
            f"{place} asks of which kind records are: ask the card, the samples or the kind (`kinds/`) for what differs."
        )
    return int(broken or bool(named or asked))


if __name__ == "__main__":
    sys.exit(main())
