"""A draft of the card of linked tables: that of each table, and how they seem to be linked. For the terminal only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

import numpy as np

from gossamer.data.card import toml
from gossamer.data.source import Source
from gossamer.data.sources.tables import open_table
from gossamer.data.sources.unit_ids import unit_ids
from gossamer.data.tables.card import COLUMN, facts_of_draft
from gossamer.data.tables.draft import HEADER, STEPS, draft_table_card

_STEP = (
    "Check how the tables are linked: parent, keys and order. Say in max_rows how many rows of a parent samples have."
)
_LOST = 0.1
"""Share of rows whose key may have no row in the parent: their table is still linked, and the owner learns their number."""


@dataclass
class _Table:
    """A table that is looked at.

    Args:
        place: where it is.
        ids: those in the columns that may be keys, by column.
        parent: the table that its rows belong to.
        parent_key: its column with the key of the parent.
        key: its own key, where tables below have it.
    """

    place: Any
    ids: dict[str, np.ndarray]
    parent: str = ""
    parent_key: str = ""
    key: str = ""


def draft_linked_card(places: Mapping[str, Any], *, header: bool | None = None) -> tuple[str, list[str]]:
    """Return a card of linked tables as TOML text, and what the data owner must decide.

    Args:
        places: where each table is, by name.
        header: as of a table.

    Raises:
        DataError: a table cannot be read.
    """
    tables, hints = _looked_at(places, header), [_STEP]
    for name in tables:
        hints += _find_parent(name, tables)
    drafts = {
        name: draft_table_card(Source(table.place), header=header, keys=[table.key, table.parent_key])
        for name, table in tables.items()
    }
    roots = [name for name, table in tables.items() if not table.parent]
    rows = facts_of_draft(drafts[roots[0]][0])["declared_size"] if roots else 1
    texts = [f'declared_size = {rows}\nunit = "person"\n']
    for name in sorted(tables, key=lambda each: (each not in roots[:1], [*tables].index(each))):
        text, said = drafts[name]
        texts.append(_section(name, tables, text))
        hints += [f"{name}: {each}" for each in said if each not in STEPS]
    if len(roots) != 1:
        hints.insert(
            0, f"{len(roots)} tables have no parent here, and one may: say for the others what they belong to."
        )
    return "\n".join([HEADER, *texts]), [*hints, *STEPS]


def _looked_at(places: Mapping[str, Any], header: bool | None) -> dict[str, _Table]:
    """The tables, with the ids in each column that refers to another table, and in each that is referred to."""
    relations = {name: open_table(place, split="train", where=name, header=header) for name, place in places.items()}
    wanted: dict[str, dict[str, list[str]]] = {name: {} for name in places}
    for (name, table), (other, above) in permutations(relations.items(), 2):
        for column, key in product(table.names, above.names):
            if _refers(column, key, other):
                wanted[name][column], wanted[other][key] = [], []
    for name, ids in wanted.items():
        relation = relations[name]
        for _, columns in relation.blocks([relation.names.index(each) for each in ids]) if ids else ():
            for each, cells in zip(ids, columns, strict=True):
                ids[each].extend(unit_ids(cells.cast("string"), name))
    return {
        name: _Table(places[name], {each: np.array(own) for each, own in ids.items()}) for name, ids in wanted.items()
    }


def _refers(column: str, key: str, table: str) -> bool:
    """Whether a column may hold a key of another table, by its name: `id` itself, or `patient_id`, `pid` and `patient`."""
    column, key, table = column.lower(), key.lower(), table.lower()
    head = column.removesuffix(key).rstrip("_- .")
    named = key.endswith(("id", "key", "code", "no", "nr", "number")) and table.startswith(head) and bool(head)
    return column == key or (named and (head != column or len(head) > 2))


def _find_parent(name: str, tables: Mapping[str, _Table]) -> list[str]:
    """Find the table in which a key is unique and has nearly all values of a column that is not unique here. What to decide."""
    table = tables[name]
    pairs = [(column, other, key) for column in table.ids for other in tables for key in tables[other].ids]
    for column, other, key in sorted(pairs, key=lambda pair: pair[0] != pair[2]):
        ids, keys = table.ids[column], tables[other].ids[key]
        if other == name or not _refers(column, key, other) or tables[other].key not in ("", key):
            continue
        if len(np.unique(keys)) < len(keys) or len(np.unique(ids)) == len(ids):
            continue
        lost = int((~np.isin(ids, keys)).sum())
        if lost <= len(ids) * _LOST:
            table.parent, table.parent_key, tables[other].key = other, column, key
            refused = f"{name}: {lost:,} rows have a {column!r} that no row of {other} has. A run refuses them."
            return [refused] if lost else []
    return []


def _section(name: str, tables: Mapping[str, _Table], text: str) -> str:
    """The part of one table. text: its own draft."""
    facts, table = facts_of_draft(text), tables[name]
    lines = [f"[table.{name}]", *([f"key = {toml(table.key)}"] if table.key else [])]
    if table.parent:
        _, counts = np.unique(table.ids[table.parent_key], return_counts=True)
        links = [f"parent = {toml(table.parent)}", f"parent_key = {toml(table.parent_key)}"]
        lines += [*links, *_order(facts["column"]), f"# measured: max_rows = {int(counts.max())}"]
    lines += [f"{key} = {toml(facts[key])}" for key in ("header", "decimal") if key in facts]
    if dropped := facts.get("drop"):
        lines += [f"[table.{name}.drop]", *(f"{toml(each)} = {toml(why)}" for each, why in dropped.items())]
    entries = [found[0].replace("[[column]]", f"[[table.{name}.column]]") for found in COLUMN.finditer(text)]
    return "\n".join([*lines, "", *entries, ""])


def _order(columns: Sequence[Mapping[str, Any]]) -> list[str]:
    """The first date or time, by which rows may follow one another."""
    found = [each["name"] for each in columns if each["kind"] in ("date", "datetime") and not each.get("missing")]
    return [f"order = {toml(name)}" for name in found[:1]]
