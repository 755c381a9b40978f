"""What a run promises, in words: pure functions of its ledger and of its settings (`config.json`).

Nothing else flows into the words of a certificate, so that anyone who holds both can write it again and compare
(`certificate.rebuild`). Settings are plain JSON: the card is a dictionary here, because privacy/ does not import data/.
"""

import math
from typing import Any

from gossamer.privacy.guarantee import Guarantee
from gossamer.privacy.ledger import PrivacyLedger

MODEL = "model.safetensors"

NO_PUBLIC: dict[str, Any] = {"kind": "none"}
"""The public records of a run that has none, as the settings name them."""

_NOT_COVERED = (
    "metrics.json and attacks.json: they are computed on real records; publishing them, or choosing or stopping a run by "
    "them, is outside the guarantee",
    "checkpoint/: private state of the run, never to be handed out",
    "tensorboard/ and the times at which files were written: how long a step took depends on how many records were drawn",
    "the facts of the data card: they are assumptions that the curator declared public",
    "what others know already, and what follows from the population as a whole rather than from one unit's presence",
)


def statement(ledger: PrivacyLedger, settings: dict[str, Any], best: dict[str, Any]) -> str:
    """The first paragraph: the figure, whom it protects, and whom it does not."""
    if ledger.reasons:
        reasons = dict.fromkeys(ledger.reasons)  # a resumed run goes through the door again, for the same reason
        return f"No formal guarantee: epsilon is infinity, because {'; '.join(reasons)}."
    guarantee = Guarantee.from_json({key: best[key] for key in ("epsilon", "delta", "relation", "unit")})
    if math.isinf(guarantee.epsilon):
        return "No formal guarantee: epsilon is infinity, because this run was trained without noise."
    unit, part, given_up = guarantee.unit, "", ""
    if settings["public"]["kind"] == "share":
        part, share = " of the protected part", settings["public"]["share"]
        given_up = f" The {unit}s that were given up as public, about {share:.3g} of all, are NOT protected."
    return (
        f"Differentially private: {guarantee}. Whether any one {unit}{part} was in the data changes the chance of any "
        f"outcome by at most a factor e^epsilon, up to delta. Bound by the {best['accountant']} accountant for the whole "
        f"reserved plan.{given_up}"
    )


def covered(best: dict[str, Any], settings: dict[str, Any]) -> list[str]:
    """What the guarantee is about."""
    if math.isinf(float(best["epsilon"])):
        return [f"nothing: {MODEL} and its samples may reveal any record"]
    if settings["public"]["kind"] == "share":
        return [f"{MODEL}, and any number of samples drawn from it, for the {best['unit']}s of the protected part"]
    return [f"{MODEL}, and any number of samples drawn from it"]


def not_covered(settings: dict[str, Any]) -> list[str]:
    """What the guarantee is not about; those who are not protected come first."""
    unit = settings["card"]["unit"]
    whose = {
        "none": [],
        "records": [f"the public records, {settings['public'].get('name')}"],
        "share": [f"the {unit}s that were given up as public: the generator may reveal anything about them"],
    }[settings["public"]["kind"]]
    return [*whose, *_NOT_COVERED]


def public_data(settings: dict[str, Any]) -> str:
    """The public records of the run, in one phrase."""
    public, unit = settings["public"], settings["card"]["unit"]
    match public["kind"]:
        case "records":
            return f"{public['name']} ({public['count']:,} records, not protected)"
        case "share":
            return f"about {public['share']:.3g} of the {unit}s, split off the data before the run, not protected"
        case _:
            return "none"


def adds_up(settings: dict[str, Any]) -> str:
    """That budgets add up, and what the account book knew when the run began. The book itself is private."""
    known = settings.get("accounts")
    said = "Every other run on the same records adds to this figure, whoever made it."
    if known is None:
        return f"{said} This run was entered in no account book."
    count = known["earlier_runs"]
    if count == 0:
        return f"{said} When this run began, its account book held no earlier run on this data set."
    sum_ = Guarantee.from_json(known["together"])
    runs = "one earlier run" if count == 1 else f"{count:,} earlier runs"
    return f"{said} When this run began, its account book held {runs} on this data set: together with this one, {sum_}."


def assumptions(settings: dict[str, Any], *, proved: bool) -> list[str]:
    """What a run takes for granted; with a guarantee, also what its proof does."""
    card = settings["card"]
    unit, prior = card["unit"], card["label_prior"]
    prior = prior if prior == "uniform" else ", ".join(f"{share:g}" for share in prior)
    facts = [
        f"declared size: {card['declared_size']:,} {unit}s",
        f"shape {' x '.join(map(str, card['shape']))}, {card['classes']} classes, label prior {prior}",
        f"one {unit} is one entry of the data: nobody is in it under two names",
    ]
    entropy = "the machine's operating system gives true entropy; the proofs assume arithmetic on real numbers"
    return [*facts, entropy] if proved else facts
