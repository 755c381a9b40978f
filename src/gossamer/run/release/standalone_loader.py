"""`load.py` of a release: one file that loads the generator and samples from it, without Gossamer.

The file needs PyTorch and safetensors. The file of a table needs NumPy alone.

It is cut out of our own source: the definitions that a method's `generator` and `sample` need, directly or not,
dependencies first, without annotations. `load.py.txt` is the frame around them. Of two definitions with one name, the later
gets its module's name too. The strokes that drawing programs take from fonts are written as data, as they were rendered
here. A method that needs another package has no such file, and the README of the release says so.

The file is long because both kinds of loader are cut out by the same rules.

Of a table, decoding is cut out of our source. The frame `load_table.txt` samples, with NumPy in place of PyTorch: a test
compares it with `methods.marginals.nets`.
"""

import ast
import base64
import dataclasses
import importlib.util
import sys
import zlib
from collections.abc import Set
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gossamer.data.tables.any_card import card_from
from gossamer.lazy import Lazy
from gossamer.methods import METHODS
from gossamer.privacy.certificate.certificate import Certificate
from gossamer.run.storage.versions import versions

if TYPE_CHECKING:
    from gossamer.data.synthetic import glyphs
else:
    glyphs = Lazy("gossamer.data.synthetic.glyphs")

_ALLOWED = frozenset({"torch", "safetensors", *sys.stdlib_module_names})
_ALLOWED_FOR_TABLES = frozenset({"numpy", *sys.stdlib_module_names})
_MARK = "# --- what the method needs stands here\n"
_OF_A_CLASSIFIER = "# --- of a classifier alone\n"
_OF_SOFT_LABELS = "# --- of samples with soft labels alone\n"
_LINE = 100
EARLIER = "its settings are of an earlier version"
"""Why a release has no load.py, as its README says."""

Definition: TypeAlias = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign
Place: TypeAlias = tuple[str, str]
"""A module of ours, and a name in it."""
_STROKES: Place = ("gossamer.data.synthetic.glyphs", "strokes")
"""Needs fonts: the file has its result as data."""
_STROKES_IN_FILE = "_STROKES"
_COLUMN: Place = ("gossamer.data.tables.column", "Column")
_GENERATED: Place = ("gossamer.data.tables.generated", "GeneratedColumn")
_OF_COLUMNS = {
    _COLUMN: {"size", "plain", "cuts", "apart", "other_code", "missing_code", "grid", "grid_ends", "grid_counts"},
    _GENERATED: set[str](),
}
"""Properties of columns that decoding needs. The file has none of the checks: the certificate's card was checked."""
_PLUGINS = (
    "gossamer.nets.encoders", "gossamer.nets.autoencoders", "gossamer.data.synthetic.generators",
    "gossamer.methods.moments.features", "gossamer.methods.moments.latents", "gossamer.methods.evolve.pictures",
    "gossamer.methods.dp_diffusion.refined",
)  # fmt: skip
"""Load what only the machine of the user has, or another method. In the file they are functions that are never called."""
_TEACHER = "teacher"
"""The method that releases a classifier."""
_LABELLER: Place = ("gossamer.methods.common.softmax_regression", "softened")
"""Softens labels. Without a classifier in the release, its module is left out as plug-ins are."""


class Unloadable(Exception):
    """Why no such file can be written, in a phrase."""


def loader(method: str, *, soft_labels: bool = False) -> str:
    """The text of load.py for releases of a method. soft_labels: whether a classifier softens the labels of samples.

    Raises:
        Unloadable: if it would need more than PyTorch and safetensors, or NumPy for a table.
    """
    return _table_loader(method) if METHODS[method].takes == "table" else _picture_loader(method, soft_labels)


