"""What a draft says of a column of any kind."""

from gossamer.data.columns.column import OTHER, Column
from gossamer.data.columns.numbers import Form
from gossamer.data.tables.drafting.dates import of_dates, of_durations
from gossamer.data.tables.drafting.numbers import of_numbers
from gossamer.data.tables.drafting.portrait import Candidate, Portrait
from gossamer.data.tables.drafting.proposal import FEW, ID_WORDS, Habits, Proposal, best_candidate, says, which_rows
from gossamer.data.tables.drafting.text import of_text
from gossamer.errors import CardError

_TOTALS = {"total", "totals", "grand total", "sum", "summe", "gesamt", "insgesamt", "subtotal"}
_NOTHING = {"unknown", "missing", "not available", "not known", "unbekannt", "k.a.", "keine angabe", "no data"}
_DROPPED_FIRST = ("log", "zero", "bins", "decimals", "special")


def proposed(seen: Portrait, habits: Habits) -> Proposal:
    """What to say of a column."""
    if reason := _reason_to_drop(seen, habits):
        return Proposal(drop=reason)
    best = best_candidate(seen, habits.groups)
    if habits.guessed and seen.kind == "whole" and best is not None and best.kind == "date":
        best = seen.candidates["number", Form()]  # a card reads no date from a number that may have been guessed
    if best is None:
        proposal = of_text(seen, habits)
    elif best.kind == "number":
        proposal = of_numbers(seen, best, habits)
    elif best.kind == "boolean":
        proposal = Proposal({"name": seen.name, "kind": "boolean"})
    else:
        proposal = of_dates(seen, best) if best.kind == "date" else of_durations(seen, best)
    if not proposal.drop and proposal.facts["kind"] != "key":
        if best is not None and proposal.facts["kind"] != "category":
            _name_odd(proposal, seen, best)
            proposal.facts |= {"missing": True} if seen.missing else {}
        _make_acceptable(proposal)
    row, text = seen.last
    if text.strip().casefold() in _TOTALS:
        proposal.hint = (
            f"Row {row}, the last, looks like a row of totals. Take it out of the file, else it counts as a record."
        )
    return proposal


def _reason_to_drop(seen: Portrait, habits: Habits) -> str:
    """Why a column is left out, whatever its cells fit; empty: it is not."""
    if seen.kind == "lists":
        return "lists, structs or bytes, which no kind of column takes"
    if not seen.cells:
        return "empty"
    different = seen.different.number
    if not seen.is_unique and different > max(FEW, seen.rows // 10) and says(seen.name, ID_WORDS):
        return f"an identifier in several rows, {different:,} different ones; see units if it is a person"
    if habits.guessed and seen.is_clock:
        return "times of day, of which a program may have guessed the type; as text (dtype=str) it can stay"
    return ""


def _name_odd(proposal: Proposal, seen: Portrait, best: Candidate) -> None:
    """Name the cells that are not of the kind, and say what becomes of them."""
    if not best.odd.count:
        return
    what = {"number": "numbers", "date": "dates", "boolean": "truth values", "duration": "durations"}[best.kind]
    texts = [*best.odd.first]
    cells = f"Cells that are no {what}: {best.odd.count:,} of {seen.cells:,}{which_rows(best.odd)}"
    if seen.frequent.is_exact and all(_means_nothing(text) for text in texts) and best.odd.count == _count(seen, texts):
        proposal.facts |= {"missing": True, "missing_words": sorted({text.casefold(): text for text in texts}.values())}
        proposal.comments.append(f"{cells}. They are taken for missing.")
    else:
        proposal.facts["outside"] = OTHER
        proposal.comments.append(
            f'{cells}. They become "{OTHER}". Mend them, or name words for missing: missing_words = [...].'
        )


def _means_nothing(text: str) -> bool:
    return text.casefold() in _NOTHING or not any(map(str.isalnum, text))


def _count(seen: Portrait, texts: list[str]) -> int:
    return sum(seen.frequent.counts.get(text, 0) for text in texts)


def _make_acceptable(proposal: Proposal) -> None:
    """Take away what a card would refuse. A column that stays refused is left out, with the reason."""
    entries = proposal.facts | proposal.measured
    for key in ("", *_DROPPED_FIRST):
        entries.pop(key, None)
        try:
            Column.from_dict(dict(entries))
        except CardError as error:
            proposal.drop = str(error).partition(": ")[2]
        else:
            proposal.drop = ""
            break
    proposal.facts = {name: value for name, value in proposal.facts.items() if name in entries}
    proposal.measured = {name: value for name, value in proposal.measured.items() if name in entries}
