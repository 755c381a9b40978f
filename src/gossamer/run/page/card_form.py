"""The data card as a form: what is measured, what is declared, and a card from what the user wrote.

A draft holds values that were measured. They are suggestions: each counts only if the user accepts it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossamer.errors import CardError
from gossamer.lazy import Lazy

if TYPE_CHECKING:
    from gossamer.data.tables import any_card
    from gossamer.data.tables import card as cards
    from gossamer.data.tables.any_card import AnyCard
else:
    any_card, cards = Lazy("gossamer.data.tables.any_card"), Lazy("gossamer.data.tables.card")

_OF_DRAFT = "measured_"
"""`tables.card.MEASURED`, which would load NumPy."""
_IN_A_DRAFT = ("declared_size", "shape", "classes", "class_names")
"""What the draft measures, besides columns."""
GENERATED = ("key", "derived")
"""Kinds of columns that no run learns."""
YES_NO = (("false", "no"), ("true", "yes"))
KINDS = (
    ("category", "category: one of a list of values"), ("integer", "whole number"), ("number", "number"), ("date", "date"),
    ("key", "identifier: samples get running numbers"), ("", "leave this column out"),
)  # fmt: skip
KIND_NAMES = {kind: words.partition(":")[0] for kind, words in KINDS} | {"": "left out", "derived": "computed"}
"""Short: for the line of a column."""
OUTSIDE = (
    ("refuse", "a mistake: refuse it"), ("clip", "the nearer bound"), ("other", "a value of its own, called other"),
)  # fmt: skip
_SUGGESTED = ("clip", "other")
"""What the form proposes for another number, and for another category, where values were only measured. Records for tests may
have values that those for training lack."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """A fact of the card, as the form asks for it.

    Args:
        name: of the fact.
        label: the question.
        reason: why it is asked, and what becomes public.
        value: what is declared now, as text.
        measured: what the draft suggests, as text; empty: nothing.
        choices: values with their words; empty: any text.
        required: whether the browser asks for it.
        wide: whether it holds a list.
    """

    name: str
    label: str
    reason: str
    value: str = ""
    measured: str = ""
    choices: Sequence[tuple[str, str]] = ()
    required: bool = False
    wide: bool = False


@dataclass(frozen=True, kw_only=True)
class ColumnFields:
    """A column of a table, as the form asks for it. The texts are empty where nothing is declared or measured."""

    name: str
    kind: str
    values: str
    low: str
    high: str
    measured: str
    missing: bool
    some_missing: bool
    """Whether values are missing in the records. That is measured too."""
    outside: str
    decimals: str
    dropped: str
    other: str
    """Entries that the form does not ask for, in words."""


def draft_of(path: Path) -> dict[str, Any]:
    """Return the facts of a draft. What it measured of columns is under `measured_values` and `measured_bounds`."""
    return cards.facts_of_draft(path.read_text(encoding="utf-8"))


def fields_of(draft: Mapping[str, Any], card: Mapping[str, Any]) -> tuple[list[Field], list[Field]]:
    """Return the questions on the whole data set: those that each owner answers, and those that few need.

    Args:
        draft: its facts.
        card: the facts that are declared now; empty: none.
    """
    is_table, has_units = "column" in draft, draft["unit"] != "record"
    stated = {key: value for key, value in draft.items() if key not in _IN_A_DRAFT} | dict(card)

    def field(name: str, label: str, reason: str, **more: Any) -> Field:
        measured = _text(draft[name]) if name in _IN_A_DRAFT else ""
        return Field(
            name=name, label=label, reason=reason, value=_text(stated.get(name, "")), measured=measured, **more
        )

    owner = "person" if has_units else "record"
    first = [
        field(
            "title", "What is the data set called?", "This name is at the top of everything that you hand out.", required=True,
        ),
        field(
            "data_set", "Under which name does the budget log count it?",
            "Gossamer adds up the epsilon of all runs under this name. Use one name for all data sets of the same people.",
            required=True,
        ),
        field(
            "declared_size", f"About how many {owner}s are there?",
            "Sampling rates are computed from this number. Round it to a number that others know anyway: an exact count can "
            "reveal whether one person is included.",
        ),
    ]  # fmt: skip
    more: list[Field] = []
    if has_units:
        first.append(field(
            "unit", "Who is protected?", "All records of one of them together are protected. Write one word, such as patient.",
            required=True,
        ))  # fmt: skip
        more.append(field(
            "missing_unit", "What is a record without an owner?", "Recipients see how such records were treated.",
            choices=(("refuse", "a mistake: refuse it"), ("own", "a unit of its own")),
        ))  # fmt: skip
    if is_table:
        names = [column["name"] for column in draft["column"] if column["kind"] != "key"]
        first.append(field(
            "label", "Which column should a model predict?",
            "The run keeps this column's dependence on the others first. Judging uses it too.",
            choices=(("", "none"), *((name, name) for name in names)),
        ))  # fmt: skip
        if has_units:
            more.append(field(
                "max_rows", "How many rows of one owner count in full?",
                "Rows beyond this number weigh less. A larger number needs more noise.",
            ))  # fmt: skip
        return first, more
    first += [
        field("classes", "How many classes are there?", "The number of classes is a fact of the whole data set."),
        field(
            "class_names", "What are the classes called?",
            "Write | between the names. Take out a class that exists because of a single person.", wide=True,
        ),
        field(
            "shape", "How large are the pictures?",
            "Channels x height x width. All pictures are made this size. 1 channel is grey, 3 are colour.",
        ),
    ]  # fmt: skip
    more += [
        field(
            "resize", "How are pictures of other proportions made to fit?", "Recipients see how pictures were changed.",
            choices=(("squash", "distort them"), ("crop", "keep the middle"), ("pad", "add black bars")),
        ),
        field("invert", "Exchange dark and light?", "Choose yes for ink on white paper.", choices=YES_NO),
        field(
            "label_prior", "How frequent is each class?",
            'Write "uniform", or a share of each class with | between. Use shares only if they are known from elsewhere.',
        ),
        field(
            "missing_label", "What is a picture without a class?", "Recipients see how such pictures were treated.",
            choices=(("refuse", "a mistake: refuse it"), ("drop", "it is left out")),
        ),
    ]  # fmt: skip
    return first, more


def columns_of(draft: Mapping[str, Any], card: Mapping[str, Any]) -> list[ColumnFields]:
    """Return the questions on each column of a table. Arguments: see `fields_of`."""
    declared = {column["name"]: column for column in card.get("column", [])}
    dropped = draft.get("drop", {}) | card.get("drop", {})
    drafted = [*draft["column"], *({"name": name, "kind": ""} for name in dropped)]
    return [
        _column(column, declared.get(column["name"], {"kind": ""} if card else None), dropped.get(column["name"], ""))
        for column in drafted
    ]


def card_from(draft: Mapping[str, Any], card: Mapping[str, Any], form: Mapping[str, str]) -> "AnyCard":
    """Return the card that a form declares.

    Args:
        draft: facts of the draft.
        card: the facts that were declared before; empty: none. Entries that the form does not ask for stay.
        form: the texts by name. A measured value counts where `accept.NAME` is there and no text.

    Raises:
        CardError: a fact that is missing or makes no sense.
    """
    kept = {"pixel_range", "window", "header", "decimal", "unit", "missing_unit", "max_rows"}
    facts = {key: value for key, value in draft.items() if key in kept} | {
        key: value for key, value in card.items() if key not in ("column", "drop")
    }
    first, more = fields_of(draft, card)
    for field in (*first, *more):
        text = form.get(field.name, "").strip()
        if text or not field.measured:
            facts[field.name] = _value(field.name, text)
        elif f"accept.{field.name}" in form:
            facts[field.name] = draft[field.name]
        else:
            raise CardError(f"{field.label} Write what may be public, or accept the measured value.")
    if "column" in draft:
        facts["column"] = _declared_columns(draft, card, form)
    return any_card.card_from(facts)


def _declared_columns(
    draft: Mapping[str, Any], card: Mapping[str, Any], form: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The entries of the columns that the form keeps."""
    drafted = {column["name"]: column for column in draft["column"]}
    before = {column["name"]: column for column in card.get("column", [])}
    columns = []
    for number, fields in enumerate(columns_of(draft, card)):
        texts = {
            key: form.get(f"column.{number}.{key}", "").strip()
            for key in ("kind", "values", "low", "high", "outside", "decimals")
        }
        kind = texts["kind"]
        if not kind:
            continue
        known = before.get(fields.name, drafted.get(fields.name, {}))
        entries = dict(known) if known.get("kind") == kind else {}
        if kind in GENERATED:
            columns.append(entries | {"name": fields.name, "kind": kind})
            continue
        measured = {
            key.removeprefix(_OF_DRAFT): value
            for key, value in drafted.get(fields.name, {}).items()
            if key.startswith(_OF_DRAFT)
        }
        entries = {key: value for key, value in entries.items() if not key.startswith(_OF_DRAFT)}
        entries |= {
            "name": fields.name,
            "kind": kind,
            "missing": f"column.{number}.missing" in form,
            "outside": texts["outside"] or "refuse",
        }
        if kind == "category" and texts["values"]:
            entries["values"] = _list(texts["values"])
        elif kind != "category" and (texts["low"] or texts["high"]):
            entries["bounds"] = [_number(texts["low"]), _number(texts["high"])]
            entries.pop("edges", None)
        elif f"accept.column.{number}" in form and drafted.get(fields.name, {}).get("kind") == kind:
            entries |= measured
        else:
            entries.pop("values", None)
            entries.pop("bounds", None)
        if kind == "number":
            entries.pop("decimals", None)
            if texts["decimals"]:
                entries["decimals"] = _number(texts["decimals"])
        columns.append(entries)
    return columns


