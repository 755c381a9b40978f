"""What a draft says of a column of any kind."""

import re
from collections.abc import Callable
from functools import partial

from gossamer.data.card import is_text, toml
from gossamer.data.columns.column import MOST_CODES, OTHER, Column
from gossamer.data.columns.numbers import Form
from gossamer.data.columns.reading import Reader
from gossamer.data.columns.texts import TRUTH
from gossamer.data.tables.drafting.portrait import FEW, FEWEST, MOST_VALUES, NOTHING, SHARE, Candidate, Portrait
from gossamer.data.tables.drafting.proposal import Habits, Proposal
from gossamer.data.tables.drafting.sizes import of_dates, of_durations, of_numbers
from gossamer.errors import CardError
from gossamer.lazy import pa

_OFTEN = 10
"""Cells for each of the numbers of a category, at least."""
_PLURALS = {"number": "numbers", "duration": "durations", "date": "dates", "boolean": "truth values"}
_IDS = r"\b(ids?|uuid|guid)\b"
_NUMBERS = rf"{_IDS}|\b(nr|no|key|code|number|num)\b"
_PERSON = (
    r"\b(surname|forename|e ?mail|mail|phone|telephone|mobile|address|street|ssn|passport|iban|"
    r"(first|last|full|given|family|maiden|patient|person|customer|client|employee|user) ?name)\b|^name$"
)
_TOTAL = re.compile(r"(grand |sub)?totals?|sum|summe|(ins)?gesamt", re.IGNORECASE)
_WORD = re.compile(r"(?!-?inf)[^\d\n]+", re.IGNORECASE)
"""What a word of many cells may be, so that it stands for a missing value: no infinite number."""
_VALUES = {"na", "none", "null"}
"""Words for a missing value that may be values of a category."""
_GUESSED = "numbers or times in place of text, whose type a program may have guessed; as text (dtype=str) it can stay"
"""Why a column is left out whose type no run reads by its proposal."""
_DROPPED_FIRST = ("numbers", "log", "zero", "bins", "decimals", "special")
_in_order = partial(re.sub, r"(?<![.,\d])\d+", lambda digits: digits[0].zfill(20))
"""From a text to what sorts it, so that 9 is before 10."""


def proposed(seen: Portrait, habits: Habits) -> Proposal:
    """What to say of a column."""
    best = seen.best(habits.groups)
    if habits.guessed and seen.kind in ("whole", "number") and best is not None:
        best = seen.candidates["number", Form()]  # a card reads no date from a number that may have been guessed
    if best is not None and best.kind == "duration" and best.form and seen.is_exact and len(seen.counts) <= FEW:
        best = None  # a few times of day, such as those of shifts, are a category
    if reason := _reason_to_drop(seen, best, habits):
        return Proposal(drop=reason)
    if _is_key(seen, best):
        comment = "Each row has another value here. So it is not learnt, and samples get running numbers."
        return Proposal({"name": seen.name, "kind": "key"}, comments=[comment])
    if best is None or _are_codes(seen, best):
        proposal = _category(seen, best, habits)
    else:
        proposal = _PROPOSALS[best.kind](seen, best, habits)
        proposal.facts |= {"missing": True} if seen.rows > seen.cells else {}
        if best.odd.count:
            _name_odd(proposal, seen, best)
    _make_acceptable(proposal, seen, habits)
    row, text = seen.last
    if _TOTAL.fullmatch(text.strip()):
        proposal.hint = f"Row {row}, the last, looks like a row of totals. Take it out, else it counts as a record."
    return proposal


_PROPOSALS: dict[str, Callable[[Portrait, Candidate, Habits], Proposal]] = {
    "number": of_numbers,
    "date": of_dates,
    "duration": of_durations,
    "boolean": lambda seen, *_: _of_booleans(seen),
}


def _of_booleans(seen: Portrait) -> Proposal:
    words = [text for text in seen.counts if text.casefold() in TRUTH]
    form = "true" if all(map(str.islower, words)) else "TRUE" if all(map(str.isupper, words)) else ""
    return Proposal({"name": seen.name, "kind": "boolean"} | ({"format": form} if form else {}))


