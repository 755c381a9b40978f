"""PriVAE's training: Algorithm 1 of Takahashi et al. (2020), and a warm start on public records."""

import copy
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gossamer.methods import contract
from gossamer.methods.common.learners import Average, Learner, Optimiser, adam, drawn_from
from gossamer.methods.contract import DataCard, Logs, Records, Run
from gossamer.methods.privae import Config
from gossamer.methods.privae.nets import Autoencoder
from gossamer.methods.privae.objective import Objective, secret_coins
from gossamer.nets.initialised import initialised_by
from gossamer.privacy import Confined


def train(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """Algorithm 1, one step per yield; its lines counted from "Initialize". Ends when the ledger holds no further release."""
    config, vae = run.config, state.vae  # l. 1
    gradients = run.query("gradients")
    if run.ranks.count > 1:  # they share out the groups
        gradients = dataclasses.replace(gradients, partitions=config.partitions // run.ranks.count)
    query = Objective.of(vae.net, config, secret_coins(run.rng))

    for released in private.answers(gradients, query):  # l. 2-6, and both noises of l. 7
        g = direction(released, config)  # l. 7
        vae.step(g)  # l. 8
        t = state.step + 1
        state.average.follow(at_most=t / (t + 9))
        yield {"released_norm": g.norm()}


def direction(released: Tensor, config: Config) -> Tensor:
    """Line 7 after the noise: division by the expected batch and by the number of groups, never by what was drawn. [D]"""
    if config.aggregation == "batch":
        return released
    if config.aggregation == "micro":
        return released / config.expected_batch_size
    return released[0] / config.expected_batch_size + released[1] / config.partitions


def warm_start(run: Run[Config], state: "State", public: Records) -> Iterator[Logs]:
    """Train on public records, without privacy, one step per yield. Costs nothing."""
    config, B = run.config, min(run.config.warm_batch_size, len(public))

    def coins(records: Records, k: int) -> Tensor:
        return torch.randn(len(records), k, generator=run.rng.public("warm coins"))

    query = Objective.of(state.vae.net, config, coins)
    if state.step == 0:
        state.vae.renew(_optimiser(config, config.warm_learning_rate))
    for _ in range(state.step, config.warm_steps):
        batch = drawn_from(public, B, run.rng.public("warm start"))
        g = query.phi.summed(batch) / B
        if config.divergence != "none":
            g = g + query.group_gradient(batch)
        state.vae.step(g)
        yield {"gradient_norm": g.norm()}
    state.vae.renew(_optimiser(config, config.learning_rate))
    state.average.restart()


@dataclass
class State(contract.State):
    """The network, its optimiser and the average have seen records through releases only."""

    vae: Learner[Autoencoder]
    average: Average[Autoencoder]
    with_encoder: bool

    @property
    def released(self) -> Autoencoder:
        """A copy of the network that the run hands out."""
        net = copy.deepcopy(self.average.released)
        if not self.with_encoder:
            net.encoder = None
        return net


def start(run: Run[Config]) -> State:
    """Network and optimiser at the start of a run."""
    config = run.config
    with initialised_by(run.rng.public("initialisation")):
        vae = _network(config, run.card, encoder=True).to(run.device)
    learner = Learner(vae, _optimiser(config, config.learning_rate))
    return State(learner, Average(vae, config.average_decay), config.release_encoder)


def generator(config: Config, card: DataCard) -> Autoencoder:
    """The network that a run releases, with fresh weights: the decoder, and the encoder where it was asked for."""
    return _network(config, card, encoder=config.release_encoder)


def _network(config: Config, card: DataCard, *, encoder: bool) -> Autoencoder:
    return Autoencoder(card.shape, card.classes if config.conditional else 1, config, encoder=encoder)


def _optimiser(config: Config, rate: float) -> Optimiser:
    if config.optimiser == "sgd":
        return lambda parameters: torch.optim.SGD(parameters, lr=rate)
    return adam(rate, (0.9, 0.999))
