"""What a draft proposes for a column: its kind and its facts, with reasons, from what one pass has seen of it."""

import datetime
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gossamer.data.card import is_text, toml
from gossamer.data.columns.column import BINS, MOST_CODES, OTHER
from gossamer.data.columns import durations, times
from gossamer.data.columns.numbers import Form
from gossamer.data.columns.texts import TRUTH
from gossamer.data.sources.relation import Relation
from gossamer.data.tables.card import column_from
from gossamer.data.tables.portrait import DAY, MOST_VALUES, Candidate, Odd, Portrait
from gossamer.data.tables.sketches import Spread
from gossamer.errors import CardError

SHARE = 0.95
"""Share of cells that must fit a kind, so that it is proposed and the others are named."""
FEWEST = 20
"""Cells from which some may not fit, and from which a column whose cells all differ looks like an identifier."""
FEW = 20
"""Different whole numbers up to which a column with gaps between them is proposed as a category."""
_OFTEN = 10
"""Cells for each of these numbers, at least."""
_ZEROS = 0.05
"""Share of zeros from which zero has a code of its own."""
_FREQUENT, _TIMES = 0.2, 3
"""Share of cells from which another number is named, and how many times as frequent as any other it must be."""
_CROWDED = 0.6
"""Share of cells in one bin from which bins of one width are too wide."""
_MOST_DECIMALS = 6
_EXACT = 2**53
_YEARS = (1850, 2150)
_FAR = 20 * 365 * 86_400
"""Seconds."""
_ID = {"id", "ids", "uuid", "guid"}
_NUMBER = {"nr", "no", "key", "code", "number", "num"}
_PERSON = {
    "surname", "firstname", "lastname", "forename", "email", "mail", "phone", "telephone", "mobile", "address", "street", "ssn",
    "passport", "iban",
}  # fmt: skip
_WHOSE = {"first", "last", "full", "given", "family", "maiden", "patient", "person", "customer", "client", "employee", "user"}
"""Words beside "name" that make it a person's."""
_TOTALS = {"total", "totals", "grand total", "sum", "summe", "gesamt", "insgesamt", "subtotal"}
_VALUES = {"na", "none", "null"}
"""Words for a missing value that may be values of a category."""
_NOTHING = {"unknown", "missing", "not available", "not known", "unbekannt", "k.a.", "keine angabe", "no data"}
_CODE_OF_NOTHING = re.compile(r"-(1|9+|8+|7+)|7{2,}|8{2,}|9{2,}|9*[78]")
_DROPPED_FIRST = ("log", "zero", "bins", "decimals", "special")