def _picture_loader(method: str, soft_labels: bool) -> str:
    kind = type(METHODS[method])
    owner = next(base for base in kind.__mro__ if "sample" in vars(base))
    head, tail = _frame("load.py.txt", method)
    before, probabilities, rest = tail.split(_OF_A_CLASSIFIER)
    between, softened, after = rest.split(_OF_SOFT_LABELS)
    collected = _Collected(
        reserved=_defined(head + before + after),
        left_out=_PLUGINS if soft_labels or method == _TEACHER else (*_PLUGINS, _LABELLER[0]),
    )
    collected.take((f"{kind.__module__}.loop", "generator"))
    collected.take_method((owner.__module__, owner.__name__), "sample", "sample_batch")
    if soft_labels:
        collected.take(_LABELLER)
        before += softened
    elif any(map(classifies, collected.texts.values())):
        before += probabilities
    return _joined(head, collected, before + between + after)


def _table_loader(method: str) -> str:
    head, tail = _frame("load_table.txt", method)
    collected = _Collected(reserved=_defined(head + tail), allowed=_ALLOWED_FOR_TABLES)
    for module, name in (
        ("gossamer.data.tables.samples", "ROWS"),
        _COLUMN,
        _GENERATED,
        ("gossamer.data.tables.decode", "decode"),
        ("gossamer.data.tables.samples", "write_csv"),
    ):
        collected.take((module, name))
    return _joined(head, collected, tail)


def _frame(name: str, method: str) -> tuple[str, str]:
    """What stands before and after the definitions."""
    text = resources.files("gossamer.run.release").joinpath(name).read_text(encoding="utf-8")
    head, tail = text.split(_MARK)
    return head.replace("{version}", versions()["gossamer"]).replace("{method}", method), tail


def _defined(text: str) -> set[str]:
    """What a text defines at its top level."""
    return {name for node in ast.parse(text).body for name in _names(node)}


def _joined(head: str, collected: "_Collected", tail: str) -> str:
    imports = sorted(collected.imports - set(head.splitlines()))
    return "\n\n\n".join(["\n".join([head.rstrip(), *imports]), *collected.texts.values(), tail.strip()]) + "\n"


def loadable(certificate: Certificate) -> tuple[str, str]:
    """The text of load.py for a release, and why it has none; one of the two is empty."""
    if METHODS.is_plugin(certificate.method):
        return "", "its method is a plug-in, whose code is not part of Gossamer"
    fields = {field.name for field in dataclasses.fields(METHODS[certificate.method].config_type)}
    if certificate.config.keys() != fields:  # a loader has no defaults
        return "", EARLIER
    job = METHODS[certificate.method].job(certificate.config, card_from(certificate.card))
    if job.own_pretrained:
        return (
            "",
            f"it needs {' and '.join(f'the {kind} {name}' for kind, name in job.own_pretrained)}, which no release contains",
        )
    if certificate.config.get("refine"):
        return "", "it refines samples of another method"
    if labels_public(certificate):
        return "", "its samples are public pictures, which Gossamer picks so that none comes twice"
    try:
        return loader(certificate.method, soft_labels=has_soft_labels(certificate)), ""
    except Unloadable as error:
        return "", str(error)


def has_soft_labels(certificate: Certificate) -> bool:
    """Whether a classifier in the release softens the labels of its samples."""
    return float(certificate.config.get("own_label", 1.0)) < 1


def labels_public(certificate: Certificate) -> bool:
    """Whether the samples of a release are the public records of its run."""
    had_public = any("records" in entry for entry in certificate.facts.get("public_inputs", []))
    return METHODS[certificate.method].labels_public(certificate.config) and had_public


def is_same(actual: bytes, written: str, *, strokes: bool = True) -> bool:
    """Whether a load.py is the program that `loader` writes, whatever its layout: that depends on the version of Python.

    strokes: False leaves out the strokes, which follow from the fonts of the machine that wrote the file.
    """
    try:
        program = ast.parse(actual)  # of bytes: the file may declare another encoding
        return _statements_of(program, strokes=strokes) == _statements_of(ast.parse(written), strokes=strokes)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _statements_of(program: ast.Module, *, strokes: bool) -> list[str]:
    """The statements of a file as text. strokes: False leaves out the value of the strokes, if it is data and no code."""
    for node in () if strokes else program.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]) if name == _STROKES_IN_FILE and _is_data(node.value):
                node.value = ast.Constant(None)
    return [ast.dump(node) for node in program.body]