def _column(drafted: Mapping[str, Any], declared: Mapping[str, Any] | None, dropped: str) -> ColumnFields:
    """The questions on one column. declared: None where there is no card yet."""
    stated = drafted if declared is None else declared
    bounds = stated.get("bounds", ["", ""])
    known = {"name", "kind", "values", "bounds", "missing", "outside", "decimals", "bins"}
    measured = drafted.get("measured_values") or drafted.get("measured_bounds") or []
    suggested = declared is None and bool(measured)
    return ColumnFields(
        name=drafted["name"],
        kind=stated.get("kind", ""),
        values=_text(stated.get("values", [])),
        low=str(bounds[0]),
        high=str(bounds[1]),
        measured=_text(measured) if "measured_values" in drafted else " to ".join(map(str, measured)),
        missing=bool(stated.get("missing", False)) and not suggested,
        some_missing=bool(measured) and bool(drafted.get("missing", False)),
        outside=_SUGGESTED[drafted["kind"] == "category"] if suggested else stated.get("outside", "refuse"),
        decimals=str(stated.get("decimals", "")),
        dropped=dropped,
        other=", ".join(
            f"{key} = {_text(value)}"
            for key, value in stated.items()
            if key not in known and not key.startswith(_OF_DRAFT)
        ),
    )


def _text(value: Any) -> str:
    """A value of a card as the form shows it."""
    if isinstance(value, list | tuple):
        return (" x " if value and all(isinstance(part, int) for part in value) else " | ").join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(name: str, text: str) -> Any:
    """A fact from its text. What does not fit stays text: the card says what is wrong with it."""
    if name in ("invert", "window"):
        return text == "true"
    if name == "shape":
        return [_number(part.strip()) for part in re.split(r"[x,|]", text)]
    if name == "class_names":
        return _list(text)
    if name == "label_prior" and text != "uniform":
        return [_number(part) for part in _list(text)]
    return _number(text) if name in ("declared_size", "classes", "max_rows") else text


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split("|") if part.strip()]


def _number(text: str) -> int | float | str:
    plain = text.replace(",", "") if re.fullmatch(r"-?\d{1,3}(,\d{3})+", text) else text
    for kind in (int, float):
        try:
            return kind(plain)
        except ValueError:
            continue
    return text
