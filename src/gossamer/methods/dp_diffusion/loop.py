"""DP diffusion's training: DPDM's loss in a public latent, and the start on pictures that are public."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gossamer.data.records import Records, sent
from gossamer.methods import contract
from gossamer.methods.common import votes
from gossamer.methods.common.learners import Average, Learner, adam, drawn_from, subset
from gossamer.methods.common.method_start import StartState
from gossamer.methods.contract import AT_ONCE, DataCard, Logs, Run, batch_of
from gossamer.methods.dp_diffusion import Config
from gossamer.methods.dp_diffusion.nets import Denoiser, Generator
from gossamer.methods.dp_diffusion.sampler import refined_start
from gossamer.nets.flat import gradient
from gossamer.nets.initialised import initialised_by
from gossamer.privacy import Confined, PerRecordGradient
from gossamer.privacy.per_sample_gradients.rounding import lowered

PUBLIC = 20_000
"""Public pictures that a start is on, at most."""
THRESHOLD = 2.0
"""Votes below so many standard deviations of their noise do not count."""
FALLING = 1 / 3
"""Share of the steps over which the step size falls to zero."""
LOG_SIGMA = (-0.8, 1.2)
"""Mean and standard deviation of the logarithm of the noise levels in training. EDM, table 1, has -1.2 and 1.2."""


def train(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """DPDM, Algorithm 1, one step per yield. Ends when the ledger holds no further release."""
    config, B = run.config, batch_of(run.config.expected_batch_size, run.card)
    gradients = run.query("gradients")
    loss = Loss(state.G, config, config.multiplicity, lambda n: run.rng.normals(n, run.device))
    size, precision = config.physical_batch_size or AT_ONCE, config.precision
    query = PerRecordGradient(state.D.net, loss.of_records, size, multiplicity=config.multiplicity, precision=precision)
    state.keep_start()

    while left := gradients.left(private.remaining):  # l. 3
        g = private.release(gradients, query)  # l. 4-8
        rate = config.learning_rate * min(1.0, left / (FALLING * config.steps))
        state.D.optimiser.param_groups[0]["lr"] = rate
        state.D.step(g.div_(B))  # l. 9
        t = state.step + 1
        state.average.follow(at_most=t / (t + 9))
        yield {"released_norm": g.norm()}


@dataclass(frozen=True)
class Loss:
    """The loss of a denoiser at K noise levels. EDM, equation 8 with the weights of table 1; DPDM, equation 6.

    K is `multiplicity`. `normals` gives so many standard normals, for noise levels, noise and dropped labels; for records
    secret ones.
    """

    net: Generator
    config: Config
    multiplicity: int
    normals: Callable[[int], Tensor]

    def of_records(self, denoiser: nn.Module, records: Records) -> Tensor:
        """One loss per record and noise level, divided by their number, so that those of a record add up to its mean. [K n]"""
        assert isinstance(denoiser, Denoiser)
        images, labels = records.tensors(next(denoiser.parameters()).device)
        return self(denoiser, self.net.code(images), labels)

    def __call__(self, denoiser: Denoiser, codes: Tensor, labels: Tensor) -> Tensor:
        """The same for codes [n, ...]. [K n]"""
        K, dropout = self.multiplicity, self.config.label_dropout
        z = codes.repeat(K, *(1,) * (codes.dim() - 1))
        sizes = [len(z), len(z), z.numel()]
        level, label, noise = sent(self.normals(sum(sizes)), z.device).split(sizes)
        sigma, noise = (LOG_SIGMA[0] + LOG_SIGMA[1] * level).exp(), noise.view_as(z)
        conditions = labels.repeat(K)
        if dropout > 0:
            conditions = torch.where(torch.special.ndtr(label) < dropout, self.net.classes, conditions)
        s = sigma.view(-1, *(1,) * (z.dim() - 1))
        noisy = z + s * noise
        target = (z - denoiser.c_skip(s) * noisy) / denoiser.c_out(s)
        errors = (denoiser.predicted(noisy, sigma, conditions) - target).square()
        losses: Tensor = errors.flatten(1).mean(1) / K
        return losses


def votes_on_public(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """Every record votes for the public picture of its class that is most like it; those with votes are what a start is on."""
    public, ballot = run.public, run.query("votes")
    assert public is not None, "`use_of_public` asks for them"
    if private.remaining(ballot.event):
        counted = private.release(ballot, votes.Votes.on(public, votes.Cosines.of(public), run.card.classes))
        weights = votes.thresholded(counted, ballot.noise_multiplier, threshold=THRESHOLD)
        state.chosen = votes.draw_preferred(public, weights, PUBLIC, run.card, run.rng.public("chosen"))
        yield {"pictures_kept": (weights > 0).sum()}


def preferred(state: "State", public: Records) -> Records:
    """The public pictures that a start is on: those that got votes, or all."""
    return public if state.chosen is None else public[state.chosen.numpy()]


def warm_start(run: Run[Config], state: "State", public: Records) -> Iterator[Logs]:
    """Principal axes of public pictures, and steps on their codes. Costs nothing.

    Then Adam is reset: its moments belong to other gradients.
    """
    config, latent = run.config, state.G.latent
    public = preferred(state, public)
    if state.step == 0:
        if latent is not None:
            latent.fit(subset(public, PUBLIC).tensors(run.device)[0])
        state.D.renew(adam(config.warm_learning_rate, (0.9, 0.999)))
    loss = Loss(state.G, config, 1, lambda n: torch.randn(n, generator=run.rng.public("warm noise")))
    for step in range(state.step, config.warm_steps):
        late = step >= 3 / 4 * config.warm_steps
        state.D.optimiser.param_groups[0]["lr"] = config.warm_learning_rate * (0.2 if late else 1.0)
        batch = drawn_from(public, config.warm_batch_size, run.rng.public("warm start"))
        with lowered(config.precision, run.device):
            mean = loss.of_records(state.D.net, batch).sum() / len(batch)
            g = gradient(mean, state.D.net)
        state.D.step(g)
        yield {"loss": mean.detach()}
    state.D.renew(adam(config.learning_rate, (0.9, 0.999)))
    state.average.restart()


@dataclass
class State(contract.State):
    """The net has seen records through releases only.

    `chosen` has the positions of the public pictures that got votes, some several times.
    """

    G: Generator
    D: Learner[Denoiser]
    average: Average[Generator]
    chosen: Tensor | None = None

    @property
    def released(self) -> Generator:
        """The generator that the run hands out."""
        return self.average.released

    def keep_start(self) -> None:
        """Where samples of the start are to be refined: keep its generator, as it was released, in the network."""
        for net in (self.G, self.average.released):
            if net.start is not None:
                assert isinstance(self.begun, StartState)
                net.start.load_state_dict(self.begun.state.released.state_dict())


def start(run: Run[Config]) -> State:
    """Network and optimiser at the start of a run."""
    config, card = run.config, run.card
    with initialised_by(run.rng.public("initialisation")):
        G = generator(config, card).to(run.device)
    learner = Learner(G.denoiser, adam(config.learning_rate, (0.9, 0.999)))
    return State(G, learner, Average(G, config.average_decay))


def generator(config: Config, card: DataCard) -> Generator:
    """The network that a run releases, with fresh weights."""
    return Generator(
        card.shape, card.classes, network=config.network, axes=config.axes, width=config.width, depth=config.depth,
        start=refined_start(config, card).generator() if config.refine > 0 else None,
    )  # fmt: skip
