"""dp-GAN: WGAN-GP with grouped, adaptive clipping and a warm start (Zhang, Ji, Wang 2018).

Guarantee: (epsilon, delta)-DP for one unit, add-or-remove-one. Each critic step is one Poisson-sampled Gaussian: the k groups
of a record's gradient are clipped to c_1 ... c_k and noised together, as one release of multiplier noise_multiplier. The
fakes that a record is compared with are coins of that record. The generator sees the records through the critic only.
Bounds and warm start come from public records, from the config, or from a quantile that is charged.

Departures from the paper:
    - Theorem 4.1 charges k groups like one, by parallel composition. That needs disjoint records, and the groups are disjoint
      coordinates of the same record. Here the noise on group j is sqrt(k) times wider, and the joint multiplier is charged.
    - Line 12 adds noise to every record's gradient; here it is added once, to the sum, as its accountant assumes.
    - Records are drawn by independent coins, and the sum is divided by the expected batch.
    - No batch normalisation in the generator, which would tie the fakes of a batch to each other; pixel norm instead.
    - Labels, if `conditional`: the fake of a record carries the record's label. A running average of the generator.
"""

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.events import Event, Sink
from gossamer.methods import adversarial, grouping
from gossamer.methods.facts import Facts
from gossamer.methods.kept import Kept
from gossamer.nets.flat import flatten
from gossamer.nets.wgan import Critic, Generator
from gossamer.privacy.confined import Confined
from gossamer.privacy.costs import poisson_gaussian
from gossamer.privacy.gradients import norms
from gossamer.privacy.guarantee import Plan
from gossamer.privacy.mechanisms import Bounds, GroupedGaussianSum, PoissonGaussianSum
from gossamer.privacy.noise import Rng
from gossamer.privacy.penalty import PenaltyGradient, Points
from gossamer.privacy.quantiles import SharesBelow, moved

PENALTY = 10.0
"""lambda, section 5.1."""
SMALLEST_BOUND = 1e-6
"""A bound of zero would silence its group for good."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of one run.

    Args:
        noise_multiplier: of the joint release, after the sqrt(k) of the groups. Zero: the non-private twin, without clipping.
        steps: critic steps, each one release.
        expected_batch_size: expected number of records in a step (m).
        max_norm: L2 bound of each group of a record's gradient (C); where private quantiles begin.
        grouping: none: one group; weight-bias: a group for each weight tensor and one for all biases; cluster: Algorithm 2.
        groups: number of groups of `cluster` (k).
        bounds: fixed: max_norm; public: the mean norm in a batch of public records, at every step; private-quantile: charged.
        quantile: the share of records whose norm is to be below the bound.
        quantile_noise_multiplier: noise of each question after the quantile, against its sensitivity.
        quantile_every: critic steps between two such questions.
        critic_steps: critic steps per generator step (n_critic).
        width: d of the networks; the paper's have 64.
        latent_size: length of the generator's latent vector.
        conditional: generate by label; off: images without labels, as in the paper.
        critic_learning_rate: Adam's step size for the critic.
        generator_learning_rate: Adam's step size for the generator.
        beta1: Adam's decay of the first moment; the paper takes 0.5 for MNIST and 0 elsewhere.
        average_decay: decay of the running average of the generator's weights that is released; 0 releases the last weights.
        warm_steps: non-private critic steps on public records before the first private one; needs public data.
        warm_batch_size: public records in a warm step, and in a batch that sets the bounds.
        warm_learning_rate: Adam's step size for both networks in the warm start.
        physical_batch_size: records whose gradients are computed at once; bounds the memory, not the result.
    """

    noise_multiplier: float
    steps: int = 4_000
    expected_batch_size: int = 256
    max_norm: float = 1.0
    grouping: Literal["none", "weight-bias", "cluster"] = "none"
    groups: int = 1
    bounds: Literal["fixed", "public", "private-quantile"] = "fixed"
    quantile: float = 0.5
    quantile_noise_multiplier: float = 10.0
    quantile_every: int = 20
    critic_steps: int = 4
    width: int = 32
    latent_size: int = 128
    conditional: bool = True
    critic_learning_rate: float = 2e-4
    generator_learning_rate: float = 2e-4
    beta1: float = 0.5
    average_decay: float = 0.0
    warm_steps: int = 4_000
    warm_batch_size: int = 64
    warm_learning_rate: float = 2e-4
    physical_batch_size: int = 512


