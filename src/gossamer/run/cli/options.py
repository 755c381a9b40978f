"""A method's Config as command-line flags: names, types, defaults and help come from the dataclass and its docstring."""

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from gossamer.errors import RequestError, did_you_mean
from gossamer.methods import METHODS
from gossamer.methods.common.method_start import StartConfig
from gossamer.methods.method import AnyMethod, BaseConfig
from gossamer.run.validation import check_seed

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


images_key = click.option(
    "--images-key",
    metavar="KEY",
    help="Key of the images in an .npz file, their column in a .parquet, their ending in a .tar.",
)
labels_key = click.option(
    "--labels-key",
    metavar="KEY",
    help="The same for labels, and a column of metadata.csv; 'none': there are no labels.",
)
units = click.option(
    "--units",
    metavar="WHOSE",
    help="Whose (writer, patient) each record is; a unit's records are drawn and clipped together. Class folders: FILE.csv "
    "(columns name,unit; name is the path below DATA), or 'folder' (DATA/CLASS/UNIT/picture). Arrays: FILE.npz:KEY, matched by "
    "position, or :KEY in DATA itself. Ids are text or whole numbers.",
)
pixel_range = click.option(
    "--pixel-range",
    type=(float, float),
    metavar="BLACK WHITE",
    help="What is black and what is white where pixels are not of 8 bits, such as 0 4095 for 12 bits.",
)
epsilon = click.option("--epsilon", type=float, help="Privacy budget; 'inf' trains without privacy.")
delta = click.option("--delta", type=float, help="Delta of the guarantee; well below 1 / (declared size).")
public = click.option(
    "--public",
    metavar="DATA",
    help="Public records for a warm start; they are not protected. To choose who is given up, put them here and take them "
    "out of --data: nobody may be in both.",
)
public_images_key = click.option(
    "--public-images-key", metavar="KEY", help="What --images-key is for --data, for --public."
)
public_labels_key = click.option(
    "--public-labels-key", metavar="KEY", help="What --labels-key is for --data, for --public."
)
public_share = click.option(
    "--public-share",
    type=float,
    metavar="SHARE",
    help="Give up this share of the data as public, instead of --public: a hash of each unit picks, always the same ones.",
)
preset = click.option(
    "--preset", metavar="NAME", help="Named settings; `gossamer presets` lists them. Other flags override them."
)


def checked_seed(_ctx: click.Context, _option: click.Parameter, seed: int | None) -> int | None:
    """A click callback: refuse a seed that some generator of numbers does not take."""
    check_seed("--seed", seed)
    return seed


def refuse_taken(out: Path, *, force: bool) -> None:
    """Refuse a file that exists, unless it may be replaced."""
    if out.exists() and not force:
        raise RequestError(f"{out} exists. Choose another name, or replace it with --force.")


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


BUDGET = "--epsilon 10 --delta 1e-5"
"""In the examples; left out where a method takes none."""


class PerMethod(NearestName):
    """A group with one subcommand for each METHOD, with the shared flags and those of its Config.

    Args:
        name: of the group, for example "fit".
        example: of a command, with METHOD in it.
        command: called with method=..., the shared flags, and settings={field: value or None}.
        shared: click options that every method has.
        more: of `click.Group`.
    """

    def __init__(
        self, name: str, example: str, command: Callable[..., None], shared: list[Callable[[F], F]], **more: Any
    ) -> None:
        super().__init__(name, **more)
        self._example, self._command, self._shared = example, command, shared

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the words, of which the first is the METHOD."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(
                f"METHOD comes before {error.option_name}: {self._example}. METHOD is one of {', '.join(METHODS)}.", ctx
            ) from None

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (what click hands over)
        """The methods."""
        return list(METHODS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 (what click hands over)
        """The command of one method."""
        return self._of_method(METHODS[cmd_name]) if cmd_name in METHODS else None

    def _of_method(self, method: AnyMethod) -> click.Command:
        def callback(**values: Any) -> None:
            settings = {each.name: values.pop(each.name) for each in dataclasses.fields(method.config_type)}
            self._command(method=method.name, settings=settings, **values)

        decorated: Any = flags_of(method.config_type)(callback)
        for option in reversed(self._shared):
            decorated = option(decorated)
        example = self._example.replace("METHOD", method.name)
        example = example.replace(f" {BUDGET}", "") if method.without_guarantee else example
        about = (inspect.getdoc(type(method)) or "").replace("\n\n", "\n\n\b\n")
        made = click.command(method.name, help=f"\b\n{example}\n\n{about}", short_help=method.title)(decorated)
        for parameter in made.params:
            if isinstance(parameter, click.Option) and _refused(method, parameter.name):
                parameter.hidden = True  # it is refused with a reason; help need not offer it
        return made


def per_method(
    name: str, about: str, example: str, command: Callable[..., None], shared: list[Callable[[F], F]], **more: Any
) -> click.Group:
    """See `PerMethod`. `about` and `example` are its help."""
    return PerMethod(
        name, example, command, shared, help=f"\b\n{example}\n\n{about}", no_args_is_help=True,
        subcommand_metavar="METHOD [FLAGS]...", **more,
    )  # fmt: skip


def flags_of(config: type[BaseConfig]) -> Callable[[F], F]:
    """The flags of all fields of a Config, its own before those of a start."""
    inherited = {each.name for each in dataclasses.fields(StartConfig)}
    fields = sorted(dataclasses.fields(config), key=lambda each: each.name in inherited)

    def decorate(callback: F) -> F:
        for field in reversed(fields):
            callback = _option(field, config)(callback)
        return callback

    return decorate


def _refused(method: AnyMethod, flag: str | None) -> bool:
    if flag in ("epsilon", "delta"):
        return bool(method.without_guarantee)
    return flag is not None and flag.startswith("public") and not method.takes_public


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
    """The lines under "Args:" in the docstrings of a dataclass and of those that it is made from, by field."""
    known: dict[str, str] = {}
    for each in reversed(config.__mro__):
        _, _, arguments = inspect.cleandoc(each.__doc__ or "").partition("Args:")
        entries = re.split(r"\n    (?=\w+: )", arguments)
        found = (entry.partition(": ") for entry in entries if ": " in entry)
        known |= {name.strip(): " ".join(about.split()) for name, _, about in found}
    return known


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value) or "none"
