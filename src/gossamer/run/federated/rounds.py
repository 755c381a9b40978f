"""The rounds of a federated run, on the server: clients train and answer, within a time-out. What they send is checked here.

Flower's own simulation runs each message in a process of a Ray pool. A client would have to load its critic and its ledger from
disk for every round. Here all clients stay in memory, one after the other. The bytes of the messages are those on a network.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from flwr.app import Message, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor

from gossamer.errors import TooFewClients
from gossamer.methods.common.adversarial import Fakes
from gossamer.methods.contract import Run
from gossamer.methods.gs_wgan import Config
from gossamer.privacy.confined import FIXED_SEED
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.run.federated import messages
from gossamer.run.federated.messages import reason_of
from gossamer.run.federated.questions import Malformed

LONGEST_NOISE = 9.0
"""Standard deviations. A number of honest noise is larger with probability 1 in 4e18."""


class NamedGrid(ABC):
    """The clients that can be reached now, each under the name that it has proved. The methods are those of Flower's `Grid`."""

    run_id = 0
    """Of Flower's run, in each message."""
    pause = 0.1
    """Seconds between two looks for replies or clients."""
    reply_timeout = 60.0
    """Seconds that the reply of a client may take in a round."""
    wait = 600.0
    """Seconds for which too few clients are waited for."""

    @abstractmethod
    def present(self) -> dict[str, int]:
        """Name and node of each client that can be reached now."""

    @abstractmethod
    def push_messages(self, sent: Iterable[Message]) -> list[str]:
        """Send. Gives the ids of the messages, in order; an empty one for a message that could not be sent."""

    @abstractmethod
    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """The replies that have come to these, each once."""

    def exchange(self, sent: Mapping[str, Message]) -> list[tuple[str, Message]]:
        """Send a message to each client, and wait for the replies, at most `reply_timeout` seconds. Both go by clients' names.

        A reply belongs to the client that was sent the message. Its own metadata do not count.
        """
        missing = dict(zip(self.push_messages(sent.values()), sent, strict=True))
        missing.pop("", None)
        replies: list[tuple[str, Message]] = []
        end = time.monotonic() + self.reply_timeout
        while missing:
            new = self.pull_messages(missing)
            replies += [(missing.pop(reply.metadata.reply_to_message_id), reply) for reply in new]
            if time.monotonic() >= end:
                break
            if missing and not new:
                time.sleep(self.pause)
        return replies

    def ask(self, questions: Mapping[str, str]) -> dict[str, str]:
        """Bring questions of a federation of few to sites, by name, and give the answers that come within `wait` seconds."""
        found: dict[str, str] = {}
        open_, end = dict(questions), time.monotonic() + self.wait
        while open_ and time.monotonic() < end:
            sent = {
                name: messages.to_client(node, messages.ASK, messages.text_record(open_[name]), run_id=self.run_id,
                                         lives=self.reply_timeout)
                for name, node in self.present().items() if name in open_
            }  # fmt: skip
            for name, reply in self.exchange(sent):
                if not reply.has_error():
                    found[name] = messages.read_text(reply.content)
                if not reply.has_error() or messages.refused(reply):
                    del open_[name]
            if open_:
                time.sleep(self.pause)
        return found


class LocalGrid(NamedGrid):
    """A grid of ClientApps in memory, by the names of the clients. Each answers before the next one is asked."""

    def __init__(self, apps: Mapping[str, ClientApp]) -> None:
        self._nodes = {name: number for number, name in enumerate(sorted(apps), start=2)}
        self._apps = {self._nodes[name]: app for name, app in apps.items()}
        self._replies: dict[str, Message] = {}

    def present(self) -> dict[str, int]:
        return dict(self._nodes)

    def push_messages(self, sent: Iterable[Message]) -> list[str]:
        numbers = []
        for message in sent:
            node = message.metadata.dst_node_id
            answer = self._apps[node](messages.from_bytes(messages.to_bytes(message)), messages.context(node))
            numbers.append(message.metadata.message_id)
            self._replies[numbers[-1]] = messages.from_bytes(messages.to_bytes(answer))
        return numbers

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self._replies.pop(number) for number in set(message_ids) if number in self._replies]


