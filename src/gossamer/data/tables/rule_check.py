"""Which rows break the rules of a card, and which rules rows keep that the card does not have. Measured, so it is private."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gossamer.data.card import toml
from gossamer.data.columns.column import Column
from gossamer.data.columns.generated import GeneratedColumn
from gossamer.data.columns.reading import BROKEN, FAULTS, Reader
from gossamer.data.columns.rules import broken
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.decode import Learnt, computed, mapped
from gossamer.data.tables.encode import by_rule
from gossamer.lazy import pa

TAKEN = "taken over by the rules of the column"
BELOW = "below the column that it is at_least: no sample is"
DIFFERS = "not what follows from other columns: samples have what the card says"
MOST_ROWS = 10_000
"""Rows in which rules are looked for."""
WARNING = (
    "Declare a rule only if it is true by definition. A rule that was found in the records is a measured value, and a card is "
    "public."
)
_FEW = 20
"""Rows that a rule needs."""
_PROJECTED = 50
"""Rows that decide which sums are looked at."""
_BY_CHANCE = 0.05
"""The least share of rows that break an order where the values of a column are permuted."""


def deviations(
    card: TableCard, codes: np.ndarray, values: np.ndarray, generated: "Mapping[str, pa.Array]"
) -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield a column, what becomes of the cells that break its rules, and the rows of these.

    Args:
        card: has the rules.
        codes: int32 [n, columns]; negative ones are faults.
        values: see `TableEncoder.values`.
        generated: the cells of generated columns that the table has, by name.
    """
    learnt = {each.name: (each, codes[:, at], values[:, at]) for at, each in enumerate(card.columns)}
    for at, wrong, _, can in broken(codes, card.columns):
        column = card.columns[at]
        yield column.name, f"refused: {FAULTS[BROKEN]}" if by_rule(column, can) == BROKEN else TAKEN, wrong
    for column in card.columns:
        if column.at_least:
            yield column.name, BELOW, np.flatnonzero(learnt[column.name][2] < learnt[column.at_least][2])
    sound = (codes >= 0).all(axis=1)
    for made in card.generated:
        if made.kind == "derived" and made.name in generated:
            yield made.name, DIFFERS, np.flatnonzero(sound & _differs(made, learnt, generated[made.name], card.decimal))


def _differs(made: GeneratedColumn, learnt: Mapping[str, Learnt], cells: "pa.Array", decimal: str) -> np.ndarray:
    """Which cells of a derived column have another value than samples would have. bool [n]"""
    if made.mapping:
        values = tuple(dict.fromkeys(row[-1] for row in made.mapping))
        reader = Reader(Column(name=made.name, kind="category", values=values, missing=True))
        return np.asarray(reader.codes(cells) != reader.codes(pa.array(mapped(made, learnt).tolist())))
    form, codes, numbers = computed(made, learnt)
    expected = np.where(np.isin(codes, form.no_values), np.nan, numbers)
    rounded = 0 if made.decimals is None else 0.5 * 10.0**-made.decimals
    found = Reader(form, decimal).values(cells)
    return np.asarray(~np.isclose(found, expected, rtol=1e-9, atol=rounded + 1e-9, equal_nan=True))


