"""Messages name arguments and calls. The command line says flags and commands, and the page words."""

import ast
import dataclasses
import inspect
import re
from pathlib import Path

import click
import pytest

import gossamer
from gossamer.errors import CardError, RequestError
from gossamer.events import note, spoken, spoken_as
from gossamer.methods import METHODS
from gossamer.run.cli.commands.federated import flower_app
from gossamer.run.cli.main import COMMANDS, cli, in_flags, paragraph
from gossamer.run.words import flagged, plain

SRC = Path(gossamer.__file__).parent
FUNCTIONS = [
    *[
        "attack",
        "budget",
        "discard",
        "evaluate",
        "fit",
        "plan",
        "recommend",
        "release",
        "resume",
        "sign",
        "split",
        "verify",
    ]
]


@pytest.mark.parametrize(
    ("text", "on_the_command_line"),
    [
        ("`gossamer.audit`", "`gossamer audit`"),
        ("`gossamer.resume('/my runs/a')` goes on", "`gossamer resume '/my runs/a'` goes on"),
        ("`gossamer.budget('eyes', epsilon=3, force=True)`", "`gossamer budget eyes --epsilon 3 --force`"),
        ("`gossamer.draft_card(DATA, pixel_range=(-5, 9))`", "`gossamer card DATA --pixel-range -5 9`"),
        ("`gossamer.split(DATA, header=False)`", "`gossamer split DATA --no-header`"),
        ("`max_norm` must be above 0", "--max-norm must be above 0"),
        ("`max_norm=0.5`: too small", "--max-norm 0.5: too small"),
        ("`force=True`, or `adaptive=False`", "--force, or --no-adaptive"),
        ("`public=SHARE`, `public=0.02` or `public=digits`", "--public-share SHARE, --public-share 0.02 or --public digits"),
        ("`public.images_key`", "--public-images-key"),
        ("`unknown`, `samples.npz` and `a b`", "`unknown`, `samples.npz` and `a b`"),
    ],
)  # fmt: skip
def test_what_the_command_line_says(text: str, on_the_command_line: str) -> None:
    names = {"max_norm", "force", "adaptive", "public"}
    assert flagged(text, names) == on_the_command_line
    assert flagged(on_the_command_line, names) == on_the_command_line


def test_what_the_page_says() -> None:
    assert plain("`noise_multiplier=0` is too little: `gossamer.resume('a b')`") == (
        "noise multiplier 0 is too little: “Resume” in the step Train"
    )
    assert plain("To raise it: `gossamer.budget('eyes', epsilon=E, delta=D, force=True)`.") == (
        "To raise it: the step Protection, “Change the limit” with its box ticked."
    )
    assert plain("epsilon 2 at delta 1e-05") == "epsilon 2 at delta 0.00001"
    assert (
        plain("`gossamer.verify(RUN, replay=True)` or `gossamer.budget`")
        == "`gossamer verify RUN --replay` or the step Protection"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "dpgan", "--data", "x"], "--out, --width, `nowhere`"),
        (["resume", "RUN"], "`out`, --width, `nowhere`"),  # resume has no --out; settings are named on every command
        ([], "`out`, --width, `nowhere`"),
        (["no-such-command"], "`out`, --width, `nowhere`"),
    ],
)
def test_a_command_names_its_own_flags(words: list[str], said: str) -> None:
    text = "`out`, `width`, `nowhere`"
    assert spoken(text) == text
    with in_flags(cli, words):
        assert (spoken(text), note(text).values["text"]) == (said, said)
        assert paragraph(RequestError(text)) == (said, 2)
    assert spoken(text) == text


def test_who_speaks_last_is_heard() -> None:
    with spoken_as(str.upper):
        assert spoken("a") == "A"
        with spoken_as(str.title):
            assert spoken("ab") == "Ab"
    assert spoken("a") == "a"


def test_an_error_has_a_code_and_a_field() -> None:
    error = CardError("`public.images_key=x` and `shape` are wrong")
    assert (error.code, error.field, str(error)) == ("card-error", "public.images_key", error.args[0])
    assert RequestError("`samples.csv` is there; `gossamer.fit` makes one").field == ""


def test_each_function_in_a_message_is_a_command() -> None:
    assert set(FUNCTIONS) <= set(COMMANDS)
    assert set(FUNCTIONS) <= set(dir(gossamer))
    assert set(COMMANDS) & set(dir(gossamer)) <= set(FUNCTIONS)


def arguments() -> set[str]:
    """All that a user can name: flags, arguments of functions, fields of settings and sources."""
    names = {field.name for method in METHODS.values() for field in dataclasses.fields(method.config_type)}
    names |= {field.name for field in dataclasses.fields(gossamer.Source)}
    for function in (*FUNCTIONS, "draft_card", "read", "audit", "Engine"):
        names |= (
            set(inspect.signature(getattr(gossamer, function)).parameters) if hasattr(gossamer, function) else set()
        )
    names |= set(inspect.signature(gossamer.Synthesizer.sample).parameters)
    groups: list[click.Command] = [cli, flower_app]
    while groups:
        command = groups.pop()
        names |= {parameter.name or "" for parameter in command.params}
        if isinstance(command, click.Group):
            context = click.Context(command)
            groups += filter(None, (command.get_command(context, name) for name in command.list_commands(context)))
    return names


OF_PLUGINS = {
    *[
        "about",
        "auto",
        "classes",
        "columns",
        "components",
        "generator",
        "invert",
        "net",
        "plan",
        "ranked",
        "sample",
        "save",
        "side",
        "stream",
        "train",
        "trained_on",
        "tuned",
        "use_of_public",
        "verify",
        "what",
    ]
}
"""Words in backticks that are no arguments: what a method of another package has to define, methods of objects, names."""


def test_each_argument_in_a_message_is_one() -> None:
    known, unknown = arguments() | OF_PLUGINS, {}
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for raised in [node] if isinstance(node, ast.Raise) else []:
                text = "".join(
                    each.value
                    for each in ast.walk(raised)
                    if isinstance(each, ast.Constant) and isinstance(each.value, str)
                )
                for name in re.findall(r"(?<!\w)`([a-z]\w*)(?:=[^`]*)?`", text):
                    if name not in known:
                        unknown[name] = f"{path}:{raised.lineno}"
    assert sorted(unknown) == []
