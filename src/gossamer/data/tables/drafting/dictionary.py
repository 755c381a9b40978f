"""A data dictionary: a CSV file that declares the columns of a table, one in each line, without looking at the records."""

import re
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, get_args, get_origin

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
_WHOLE = re.compile(r"[+-]?\d+")


def read_dictionary(path: Path) -> tuple[dict[str, str], str | None]:
    """The [[column]] entry of each column that a dictionary declares, and the label, if it names one.

    Raises:
        DataError: the file cannot be read.
        CardError: a line declares what no column can be; names the line.
    """
    table, known = open_text(path, (*FIELDS, *OWN)), [*FIELDS, *OWN]
    are = f"Known: {', '.join(known)}."
    if not {"name", "kind"} <= {*table.names}:
        raise DataError(f"{path}: the first line of a dictionary must name the columns name and kind. {are}")
    for name in table.names:
        if name not in known:
            raise DataError(f"{path}: a dictionary has no column {name!r}.{did_you_mean(name, known)} {are}")
    entries: dict[str, str] = {}
    label, number = None, 1
    for _, columns in table.blocks([*range(len(table.names))]):
        for cells in zip(*(column.to_pylist() for column in columns), strict=True):
            number += 1
            row = {key: (cell or "").strip() for key, cell in zip(table.names, cells, strict=True)}
            name, entry = _entry(row, f"{path}, line {number}")
            entries[name] = entry
            label = name if _TRUTH.get(row.get("label", "").casefold()) else label
    if table.ragged:
        line = f"line {table.ragged[0] + 2}"
        raise DataError(f"{path}: {line} has another number of values than the first line has names.")
    return entries, label


def _entry(row: dict[str, str], where: str) -> tuple[str, str]:
    """The name of a column, and its entry, with fine bins unless it says how many. Raises CardError."""
    ends = [row.pop(end, "") for end in ("low", "high")]
    facts: dict[str, Any] = {"bounds": "|".join(ends)} if any(ends) else {}
    for key, text in [*facts.items(), *row.items()]:
        if text and key in FIELDS:
            try:
                facts[key] = _value(FIELDS[key], text, row["kind"])
            except (ValueError, KeyError):
                of, means = FIELDS[key].type, FIELDS[key].metadata["meaning"]
                what = "true or false" if of is bool else "numbers" if get_origin(of) is tuple else "a number"
                name = "low and high" if key == "bounds" else key
                raise CardError(f"{where}: {name} must be {what}. It means: {means}.") from None
    try:
        column = column_from(facts)
    except CardError as error:
        raise CardError(f"{where}: {error}") from None
    if isinstance(column, Column) and column.bounds and "bins" not in facts:
        column = column.with_fine_bins()
    about = row.get("description", "")
    described = f"# {about}\n" if about and about.isprintable() else ""
    return clean_names([column.name])[0], described + column_toml(column)


def _value(entry: Field[Any], text: str, kind: str) -> Any:
    """The value of a fact from its text: parts of a list are separated by |. Raises ValueError or KeyError."""
    if entry.type is bool:
        return _TRUTH[text.casefold()]
    if int in (entry.type, *get_args(entry.type)):
        return int(text)
    parts = [part.strip() for part in text.split("|")]
    if entry.name in ("mapping", "only"):
        return [[each.strip() for each in part.split("=")] for part in parts]
    if get_origin(entry.type) is not tuple:
        return text
    are_numbers = kind in ("integer", "number") and entry.name != "missing_words"
    return [int(part) if _WHOLE.fullmatch(part) else float(part) for part in parts] if are_numbers else parts
