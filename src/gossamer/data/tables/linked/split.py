"""Split the files of linked tables into train and test, by whole units. Values are written as they are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.data.source import Source
from gossamer.data.tables.linked.links import find_links
from gossamer.data.tables.split import split_table
from gossamer.errors import RequestError


def split_linked(
    tables: Mapping[str, Any], units: str | None, out: Path, share: float, salt: str, *, header: bool | None
) -> tuple[list[str], np.ndarray]:
    """Write out/train and out/test, each with a file for each table. See `split_table`.

    Args:
        tables: where each is, by name.
        units: a column with the key of the unit that each table has. None: by how the tables seem to be linked.
        out: a new folder; nothing is there yet.
        share: expected share of test, between 0 and 1.
        salt: the public key of the hash.
        header: see `split_table`.

    Returns:
        The key of each unit, and whether it goes to test, bool [units].

    Raises:
        RequestError: the tables are no tree by the names of their columns and the keys in them.
        DataError: a table has no such column, or cannot be read.
    """
    sides: dict[str, bool] = {}
    for side in ("train", "test"):
        (out / side).mkdir(mode=0o700, parents=True)
    for name, (column, owners) in _owners(tables, units, header).items():
        folder, source = out / f".{name}", Source(tables[name], units=column)
        ids, test = split_table(source, str(tables[name]), folder, share, salt, "refuse", header=header, unit_of=owners)
        sides |= dict(zip(ids, test.tolist(), strict=True))
        for file in folder.iterdir():
            file.rename(out / file.stem / f"{name}{file.suffix}")
        folder.rmdir()
    return [*sides], np.array([*sides.values()])


def _owners(tables: Mapping[str, Any], units: str | None, header: bool | None) -> dict[str, tuple[str, dict[str, str]]]:
    """Of each table the column that says to which unit a row belongs, and the unit by its ids."""
    if units:
        return {name: (units, {}) for name in tables}
    links = find_links(tables, header)
    roots = [name for name, each in links.items() if not each.parent]
    if len(roots) != 1:
        raise RequestError(
            f"{' and '.join(roots) or 'no table'}: one table must have no parent. A table belongs to another one if it has "
            "its key in a column of the same name or called after it, such as patient_id for id of patients."
        )
    found: dict[str, tuple[str, dict[str, str]]] = {roots[0]: (links[roots[0]].key, {})}
    above, level = {roots[0]: links[roots[0]].ids[links[roots[0]].key].tolist()}, roots
    while level := [name for name, each in links.items() if each.parent in level]:
        for name in level:
            own, parent = links[name], links[links[name].parent]
            owners = dict(zip(parent.ids[parent.key].tolist(), above[own.parent], strict=True))
            found[name] = own.parent_key, owners
            above[name] = [owners.get(each, each) for each in own.ids[own.parent_key].tolist()]
    return found
