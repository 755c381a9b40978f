"""What a draft says of columns with bins: how they are written, their bounds, and values that stand for themselves."""

import datetime
import math
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from gossamer.data.card import toml
from gossamer.data.columns import durations, times
from gossamer.data.columns.column import BINS, FINE_BINS, fine_bins
from gossamer.data.columns.numbers import Form
from gossamer.data.columns.texts import text_of
from gossamer.data.columns.times import DAY
from gossamer.data.tables.drafting.forms import DIGITS
from gossamer.data.tables.drafting.portrait import FEW, FEWEST, Candidate, Portrait
from gossamer.data.tables.drafting.proposal import Habits, Proposal
from gossamer.data.tables.drafting.sketches import Spread

_ZEROS = 0.05
"""Share of zeros from which zero has a code of its own."""
_PEAK = 0.001
"""The same, where other numbers near zero are much rarer."""
_MOST_DECIMALS = 9
_NO_ANSWER = re.compile(
    r"-(1|9+|8+|7+)|7{2,}|8{2,}|9{2,}|9*[78]|(2999|[3-9]\d{3})-\d\d-\d\d|(1753|1900|1970)-01-01|1899-12-30"
)
"""Numbers and dates that people and programs write for no answer."""
_CALENDAR = (-62_135_596_800, 253_402_300_799)
"""The first and the last second of Python's dates, from 1970."""


def of_numbers(seen: Portrait, best: Candidate, habits: Habits) -> Proposal:
    form, spread = best.form, best.spread
    assert isinstance(form, Form)
    proposal = Proposal({"name": seen.name, "kind": "integer" if spread.is_whole else "number"})
    digits = min(spread.digits, _MOST_DECIMALS)
    if form.before or form.after or form.thousands or (form.decimal != habits.decimal and digits):
        proposal.facts["format"] = replace(form, digits=digits).example
        _ask_separators(proposal, seen, best, form)
    elif digits and digits == spread.digits:
        proposal.facts["decimals"] = digits
    many = seen.cells >= FEWEST and (not seen.is_exact or len(seen.counts) > FEW)
    step = best.step if many and spread.is_whole and not spread.is_clock else 1
    if step > 1:
        proposal.facts["step"] = step
        proposal.say(f"All are multiples of {step:,}, and so are samples. If that is by chance, leave step out.")
    _add_bins(proposal, seen, spread, step)
    if spread.is_clock:
        proposal.measured["clock"] = True
        proposal.say("The last two digits are below 60, as of times such as 1545. If it is no clock, leave clock out.")
    return proposal


def _ask_separators(proposal: Proposal, seen: Portrait, best: Candidate, form: Form) -> None:
    """Name the other reading of numbers such as 1.234."""
    sign = form.thousands
    other = replace(form, thousands="", decimal=sign)
    found = seen.candidates.get(("number", other)) if sign in (".", ",") else None
    if found is not None and best.spread.is_whole and found.cells >= best.cells:
        example = toml(replace(other, digits=3).example)
        proposal.say(f"Is 1{sign}234 a thousand or a fraction? No cell decides. The draft reads thousands.")
        proposal.choices += ['kind = "number"', f"format = {example}"]
        proposal.choices.append(f"bounds = {toml([float(found.spread.lowest[0]), float(found.spread.highest[-1])])}")


def _add_bins(proposal: Proposal, seen: Portrait, spread: Spread, least: int) -> None:
    """Bounds, values with a code of their own, and how the bins grow."""
    facts, say, exact = proposal.facts, proposal.say, int if spread.is_whole else float
    special, low, high = _take_apart(spread, text_of)
    if special:
        proposal.measured["special"] = [*map(exact, special)]
        named = ", ".join(f"{value:g} ({spread.count_of(value):,} cells)" for value in special)
        say(f"Apart from the rest, as codes for no answer are: {named}. They get codes of their own.")
    many = not seen.is_exact or len(seen.counts) > FEW
    if many and (not spread.is_whole or high[-1] - low[0] > BINS):
        zeros, step = spread.count_of(0) / spread.cells, least * 10.0**-spread.digits
        is_peak = zeros >= _PEAK and spread.has_peak(0)
        above = [each for each in low if each]
        if zeros >= _ZEROS or is_peak or (low[0] == 0 and "log" in fine_bins(above[0], high[-1], step)):
            low, high = above, [each for each in high if each]
            facts["zero"] = True
            say(f"{_percent(zeros)} of cells are 0: zero = true gives 0 a code of its own.")
        facts |= fine_bins(low[0], high[-1], step)
    proposal.measured["bounds"] = [exact(low[0]), exact(high[-1] if high[-1] > low[0] else low[0] + least)]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else "Less than 1 %"