@dataclass
class Proposal:
    """What a draft says of a column.

    Args:
        facts: entries of the column that stand as they are.
        measured: entries that hold values of records.
        comments: sentences above the entry.
        choices: lines of another reading, which stand in the entry as comments.
        is_open: whether the choices are a question that no cell decides.
        drop: why the column is left out; empty: it is not.
        hint: what the data owner must do to the file.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    measured: dict[str, Any] = field(default_factory=dict)
    comments: list[str] = field(default_factory=list)
    choices: list[str] = field(default_factory=list)
    is_open: bool = False
    drop: str = ""
    hint: str = ""

    @property
    def text(self) -> str:
        """The [[column]] entry, with what is measured as comments."""
        first = [f"{key} = {toml(self.facts[key])}" for key in ("name", "kind", "format", "zone") if key in self.facts]
        rest = [f"{key} = {toml(value)}" for key, value in self.facts.items() if key not in ("name", "kind", "format", "zone")]
        measured = [f"# measured: {key} = {toml(value)}" for key, value in self.measured.items()]
        comments = [f"# {comment}" for comment in self.comments]
        return "\n".join([*comments, "[[column]]", *first, *measured, *(f"# {line}" for line in self.choices), *rest, ""])


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
    plain, groups = (seen.candidates.get(("number", Form(thousands=sign[0], decimal=sign[1]))) for sign in (("", "."), (".", ",")))
    fits = plain is not None and plain.cells >= SHARE * seen.cells > 0 and not plain.spread.is_whole
    return fits and (groups is None or groups.cells < plain.cells)


def proposed(seen: Portrait, habits: Habits) -> Proposal:
    """What to say of a column."""
    if seen.kind == "lists":
        return Proposal(drop="lists, structs or bytes, which no kind of column takes")
    if not seen.cells:
        return Proposal(drop="empty")
    best = best_candidate(seen, habits.groups)
    many = seen.different.number > max(FEW, seen.rows // 10)
    if not seen.is_unique and many and _says(seen.name, _ID):
        return Proposal(drop=f"an identifier in several rows, {seen.different.number:,} different ones; see units if it is a person")
    if habits.guessed and seen.is_clock:
        return Proposal(drop="times of day, of which a program may have guessed the type; as text (dtype=str) it can stay")
    if habits.guessed and seen.kind == "whole" and best is not None and best.kind == "date":
        best = seen.candidates["number", Form()]  # a card reads no date from a number that may have been guessed
    if best is None:
        proposal = _of_text(seen, habits)
    elif best.kind == "number":
        proposal = _of_numbers(seen, best, habits)
    else:
        proposal = {"date": _of_dates, "duration": _of_durations, "boolean": _of_booleans}[best.kind](seen, best)
    if not proposal.drop and proposal.facts["kind"] != "key":
        if best is not None and proposal.facts["kind"] != "category":
            _name_odd(proposal, seen, best)
            if seen.missing:
                proposal.facts["missing"] = True
        _make_acceptable(proposal)
    row, text = seen.last
    if text.strip().casefold() in _TOTALS:
        proposal.hint = f"Row {row}, the last, looks like a row of totals. Take it out of the file, else it counts as a record."
    return proposal


def best_candidate(seen: Portrait, groups: bool) -> Candidate | None:
    """The kind and form that nearly all cells fit; None: they are text. groups: whether a point may separate thousands."""
    enough = SHARE * seen.cells if seen.cells >= FEWEST else seen.cells
    fitting = [each for each in seen.candidates.values() if each.cells >= max(enough, 1) and _is_likely(each, seen)]
    return max(fitting, key=lambda each: _rank(each, groups), default=None)


def _is_likely(candidate: Candidate, seen: Portrait) -> bool:
    """Whether a fitting form is meant: 0 and 1 are no truth values, and 10000101 is no date."""
    lowest, highest = candidate.spread.lowest, candidate.spread.highest
    if candidate.kind == "boolean":
        return seen.kind == "boolean" or any(text.casefold() in TRUTH for text in seen.frequent.counts)
    if candidate.kind == "duration":
        return not seen.is_clock
    if candidate.kind == "date" and candidate.form == "%Y%m%d":
        years = lowest[0] / DAY / 365.25 + 1970, highest[-1] / DAY / 365.25 + 1970
        return _YEARS[0] <= years[0] and years[1] <= _YEARS[1]
    return candidate.kind != "number" or not _codes(seen, candidate)


def _rank(candidate: Candidate, groups: bool) -> tuple[int, int, int]:
    """The best candidate has the most cells. Of equal ones, it is the more special kind, then the more likely form."""
    form, kinds = candidate.form, ("number", "duration", "date", "boolean")
    if isinstance(form, Form):
        likely = 2 * (form.decimal == ("," if groups else ".")) + (not form.thousands)
    else:
        likely = int(candidate.is_monthly)
    return candidate.cells, kinds.index(candidate.kind), likely


def _codes(seen: Portrait, plain: Candidate) -> str:
    """What numbers would lose that are codes; empty: nothing."""
    for sign, odd in seen.codes.items():
        if sign != "a plus sign" or (plain.spread.lowest[0] >= 0 and 2 * odd.count >= seen.cells):
            return sign
    return "digits beyond 2^53" if plain.spread.is_whole and _size(plain) > _EXACT else ""


def _size(candidate: Candidate) -> float:
    return float(max(abs(candidate.spread.lowest[0]), abs(candidate.spread.highest[-1])))


# ------------------------------------------------------------------ kinds


def _of_booleans(seen: Portrait, _: Candidate) -> Proposal:
    return Proposal({"name": seen.name, "kind": "boolean"})


def _of_durations(seen: Portrait, best: Candidate) -> Proposal:
    low, high = np.floor(best.spread.lowest[0]), np.ceil(best.spread.highest[-1])
    ends = [durations.text(datetime.timedelta(seconds=end), None) for end in (low, high if high > low else low + 1)]
    return Proposal({"name": seen.name, "kind": "duration"}, {"bounds": ends})


def _of_dates(seen: Portrait, best: Candidate) -> Proposal:
    kind = "datetime" if best.has_time else "date"
    low, high = [*best.spread.lowest], [*best.spread.highest]
    apart = [low.pop(0)] if _is_far(low[0], low[1:], high[-1]) else []
    apart += [high.pop()] if _is_far(high[-1], high[-2:-1], low[0]) else []
    proposal = Proposal({"name": seen.name, "kind": kind}, {"bounds": _ends(low[0], high[-1], kind, best.form)})
    if apart:
        proposal.measured["special"] = [_ends(each - DAY, each, kind, best.form)[1] for each in apart]
        proposal.comments.append("Far from the rest, as dates for no answer are: those in special. They get codes of their own.")
    if best.form:
        proposal.facts["format"] = best.form
    if seen.zone:
        proposal.facts["zone"] = seen.zone
    digits = best.spread.digits
    if kind == "datetime" and digits != 0:
        proposal.facts["decimals"] = min(digits or _MOST_DECIMALS, _MOST_DECIMALS)
    others = [each for each in seen.candidates.values() if each.kind == "date" and each.form and each.cells == best.cells]
    for other in others if best.form else ():
        if other is not best and _parts(other) == _parts(best):
            first = "month" if best.form.find("%m") < best.form.find("%d") else "day"
            why = ", because all dates are then the first of a month" if best.is_monthly and not other.is_monthly else ""
            proposal.comments.append(f"Month or day first? No cell decides. The draft reads the {first} first{why}.")
            proposal.is_open = True
            proposal.choices += [f"format = {toml(other.form)}", f"bounds = {toml(_ends(other.spread.lowest[0], other.spread.highest[-1], kind, other.form))}"]
    if best.form == "%Y%m%d":
        ends = [int(f"{end:%Y%m%d}") for end in proposal.measured["bounds"]]
        proposal.comments.append("Whole numbers, which all are dates such as 20311224. If they are amounts or codes:")
        proposal.is_open = True
        proposal.choices += ['kind = "integer"', f"bounds = {toml(ends)}"]
    if best.has_offset or seen.zone:
        proposal.is_open = True
        where = f"in {seen.zone}" if seen.zone else "in UTC"
        proposal.comments.append(f"Times with a zone, read {where}. For the clock of another place, say zone = and bounds:")
        proposal.choices += [] if seen.zone else ['zone = "Europe/Berlin"']
    return proposal


def _parts(candidate: Candidate) -> list[str]:
    """The parts of a form, without their order."""
    return sorted(re.findall(r"%\w|[^%\w]", str(candidate.form)))


def _is_far(end: float, next_ones: list[float], other: float) -> bool:
    """Whether an end is years from the next date, and farther than the others are from one another."""
    return bool(next_ones) and abs(end - next_ones[0]) > max(_FAR, 2 * abs(next_ones[0] - other))


def _ends(low: float, high: float, kind: str, form: Form | str) -> list[datetime.date]:
    """The first and the last date or time, not the same. low, high: in seconds since 1970."""
    step = DAY if kind == "date" else max(times.step_of(str(form)), 1) if form else 1
    low, high = low // step * step, high // step * step if kind == "date" else np.ceil(high / step) * step
    ends = np.array([low if high > low else low - step, high]).astype("datetime64[s]").tolist()
    return [end.date() for end in ends] if kind == "date" else ends


def _of_numbers(seen: Portrait, best: Candidate, habits: Habits) -> Proposal:
    form, spread = best.form, best.spread
    assert isinstance(form, Form)
    if looks_like_key(seen, best):
        return _key(seen)
    counts, is_few = seen.frequent.counts, seen.frequent.is_exact and not best.odd.count
    kind = "integer" if spread.is_whole else "number"
    if is_few and len(counts) == 1:
        return _of_text(seen, habits)
    steps = None if spread.digits is None else round((spread.highest[-1] - spread.lowest[0]) * 10**spread.digits)
    has_gaps = is_few and (steps is None or 2 * len(counts) <= steps + 1)
    if has_gaps and len(counts) <= FEW and _OFTEN * len(counts) <= seen.cells:
        proposal = _of_text(seen, habits)
        proposal.comments.append(
            f"{len(counts)} numbers with gaps look like codes. If they are amounts, write kind = \"{kind}\" and bounds. "
            "If they are steps of a scale, add ordered = true."
        )
        return proposal
    proposal = Proposal({"name": seen.name, "kind": kind})
    digits = 0 if spread.is_whole else _MOST_DECIMALS if spread.digits is None else spread.digits
    if form.before or form.after or form.thousands or (form.decimal != habits.decimal and not spread.is_whole):
        written = Form(form.before, form.after, form.thousands, form.decimal, digits)
        proposal.facts["format"] = written.example
        _ask_separators(proposal, seen, best)
    elif kind == "number" and spread.digits is not None and spread.digits <= _MOST_DECIMALS:
        proposal.facts["decimals"] = spread.digits
        if steps is not None and steps < BINS:
            proposal.facts["bins"] = max(steps // 2, 1)  # so that each holds a value, however its edges are rounded
    _add_bins(proposal, seen, best)
    return proposal


def _ask_separators(proposal: Proposal, seen: Portrait, best: Candidate) -> None:
    """Name the other reading of numbers such as 1.234."""
    assert isinstance(best.form, Form)
    if best.form.thousands not in (".", ",") or not best.spread.is_whole:
        return
    other = Form(best.form.before, best.form.after, "", best.form.thousands)
    found = seen.candidates.get(("number", other))
    if found is not None and found.cells >= best.cells:
        sign, proposal.is_open = best.form.thousands, True
        proposal.comments.append(f"Is 1{sign}234 a thousand or a fraction? No cell decides. The draft reads thousands.")
        low, high = found.spread.lowest[0], found.spread.highest[-1]
        example = Form(other.before, other.after, "", other.decimal, 3).example
        proposal.choices += ['kind = "number"', f"format = {toml(example)}", f"bounds = {toml([float(low), float(high)])}"]


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
        proposal.comments.append(f"{_share(zeros)} of cells are 0: zero = true gives 0 a code of its own.")
    ends = [int(end) if is_whole else end for end in (low[0], high[-1])]
    proposal.measured["bounds"] = ends
    if special:
        proposal.measured["special"] = [int(value) if is_whole else value for value in sorted(special)]
        named = ", ".join(f"{value:g} ({seen.frequent.counts[value_key(seen, value)]:,} cells)" for value in special)
        proposal.comments.append(f"Apart from the rest, as codes for no answer are: {named}. They get codes of their own.")
    if wide:
        _look_for_skew(proposal, spread, ends, [*special, *([0.0] if "zero" in proposal.facts else [])], high)
        _name_frequent(proposal, seen, best, [*special, 0.0])


def _name_frequent(proposal: Proposal, seen: Portrait, best: Candidate, without: Collection[float]) -> None:
    """Name the most frequent number, where it is far more frequent than any other."""
    numbers = [(count, _number(best, value)) for value, count in seen.frequent.counts.items()]
    known = sorted((count, number) for count, number in numbers if number is not None and number not in without)
    (second, _), (most, number) = [(0, 0.0), (0, 0.0), *known][-2:]
    if most >= max(_FREQUENT * seen.cells, _TIMES * second):
        proposal.comments.append(f"{_share(most / seen.cells)} of cells are {number:g}: special = [{number:g}] keeps them apart.")


def value_key(seen: Portrait, number: float) -> Any:
    """The key of a number among the frequent values."""
    return next((key for key in seen.frequent.counts if _float(key) == number), None)


def _float(value: Any) -> float | None:
    try:
        return float(value)
    except ValueError:
        return None


def _number(best: Candidate, value: Any) -> float | None:
    return float(value) if not isinstance(value, str) else _float(value) if best.form == Form() else None


def _apart(seen: Portrait, low: list[float], high: list[float]) -> list[float]:
    """Take the numbers off both ends that stand for no answer, such as -999."""
    found: list[float] = []
    while len(low) > 1 and _is_apart(seen, low[0]) and (low[0] < 0 <= low[1] or low[1] - low[0] > abs(high[-1] - low[1])):
        found.append(low.pop(0))
    while len(high) > 1 and _is_apart(seen, high[-1]) and high[-1] - high[-2] > 0.5 * (high[-2] - low[0]):
        found.append(high.pop())
    return found


def _is_apart(seen: Portrait, number: float) -> bool:
    key = value_key(seen, number)
    return key is not None and seen.frequent.counts[key] > 1 and bool(_CODE_OF_NOTHING.fullmatch(f"{number:.0f}"))


def _share(share: float) -> str:
    return f"{share:.0%}".replace("%", " %") if share >= 0.01 else "Less than 1 %"


def _look_for_skew(
    proposal: Proposal, spread: Spread, ends: list[Any], without: Collection[float], high: list[float]
) -> None:
    """Propose bins that grow, where bins of one width hold nearly all cells in one."""
    equal = spread.shares(np.linspace(*ends, BINS + 1), without).max()
    if equal < _CROWDED:
        return
    far = len(high) > 1 and high[-1] - high[-2] > 2 * (high[-2] - ends[0])
    why = "The largest value lies far above all others" if far else f"{_share(equal)} of cells lie in one of {BINS} equal bins"
    if ends[0] > 0 and spread.shares(np.geomspace(*ends, BINS + 1), without).max() < equal:
        proposal.facts["log"] = True
        proposal.comments.append(f"{why}: log = true makes bins that grow. Or give a smaller upper bound with outside = \"clip\".")
        return
    proposal.comments.append(f"{why}: give narrower bounds with outside = \"clip\", or edges in place of bounds.")


# ------------------------------------------------------------------ text


def _of_text(seen: Portrait, habits: Habits) -> Proposal:
    rows, different = seen.cells, seen.different.number
    if _is_personal(seen.name) and different > FEW:
        return Proposal(drop=f"it tells who a person is, by its name: {different:,} different texts")
    if seen.is_unique and rows >= FEWEST:
        return _key(seen) if seen.is_word or seen.kind == "whole" else Proposal(drop="free text: each row has another")
    if different > min(MOST_VALUES, max(FEWEST, seen.rows // 2)):
        what = ("codes", "codes") if seen.is_word else ("free text", "texts")
        limit = f"; a draft lists at most {MOST_VALUES:,} values, and a card {MOST_CODES:,}" if different > MOST_VALUES else ""
        return Proposal(drop=f"{what[0]}: {different:,} different {what[1]} in {seen.rows:,} rows{limit if seen.is_word else ''}")
    counts = _values_of(seen, habits)
    listed = sorted((value for value in counts if is_text(value)), key=_sort_key)
    if not listed:
        return Proposal(drop="texts of several lines, or with signs that cannot be printed")
    proposal = Proposal({"name": seen.name, "kind": "category"}, {"values": listed})
    absent = sum(seen.words.values()) - sum(seen.words[word] for word in listed if word in seen.words)
    if seen.missing > sum(seen.words.values()) - absent:
        proposal.facts["missing"] = True
    if taken := [word for word in listed if word in seen.words]:
        proposal.comments.append(
            f"{_listed(taken)}: taken for values. If a value is missing there, take them out of values and say missing = true."
        )
    if ignored := [word for word in seen.words if word.casefold() in _VALUES and word not in listed]:
        proposal.comments.append(f"{_listed(ignored)}: taken for missing. If it is a value, add it to values.")
    if len(listed) < len(counts):
        proposal.facts["outside"] = OTHER
        proposal.comments.append(
            f"Values with line breaks or signs that cannot be printed: {len(counts) - len(listed)}. They become \"{OTHER}\"."
        )
    if seen.candidates and (best := max(seen.candidates.values(), key=lambda each: _rank(each, habits.groups))).cells:
        _say_why_text(proposal, seen, best)
    return proposal


def _say_why_text(proposal: Proposal, seen: Portrait, best: Candidate) -> None:
    """Say what a column would be, if it were not for its codes or for a part of its cells."""
    enough = best.cells >= SHARE * seen.cells
    if enough and best.kind == "number" and (sign := _codes(seen, best)):
        rows = _rows(seen.codes[sign]) if sign in seen.codes else ""
        proposal.comments.append(f"Codes, and no numbers: a number would lose {sign}{rows}.")
    elif not enough and 2 * best.cells >= seen.cells:
        what = {"number": "numbers", "date": "dates"}.get(best.kind, f"{best.kind}s")
        proposal.comments.append(f"{best.cells:,} of {seen.cells:,} cells are {what}, the others are not{_rows(best.odd)}.")


def _values_of(seen: Portrait, habits: Habits) -> dict[str, int]:
    """The values of a category, and how often each occurs."""
    counts = {str(value): count for value, count in seen.frequent.counts.items()}
    if seen.kind == "number":
        counts = {_plain(value): count for value, count in seen.frequent.counts.items()}
    kept = {word: count for word, count in seen.words.items() if word.casefold() in _VALUES and word not in habits.words}
    return counts | (kept if seen.kind == "text" and best_candidate(seen, habits.groups) is None else {})


def _plain(value: Any) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)


def _sort_key(text: str) -> tuple[bool, float, str]:
    number = _float(text)
    return number is None, number or 0.0, text


def looks_like_key(seen: Portrait, best: Candidate) -> bool:
    """Whether whole numbers look like identifiers: all differ, and they run, are dense, or are called so."""
    spread = best.spread
    if not spread.is_whole or best.odd.count or seen.cells < FEWEST or not seen.is_unique or best.form != Form():
        return False
    is_dense = spread.highest[-1] - spread.lowest[0] < 2 * seen.cells
    return best.is_run or is_dense or _says(seen.name, _ID | _NUMBER)


def _key(seen: Portrait) -> Proposal:
    return Proposal(
        {"name": seen.name, "kind": "key"},
        comments=["Each row has another value here. So it is not learnt, and samples get running numbers."],
    )


def _is_personal(name: str) -> bool:
    """Whether a column, by its name, tells who a person is."""
    return _says(name, _PERSON) or name.casefold() == "name" or (_says(name, {"name"}) and _says(name, _WHOSE))


def _says(name: str, words: Collection[str]) -> bool:
    """Whether one of these words is part of a name such as patient_id or patientId."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", name)
    return not {part.casefold() for part in parts}.isdisjoint(words) or name.casefold() in words


