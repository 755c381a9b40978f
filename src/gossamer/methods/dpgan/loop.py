"""DPGAN's training: Algorithm 1 of Bie, Kamath, Zhang (2023), its adaptive schedule, and a warm start on public records."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gossamer.methods.common import adversarial
from gossamer.methods.common.learners import Adversaries, InTraining, Learner, Optimiser, adam, warm_step
from gossamer.methods.contract import AT_ONCE, DataCard, Logs, Records, Run
from gossamer.methods.dpgan import Config
from gossamer.nets.dcgan import Discriminator, Generator
from gossamer.nets.initialised import initialised_by
from gossamer.privacy import Bounds, Confined, PerRecordGradient
from gossamer.privacy.per_sample_gradients.rounding import lowered

FREQUENCIES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
"""The discriminator steps per generator step that the adaptive schedule goes through. Section 6.2."""


def train(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """Algorithm 1 of the paper, one discriminator step per yield. Ends when the ledger holds no further release."""
    config, B, D, ranks = run.config, run.config.expected_batch_size, state.D, run.ranks
    gradients = run.query("gradients")
    size, precision = config.physical_batch_size or AT_ONCE, config.precision
    on_records = PerRecordGradient(D.net, adversarial.loss_on_records, size, precision=precision)
    on_fakes = PerRecordGradient(D.net, adversarial.loss_on_fakes, min(size, B), precision=precision)
    bounds = Bounds(norms=(gradients.max_norm if config.clip_fakes else math.inf,))

    while private.remaining(gradients.event):  # Alg. 1, l. 3
        with lowered(precision, run.device):
            fakes = state.G.fakes(run, B, part=ranks.shard(B))  # l. 5
        g = private.release(gradients, on_records)  # l. 4, the first sum of l. 6, and z of l. 7
        norm = g.norm()
        g = ranks.total(on_fakes.clipped_sum(fakes, bounds, out=ranks.once(g)))  # the second sum of l. 6
        D.step(g.div_(2 * B))  # l. 7-8
        state.since += 1
        if state.since >= state.n_D:  # l. 10
            accuracy = generator_step(run, state, B)  # l. 11-14
            if config.adaptive:
                adapt(config, state, accuracy)
        yield {**state.shown, "released_norm": norm, "n_D": state.n_D}  # l. 9


def generator_step(run: Run[Config], state: "State", B: int) -> float:
    """Lines 11 to 14: one update of the generator. Returns the discriminator's accuracy on its fresh fakes."""
    latents, labels = state.G.latents(run, B, part=run.ranks.shard(B))
    with lowered(run.config.precision, run.device):
        logits = state.D.net(state.G.net(latents, labels), labels).float()  # l. 11
        loss = adversarial.non_saturating_losses(logits).sum() / B  # l. 12
        state.G.descend(loss, run.ranks)  # l. 13
    state.G.average.follow()
    state.generator_steps += 1  # l. 14
    state.since = 0
    correct = (logits.detach() < 0).float().sum() / B
    mean, accuracy = map(float, run.ranks.total(torch.stack([loss.detach(), correct])).tolist())
    state.shown = {"generator_loss": mean, "accuracy_on_fakes": accuracy}
    return accuracy


def adapt(config: Config, state: "State", accuracy: float) -> None:
    """Section 6.2: move to the next frequency when the running accuracy on fakes is at the floor, after a grace period."""
    beta = config.accuracy_decay
    state.accuracy = accuracy if state.accuracy is None else beta * state.accuracy + (1 - beta) * accuracy
    state.grace += 1
    larger = [n for n in FREQUENCIES if n > state.n_D]
    grace = round(2 / (1 - beta), 6)  # 2 / (1 - 0.9) is a little above 20 in floating point
    if state.grace >= grace and state.accuracy <= config.accuracy_floor and larger:
        state.n_D, state.grace = larger[0], 0


def warm_start(run: Run[Config], state: "State", public: Records) -> Iterator[Logs]:
    """Train both networks on public records, without privacy, one step of each per yield. Costs nothing."""
    config, B = run.config, min(run.config.warm_batch_size, len(public))
    if state.step == 0:
        state.renew(_adam(config.warm_learning_rate / 2), _adam(config.warm_learning_rate))
    for _ in range(state.step, config.warm_steps):
        warm_step(run, state.D, state.G, public, B)
        generator_step(run, state, B)
        yield state.shown
    state.renew(_adam(config.discriminator_learning_rate), _adam(config.generator_learning_rate))
    state.G.average.restart()
    state.generator_steps = state.since = 0


@dataclass(kw_only=True)
class State(Adversaries):
    """Where a run is.

    Args:
        n_D: discriminator steps per generator step, at present.
        grace: generator steps since n_D was raised.
        accuracy: the running accuracy on fakes.
    """

    n_D: int
    generator_steps: int = 0
    grace: int = 0
    accuracy: float | None = None

    def scores(self, records: Records) -> Tensor:
        """What the discriminator says of records: probabilities. [1, n]"""
        images, labels = records.tensors()
        return torch.sigmoid(self.D.net(images, labels))[None]


def start(run: Run[Config]) -> State:
    """Networks and optimisers at the start of a run."""
    config, card = run.config, run.card
    with initialised_by(run.rng.public("initialisation")):
        G = generator(config, card).to(run.device)
        D = Discriminator(card.shape, card.classes, width=config.width).to(run.device)
    return State(
        D=Learner(D, _adam(config.discriminator_learning_rate)),
        G=InTraining(G, _adam(config.generator_learning_rate), config.average_decay),
        n_D=config.discriminator_steps,
    )


def generator(config: Config, card: DataCard) -> Generator:
    """The network that a run releases, with fresh weights."""
    return Generator(card.shape, card.classes, width=config.width, latent_size=config.latent_size)


def _adam(rate: float) -> Optimiser:
    return adam(rate, (0.5, 0.999))  # appendix B.1