def _is_data(value: ast.expr) -> bool:
    """Whether an expression is made of numbers and strings alone."""
    try:
        ast.literal_eval(value)
    except ValueError:
        return False
    return True


def classifies(text: str) -> bool:
    """Whether the source of a classifier is in this text."""
    return "def probabilities(" in text and "def soft_labels(" not in text


@dataclass
class _Collected:
    """Imports and definitions of the file.

    reserved: names that the file needs for others. allowed: packages. left_out: modules whose functions are never called.
    """

    reserved: Set[str] = frozenset()
    allowed: Set[str] = _ALLOWED
    left_out: tuple[str, ...] = _PLUGINS
    imports: set[str] = field(default_factory=set)
    texts: dict[str, str] = field(default_factory=dict)
    _called: dict[Place, str] = field(default_factory=dict)

    def take(self, place: Place) -> str:
        """Add a definition after all that it needs. Gives its name in the file."""
        module, name = home = _home(place)
        if home not in self._called:
            definition = _module(module).definitions[name]
            for defined in _names(definition):  # a statement may define several
                self._called[module, defined] = self._free(module, defined)
            if home == _STROKES:
                self.imports |= {"import base64", "import zlib"}
                self.texts[self._called[home]] = _strokes(self._called[home])
            elif home[0] in self.left_out:
                self.texts[self._called[home]] = (
                    f"def {self._called[home]}(*plugin):\n    raise NotImplementedError(plugin)"
                )
            else:
                self._put(module, definition, self._called[home])
        return self._called[home]

    def take_method(self, owner: Place, method: str, name: str) -> None:
        """Add a method of a class as a function of this name."""
        kind = _module(owner[0]).definitions[owner[1]]
        assert isinstance(kind, ast.ClassDef)
        function = next(
            statement for statement in kind.body if isinstance(statement, ast.FunctionDef) and statement.name == method
        )
        copied = _copy(function)
        assert isinstance(copied, ast.FunctionDef)
        copied.name, copied.args.args = name, copied.args.args[1:]
        if any(isinstance(node, ast.Name) and node.id == "self" for node in ast.walk(copied)):
            raise Unloadable(f"{owner[1]}.{method} needs its object")
        self._called[owner[0], name] = name
        self._put(owner[0], copied, name)

    def _free(self, module: str, name: str) -> str:
        """The name of a definition in the file: its own or, if that is taken, with its module's name before it."""
        for free in (name, f"{module.rpartition('.')[2]}_{name}"):
            if free not in self.reserved and free not in self._called.values():
                return free
        raise Unloadable(f"{name} would stand for two things")

    def _put(self, module: str, definition: Definition, called: str) -> None:
        names, plain, copied = _module(module), _Plain(_module(module)), _copy(definition)
        if (needed := _OF_COLUMNS.get((module, called))) is not None:
            copied.body = [part for part in copied.body if getattr(part, "name", "") in {"", *needed}]
        node = plain.visit(copied)
        for reference in [reference for reference in ast.walk(node) if isinstance(reference, ast.Name)]:
            if reference in plain.elsewhere:
                reference.id = self.take(plain.elsewhere[reference])
            elif isinstance(reference.ctx, ast.Load) and reference.id in names.others:
                line, package = names.others[reference.id]
                if package not in self.allowed:
                    raise Unloadable(f"it needs {package}")
                self.imports.add(line)
            elif isinstance(reference.ctx, ast.Load) and reference.id in names:
                taken = self.take((module, reference.id))
                if taken != reference.id and reference.id in _own(node):
                    raise Unloadable(f"{reference.id} would stand for two things")
                reference.id = taken
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.name = called
        else:
            for target in _targets(node):
                target.id = self._called[module, target.id]
        self.texts[called] = ast.unparse(ast.fix_missing_locations(node))


