"""DPGAN with frequent and adaptive discriminator steps (Bie, Kamath, Zhang; "Private GANs, Revisited", TMLR 2023).

Guarantee: (epsilon, delta)-DP for one unit, add-or-remove-one. Each discriminator step is one Poisson-sampled Gaussian
mechanism: every record's gradient is clipped to `max_norm`, the sum is noised once. The generator sees the records
through the discriminator only, so it is post-processing. Fakes hold no record; whether they are clipped does not matter.

Departures from the paper:
    - The sampling rate is expected batch / *declared* size and the sum is divided by twice the expected batch. The
      authors' code uses 1/ceil(N/B); the declared size keeps the divisor independent of the records.
    - The clipped sums of records and of fakes are computed apart and added: the same number, and the fakes stay outside.
    - The accuracy that drives the adaptive frequency is taken on the fakes of the generator step itself, which are fresh.
    - Optional: a warm start of both networks on public records (free), and a running average of the generator's weights.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.events import Event, Sink
from gossamer.methods import adversarial
from gossamer.methods.adversarial import Fakes
from gossamer.methods.facts import Facts
from gossamer.methods.kept import Kept
from gossamer.nets.dcgan import Discriminator, Generator
from gossamer.nets.flat import flatten, gradient
from gossamer.privacy.confined import Confined
from gossamer.privacy.gradients import PerRecordGradient
from gossamer.privacy.guarantee import Plan
from gossamer.privacy.mechanisms import Bounds, PoissonGaussianSum, poisson_gaussian
from gossamer.privacy.noise import Rng

FACTS = Facts(title="DPGAN (Bie, Kamath, Zhang 2023)")
FREQUENCIES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
"""The discriminator steps per generator step that the adaptive schedule goes through. Section 6.2."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of one run.

    Args:
        noise_multiplier: standard deviation of the noise / max_norm (sigma). Zero: the non-private twin, without clipping.
        steps: discriminator steps (T), each one release.
        expected_batch_size: expected number of records, and exact number of fakes, in a step (B).
        max_norm: L2 bound on the gradient of one record (C).
        discriminator_steps: discriminator steps per generator step (n_D); where the adaptive schedule starts, if adaptive.
        adaptive: raise n_D when the discriminator's accuracy on fakes falls to the floor (section 6.2).
        accuracy_floor: the floor of the adaptive schedule (d); the paper takes 0.6 for epsilon 10 and 0.7 for epsilon 1.
        accuracy_decay: decay of the running accuracy (beta); the grace period is 2 / (1 - beta) generator steps.
        width: channels of the first joint layer; the paper's networks have 128.
        latent_size: length of the generator's latent vector.
        discriminator_learning_rate: Adam's step size for the discriminator.
        generator_learning_rate: Adam's step size for the generator.
        clip_fakes: clip the gradients of fakes like those of records, as the paper does.
        average_decay: decay of the running average of the generator's weights that is released; 0 releases the last weights.
        warm_steps: non-private steps on public records before the first private one; needs public data.
        warm_batch_size: public records in a warm step.
        warm_learning_rate: Adam's step size for the generator in the warm start; the discriminator takes half of it.
        physical_batch_size: records whose gradients are computed at once; bounds the memory, not the result.
    """

    noise_multiplier: float
    steps: int = 4_000
    expected_batch_size: int = 512
    max_norm: float = 1.0
    discriminator_steps: int = 10
    adaptive: bool = False
    accuracy_floor: float = 0.6
    accuracy_decay: float = 0.99
    width: int = 32
    latent_size: int = 128
    discriminator_learning_rate: float = 2e-4
    generator_learning_rate: float = 2e-4
    clip_fakes: bool = True
    average_decay: float = 0.0
    warm_steps: int = 4_000
    warm_batch_size: int = 64
    warm_learning_rate: float = 1e-3
    physical_batch_size: int = 512


def plan(config: Config, card: DataCard) -> Plan:
    """One Poisson-sampled Gaussian per discriminator step. Pure: reads no record.

    Raises:
        RequestError: if a setting of the adaptive schedule is outside its range.
    """
    _check(config)
    rate = config.expected_batch_size / card.declared_size
    return [(poisson_gaussian(sampling_rate=rate, noise_multiplier=config.noise_multiplier), config.steps)]


def generator(config: Config, card: DataCard) -> Generator:
    """The network that a run releases, with fresh weights."""
    return Generator(card.shape, card.classes, width=config.width, latent_size=config.latent_size)


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
    """Algorithm 1 of the paper, one discriminator step per yield. Ends when the ledger holds no further release."""
    state = resume or State.fresh(config, card, rng, device)
    if public is not None:
        yield from warm_start(state, public, config, card, emit=emit, rng=rng)
    B, C = config.expected_batch_size, config.max_norm if config.noise_multiplier else float("inf")
    mechanism = PoissonGaussianSum(
        sampling_rate=B / card.declared_size, max_norm=C, noise_multiplier=config.noise_multiplier, rng=rng
    )
    on_records = PerRecordGradient(state.D, adversarial.loss_on_records, config.physical_batch_size)
    on_fakes = PerRecordGradient(state.D, adversarial.loss_on_fakes, config.physical_batch_size)
    fake_bounds = Bounds(norms=(C if config.clip_fakes else float("inf"),))
    every = max(1, config.steps // 400)

    while left := private.remaining(mechanism.event):  # Alg. 1, l. 3
        fakes = state.fakes(B, card, rng)  # l. 5
        g = private.release(mechanism, on_records)  # l. 4, the first sum of l. 6, and z of l. 7
        released_norm = float(g.norm())
        on_fakes.clipped_sum(fakes, fake_bounds, out=g)  # the second sum of l. 6
        state.phi.grad = g.div_(2 * B)  # l. 7
        state.opt_D.step()  # l. 8
        state.step, state.left = state.step + 1, left - 1  # l. 9
        state.since += 1
        if state.since >= state.n_D:  # l. 10
            accuracy = generator_step(state, B, config, card, rng)  # l. 11-14
            if config.adaptive:
                adapt(state, config, accuracy, emit)
        if state.step % every == 0 or state.step == 1:
            emit(Event("step", state.step, {**state.shown, "released_norm": released_norm, "n_D": state.n_D}))
        yield state


def generator_step(state: "State", B: int, config: Config, card: DataCard, rng: Rng) -> float:
    """Lines 11 to 14: one update of the generator. Returns the discriminator's accuracy on its fresh fakes."""
    latents, labels = state.latents(B, card, rng)
    logits = state.D(state.G(latents, labels), labels)  # l. 11
    loss = adversarial.non_saturating_loss(logits)  # l. 12
    adversarial.descend(state.opt_G, loss, state.G)  # l. 13
    state.generator_steps += 1  # l. 14
    state.since = 0
    if state.average is not None:
        adversarial.update_average(state.average, state.G, config.average_decay)
    accuracy = float((logits.detach() < 0).float().mean())
    state.shown = {"generator_loss": float(loss.detach()), "accuracy_on_fakes": accuracy}
    return accuracy


