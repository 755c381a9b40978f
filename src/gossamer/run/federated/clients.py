"""The centre of GS-WGAN with many clients: they train and answer in rounds. What they send is checked here.

At each step some clients train in turns, and others are sampled to answer. A client that comes late, or again, agrees to the
terms when it is seen.
"""

import dataclasses
import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from gossamer.data.card import DataCard
from gossamer.data.fingerprint import NOBODY
from gossamer.data.records import Records
from gossamer.data.tables.any_card import AnyCard
from gossamer.errors import Interrupted, TooFewClients
from gossamer.events import progress
from gossamer.files import write_atomically
from gossamer.methods.common.adversarial import Fakes
from gossamer.methods.contract import OnReleased, Phases, Run
from gossamer.methods.gs_wgan import Config, GsWgan, loop
from gossamer.methods.job import Job
from gossamer.privacy.certificate.statements import NO_UNITS
from gossamer.privacy.confined import FIXED_SEED
from gossamer.run.federated import METHOD, questions
from gossamer.run.federated.network import Network, Reply
from gossamer.run.federated.questions import Malformed, NoReply, Question, Refused, Terms, answer_to, written
from gossamer.run.federated.site import networks
from gossamer.run.storage.data_sources import DataFacts, DataSources, RawData
from gossamer.run.training.driver import train_and_certify
from gossamer.run.training.open_run import OpenRun
from gossamer.run.training.plan import Request, plan
from gossamer.run.training.signals import stop_on_signal

LONGEST_NOISE = 9.0
"""Standard deviations. A number of honest noise is larger with probability 1 in 4e18."""
SERVED = "served.json"
"""In the private folder: names of the clients that have the released generator."""


def decide(card: DataCard, *, critics: int | None = None, **request: Any) -> Request:
    """What a run with many clients will do and cost, against those who see its release. Reads no record.

    Args:
        card: the public facts; its unit is the client, and its declared size the number of clients.
        critics: how many clients must be there at each step; None: all.
        request: epsilon, delta, preset and fields of the method's Config, as `plan` takes them.

    Raises:
        RequestError: if the request is wrong.
    """
    return plan(METHOD, card, critics=critics or card.declared_size, **request)


def no_records(card: DataCard) -> Records:
    """The private records of a server: there are none."""
    return Records(np.zeros((0, *card.shape), np.uint8), np.zeros(0, np.int64))


def nobodys(sources: DataSources, card: AnyCard, private: Records | None = None) -> RawData:
    """What a centre reads: public records at most."""
    public, stated = sources.read_public(card)
    return RawData(public, DataFacts(public=stated, units=NO_UNITS, identity=NOBODY), private)


class Federated(GsWgan):
    """The method with clients in place of critics, which begin on the weights of a start on public records."""

    def __init__(self, clients: "Clients") -> None:
        self._clients = clients

    def phases(self, config: Config, card: DataCard) -> Phases[Config, loop.State]:
        """A start on the server's public records, and training; clients warm their critics up by themselves."""
        public, _, training = super().phases(config, card)

        def play(run: Run[Config], state: loop.State) -> Any:
            if state.own_fakes:
                self._clients.start = networks(state).state_dict()
            return loop.play(run, state, self._clients)

        return [public, OnReleased(name=training.name, steps=training.steps, queries=training.queries, body=play)]


