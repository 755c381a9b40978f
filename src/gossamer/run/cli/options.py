"""Command-line flags from code: from the signature and docstring of a function, and from the fields of a method's Config."""

import ast
import dataclasses
import functools
import inspect
import json
import re
import shlex
import typing
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

import gossamer
from gossamer.data.tables.any_card import CARDS
from gossamer.errors import RequestError, did_you_mean
from gossamer.events import spoken
from gossamer.methods import METHODS
from gossamer.methods.common.method_start import StartConfig
from gossamer.methods.contract import FROM_EPSILON, AnyMethod, BaseConfig, Start
from gossamer.methods.registry import AUTO, allow
from gossamer.run.validation import check_seed
from gossamer.run.words import flagged, spelled

if typing.TYPE_CHECKING:
    from gossamer.run.training.progress import Terminal

F = TypeVar("F", bound=Callable[..., Any])

PATH = click.Path(path_type=Path)
FIT = "run.training.fit.fit"
as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print the result as one JSON object, and nothing else, on stdout."
)
force = click.option("--force", is_flag=True, help="Replace the output if it exists.")
card = click.option("--card", type=PATH, required=True, help="Data card: TOML file with the public facts on the data.")


def checked_seed(_ctx: click.Context, _option: click.Parameter, seed: int | None) -> int | None:
    """A click callback: refuse a seed that some generator of numbers does not take."""
    check_seed("seed", seed)
    return seed


_KINDS = {"bool": bool, "int": int, "float": float, "tuple[float, float]": (float, float), "Path": PATH}
"""The types of flags by those of parameters; all others are text. Of a union, the first of these counts."""
SOURCE = "data.source.Source"
_BY_NAME: dict[str, dict[str, Any]] = {
    **{name: {"type": str, "metavar": "DATA"} for name in ("data", "public", "train", "test", "members", "nonmembers")},
    **{name: {"metavar": "KEY"} for name in ("images_key", "labels_key")},
    "accounts": {"type": click.Path(path_type=Path, file_okay=False)},
    "count": {"flags": ["-n"]},
    "header": {"flags": ["--header/--no-header"]},
    "out": {"flags": ["-o", "--out"]},
    "pictures": {"metavar": "KIND"},
    "pixel_range": {"metavar": "BLACK WHITE"},
    "preset": {"metavar": "NAME"},
    "seed": {"callback": checked_seed},
    "units": {"metavar": "WHOSE"},
    "where": {"multiple": True, "metavar": "COLUMN=VALUE", "required": False},
}
"""What click is told of a parameter wherever it appears."""
_NO_FLAGS = ("sink", "progress", "process", "settings", "rng", "noise_seed")
_COMPUTED = (dataclasses.MISSING, FROM_EPSILON)
_OF_SOURCE = ("images_key", "labels_key", "units", "public_test_data")


def options_of(function: str, *names: str, **changed: dict[str, Any] | None) -> Callable[[F], F]:
    """The flags of a command: the keyword-only parameters of the function that it calls, with their docstring as help.

    The function's source is parsed and not imported, so that help need not wait for PyTorch.

    Args:
        function: its name below `gossamer`, such as `FIT`; or that of a dataclass, whose fields become flags.
        names: the parameters that become flags; default: all.
        changed: arguments of `click.option` for a parameter, in place of those that follow from the source. None: no flag.
    """

    def decorate(callback: F) -> F:
        for name, (annotation, default) in reversed(_parsed(function)[0].items()):
            own = changed.get(name, {})
            if own is not None and name not in _NO_FLAGS and name in (names or [name]):
                kinds = ast.unparse(annotation or ast.Constant(None)).split(" | ")
                overrides = {"help": _help(function, name), **_BY_NAME.get(name, {}), **own}
                callback = _flag(name, kinds, default, overrides)(callback)
        return callback

    return decorate


def _flag(name: str, kinds: list[str], default: ast.expr | None, overrides: dict[str, Any]) -> Callable[[F], F]:
    """The flag of a parameter. `default` is the expression in the signature; None: there is none."""
    value = overrides.get("default", default.value if isinstance(default, ast.Constant) else None)
    kind = next((_KINDS[annotation] for annotation in _KINDS if annotation in kinds), str)
    arguments = {
        "flags": [spelled(name)],
        "type": kind,
        "is_flag": kind is bool,
        "default": value,
        "show_default": value is not None and value is not False,
        "required": default is None and value is None and "None" not in kinds,
        **overrides,
    }
    if arguments["required"]:
        del arguments["default"]  # click 8.3 and newer take a default of None for an answer
    return click.option(*arguments.pop("flags"), name, **arguments)


def _help(function: str, name: str) -> str:
    """The entry of a parameter in the docstring, with flags for the names of parameters in backticks."""
    parameters, docstring = _parsed(function)
    about = _arguments(docstring).get(name, "")
    if elsewhere := re.fullmatch(r"see `([\w.]+)`\.", about):
        return _help(elsewhere[1], name)
    return _with_flags(about, parameters)


