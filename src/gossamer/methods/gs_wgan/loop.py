"""GS-WGAN: gradient-sanitised Wasserstein GAN (Chen, Orekondy, Fritz; NeurIPS 2020), all records in one place.

Guarantee: (epsilon, delta)-DP for one unit. The records are dealt to K critics that train without noise and never leave
`Confined`. An answer is what one critic says about B generated images: the gradient of the generator's loss at each image,
clipped to C and noised against 2C (equation 11). All else is post-processing. A unit is in one shard and may change that critic
arbitrarily, so an answer is one Gaussian of multiplier noise_multiplier / sqrt(B), and `draw` says what is made of T of them:
secret (default, replace-one): 1 of K, sampled without replacement. round_robin (add-or-remove-one): every critic answers
ceil(T / K) times. paper (add-or-remove-one): the authors' loop, charged as if the draws were published, as its critics are.

Departures from the paper:
    - The published epsilon counts T x B separate draws, where B rows share one, and its critics train when they are drawn, so
      that their state tells the hidden draws. Here each draw is charged for what it is (docs/methods/gs-wgan.md).
    - In `secret` the critics train in turns that do not look at the draw. One that answers may not have trained for K steps.
    - Records go to shards by independent coins, so that one record more moves no other. A shard may be empty.
    - Answering changes nothing: the power iteration of a critic's spectral norm takes a step when it trains, and only then.
    - The fakes of a step are made once: the critic that trains sees them at each of its steps (paired by label with its
      records), and the one that answers too. Batches are drawn with replacement. All critics begin with the same weights.
    - A step may average several answers, each of a critic drawn for it alone and each charged (`answers`; 1 in the paper).
    - The labels of fakes are drawn from the card's prior; the authors' critics see fakes made for the labels of their records.
    - The throw-away generators of the warm start are DCGANs, whatever the generator is, and a visit there is as in training.
"""

import copy
import dataclasses
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.events import Event, Sink
from gossamer.methods import adversarial
from gossamer.methods.critics import Answers, Critics, Recipe
from gossamer.methods.facts import Facts
from gossamer.methods.kept import Kept
from gossamer.methods.stacked import BETAS
from gossamer.nets.resnet import DcganGenerator, ProjectionCritic, ResNetGenerator
from gossamer.privacy import rows
from gossamer.privacy.confined import Confined
from gossamer.privacy.costs import Draw
from gossamer.privacy.guarantee import Plan
from gossamer.privacy.noise import Rng
from gossamer.privacy.rows import SanitizedRows


@dataclass(frozen=True, kw_only=True)
class Config:
    """Settings of one run.

    Args:
        noise_multiplier: standard deviation of the noise / 2 max_norm, per row (sigma). Zero: the non-private twin.
        steps: generator steps.
        answers: answers that a step averages, each of a critic of its own draw and charged by itself: T is steps x answers.
        critics: number of critics and shards (K).
        batch_size: rows of an answer, one for each generated image (B).
        draw: who answers. secret: nobody learns it; round_robin: in turns; paper: the one that has just trained, by lot.
        max_norm: L2 bound on each row (C).
        critic_steps: training steps in each visit to a critic (n_critic).
        critic_batch_size: records, and fakes, in a training step of a critic.
        visits: critics that train at each step; more than 1 with the secret draw only.
        width: channels of a critic's first layer, a quarter of the generator's; the paper's nets have 64.
        generator: resnet, as published, or dcgan, which is ten times faster.
        latents: bernoulli: zeros and ones, as published; normal.
        latent_size: length of the generator's latent vector.
        critic_learning_rate: Adam's step size for the critics.
        generator_learning_rate: Adam's step size for the generator.
        average_decay: decay of the running average of the generator's weights that is released; 0 releases the last weights.
        warm_steps: visits to each critic before the first release, each with a step of a generator that is thrown away.
        warm_stack: critics warmed up together; bounds the memory, not the result.
        public_steps: steps of ordinary training of the generator and one critic on public records, where there are some. All
            critics begin with that critic's weights, and warm up on that generator's fakes instead of a throw-away's.
        public_learning_rate: Adam's step size for both there.
        storage: how critics are kept between visits; bfloat16 takes half the memory and rounds at random.
    """

    noise_multiplier: float
    steps: int = 5_000
    answers: int = 1
    critics: int = 100
    batch_size: int = 16
    draw: Draw = "secret"
    max_norm: float = 1.0
    critic_steps: int = 5
    critic_batch_size: int = 32
    visits: int = 1
    width: int = 16
    generator: Literal["resnet", "dcgan"] = "resnet"
    latents: Literal["bernoulli", "normal"] = "bernoulli"
    latent_size: int = 10
    critic_learning_rate: float = 1e-4
    generator_learning_rate: float = 1e-4
    average_decay: float = 0.999
    warm_steps: int = 100
    warm_stack: int = 4
    public_steps: int = 2_000
    public_learning_rate: float = 1e-3
    storage: Literal["float32", "bfloat16"] = "float32"


