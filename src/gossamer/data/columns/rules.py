"""Rules between columns, which a card declares and each sample keeps: what one column can be beside the values of others.

A rule is applied to each row by itself, by the card alone. So a record still gives one code for each column that is learnt, and
one record more changes each count by at most 1. No query is asked for a rule, and it takes no epsilon.
"""

from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias

import numpy as np

from gossamer.data.columns.column import OTHER, Column
from gossamer.errors import CardError, did_you_mean

_MOST_CASES = 1_000
"""Combinations of rules of one column that are checked."""
_LARGEST = 2**53
_COMPARED = ("kind", "decimals", "zone", "clock")
"""What two columns have in common whose values are compared."""
Case: TypeAlias = tuple[int, np.ndarray, np.ndarray, np.ndarray]
"""The position of a column, rows that break its rules, rows of the same case that keep them, and the codes that it can have."""
Rule: TypeAlias = tuple[int, np.ndarray, np.ndarray]
"""Where the column at a position has codes of the first mask, a column has codes of the second one. Masks are bool [codes]."""


def in_turn(columns: Sequence[Column]) -> list[int]:
    """The positions of columns, each after those that its rules name. Raises CycleError: they go in a circle."""
    place = {column.name: at for at, column in enumerate(columns)}
    needed = {place[each.name]: [place[name] for _, name in each.rules] for each in columns}
    return [*TopologicalSorter(needed).static_order()]


def broken(codes: np.ndarray, columns: Sequence[Column]) -> Iterator[Case]:
    """Yield which rows break the rules of a column: for each column, and each case of what others have beside it.

    Args:
        codes: int32 [n, columns]. Rows with a negative one count as kept. Codes may be changed between two cases.
        columns: of the card.

    """
    for at in in_turn(columns):
        rules = _rules(columns, at)
        rows = np.flatnonzero((codes >= 0).all(axis=1)) if rules else np.empty(0, np.int64)
        if not len(rows):
            continue
        holds = np.array([when[codes[rows, other]] for other, when, _ in rules])
        cases, case = np.unique(holds, axis=1, return_inverse=True)
        for number, hold in enumerate(cases.T):
            can = np.ones(columns[at].size, bool)
            for (_, _, then), this in zip(rules, hold, strict=True):
                can &= then | ~this
            there = rows[case.reshape(-1) == number]
            keeps = can[codes[there, at]]
            yield at, there[~keeps], there[keeps], np.flatnonzero(can)


