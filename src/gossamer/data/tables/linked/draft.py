"""A draft of the card of linked tables: that of each table, and how they seem to be linked. For the terminal only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gossamer.data.card import rounded, toml
from gossamer.data.source import Source
from gossamer.data.sources.tables import open_table
from gossamer.data.sources.unit_ids import unit_ids
from gossamer.data.tables.card import COLUMN, facts_of_draft
from gossamer.data.tables.draft import HEADER, draft_table_card

_STEP = (
    "Check how the tables are linked, and by what rows are ordered. Say in max_rows how many rows can belong to one."
)


@dataclass
class _Table:
    """A table that is looked at: where it is, the names of its columns, and the ids in those that another table has too."""

    place: Any
    names: list[str]
    ids: dict[str, np.ndarray]
    parent: str = ""
    key: str = ""


def draft_linked_card(places: Mapping[str, Any], *, header: bool | None = None) -> tuple[str, list[str]]:
    """Return a card of linked tables as TOML text, and what the data owner must decide.

    Args:
        places: where each table is, by name.
        header: as of a table.

    Raises:
        DataError: a table cannot be read.
    """
    tables = {name: _looked_at(place, places, name, header) for name, place in places.items()}
    for name, table in tables.items():
        _find_parent(name, table, tables)
    roots = [name for name, table in tables.items() if not table.parent]
    rows = len(next(iter(tables[roots[0]].ids.values()), ())) if roots else 0
    texts, hints = [f'declared_size = {rounded(max(1, rows))}\nunit = "person"\n'], [_STEP]
    for name in sorted(tables, key=lambda each: (each not in roots[:1], [*tables].index(each))):
        text, said = draft_table_card(Source(tables[name].place), header=header)
        texts.append(_section(name, tables[name], tables, text))
        hints += [f"{name}: {each}" for each in said]
    if len(roots) != 1:
        hints.insert(
            0, f"{len(roots)} tables have no parent here, and one may: say for the others what they belong to."
        )
    return "\n".join([HEADER, *texts]), hints


def _looked_at(place: Any, places: Mapping[str, Any], name: str, header: bool | None) -> _Table:
    names = {other: open_table(each, split="train", where=other, header=header).names for other, each in places.items()}
    shared = [each for each in names[name] if any(each in other for key, other in names.items() if key != name)]
    relation = open_table(place, split="train", where=name, header=header)
    ids: dict[str, list[str]] = {each: [] for each in shared}
    for _, columns in relation.blocks([relation.names.index(each) for each in shared]) if shared else ():
        for each, cells in zip(shared, columns, strict=True):
            ids[each].extend(unit_ids(cells.cast("string"), name))
    return _Table(place, names[name], {each: np.array(own) for each, own in ids.items()})


def _find_parent(name: str, table: _Table, tables: Mapping[str, _Table]) -> None:
    """The table in which a column of this one is unique and has all its values, if it is not unique here."""
    for column, ids in table.ids.items():
        for other, above in tables.items():
            keys = above.ids.get(column)
            if other == name or keys is None or len(np.unique(keys)) < len(keys) or len(np.unique(ids)) == len(ids):
                continue
            if np.isin(ids, keys).all() and not table.parent:
                table.parent, table.key, above.key = other, column, above.key or column


def _section(name: str, table: _Table, tables: Mapping[str, _Table], text: str) -> str:
    """The part of one table. text: its own draft."""
    facts = facts_of_draft(text)
    keys = {table.key, *(other.key for other in tables.values() if other.parent == name)} - {""}
    lines = [f"[table.{name}]"]
    if below := [other.key for other in tables.values() if other.parent == name]:
        lines.append(f"key = {toml(below[0])}")
    if table.parent:
        _, counts = np.unique(table.ids[table.key], return_counts=True)
        lines += [f"parent = {toml(table.parent)}", f"parent_key = {toml(table.key)}", *_order(facts["column"])]
        lines.append(f"# measured: max_rows = {int(counts.max())}")
    lines += [f"{key} = {toml(facts[key])}" for key in ("header", "decimal") if key in facts]
    if dropped := {each: why for each, why in facts.get("drop", {}).items() if each not in keys}:
        lines += [f"[table.{name}.drop]", *(f"{toml(each)} = {toml(why)}" for each, why in dropped.items())]
    entries = [found[0] for found in COLUMN.finditer(text)]
    kept = [entry for entry in entries if facts_of_draft(entry)["column"][0]["name"] not in keys]
    return "\n".join([*lines, "", *(entry.replace("[[column]]", f"[[table.{name}.column]]") for entry in kept)])


def _order(columns: Sequence[Mapping[str, Any]]) -> list[str]:
    """The first date or time, by which rows may follow one another."""
    found = [each["name"] for each in columns if each["kind"] in ("date", "datetime") and not each.get("missing")]
    return [f"order = {toml(name)}" for name in found[:1]]