def _strokes(called: str) -> str:
    """Source of `glyphs.strokes` without the fonts: its result on this machine, packed."""
    rows = []
    for classes in ("digits", "letters"):
        paths, first = glyphs.strokes(classes)
        packed = base64.b85encode(zlib.compress(np.packbits(paths.numpy()).tobytes(), 9)).decode()
        lines = [f'        "{packed[at : at + _LINE]}",\n' for at in range(0, len(packed), _LINE)]
        rows.append(f'    "{classes}": (\n        {first.tolist()},\n{"".join(lines)}    ),\n')
    side = paths.shape[1]
    return f'''{_STROKES_IN_FILE} = {{
{"".join(rows)}}}


def {called}(classes):
    """The strokes of all characters as thin lines, and where each class begins; taken from fonts as this file was written."""
    first, *lines = {_STROKES_IN_FILE}[classes]
    packed = zlib.decompress(base64.b85decode("".join(lines)))
    bits = torch.frombuffer(bytearray(packed), dtype=torch.uint8)[:, None] >> torch.arange(7, -1, -1)
    return (bits & 1).bool().view(-1, {side}, {side}), torch.tensor(first)'''


@dataclass(frozen=True)
class _Module:
    """The top level of a module of ours.

    Args:
        definitions: functions, classes and constants, by their names.
        ours: names from our other modules; the second part is empty where the name stands for a module.
        others: names from other packages, each with the line that imports it and the package.
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
    module = _Module({}, {}, {})
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        for statement in node.body if isinstance(node, ast.If) else [node]:  # the real imports of lazy modules
            if isinstance(statement, ast.Import | ast.ImportFrom):
                _note_import(statement, module)
            elif isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign):
                module.definitions.update(dict.fromkeys(_names(statement), statement))
    return module


def _source(name: str) -> Path | None:
    """The file of a module; None: no module has this name. Imports nothing."""
    package, *inner = name.split(".")
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent.joinpath(*inner)
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def _note_import(node: ast.Import | ast.ImportFrom, module: _Module) -> None:
    source = node.module or "" if isinstance(node, ast.ImportFrom) else ""
    for alias in node.names:
        name, package = alias.asname or alias.name, (source or alias.name).split(".")[0]
        if package == "gossamer" and source:
            inner = f"{source}.{alias.name}"
            module.ours[name] = (inner, "") if _source(inner) else (source, alias.name)
        else:
            statement = ast.Import([alias]) if not source else ast.ImportFrom(source, [alias], 0)
            module.others[name] = (ast.unparse(statement), package)


def _home(place: Place) -> Place:
    """Where a name is defined."""
    module, name = place
    names = _module(module)
    if name in names.definitions:
        return place
    origin, original = names.ours.get(name, ("", ""))
    if original != name:  # another name, a whole module in the place of a value, or nothing
        raise Unloadable(f"{name} of {module} cannot be cut out")
    return _home((origin, original))


class _Plain(ast.NodeTransformer):
    """Removes annotations, and writes `module.name` as `name` if the module is ours. module: that of the definition."""

    def __init__(self, module: _Module) -> None:
        self._module = module
        self.elsewhere: dict[ast.Name, Place] = {}

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """No annotation."""
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """No annotation."""
        node.annotation = None
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """The fields of a dataclass are its annotations: they stay, as text."""
        for statement in node.body if node.decorator_list else ():
            if isinstance(statement, ast.AnnAssign):
                statement.annotation = ast.Constant(ast.unparse(statement.annotation))
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
                reference = ast.Name(node.attr, node.ctx)
                self.elsewhere[reference] = (module, node.attr)
                return reference
        return node


def _copy(node: Definition) -> Any:
    return ast.parse(ast.unparse(node)).body[0]


def _own(node: ast.AST) -> set[str]:
    """Names that are arguments or are assigned to in it."""
    arguments = {inner.arg for inner in ast.walk(node) if isinstance(inner, ast.arg)}
    names = [inner for inner in ast.walk(node) if isinstance(inner, ast.Name)]
    return arguments | {name.id for name in names if not isinstance(name.ctx, ast.Load)}


def _names(node: ast.stmt) -> list[str]:
    """What a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    return [target.id for target in _targets(node)]


def _targets(node: ast.stmt) -> list[ast.Name]:
    """The names that an assignment assigns to; none of another statement."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [name for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
