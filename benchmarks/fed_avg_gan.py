"""Fed-Avg GAN (Augenstein et al. 2020), the baseline of Chen et al. (2020), section 5.4, on the engine of `gossamer federated`.

It stands here and not among the methods: its clients send the change of their critic clipped but without noise, so against the
server it promises nothing, and every method of Gossamer that is federated does.

A round is DP-FedAvg (McMahan et al. 2018) over the critic, then an ordinary step of the generator at the server:

1. Each client is drawn by a coin of its own (Poisson, `clients_per_round` / clients).
2. A drawn client trains the critic that it was sent, on its records and on fakes of the generator that it was sent, by plain
   gradients without noise, and sends by how much the weights have moved, clipped to `max_norm`.
3. The server adds the changes up, adds noise of noise_multiplier x max_norm once, divides by the *expected* number of clients,
   and moves its critic by that (a server learning rate of 1).
4. The generator takes `generator_steps` steps against that critic.

A round is one Poisson-sampled Gaussian, for one client with all its records (add-or-remove-one). Networks, critic steps, labels
and the start on public records are those of GS-WGAN, so that what differs is what leaves a client. The published networks
have batch normalisation and no labels, and 6.6 million weights in the critic, which noise would have to cover.
"""

import copy
import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gossamer.data.card import DataCard, draw_labels
from gossamer.data.records import Records
from gossamer.methods.contract import Run
from gossamer.methods.gs_wgan import Config, loop
from gossamer.methods.gs_wgan.critics import Critics
from gossamer.privacy.accounting import calibrate
from gossamer.privacy.confined import Confined
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE, Guarantee, Plan
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.mechanisms.gaussian import PoissonGaussianSum, clipped_to, clipping_sum
from gossamer.privacy.mechanisms.sanitized_rows import clipped
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng
from gossamer.run.federated.network import Local, Network
from gossamer.run.federated.questions import Answer, Question, read, written


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What Fed-Avg GAN has beyond GS-WGAN's settings.

    Args:
        rounds: each one release (T).
        clients_per_round: expected number of drawn clients.
        max_norm: L2 bound on the change of one client (C).
        generator_steps: at the server, in each round.
    """

    rounds: int = 100
    clients_per_round: int = 27
    max_norm: float = 0.1
    generator_steps: int = 6

    def plan(self, card: DataCard, noise_multiplier: float) -> Plan:
        """What a run releases: one Poisson-sampled Gaussian a round."""
        return [(self.mechanism(card, noise_multiplier).event, self.rounds)]

    def mechanism(self, card: DataCard, noise_multiplier: float) -> PoissonGaussianSum:
        """What asks for the changes of the drawn clients."""
        rate = self.clients_per_round / card.declared_size
        return clipping_sum(sampling_rate=rate, max_norm=self.max_norm, noise_multiplier=noise_multiplier)

    def noise_for(self, card: DataCard, *, epsilon: float, delta: float) -> float:
        """The noise multiplier that a budget needs; zero where it is infinite."""
        if math.isinf(epsilon):
            return 0.0
        return calibrate.calibrate_noise(
            lambda value: self.plan(card, value), epsilon=epsilon, delta=delta, relation=ADD_OR_REMOVE_ONE, unit=card.unit
        )  # fmt: skip


class Client:
    """One owner of records. Its critic is the server's, and goes back as a change.

    Args:
        records: all of one unit; there may be none.
        run: settings and card, as the server has them.
        state: its networks are copied.
        max_norm: L2 bound on what leaves (C).
    """

    def __init__(self, records: Records, run: Run[Config], state: loop.State, max_norm: float) -> None:
        self._run, self._max_norm, self._rng = run, max_norm, Rng()
        self._generator = copy.deepcopy(state.G.net)
        self._critics = critic_of(records, run.config, state)

    @torch.no_grad()
    def reply(self, text: str) -> str:
        """Step 2 of a round."""
        held, config, given = self._critics, self._run.config, read(Question, text).state
        self._generator.load_state_dict({name[2:]: value for name, value in given.items() if name.startswith("G.")})
        held.end_warm()  # Adam begins anew: its moments belong to an earlier round
        held.weights[0], held.directions[0] = given["D"], given["directions"]
        coins = self._rng.secret_generator()
        n = config.critic_steps * config.critic_batch_size
        labels = draw_labels(n, self._run.card, coins)
        fakes = self._generator(torch.randn(n, config.latent_size, generator=coins), labels)
        held.learn([0], fakes, labels, [coins])
        change = clipped(held.weights[:1] - given["D"], self._max_norm)[0]
        return written(Answer("", "", change, ""))


def critic_of(records: Records, config: Config, state: loop.State) -> Critics:
    """One critic with all these records, with the weights that every critic begins with."""
    shards = np.zeros(len(records), dtype=np.int64)
    return Critics(records, shards, state.critic, state.throwaway, dataclasses.replace(config, critics=1))


def sent(critic: Critics, generator: torch.nn.Module) -> dict[str, Tensor]:
    """What goes to a client: weights of both networks, and the directions of the critic's spectral norms."""
    weights = {f"G.{name}": value for name, value in generator.state_dict().items()}
    return {**weights, "D": critic.weights[0], "directions": critic.directions[0]}


