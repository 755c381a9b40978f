"""The entries of a certificate that cannot be recomputed: the data owner declares them when a release is made.

Gossamer checks their format, not their truth. A signature (`gossamer sign`) shows who vouches for them.
"""

import datetime
from collections.abc import Iterable, Mapping
from typing import Any

from gossamer.errors import RequestError, did_you_mean

NOT_DECLARED = "not declared"
NOT_RUN = "not run"
_LONGEST = 1_000  # letters of an answer

QUESTIONS = {
    "made_by": "who made this release, and for whom",
    "contact": "whom to ask, and to whom to report a mistake",
    "intended_use": "what the release is for",
    "licence": "under which terms others may use it: an SPDX identifier such as CC-BY-4.0, or an address",
    "region": "which region the records describe, and whose law applies",
    "sector": "Technology, Healthcare, Education, Government, Energy or Finance",
    "expires": "the last day on which to use this release without asking for a newer one: YYYY-MM-DD",
    "data_version": "which version of the records: a name or an export date that may be public",
    "epsilon_chosen": "why this epsilon, and who chose it",
    "settings_chosen": "how the settings were chosen: before, public, counted or uncounted",
    "person_bounded": "how many records one person can have, and how that was ensured",
    "public_records": "where the public records come from, under which terms, and whether they are public to everyone",
    "public_tuned": "whether the public records were chosen next to records like the private ones: no, yes or unknown",
    "pretrained": "what pretrained encoders and generators learnt from, and whether private records may be among it",
    "baseline": "what the public inputs alone achieve (epsilon 0), if that was measured on public records",
    "previous_releases": "what was released from these records before",
    "audited": "the lower bound on epsilon that an audit measured; a low value proves nothing",
}
"""Each entry that a data owner may declare, and what it answers."""

ATTACKS = {
    "membership_inference": "Was a given record used?",
    "attribute_inference": "Can unknown facts about a partly known person be inferred?",
    "exfiltration": "Can records be extracted from the model with queries?",
    "regurgitation": "Does the model output copies of records by itself?",
    "model_inversion": "Can a typical record of a person be made from the model?",
    "reconstruction": "Can records be rebuilt from what was released?",
}
"""The attacks that the European Data Protection Board names (Opinion 28/2024 on AI models), and what each asks."""

CHOICES = {
    "settings_chosen": {
        "before": "They were fixed before anyone looked at these records.",
        "public": "They were chosen on public records.",
        "counted": "They were chosen with runs on these records, and the budget log counts all of these runs.",
        "uncounted": "They were chosen by looking at these records outside any budget. No figure here counts that.",
    },
    "public_tuned": {
        "no": "They were chosen without records like the private ones.",
        "yes": "They were chosen next to records like the private ones. No epsilon counts what that may reveal.",
        "unknown": "It is not known whether they were chosen next to records like the private ones.",
    },
    "sector": {name: name for name in ("Technology", "Healthcare", "Education", "Government", "Energy", "Finance")},
}
"""Entries with a choice of answers, and the sentence for each answer."""


def nothing_declared() -> dict[str, Any]:
    """Return the entry of a certificate without any declaration and without any attack."""
    return {**dict.fromkeys(QUESTIONS, NOT_DECLARED), "attacked": dict.fromkeys(ATTACKS, NOT_RUN)}


def questions(public_inputs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the questions that a run raises: those about public inputs only where it had some (`facts.public_inputs`)."""
    entries = {entry for each in public_inputs for entry in each}
    raised = {"pretrained": "weights", "public_records": "records", "public_tuned": "records", "baseline": "what"}
    return [name for name in QUESTIONS if raised.get(name) in (None, *entries)]


def in_words(declared: Mapping[str, Any]) -> dict[str, str]:
    """Return the answers to the questions, each in words, without those that are not declared."""
    answers = ((name, declared[name]) for name in QUESTIONS)
    return {name: CHOICES.get(name, {}).get(said, said) for name, said in answers if said != NOT_DECLARED}


def declare(answers: Mapping[str, Any], *, where: str) -> dict[str, Any]:
    """Return the entry of a certificate from a data owner's answers; a missing answer is "not declared", or "not run".

    Args:
        answers: some of `QUESTIONS`, and "attacked": some of `ATTACKS`.
        where: the answers come from, for the message.

    Raises:
        RequestError: an unknown entry, or an answer of the wrong form. Names the entry, and the nearest one.
    """
    entries = dict(answers)
    attacked = entries.pop("attacked", {})
    if not isinstance(attacked, dict):
        raise RequestError(f"{where}: attacked is a table of attacks, [attacked], with a line for each.")
    for name in entries:
        _refuse_unknown(name, QUESTIONS, where)
    for name in attacked:
        _refuse_unknown(name, ATTACKS, f"{where}, [attacked]")
    declaration = nothing_declared()
    for name, value in entries.items():  # TOML has days of its own
        declaration[name] = value.isoformat() if type(value) is datetime.date else value
    declaration["attacked"].update(attacked)
    if problem := what_is_wrong(declaration):
        raise RequestError(f"{where}: {problem}.")
    return declaration


def what_is_wrong(declared: Any) -> str:
    """Say why this is not the entry `declared` of a certificate, in one phrase; empty if it is."""
    if not isinstance(declared, dict) or declared.keys() != nothing_declared().keys():
        return "the declared entries are not those of a certificate"
    attacked = declared["attacked"]
    if not isinstance(attacked, dict) or attacked.keys() != ATTACKS.keys():
        return "the attacks are not those that a certificate names"
    for name, answer in {**declared, **attacked}.items():
        line = isinstance(answer, str) and answer.strip() and answer.isprintable() and len(answer) <= _LONGEST
        if name != "attacked" and not line:
            return f"{name} must be one line of text of at most {_LONGEST:,} letters"
    for name, choices in CHOICES.items():
        if declared[name] not in (*choices, NOT_DECLARED):
            return f"{name} must be one of {', '.join(choices)}"
    if declared["expires"] != NOT_DECLARED and not is_date(declared["expires"]):
        return "expires must be a day of the form YYYY-MM-DD"
    return ""


def is_past(declared: Mapping[str, Any], today: str) -> bool:
    """Return whether the last day on which a release is to be used is past; False where none is declared."""
    last = str(declared.get("expires"))
    return is_date(last) and last < today


def is_date(text: Any) -> bool:
    """Return whether this is a day in the form of ISO 8601."""
    try:
        return isinstance(text, str) and datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _refuse_unknown(name: str, allowed: Mapping[str, str], where: str) -> None:
    if name not in allowed:
        raise RequestError(f"{where}: {name!r} is unknown.{did_you_mean(name, allowed)} Known: {', '.join(allowed)}.")
