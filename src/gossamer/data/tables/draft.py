"""A draft of the card of a table, with hints for the data owner. Both come from records: for the terminal only.

Names and kinds of columns come from one pass over all rows. Bounds and lists of values are comments, because a measured value
may be that of one person. A data dictionary declares them without looking at the records.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from gossamer.data.card import rounded
from gossamer.data.source import Data, called, refuse_keys, source_of
from gossamer.data.sources.relation import Relation
from gossamer.data.sources.tables import open_table
from gossamer.data.sources.unit_ids import unit_ids
from gossamer.data.tables.card import MOST_COLUMNS, common_toml
from gossamer.data.tables.drafting.dictionary import read_dictionary
from gossamer.data.tables.drafting.kinds import proposed
from gossamer.data.tables.drafting.portrait import Portrait
from gossamer.data.tables.drafting.proposal import Habits, Proposal
from gossamer.data.tables.encode import Faults
from gossamer.data.tables.read import unit_column
from gossamer.errors import DataError
from gossamer.files import at_home

_NAMED = 12
STEPS = [
    "Measured bounds and values do not count yet. Write what is known without the records, or give a data dictionary.",
    "Name the column that a model is to predict as label, if there is one.",
]
"""What is left to do. The first is of a draft without a dictionary."""
HEADER = """\
# A draft, from the records. Nothing here is public yet. Each line that you keep becomes a fact that you, the data owner,
# declare public: names and kinds of columns too. Lines that begin with "# measured" hold values of records, and so may other
# comments. Replace them by what is known without the records, and take the "# measured: " away.

"""


def draft_table_card(
    data: Data, *, dictionary: str | Path | None = None, header: bool | None = None, keys: Sequence[str] = ()
) -> tuple[str, list[str]]:
    """Return a card of a table as TOML text, and what the data owner must decide.

    Args:
        data: the private table, as `read_table` takes it.
        dictionary: a CSV file with the columns name and kind. It may have any entry of a column: values (separated by |), low
            and high, missing and so on. Its bounds and values are no comments in the draft.
        header: whether the first line of a file names the columns, see `TableCard`.
        keys: columns that link tables. They are left out.

    Raises:
        DataError: the table or the dictionary cannot be read.
        CardError: the dictionary declares what no column can be.
    """
    given, where = source_of(data), called(data, "data")
    refuse_keys(given)
    known, label = ({}, None) if dictionary is None else read_dictionary(at_home(dictionary))
    table = open_table(given.records, split="train", where=where, header=header)
    unit_at = unit_column(table, given.units, where)
    seen, people = look(table, where, unit_at)
    habits = Habits.of(seen, table, comma=header is False and table.delimiter == ";")
    proposals = {
        each.name: proposed(each, habits)
        for at, each in enumerate(seen)
        if at != unit_at and _is_name(each.name, table.names) and each.name not in {*known, *keys}
    }
    entries = {name: each.text for name, each in proposals.items() if not each.drop} | known
    facts = {
        "declared_size": rounded(seen[0].rows if people is None else people),
        "unit": "record" if people is None else "person",
        "header": header,
        "decimal": habits.decimal,
        "drop": {name: each.drop for name, each in proposals.items() if each.drop},
        **({} if label is None or label not in table.names else {"label": label}),
    }
    columns = [entries[name] for name in table.names if name in entries]
    hints = [*sorted(table.notes), *_hints(table.names, known, proposals), *STEPS[dictionary is not None :]]
    return "\n".join([HEADER + common_toml(facts), *columns]), hints


def look(table: Relation, where: str, unit_at: int | None) -> tuple[list[Portrait], int | None]:
    """A portrait of each column, by one pass, and the number of units. None: there are no units.

    Raises:
        DataError: rows with another number of cells; no rows.
    """
    seen = [Portrait(name) for name in table.names]
    owners = set[str]()
    for rows, columns in table.blocks([*range(len(table.names))]):
        for each, cells in zip(seen, columns, strict=True):
            each.add(cells, rows)
        if unit_at is not None:
            owners.update(unit_ids(columns[unit_at], where))
    Faults(where).refuse(table.ragged)
    if not seen or not seen[0].rows:
        raise DataError(f"{where}: the table holds no rows, so there is nothing to draft a card from.")
    for each in seen:
        each.finish()
    return seen, None if unit_at is None else len(owners)


def _hints(names: list[str], known: dict[str, str], proposals: dict[str, Proposal]) -> Iterator[str]:
    if nameless := [str(at) for at, name in enumerate(names, 1) if not _is_name(name, names)]:
        yield f"Columns without a name of their own are left out, by position from 1: {_some(nameless)}. Name them to keep any."
    yield from dict.fromkeys(each.hint for each in proposals.values() if each.hint)
    if keys := [name for name, each in proposals.items() if each.facts.get("kind") == "key"]:
        yield f"Columns that look like identifiers: {_some(keys)}. They are not learnt: samples get running numbers in them."
    if drop := [name for name, each in proposals.items() if each.drop]:
        yield f"Columns that the draft drops, with a reason: {_some(drop)}. Their names are public too: take a private one out."
    if asked := [name for name, each in proposals.items() if each.choices and not each.drop]:
        yield f"Columns that can be read in two ways: {_some(asked)}. The draft has both. Keep one."
    if odd := [
        name for name, each in proposals.items() if {"outside", "missing_words"} & {*each.facts, *each.measured}
    ]:
        yield f"Columns of which some cells do not fit: {_some(odd)}. The draft names their rows."
    if absent := [name for name in known if name not in names]:
        yield f"The dictionary names {len(absent)} columns that the table does not have: {_some(absent)}."
    if (columns := len(known) + len(proposals) - len(drop) - len(absent)) > MOST_COLUMNS:
        yield f"These are {columns} columns, and methods for tables take at most {MOST_COLUMNS}. Take out what nobody needs."


def _some(names: Sequence[str]) -> str:
    """Some names, and how many more there are."""
    more = f" and {len(names) - _NAMED:,} more" if names[_NAMED:] else ""
    return ", ".join(names[:_NAMED]) + more


def _is_name(name: str, names: list[str]) -> bool:
    """Whether a card can have a column of this name."""
    return bool(name) and name.isprintable() and names.count(name) == 1