class RuleSearch:
    """Takes rows evenly from the first to the last one of a table, and looks for rules that all of these keep."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns, self._step = columns, 1
        self._rows, self._values = np.empty(0, np.int64), np.empty((0, len(columns)))

    def add(self, rows: np.ndarray, values: np.ndarray) -> None:
        """Add rows. rows: their numbers, int64 [n]. values: float64 [n, columns], codes of categories; NaN: none."""
        self._rows, self._values = np.append(self._rows, rows), np.append(self._values, values, axis=0)
        while np.count_nonzero(self._rows % self._step == 0) > MOST_ROWS:
            self._step *= 2
        here = self._rows % self._step == 0
        self._rows, self._values = self._rows[here], self._values[here]

    def lines(self) -> list[str]:
        """What was found, with the entry of the card that declares it."""
        names = [toml(column.name) for column in self._columns]
        found = dict.fromkeys([*self._pairs(names), *self._sums(names), *self._absences(names)])
        head = f"Rules that all of {len(self._rows):,} rows keep, taken evenly from the table:"
        return [head, *found, WARNING] if found else []

    def _pairs(self, names: list[str]) -> Iterator[str]:
        """Copies, orders, and categories that decide others: what holds by chance after one column is permuted is no rule."""
        mixed = np.random.default_rng(0).permutation
        there, copies = ~np.isnan(self._values), set[int]()
        for one, other in itertools.permutations(range(len(names)), 2):
            both = there[:, one] & there[:, other]
            first, second = self._columns[one], self._columns[other]
            a, b = self._values[both, one], self._values[both, other]
            known = {name for _, name in (*first.rules, *second.rules)} & {first.name, second.name}
            if known or both.sum() < _FEW or {one, other} & copies or np.ptp(a) == 0 or np.ptp(b) == 0:
                continue
            alike = (first.kind, first.values) == (second.kind, second.values)
            if alike and np.array_equal(a, b):
                copies.add(other)
                yield f'{names[other]} equals {names[one]}: kind = "derived", follows = {names[one]}'
            elif alike and not first.values and (a <= b).all() and (a > mixed(b)).mean() > _BY_CHANCE:
                yield f"{names[other]} is never below {names[one]}: after = {names[one]}, or at_least = {names[one]}"
            elif first.values and second.values and _decides(a, b) and not _decides(a, mixed(b)):
                yield f'{names[one]} decides {names[other]}: kind = "derived", follows = {names[one]}'

    def _sums(self, names: list[str]) -> Iterator[str]:
        """Columns that are the sum of two or three others, by the sums of a random projection of some rows."""
        numbers = [at for at, each in enumerate(self._columns) if each.kind in ("integer", "number")]
        numbers = [at for at in numbers if (np.nan_to_num(self._values[:, at]) != 0).mean() > _BY_CHANCE]
        rows = self._values[~np.isnan(self._values[:, numbers]).any(axis=1)]
        if len(rows) < _FEW:
            return
        some = rows[:: len(rows) // _PROJECTED + 1]
        projected = np.random.default_rng(0).random(len(some)) @ some
        pairs = sorted((projected[a] + projected[b], a, b) for a, b in itertools.combinations(numbers, 2))
        sums = np.array([total for total, _, _ in pairs])
        for rest, total in itertools.product([None, *numbers], numbers):
            wanted = projected[total] - (0 if rest is None else projected[rest])
            begin, end = np.searchsorted(sums, [wanted - 1e-9 * abs(wanted), wanted + 1e-9 * abs(wanted)])
            for _, *two in pairs[begin:end]:
                parts = sorted({*two, *([] if rest is None else [rest])})
                exact = np.allclose(rows[:, parts].sum(axis=1), rows[:, total])
                if exact and total not in parts and len(parts) == 2 + (rest is not None):
                    formula = " + ".join(f"'{self._columns[at].name}'" for at in parts)
                    yield f'{names[total]} is a sum: kind = "derived", formula = "{formula}"'

    def _absences(self, names: list[str]) -> Iterator[str]:
        """Columns that are missing in the same rows, and columns with one value where a category has some value."""
        absent, first = np.isnan(self._values), dict[bytes, int]()
        for at, own in enumerate(absent.T):
            if self._columns[at].missing and own.any() and not own.all():
                same = first.setdefault(own.tobytes(), at)
                if same != at:
                    yield f"{names[at]} is missing where {names[same]} is: missing_with = {names[same]}"


def _decides(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether each value of a category comes with one value of the other, and with `_FEW` rows on average."""
    values = len(np.unique(one))
    return values * _FEW <= len(one) and len(np.unique(np.stack([one, other]), axis=1).T) == values
