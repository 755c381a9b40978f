"""GS-WGAN's training: section 4 of Chen, Orekondy, Fritz (2020), the critics' warm-up, and a start on public records."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor

from gossamer.methods import contract
from gossamer.methods.common.adversarial import Fakes
from gossamer.methods.common.learners import InTraining, Optimiser, adam
from gossamer.methods.contract import DataCard, Logs, Records, Run
from gossamer.methods.gs_wgan import Config
from gossamer.methods.gs_wgan.critics import Answers, Critics
from gossamer.methods.gs_wgan.nets import DcganGenerator, ProjectionCritic, ResNetGenerator
from gossamer.methods.gs_wgan.stacked_critics import BETAS
from gossamer.nets.initialised import initialised_by
from gossamer.privacy import Confined
from gossamer.privacy.mechanisms.sanitized_rows import SanitizedRows

Generator: TypeAlias = ResNetGenerator | DcganGenerator


def train(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """The game with critics that are all in one place. Ends when the ledger holds no further release."""
    return play(run, state, CriticPool(run, state.confine(run, private)))


def play(run: Run[Config], state: "State", critics: "CriticProtocol") -> Iterator[Logs]:
    """Section 4 of the paper, one generator step per yield, central and federated: only the critics differ."""
    n = run.config.answers * run.config.batch_size

    while critics.left:
        fakes = state.fakes(run, n)  # G(z) of equation 9
        critics.train(fakes)  # equations 8 and 12
        rows = critics.release(fakes)  # equation 11, left factor; equation 13 stays inside
        loss = (fakes.images[:n] * rows).sum() / n  # its gradient is the product of equation 11
        state.G.descend(loss)  # equation 9
        state.G.average.follow(at_most=1 - 1 / (state.step + 2))  # quickly at first, as the authors' code
        yield {"released_norm": rows.norm()}


def warm_start(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """Train every critic inside, a stack after the other; nothing leaves. One visit to a stack per yield.

    The paper's appendix has it at no cost, which is right: the critics stay inside.
    """
    config, critics = run.config, state.confine(run, private)
    for visit in range(state.step, config.warm_visits):
        stack, done = divmod(visit, config.warm_steps)
        first = stack * config.warm_stack
        numbers = range(first, min(first + config.warm_stack, config.critics))
        warm_visit(run, state, critics, numbers, begins=done == 0)
        yield {"critics_done": first}
    critics.update(Critics.end_warm)


def warm_visit(
    run: Run[Config], state: "State", critics: Confined[Critics], numbers: Sequence[int], *, begins: bool
) -> None:
    """One visit to each critic of a stack, on the run's own fakes, or beside a throw-away generator of the critic's own."""
    M, (here, streams) = run.config.critic_batch_size, turns_here(run, numbers)
    if state.own_fakes:
        fakes = state.fakes(run, M, prefix="warm ")
        images = fakes.images.detach()
        if here:
            critics.update(lambda value: value.learn(here, images, fakes.labels, streams))
        return
    if begins:
        critics.update(lambda value: value.begin_warm(len(here)))
    latents, labels = state.G.latents(run, M, prefix="warm ")
    if here:
        critics.update(lambda value: value.warm_round(here, latents, labels, streams))


def public_start(run: Run[Config], state: "State", public: Records) -> Iterator[Logs]:
    """The same game with one critic, without clipping or noise, on public records: free. One generator step per yield."""
    config, critic = run.config, state.critic_on(run, public)
    if state.step == 0:
        state.G.renew(_adam(config.public_learning_rate))
    for _ in range(state.step, config.public_steps):
        fakes = state.fakes(run, config.critic_batch_size, prefix="public ")
        seen = fakes.images.detach()
        critic.learn([0], seen, fakes.labels, [run.rng.public("public critic")])
        rows = critic.gradients([0], seen[None], fakes.labels[None])[0]
        state.G.descend((fakes.images * rows).sum() / len(rows))
        yield {}
    critic.layout.put(critic.weights[0], critic.directions[0], state.critic)  # all critics begin there
    state.G.renew(_adam(config.generator_learning_rate))  # the moments belong to gradients without noise
    state.G.average.restart()
    state.public_critic, state.own_fakes = None, True


class CriticProtocol(Protocol):
    """The critics that answer the generator: a `CriticPool` in one process, or clients that each hold their own records."""

    @property
    def left(self) -> int: ...
    def train(self, fakes: Fakes) -> None: ...
    def release(self, fakes: Fakes) -> Tensor: ...


class CriticPool:
    """Critics whose records are all in this process. A new pool begins a new pass of the round robin."""

    def __init__(self, run: Run[Config], critics: Confined[Critics]) -> None:
        self._run, self._critics = run, critics
        self._mechanism: SanitizedRows = dataclasses.replace(run.query("answers"), answers=run.config.answers)

    @property
    def left(self) -> int:
        """How many more steps the plan holds."""
        return self._answers_left // self._run.config.answers

    def train(self, fakes: Fakes) -> None:
        """One visit to each critic whose turn it is. Equations 8 and 12."""
        here, streams = turns_here(self._run, self._turns())
        images = fakes.images.detach()
        if here:
            self._critics.update(lambda value: value.learn(here, images, fakes.labels, streams))

    def release(self, fakes: Fakes) -> Tensor:
        """Sanitised gradients of critics at the first images: left factor of equation 11. [answers x B, C, H, W]"""
        shape = (self._run.config.answers, self._run.config.batch_size)
        batch = fakes[: shape[0] * shape[1]]
        query = Answers(batch.images.detach().unflatten(0, shape), batch.labels.view(shape))
        return self._critics.release(self._mechanism, query)

    def _turns(self) -> list[int]:
        """Who trains now: for the secret draw in turns, which no draw moves; else those that will answer."""
        config, answering = self._run.config, self._mechanism.next_critic(self._run.rng)
        if answering is not None:
            return [(answering + i) % config.critics for i in range(config.answers)]
        answered = config.steps * config.answers - self._answers_left
        first = answered // config.answers * config.visits
        return [(first + i) % config.critics for i in range(config.visits)]

    @property
    def _answers_left(self) -> int:
        config, mechanism = self._run.config, self._mechanism
        return mechanism.answers_left(self._critics.remaining(mechanism.paid), config.steps * config.answers)


def turns_here(run: Run[Config], critics: Sequence[int]) -> tuple[list[int], list[torch.Generator]]:
    """The critics that train and are on this rank, and a secret stream of random numbers for each. No record decides which."""
    drawn = [(critic, run.rng.secret_generator()) for critic in critics]
    here = [(critic, stream) for critic, stream in drawn if critic % run.ranks.count == run.ranks.number]
    return [critic for critic, _ in here], [stream for _, stream in here]


@dataclass
class State(contract.State):
    """The generator has seen private records through releases only; the critics stay inside.

    Every critic begins with the weights of `critic`, every throw-away generator of the warm start with those of `throwaway`.
    """

    G: InTraining[Generator]
    critic: ProjectionCritic
    throwaway: DcganGenerator
    critics: Confined[Critics] | Path | None = None
    """None before there are records, and a path between a checkpoint and the records."""
    public_critic: Critics | dict[str, Any] | None = None
    """The critic of the public start; a checkpoint's state of it until the records are there."""
    own_fakes: bool = False
    """Whether critics warm up on the run's own fakes, because a public start has made them worth it."""

    def confine(self, run: Run[Config], private: Confined[Records]) -> Confined[Critics]:
        """Assign the records to critics, inside, once. Critics of a checkpoint go on, with the shards that they had."""
        if isinstance(self.critics, Confined):
            return self.critics
        config, sealed = run.config, self.critics

        def deal(records: Records) -> Critics:
            units = records.population
            shards = (
                run.rng.common_integers(units, config.critics) if sealed is None else np.zeros(units, dtype=np.int64)
            )
            part = run.ranks.number, run.ranks.count
            return Critics(records, shards, self.critic, self.throwaway, config, part)

        self.critics = private.map(deal)
        if sealed is not None:
            self.critics.unseal(sealed)
        return self.critics

    def critic_on(self, run: Run[Config], public: Records) -> Critics:
        """One critic with all public records; that of a checkpoint goes on."""
        if isinstance(self.public_critic, Critics):
            return self.public_critic
        rate, saved = run.config.public_learning_rate, self.public_critic
        alone = dataclasses.replace(run.config, critics=1, critic_learning_rate=rate, storage="float32")
        shards = np.zeros(public.population, dtype=np.int64)
        self.public_critic = Critics(public, shards, self.critic, self.throwaway, alone)
        if saved is not None:
            self.public_critic.load_state_dict(saved)
        return self.public_critic

    @property
    def released(self) -> Generator:
        """The generator that the run hands out."""
        return self.G.average.released

    def fakes(self, run: Run[Config], n: int, *, prefix: str = "") -> Fakes:
        """Images from the present weights, enough for a critic's batch; the first n lead back to the generator."""
        z, y = self.G.latents(run, max(n, run.config.critic_batch_size), prefix=prefix)
        x = self.G.net(z[:n], y[:n])
        if len(z) > n:
            with torch.no_grad():
                more = self.G.net(z[n:], y[n:])
            x = torch.cat([x, more])
        return Fakes(x, y)


def start(run: Run[Config]) -> State:
    """Networks and optimiser at the start of a run."""
    config, card = run.config, run.card
    with initialised_by(run.rng.public("initialisation")):
        G = generator(config, card).to(run.device)
        D = ProjectionCritic(card.shape, card.classes, width=config.width).to(run.device)
        warm = DcganGenerator(card.shape, card.classes, width=config.width, latent_size=config.latent_size)
    G_in_training = InTraining(G, _adam(config.generator_learning_rate), config.average_decay)
    return State(G_in_training, D, warm.to(run.device))


def generator(config: Config, card: DataCard) -> Generator:
    """The network that a run releases, with fresh weights."""
    kind = ResNetGenerator if config.generator == "resnet" else DcganGenerator
    bernoulli = config.latents == "bernoulli"
    return kind(card.shape, card.classes, width=config.width, latent_size=config.latent_size, bernoulli=bernoulli)


def _adam(rate: float) -> Optimiser:
    return adam(rate, BETAS)
