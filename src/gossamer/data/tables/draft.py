"""A draft of the card of a table, with hints for the data owner. Both come from records: for the terminal only.

Names and kinds of columns come from the file. Bounds and lists of values are comments, because a measured value may be that of
one person. A data dictionary declares them without looking at the records.
"""

import datetime
import itertools
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gossamer.data.card import rounded, toml
from gossamer.data.readers.columns import unit_ids
from gossamer.data.source import Data, called, refuse_keys, source_of
from gossamer.data.tables.card import column_from, column_toml, common_toml
from gossamer.data.tables.csv_rows import CsvRows, clean_names
from gossamer.data.tables.encode import MISSING_WORDS, days, texts_of
from gossamer.data.tables.read import open_source
from gossamer.errors import CardError, DataError

LOOKED_AT = 20_000
"""Rows that a draft looks at, besides counting them all."""
MOST_VALUES = 1_000
"""Different texts above which a column is no category."""
FEWEST = 20
"""Values that must all differ for a column to look like an identifier."""
_LONGEST_KEY = 64
FORMATS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y")
_KEY = """\
# Each row has another value here. So it is not learnt, and samples get running numbers.
[[column]]
name = {name}
kind = "key"
"""
_KEYS = ("name", "kind", "values", "low", "high", "missing", "description")
_HEADER = """\
# A draft, from the records. Nothing here is public yet. Each line that you keep becomes a fact that you, the data owner,
# declare public: names and kinds of columns too. Lines that begin with "# measured" hold values of records. Replace them by
# what is known without looking at the records, and take the "# measured: " away. A column that you take out is left out.

"""


def draft_table_card(
    data: Data, *, dictionary: str | Path | None = None, header: bool | None = None
) -> tuple[str, list[str]]:
    """Return a card of a table as TOML text, and what the data owner must decide.

    Args:
        data: the private table, as `read_table` takes it.
        dictionary: a CSV file with the columns name and kind, and values (separated by |) or low and high. It may have
            missing (true or false) and description. Its bounds and values are no comments in the draft.
        header: whether the first line of a file names the columns, see `TableCard`.

    Raises:
        DataError: the table or the dictionary cannot be read.
        CardError: the dictionary declares what no column can be.
    """
    given, where = source_of(data), called(data, "data")
    refuse_keys(given)
    source = open_source(given.records, split="train", where=where, header=header)
    known = {} if dictionary is None else _read_dictionary(Path(dictionary))
    unit_at = source.unit_column(given.units, where)
    count, owners = 0, set[str]()
    seen = [Counter[str]() for _ in source.names]
    for numbers, columns in source.blocks([*range(len(source.names))]):
        for counter, column in zip(seen, columns, strict=True):
            if count < LOOKED_AT:
                counter.update(map(str.strip, texts_of(column[: LOOKED_AT - count])))
        count += len(numbers)
        owners.update(() if unit_at is None else unit_ids(columns[unit_at], where))
    if not count:
        raise DataError(f"{where}: the table holds no rows, so there is nothing to draft a card from.")
    columns_text, keys, drop, decimal = [], 0, {}, "."
    if (source.delimiter != "," and any(map(_has_comma, seen))) or (header is False and source.delimiter == ";"):
        decimal = ","
    for at, (name, values) in enumerate(zip(source.names, seen, strict=True)):
        if at == unit_at or not _is_name(name, source.names):
            continue
        found = _Seen(values, decimal)
        if name in known:
            columns_text.append(known[name])
        elif found.is_key:
            keys += 1
            columns_text.append(_KEY.format(name=toml(name)))
        elif reason := found.reason_to_drop:
            drop[name] = reason
        else:
            columns_text.append(found.drafted(name))
    size = rounded(count if unit_at is None else len(owners))
    unit = "record" if given.units is None else "person"
    facts = {"declared_size": size, "unit": unit, "header": header, "decimal": decimal, "drop": drop}
    hints = _hints(count, source.names, known, keys, drop, asked=dictionary is not None)
    return "\n".join([_HEADER + common_toml(facts), *columns_text]), [*sorted(source.notes), *hints]


def _hints(
    count: int, names: list[str], known: dict[str, str], keys: int, drop: dict[str, str], *, asked: bool
) -> Iterator[str]:
    if count > LOOKED_AT:
        yield f"The draft looked at the first {LOOKED_AT:,} rows. Later rows may have other values."
    if nameless := [at for at, name in enumerate(names, 1) if not _is_name(name, names)]:
        which = ", ".join(map(str, nameless[:12]))
        yield f"Columns without a name of their own were left out, by position from 1: {which}. Name them to keep them."
    if keys:
        yield f"Columns that look like identifiers: {keys}. They are not learnt, and samples get running numbers in them."
    if drop:
        yield f"Columns that the draft drops, with a reason: {len(drop)}. Their names are public too: take a private one out."
    if absent := [name for name in known if name not in names]:
        yield f"The dictionary names {len(absent)} columns that the table does not have: {', '.join(absent[:5])}."
    if not asked:
        yield "Measured bounds and values do not count yet. Write what is known without the records, or give a data dictionary."
    yield "Name the column that a model is to predict as label, if there is one."


def _is_name(name: str, names: list[str]) -> bool:
    """Whether a card can have a column of this name."""
    return bool(name) and name.isprintable() and names.count(name) == 1