def plan(config: Config, card: DataCard) -> Plan:
    """One joint Gaussian per critic step and, for private quantiles, one per question. Pure: reads no record.

    Raises:
        RequestError: if the settings contradict each other.
    """
    _check(config)
    rate = config.expected_batch_size / card.declared_size
    releases = [(poisson_gaussian(sampling_rate=rate, noise_multiplier=config.noise_multiplier), config.steps)]
    if _asks(config):
        question = poisson_gaussian(sampling_rate=rate, noise_multiplier=config.quantile_noise_multiplier)
        releases.append((question, -(-config.steps // config.quantile_every)))
    return releases


FACTS = Facts(title="dp-GAN (Zhang, Ji, Wang 2018)", needs_public=lambda config: config.bounds == "public")


def generator(config: Config, card: DataCard) -> Generator:
    """The network that a run releases, with fresh weights."""
    classes = card.classes if config.conditional else 1
    return Generator(card.shape, classes, width=config.width, latent_size=config.latent_size)


def train(
    private: Confined[Records],
    config: Config,
    card: DataCard,
    *,
    public: Records | None = None,
    resume: "State | None" = None,
    emit: Sink,
    rng: Rng,
    device: str = "cpu",
) -> Iterator["State"]:
    """Algorithm 3 (Algorithm 1 with one group and fixed bounds), one critic step per yield."""
    state = resume or State.fresh(config, card, rng, device)
    if public is not None:
        yield from warm_start(state, public, config, card, emit=emit, rng=rng)  # l. 1
    B = config.expected_batch_size
    rate = B / card.declared_size
    query = PenaltyGradient(state.D, pairs_for(state.G, rng.secret_generator), PENALTY, 0.0, config.physical_batch_size)
    event = poisson_gaussian(sampling_rate=rate, noise_multiplier=config.noise_multiplier)
    every = max(1, config.steps // 400)

    while remaining := private.remaining(event):  # l. 2, 3, 22: the plan ends where the budget does
        done = config.steps - remaining
        if config.bounds == "public" and public is not None:
            state.norms = public_norms(state, public, config, rng)  # l. 4-5
        elif _asks(config) and done % config.quantile_every == 0:
            ask_quantiles(state, private, query, config, rate, rng)
        bounds = joined(state, config)  # l. 6
        mechanism = GroupedGaussianSum(
            sampling_rate=rate, noise_multiplier=config.noise_multiplier, bounds=bounds, rng=rng
        )
        g = private.release(mechanism, query)  # l. 7-12, and the accountant of l. 15
        released_norm = float(g.norm())
        state.w.grad = g.div_(B)
        state.opt_D.step()  # l. 16-17
        state.step, state.left = state.step + 1, remaining - 1
        state.since += 1
        if state.since >= config.critic_steps:
            generator_step(state, B, config, card, rng)  # l. 19-20
        if state.step % every == 0 or state.step == 1:
            shown = {
                "released_norm": released_norm,
                "largest_bound": max(bounds.norms) if config.noise_multiplier else 0.0,
            }
            emit(Event("step", state.step, {**state.shown, **shown}))
        yield state


def pairs_for(G: Generator, coins: Callable[[], torch.Generator]) -> Callable[[Records], Points]:
    """Lines 26 to 28: each record with a fake of its own, and a point between the two. The coins belong to the record."""

    def points(records: Records) -> Points:
        stream = coins()
        images, labels = records.tensors(next(G.parameters()).device)
        real = 2 * images - 1
        latents = torch.randn(len(records), G.latent_size, generator=stream).to(real.device)  # l. 27
        weight = torch.rand(len(records), 1, 1, 1, generator=stream).to(real.device)
        with torch.no_grad():
            fake = 2 * G(latents, labels) - 1
        return Points(real, fake, fake.lerp(real, weight), labels)  # l. 28

    return points


def generator_step(state: "State", B: int, config: Config, card: DataCard, rng: Rng) -> None:
    """Lines 19 and 20: one update of the generator."""
    latents = torch.randn(B, state.G.latent_size, generator=rng.public("latents")).to(state.w.device)
    labels = adversarial.draw_labels(B, card, rng.public("labels")).to(state.w.device)
    loss = -state.D(2 * state.G(latents, labels) - 1, labels).mean()
    adversarial.descend(state.opt_G, loss, state.G)
    state.generator_steps += 1
    state.since = 0
    if state.average is not None:
        adversarial.update_average(state.average, state.G, config.average_decay)
    state.shown = {"generator_loss": float(loss.detach())}


def public_norms(state: "State", public: Records, config: Config, rng: Rng) -> list[float]:
    """Lines 4 and 5: the mean gradient norm of each group before clustering, over a fresh batch of public records."""
    query = PenaltyGradient(
        state.D, pairs_for(state.G, lambda: rng.public("bounds")), PENALTY, 0.0, config.physical_batch_size
    )
    batch = _batch(public, config.warm_batch_size, rng.public("bounds"))
    mean = norms(query, Records(batch.images, batch.labels), state.groups).nan_to_num(0, 0, 0).mean(0)
    return [max(SMALLEST_BOUND, float(norm)) for norm in mean]


def ask_quantiles(
    state: "State", private: Confined[Records], query: PenaltyGradient[Records], config: Config, rate: float, rng: Rng
) -> None:
    """Move the bounds towards the wanted quantile of norms, by one charged release."""
    question = SharesBelow(query, tuple(state.norms), state.groups)
    mechanism = PoissonGaussianSum(
        sampling_rate=rate, max_norm=question.sensitivity, noise_multiplier=config.quantile_noise_multiplier, rng=rng
    )
    if not private.remaining(mechanism.event):  # a crash has used some up
        return
    answer = private.release(mechanism, question)
    found = moved(
        state.norms, answer, expected_batch_size=config.expected_batch_size, quantile=config.quantile, rate=0.2
    )
    state.norms = [max(SMALLEST_BOUND, bound) for bound in found]


def joined(state: "State", config: Config) -> Bounds:
    """The bounds of the next release: Algorithm 2 on the present norms, where asked for. None for the twin."""
    if config.grouping == "cluster":
        found = grouping.cluster(state.norms, config.groups)
    else:
        found = Bounds(norms=tuple(state.norms), groups=state.groups)
    if config.noise_multiplier:
        return found
    return Bounds(norms=(math.inf,) * len(found.norms), groups=found.groups)


def warm_start(
    state: "State", public: Records, config: Config, card: DataCard, *, emit: Sink, rng: Rng
) -> Iterator["State"]:
    """Line 1: ordinary WGAN-GP on public records, one critic step per yield. Costs nothing."""
    B = min(config.warm_batch_size, len(public))
    query = PenaltyGradient(
        state.D, pairs_for(state.G, lambda: rng.public("warm pairs")), PENALTY, 0.0, config.physical_batch_size
    )
    every = max(1, config.warm_steps // 40)
    if state.warm == 0:
        state.set_rates(config, config.warm_learning_rate, config.warm_learning_rate)
    while state.warm < config.warm_steps:
        batch = _batch(public, B, rng.public("warm start"))
        state.w.grad = query.summed(batch).div_(B)
        state.opt_D.step()
        state.since += 1
        if state.since >= config.critic_steps:
            generator_step(state, B, config, card, rng)
        state.warm += 1
        if state.warm == config.warm_steps:
            state.begin_private(config)
        if state.warm % every == 0:
            emit(Event("warm", state.warm, dict(state.shown)))
        yield state


@dataclass
class State(Kept):
    """Everything a run goes on from. The networks and optimisers have seen records through releases only."""

    D: Critic
    w: Tensor
    opt_D: torch.optim.Adam
    G: Generator
    opt_G: torch.optim.Adam
    average: Generator | None
    groups: tuple[int, ...]
    norms: list[float]
    step: int = 0
    generator_steps: int = 0
    warm: int = 0
    since: int = 0
    left: int = 0
    shown: dict[str, float] = field(default_factory=dict)

    counters = ("step", "generator_steps", "warm", "since", "shown", "norms")

    @classmethod
    def fresh(cls, config: Config, card: DataCard, rng: Rng, device: str = "cpu") -> "State":
        """Networks and optimisers at the start of a run."""
        with adversarial.initialised_by(rng.public("initialisation")):
            G = generator(config, card).to(device)
            D = Critic(card.shape, G.classes, width=config.width).to(device)
        w = flatten(D)
        average = copy.deepcopy(G) if config.average_decay else None
        split = {"none": grouping.one_group, "weight-bias": grouping.weight_bias, "cluster": grouping.per_tensor}
        groups = split[config.grouping](D)
        if config.grouping == "cluster":
            grouping.cluster([1.0] * len(groups), config.groups)  # refuses a number of groups that cannot be
        opt_D = _adam([w], config.critic_learning_rate, config)
        opt_G = _adam(list(G.parameters()), config.generator_learning_rate, config)
        return cls(D, w, opt_D, G, opt_G, average, groups, [config.max_norm] * (max(groups) + 1))

    def set_rates(self, config: Config, critic: float, generator: float) -> None:
        """Fresh optimisers with these step sizes."""
        self.opt_D, self.opt_G = _adam([self.w], critic, config), _adam(list(self.G.parameters()), generator, config)

    def begin_private(self, config: Config) -> None:
        """After a warm start: fresh optimisers (their moments belong to gradients without noise), fresh average."""
        self.set_rates(config, config.critic_learning_rate, config.generator_learning_rate)
        self.generator_steps = self.since = 0
        if self.average is not None:
            self.average.load_state_dict(self.G.state_dict())

    @property
    def released(self) -> Generator:
        """The generator that the run hands out."""
        return self.G if self.average is None else self.average

    def parts(self) -> dict[str, Any]:
        """What a checkpoint keeps beside the counters."""
        parts = {"D": self.D, "opt_D": self.opt_D, "G": self.G, "opt_G": self.opt_G}
        return parts if self.average is None else {**parts, "average": self.average}


def _adam(parameters: list[Tensor], rate: float, config: Config) -> torch.optim.Adam:
    return torch.optim.Adam(parameters, lr=rate, betas=(config.beta1, 0.9), fused=True)  # Table 1


def _batch(records: Records, size: int, stream: torch.Generator) -> Records:
    positions = torch.randint(len(records), (min(size, len(records)),), generator=stream).numpy()
    return records[positions]


def _asks(config: Config) -> bool:
    return config.bounds == "private-quantile" and config.noise_multiplier > 0


def _check(config: Config) -> None:
    """Refuse settings that contradict each other."""
    if config.grouping != "cluster" and config.groups != 1:
        raise RequestError(
            f"--groups {config.groups} goes with --grouping cluster; {config.grouping} has its own number."
        )
    if config.grouping == "cluster" and config.bounds == "fixed":
        raise RequestError("--grouping cluster needs bounds that differ: take --bounds public or private-quantile.")
    if not 0 < config.quantile < 1:
        raise RequestError(f"--quantile must lie between 0 and 1, not {config.quantile:g}.")
    if config.bounds == "private-quantile" and config.quantile_noise_multiplier <= 0:
        raise RequestError("--quantile-noise-multiplier must be above 0: without noise the quantile is not private.")
    if _asks(config) and config.quantile_noise_multiplier == config.noise_multiplier:
        raise RequestError(
            "--quantile-noise-multiplier must differ from --noise-multiplier: the ledger tells them apart by it."
        )
    if config.beta1 >= 1:
        raise RequestError(f"--beta1 must be below 1, not {config.beta1:g}.")