# ------------------------------------------------------------------ what does not fit


def _name_odd(proposal: Proposal, seen: Portrait, best: Candidate) -> None:
    """Name the cells that are not of the kind, and say what becomes of them."""
    if not best.odd.count:
        return
    what = {"number": "numbers", "date": "dates", "boolean": "truth values", "duration": "durations"}[best.kind]
    texts = [*best.odd.first]
    cells = f"Cells that are no {what}: {best.odd.count:,} of {seen.cells:,}{_rows(best.odd)}"
    if seen.frequent.is_exact and all(_means_nothing(text) for text in texts) and best.odd.count == _count(seen, texts):
        proposal.facts |= {"missing": True, "missing_words": sorted({text.casefold(): text for text in texts}.values())}
        proposal.comments.append(f"{cells}. They are taken for missing.")
    else:
        proposal.facts["outside"] = OTHER
        proposal.comments.append(f"{cells}. They become \"{OTHER}\". Mend them, or name words for missing: missing_words = [...].")


def _means_nothing(text: str) -> bool:
    return text.casefold() in _NOTHING or not any(map(str.isalnum, text))


def _count(seen: Portrait, texts: list[str]) -> int:
    return sum(seen.frequent.counts.get(text, 0) for text in texts)


def _rows(odd: Odd) -> str:
    """Where the first of some cells are."""
    rows = sorted(odd.first.values())
    if not rows:
        return ""
    more = ", such as" if odd.count > len(rows) else ","
    return f"{more} row{'s' if rows[1:] else ''} {', '.join(map(str, rows))} (counted from 0)"


def _listed(texts: list[str]) -> str:
    return ", ".join(map(toml, texts))


def _make_acceptable(proposal: Proposal) -> None:
    """Take away what a card would refuse. A column that stays refused is left out, with the reason."""
    entries = proposal.facts | proposal.measured
    for key in ("", *_DROPPED_FIRST):
        entries.pop(key, None)
        try:
            column_from(dict(entries))
        except CardError as error:
            proposal.drop = str(error).partition(": ")[2]
        else:
            proposal.drop = ""
            break
    proposal.facts = {name: value for name, value in proposal.facts.items() if name in entries}
    proposal.measured = {name: value for name, value in proposal.measured.items() if name in entries}


def reasons(proposals: dict[str, Proposal]) -> Iterator[str]:
    """What the data owner must do to the file, each once."""
    yield from dict.fromkeys(each.hint for each in proposals.values() if each.hint)
