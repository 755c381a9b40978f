"""What nobody can recompute: the curator declares it as a release is made, and a certificate says that it was declared.

Of these entries only the form is checked. A signature (`gossamer sign`) says who stands for them.
"""

import datetime
from collections.abc import Mapping
from typing import Any

from gossamer.errors import RequestError, did_you_mean

NOT_DECLARED = "not declared"
NOT_RUN = "not run"
_LONGEST = 1_000  # letters of an answer

QUESTIONS = {
    "made_by": "who made this release, and for whom",
    "contact": "whom to ask, and whom to tell of a mistake",
    "expires": "the day after which this release should be asked for anew: YYYY-MM-DD",
    "data_version": "which version of the records: a name or a day of export that may be public",
    "settings_chosen": "how the settings were chosen: before, public, counted or uncounted",
    "person_bounded": "what one person can have in the records, and how that was made sure",
    "public_records": "where the public records come from, under which terms, and whether they are public to everyone",
    "public_tuned": "whether the public records were chosen beside records like the private ones: no, yes or unknown",
    "baseline": "what the public inputs alone give (epsilon 0), if that was measured on public records",
    "previous_releases": "what was released from these records before",
    "audited": "what an audit measured from below, at this epsilon; a low value proves nothing",
}
"""Each entry that a curator may declare, and what it answers."""

ATTACKS = {
    "membership_inference": "was a given record used?",
    "attribute_inference": "what else is so of somebody of whom a part is known?",
    "exfiltration": "can records be drawn out of the model by asking it?",
    "regurgitation": "does it hand out copies of records by itself?",
    "model_inversion": "can a typical record of somebody be made from the model?",
    "reconstruction": "can records be put together from what was released?",
}
"""The attacks that the European Data Protection Board names (Opinion 28/2024 on AI models), and what each asks."""

CHOICES = {
    "settings_chosen": {
        "before": "They were fixed before anybody looked at these records.",
        "public": "They were chosen on public records or stand-ins.",
        "counted": "They were chosen by runs on these records, and the account book counts all of these.",
        "uncounted": "They were chosen by looking at these records outside any budget. No figure here counts that.",
    },
    "public_tuned": {
        "no": "They were chosen without records like the private ones.",
        "yes": "They were chosen beside records like the private ones. What they bring with them is not in any epsilon.",
        "unknown": "Whether they were chosen beside records like the private ones is not known.",
    },
}
"""Entries with a choice of answers, and the sentence that each stands for."""


def nothing_declared() -> dict[str, Any]:
    """The entry of a certificate for which nobody has declared anything, and which nobody has attacked."""
    return {**dict.fromkeys(QUESTIONS, NOT_DECLARED), "attacked": dict.fromkeys(ATTACKS, NOT_RUN)}


def declare(answers: Mapping[str, Any], *, where: str) -> dict[str, Any]:
    """The entry of a certificate from a curator's answers; what is left out is "not declared", or "not run".

    answers: some of `QUESTIONS`, and "attacked": some of `ATTACKS`. where: they come from, for the message.

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
    declaration.update({name: _text(value) for name, value in entries.items()})
    declaration["attacked"].update(attacked)
    if problem := what_is_wrong(declaration):
        raise RequestError(f"{where}: {problem}.")
    return declaration


def what_is_wrong(declared: Any) -> str:
    """Why this is no such entry of a certificate, in one phrase; empty if it is one."""
    # Older entries have no "audited".
    if not isinstance(declared, dict) or declared.keys() | {"audited"} != nothing_declared().keys():
        return "what is declared has other entries than a certificate has"
    attacked = declared["attacked"]
    if not isinstance(attacked, dict) or attacked.keys() != ATTACKS.keys():
        return "what was attacked is said of other attacks than a certificate names"
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


def is_date(text: Any) -> bool:
    """Whether this is a day as ISO 8601 writes it."""
    try:
        return isinstance(text, str) and datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _text(value: Any) -> Any:
    """TOML has days of its own."""
    return value.isoformat() if type(value) is datetime.date else value


def _refuse_unknown(name: str, allowed: Mapping[str, str], where: str) -> None:
    if name not in allowed:
        raise RequestError(f"{where}: {name!r} is unknown.{did_you_mean(name, allowed)} Known: {', '.join(allowed)}.")