def _with_flags(text: str, names: Container[str]) -> str:
    """The help of an option: with a capital, and with flags for those names that are in backticks."""
    text = flagged(text, names)
    return text[:1].upper() + text[1:]


@functools.cache
def _parsed(function: str) -> tuple[dict[str, tuple[ast.expr | None, ast.expr | None]], str]:
    """Annotation and default of each keyword-only parameter of a function, or field of a dataclass, and its docstring."""
    module, _, name = function.rpartition(".")
    file = Path(__file__).parents[2] / f"{module.replace('.', '/')}.py"
    nodes = {getattr(each, "name", ""): each for each in ast.parse(file.read_text("utf-8")).body}
    node = nodes.get(name) or nodes[f"_{name}"]  # what a `PerMethod` of this name calls
    if isinstance(node, ast.FunctionDef):
        pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        return {each.arg: (each.annotation, default) for each, default in pairs}, ast.get_docstring(node) or ""
    assert isinstance(node, ast.ClassDef)
    fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
    return {ast.unparse(each.target): (each.annotation, each.value) for each in fields}, ast.get_docstring(node) or ""


def _arguments(docstring: str) -> dict[str, str]:
    """The entries under "Args:" in a docstring."""
    section = docstring.partition("Args:\n")[2].partition("\n\n")[0]
    entries = (entry.partition(": ") for entry in re.split(r"\n    (?=\w+: )", f"\n{section}") if ": " in entry)
    return {name.strip(): " ".join(about.split()) for name, _, about in entries}


def sentence_of(module: str, command: str) -> str:
    """The first sentence of the help of a command, from the source of its module in `commands/`."""
    _, docstring = _parsed(f"run.cli.commands.{module}.{command.replace('-', '_')}")
    return docstring.partition("\n\n")[0].replace("\n", " ").partition(". ")[0].rstrip(".") + "."


reading = options_of(SOURCE, "images_key", "labels_key", "units")
public_share = options_of("run.cli.commands.fit.fit", "public_share", public_share={"metavar": "SHARE"})


def public_flags(callback: F) -> F:
    """The flags about public records, besides --public."""
    for key in ("labels-key", "images-key"):
        about = f"The same as --{key}, for --public."
        callback = click.option(f"--public-{key}", metavar="KEY", help=about)(callback)
    return public_share(callback)


def take_sources(options: dict[str, Any], *names: str, prefix: str = "") -> None:
    """Make a `Source` of the place that each of these options names, and take the flags about records out.

    Args:
        options: of the command.
        names: of the options with places. A place that is None stays None.
        prefix: before the names of the flags about records, such as "public_".
    """
    fields = {field: options.pop(prefix + field) for field in _OF_SOURCE if prefix + field in options}
    for name in names:
        if options[name] is not None:
            options[name] = gossamer.Source(options[name], **fields)
        elif any(value is not None for value in fields.values()):
            keys = " and ".join(spelled(prefix + field) for field in fields)
            raise RequestError(f"{keys} go with --public, which is missing: leave them out.")


def on_terminal(*, transient: bool = False) -> "Terminal":
    """A sink that shows on the terminal how far a command is. A context manager. transient: bars go when they are full."""
    from gossamer.run.training.progress import Terminal

    return Terminal(transient=transient)


def show(lines: Iterable[str], answer: object, *, as_json: bool) -> None:
    """Print a result: its lines or, with --json, one object."""
    for line in [json.dumps(answer)] if as_json else map(spoken, lines):
        click.echo(line)


def refuse_taken(out: Path, *, force: bool) -> None:
    """Refuse a file that exists, unless it may be replaced."""
    if out.exists() and not force:
        raise RequestError(f"{out} exists already. Add --force to replace it, or choose another name.")


class NearestName(click.Group):
    """A group that answers a mistyped command or METHOD with the nearest name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one was probably meant."""
        name = args[0]
        if self.get_command(ctx, name) is None:
            commands = self.list_commands(ctx)
            kind = "METHOD" if ctx.parent is not None else "command"
            raise click.UsageError(
                f"there is no {kind} {name!r}.{did_you_mean(name, commands)} Known: {', '.join(commands)}.", ctx
            )
        return super().resolve_command(ctx, args)


_CHOOSES = "Look at the records and choose a method"
BUDGET = "--epsilon 10 --delta 1e-5"
"""In the examples; left out where a method takes none."""


