"""The command line: `gossamer COMMAND`. Each command is a thin layer over a function of the same name, in `commands/`.

Exit status: 0 done, 1 the run failed, 2 the request was wrong. An error is one paragraph or list on stderr; `--debug` adds the
traceback. `--json` prints one JSON object on stdout and nothing else there. A command's module is loaded when it is asked for.
`--events`, for jobs of the page, prints all that is said as JSON, one event a line.
"""

import dataclasses
import functools
import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import click

from gossamer import plugins
from gossamer.errors import GossamerError, Interrupted, NotBegun, RequestError, is_full, is_out_of_memory
from gossamer.events import ERROR, Event, EventLines, printed_as_events, spoken, spoken_as
from gossamer.methods import METHODS
from gossamer.methods.registry import allow
from gossamer.run.cli.options import NearestName, sentence_of
from gossamer.run.training import torchrun
from gossamer.run.words import flagged

GROUPS = {
    "Prepare": "demo:demo page:page card:data split:data recommend:plan presets:plan plan:plan",
    "Train": "fit:fit resume:fit device-check:fit federated:federated",
    "Use": "sample:sample",
    "Judge": "evaluate:evaluate attack:evaluate compare:evaluate audit:audit",
    "Release": "verify:release report:release release:release sign:release",
    "Budget": "budget:budget discard:budget account:budget",
}
"""The commands by their groups, in the order of work, each with its module in `commands/`."""
COMMANDS = dict(command.split(":") for group in GROUPS.values() for command in group.split())


class Commands(NearestName):
    """The commands, each loaded when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (what click hands over)
        """In the order of work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 (what click hands over)
        """Load it."""
        if cmd_name not in COMMANDS:
            return None
        if torchrun.launched() and cmd_name not in torchrun.COMMANDS:
            raise click.UsageError(f"{cmd_name} runs in one process. Leave torchrun out: it is for fit and resume.")
        module = importlib.import_module(f"gossamer.run.cli.commands.{COMMANDS[cmd_name]}")
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 (what click hands over)
        """Their first sentences by group, without loading any of them."""
        width = max(map(len, COMMANDS))
        for heading, group in GROUPS.items():
            names = [command.partition(":")[0] for command in group.split()]
            with formatter.section(heading):
                formatter.write_dl([(f"{name:<{width}}", sentence_of(COMMANDS[name], name)) for name in names])


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option(
    "--plugin", "references", multiple=True, metavar="MODULE:OBJECT", help="Import a plug-in of your own. Repeatable."
)
@click.version_option(package_name="gossamer", prog_name="gossamer", help="Show the version.")
@click.pass_context
def cli(ctx: click.Context, references: tuple[str, ...]) -> None:
    """Train a generative model on private pictures or a private table under differential privacy, and publish the result.

    \b
    gossamer demo                                     try all steps on small public data
    gossamer card DATA -o card.toml                   draft the public facts about DATA
    gossamer plan moments --card card.toml --epsilon 10 --delta 1e-5
    gossamer fit moments --data DATA --card card.toml --epsilon 10 --delta 1e-5 --out RUN
    gossamer sample RUN -n 60000 -o synth.npz
    gossamer verify RUN; gossamer release RUN -o DIR

    DATA is a path: a folder of pictures or of MNIST's idx files, .npz, or pictures in .parquet or .tar. It
    may also be 'digits' or 'glyphs'. Add ':train' or ':test' to pick a split. RUN is the folder of one training run.
    Add --debug to any command to see the traceback of an error.
    """
    for reference in references:
        allow(reference)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: list[str] | None = None, *, command: click.Command = cli, name: str = "gossamer") -> None:
    """Run a command, and turn every error into one paragraph and an exit status.

    Args:
        arguments: the words after the name of the program; None: those of this process.
        command: the command; benchmarks have their own.
        name: how the program is called.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # before PyTorch is loaded: threads that spin starve each other
    argv = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in argv
    words = [word for word in argv if word not in ("--debug", "--events")]
    with printed_as_events() if "--events" in argv else in_flags(command, words):
        try:
            code = command.main(words, prog_name=name, standalone_mode=False)
        except Exception as error:  # every error becomes one paragraph; --debug shows the traceback
            code = _explain(error, debug=debug)
        except KeyboardInterrupt:
            _say("stopped at once. To continue from the last checkpoint: `gossamer resume RUN`.")
            code = 1
    sys.exit(code or 0)


@contextmanager
def in_flags(command: click.Command, words: Sequence[str]) -> Iterator[None]:
    """Within it, messages name flags: those of the command that `words` name, and the settings of all methods."""

    @functools.cache
    def names() -> list[str]:
        asked = command
        with suppress(GossamerError):  # a plug-in that cannot be used: the message is about it
            for word in words:
                if isinstance(asked, click.Group):
                    asked = asked.get_command(click.Context(asked), word) or asked
        settings = [field.name for method in METHODS.values() for field in dataclasses.fields(method.config_type)]
        return [*settings, *(parameter.name or "" for parameter in asked.params)]

    with spoken_as(lambda text: flagged(text, names()) if "`" in text else text):
        yield


def _explain(error: Exception, *, debug: bool) -> int:
    """Print the error on stderr, and return the exit status."""
    if debug:
        traceback.print_exception(error)
    if (rank := torchrun.rank()) > 0:  # rank 0 has printed what all ranks would say
        if isinstance(error, NotBegun | Interrupted | click.ClickException):
            torchrun.wait_for_the_words()
        else:
            text = spoken(str(error)) if isinstance(error, GossamerError) else type(error).__name__
            click.echo(f"gossamer, rank {rank}: {text}", err=True)
        return 2 if isinstance(error, RequestError | click.ClickException) else 1
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return 2
    text, status = paragraph(error)
    _say(text)
    return status


def _say(text: str) -> None:
    """Print why the program ends. In a job of the page it is an event."""
    if isinstance(sys.stderr, EventLines):
        sys.stderr.put(Event(ERROR, 0, {"text": text}))
    else:
        click.echo(f"gossamer: {text}", err=True)


def paragraph(error: Exception) -> tuple[str, int]:
    """Return the paragraph for an error, and the exit status."""
    if isinstance(error, click.Abort):
        return "stopped.", 1
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        hint = f" See `{context.command_path} --help`." if context is not None else ""
        return f"{error.format_message().rstrip('. ')}.{hint}", 2
    if isinstance(error, GossamerError):
        return spoken(str(error)), 2 if isinstance(error, RequestError) else 1
    if is_full(error):
        return "the disk is full. Free some space, then continue with `gossamer resume RUN` or repeat the command.", 1
    if is_out_of_memory(error):
        return (
            "there is not enough memory. Use a smaller --physical-batch-size, which changes no result, a smaller network, or a "
            "smaller shape in the card. `gossamer resume RUN` continues a run."
        ), 1
    if isinstance(error, OSError) and error.strerror:  # the system's own words, and a path: no value read from a record
        file_prefix = f"{error.filename}: " if isinstance(error.filename, str) else ""
        return f"{file_prefix}{error.strerror}. Correct that, and run the command again.", 2 if file_prefix else 1
    # The message of an error nobody foresaw could hold a value read from a record.
    if by := plugins.blamed(error):
        return (
            f"{by}, a plug-in, failed with {type(error).__name__}. Report this to its author; --debug shows where.",
            1,
        )
    return f"unexpected {type(error).__name__}. Please report it; --debug shows where.", 1
