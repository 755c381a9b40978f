"""Two guarantees of a federated run: against the server, which knows whom it asked, and against recipients of the release.

The server picks one client at random for each answer (`secret_draw.py`). The client adds its noise before the answer leaves.

- Against the server and the other clients, sampling amplifies nothing. A client has sent a number of answers. Each is a
  Gaussian mechanism with multiplier noise_multiplier / sqrt(B). The client's own ledger limits that number.
- Against recipients of the release, an answer comes from one of K clients, picked in secret. K is at least `critics`, because
  the server picks only while so many clients are connected.

The second guarantee needs picks that depend on nothing else. A client with a full ledger would refuse, which depends on
earlier picks. So the server accepts no client that grants fewer answers than `enough`.
"""

from typing import Any

from scipy.stats import binom

from gossamer.errors import RequestError
from gossamer.privacy.accounting import cost, events
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE, Guarantee

SERVER, CLIENT = "server", "client"
CHANCE = 1e-18
"""That a run asks any client for more answers than it grants. No figure counts this chance."""
SPARE = 4
"""Further answers that a client grants: a client that is killed loses the answer whose cost it has recorded."""

TRUST = {
    SERVER: (
        "Federated model: the records never left their owners, who added noise to every answer. The first guarantee assumes "
        "that the server kept secret whom it asked, and that no client revealed when it was asked. The second, against the "
        "server, assumes only that the client's own machine ran this program, unchanged."
    ),
    CLIENT: (
        "Federated model: the records never left this client, which added noise to every answer. The guarantee is against "
        "everyone, including the server and all other clients. It assumes that this client ran this program, unchanged, on a "
        "machine that no one else could look into. The files cannot show that."
    ),
}
ENFORCED = "they train one critic on the machine of their owner, and no other critic sees them"


def enough(*, answers: int, critics: int, clients: int) -> int:
    """Return how many answers each client must grant, so that a draw is never refused.

    It is the smallest n that all clients stay within but for a chance of `CHANCE`, and `SPARE` more. Of `clients` clients, at
    least `critics` (K) are there in each draw; `answers` (T) is that of the whole run.

    Raises:
        RequestError: if fewer clients are declared than the draw needs.
    """
    if clients < critics:
        raise RequestError(
            f"`critics={critics:,}`: so many clients must be there at each step, and the card declares {clients:,} of them."
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
    """Bound the loss against those who know that a client was asked: all answers that it grants, without amplification."""
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
    """Write the second guarantee of a server's certificate; for a client, say against whom its guarantee is."""
    if settings["federated"]["role"] == CLIENT:
        return " It holds against the server and everyone else, because this client added the noise before it sent an answer."
    return (
        f" This guarantee is against those who see the release and nothing else. Against the server, which knows whom it "
        f"asked, and the other clients, who know that they were not asked: {against_server(settings)}. It counts the "
        f"{settings['federated']['answers']:,} answers that each client's own ledger allows."
    )


def views(settings: dict[str, Any], released: Guarantee) -> list[dict[str, str]]:
    """List the guarantees in words, each with whom it is against. released: the guarantee of the ledger."""
    if settings["federated"]["role"] == CLIENT:
        against = "everyone: the server, other clients, and those who see the release"
        return [{"against": against, "guarantee": str(released)}]
    return [
        {"against": "those who see the release and nothing else", "guarantee": str(released)},
        {"against": "the server and the other clients", "guarantee": str(against_server(settings))},
    ]


def assumptions(settings: dict[str, Any]) -> list[str]:
    """List what a federated run assumes beyond a central run."""
    config, unit = settings["config"], settings["card"]["unit"]
    if settings["federated"]["role"] == CLIENT:
        return [f"all records of this {unit} are here, and no other client holds any of them"]
    return [
        f"at each step at least {config['critics']:,} clients were connected, and each adds its noise if it answers. Which "
        "clients were connected, and which answered, did not depend on records or on earlier picks. The server replaced a "
        "lost answer by noise alone",
        f"no client's own ledger refused an answer: each granted {settings['federated']['answers']:,} answers. The chance that "
        f"a run of {config['steps'] * config['answers']:,} answers asks any client for more is below {CHANCE:g}. No figure "
        "counts this chance",
        f"each client is one {unit}, and it holds all records of that {unit}",
    ]