def plan(config: Config, card: DataCard) -> Plan:  # noqa: ARG001 (what every method is asked; no rate depends on the size)
    """One event for each answer; for the round robin, one for each pass over all critics. Pure: reads no record.

    Raises:
        RequestError: if the settings contradict each other.
    """
    if config.visits > 1 and config.draw != "secret":
        raise RequestError(f"--visits {config.visits} goes with --draw secret; else the critic that trains answers.")
    if config.answers > 1 and config.draw == "paper":
        raise RequestError(
            f"--answers {config.answers} goes with --draw secret or round_robin; the paper asks one critic a step."
        )
    for name in ("visits", "answers"):
        if not 1 <= (asked := getattr(config, name)) <= config.critics:
            raise RequestError(f"--{name} {asked} is not between 1 and the {config.critics} critics.")
    return rows.plan_of(steps=config.steps * config.answers, **_release(config))


def explain(config: Config) -> str:
    """Which draw a plan has, in words."""
    T, K = config.steps * config.answers, config.critics
    return {
        "secret": f"draw secret: each of {T:,} answers is given by one of {K:,} critics, and nobody learns by which",
        "round_robin": f"draw round_robin: {K:,} critics answer in turns, each {-(-T // K):,} times; nothing is amplified",
        "paper": f"draw paper: the drawn one of {K:,} critics trains and answers, {T:,} times; charged with the draws known",
    }[config.draw]


FACTS = Facts(
    title="GS-WGAN (Chen, Orekondy, Fritz 2020)",
    relation=lambda config: rows.relation_of(config.draw),
    length=lambda config, _card, public: (config.warm_steps + config.public_steps * public, config.steps),
    explain=explain,
)


