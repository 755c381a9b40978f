"""Flags that come from signatures and docstrings, read without an import, are those of the functions themselves."""

import importlib
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from gossamer.run.cli.main import cli
from gossamer.run.cli.options import FIT, options_of, public_share

FUNCTIONS = [
    FIT,
    "run.training.resume.resume",
    "run.auditing.audit.audit",
    "run.evaluation.attack.attack",
    "run.evaluation.evaluate.evaluate",
    "run.release.release.sign",
    "data.split.split",
]


def commands(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """All commands below a group, by their words."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield " ".join((*words, name)), command
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))


def test_every_flag_of_every_command_has_a_help_text() -> None:
    found = list(commands(cli))
    assert len(found) > 50
    silent = [
        f"{words} {option.opts[0]}"
        for words, command in found
        for option in command.params
        if isinstance(option, click.Option) and not (option.help or "").strip(". ")
    ]
    assert silent == []


def test_every_required_flag_is_asked_for() -> None:
    """Click 8.3 takes a default of None for an answer, and then nothing is required."""
    required = [
        (command, option)
        for _, command in commands(cli)
        for option in command.params
        if isinstance(option, click.Option) and option.required
    ]
    assert len(required) > 40
    for command, option in required:
        with pytest.raises(click.MissingParameter):
            option.handle_parse_result(click.Context(command), {}, [])


@pytest.mark.parametrize("function", FUNCTIONS)
def test_flags_have_the_names_and_defaults_of_the_parameters(function: str) -> None:
    module, _, name = function.rpartition(".")
    parameters = inspect.signature(getattr(importlib.import_module(f"gossamer.{module}"), name)).parameters
    made = click.command(options_of(function)(lambda **_: None))
    flags = {str(option.name): option for option in made.params}
    never = {"sink", "progress", "process", "settings", "rng", "noise_seed"}
    keywords = {each for each, about in parameters.items() if about.kind is inspect.Parameter.KEYWORD_ONLY}
    assert set(flags) == keywords - never
    for each, option in flags.items():
        default = parameters[each].default
        assert option.required == (default is inspect.Parameter.empty), each
        if not option.required and each != "confidence":  # its default is a name, which the command repeats
            assert option.get_default(click.Context(made)) == default, each


def test_help_takes_the_words_of_another_docstring_and_spells_flags() -> None:
    made = click.command(options_of("data.split.split", "window")(lambda **_: None))
    (window,) = (option for option in made.params if isinstance(option, click.Option))
    assert (window.help or "").startswith("Scale each DICOM file by its own display window")
    made = click.command(public_share(lambda **_: None))
    (share,) = (option for option in made.params if isinstance(option, click.Option))
    assert "to make public in place of --public," in (share.help or "")


def test_auto_is_a_subcommand_that_says_what_may_be_chosen(gossamer: Callable[..., Any], tmp_path: Path) -> None:
    card = tmp_path / "card.toml"
    card.write_text("shape = [1, 28, 28]\nclasses = 10\ndeclared_size = 1500\n")
    words = ("plan", "auto", "--card", card, "--epsilon", 1, "--delta", 1e-5)
    said = gossamer(*words).out.splitlines()
    assert [line.partition(":")[0] for line in said[:4]] == ["anything", "things on black", "shapes", "digits"]
    assert "Private Evolution" in said[3]
    assert gossamer(*words, "--json").json["method"] == "auto"
    assert "--axes" not in gossamer("fit", "auto", "--help").out
    assert "no such option" in gossamer(*words, "--axes", 4).err.lower()