class PerMethod(NearestName):
    """A group with one subcommand for each METHOD, with the shared flags and those of its Config.

    Args:
        name: of the group, for example "fit".
        example: of a command, with METHOD in it.
        command: called with method=..., the shared flags, and settings={field: value or None}. Its docstring is the help.
        shared: click options that every method has.
        more: of `click.Group`. And `auto`: whether a subcommand chooses the METHOD itself.
    """

    def __init__(self, name: str, example: str, command: Callable[..., None], shared: list[Any], **more: Any) -> None:
        self._auto = more.pop("auto", False)
        more |= {"help": f"\b\n{example}\n\n{inspect.getdoc(command)}", "subcommand_metavar": "METHOD [FLAGS]..."}
        super().__init__(name, no_args_is_help=True, **more)
        self._example, self._command, self._shared = example, command, shared

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words, of which the first is the METHOD."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(
                f"METHOD comes before {error.option_name}: `{self._example}`. METHOD is one of {', '.join(METHODS)}.",
                ctx,
            ) from None

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (what click hands over)
        """The methods."""
        return [*([AUTO] if self._auto else []), *METHODS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 (what click hands over)
        """The command of one method, or of a method of the user's own, `module:object`."""
        if cmd_name == AUTO and self._auto:

            def automatic(**values: Any) -> None:
                """Choose the method within the privacy budget. Of pictures, a noisy query first asks how many show one shape on
                a plain ground, and such facts. Its answer chooses method and settings. A table has one method.

                A second noisy query scores the samples, see --score. Epsilon covers both.
                """
                self._command(method=AUTO, settings={}, **values)

            return self._made(AUTO, inspect.getdoc(automatic), automatic, _CHOOSES)
        cmd_name = allow(cmd_name) if ":" in cmd_name else cmd_name
        return self._of_method(METHODS[cmd_name]) if cmd_name in METHODS else None

    def _of_method(self, method: AnyMethod) -> click.Command:
        def callback(**values: Any) -> None:
            settings = {field.name: values.pop(field.name) for field in dataclasses.fields(method.config_type)}
            self._command(method=method.name, settings=settings, **values)

        about = (inspect.cleandoc(type(method).__doc__ or method.title)).replace("\n\n", "\n\n\b\n")
        flagged = flags_of(method.config_type)(callback)
        made = self._made(method.name, about, flagged, method.title, budget=not method.without_guarantee)
        for parameter in made.params:
            if isinstance(parameter, click.Option) and _refused(method, parameter.name):
                parameter.hidden = True  # it is refused with a reason; help need not offer it
        return made

    def _made(
        self, name: str, about: str | None, callback: Any, short: str | None = None, *, budget: bool = True
    ) -> click.Command:
        """The subcommand of this name, with the shared flags."""
        for option in reversed(self._shared):
            callback = option(callback)
        example = self._example.replace("METHOD", name)
        example = example if budget else example.replace(f" {BUDGET}", "")
        return click.command(name, help=f"\b\n{example}\n\n{about}", short_help=short)(callback)


def flags_of(config: type[BaseConfig]) -> Callable[[F], F]:
    """The flags of all fields of a Config, its own before those of a start."""
    inherited = {field.name for field in dataclasses.fields(StartConfig)}
    fields = sorted(dataclasses.fields(config), key=lambda field: field.name in inherited)
    kinds, about = typing.get_type_hints(config), documentation(config)

    def decorate(callback: F) -> F:
        for field in reversed(fields):
            shown = "computed from epsilon" if field.default in _COMPUTED else _plain(field.default)
            text = f"{_with_flags(about.get(field.name, ''), about)} [default: {shown}]"
            callback = _option(field.name, kinds[field.name], text)(callback)
        return callback

    return decorate


def start(text: str) -> Any:
    """A METHOD with flags of its own, such as "evolve --steps 1", as a mapping. Without flags it stays as it is.

    The noise of a start has a flag of the run. Raises ValueError: a quote is not closed.
    """
    method, *words = shlex.split(text) or [""]
    if not words or method not in METHODS:
        return text
    command, around = click.Command(method), click.get_current_context(silent=True)
    flags_of(METHODS[method].config_type)(command)
    command.params = [each for each in command.params if each.name != "noise_multiplier"]
    given = command.make_context(method, words, parent=around and around.parent).params.items()
    return {"method": method, **{name: value for name, value in given if value is not None}}


def _refused(method: AnyMethod, flag: str | None) -> bool:
    if flag in ("epsilon", "delta"):
        return bool(method.without_guarantee)
    if flag in ("images_key", "labels_key"):
        return not CARDS[method.takes].takes_keys
    return flag is not None and flag.startswith("public") and not method.takes_public


def _option(name: str, kind: Any, text: str) -> Callable[[F], F]:
    """The flag of a setting. Its default is None, so that what was given can be told from what was not."""
    flag = spelled(name)
    if kind is bool:
        flag, kind = f"{flag}/--no-{flag[2:]}", None
    elif typing.get_origin(kind) is typing.Literal:
        kind = click.Choice([str(choice) for choice in typing.get_args(kind)])
    elif kind == Start:
        kind = start
    return click.option(flag, name, type=kind, default=None, help=text)


def documentation(config: type) -> dict[str, str]:
    """The entries under "Args:" in the docstrings of a dataclass and of those that it is made from, by field."""
    return {
        name: about
        for base in reversed(config.__mro__)
        for name, about in _arguments(inspect.cleandoc(base.__doc__ or "")).items()
    }


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value) or "none"
