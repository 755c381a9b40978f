"""What a card changes in the data, column by column: cells that are refused, moved, lost, cut or merged. Private."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from gossamer.data.columns.column import OTHER, Column
from gossamer.data.columns.reading import FAULTS, Reader
from gossamer.data.columns.times import DAY
from gossamer.data.source import Data, called, refuse_keys, source_of
from gossamer.data.sources.names import clean_names
from gossamer.data.tables.any_card import load_card
from gossamer.data.tables.card import TableCard, TableDraft
from gossamer.data.tables.drafting.portrait import CODES, MOST_VALUES, NAMED, Candidate, Kind, any_texts, kind_of
from gossamer.data.tables.drafting.rule_check import RuleSearch, deviations
from gossamer.data.tables.encode import TableEncoder
from gossamer.data.tables.read import open_for
from gossamer.errors import DataError, RequestError, did_you_mean
from gossamer.lazy import pa, pc

_WITH_SECONDS: dict[str, Kind] = {"date": "date", "datetime": "date", "duration": "duration"}
"""Kinds whose samples may have less of the time than cells, and what reads all of it."""
MOVED = "moved to the nearer bound"
LOST = f'lost: they become "{OTHER}"'
MISSING = "missing"
NO_TIME = "cut: a date has no time of day"
CUT = "cut: samples have fewer digits after the point, or only whole steps"


@dataclass
class Finding:
    """What a card does to some cells of a column.

    Args:
        column: the name of the column.
        what: becomes of the cells, or what is wrong with them.
        cells: how many there are.
        rows: the first of them, counted from 0.
    """

    column: str
    what: str
    cells: int = 0
    rows: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class CardCheck:
    """What a card changes in a table. Measured on the records, so it is private.

    Args:
        rows: of the table.
        findings: in the order of the card's columns; of a column that stays as it is, there is none.
        rules: sentences on rules between columns that the rows keep. Empty: none was found.
    """

    rows: int
    findings: tuple[Finding, ...]
    rules: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The findings as lines, for the data owner only."""
        head = f"What the card does to {self.rows:,} rows:"
        head = head if self.findings else f"The card changes nothing in {self.rows:,} rows."
        lines = [_line(finding, self.rows) for finding in self.findings]
        return "\n".join([f"Private: do not publish. {head}", *lines, *self.rules, ""])


def check_card(data: Data, card: TableCard | TableDraft | str | Path) -> CardCheck:
    """Compare a table with its card, without a run: what would be refused, moved, cut, merged or lost.

    Args:
        data: the private table, as `fit` takes it.
        card: its card, or the path of one.

    Raises:
        DataError: the table cannot be read, or lacks a column of the card.
        CardError: the card makes no sense.
        RequestError: the card describes pictures.
    """
    loaded = load_card(card)
    if not isinstance(loaded, TableCard):
        raise RequestError("card: this card describes pictures. Give the card of a table.")
    given, where = source_of(data), called(data, "data")
    refuse_keys(given)
    table, wanted, faults = open_for(given.records, loaded, "train", where)
    faults.refuse()
    if -1 in wanted:
        name = loaded.names[wanted.index(-1)]
        raise DataError(f"{where}: the table has no column {name!r}.{did_you_mean(name, table.names)}")
    findings, search, count = _Findings(), RuleSearch(loaded.columns), 0
    checks = [_ColumnCheck(each, loaded.decimal, findings, guessed=table.guessed) for each in loaded.columns]
    encoder = TableEncoder(loaded, faults, guessed=table.guessed)
    made = {each.name: clean_names([each.name])[0] for each in loaded.generated}
    made = {name: clean for name, clean in made.items() if clean in table.names}
    for rows, columns in table.blocks([*wanted, *map(table.names.index, made.values())]):
        count += len(rows)
        block = columns[: len(wanted)]
        each_column = zip(checks, block, encoder.bases(block), strict=True)
        codes = np.column_stack([check.add(cells, rows, base) for check, cells, base in each_column])
        values = encoder.values(block)
        for each, own, numbers in zip(loaded.columns, codes.T, values.T, strict=True):
            numbers[(own < 0) | np.isin(own, each.no_values)] = np.nan
        search.add(rows, values)
        generated = dict(zip(made, columns[len(wanted) :], strict=True))
        for name, what, wrong in deviations(loaded, codes, values, generated):
            findings.add(name, what, rows[wrong])
    for check in checks:
        check.add_merged()
    order = [each.name for each in loaded.written]
    found = sorted(findings.values(), key=lambda each: order.index(each.column))
    return CardCheck(count, tuple(found), tuple(search.lines()))


