"""A draft of the card of linked tables: that of each table, and how they seem to be linked. For the terminal only."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gossamer.data.card import toml
from gossamer.data.source import Source
from gossamer.data.tables.card import COLUMN, facts_of_draft
from gossamer.data.tables.draft import HEADER, STEPS, draft_table_card
from gossamer.data.tables.linked.links import Linked, find_links

_STEP = "Check how the tables are linked, by what rows are ordered, and how many rows can belong to one."


def draft_linked_card(places: Mapping[str, Any], *, header: bool | None = None) -> tuple[str, list[str]]:
    """Return a card of linked tables as TOML text, and what the data owner must decide.

    Args:
        places: where each table is, by name.
        header: as of a table.

    Raises:
        DataError: a table cannot be read.
    """
    tables = find_links(places, header)
    hints = [_STEP, *(each.refused(name) for name, each in tables.items() if each.lost)]
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
            0,
            f"{len(roots)} tables have no parent here, and one may: say for the others what they belong to. One table of a "
            "database is FILE?table=NAME.",
        )
    return "\n".join([HEADER, *texts]), [*hints, *STEPS]


def _section(name: str, tables: Mapping[str, Linked], text: str) -> str:
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