def generator(config: Config, card: DataCard) -> ResNetGenerator | DcganGenerator:
    """The network that a run releases, with fresh weights."""
    kind = ResNetGenerator if config.generator == "resnet" else DcganGenerator
    bernoulli = config.latents == "bernoulli"
    return kind(card.shape, card.classes, width=config.width, latent_size=config.latent_size, bernoulli=bernoulli)


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
    """Section 4 of the paper, one generator step per yield. Ends when the ledger holds no further release."""
    state = resume or State.fresh(config, card, rng, device)
    if public is not None and state.public < config.public_steps:
        yield from public_start(state, public, config, card, emit=emit, rng=rng)
    critics = state.confine(private, config, rng)
    yield from warm_start(state, critics, config, card, own=public is not None, emit=emit, rng=rng)
    mechanism, A, T = _mechanism(config, rng), config.answers, config.steps * config.answers
    n = A * config.batch_size
    every = max(1, config.steps // 400)

    while (left := mechanism.answers_left(private.remaining(mechanism.paid), T)) >= A:
        x, y = state.fakes(max(n, config.critic_batch_size), card, rng, with_graph=n)
        chosen = turns(config, (T - left) // A, mechanism)
        critics.update(Visit(chosen, x.detach(), y, rng))  # equations 8 and 12
        query = Answers(x[:n].detach().unflatten(0, (A, -1)), y[:n].view(A, -1))
        g = critics.release(mechanism, query)  # equation 11, left factor
        loss = (x[:n] * g).sum() / n  # its gradient is the product of equation 11; equation 13 stays inside
        adversarial.descend(state.opt_G, loss, state.G)  # equation 9
        state.step, state.left = state.step + 1, left // A - 1
        state.follow(config)
        if state.step % every == 0 or state.step == 1:
            emit(Event("step", state.step, {"released_norm": float(g.norm())}))
        yield state


def turns(config: Config, t: int, mechanism: SanitizedRows) -> list[int]:
    """The critics that train at step t: for the secret draw in turns, which no draw moves; else those that will answer."""
    answering = mechanism.next_critic()
    if answering is None:
        return [(t * config.visits + i) % config.critics for i in range(config.visits)]
    return [(answering + i) % config.critics for i in range(config.answers)]


def public_start(
    state: "State", public: Records, config: Config, card: DataCard, *, emit: Sink, rng: Rng
) -> Iterator["State"]:
    """The same game with one critic, without clipping or noise, on public records: free. One generator step per yield."""
    every = max(1, config.public_steps // 40)
    one, opt_G = state.public_pair(public, config)
    while state.public < config.public_steps:
        x, y = state.fakes(config.critic_batch_size, card, rng, prefix="public ")
        one.learn([0], x.detach(), y, [rng.public("public critic")])
        g = one.gradients([0], x.detach()[None], y[None])[0]
        adversarial.descend(opt_G, (x * g).sum() / len(x), state.G)
        state.public += 1
        state.warm = state.public
        if state.public == config.public_steps:
            state.end_public(one, config)
        if state.public % every == 0:
            emit(Event("warm", state.warm, {}))
        yield state


def warm_start(
    state: "State", critics: Confined[Critics], config: Config, card: DataCard, *, own: bool, emit: Sink, rng: Rng
) -> Iterator["State"]:
    """Train every critic inside, a stack after the other; nothing leaves. One visit each per yield.

    The paper's appendix has it and charges nothing for it, rightly: the critics go on inside. Each critic has a throw-away
    generator beside it; or, where public records have made one that is worth it (`own`), all see the run's own fakes.
    """
    stacks = -(-config.critics // config.warm_stack)
    every = max(1, config.warm_steps // 40)
    while state.rounds < stacks * config.warm_steps:
        stack, done = divmod(state.rounds, config.warm_steps)
        first = stack * config.warm_stack
        chosen = range(first, min(first + config.warm_stack, config.critics))
        if done == 0 and not own:
            critics.update(functools.partial(Critics.begin_warm, count=len(chosen)))
        draw = state.fakes if own else state.latents
        given, labels = draw(config.critic_batch_size, card, rng, prefix="warm ")
        critics.update(Visit(chosen, given.detach(), labels, rng, warm=not own))
        state.rounds += 1
        state.warm = state.public + state.rounds // stacks
        if state.rounds == stacks * config.warm_steps:
            critics.update(Critics.end_warm)
        if state.rounds % (stacks * every) == 0:
            emit(Event("warm", state.warm, {"critics_done": stack * config.warm_stack}))
        yield state


class Visit:
    """What happens to the chosen critics at one step. Each has secret coins of its own; how many, no record decides.

    Args:
        chosen: the critics.
        given: fakes, or the latents of fakes in the warm start.
        labels: of the fakes.
        rng: source of the coins.
        warm: whether the critics' throw-away generators train too.
    """

    def __init__(
        self, chosen: "list[int] | range", given: Tensor, labels: Tensor, rng: Rng, *, warm: bool = False
    ) -> None:
        self.chosen, self.given, self.labels, self.warm = chosen, given, labels, warm
        self.coins = [rng.secret_generator() for _ in chosen]

    def __call__(self, held: Critics) -> None:
        """Train them, in place."""
        (held.warm_round if self.warm else held.learn)(self.chosen, self.given, self.labels, self.coins)


@dataclass
class State(Kept):
    """Everything a run goes on from. Generator and optimiser saw records through releases only; the critics stay inside."""

    G: ResNetGenerator | DcganGenerator
    opt_G: torch.optim.Adam
    average: ResNetGenerator | DcganGenerator | None
    critic: ProjectionCritic
    throwaway: DcganGenerator
    critics: Confined[Critics] | None = None
    sealed: Path | None = None
    one: Critics | None = None
    saved_one: dict[str, Any] | None = None
    step: int = 0
    warm: int = 0
    public: int = 0
    rounds: int = 0
    left: int = 0

    counters = ("step", "warm", "public", "rounds")

    @classmethod
    def fresh(cls, config: Config, card: DataCard, rng: Rng, device: str = "cpu") -> "State":
        """Networks and optimiser at the start of a run."""
        with adversarial.initialised_by(rng.public("initialisation")):
            G = generator(config, card).to(device)
            D = ProjectionCritic(card.shape, card.classes, width=config.width).to(device)
            warm = DcganGenerator(card.shape, card.classes, width=config.width, latent_size=config.latent_size).to(
                device
            )
        average = copy.deepcopy(G) if config.average_decay else None
        return cls(G, _adam(G, config.generator_learning_rate), average, D, warm)

    def public_pair(self, public: Records, config: Config) -> tuple[Critics, torch.optim.Adam]:
        """One critic with all public records, and the optimiser of the generator beside it; those of a checkpoint go on."""
        recipe = dataclasses.replace(_recipe(config), rate=config.public_learning_rate)
        shards = np.zeros(public.population, dtype=np.int64)
        self.one = Critics(public, shards, self.critic, self.throwaway, 1, recipe)
        if self.saved_one is not None:
            self.one.load_state_dict(self.saved_one)
        for group in self.opt_G.param_groups:
            group["lr"] = config.public_learning_rate
        return self.one, self.opt_G

    def end_public(self, one: Critics, config: Config) -> None:
        """What private training begins with: its weights in every critic, fresh moments, a fresh average."""
        one.layout.put(one.weights[0], one.directions[0], self.critic)
        self.opt_G = _adam(self.G, config.generator_learning_rate)
        self.one = None
        if self.average is not None:
            self.average.load_state_dict(self.G.state_dict())

    def confine(self, private: Confined[Records], config: Config, rng: Rng) -> Confined[Critics]:
        """Deal the records to critics, inside; those of a checkpoint go on, with the shards that they had."""
        sealed = self.sealed

        def deal(records: Records) -> Critics:
            units = records.population
            shards = rng.integers(units, config.critics) if sealed is None else np.zeros(units, dtype=np.int64)
            storage = getattr(torch, config.storage)
            return Critics(records, shards, self.critic, self.throwaway, config.critics, _recipe(config), storage)

        self.critics = private.map(deal)
        if sealed is not None:
            self.critics.unseal(sealed)
        return self.critics

    @property
    def released(self) -> ResNetGenerator | DcganGenerator:
        """The generator that the run hands out."""
        return self.G if self.average is None else self.average

    def latents(self, n: int, card: DataCard, rng: Rng, *, prefix: str = "") -> tuple[Tensor, Tensor]:
        """Latents [n, latent_size] and labels [n] from public streams: no record can change their place."""
        device = next(self.G.parameters()).device
        z = torch.randn(n, self.G.latent_size, generator=rng.public(f"{prefix}latents"))
        return z.to(device), adversarial.draw_labels(n, card, rng.public(f"{prefix}labels")).to(device)

    def fakes(
        self, n: int, card: DataCard, rng: Rng, *, with_graph: int | None = None, prefix: str = ""
    ) -> tuple[Tensor, Tensor]:
        """Images [n, C, H, W] and their labels [n]; the first `with_graph` images (None: all) lead back to the generator."""
        z, y = self.latents(n, card, rng, prefix=prefix)
        x = self.G(z[:with_graph], y[:with_graph])
        if with_graph is not None and n > with_graph:
            with torch.no_grad():
                more = self.G(z[with_graph:], y[with_graph:])
            x = torch.cat([x, more])
        return x, y

    def follow(self, config: Config) -> None:
        """Move the running average, quickly at first: decay min(1 - 1 / (t + 1), average_decay), as the authors' code."""
        if self.average is None:
            return
        adversarial.update_average(self.average, self.G, min(1 - 1 / (self.step + 1), config.average_decay))
        for mine, theirs in zip(self.average.buffers(), self.G.buffers(), strict=True):
            mine.copy_(theirs)  # the directions of the spectral norms

    def state_dict(self) -> dict[str, Any]:
        """Tensors, plain numbers, and the critics as `Confined`, which run/checkpoint seals."""
        one = None if self.one is None else self.one.state_dict()
        return {**super().state_dict(), "critics": self.critics, "public_critic": one}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """The inverse, in place; "critics" is the path of their sealed file, opened when there are records to confine."""
        super().load_state_dict(saved)
        self.sealed, self.saved_one = saved["critics"], saved["public_critic"]

    def parts(self) -> dict[str, Any]:
        """What a checkpoint keeps beside counters and critics."""
        parts = {"G": self.G, "opt_G": self.opt_G, "critic": self.critic}
        return parts if self.average is None else {**parts, "average": self.average}


def _recipe(config: Config) -> Recipe:
    return Recipe(config.critic_batch_size, config.critic_steps, config.critic_learning_rate)


def _adam(G: torch.nn.Module, rate: float) -> torch.optim.Adam:
    return torch.optim.Adam(G.parameters(), lr=rate, betas=BETAS, fused=True)


def _release(config: Config) -> dict[str, Any]:
    names = ("draw", "critics", "batch_size", "noise_multiplier")
    return {name: getattr(config, name) for name in names}


def _mechanism(config: Config, rng: Rng) -> SanitizedRows:
    max_norm = config.max_norm if config.noise_multiplier else float("inf")
    return SanitizedRows(**_release(config), max_norm=max_norm, rng=rng, answers=config.answers)