@dataclass
class Clients:
    """Clients, each with records of its own, that answer in place of a `CriticPool`.

    The client of an answer is sampled uniformly and in secret among those that are there, never among fewer than `critics`. The
    ledger records the cost before it is asked. Noise alone, as wide as that of an answer, replaces an answer that does not
    come. Zeros, or another client, would reveal who was picked.

    Args:
        run: its folder, and its ledger, which records the cost of every answer against those who see the release.
        terms: what clients agree to.
        network: brings questions to clients, and says how long to wait.
    """

    run: OpenRun
    terms: Terms
    network: Network
    start: Mapping[str, Tensor] = field(default_factory=dict, init=False)
    """Weights that clients begin with, from public records; empty: fresh ones."""
    _agreed: set[str] = field(default_factory=set, init=False)
    _shut_out: set[str] = field(default_factory=set, init=False)
    _logged: set[tuple[str, str]] = field(default_factory=set, init=False)
    _training: dict[str, Fakes] = field(default_factory=dict, init=False)

    def go_through(self, sources: DataSources, data: RawData | None = None) -> None:
        """Train with the clients that answer, and certify. data: what is read of the records already.

        Raises:
            TooFewClients: if clients stay away; the same call goes on.
        """
        job: Job[Any, Any] = Job(Federated(self), self.config, self.run.job.card)
        run = dataclasses.replace(self.run, job=job)
        loaded = run.read(sources, data or nobodys(sources, run.job.card, no_records(run.job.card)))
        with stop_on_signal() as self.network.stop:
            train_and_certify(run.charge(sources, loaded.facts), loaded)

    @property
    def config(self) -> Config:
        """The settings."""
        return cast(Config, self.terms.job.config)

    @property
    def left(self) -> int:
        """How many more steps the plan holds."""
        return self.run.ledger.remaining(self._paid) // self.config.answers

    @property
    def _paid(self) -> Any:
        """What an answer costs."""
        (query,) = self.terms.job.queries
        return query.mechanism.paid

    def train(self, fakes: Fakes) -> None:
        """Visit each client whose turn it is; a client that is away misses its turn. It trains in the round of `release`."""
        present = self._wait_for_clients()
        everybody = sorted(self._agreed - self._shut_out)
        config = self.config
        first = (config.steps - self.left) * config.visits
        turn = {everybody[(first + i) % len(everybody)] for i in range(min(config.visits, len(everybody)))}
        self._training = dict.fromkeys(turn & present, fakes)

    def release(self, fakes: Fakes) -> Tensor:
        """The sanitised answers of the sampled clients about the first images. [answers x B, C, H, W]"""
        config = self.config
        names = sorted(self._wait_for_clients())
        if self.run.rng.reproducible:
            self.run.ledger.declassify(FIXED_SEED)
        for _ in range(config.answers):
            self.run.ledger.charge(self._paid)
        drawn = [names[i] for i in self.run.rng.integers(config.answers, len(names))]
        return self._ask(drawn, fakes)

    def _ask(self, drawn: list[str], fakes: Fakes) -> Tensor:
        """Send one question to each client that trains or answers. Return noise where no answer comes."""
        config, B = self.config, self.config.batch_size
        rows = torch.zeros(len(drawn), B, *self.run.job.card.shape)
        turns = {name: np.flatnonzero(np.array(drawn) == name) for name in sorted({*drawn})}
        sent = {}
        for name in dict.fromkeys([*self._training, *turns]):
            batches = {"train": self._training[name]} if name in self._training else {}
            if name in turns:
                batches["asked"] = fakes[(B * turns[name][:, None] + np.arange(B)).reshape(-1)]
            state = {part: (batch.images.detach(), batch.labels) for part, batch in batches.items()}
            sent[name] = self._question(name, questions.ROUND, state)
        self._training, lost = {}, {*range(len(drawn))}
        replies = dict(self.network.exchange(sent))
        for name, reply in replies.items():
            if (found := self._rows(name, sent[name], reply, len(turns.get(name, [])))) is not None:
                rows[turns[name]] = found
                lost -= {*turns[name].tolist()}
        for i in sorted(lost):
            self.run.rng.add_gaussian_(rows[i].view(-1), config.noise_multiplier * 2 * config.max_norm)
        for name in turns.keys() - replies.keys():
            self._log_once(
                name, f"no answer within {self.network.reply_timeout:g} s; its round is lost, and its charge stays"
            )
        return rows.flatten(0, 1).to(self.run.device)

    def _question(self, name: str, about: str, state: Mapping[str, Any]) -> str:
        return written(Question(self.terms.to_json(), name, 0, about, dict(state)))

    def _rows(self, name: str, question: str, reply: Reply, answers: int) -> Tensor | None:
        """The rows of a client, checked; None: it sent no rows, or malformed ones. [answers, B, C, H, W]"""
        config = self.config
        shape = (config.batch_size, *self.run.job.card.shape)
        noise = config.noise_multiplier * 2 * config.max_norm * LONGEST_NOISE * math.sqrt(math.prod(shape[1:]))
        largest = math.inf if config.noise_multiplier == 0 else config.max_norm + noise
        try:
            rows = answer_to(question, name, reply).values
            if (rows is None) != (answers == 0):
                raise Malformed("sent rows that were not asked for, or none")
            if rows is None:
                return None
            if rows.shape != (answers * shape[0], *shape[1:]) or rows.dtype != torch.float32:
                raise Malformed("rows have another shape or type than the terms say")
            if not bool(torch.isfinite(rows).all()):
                raise Malformed("a row holds a value that is not finite")
            if float(rows.flatten(1).double().norm(dim=1).max()) > largest:
                raise Malformed("a row is longer than clipping and noise can make it")
            return rows.view(answers, *shape)
        except Refused as error:
            self._log_once(name, str(error))
        except Malformed as error:
            self._shut(name, str(error))
        return None

    # ------------------------------------------------------------------ who is there

    def _wait_for_clients(self) -> set[str]:
        """Clients that take part and can be reached now: at least `critics`, or this waits for them.

        Raises:
            TooFewClients: when that takes too long.
            Interrupted: if this process has to stop.
        """
        end, told = time.monotonic() + self.network.wait, False
        while len(reachable := self._reachable()) < self.config.critics:
            if self.network.stop:
                raise Interrupted("stopped while the server waited for clients. Nothing is lost: start it again.")
            if time.monotonic() > end:
                raise TooFewClients(
                    f"only {len(reachable):,} of the {self.config.critics:,} clients that a draw needs are there, after "
                    f"{self.network.wait:g} s. Nothing is lost: bring them back, and start the server again."
                )
            if not told:
                self.run.log(f"waiting for clients: {len(reachable):,} of {self.config.critics:,} are there")
            told = True
            time.sleep(self.network.pause)
        return reachable

    def _reachable(self) -> set[str]:
        """Clients that have agreed and can be reached now. Those that have not agreed get the terms, again at each look.

        The terms name the client. A client refuses all other terms, so it cannot take part under two names. Who agrees grants
        as many answers as the terms say, with their noise.
        """
        present = {*self.network.present()} - self._shut_out
        sent = {name: self._question(name, questions.TERMS, self.start) for name in sorted(present - self._agreed)}
        for name, reply in self.network.exchange(sent):
            try:
                if answer_to(sent[name], name, reply).values is not None:
                    raise Malformed("sent what was not asked for")
                self._agreed.add(name)
                self.run.sink(progress("clients", len(self._agreed), self.run.job.card.declared_size))
            except NoReply as error:
                self._log_once(name, f"no reply to the terms, which are sent again: {error}")
            except (Refused, Malformed) as error:
                self._shut(name, f"no agreement to the terms: {error}")
        return present & self._agreed - self._shut_out

    def end(self, net: nn.Module, *, finished: bool) -> None:
        """Give the released generator to clients, for `wait` seconds at most, and write down which have it.

        Args:
            net: the generator.
            finished: before this call. Then all clients of the card are waited for, else those that took part.
        """
        file = self.run.folder.private / SERVED
        served = {*json.loads(file.read_text())} if file.exists() else set()
        awaited = self.run.job.card.declared_size if finished else len(self._agreed - self._shut_out)
        end = time.monotonic() + self.network.wait
        with stop_on_signal() as self.network.stop:
            while len(served) < awaited and time.monotonic() < end and not self.network.stop:
                sent = {
                    name: self._question(name, questions.END, net.state_dict())
                    for name in sorted(self._reachable() - served)
                }
                for name, reply in self.network.exchange(sent):
                    try:
                        answer_to(sent[name], name, reply)
                        served.add(name)
                    except (Refused, Malformed) as error:
                        self._log_once(name, str(error))
                write_atomically(file, json.dumps(sorted(served)), private=True)
                time.sleep(0 if sent else self.network.pause)
        if len(served) < awaited:
            self.run.log(
                f"{len(served):,} of {awaited:,} clients took the generator; the same command serves those who come later"
            )

    def _shut(self, name: str, reason: str) -> None:
        self._shut_out.add(name)
        self._log_once(name, f"shut out: {reason}")

    def _log_once(self, name: str, message: str) -> None:
        if (name, message) not in self._logged:
            self._logged.add((name, message))
            self.run.log(f"{name}: {message}")
