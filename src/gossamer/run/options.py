"""A method's Config as command-line flags: names, types, defaults and help come from the dataclass and its docstring."""

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from gossamer.errors import did_you_mean
from gossamer.methods import METHODS

F = TypeVar("F", bound=Callable[..., Any])

as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else there."
)
force = click.option("--force", is_flag=True, help="Replace a finished run or an existing file.")
accounts = click.option(
    "--accounts",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the account book; default: gossamer/ in the user's state folder, or what the run was entered in.",
)


class NearestName(click.Group):
    """A group that answers a mistyped command or METHOD with the nearest name."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say which one was probably meant."""
        name = args[0]
        if self.get_command(ctx, name) is None:
            known = self.list_commands(ctx)
            what = "METHOD" if ctx.parent is not None else "command"
            raise click.UsageError(
                f"there is no {what} {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}.", ctx
            )
        return super().resolve_command(ctx, args)


def per_method(name: str, about: str, command: Callable[..., None], shared: list[Callable[[F], F]]) -> click.Group:
    """A group with one subcommand per METHOD, each with the shared flags and those of its Config.

    Args:
        name: of the group, for example "fit".
        about: its help.
        command: called with method=..., the shared flags, and settings={field: value or None}.
        shared: click options that every method has.
    """
    group = NearestName(name, help=about, no_args_is_help=True, subcommand_metavar="METHOD [FLAGS]...")
    for method, module in METHODS.items():

        def callback(method: str = method, module: Any = module, **values: Any) -> None:
            names = [field.name for field in dataclasses.fields(module.Config)]
            settings = {name: values.pop(name) for name in names}
            command(method=method, settings=settings, **values)

        decorated: Any = callback
        for field in reversed(dataclasses.fields(module.Config)):
            decorated = _option(field, module.Config)(decorated)
        for option in reversed(shared):
            decorated = option(decorated)
        group.add_command(
            click.command(
                method, help=(module.__doc__ or "").replace("\n\n", "\n\n\b\n"), short_help=module.FACTS.title
            )(decorated)
        )
    return group


def _option(field: "dataclasses.Field[Any]", config: type) -> Callable[[F], F]:
    """The flag of one field. Its default is None, so that what was given can be told from what was not."""
    flag = "--" + field.name.replace("_", "-")
    kind = typing.get_type_hints(config)[field.name]
    if kind is bool:
        flag = f"{flag}/--no-{flag[2:]}"
    elif typing.get_origin(kind) is typing.Literal:
        kind = click.Choice([str(choice) for choice in typing.get_args(kind)])
    shown = "worked out" if field.default is dataclasses.MISSING else _plain(field.default)
    about = documentation(config).get(field.name, "")
    text = f"{about[:1].upper()}{about[1:]} [default: {shown}]"
    return click.option(flag, field.name, type=None if kind is bool else kind, default=None, help=text)


def documentation(config: type) -> dict[str, str]:
    """The lines under "Args:" of a dataclass's docstring, by field."""
    text = inspect.getdoc(config) or ""
    _, _, arguments = text.partition("Args:")
    entries = re.split(r"\n    (?=\w+: )", arguments)
    found = (entry.partition(": ") for entry in entries if ": " in entry)
    return {name.strip(): " ".join(about.split()) for name, _, about in found}


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)