def keep_rules(codes: np.ndarray, columns: Sequence[Column]) -> np.ndarray:
    """The same codes, in which each rule holds. int32 [n, columns]

    A code that breaks a rule becomes that of another row in which the same rules hold. So the column has the shares that it has
    there. If there is no such row, the codes that it can have get equal shares.
    """
    codes = codes.copy()
    for at, wrong, right, can in broken(codes, columns):
        given = codes[right, at] if len(right) else can
        codes[wrong, at] = given[np.arange(len(wrong)) * len(given) // max(1, len(wrong))]
    return codes


def _rules(columns: Sequence[Column], at: int) -> list[Rule]:
    """The rules of a column."""
    column, place = columns[at], {each.name: number for number, each in enumerate(columns)}
    rules: list[Rule] = []
    for name, value, *known in column.only:
        other = place[name]
        codes = [code for text in known for code in _codes(column, text)]
        when = _mask(columns[other], _codes(columns[other], value))
        rules.append((other, when, _mask(column, codes)))
    missing = _mask(column, [column.size - 1] * column.missing)
    if column.missing_with:
        other = place[column.missing_with]
        absent = _mask(columns[other], [columns[other].size - 1] * columns[other].missing)
        rules += [(other, absent, missing), (other, ~absent, ~missing)]
    if column.after:
        other = place[column.after]
        rules.append((other, _mask(columns[other], columns[other].no_values), missing))
    return rules


def _mask(column: Column, codes: Sequence[int]) -> np.ndarray:
    return np.isin(np.arange(column.size), codes)


def _codes(column: Column, text: str) -> Sequence[int]:
    """The codes of what a rule names. Raises CardError: the column has none.

    text: a value, zero or a special value, or a range of whole bins, such as 0..17; "other"; "": missing.
    """
    if text in column.values:
        return [column.values.index(text)]
    code = {"": column.missing_code, OTHER: column.other_code}.get(text)
    if code is not None:
        return [code]
    first, _, last = text.partition("..")
    try:
        if column.values:
            raise ValueError
        low = column.position(first)
        if not last:
            return [column.plain + column.apart.index(low)]
        high, cuts = column.position(last), column.cuts.tolist()
        apart = [code for code, value in enumerate(column.apart, column.plain) if low <= value <= high]
        return [*range(cuts.index(low), cuts.index(column.beyond(high))), *apart]
    except ValueError:
        raise CardError(
            f"column {column.name!r} has no code for {text!r}, which a rule names. Ranges go from edge to edge"
        ) from None


def check_rules(columns: Sequence[Column], label: str | None) -> None:
    """Refuse rules that name no column or value, that contradict each other, or that the label has. Raises CardError."""
    by_name = {column.name: column for column in columns}
    ordered = [column for column in columns if column.at_least]
    exchanged = {name for each in ordered for name in (each.name, each.at_least)}
    for column in columns:
        for key, name in column.rules:
            if name not in by_name or column.name == label:
                near = did_you_mean(name, by_name)
                raise column.wrong(key, f"it must name another learnt column. The label has no rules.{near}")
            about = {"after": {column.name}, "only": {column.name, name}}.get(key, set())
            if exchanged & about:
                raise column.wrong(key, "at_least exchanges these values: take one out")
            _check_rule(column, key, by_name[name])
    try:
        order = in_turn(columns)
    except CycleError as error:
        circle = ", ".join(repr(columns[at].name) for at in error.args[1][1:])
        raise CardError(f"the rules of the columns {circle} go in a circle: take one out") from None
    for at in order:
        if columns[at].after:
            _check_ends(columns[at], by_name)
        if not _agree(_rules(columns, at), columns[at].size):
            raise columns[at].wrong("only", "its rules leave no value in some rows: take one out")


def _check_rule(column: Column, key: str, other: Column) -> None:
    """Refuse a rule that does not fit the other column."""
    differ = any(getattr(other, fact) != getattr(column, fact) for fact in _COMPARED)
    off = other.unit % column.unit if key == "after" else other.unit != column.unit
    if key in ("after", "at_least") and (differ or off):
        raise column.wrong(key, f"{other.name!r} must have the same kind, decimals, zone and step")
    if key == "at_least":
        low = min(column.cuts[0], 0) if column.zero and not other.zero else column.cuts[0]
        if other.cuts[0] > low or other.cuts[-1] > column.cuts[-1]:
            raise column.wrong(
                key, f"neither bound may be below that of {other.name!r}, so that values can be exchanged"
            )
    if key == "after" and column.grid is None:
        raise column.wrong(key, "it needs numbers with decimals, such as decimals = 2")
    if key == "after" and other.no_values and not column.missing:
        raise column.wrong(key, f"{other.name!r} may have no value: say missing = true here")
    if key == "missing_with" and not other.missing:
        raise column.wrong(key, f"{other.name!r} is never missing: say missing = true there")


def _check_ends(column: Column, columns: dict[str, Column]) -> None:
    """Refuse differences with which values are beyond those that a program can hold."""
    first, chain = column, [column]
    while first.after:
        first = columns[first.after]
        chain.append(first)
    ends = [sum(end([*each.cuts, *each.apart]) for each in chain) for end in (min, max)]
    try:
        beyond = max(map(abs, ends)) > _LARGEST or not [*map(first.written, ends)]
    except OverflowError:
        beyond = True
    if beyond:
        raise column.wrong("bounds", "values would be beyond the year 9999 or 2^53")


def _agree(rules: Sequence[Rule], size: int) -> bool:
    """Whether each combination of rules leaves a code of so many. False too: there are too many combinations."""
    left = {(True,) * size}
    for other in {other for other, _, _ in rules}:
        when, then = (np.array([rule[part] for rule in rules if rule[0] == other]) for part in (1, 2))
        cases = [(then | ~holds[:, None]).all(axis=0) for holds in np.unique(when, axis=1).T]
        left = {tuple((case & one).tolist()) for case in cases for one in left}
        if len(left) > _MOST_CASES:
            return False
    return all(map(any, left))
