"""A client: its records, its critic, its `Confined` and its ledger, which outlive rounds and restarts.

It runs the central method with one critic, which all its records train and which gives every answer. Its ledger records an
unamplified Gaussian for each answer before the records are read, and refuses what it has not reserved. A site runs it behind a
local socket (`service.py`), a simulation in memory.
"""

import dataclasses
import math
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

from gossamer.data.card import DataCard
from gossamer.errors import GossamerError, RequestError, RunFolderError, UnplannedRelease, withheld
from gossamer.events import note, progress
from gossamer.kinds.run_plan import RunPlan
from gossamer.methods.contract import Run
from gossamer.methods.gs_wgan import Config, GsWgan
from gossamer.methods.gs_wgan.loop import CriticPool, State, generator
from gossamer.methods.gs_wgan.nets import ProjectionCritic
from gossamer.methods.job import Job, Training
from gossamer.privacy.accounting import federated
from gossamer.privacy.accounting.events import is_noisy
from gossamer.privacy.confined import Confined
from gossamer.run.federated import messages
from gossamer.run.federated.messages import networks
from gossamer.run.federated.questions import LARGEST, Malformed, opened
from gossamer.run.federated.site import Site
from gossamer.run.report.html import write_report
from gossamer.run.storage.data_sources import RawData
from gossamer.run.training import checkpoint
from gossamer.run.training.open_run import OpenRun
from gossamer.run.training.plan import Request, checked
from gossamer.run.training.progress import Process

REFUSED = "the reason is in this client's own log"
"""All that a refusal says, unless the message is malformed. The kind of error could depend on records or on the budget."""
_BITS = 31
"""Of a whole number in the terms."""
_VISIT, _WARM_START = 64 * LARGEST, 4096 * LARGEST
"""Bytes that the batches of a visit to the critic, and of its warm start, may take in its layers. One may take `LARGEST`."""


