"""What a draft says of a column of dates, times or durations."""

import datetime
import re

import numpy as np

from gossamer.data.card import toml
from gossamer.data.columns import durations, times
from gossamer.data.columns.numbers import Form
from gossamer.data.tables.drafting.portrait import DAY, Candidate, Portrait
from gossamer.data.tables.drafting.proposal import MOST_DECIMALS, Proposal

_CALENDAR = (-62_135_596_800, 253_402_300_799)
"""The first and the last second of Python's dates, from 1970."""
_FAR = 20 * 365 * 86_400
"""Seconds."""
_NO_YEAR = 2999
_NO_DATES = {
    datetime.date(1753, 1, 1),
    datetime.date(1899, 12, 30),
    datetime.date(1900, 1, 1),
    datetime.date(1970, 1, 1),
}
"""Dates that programs write for no answer, besides those from the year 2999 on."""


def of_durations(seen: Portrait, best: Candidate) -> Proposal:
    low, high = np.floor(best.spread.lowest[0]), np.ceil(best.spread.highest[-1])
    ends = [durations.text(datetime.timedelta(seconds=end), None) for end in (low, high if high > low else low + 1)]
    proposal = Proposal({"name": seen.name, "kind": "duration"}, {"bounds": ends})
    _keep_fractions(proposal, best)
    return proposal


def of_dates(seen: Portrait, best: Candidate) -> Proposal:
    kind = "datetime" if best.has_time else "date"
    low, high = [*best.spread.lowest], [*best.spread.highest]
    apart = [low.pop(0)] if _is_far(low[0], low[1:], high[-1]) else []
    apart += [high.pop()] if _is_far(high[-1], high[-2:-1], low[0]) else []
    proposal = Proposal({"name": seen.name, "kind": kind}, {"bounds": _ends(low[0], high[-1], kind, best.form)})
    if best.form:
        proposal.facts["format"] = best.form
    if seen.zone:
        proposal.facts["zone"] = seen.zone
    if apart:
        proposal.facts["special"] = [_ends(each - DAY, each, kind, best.form)[1] for each in apart]
        proposal.comments.append("Far from the rest are dates that stand for no answer. They get codes of their own.")
    if kind == "datetime":
        _keep_fractions(proposal, best)
    elif best.is_monthly and high[-1] > low[0]:
        proposal.comments.append(
            "All dates are the first of a month. Samples have other days, unless it is a category."
        )
    _ask_order(proposal, seen, best)
    _ask_kind_and_zone(proposal, seen, best)
    return proposal


def _keep_fractions(proposal: Proposal, best: Candidate) -> None:
    """Declare the digits of seconds, where there are some."""
    if best.spread.digits != 0:
        proposal.facts["decimals"] = min(best.spread.digits or MOST_DECIMALS, MOST_DECIMALS)


def _ask_order(proposal: Proposal, seen: Portrait, best: Candidate) -> None:
    """Ask whether the month or the day comes first, where no cell decides."""
    kind, form = proposal.facts["kind"], str(best.form)
    for other in seen.candidates.values():
        if other.kind != "date" or other is best or other.cells != best.cells or _parts(other) != _parts(best):
            continue
        first = "month" if form.find("%m") < form.find("%d") else "day"
        monthly = best.is_monthly and not other.is_monthly
        why = ", because all dates are then the first of a month" if monthly else ""
        ends = _ends(other.spread.lowest[0], other.spread.highest[-1], kind, other.form)
        proposal.comments.append(f"Month or day first? No cell decides. The draft reads the {first} first{why}.")
        proposal.ask(f"format = {toml(other.form)}", f"bounds = {toml(ends)}")


def _ask_kind_and_zone(proposal: Proposal, seen: Portrait, best: Candidate) -> None:
    """Ask whether whole numbers are dates, and where the clock of a zone is."""
    if best.form == "%Y%m%d":
        ends = [int(f"{end:%Y%m%d}") for end in proposal.measured["bounds"]]
        proposal.comments.append("Whole numbers, which all are dates such as 20311224. If they are amounts or codes:")
        proposal.ask('kind = "integer"', f"bounds = {toml(ends)}")
    if best.has_offset or seen.zone:
        where = seen.zone or "UTC"
        proposal.comments.append(
            f"Times with a zone, read in {where}. For the clock of another place, say zone and bounds:"
        )
        proposal.ask('zone = "Europe/Berlin"')


def _parts(candidate: Candidate) -> list[str]:
    """The parts of a form, without their order."""
    return sorted(re.findall(r"%\w|[^%\w]", str(candidate.form)))


def _is_far(end: float, next_ones: list[float], other: float) -> bool:
    """Whether an end is a date that programs write for no answer, years from the next date. All in seconds since 1970."""
    if not next_ones or abs(end - next_ones[0]) <= max(_FAR, 2 * abs(next_ones[0] - other)):
        return False
    day = np.datetime64(int(end // DAY), "D").item()
    return day.year >= _NO_YEAR or day in _NO_DATES


def _ends(low: float, high: float, kind: str, form: Form | str) -> list[datetime.date]:
    """The first and the last date or time, not the same. low, high: in seconds since 1970."""
    step = DAY if kind == "date" else max(times.step_of(str(form)), 1) if form else 1
    low, high = low // step * step, high // step * step if kind == "date" else np.ceil(high / step) * step
    ends = np.array([low if high > low else low - step, high]).clip(*_CALENDAR).astype("datetime64[s]").tolist()
    return [end.date() for end in ends] if kind == "date" else ends