def _reason_to_drop(seen: Portrait, best: Candidate | None, habits: Habits) -> str:
    """Why a column is left out; empty: it is not."""
    if seen.kind == "lists":
        return "lists, structs or bytes, which no kind of column takes"
    if not seen.cells:
        return "empty"
    different = seen.different.number
    if seen.is_called(_IDS) and seen.different.repeats and different > max(FEW, seen.rows // 10):
        return f"an identifier in several rows, {different:,} different ones; see units if it is a person"
    if best is not None:
        return ""
    if seen.is_called(_PERSON) and different > FEW:
        return f"it tells who a person is, by its name: {different:,} different texts"
    if seen.each_differs:
        return "" if seen.is_word else "free text: each row has another"
    if seen.is_exact and different <= max(FEWEST, seen.rows // 2):
        return "" if any(map(is_text, seen.counts)) else "texts of several lines, or with signs that cannot be printed"
    what, texts = ("codes", "codes") if seen.is_word else ("free text", "texts")
    reasons = [f"{what}: {different:,} different {texts} in {seen.rows:,} rows", _partly(seen, habits)]
    if seen.is_word and different > MOST_VALUES:
        reasons.insert(1, f"a draft lists at most {MOST_VALUES:,} values, and a card {MOST_CODES:,}")
    return "; ".join(filter(None, reasons))


def _is_key(seen: Portrait, best: Candidate | None) -> bool:
    """Whether a column looks like an identifier: all cells differ, and numbers lie close together or are called so."""
    if not seen.each_differs or best is None:
        return seen.each_differs
    is_plain = best.form == Form() and best.spread.is_whole and not best.odd.count
    return is_plain and (best.spread.steps < 2 * seen.cells or seen.is_called(_NUMBERS))


def _are_codes(seen: Portrait, best: Candidate) -> bool:
    """Whether numbers look like codes: there is one, or they are few with gaps between them."""
    if best.kind != "number" or best.odd.count or not seen.is_exact or best.spread.is_beyond:
        return False
    few, different = min(FEW, max(seen.cells / _OFTEN, 1)), len(seen.counts)
    return different <= few and 2 * (different - 1) <= best.spread.steps


def _category(seen: Portrait, best: Candidate | None, habits: Habits) -> Proposal:
    may_be = {word for word in seen.words if word.casefold() in _VALUES}
    kept = may_be - habits.words if best is None else set()
    listed = sorted((text for text in {*seen.counts, *kept} if is_text(text)), key=_in_order)
    proposal = Proposal({"name": seen.name, "kind": "category"}, {"values": listed})
    if best is not None:
        listed.sort(key=dict(zip(listed, best.read(pa.array(listed))[0].tolist(), strict=True)).__getitem__)
        proposal.facts["numbers"] = True
    if seen.rows - seen.cells > sum(seen.words[word] for word in kept):
        proposal.facts["missing"] = True
    if kept:
        remedy = "If a value is missing there, take them out of values and say missing = true."
        proposal.say(f"{toml(sorted(kept))[1:-1]}: taken for values. {remedy}")
    if may_be - kept:
        proposal.say(f"{toml(sorted(may_be - kept))[1:-1]}: taken for missing. If it is a value, add it to values.")
    if others := len(seen.counts) + len(kept) - len(listed):
        proposal.facts["outside"] = OTHER
        what = "Values with line breaks or signs that cannot be printed"
        proposal.say(f'{what}: {others}. They become "{OTHER}".')
    if best is None and (partly := _partly(seen, habits)):
        proposal.say(f"Kept as text: {partly}.")
    if best is not None and len(listed) > 1:
        kind = "integer" if best.spread.is_whole else "number"
        proposal.say(
            f"{len(listed)} numbers with gaps look like codes. If they are steps of a scale, add ordered = true."
        )
        proposal.say(f'If they are amounts, write kind = "{kind}" and bounds.')
    return proposal


def _partly(seen: Portrait, habits: Habits) -> str:
    """That half of the cells or more are numbers or dates, and why they stay text; empty: it is not so."""
    best = seen.best(habits.groups, fitting=False)
    if best is None or 2 * best.cells < seen.cells:
        return ""
    if best.cells < SHARE * seen.cells:
        are = f"{best.cells:,} of {seen.cells:,} cells are {_PLURALS[best.kind]}"
        return f"{are}, the others are not{best.odd}"
    sign = seen.lost_by(best) if best.kind == "number" else ""
    return f"a number would lose {sign}{seen.codes.get(sign, '')}" if sign else ""


def _name_odd(proposal: Proposal, seen: Portrait, best: Candidate) -> None:
    """Name the cells that are not of the kind, and say what becomes of them."""
    cells = f"Cells that are no {_PLURALS[best.kind]}: {best.odd.count:,} of {seen.cells:,}{best.odd}"
    means_missing = NOTHING if best.cells >= SHARE * seen.cells else _WORD
    if best.odd.are_named and all(map(means_missing.fullmatch, best.odd.first)):
        words = {text.casefold(): text for text in best.odd.first}
        proposal.facts["missing"] = True
        proposal.measured["missing_words"] = sorted(words.values())
        proposal.say(f"{cells}. They are taken for missing.")
    else:
        proposal.facts["outside"] = OTHER
        remedy = "Mend them, or name words for missing: missing_words = [...]"
        proposal.say(f'{cells}. They become "{OTHER}". {remedy}.')


def _make_acceptable(proposal: Proposal, seen: Portrait, habits: Habits) -> None:
    """Take away what a card would refuse. A column that stays refused, or whose cells are, is left out with the reason."""
    for key in ("", *_DROPPED_FIRST):
        proposal.facts.pop(key, None)
        try:
            column = Column.from_dict(proposal.facts | proposal.measured)
        except CardError as error:
            proposal.drop = str(error).partition(": ")[2]
            continue
        reader = Reader(column, habits.decimal, guessed=habits.guessed)
        proposal.drop = _GUESSED if any(map(reader.refuses, seen.types)) else ""
        break