def _take_apart(spread: Spread, written: Callable[[float], str]) -> tuple[list[float], list[float], list[float]]:
    """Numbers that stand for no answer, such as -999, and the smallest and the largest of all others, in rising order.

    They occur more than once, at an end, and far from the rest.

    written: a number as people read it.
    """

    def is_code(number: float) -> bool:
        return bool(_NO_ANSWER.fullmatch(written(number))) and spread.count_of(number) > 1

    found, low, high = list[float](), spread.lowest.tolist(), spread.highest.tolist()
    while len(low) > 1 and is_code(low[0]) and (low[0] < 0 <= low[1] or low[1] - low[0] > high[-1] - low[1]):
        found.append(low.pop(0))
    high = [number for number in high if number >= low[0]]
    while len(high) > 1 and is_code(high[-1]) and high[-1] - high[-2] > 0.5 * (high[-2] - low[0]):
        found.append(high.pop())
    return sorted(found), low, high


def of_durations(seen: Portrait, best: Candidate, _: Habits) -> Proposal:
    proposal, step = _with_seconds(seen, best, kind="duration")
    low, high = np.floor(best.spread.lowest[0]), np.ceil(best.spread.highest[-1])
    ends = [
        durations.text(datetime.timedelta(seconds=end), None, str(best.form)) for end in (low, max(high, low + step))
    ]
    proposal.measured["bounds"] = ends
    return proposal


def of_dates(seen: Portrait, best: Candidate, _: Habits) -> Proposal:
    kind, form = "datetime" if best.step % (DAY * 10**6) else "date", str(best.form)
    apart, low, high = _take_apart(best.spread, lambda second: str(np.datetime64(int(second // DAY), "D")))
    proposal, step = _with_seconds(seen, best, kind=kind, zone=seen.zone)
    proposal.measured["bounds"] = ends = _ends(low[0], high[-1], kind, step)
    if apart:
        proposal.measured["special"] = [_ends(each - DAY, each, kind, step)[1] for each in apart]
        proposal.say("Far from the rest are dates that stand for no answer. They get codes of their own.")
    for other in seen.candidates.values():
        has_same_parts = other.kind == "date" and sorted(str(other.form)) == sorted(form)
        if has_same_parts and other is not best and other.cells == best.cells:
            first = "month" if form.find("%m") < form.find("%d") else "day"
            others = _ends(other.spread.lowest[0], other.spread.highest[-1], kind, step)
            proposal.say(f"Month or day first? No cell decides. The draft reads the {first} first.")
            proposal.choices += [f"format = {toml(other.form)}", f"bounds = {toml(others)}"]
    if form == DIGITS:
        numbers = [int(f"{end:%Y%m%d}") for end in ends]
        proposal.say("Whole numbers, which all are dates such as 20311224. If they are amounts or codes:")
        proposal.choices += ['kind = "integer"', f"bounds = {toml(numbers)}"]
    if seen.has_offset or seen.zone:
        proposal.say(f"Times with a zone, read in {seen.zone or 'UTC'}. For another clock, say zone and bounds:")
        proposal.choices.append('zone = "Europe/Berlin"')
    return proposal


def _with_seconds(seen: Portrait, best: Candidate, *, kind: str, zone: str = "") -> tuple[Proposal, int]:
    """A proposal of the form, the digits of seconds, fine bins, and a step; and the seconds that values are multiples of."""
    form, of_day = str(best.form), kind == "duration"
    shown = (times.step_of(form, of_day=of_day) or 1) if form else 1
    step, rest = divmod(math.gcd(best.step, (DAY if of_day else times.HOUR) * 10**6), 10**6)
    told = kind != "date" and not rest and max(shown, 59) < step and seen.cells >= FEWEST
    facts = {"name": seen.name, "kind": kind, "format": form, "zone": zone, "step": step * told, "bins": FINE_BINS}
    facts["decimals"] = min(best.spread.digits, _MOST_DECIMALS)
    unit = DAY if kind == "date" else math.lcm(shown, step if told else 1)
    return Proposal({key: value for key, value in facts.items() if value}), unit


def _ends(low: float, high: float, kind: str, step: int) -> list[datetime.date]:
    """The first and the last date or time, not the same. low, high: in seconds since 1970."""
    low, high = low // step * step, high // step * step if kind == "date" else np.ceil(high / step) * step
    low = low if high > low else max(low - step, _CALENDAR[0])
    ends = np.array([low, max(high, low + step)]).clip(*_CALENDAR).astype("datetime64[s]").tolist()
    return [end.date() for end in ends] if kind == "date" else ends
