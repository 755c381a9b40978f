"""The centre's side of a Flower app: the only place that loads Flower. It has the grid that a ServerApp is given.

Flower authenticates SuperNodes by their keys and says which are connected. A SuperNode has the name that the centre has given
its public key. Other SuperNodes take no part, even where the SuperLink lets them in.
"""

import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_public_key
from flwr.app import ConfigRecord, Message, Metadata, RecordDict
from flwr.app.message import make_message
from flwr.serverapp import Grid

from gossamer.data.source import Data
from gossamer.data.tables.any_card import load_card
from gossamer.errors import RequestError
from gossamer.methods.synthesizer import Synthesizer
from gossamer.run.federated import METHOD, centre
from gossamer.run.federated.clients import decide
from gossamer.run.federated.network import Network, Reply
from gossamer.run.federated.questions import NoReply
from gossamer.run.training.plan import plan
from gossamer.run.training.progress import DEFAULT, Process

SERVER_ID = 1
"""Node of the server; sites have others."""
QUERY, PART = "query.ask", "text"
"""Type and part of a message: the text of a question, and of its answer."""


class FlowerGrid(Network):
    """Flower's grid with the SuperNodes that have names. names: by public key, in the PEM form that Flower uses."""

    pause = 0.5

    def __init__(self, grid: Grid, names: Mapping[bytes, str]) -> None:
        self._grid, self._names = grid, names
        self._nodes: dict[str, int] = {}

    def present(self) -> Collection[str]:
        """A SuperNode that was killed counts until its heartbeat is missed, a minute at most."""
        nodes = self._grid.get_nodes()
        self._nodes = {self._names[node.public_key]: node.node_id for node in nodes if node.public_key in self._names}
        return self._nodes

    def exchange(self, texts: Mapping[str, str]) -> Iterator[tuple[str, Reply]]:
        run_id, ttl, names = self._grid.run.run_id, self.reply_timeout, [name for name in texts if name in self._nodes]
        sent = [message_to(self._nodes[name], texts[name], run_id=run_id, ttl=ttl) for name in names]
        ids = self._grid.push_messages(sent) if sent else []
        missing = {number: name for number, name in zip(ids, names, strict=True) if number}
        end = time.monotonic() + self.reply_timeout
        while missing and not self.stop and time.monotonic() < end:
            for reply in self._grid.pull_messages([*missing]):
                yield missing.pop(reply.metadata.reply_to_message_id), _text(reply)
            time.sleep(self.pause if missing else 0)


def message_to(node: int, text: str, *, run_id: int = 0, ttl: float = 60.0) -> Message:
    """A message that Flower lets expire after `ttl` seconds.

    Flower derives the id of a message from its content. Because of the random group, a site cannot guess the id of a message to
    another site, and cannot reply to it.
    """
    metadata = Metadata(
        run_id=run_id, message_id=uuid.uuid4().hex, src_node_id=SERVER_ID, dst_node_id=node, reply_to_message_id="",
        group_id=uuid.uuid4().hex, created_at=time.time(), ttl=ttl, message_type=QUERY,
    )  # fmt: skip
    return make_message(metadata=metadata, content=RecordDict({PART: ConfigRecord({PART: text})}))


def _text(message: Message) -> Reply:
    """What a message holds: a text, which may be empty."""
    if message.has_error():
        return NoReply(message.error.reason or "no reason given")
    record = message.content.get(PART)
    return str(record.get(PART)) if isinstance(record, ConfigRecord) else ""


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
        reply_timeout: seconds to wait for an answer of a client.
        wait: seconds to wait for enough clients, or for the answers to a query. A site without one is left out from then on.
        card: data card, which all sites have.
        out: run folder to write: new, or with a run of the same settings, which goes on.
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
    network = FlowerGrid(grid, names)
    network.reply_timeout, network.wait = reply_timeout, wait
    many = method == METHOD
    request = decide(declared, **(settings or {}), **budget) if many else plan(method, declared, settings, **budget)
    return centre.ask(
        request, sites=() if many else [*names.values()], out=out, public=public, seed=seed, accounts=accounts,
        network=network, process=process,
    )  # fmt: skip
