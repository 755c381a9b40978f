"""What becomes of a message at the edge. It names arguments and calls: the command line says flags, the page buttons."""

import ast
import re
import shlex
import tomllib
from collections.abc import Container
from pathlib import Path

_IN_BACKTICKS = re.compile(
    r"`(?:gossamer\.(?P<call>\w+)(?P<given>\([^`]*\))?|(?P<name>[a-z]\w*(?:\.\w+)?)(?:=(?P<value>[^`]*))?)`"
)
_COMMANDS = {"draft_card": "card"}
"""Functions of `gossamer` whose command has another name."""
_ON_THE_PAGE: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
"""Where the page has what a function does, or a keyword of it."""
_A_SHARE = re.compile(r"SHARE|[\d.e-]+")
"""A value of `public` that is no place but a share of the records."""


def flagged(text: str, names: Container[str]) -> str:
    """Return a message with flags for those arguments that are in backticks, and with commands for calls.

    Args:
        text: the message.
        names: the arguments that have a flag; words in backticks that are none of these stay.

    >>> flagged("Raise `max_norm`, or `gossamer.resume('my run', accounts=FOLDER)`.", {"max_norm"})
    "Raise --max-norm, or `gossamer resume 'my run' --accounts FOLDER`."
    """

    def spoken(found: re.Match[str]) -> str:
        if found["call"]:
            return _command(found["call"], found["given"] or "()")
        known = found["name"].partition(".")[0] in names
        return spelled(found["name"], found["value"]) if known else found[0]

    return _IN_BACKTICKS.sub(spoken, text)


def plain(text: str) -> str:
    """Return a message for the page: arguments as words, and calls as buttons and steps of the page.

    >>> plain("`max_norm=0` is too small; `gossamer.resume(RUN)` goes on")
    'max norm 0 is too small; “Resume” in the step Train goes on'
    """

    def spoken(found: re.Match[str]) -> str:
        if found["call"] in _ON_THE_PAGE:
            given = re.findall(r"(\w+)=", found["given"] or "")
            return "".join(_ON_THE_PAGE.get(name, "") for name in (found["call"], *given))
        words = (found["name"], found["value"])
        return flagged(found[0], ()) if found["call"] else " ".join(filter(None, words)).replace("_", " ")

    said = _IN_BACKTICKS.sub(spoken, text)
    said = re.sub(r"\b\de-\d+\b", lambda found: f"{float(found[0]):.15f}".rstrip("0"), said)
    return re.sub(r"(?<=\. )the step", "The step", said)


def spelled(name: str, value: str | None = None) -> str:
    """Return the flag of an argument, with a value that it is given.

    >>> spelled("header", "False"), spelled("public", "0.02"), spelled("public.images_key")
    ('--no-header', '--public-share 0.02', '--public-images-key')
    """
    if name == "public" and value and _A_SHARE.fullmatch(value):
        name = "public_share"
    flag = re.sub(r"[._]", "-", name)
    if value in ("True", "False"):
        return f"--{'no-' if value == 'False' else ''}{flag}"
    return f"--{flag}" if value is None else f"--{flag} {value}"


def _command(name: str, given: str) -> str:
    call = ast.parse(name + given, mode="eval").body
    assert isinstance(call, ast.Call)
    flags = [spelled(keyword.arg, _word(keyword.value)) for keyword in call.keywords if keyword.arg]
    return f"`{' '.join(['gossamer', _COMMANDS.get(name, name), *map(_word, call.args), *flags])}`"


def _word(value: ast.expr) -> str:
    """What stands for a value on the command line: a path in the quotes of a shell, all else as it is."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return shlex.quote(value.value)
    return " ".join(map(_word, value.elts)) if isinstance(value, ast.Tuple) else ast.unparse(value)
