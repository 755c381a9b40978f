"""How tables seem to be linked, by the names of their columns and by the values in them. For drafts, and to split."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

import numpy as np

from gossamer.data.sources.tables import open_table
from gossamer.data.sources.unit_ids import unit_ids

_LOST = 0.1
"""Share of rows whose key may have no row in the parent: their table is still linked, and the owner learns their number."""


@dataclass
class Linked:
    """A table, and the one that it belongs to.

    Args:
        place: where it is.
        ids: those in the columns that may be keys, by column.
        parent: the table that its rows belong to.
        parent_key: its column with the key of the parent.
        key: its own key, where tables below have it.
        lost: how many of its rows have a key that no row of the parent has.
    """

    place: Any
    ids: dict[str, np.ndarray]
    parent: str = ""
    parent_key: str = ""
    key: str = ""
    lost: int = 0

    def refused(self, name: str) -> str:
        """What to say of rows that belong to none. name: of this table."""
        return f"{name}: {self.lost:,} rows have a {self.parent_key!r} that no row of {self.parent} has. A run refuses them."


def find_links(places: Mapping[str, Any], header: bool | None) -> dict[str, Linked]:
    """Tables by name, with the ids in each column that may be a key, and the parent of each. places: where each table is."""
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
    found = {
        name: Linked(places[name], {each: np.array(own) for each, own in ids.items()}) for name, ids in wanted.items()
    }
    for name in found:
        _find_parent(name, found)
    return found


def _refers(column: str, key: str, table: str) -> bool:
    """Whether a column may hold a key of another table, by its name: `id` itself, or `patient_id`, `pid` and `patient`."""
    column, key, table = column.lower(), key.lower(), table.lower()
    head = column.removesuffix(key).rstrip("_- .")
    named = key.endswith(("id", "key", "code", "no", "nr", "number")) and table.startswith(head) and bool(head)
    return column == key or (named and (head != column or len(head) > 2))


def _find_parent(name: str, tables: Mapping[str, Linked]) -> None:
    """Find the table in which a key is unique and has nearly all values of a column that is not unique here."""
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
            table.parent, table.parent_key, table.lost, tables[other].key = other, column, lost, key
            return
