"""What a draft says of a column, and which kind and form its cells have."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from gossamer.data.card import toml
from gossamer.data.columns.numbers import Form
from gossamer.data.columns.texts import TRUTH
from gossamer.data.sources.relation import Relation
from gossamer.data.tables.drafting.portrait import DAY, Candidate, Odd, Portrait

SHARE = 0.95
"""Share of cells that must fit a kind, so that it is proposed and the others are named."""
FEWEST = 20
"""Cells from which some may not fit, and from which a column whose cells all differ looks like an identifier."""
FEW = 20
"""Different whole numbers up to which a column with gaps between them is proposed as a category."""
MOST_DECIMALS = 6
_EXACT = 2**53
_FIRST = ("name", "kind", "format", "zone")
_YEARS = (1850, 2150)
ID_WORDS = {"id", "ids", "uuid", "guid"}


@dataclass
class Proposal:
    """What a draft says of a column.

    Args:
        facts: entries of the column that stand as they are.
        measured: entries that hold values of records.
        comments: sentences above the entry.
        choices: lines of another reading, which no cell excludes. They stand in the entry as comments.
        drop: why the column is left out; empty: it is not.
        hint: what the data owner must do to the file.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    measured: dict[str, Any] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)
    choices: list[str] = field(default_factory=list)
    drop: str = ""
    hint: str = ""

    def ask(self, *lines: str) -> None:
        """Add lines of another reading."""
        self.choices += lines

    @property
    def text(self) -> str:
        """The [[column]] entry, with what is measured as comments."""
        first = {key: self.facts[key] for key in _FIRST if key in self.facts}
        rest = {key: value for key, value in self.facts.items() if key not in first}
        return "\n".join(
            [
                *(f"# {comment}" for comment in self.comments),
                "[[column]]",
                *_lines(first),
                *(f"# measured: {line}" for line in _lines(self.measured)),
                *(f"# {line}" for line in self.choices),
                *_lines(rest),
                "",
            ]
        )


def _lines(facts: dict[str, Any]) -> list[str]:
    return [f"{key} = {toml(value)}" for key, value in facts.items()]


@dataclass(frozen=True)
class Habits:
    """How a table writes its cells, seen in all columns.

    Args:
        decimal: the decimal point.
        groups: whether a point may separate thousands: cells end with a semicolon, and no number has a decimal point for sure.
        words: for a missing value, in columns of numbers and dates.
        guessed: whether a program may have guessed the types of columns.
    """

    decimal: str
    groups: bool
    words: frozenset[str]
    guessed: bool


def habits_of(portraits: Sequence[Portrait], table: Relation, *, comma: bool) -> Habits:
    """How a table writes its cells. comma: whether a comma is its decimal point, as far as known."""
    groups = table.delimiter == ";" and not any(map(_has_point, portraits))
    best = [(seen, each) for seen in portraits if (each := best_candidate(seen, groups)) is not None]
    has_comma = any(isinstance(each.form, Form) and each.form.decimal == "," for _, each in best)
    words = frozenset(word for seen, _ in best for word in seen.words)
    return Habits("," if comma or (groups and has_comma) else ".", groups, words, table.guessed)


def _has_point(seen: Portrait) -> bool:
    """Whether a column has numbers with a decimal point that separates no thousands."""
    plain = seen.candidates.get(("number", Form()))
    groups = seen.candidates.get(("number", Form(thousands=".", decimal=",")))
    if plain is None or plain.spread.is_whole or not 0 < SHARE * seen.cells <= plain.cells:
        return False
    return groups is None or groups.cells < plain.cells


def best_candidate(seen: Portrait, groups: bool) -> Candidate | None:
    """The kind and form that nearly all cells fit; None: they are text. groups: whether a point may separate thousands."""
    enough = SHARE * seen.cells if seen.cells >= FEWEST else seen.cells
    fitting = [each for each in seen.candidates.values() if each.cells >= max(enough, 1) and _is_likely(each, seen)]
    return max(fitting, key=lambda each: rank(each, groups), default=None)


def _is_likely(candidate: Candidate, seen: Portrait) -> bool:
    """Whether a fitting form is meant: 0 and 1 are no truth values, and 10000101 is no date."""
    lowest, highest = candidate.spread.lowest, candidate.spread.highest
    if candidate.kind == "boolean":
        return seen.kind == "boolean" or any(text.casefold() in TRUTH for text in seen.frequent.counts)
    if candidate.kind == "duration":
        return not seen.is_clock
    if candidate.kind == "date" and candidate.form == "%Y%m%d":
        years = lowest[0] / DAY / 365.25 + 1970, highest[-1] / DAY / 365.25 + 1970
        return bool(_YEARS[0] <= years[0] and years[1] <= _YEARS[1])
    return candidate.kind != "number" or not codes_of(seen, candidate)


def rank(candidate: Candidate, groups: bool) -> tuple[int, int, int]:
    """The best candidate has the most cells. Of equal ones, it is the more special kind, then the more likely form."""
    form, kinds = candidate.form, ("number", "duration", "date", "boolean")
    if isinstance(form, Form):
        likely = 2 * (form.decimal == ("," if groups else ".")) + (not form.thousands)
    else:
        likely = int(candidate.is_monthly)
    return candidate.cells, kinds.index(candidate.kind), likely


def codes_of(seen: Portrait, plain: Candidate) -> str:
    """What numbers would lose that are codes; empty: nothing."""
    for sign, odd in seen.codes.items():
        if sign != "a plus sign" or (plain.spread.lowest[0] >= 0 and 2 * odd.count >= seen.cells):
            return sign
    return "digits beyond 2^53" if seen.kind == "whole" and _size(plain) > _EXACT else ""


def _size(candidate: Candidate) -> float:
    return float(max(abs(candidate.spread.lowest[0]), abs(candidate.spread.highest[-1])))


def as_key(seen: Portrait) -> Proposal:
    return Proposal(
        {"name": seen.name, "kind": "key"},
        comments=["Each row has another value here. So it is not learnt, and samples get running numbers."],
    )


def says(name: str, words: Collection[str]) -> bool:
    """Whether one of these words is part of a name such as patient_id or patientId."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)
    return not {part.casefold() for part in parts}.isdisjoint(words) or name.casefold() in words


def in_percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %") if share >= 0.01 else "Less than 1 %"


def which_rows(odd: Odd) -> str:
    """Where the first of some cells are."""
    rows = sorted(odd.first.values())
    if not rows:
        return ""
    more = ", such as" if odd.count > len(rows) else ","
    return f"{more} row{'s' if rows[1:] else ''} {', '.join(map(str, rows))} (counted from 0)"


def as_float(value: Any) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None