class _Seen:
    """What a draft has seen of a column.

    Args:
        counts: how often each text occurs.
        decimal: the decimal point.
    """

    def __init__(self, counts: Counter[str], decimal: str) -> None:
        self.texts = [text for text in counts if text.casefold() not in MISSING_WORDS]
        self.some_missing = len(self.texts) < len(counts)
        self.rows = counts.total()
        self.each_differs = all(counts[text] == 1 for text in self.texts)
        numbers = [number for text in self.texts if (number := _number(text, decimal)) is not None]
        self.numbers = numbers if len(numbers) == len(self.texts) else None
        """None: another text is among them."""
        self.form = _date_format(self.texts)

    @property
    def is_unique(self) -> bool:
        """Whether each row has another value, as an identifier has: whole numbers or texts, and no dates."""
        fraction = self.numbers is not None and not all(number.is_integer() for number in self.numbers)
        return self.each_differs and len(self.texts) >= FEWEST and not fraction and self.form is None

    @property
    def is_key(self) -> bool:
        """Whether it looks like an identifier: each row has another value, of one word."""
        return self.is_unique and all(len(text) <= _LONGEST_KEY and len(text.split()) == 1 for text in self.texts)

    @property
    def reason_to_drop(self) -> str:
        """Why it is left out; empty: it is not."""
        if not self.texts or len(self.texts) + self.some_missing <= 1:
            return "constant"
        if self.is_unique:
            return "free text: each row has another"
        is_text = self.numbers is None and self.form is None
        return "free text" if is_text and len(self.texts) > min(MOST_VALUES, max(FEWEST, self.rows // 2)) else ""

    def drafted(self, name: str) -> str:
        """Its [[column]] entry, with what is measured as a comment."""
        lines = ["[[column]]", f"name = {toml(name)}"]
        if self.numbers is not None:
            kind = "integer" if all(number.is_integer() for number in self.numbers) else "number"
            ends = [int(end) if kind == "integer" else end for end in (min(self.numbers), max(self.numbers))]
            lines += [f'kind = "{kind}"', f"# measured: bounds = {toml(ends)}"]
        elif self.form is not None:
            days = sorted(_date(text, self.form) for text in self.texts)
            lines += ['kind = "date"', *([f"format = {toml(self.form)}"] if self.form else [])]
            lines += [f"# measured: bounds = {toml([days[0], days[-1]])}"]
        else:
            lines += ['kind = "category"', f"# measured: values = {toml(sorted(self.texts))}"]
        return "\n".join([*lines, *(["missing = true"] if self.some_missing else []), ""])


def _has_comma(counts: Counter[str]) -> bool:
    """Whether a column has numbers with a decimal comma, and no other text."""
    seen = _Seen(counts, ",")
    return seen.numbers is not None and any("," in text for text in seen.texts)


def _number(text: str, decimal: str) -> float | None:
    if text[:1] == "0" and text[1:2].isdecimal():
        return None  # a code such as 01234, whose zero would be lost
    try:
        number = float(text.replace(",", ".") if decimal == "," else text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _date_format(texts: list[str]) -> str | None:
    """How all these dates are written, "" as 2031-12-24; None: they are no dates."""
    for form in ("", *FORMATS):
        try:
            for text in texts:
                _date(text, form)
        except (ValueError, OverflowError):  # the last hours of the year 9999, in UTC
            continue
        return form
    return None


def _date(text: str, form: str) -> datetime.date:
    read = datetime.datetime.strptime(text, form) if form else datetime.datetime.fromisoformat(text)
    return (read + datetime.timedelta(days(read) - days(read.replace(tzinfo=None)))).date()


def _read_dictionary(path: Path) -> dict[str, str]:
    """The [[column]] entry of each column that a dictionary declares."""
    rows = CsvRows(path, _KEYS)
    if not {"name", "kind"} <= set(rows.names):
        raise DataError(
            f"{path}: the first line of a dictionary must name the columns name and kind. Known: {', '.join(_KEYS)}."
        )
    lines = itertools.chain.from_iterable(zip(*columns, strict=True) for _, columns in rows.blocks())
    entries: dict[str, str] = {}
    for number, cells in enumerate(lines, 2):
        row = {key: cell.strip() for key, cell in zip(rows.names, cells, strict=True)}
        try:
            column = column_from(_facts(row))
        except (CardError, ValueError) as error:
            why = error if isinstance(error, CardError) else "low and high must be numbers, or dates as 2031-12-24"
            raise CardError(f"{path}, line {number}: {why}") from None
        about = row.get("description", "")
        described = f"# {about}\n" if about and about.isprintable() else ""
        entries[clean_names([column.name])[0]] = described + column_toml(column)
    if rows.ragged:
        raise DataError(
            f"{path}: line {rows.ragged[0] + 2} has another number of values than the first line has names."
        )
    return entries


def _facts(row: dict[str, str]) -> dict[str, Any]:
    """The entries of a column from a line of a dictionary. Raises ValueError: a bound that is no number."""
    facts: dict[str, Any] = {"name": row["name"], "kind": row["kind"]}
    if row.get("values"):
        facts["values"] = [value.strip() for value in row["values"].split("|")]
    if row.get("low") or row.get("high"):
        ends = [row.get("low", ""), row.get("high", "")]
        facts["bounds"] = (
            ends if row["kind"] == "date" else [int(e) if e.lstrip("+-").isdigit() else float(e) for e in ends]
        )
    if row.get("missing", "").casefold() in ("true", "yes", "1"):
        facts["missing"] = True
    return facts
