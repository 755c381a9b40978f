"""The page "Command line" of the site, from the commands themselves: `python tools/cli_reference.py` prints it."""

import click

from gossamer.methods import METHODS
from gossamer.run.cli.main import GROUPS, cli


def page() -> str:
    """Return every command with its options, as Markdown."""
    lines = [
        "# Command line",
        "",
        "For everyone who types commands. `gossamer COMMAND --help` prints the same in a terminal.",
        "",
        "Exit status: 0 done, 1 the run failed or does not verify, 2 the request was wrong. An error is one paragraph or",
        "a list. `--debug` adds the traceback.",
    ]
    with click.Context(cli, info_name="gossamer") as context:
        for group, commands in GROUPS.items():
            lines += ["", f"## {group}"]
            for name in (each.partition(":")[0] for each in commands.split()):
                command = cli.get_command(context, name)
                assert command is not None
                lines += _section(command, context, name, level=3)
    return "\n".join(lines) + "\n"


def _section(command: click.Command, parent: click.Context, name: str, level: int) -> list[str]:
    """Return a command's lines, and below them those of its subcommands."""
    with click.Context(command, parent=parent, info_name=name) as context:
        lines = _head(command, context, level)
        children = _children(command, context)
        if not set(METHODS) <= children.keys():
            lines += _table(_records(command, context))
            for child, subcommand in children.items():
                lines += _section(subcommand, context, child, level + 1)
            return lines
        rows = {child: _records(subcommand, context) for child, subcommand in children.items()}
        shared = [row for row in rows["moments"] if all(row in others for others in rows.values())]
        lines += ["", "Options with every METHOD:", *_table(shared)]
        if name != "fit":
            return [
                *lines,
                "",
                f"The settings of a METHOD are those of `gossamer fit METHOD`; `gossamer {name} METHOD --help`",
                "lists them.",
            ]
        for child, subcommand in children.items():
            with click.Context(subcommand, parent=context, info_name=child) as inner:
                lines += _head(subcommand, inner, level + 1)
            lines += _table([row for row in rows[child] if row not in shared])
        return lines


def _head(command: click.Command, context: click.Context, level: int) -> list[str]:
    """Return heading, usage and help of a command."""
    usage = " ".join(command.collect_usage_pieces(context))
    path = context.command_path
    return ["", f"{'#' * level} {path}", "", f"`{path} {usage}`", "", *_text(command.help or "")]


def _children(command: click.Command, context: click.Context) -> dict[str, click.Command]:
    """Return the subcommands by name."""
    if not isinstance(command, click.Group):
        return {}
    found = {name: command.get_command(context, name) for name in command.list_commands(context)}
    return {name: child for name, child in found.items() if child is not None}


def _records(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    """Return each option with its help."""
    records = [param.get_help_record(context) for param in command.get_params(context)]
    return [record for record in records if record is not None and "--help" not in record[0]]


def _table(rows: list[tuple[str, str]]) -> list[str]:
    """Return options as a table; nothing for none."""
    head = ["", "| option | |", "|---|---|"] if rows else []
    return head + [f"| `{option}` | {_cell(text)} |" for option, text in rows]


def _text(text: str) -> list[str]:
    """Return help as Markdown: paragraphs after click's no-wrap mark become code."""
    lines: list[str] = []
    for paragraph in text.split("\n\n"):
        mark, _, rest = paragraph.partition("\n")
        if mark.strip() == "\b":
            lines += ["```text", *(line.rstrip() for line in rest.splitlines()), "```", ""]
        else:
            lines += [" ".join(paragraph.split()).replace("<", "&lt;"), ""]
    return lines[:-1]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    print(page(), end="")
