"""A data dictionary: a CSV file that declares the columns of a table, one in each line, without looking at the records."""

import re
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from gossamer.data.card import meanings
from gossamer.data.columns.column import Column
from gossamer.data.columns.generated import GeneratedColumn
from gossamer.data.sources.names import clean_names
from gossamer.data.sources.text_file import open_text
from gossamer.data.tables.card import column_from, column_toml
from gossamer.errors import CardError, DataError, did_you_mean

FIELDS: dict[str, Field[Any]] = {
    entry.name: entry for kind in (GeneratedColumn, Column) for entry in fields(kind) if entry.metadata
}
"""Entries of a column, by name."""
OWN = ("low", "high", "label", "description")
"""What else a dictionary may have: both bounds, whether the column is the label, and a comment."""
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_SIZES = ("integer", "number")


def read_dictionary(path: Path) -> tuple[dict[str, str], str | None]:
    """The [[column]] entry of each column that a dictionary declares, and the label, if it names one.

    Raises:
        DataError: the file cannot be read.
        CardError: a line declares what no column can be; names the line.
    """
    table = open_text(path, (*FIELDS, *OWN))
    if not {"name", "kind"} <= set(table.names):
        raise DataError(
            f"{path}: the first line of a dictionary must name the columns name and kind. Known: {_known()}."
        )
    for name in table.names:
        if name not in FIELDS and name not in OWN:
            near = did_you_mean(name, [*FIELDS, *OWN])
            raise DataError(f"{path}: a dictionary has no column {name!r}.{near} Known: {_known()}.")
    entries: dict[str, str] = {}
    label, number = None, 1
    for _, columns in table.blocks([*range(len(table.names))]):
        for cells in zip(*(column.to_pylist() for column in columns), strict=True):
            number += 1
            row = {key: (cell or "").strip() for key, cell in zip(table.names, cells, strict=True)}
            name, entries_text = _entry(row, f"{path}, line {number}")
            entries[name] = entries_text
            label = name if _TRUTH.get(row.get("label", "").casefold()) else label
    if table.ragged:
        raise DataError(
            f"{path}: line {table.ragged[0] + 2} has another number of values than the first line has names."
        )
    return entries, label


def _known() -> str:
    return ", ".join([*FIELDS, *OWN])


def _entry(row: dict[str, str], where: str) -> tuple[str, str]:
    """The name of a column, and its entry. Raises CardError."""
    facts: dict[str, Any] = {}
    kind = row["kind"]
    for key, text in row.items():
        if text and key in FIELDS:
            try:
                facts[key] = _value(FIELDS[key], text, kind)
            except ValueError:
                what = "true or false" if FIELDS[key].type is bool else "a number"
                raise CardError(f"{where}: {key} must be {what}. It means: {_meaning(key)}.") from None
    try:
        if row.get("low") or row.get("high"):
            facts["bounds"] = [_part(row.get(end, ""), kind) for end in ("low", "high")]
        column = column_from(facts)
    except (CardError, ValueError) as error:
        why = error if isinstance(error, CardError) else "low and high must be numbers, or dates as 2031-12-24"
        raise CardError(f"{where}: {why}") from None
    about = row.get("description", "")
    described = f"# {about}\n" if about and about.isprintable() else ""
    return clean_names([column.name])[0], described + column_toml(column)


def _meaning(key: str) -> str:
    return (meanings(Column) | meanings(GeneratedColumn))[key]


def _value(entry: Field[Any], text: str, kind: str) -> Any:
    """The value of a fact from its text: parts of a list are separated by |. Raises ValueError."""
    if entry.type is bool:
        if text.casefold() not in _TRUTH:
            raise ValueError
        return _TRUTH[text.casefold()]
    if entry.type is str or get_origin(entry.type) is Literal:
        return text
    if int in (entry.type, *get_args(entry.type)):
        return int(text)
    parts = [part.strip() for part in text.split("|")]
    if entry.name == "mapping":
        pairs = [part.split("=", 1) for part in parts]
        return {value.strip(): derived.strip() for value, derived in pairs}
    return parts if entry.name in ("values", "missing_words") else [_part(part, kind) for part in parts]


def _part(text: str, kind: str) -> Any:
    """A bound, an edge or a special value. Raises ValueError: it is no number, where one is needed."""
    if kind not in _SIZES:
        return text
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
