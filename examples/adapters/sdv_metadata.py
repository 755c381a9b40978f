"""A draft of a data card from the metadata of SDV: the kinds of columns, and never a bound or a value.

    python examples/adapters/sdv_metadata.py metadata.json > card.toml

SDV's metadata do not say what values are possible, and a bound that is measured in the records would break the guarantee. So
each such line of the draft is a question for the data owner. Gossamer refuses the card until all of them are answered.
"""

import json
import sys
from pathlib import Path
from typing import Any

from gossamer.data.card import toml

KINDS = {"boolean": "boolean", "categorical": "category", "datetime": "datetime", "numerical": "number", "id": "key"}
"""Kinds of columns by SDV's types. All other types name persons, places or accounts: such columns are left out."""
ASKED = {
    "category": "# values = []  # all values, known without looking at the records",
    "number": "# bounds = []  # the smallest and the largest value, known without looking at the records",
    "integer": "# bounds = []  # the smallest and the largest value, known without looking at the records",
    "date": "# bounds = []  # the first and the last day, known without looking at the records",
    "datetime": "# bounds = []  # the first and the last time, known without looking at the records",
}
"""What the data owner has to declare of a kind."""


def column(name: str, said: dict[str, Any]) -> str:
    """Return the [[column]] entry of a column; empty: it is left out."""
    kind = KINDS.get(said.get("sdtype", ""), "")
    form = said.get("datetime_format", "")
    if kind == "number" and said.get("computer_representation", "Float") != "Float":
        kind = "integer"
    if kind == "datetime" and form and not any(part in form for part in ("%H", "%I", "%M", "%S", "%T", "%X", "%c")):
        kind = "date"
    lines = [f"name = {toml(name)}", f"kind = {toml(kind)}", *([f"format = {toml(form)}"] if form else [])]
    return "\n".join(["[[column]]", *lines, *filter(None, [ASKED.get(kind, "")]), ""]) if kind else ""


def draft(metadata: dict[str, Any], table: str = "") -> str:
    """Return a draft of the card of a table as TOML text.

    Args:
        metadata: as SDV saves it, of one table or of several.
        table: which table; empty: the only one.
    """
    tables = metadata.get("tables", {"": metadata})
    if table not in tables and len(tables) > 1:
        raise ValueError(f"Name one of these tables: {', '.join(tables)}.")
    columns: dict[str, Any] = (tables[table] if table in tables else next(iter(tables.values())))["columns"]
    entries = {name: column(name, said) for name, said in columns.items()}
    drop = {name: f"SDV calls it {columns[name].get('sdtype')}" for name, entry in entries.items() if not entry}
    head = [
        "# A draft from metadata of SDV. Answer the lines that begin with #, without looking at the records.",
        "# declared_size =  # the number of records, which may be rounded",
        f"drop = {toml(drop)}",
        "",
    ]
    return "\n".join([*head, *filter(None, entries.values())])


if __name__ == "__main__":
    print(draft(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), *sys.argv[2:3]))
