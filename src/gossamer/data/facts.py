"""The facts of a card. Each is declared once, as a field: name, type, default, meaning and limits.

The comments of the card's file, its checks and the form of the page follow from these fields.
"""

import datetime
import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, Field, field, fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from gossamer.errors import CardError, did_you_mean


def meaning(text: str, *, low: int = 1, high: int | None = None, of: Collection[str] = ()) -> dict[str, Any]:
    """The metadata of a field without a default.

    Args:
        text: what is declared, as comments and messages say it.
        low: the least value of a whole number.
        high: its largest value; None: any.
        of: the kinds of columns that have this entry; empty: all.
    """
    return {"meaning": text, "low": low, "high": high, "of": of}


def fact(default: Any, text: str, **limits: Any) -> Any:
    """A field with a default. limits: see `meaning`."""
    return field(default=default, metadata=meaning(text, **limits))


def meanings(kind: type) -> dict[str, str]:
    """What each fact of a card, or each entry of a column, means."""
    return {entry.name: entry.metadata["meaning"] for entry in fields(kind) if entry.metadata}


def document(kind: type) -> None:
    """Add what each fact means to the docstring of a card or a column."""
    lines = [f"        {name}: {text}." for name, text in meanings(kind).items()]
    kind.__doc__ = "\n".join([f"{kind.__doc__}\n\n    Args:", *lines])


def check_facts(card: Any, wrong: Callable[[str, str], CardError]) -> None:
    """Make tuples of lists. Refuse what has not the type of its field, is beyond its limits, or is of another kind of column.

    Args:
        card: a card or a column, in its making.
        wrong: the error for a fact, from its name and a phrase that says what is wrong.
    """
    for entry in fields(card):
        value = getattr(card, entry.name)
        if isinstance(value, list):
            object.__setattr__(card, entry.name, value := tuple(value))
        of = entry.metadata.get("of")
        if of and card.kind not in of and value != entry.default:
            raise wrong(entry.name, f"is no entry of a column of kind {card.kind}: leave it out")
        if entry.metadata and (must := _must(entry.type, value, entry.metadata)):
            near = did_you_mean(str(value), get_args(entry.type)) if get_origin(entry.type) is Literal else ""
            raise wrong(entry.name, f"must be {must}: {entry.metadata['meaning']}{near and f'.{near}'}")


def _must(kind: Any, value: object, limits: Mapping[str, Any]) -> str:
    """What a value of this type must be; empty: it is, or the card has a check of its own."""
    if get_origin(kind) in (Union, UnionType):
        kinds = {*get_args(kind)} - {NoneType}
        return "" if len(kinds) > 1 or value is None else _must(kinds.pop(), value, limits)
    if get_origin(kind) is Literal:
        return "" if value in get_args(kind) else f"one of {', '.join(map(toml, get_args(kind)))}"
    if get_origin(kind) is tuple:
        return "" if isinstance(value, tuple) else "a list in brackets"
    if kind is bool:
        return "" if isinstance(value, bool) else "true or false"
    if kind is str:
        return "" if is_line(value) else "a line of text in quotes"
    low, high = limits["low"], limits["high"]
    if isinstance(value, int) and is_whole(value) and value >= low and (high is None or value <= high):
        return ""
    return f"a whole number {f'of at least {low}' if high is None else f'from {low} to {high:,}'}"


def changed(card: Any) -> list[Field[Any]]:
    """The fields of a card or a column that are not the default."""
    return [entry for entry in fields(card) if getattr(card, entry.name) != entry.default]


def check_keys(kind: type, facts: Iterable[str], what: str, *, known: Collection[str] = (), hint: str = "") -> None:
    """Refuse unknown entries, with the nearest name, and missing ones, with what they mean. Raises CardError.

    Args:
        kind: of the card or the column.
        facts: the names that are given.
        what: the card or the column, for messages.
        known: names that there are. Empty: those of its facts.
        hint: a last sentence about unknown names.
    """
    means, given = meanings(kind), [*facts]
    known = known or [*means]
    for key in given:
        if key not in known:
            raise CardError(f"{what} has no entry {key!r}.{did_you_mean(key, known)} Known: {', '.join(known)}.{hint}")
    for entry in fields(kind):
        if entry.default is MISSING and entry.metadata and entry.name not in given:
            raise CardError(f"{what} lacks {entry.name} ({means[entry.name]}); add a line {entry.name} = ...")


def lines_of(kind: type, facts: Mapping[str, Any], keys: Iterable[str]) -> list[str]:
    """The lines of a card's file, each with a comment that says what is declared.

    Args:
        kind: of the card.
        facts: those that are not the default. Where the default is None, the file has empty text.
        keys: the facts that the file has, in order.
    """
    means, values = meanings(kind), {entry.name: entry.default for entry in fields(kind)} | dict(facts)
    texts = {key: toml("" if values[key] is None else values[key]) for key in keys}
    return [f"# declared public: {means[key]}\n{key} = {text}\n" for key, text in texts.items()]


def toml(value: object) -> str:
    """A value in TOML; printable text needs no more than the escapes it shares with JSON."""
    if isinstance(value, tuple | list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{toml(key)} = {toml(each)}" for key, each in value.items()) + " }"
    return value.isoformat() if isinstance(value, datetime.date) else json.dumps(value, ensure_ascii=False)


def is_whole(value: object) -> bool:
    """Whether a value is a whole number, and no true or false."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_line(value: object) -> bool:
    """Whether a value is a line of text."""
    return isinstance(value, str) and value.isprintable()


def is_text(value: object) -> bool:
    """Whether a value is a line of text, not empty and without space around it."""
    return isinstance(value, str) and value.isprintable() and bool(value) and value == value.strip()


def rounded(count: int) -> int:
    """A count for a draft, to two significant digits, below 100 to tens: an exact count is no public fact."""
    digits = max(len(str(count)) - 2, 1)
    return max(round(count, -digits), 10)
