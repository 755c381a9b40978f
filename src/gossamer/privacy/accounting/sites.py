"""A federation of few: each site adds its own whole noise to each query, and the centre adds up noisy answers.

A unit is at one site, and moves that site's answers alone. So whoever sees all answers, the centre included, learns of the unit
what the site's own plan allows: the plan of one site, as the records of other sites are disjoint (parallel composition). Later
queries depend on earlier answers of all sites. Given the answers of the others, that is adaptive composition at one site.
A unit at two sites moves the answers of both, whose noise is independent: the plan counts twice.
"""

import math
from typing import Any

from gossamer.privacy.accounting import cost
from gossamer.privacy.guarantee import Guarantee
from gossamer.privacy.ledger import PrivacyLedger

CENTRE, SITE = "centre", "site"
TRUST = {
    CENTRE: (
        "Federated model: the records never left their sites. Each site added its own whole noise to every answer, and "
        "recorded the cost in its own ledger. The guarantee is against everyone, including this centre and the other sites. It "
        "assumes that the site of a unit ran this program, unchanged, on a machine that no one else could look into. The "
        "files cannot show that."
    ),
    SITE: (
        "Federated model: the records never left this site, which added its own whole noise to every answer. The guarantee is "
        "against everyone, including the centre and all other sites. It assumes that this site ran this program, unchanged, "
        "on a machine that no one else could look into. The files cannot show that."
    ),
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