@dataclasses.dataclass
class Client(Site):
    """One owner of records, whose `app` answers the server's messages. For GS-WGAN, all records belong to one unit.

    Args:
        raw: its records, where they have been read already (a simulation).
        clock: says when a checkpoint is due; the clients of a simulation share one.

    In a simulation, `accounts` is False: the client keeps no budget log.
    """

    raw: RawData | None = None
    clock: checkpoint.Clock = dataclasses.field(default_factory=checkpoint.Clock)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._open = ExitStack()
        self._terms: dict[str, Any] | None = None
        self._run: OpenRun
        self._training: Training[Config, State]
        self._critics: CriticPool
        self.app = ClientApp()
        self.app.query("terms")(self._answering(self._enlist))
        self.app.train("round")(self._answering(self._round))
        self.app.query("end")(self._answering(self._end))
        self.app.query("ask")(self._answering(self._ask))

    def go_on(self) -> None:
        """Continue an unfinished run before the server asks, which does not know that this process is new.

        A run that was killed before its first checkpoint gets its terms again: its server has no reply to them.

        Raises:
            GossamerError: if the folder holds another run, is in use, or the records are not those of the run.
        """
        if self.folder.begun and not self.folder.finished and checkpoint.saved_position(self.folder.private):
            self._begin(self.folder.source().get("terms", {}), RecordDict())

    def close(self) -> None:
        """Save an unfinished run, and close its ledger and folder."""
        try:
            if self._terms is not None and not self.folder.finished:
                self._save()
        finally:
            self._open.close()

    def _answering(self, act: Callable[[Message], RecordDict | None]) -> Callable[[Message, Context], Message]:
        """Reply with what `act` gives, which checks the message before it looks at records, folder or budget.

        A refusal says what is malformed in the message, or `REFUSED`.
        """

        def answer(message: Message, context: Context) -> Message:
            del context  # Flower's own memory of a client; ours is on disk
            try:
                return messages.reply(message, act(message))
            except Malformed as error:
                reason_text = f"the message is malformed: {error}"
            except Exception as error:  # all others alike: an error that ended the client would be seen too
                reason = str(error) if isinstance(error, GossamerError) else withheld(error)
                self.sink(note(f"{message.metadata.message_type} is refused: {reason}"))
                reason_text = REFUSED
            return messages.refusal(message, reason_text)

        return answer

    # ------------------------------------------------------------------ the terms

    def _enlist(self, message: Message) -> RecordDict:
        """Begin or go on, if the terms fit this client's budget. A finished run repeats what it granted."""
        terms = messages.read_terms(message.content)
        if self._terms is None:
            if not self.folder.finished or self.folder.source().get("terms") != terms:
                self._begin(terms, message.content)
        elif terms != self._terms:
            raise Malformed("these are not the terms that this client took part under")
        return messages.grant_record(
            answers=terms["answers"], noise_multiplier=float(terms["config"]["noise_multiplier"])
        )

    def _begin(self, terms: dict[str, Any], content: RecordDict) -> None:
        """Open the run of this client, with the charges that its ledger has. A new one is reserved before a record is read."""
        job, seed = self._own_job(terms)
        run = Run(job.config, self.card, self.rng(seed), queries=job.queries)
        self._training = Training(job, run)
        state = self._training.state
        # weights to start on need no check beyond their shapes: their effect leaves through the mechanism alone
        start = messages.read_weights(content, networks(state).state_dict(), "start") if "start" in content else None
        # for the readers: all records here are one unit, so none of them names it
        card = dataclasses.replace(self.card, unit="record", missing_unit="refuse")
        process = Process(sink=self.sink, rng=run.rng)
        request = Request(asks=RunPlan(jobs=[job]), epsilon=self.epsilon, delta=self.delta)
        role = {"role": federated.CLIENT, "answers": job.config.steps}
        given: dict[str, Any] = {"process": process, "accounts": self.accounts}
        with ExitStack() as stack:
            begun = stack.enter_context(opened(self.folder, request, terms, seed=seed, role=role, **given))
            data = begun.read(self.sources, self.raw, card=card)
            self._run = begun.charge(self.sources, data.facts)
            if self._run.entry is None and self.accounts is not False:
                raise RunFolderError(
                    f"{self.folder.path} is a client of a simulation, which counts as a whole. Choose another folder."
                )
            if self._run.saved is not None:
                self._run.restore(state)
            elif start is not None:
                networks(state).load_state_dict(start)
                state.own_fakes = True
            self._warm_up(data.private)
            self._critics = CriticPool(run, state.confine(run, data.private))
            self._save()
            self._open = stack.pop_all()
        self._terms = terms

    def _own_job(self, terms: dict[str, Any]) -> tuple[Job[Config, State], int]:
        """The method with the one critic of this client, which grants as many answers as the run may ask of it."""
        try:
            config, seed, answers = dict(terms["config"]), int(terms["seed"]), terms["answers"]
            server_card = DataCard.from_dict(terms["card"])
        except (KeyError, TypeError, ValueError, GossamerError):
            raise Malformed("the terms lack settings, card, seed or answers") from None
        if server_card != self.card:
            raise Malformed("the card of the run is not the one that this client was given")
        alone = {"critics": 1, "draw": "round_robin", "answers": 1, "visits": 1, "start": ""}
        own = {**config, **alone, "steps": answers}
        numbers = [config.get("answers"), *(value for value in own.values() if type(value) is int)]
        try:
            if any(type(number) is not int or number.bit_length() > _BITS for number in numbers):
                raise TypeError
            job = Job.of(GsWgan(), own, self.card)
            checked(job)
        except (TypeError, RequestError):
            raise Malformed("the settings of the run are none of this method") from None
        if self.accounts is not False and not is_noisy(job.plan):
            raise Malformed("the settings of the run have no noise")
        _check_size(job.config, self.card, at_once=config["answers"])
        return job, seed

    def _warm_up(self, private: Confined[Any]) -> None:
        """The critic's warm start: nothing leaves the client, and nothing comes in."""
        state = self._training.state
        if state.phase == "training":
            return
        for result in self._training.drive(private):
            if result.logs is None:
                break
            self.sink(progress(result.phase.name, result.step, result.phase.steps))

    # ------------------------------------------------------------------ rounds

    def _round(self, message: Message) -> RecordDict | None:
        """Train, then answer, as asked. Every answer is recorded in the ledger before the records are read."""
        if self._terms is None:
            raise Malformed("the run has not sent its terms yet")
        config = self._training.job.config
        request = messages.read_round(
            message.content, shape=self.card.shape, classes=self.card.classes, trains=max(
                config.critic_batch_size, config.batch_size * int(self._terms["config"]["answers"])
            ), rows=config.batch_size,
        )  # fmt: skip
        self._run.ledger.check_place()
        if len(request.to_answer) > self._critics.left:
            raise UnplannedRelease(
                f"this client has granted {config.steps:,} answers, {self._critics.left:,} are left, and "
                f"{len(request.to_answer):,} were asked for at once"
            )
        if request.train is not None:
            self._critics.train(request.train)
        rows = [self._critics.release(fakes) for fakes in request.to_answer]
        self._training.state.step += 1
        if self.clock.due():
            self._save()
        self.sink(progress("answers", config.steps - self._critics.left, config.steps))
        return messages.rows_record(torch.cat(rows)) if rows else None

    def _save(self) -> None:
        self.clock.written(self._run.save(self._training.state))

    # ------------------------------------------------------------------ a federation of few

    def _ask(self, message: Message) -> RecordDict:
        """Answer a query of another method, whose sums need no secret choice of clients."""
        if self._terms is not None:
            raise Malformed("this client takes part in another run")
        return messages.text_record(self.answer(messages.read_text(message.content)))

    # ------------------------------------------------------------------ the end

    def _end(self, message: Message) -> None:
        """Take the released generator, and certify what this client released."""
        if self._terms is None or self.folder.finished:
            return
        net = self._training.state.released
        net.load_state_dict(messages.read_weights(message.content, net.state_dict()))
        checkpoint.free_reserve(self.folder.private)
        self._run.finish(self._training.state)
        write_report(self.folder.path, internal=True)
        self.close()


def _check_size(config: Config, card: DataCard, *, at_once: int) -> None:
    """Refuse terms that ask a site for too much memory or time, before a network is built. at_once: answers in a round.

    Raises Malformed.
    """
    pixels, side = math.prod(card.shape), math.prod(card.shape[1:])
    batch = 2 * config.width * side * max(config.batch_size, config.critic_batch_size)  # its layers in a critic
    visit = batch * config.critic_steps
    asked = {
        "the pictures of a round": (4 * pixels * max(config.batch_size * at_once, config.critic_batch_size), LARGEST),
        "a batch in the critic": (batch, LARGEST),
        "a visit to the critic": (visit, _VISIT),
        "the warm start": (visit * config.warm_steps, _WARM_START),
    }
    if not (large := [name for name, (size, limit) in asked.items() if size > limit]):
        with torch.device("meta"):  # without memory
            nets = generator(config, card), ProjectionCritic(card.shape, card.classes, width=config.width)
        if sum(4 * value.numel() for net in nets for value in net.state_dict().values()) > LARGEST:
            large = ["the networks"]
    if large:
        raise Malformed(f"the settings of the run ask a site for too much: {', '.join(large)}")