def adapt(state: "State", config: Config, accuracy: float, emit: Sink) -> None:
    """Section 6.2: move to the next frequency when the running accuracy on fakes is at the floor, after a grace period."""
    beta = config.accuracy_decay
    state.accuracy = accuracy if state.accuracy is None else beta * state.accuracy + (1 - beta) * accuracy
    state.grace += 1
    larger = [n for n in FREQUENCIES if n > state.n_D]
    grace = round(2 / (1 - beta), 6)  # 2 / (1 - 0.9) is a little above 20 in floating point
    if state.grace >= grace and state.accuracy <= config.accuracy_floor and larger:
        state.n_D, state.grace = larger[0], 0
        emit(Event("frequency", state.step, {"n_D": state.n_D, "accuracy": state.accuracy}))


def warm_start(
    state: "State", public: Records, config: Config, card: DataCard, *, emit: Sink, rng: Rng
) -> Iterator["State"]:
    """Train both networks on public records, without privacy, one step of each per yield. Costs nothing."""
    B = min(config.warm_batch_size, len(public))
    every = max(1, config.warm_steps // 40)
    if state.warm == 0:
        state.opt_D, state.opt_G = _optimisers(
            state.phi, state.G, config.warm_learning_rate / 2, config.warm_learning_rate
        )
    while state.warm < config.warm_steps:
        positions = torch.randint(len(public), (B,), generator=rng.public("warm start")).numpy()
        loss = adversarial.loss_on_records(state.D, public[positions]).mean()
        loss = loss + adversarial.loss_on_fakes(state.D, state.fakes(B, card, rng)).mean()
        state.phi.grad = gradient(loss / 2, state.D)
        state.opt_D.step()
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

    D: Discriminator
    phi: Tensor
    opt_D: torch.optim.Adam
    G: Generator
    opt_G: torch.optim.Adam
    average: Generator | None
    n_D: int
    step: int = 0
    generator_steps: int = 0
    warm: int = 0
    since: int = 0
    grace: int = 0
    accuracy: float | None = None
    left: int = 0
    shown: dict[str, float] = field(default_factory=dict)

    counters = ("n_D", "step", "generator_steps", "warm", "since", "grace", "accuracy", "shown")

    @classmethod
    def fresh(cls, config: Config, card: DataCard, rng: Rng, device: str = "cpu") -> "State":
        """Networks and optimisers at the start of a run."""
        with adversarial.initialised_by(rng.public("initialisation")):
            G = generator(config, card).to(device)
            D = Discriminator(card.shape, card.classes, width=config.width).to(device)
        phi = flatten(D)
        average = copy.deepcopy(G) if config.average_decay else None
        opt_D, opt_G = _optimisers(phi, G, config.discriminator_learning_rate, config.generator_learning_rate)
        return cls(D, phi, opt_D, G, opt_G, average, config.discriminator_steps)

    def begin_private(self, config: Config) -> None:
        """After a warm start: fresh optimisers (their moments belong to gradients without noise), fresh average."""
        rates = config.discriminator_learning_rate, config.generator_learning_rate
        self.opt_D, self.opt_G = _optimisers(self.phi, self.G, *rates)
        self.generator_steps = self.since = 0
        if self.average is not None:
            self.average.load_state_dict(self.G.state_dict())

    @property
    def released(self) -> Generator:
        """The generator that the run hands out."""
        return self.G if self.average is None else self.average

    def latents(self, n: int, card: DataCard, rng: Rng) -> tuple[Tensor, Tensor]:
        """Latents [n, latent_size] and labels [n] from public streams: no record can change their place."""
        device = self.phi.device
        z = torch.randn(n, self.G.latent_size, generator=rng.public("latents"))
        return z.to(device), adversarial.draw_labels(n, card, rng.public("labels")).to(device)

    @torch.no_grad()
    def fakes(self, n: int, card: DataCard, rng: Rng) -> Fakes:
        """A batch from the present generator."""
        latents, labels = self.latents(n, card, rng)
        return Fakes(self.G(latents, labels), labels)

    def parts(self) -> dict[str, Any]:
        """What a checkpoint keeps beside the counters."""
        parts = {"D": self.D, "opt_D": self.opt_D, "G": self.G, "opt_G": self.opt_G}
        return parts if self.average is None else {**parts, "average": self.average}


def _optimisers(phi: Tensor, G: nn.Module, rate_D: float, rate_G: float) -> tuple[torch.optim.Adam, torch.optim.Adam]:
    """Adam with the paper's betas (appendix B.1); the discriminator's on its flat vector."""
    betas = (0.5, 0.999)
    return (
        torch.optim.Adam([phi], lr=rate_D, betas=betas, fused=True),
        torch.optim.Adam(G.parameters(), lr=rate_G, betas=betas, fused=True),
    )


def _check(config: Config) -> None:
    """Refuse settings of the adaptive schedule that make no sense."""
    if config.accuracy_decay >= 1:
        raise RequestError(f"--accuracy-decay must be below 1, not {config.accuracy_decay:g}: an average has to move.")
    if config.accuracy_floor > 1:
        raise RequestError(f"--accuracy-floor is a share, at most 1, not {config.accuracy_floor:g}.")