@dataclass
class Clients:
    """Clients, each with records of its own, that answer in place of a `CriticPool`.

    At each step some clients train in turns, and others are sampled to answer. The client of an answer is sampled uniformly and
    in secret among those that are there, never among fewer than `critics`. The ledger records the cost before it is asked.
    Noise alone, as wide as that of an answer, replaces an answer that does not come. Zeros, or another client, would reveal who
    was picked.

    Args:
        run: the settings, and the source of randomness.
        ledger: of the release; records the cost of every answer.
        grid: carries the messages, and says how long to wait.
        terms: what clients receive at the start: settings, card, seed, and the answers that each has to grant.
        log: shows a note on the terminal.
        start: weights that clients begin with, from public records; None: fresh ones.
    """

    run: Run[Config]
    ledger: PrivacyLedger
    grid: NamedGrid
    terms: dict[str, Any]
    log: Callable[[str], None]
    start: Mapping[str, Tensor] | None = None
    _enlisted: dict[str, int] = field(default_factory=dict, init=False)
    _shut_out: set[str] = field(default_factory=set, init=False)
    _pending: dict[str, tuple[str, int, float]] = field(default_factory=dict, init=False)
    _logged: set[tuple[str, str]] = field(default_factory=set, init=False)
    _training: dict[str, Fakes] = field(default_factory=dict, init=False)

    @property
    def left(self) -> int:
        """How many more steps the plan holds."""
        return self.ledger.remaining(self.run.query("answers").paid) // self.run.config.answers

    def train(self, fakes: Fakes) -> None:
        """Visit each client whose turn it is; a client that is away misses its turn."""
        present = self._wait_for_clients()
        everybody = sorted(self._enlisted.keys() - self._shut_out)
        config = self.run.config
        first = (config.steps - self.left) * config.visits
        turn = {everybody[(first + i) % len(everybody)] for i in range(min(config.visits, len(everybody)))}
        self._training = dict.fromkeys(turn & present.keys(), fakes)

    def release(self, fakes: Fakes) -> Tensor:
        """The sanitised answers of the sampled clients about the first images. [answers x B, C, H, W]"""
        config = self.run.config
        present = self._wait_for_clients()
        if self.run.rng.reproducible:
            self.ledger.declassify(FIXED_SEED)
        for _ in range(config.answers):
            self.ledger.charge(self.run.query("answers").paid)
        names = sorted(present)
        drawn = [names[i] for i in self.run.rng.integers(config.answers, len(names))]
        return self._ask(present, drawn, fakes)

    def _ask(self, present: dict[str, int], drawn: list[str], fakes: Fakes) -> Tensor:
        """Send one message to each client that trains or answers. Return noise where no answer comes."""
        config, B = self.run.config, self.run.config.batch_size
        turns = {name: [i for i, drawn_name in enumerate(drawn) if drawn_name == name] for name in dict.fromkeys(drawn)}
        rows, lost = torch.zeros(len(drawn) * B, *self.run.card.shape), set(range(len(drawn)))
        sent = {
            name: self._message(present[name], messages.ROUND, messages.round_record(messages.Round(
                self._training.get(name), [fakes[i * B : (i + 1) * B] for i in turns.get(name, [])]
            )))
            for name in dict.fromkeys([*self._training, *turns])
            if name in present
        }  # fmt: skip
        self._training = {}
        replies = self.grid.exchange(sent)
        for name, answer in replies:
            client_rows = self._rows(name, answer, len(turns.get(name, [])))
            if client_rows is not None:
                for i, answer_rows in zip(turns[name], client_rows.split(B), strict=True):
                    rows[i * B : (i + 1) * B] = answer_rows
                lost -= {*turns[name]}
        for i in sorted(lost):
            noise = rows[i * B : (i + 1) * B].view(-1)
            self.run.rng.add_gaussian_(noise, config.noise_multiplier * 2 * config.max_norm)
        for name in turns.keys() - dict(replies).keys():
            self._log_once(
                name, f"no answer within {self.grid.reply_timeout:g} s; its round is lost, and its charge stays"
            )
        return rows.to(self.run.device)

    def _message(self, node: int, kind: str, content: RecordDict) -> Message:
        return messages.to_client(node, kind, content, run_id=self.grid.run_id, lives=self.grid.reply_timeout)

    def _rows(self, name: str, answer: Message, answers: int) -> Tensor | None:
        """The rows of a client, checked; None: it sent no rows, or malformed ones."""
        if answer.has_error():
            self._log_once(name, reason_of(answer))
            return None
        config = self.run.config
        shape = (answers * config.batch_size, *self.run.card.shape)
        noise = config.noise_multiplier * 2 * config.max_norm * LONGEST_NOISE * math.sqrt(math.prod(shape[1:]))
        largest = math.inf if config.noise_multiplier == 0 else config.max_norm + noise
        try:
            if answers:
                return messages.read_rows(answer.content, shape=shape, largest=largest)
            if answer.content:
                raise Malformed("sent what was not asked for")
        except Malformed as error:
            self._shut(name, str(error))
        return None

    # ------------------------------------------------------------------ who is there

    def _wait_for_clients(self) -> dict[str, int]:
        """Clients that take part and can be reached now: at least `critics`, or this waits for them.

        Raises:
            TooFewClients: when that takes too long.
        """
        end, told = time.monotonic() + self.grid.wait, False
        while len(reachable := self._reachable()) < self.run.config.critics:
            if time.monotonic() > end:
                raise TooFewClients(
                    f"only {len(reachable):,} of the {self.run.config.critics:,} clients that a draw needs are there, after "
                    f"{self.grid.wait:g} s. Nothing is lost: bring them back and resume the server."
                )
            if not told:
                self.log(f"waiting for clients: {len(reachable):,} of {self.run.config.critics:,} are there")
            told = True
            time.sleep(self.grid.pause)
        return reachable

    def _reachable(self) -> dict[str, int]:
        """Name and node of each client that takes part and can be reached now."""
        self._enlist()
        return {name: node for name, node in self.grid.present().items() if self._takes_part(name, node)}

    def _enlist(self) -> None:
        """Send the terms to new clients, and take in those that have granted enough. Terms without a reply are sent again.

        The terms name the client. A client refuses all other terms, so it cannot take part under two names.
        """
        present, now = self.grid.present(), time.monotonic()
        for number, (name, node, until) in list(self._pending.items()):
            if present.get(name) != node or now > until:
                del self._pending[number]
        waiting = {name for name, _, _ in self._pending.values()}
        for name, node in sorted(present.items()):
            if name not in waiting and name not in self._shut_out and not self._takes_part(name, node):
                content = messages.terms_record({**self.terms, "client": name}, self.start)
                for number in filter(None, self.grid.push_messages([self._message(node, messages.TERMS, content)])):
                    self._pending[number] = name, node, now + self.grid.reply_timeout
        for answer in self.grid.pull_messages(list(self._pending)):
            name, node, _ = self._pending.pop(answer.metadata.reply_to_message_id)
            self._take_in(name, node, answer)

    def _takes_part(self, name: str, node: int) -> bool:
        """Whether it has agreed to the terms at this node: a client that comes back has a new one, and gets them again."""
        return self._enlisted.get(name) == node and name not in self._shut_out

    def _take_in(self, name: str, node: int, answer: Message) -> None:
        if answer.has_error():
            if messages.refused(answer):
                self._shut(name, f"refused the terms: {reason_of(answer)}")
            else:
                self._log_once(name, f"no reply to the terms, which are sent again: {reason_of(answer)}")
            return
        try:
            answers, noise = messages.read_grant(answer.content)
            if noise != self.run.config.noise_multiplier:
                raise Malformed("claims another noise multiplier than the terms say")
            if answers < self.terms["answers"]:
                raise Malformed(f"grants fewer answers than the {self.terms['answers']:,} that the draw may ask for")
            self._enlisted[name] = node
        except Malformed as error:
            self._shut(name, str(error))

    def dismiss(self, content: RecordDict, *, served: set[str], awaited: int = 0) -> Iterator[set[str]]:
        """Give the released generator to all that take part, for `wait` seconds at most.

        Args:
            content: its weights.
            served: the clients that have it already.
            awaited: how many have to take it; 0: those that took part up to now.

        Yields:
            The clients that have it, after each round.
        """
        end = time.monotonic() + self.grid.wait
        awaited = awaited or len(self._enlisted.keys() - self._shut_out)
        while len(served) < awaited and time.monotonic() < end:
            ready = {name: node for name, node in self._reachable().items() if name not in served}
            sent = {name: self._message(node, messages.END, content) for name, node in ready.items()}
            for name, answer in self.grid.exchange(sent):
                if answer.has_error():
                    self._log_once(name, reason_of(answer))
                else:
                    served.add(name)
            if ready:
                yield served
            else:
                time.sleep(self.grid.pause)
        if len(served) < awaited:
            self.log(f"{len(served):,} of {awaited:,} clients took the generator; `resume` serves those who come later")

    def _shut(self, name: str, reason: str) -> None:
        self._shut_out.add(name)
        self._log_once(name, f"shut out: {reason}")

    def _log_once(self, name: str, message: str) -> None:
        if (name, message) not in self._logged:
            self._logged.add((name, message))
            self.log(f"{name}: {message}")
