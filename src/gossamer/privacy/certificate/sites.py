"""A federation of few: each site adds its own whole noise to each query, and the centre adds up noisy answers.

A unit is at one site, and moves that site's answers alone. So whoever sees all answers, the centre included, learns of the unit
what the site's own plan allows: the plan of one site, as the records of other sites are disjoint (parallel composition). Later
queries depend on earlier answers of all sites. Given the answers of the others, that is adaptive composition at one site.
A unit at two sites moves the answers of both, whose noise is independent: the plan counts twice.

What the sites have shown, their ledgers, lies in `sites.json` beside the ledger of the centre.
"""

import json
import math
import tempfile
from pathlib import Path
from typing import Any

from gossamer.errors import LedgerDamaged
from gossamer.files import SITES
from gossamer.privacy.accounting import cost, federated
from gossamer.privacy.guarantee import Guarantee
from gossamer.privacy.ledger import PrivacyLedger, merge

CENTRE, SITE = "centre", "site"
TRUST = {
    CENTRE: (
        "Federated model: the records never left their sites. Each site added its own whole noise to every answer, and "
        "recorded the cost in its own ledger. The guarantee is against everyone, including this centre and the other sites. It "
        "assumes that the site of a unit ran this program, unchanged, on a machine that no one else could look into. The "
        "files cannot show that."
    ),
    SITE: federated.TRUST[federated.CLIENT].replace("server", "centre").replace("client", "site"),
}


def of_sum(noise_multiplier: float, sites: int) -> float:
    """Return the noise multiplier of a sum of so many answers, each with this noise of its own."""
    return noise_multiplier * math.sqrt(sites)


def at_two(ledger: PrivacyLedger) -> Guarantee:
    """Return the guarantee of a unit whose records are at two sites: both plans together."""
    plan = [(event, 2 * count) for event, count in ledger.plan]
    return cost.guarantee(plan, delta=ledger.delta, relation=ledger.relation, unit=ledger.unit)


def statement(ledger: PrivacyLedger, settings: dict[str, Any]) -> str:
    """Say against whom the guarantee is, and what each site's ledger says."""
    if settings["federated"]["role"] == SITE:
        return " It holds against everyone, because this site added the noise before it sent an answer."
    names, count = settings["federated"]["sites"], sum(count for _, count in ledger.plan)
    told = [f"{name} {ledger.sites.get(name, {}).get('answers', 0)} of {count}" for name in names]
    return (
        f" It holds against everyone, the centre included, for each of {len(names)} sites: each added its own noise, and its "
        f"own ledger reserves this plan. Answers that count here: {', '.join(told)}. For a {ledger.unit} at two sites: "
        f"{at_two(ledger)}."
    )


def assumptions(settings: dict[str, Any]) -> list[str]:
    """List what the certificate of a centre assumes beyond that of a central run."""
    return [
        f"the records of a {settings['card']['unit']} are at one site, or the figure for two sites holds",
        "an answer that a messenger has altered to other finite numbers cannot be told from a true one. It can spoil the "
        "generator, and costs no privacy",
    ]


def read_ledger(text: str) -> PrivacyLedger:
    """The ledger in a text. Raises LedgerDamaged."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ledger.jsonl"
        file.write_text(text)
        return PrivacyLedger.load(file)


def problem_of(name: str, text: Any, own: PrivacyLedger) -> str:
    """Why a site's ledger does not reserve the plan of the centre; empty: it does.

    Args:
        name: of the site.
        text: its ledger.
        own: the ledger of the centre.
    """
    try:
        ledger = read_ledger(text)
    except (TypeError, LedgerDamaged):
        return f"{SITES}: what {name} has shown is no ledger."
    whose = ledger.unit, ledger.relation, ledger.delta
    if ledger.reasons or whose != (own.unit, own.relation, own.delta) or merge(ledger.plan) != merge(own.plan):
        return f"{SITES}: the ledger of {name} does not reserve the plan of this run."
    return ""


def problems(folder: Path, settings: dict[str, Any], own: PrivacyLedger) -> list[str]:
    """What is wrong with the ledgers that a centre has noted, each in a sentence."""
    try:
        shown = json.loads((folder / SITES).read_bytes())
        ledgers = {name: read_ledger(shown[name]) for name in own.sites}
    except (OSError, KeyError, TypeError, ValueError, LedgerDamaged):
        return [f"{SITES} is missing, or does not hold the ledgers of the sites."]
    found = [problem_of(name, shown[name], own) for name in own.sites]
    for name, noted in own.sites.items():
        ledger = ledgers[name]
        if [ledger.lines, ledger.last_hash] != [noted["lines"], noted["last_hash"]]:
            found.append(f"{SITES}: the ledger of {name} is not the one that the ledger of the centre notes.")
        if sum(ledger.used) < noted["answers"]:
            found.append(f"{SITES}: the ledger of {name} records fewer queries than answers of it count.")
    if set(shown) != set(own.sites) or not set(shown) <= set(settings["federated"]["sites"]):
        found.append(f"{SITES} names other sites than the ledger.")
    return [each for each in found if each]
