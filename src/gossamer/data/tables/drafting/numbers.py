"""What a draft says of a column of numbers: how they are written, their bounds, and values that stand for themselves."""

import re
from collections.abc import Collection
from typing import Any

import numpy as np

from gossamer.data.card import toml
from gossamer.data.columns.column import BINS
from gossamer.data.columns.numbers import Form
from gossamer.data.tables.drafting.portrait import Candidate, Portrait
from gossamer.data.tables.drafting.proposal import (
    FEW,
    FEWEST,
    ID_WORDS,
    MOST_DECIMALS,
    Habits,
    Proposal,
    as_float,
    as_key,
    in_percent,
    says,
)
from gossamer.data.tables.drafting.sketches import Spread
from gossamer.data.tables.drafting.text import of_text

_OFTEN = 10
"""Cells for each of these numbers, at least."""
_ZEROS = 0.05
"""Share of zeros from which zero has a code of its own."""
_FREQUENT, _TIMES = 0.2, 3
"""Share of cells from which another number is named, and how many times as frequent as any other it must be."""
_CROWDED = 0.6
"""Share of cells in one bin from which bins of one width are too wide."""
_NUMBER = {"nr", "no", "key", "code", "number", "num"}
_CODE_OF_NOTHING = re.compile(r"-(1|9+|8+|7+)|7{2,}|8{2,}|9{2,}|9*[78]")


