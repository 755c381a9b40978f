"""The server's side of a Flower app: the loop of `server.py` over the grid that a ServerApp is given.

Flower authenticates SuperNodes by their keys and says which are connected. A SuperNode has the name that the centre has given
its public key. Other SuperNodes take no part, even where the SuperLink lets them in.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key
from flwr.app import Message
from flwr.serverapp import Grid

from gossamer.data.source import Data
from gossamer.data.tables.any_card import load_card
from gossamer.errors import RequestError
from gossamer.methods.synthesizer import Synthesizer
from gossamer.run.federated import METHOD, centre
from gossamer.run.federated.rounds import NamedGrid
from gossamer.run.federated.server import decide, serve
from gossamer.run.training.plan import plan
from gossamer.run.training.progress import DEFAULT, Process


class FlowerGrid(NamedGrid):
    """Flower's grid with the SuperNodes that have names. names: by public key, in the PEM form that Flower uses."""

    pause = 0.5

    def __init__(self, grid: Grid, names: Mapping[bytes, str]) -> None:
        self.run_id = grid.run.run_id
        self._grid, self._names = grid, names

    def present(self) -> dict[str, int]:
        """A SuperNode that was killed counts until its heartbeat is missed, a minute at most."""
        nodes = self._grid.get_nodes()
        return {self._names[node.public_key]: node.node_id for node in nodes if node.public_key in self._names}

    def push_messages(self, sent: Iterable[Message]) -> list[str]:
        listed = list(sent)
        return list(self._grid.push_messages(listed)) if listed else []

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        numbers = list(message_ids)
        return list(self._grid.pull_messages(numbers)) if numbers else []


def read_sites(file: Path, *, most: int) -> dict[bytes, str]:
    """The name of each site by the public key of its SuperNode. A line is an OpenSSH public key, with the name as its comment.

    Args:
        file: the lines, as `ssh-keygen` writes them into `.pub` files.
        most: how many sites the card declares.

    Raises:
        RequestError: if a line has no key or no name, a key or a name comes twice, or there are more sites.
    """
    try:
        lines = [line.split(None, 2) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError):
        raise RequestError(f"`sites={file}` cannot be read.") from None
    names: dict[bytes, str] = {}
    for number, words in enumerate(lines, start=1):
        try:
            key = load_ssh_public_key(" ".join(words[:2]).encode())
            name = words[2].strip()
        except (ValueError, IndexError, UnsupportedAlgorithm):
            raise RequestError(
                f"`sites={file}`, key {number}: this is no OpenSSH public key with a name after it. "
                "Write `ecdsa-sha2-nistp384 AAAA... NAME`."
            ) from None
        pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        if pem in names or name in names.values():
            raise RequestError(
                f"`sites={file}`, key {number}: this key or name is there twice. Give each site its own."
            )
        names[pem] = name
    if len(names) > most:
        raise RequestError(
            f"`sites={file}` names {len(names):,} sites, and the card declares {most:,}: correct the card."
        )
    return names


def train(  # noqa: PLR0913 (its arguments are the options of a command)
    grid: Grid,
    *,
    sites: Path,
    resume: bool = False,
    reply_timeout: float = 60.0,
    wait: float = 600.0,
    card: Path,
    out: Path,
    accounts: Path | None = None,
    public: Data | None = None,
    seed: int = 0,
    method: str = METHOD,
    settings: Mapping[str, Any] | None = None,
    process: Process = DEFAULT,
    **budget: Any,
) -> Synthesizer:
    """Train with the records services of the sites, through their SuperNodes.

    Args:
        grid: of the ServerApp.
        sites: file with the OpenSSH public keys of the SuperNodes, with the name of a site after each.
        resume: continue the unfinished GS-WGAN run in `out`, with its own settings. Other methods always do.
        reply_timeout: seconds to wait for an answer of a client.
        wait: seconds to wait for enough clients, or for the answers to a query. A site without one is left out from then on.
        card: data card, which all sites have.
        out: see `run.training.fit.fit`.
        accounts: see `run.training.fit.fit`.
        public: see `run.federated.simulate.simulate`.
        seed: see `run.federated.simulate.simulate`.
        method: what is trained.
        settings: fields of the method's Config.
        process: what is shown while it trains.
        budget: epsilon, delta and preset, as `plan` takes them.

    Raises:
        RequestError: if the request is wrong; nothing has been written then.
    """
    declared: Any = load_card(card)
    names = read_sites(sites, most=declared.declared_size)
    named = FlowerGrid(grid, names)
    named.reply_timeout, named.wait = reply_timeout, wait
    given: dict[str, Any] = {"out": out, "public": public, "seed": seed, "process": process}
    if method != METHOD:
        request = plan(method, declared, settings, **budget)
        return centre.ask(request, sites=[*names.values()], send=named.ask, **given)
    decided = None if resume else decide(declared, **(settings or {}), **budget)
    return serve(named, decided, accounts=accounts, **given)