@dataclass(frozen=True)
class Reachable:
    """Clients as a mechanism draws them: each is one unit."""

    names: tuple[str, ...]

    @property
    def population(self) -> int:
        """How many there are."""
        return len(self.names)

    def take(self, chosen: np.ndarray) -> "Reachable":
        """Those drawn."""
        return Reachable(tuple(self.names[i] for i in chosen))


@dataclass(frozen=True)
class Changes:
    """The query: the sum of the changes that the drawn clients send, each clipped once more, whatever they say."""

    network: Network
    critic: Critics
    generator: torch.nn.Module

    @property
    def dimension(self) -> int:
        """Number of the critic's weights."""
        return self.critic.weights.shape[1]

    def clipped_sum(self, drawn: Reachable, bounds: Bounds) -> Tensor:
        """Steps 2 and 3 of a round, but for the noise. [D]"""
        text = written(Question({}, "", 0, "round", sent(self.critic, self.generator)))
        total = torch.zeros(self.dimension)
        for name, reply in self.network.exchange(dict.fromkeys(drawn.names, text)):
            change = read(Answer, str(reply)).values
            assert change is not None and change.shape == total.shape, name
            total += clipped(change[None], bounds.norms[0])[0]
        return total


def train(
    run: Run[Config],
    state: loop.State,
    asked: Settings,
    network: Network,
    ledger: PrivacyLedger,
    noise_multiplier: float,
) -> Iterator[float]:
    """The rounds, one per yield: how long the released change was. Ends when the ledger holds no further release."""
    nobody = Records(np.zeros((0, *run.card.shape), np.uint8), np.zeros(0, np.int64))
    critic = critic_of(nobody, run.config, state)
    private = Confined(Reachable(tuple(network.present())), ledger, run.rng)
    release = asked.mechanism(run.card, noise_multiplier)
    while private.remaining(release.event):
        change = private.release(release, Changes(network, critic, state.G.net))  # steps 1 to 3
        critic.weights[0] += change / asked.clients_per_round
        critic.directions = critic.layout.iterate(critic.weights, critic.directions)
        for _ in range(asked.generator_steps):  # step 4
            fakes = state.fakes(run, run.config.critic_batch_size)
            rows = critic.gradients([0], fakes.images.detach()[None], fakes.labels[None])[0]
            state.G.descend((fakes.images * rows).sum() / len(rows))
            state.G.average.follow(at_most=1 - 1 / (state.step + 2))
            state.step += 1
        yield float(change.norm())


def simulate(
    records: Records,
    card: DataCard,
    public: Records | None,
    config: Config,
    asked: Settings,
    *,
    epsilon: float,
    delta: float,
    seed: int = 0,
) -> tuple[loop.Generator, Guarantee, float]:
    """A client for each unit, in this process, from a start on public records where there are some.

    Returns:
        The generator, its guarantee against those who see it, and the noise multiplier.
    """
    noise = asked.noise_for(card, epsilon=epsilon, delta=delta)
    ledger = PrivacyLedger(budget=epsilon, delta=delta, relation=ADD_OR_REMOVE_ONE, unit=card.unit)
    ledger.reserve(asked.plan(card, noise))
    run = Run(config, card, Rng(seed))
    state = loop.start(run)
    if public is not None:
        for _ in loop.public_start(run, state, public):
            pass
    assert records.units is not None
    bound = clipped_to(asked.max_norm, noise_multiplier=noise)
    clients = {}
    for unit in range(records.population):
        mine = records.units == unit
        own = Client(Records(records.images[mine], records.labels[mine]), run, state, bound)
        clients[f"client-{unit:04d}"] = own.reply
    for _ in train(run, state, asked, Local(clients), ledger, noise):
        pass
    return state.released, ledger.promise(), noise