def of_numbers(seen: Portrait, best: Candidate, habits: Habits) -> Proposal:
    form, spread = best.form, best.spread
    assert isinstance(form, Form)
    if _looks_like_key(seen, best):
        return as_key(seen)
    counts, is_few = seen.frequent.counts, seen.frequent.is_exact and not best.odd.count
    kind = "integer" if spread.is_whole else "number"
    if is_few and len(counts) == 1:
        return of_text(seen, habits)
    steps = None if spread.digits is None else round((spread.highest[-1] - spread.lowest[0]) * 10**spread.digits)
    has_gaps = is_few and (steps is None or 2 * len(counts) <= steps + 1)
    if has_gaps and len(counts) <= FEW and _OFTEN * len(counts) <= seen.cells:
        proposal = of_text(seen, habits)
        proposal.comments.append(
            f'{len(counts)} numbers with gaps look like codes. If they are amounts, write kind = "{kind}" and bounds. '
            "If they are steps of a scale, add ordered = true."
        )
        return proposal
    proposal = Proposal({"name": seen.name, "kind": kind})
    digits = 0 if spread.is_whole else MOST_DECIMALS if spread.digits is None else spread.digits
    if form.before or form.after or form.thousands or (form.decimal != habits.decimal and not spread.is_whole):
        written = Form(form.before, form.after, form.thousands, form.decimal, digits)
        proposal.facts["format"] = written.example
        _ask_separators(proposal, seen, best)
    elif kind == "number" and spread.digits is not None and spread.digits <= MOST_DECIMALS:
        proposal.facts["decimals"] = spread.digits
        if steps is not None and steps < BINS:
            proposal.facts["bins"] = max(steps // 2, 1)  # so that each holds a value, however its edges are rounded
    _add_bins(proposal, seen, best)
    return proposal


def _looks_like_key(seen: Portrait, best: Candidate) -> bool:
    """Whether whole numbers look like identifiers: all differ, and they run, are dense, or are called so."""
    spread = best.spread
    if not spread.is_whole or best.odd.count or seen.cells < FEWEST or not seen.is_unique or best.form != Form():
        return False
    is_dense = spread.highest[-1] - spread.lowest[0] < 2 * seen.cells
    return best.is_run or is_dense or says(seen.name, ID_WORDS | _NUMBER)


def _ask_separators(proposal: Proposal, seen: Portrait, best: Candidate) -> None:
    """Name the other reading of numbers such as 1.234."""
    assert isinstance(best.form, Form)
    if best.form.thousands not in (".", ",") or not best.spread.is_whole:
        return
    other = Form(best.form.before, best.form.after, "", best.form.thousands)
    found = seen.candidates.get(("number", other))
    if found is not None and found.cells >= best.cells:
        sign = best.form.thousands
        ends = [float(found.spread.lowest[0]), float(found.spread.highest[-1])]
        example = Form(other.before, other.after, "", other.decimal, 3).example
        proposal.comments.append(f"Is 1{sign}234 a thousand or a fraction? No cell decides. The draft reads thousands.")
        proposal.ask('kind = "number"', f"format = {toml(example)}", f"bounds = {toml(ends)}")


def _add_bins(proposal: Proposal, seen: Portrait, best: Candidate) -> None:
    """Bounds, values with a code of their own, and how the bins grow."""
    spread, is_whole = best.spread, best.spread.is_whole
    low, high = spread.lowest.tolist(), spread.highest.tolist()
    special = _apart(seen, low, high)
    many = not seen.frequent.is_exact or len(seen.frequent.counts) > FEW
    wide = many and (not is_whole or high[-1] - low[0] > BINS)
    zeros = spread.zeros / spread.cells
    is_skewed = wide and spread.shares(np.linspace(low[0], high[-1], BINS + 1), special).max() >= _CROWDED
    if spread.zeros and wide and (zeros >= _ZEROS or (is_skewed and low[0] == 0)):
        low, high = [each for each in low if each], [each for each in high if each]
        proposal.facts["zero"] = True
        proposal.comments.append(f"{in_percent(zeros)} of cells are 0: zero = true gives 0 a code of its own.")
    ends = [int(end) if is_whole else end for end in (low[0], high[-1])]
    proposal.measured["bounds"] = ends
    if special:
        proposal.facts["special"] = [int(value) if is_whole else value for value in sorted(special)]
        named = ", ".join(f"{value:g} ({seen.frequent.counts[_value_of(seen, value)]:,} cells)" for value in special)
        proposal.comments.append(
            f"Apart from the rest, as codes for no answer are: {named}. They get codes of their own."
        )
    if wide:
        _look_for_skew(proposal, spread, ends, [*special, *([0.0] if "zero" in proposal.facts else [])], high)
        _name_frequent(proposal, seen, best, [*special, 0.0])


def _apart(seen: Portrait, low: list[float], high: list[float]) -> list[float]:
    """Take the numbers off both ends that stand for no answer, such as -999."""
    found: list[float] = []
    while (
        len(low) > 1 and _is_apart(seen, low[0]) and (low[0] < 0 <= low[1] or low[1] - low[0] > abs(high[-1] - low[1]))
    ):
        found.append(low.pop(0))
    while len(high) > 1 and _is_apart(seen, high[-1]) and high[-1] - high[-2] > 0.5 * (high[-2] - low[0]):
        found.append(high.pop())
    return found


def _is_apart(seen: Portrait, number: float) -> bool:
    key = _value_of(seen, number)
    return key is not None and seen.frequent.counts[key] > 1 and bool(_CODE_OF_NOTHING.fullmatch(f"{number:.0f}"))


def _value_of(seen: Portrait, number: float) -> Any:
    """The key of a number among the frequent values."""
    return next((key for key in seen.frequent.counts if as_float(key) == number), None)


def _look_for_skew(
    proposal: Proposal, spread: Spread, ends: list[Any], without: Collection[float], high: list[float]
) -> None:
    """Propose bins that grow, where bins of one width hold nearly all cells in one."""
    equal = spread.shares(np.linspace(ends[0], ends[1], BINS + 1), without).max()
    if equal < _CROWDED:
        return
    far = len(high) > 1 and high[-1] - high[-2] > 2 * (high[-2] - ends[0])
    why = (
        "The largest value lies far above all others"
        if far
        else f"{in_percent(equal)} of cells lie in one of {BINS} equal bins"
    )
    if ends[0] > 0 and spread.shares(np.geomspace(ends[0], ends[1], BINS + 1), without).max() < equal:
        proposal.facts["log"] = True
        proposal.comments.append(
            f'{why}: log = true makes bins that grow. Or give a smaller upper bound with outside = "clip".'
        )
        return
    proposal.comments.append(f'{why}: give narrower bounds with outside = "clip", or edges in place of bounds.')


def _name_frequent(proposal: Proposal, seen: Portrait, best: Candidate, without: Collection[float]) -> None:
    """Name the most frequent number, where it is far more frequent than any other."""
    numbers = [(count, _number(best, value)) for value, count in seen.frequent.counts.items()]
    known = sorted((count, number) for count, number in numbers if number is not None and number not in without)
    (second, _), (most, number) = [(0, 0.0), (0, 0.0), *known][-2:]
    if most >= max(_FREQUENT * seen.cells, _TIMES * second):
        proposal.comments.append(
            f"{in_percent(most / seen.cells)} of cells are {number:g}: special = [{number:g}] keeps them apart."
        )


def _number(best: Candidate, value: Any) -> float | None:
    return float(value) if not isinstance(value, str) else as_float(value) if best.form == Form() else None
