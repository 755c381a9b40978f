"""Which rows break the rules of a card, and which rules rows keep that the card does not have. Measured, so it is private."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gossamer.data.card import toml
from gossamer.data.columns.column import MOST_CODES, Column
from gossamer.data.columns.generated import GeneratedColumn
from gossamer.data.columns.reading import BROKEN, FAULTS, Reader
from gossamer.data.columns.rules import broken
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.decode import Learnt, computed, mapped
from gossamer.data.tables.encode import by_rule
from gossamer.lazy import pa

TAKEN = "decided by a rule"
BELOW = "below the column that it is at_least"
DIFFERS = "not what follows from other columns by the card"
MOST_ROWS = 5_000
"""Rows in which rules are looked for."""
WARNING = "Declare only what is true by definition: a rule that was found in the records is a measured value."
_FEW = 20
"""Rows that a rule needs."""
_WEIGHTED = 50
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
    arrays = zip(card.columns, codes.T, values.T, strict=True)
    learnt = {column.name: (column, own, numbers) for column, own, numbers in arrays}
    for at, wrong, _, can in broken(codes, card.columns):
        column = card.columns[at]
        refused = by_rule(column, can) == BROKEN
        yield column.name, f"refused: {FAULTS[BROKEN]}" if refused else TAKEN, wrong
    for column, _, own in learnt.values():
        if column.at_least:
            yield column.name, BELOW, np.flatnonzero(own < learnt[column.at_least][2])
    sound = (codes >= 0).all(axis=1)
    for made in card.generated:
        if made.kind == "derived" and made.name in generated:
            wrong = _differs(made, learnt, generated[made.name], card.decimal)
            yield made.name, DIFFERS, np.flatnonzero(sound & wrong)


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
        self._rows = np.append(self._rows, rows)
        self._values = np.append(self._values, values, axis=0)
        while np.count_nonzero(self._rows % self._step == 0) > MOST_ROWS:
            self._step *= 2
        here = self._rows % self._step == 0
        self._rows, self._values = self._rows[here], self._values[here]

    def lines(self) -> list[str]:
        """What was found, with the entry of the card that declares it."""
        found = dict.fromkeys([*self._of_pairs(), *self._sums()])
        head = f"Rules that all of {len(self._rows):,} rows keep, taken evenly from the table:"
        return [head, *found, WARNING] if found else []

    def _of_pairs(self) -> Iterator[str]:
        """Rules of two columns. An order that holds too after one of them is permuted is none."""
        mixed, told = np.random.default_rng(0).permutation, set[int]()
        there = ~np.isnan(self._values)
        for one, other in itertools.permutations(range(len(self._columns)), 2):
            first, second = self._columns[one], self._columns[other]
            both = there[:, one] & there[:, other]
            a, b = self._values[both, one], self._values[both, other]
            known = {name for _, name in (*first.rules, *second.rules)} & {first.name, second.name}
            if known or {one, other} & told or len(a) < _FEW or not (np.ptp(a) and np.ptp(b)):
                continue
            left, right = toml(first.name), toml(second.name)
            alike = (first.kind, first.values) == (second.kind, second.values)
            if alike and np.array_equal(a, b):
                told.add(other)
                yield f'{right} equals {left}: kind = "derived", follows = {left}'
            elif alike and not first.values and (a <= b).all() and (a > mixed(b)).mean() > _BY_CHANCE:
                yield f"{right} is never below {left}: after = {left}, or at_least = {left}"
            elif first.values and second.values and _decides(a, b):
                yield f'{left} decides {right}: kind = "derived", follows = {left}'
            if one < other and len(a) < len(there) and np.array_equal(there[:, one], there[:, other]):
                yield f"{right} is missing where {left} is: missing_with = {left}"

    def _sums(self) -> Iterator[str]:
        """Columns that are sums of two or three others, by random weights for some rows: few sums agree by chance."""
        often = (np.nan_to_num(self._values) != 0).mean(axis=0) > _BY_CHANCE
        numbers = [at for at in np.flatnonzero(often).tolist() if self._columns[at].kind in ("integer", "number")]
        rows = self._values[~np.isnan(self._values[:, numbers]).any(axis=1)]
        if len(rows) < _FEW:
            return
        some = rows[:: len(rows) // _WEIGHTED + 1]
        weighted = np.random.default_rng(0).random(len(some)) @ some
        pairs = sorted((weighted[[*pair]].sum(), pair) for pair in itertools.combinations(numbers, 2))
        sums = np.array([each for each, _ in pairs])
        for total, *rest in [*itertools.product(numbers), *itertools.permutations(numbers, 2)]:
            wanted = weighted[total] - weighted[rest].sum()
            begin, end = np.searchsorted(sums, wanted + 1e-9 * abs(wanted) * np.array([-1, 1]))
            for _, pair in pairs[begin:end]:
                parts = sorted({*pair, *rest})
                exact = np.allclose(rows[:, parts].sum(axis=1), rows[:, total])
                if exact and len(parts) == 2 + len(rest):
                    formula = " + ".join(f"'{self._columns[at].name}'" for at in parts)
                    name = toml(self._columns[total].name)
                    yield f'{name} is a sum: kind = "derived", formula = {toml(formula)}'


def _decides(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether each code comes with one code of the other column, and with `_FEW` rows on average."""
    codes = len(np.unique(one))
    return codes * _FEW <= len(one) and len(np.unique(one * MOST_CODES + other)) == codes
