"""Two guarantees of a federated run: against the server, which knows whom it asked, and against those who see the release only.

A client is one part of the draw (`secret_draw.py`) and adds its noise before anything leaves it. So:

- Against the server and the other clients nothing is amplified. A client has let out its own count of answers, each a Gaussian
  of multiplier noise_multiplier / sqrt(B). Its own ledger limits that count, whatever the server says.
- Against those who see the release only, an answer is of one of K clients, drawn in secret. K is at least `critics`, because
  the server draws only while so many are there.

The second needs draws on which nothing else depends. A client with a full ledger would refuse when drawn, which depends on
earlier draws. So the server takes no client that grants fewer answers than `enough`.
"""

from typing import Any

from scipy.stats import binom

from gossamer.errors import RequestError
from gossamer.privacy.accounting import cost, events
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE, Guarantee

SERVER, CLIENT = "server", "client"
CHANCE = 1e-18
"""With which the draw asks some client, at some time of the run, for more answers than it grants; in no figure."""
SPARE = 4
"""Answers that a client grants beyond that: a client that is killed loses the answer whose cost it has recorded."""

TRUST = {
    SERVER: (
        "federated: records never left their owners, and what left was noised there. The first figure takes for granted that "
        "the server kept its draws to itself, and that no client told when it was asked; the second, against the server, takes "
        "nobody for granted but the client's own machine and program, unchanged"
    ),
    CLIENT: (
        "federated: the records never left this client, and what left it was noised here. The figure holds against everybody, "
        "the server and all other clients among them. It takes for granted this program, unchanged, on a machine into which "
        "nobody else could look; the files cannot show that"
    ),
}
ENFORCED = "they train one critic, on the machine of their owner, and no other critic sees any of them"


def enough(*, answers: int, critics: int, clients: int) -> int:
    """Return how many answers each client must grant, so that a draw is never refused.

    It is the smallest n that all clients stay within but for a chance of `CHANCE`, and `SPARE` more. Of `clients` clients, at
    least `critics` (K) are there in each draw; `answers` (T) is that of the whole run.

    Raises:
        RequestError: if fewer clients are declared than the draw needs.
    """
    if clients < critics:
        raise RequestError(
            f"--critics {critics:,}: so many clients must be there at each step, and the card declares {clients:,} of them."
        )
    law = binom(answers, 1 / critics)
    low, high = 0, answers
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if clients * law.sf(middle) <= CHANCE else (middle + 1, high)
    return low + SPARE


def granted(settings: dict[str, Any]) -> int:
    """How many answers each client of a run grants, from all other settings: the stated figure is checked against it."""
    config = settings["config"]
    if settings["federated"]["role"] == CLIENT:
        return int(config["steps"])
    return enough(
        answers=config["steps"] * config["answers"], critics=config["critics"], clients=settings["card"]["declared_size"]
    )  # fmt: skip


def against_server(settings: dict[str, Any]) -> Guarantee:
    """Bound the loss to whoever knows that a client was asked: all the answers that it grants, unamplified."""
    config, answers = settings["config"], settings["federated"]["answers"]
    plan = events.plan_of(
        draw="round_robin",
        critics=1,
        batch_size=config["batch_size"],
        noise_multiplier=config["noise_multiplier"],
        steps=answers,
    )
    unit = settings["card"]["unit"]
    return cost.guarantee(plan, delta=settings["delta"], relation=ADD_OR_REMOVE_ONE, unit=unit)


def statement(settings: dict[str, Any]) -> str:
    """The second guarantee of a server's certificate, in a sentence to follow the first; of a client's, against whom it is."""
    if settings["federated"]["role"] == CLIENT:
        return " It holds against the server and everybody else: the noise was added before anything left this client."
    return (
        f" That is against those who see the release and nothing else. Against the server, which knows whom it asked, and the "
        f"other clients, who know that they were not asked: {against_server(settings)}, for the "
        f"{settings['federated']['answers']:,} answers that each client's own ledger allows at most."
    )


def views(settings: dict[str, Any], released: Guarantee) -> list[dict[str, str]]:
    """Both guarantees in words, each with whom it is against. released: what the ledger beside them promises."""
    if settings["federated"]["role"] == CLIENT:
        against = "everybody: the server, other clients, and those who see the release"
        return [{"against": against, "guarantee": str(released)}]
    return [
        {"against": "those who see the release and nothing else", "guarantee": str(released)},
        {"against": "the server and the other clients", "guarantee": str(against_server(settings))},
    ]


def assumptions(settings: dict[str, Any]) -> list[str]:
    """What a federated run takes for granted beyond a central one."""
    config, unit = settings["config"], settings["card"]["unit"]
    if settings["federated"]["role"] == CLIENT:
        return [f"all records of this {unit} are here, and no other client holds any of them"]
    return [
        f"at each step at least {config['critics']:,} clients would have answered if drawn, and who was there had nothing to "
        "do with anybody's records or with earlier draws: the draw is among so many at least, and a lost answer is not drawn "
        "again",
        f"no client's own ledger cut a draw short: each granted {settings['federated']['answers']:,} answers, and the chance "
        f"that a run of {config['steps'] * config['answers']:,} asks any for more is below {CHANCE:g}, which is in no figure",
        f"each client is one {unit}, and all that is known of that {unit} is in its records",
    ]
