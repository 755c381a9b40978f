"""What a draft says of a column of text: a category, an identifier, or why it is left out."""

from gossamer.data.card import is_text, toml
from gossamer.data.columns.column import MOST_CODES, OTHER
from gossamer.data.columns.texts import text_of
from gossamer.data.tables.drafting.portrait import MOST_VALUES, Portrait
from gossamer.data.tables.drafting.proposal import (
    FEW,
    FEWEST,
    SHARE,
    Habits,
    Proposal,
    as_float,
    as_key,
    best_candidate,
    codes_of,
    rank,
    says,
    which_rows,
)

_PERSON = {
    "surname", "firstname", "lastname", "forename", "email", "mail", "phone", "telephone", "mobile", "address", "street", "ssn",
    "passport", "iban",
}  # fmt: skip
_WHOSE = {
    "first",
    "last",
    "full",
    "given",
    "family",
    "maiden",
    "patient",
    "person",
    "customer",
    "client",
    "employee",
    "user",
}
"""Words beside "name" that make it a person's."""
_VALUES = {"na", "none", "null"}
"""Words for a missing value that may be values of a category."""


def of_text(seen: Portrait, habits: Habits) -> Proposal:
    rows, different = seen.cells, seen.different.number
    if _is_personal(seen.name) and different > FEW:
        return Proposal(drop=f"it tells who a person is, by its name: {different:,} different texts")
    if seen.is_unique and rows >= FEWEST:
        return (
            as_key(seen) if seen.is_word or seen.kind == "whole" else Proposal(drop="free text: each row has another")
        )
    if different > min(MOST_VALUES, max(FEWEST, seen.rows // 2)):
        what = ("codes", "codes") if seen.is_word else ("free text", "texts")
        limit = (
            f"; a draft lists at most {MOST_VALUES:,} values, and a card {MOST_CODES:,}"
            if different > MOST_VALUES
            else ""
        )
        many = f"{what[0]}: {different:,} different {what[1]} in {seen.rows:,} rows"
        return Proposal(drop=f"{many}{limit if seen.is_word else ''}{_partly(seen, habits)}")
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
            f'Values with line breaks or signs that cannot be printed: {len(counts) - len(listed)}. They become "{OTHER}".'
        )
    best = max(seen.candidates.values(), key=lambda each: rank(each, habits.groups), default=None)
    if (
        best is not None
        and best.kind == "number"
        and best.cells >= SHARE * seen.cells
        and (sign := codes_of(seen, best))
    ):
        where = which_rows(seen.codes[sign]) if sign in seen.codes else ""
        proposal.comments.append(f"Codes, and no numbers: a number would lose {sign}{where}.")
    elif partly := _partly(seen, habits):
        proposal.comments.append(partly.removeprefix("; ") + ".")
    return proposal


def _is_personal(name: str) -> bool:
    """Whether a column, by its name, tells who a person is."""
    return says(name, _PERSON) or name.casefold() == "name" or (says(name, {"name"}) and says(name, _WHOSE))


def _partly(seen: Portrait, habits: Habits) -> str:
    """That half of the cells or more are numbers or dates, where too few are; empty: it is not so."""
    best = max(seen.candidates.values(), key=lambda each: rank(each, habits.groups), default=None)
    if best is None or not seen.cells <= 2 * best.cells < 2 * SHARE * seen.cells:
        return ""
    what = {"number": "numbers", "date": "dates"}.get(best.kind, f"{best.kind}s")
    return f"; {best.cells:,} of {seen.cells:,} cells are {what}, the others are not{which_rows(best.odd)}"


def _values_of(seen: Portrait, habits: Habits) -> dict[str, int]:
    """The values of a category, and how often each occurs."""
    counts = {text_of(value): count for value, count in seen.frequent.counts.items()}
    kept = {
        word: count for word, count in seen.words.items() if word.casefold() in _VALUES and word not in habits.words
    }
    return counts | (kept if seen.kind == "text" and best_candidate(seen, habits.groups) is None else {})


def _sort_key(text: str) -> tuple[bool, float, str]:
    number = as_float(text)
    return number is None, number or 0.0, text


def _listed(texts: list[str]) -> str:
    return ", ".join(map(toml, texts))