class _Findings(dict[tuple[str, str], Finding]):
    """Findings by column and by what becomes of the cells."""

    def add(self, column: str, what: str, rows: np.ndarray) -> None:
        """Add rows, by their numbers."""
        if len(rows):
            finding = self.setdefault((column, what), Finding(column, what))
            finding.cells += len(rows)
            finding.rows += rows[: NAMED - len(finding.rows)].tolist()


class _ColumnCheck:
    """Collects what the card does to the cells of a column."""

    def __init__(self, column: Column, decimal: str, findings: _Findings, *, guessed: bool) -> None:
        self._column, self._findings = column, findings
        self._reader = Reader(column, decimal, guessed=guessed)
        self._strict = Reader(replace(column, outside="refuse"), decimal, guessed=guessed)
        kind = _WITH_SECONDS.get(column.kind)
        self._seconds = kind and Candidate(kind, column.format, zone=column.zone)
        self._texts: dict[int, set[str]] = {}

    def add(self, cells: "pa.Array", rows: np.ndarray, base: np.ndarray | None) -> np.ndarray:
        """Add cells, and return their codes. rows: their numbers in the source, int64 [n]. base: see `Reader.codes`."""
        column, codes = self._column, self._reader.codes(cells, base)
        strict = self._strict.codes(cells, base)
        for fault in np.unique(codes[codes < 0]).tolist():
            self._add(f"refused: {FAULTS[fault]}", rows[codes == fault])
        self._add(MISSING, rows[codes == column.missing_code])
        self._add(LOST, rows[codes == column.other_code])
        is_value = (codes >= 0) & ~np.isin(codes, column.no_values)
        self._add(MOVED, rows[is_value & (strict < 0)])
        if column.kind == "category":
            self._look_for_merged(cells, codes, is_value)
        elif column.grid is not None:
            exact = np.nan_to_num(self._seconds.read(cells)[0] if self._seconds else self._reader.values(cells))
            exact = exact / column.unit
            cut = exact % DAY != 0 if column.kind == "date" else np.round(exact, column.decimals or 0) != exact
            self._add(NO_TIME if column.kind == "date" else CUT, rows[is_value & (strict >= 0) & cut])
        if column.kind in ("integer", "number") and kind_of(cells.type) == "text":
            texts = pc.utf8_trim_whitespace(any_texts(cells))
            for sign, pattern in CODES.items():
                here = np.asarray(pc.match_substring_regex(texts, pattern))
                self._add(f"read as a number: samples are written without {sign}", rows[is_value & here])
        return codes

    def add_merged(self) -> None:
        """Add the categories that several texts have become."""
        for code, texts in self._texts.items():
            if len(texts) > 1:
                what = f"merged: {len(texts)} texts are {self._column.values[code]!r}"
                self._findings[self._column.name, what] = Finding(self._column.name, what, len(texts))

    def _add(self, what: str, rows: np.ndarray) -> None:
        self._findings.add(self._column.name, what, rows)

    def _look_for_merged(self, cells: "pa.Array", codes: np.ndarray, fits: np.ndarray) -> None:
        texts = pc.utf8_trim_whitespace(any_texts(cells)).dictionary_encode()
        at = np.asarray(texts.indices)
        for text in np.unique(at[fits]).tolist():
            known = self._texts.setdefault(int(codes[fits & (at == text)][0]), set())
            if len(known) < MOST_VALUES:
                known.add(texts.dictionary[text].as_py())


def _line(finding: Finding, rows: int) -> str:
    if not finding.rows:
        return f"{finding.column}: {finding.what}"
    share = f" ({finding.cells / rows:.1%})" if finding.what == MISSING else ""
    more = f" and {finding.cells - len(finding.rows):,} more" if finding.cells > len(finding.rows) else ""
    which = f"row{'s' if finding.rows[1:] else ''} {', '.join(map(str, finding.rows))}"
    return f"{finding.column}, {which} (counted from 0){more}{share}: {finding.what}"
