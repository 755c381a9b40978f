"""dp-GAN's training: Algorithm 3 of Zhang, Ji, Wang (2018), its clipping bounds, and a warm start on public records."""

import dataclasses
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gossamer.data.records import Records, sent
from gossamer.errors import RequestError
from gossamer.methods.common.learners import Adversaries, InTraining, Learner, Optimiser, adam, drawn_from
from gossamer.methods.contract import DataCard, Logs, Run
from gossamer.methods.dp_wgan import Config, grouping
from gossamer.methods.dp_wgan.nets import Critic, Generator
from gossamer.nets.initialised import initialised_by
from gossamer.privacy import Bounds, Confined
from gossamer.privacy.mechanisms.gaussian import clipped_to
from gossamer.privacy.mechanisms.quantiles import SharesBelow, moved
from gossamer.privacy.per_sample_gradients.penalty import PenaltyGradient, Points

PENALTY = 10.0
"""lambda, section 5.1."""
SMALLEST_BOUND = 1e-6
"""A bound of zero would silence its group for good."""


def train(run: Run[Config], state: "State", private: Confined[Records]) -> Iterator[Logs]:
    """Algorithm 3 (Algorithm 1 with one group and fixed bounds), one critic step per yield."""
    config, B, D = run.config, run.config.expected_batch_size, state.D
    gradients = run.query("gradients")
    query = critic_gradient(run, state, run.rng.secret_generator)

    while private.remaining(gradients.event):  # l. 2, 3, 22: the plan ends where the budget does
        move_bounds(run, state, private, query)  # l. 4-5
        bounds = joined(config, state)  # l. 6
        release = dataclasses.replace(gradients, bounds=bounds)
        g = private.release(release, query)  # l. 7-12, and the accountant of l. 15
        norm = g.norm()
        D.step(g.div_(B))  # l. 16-17
        state.since += 1
        if state.since >= config.critic_steps:
            generator_step(run, state, B)  # l. 19-20
        largest = max((bound for bound in bounds.norms if bound < math.inf), default=0.0)
        yield {**state.shown, "released_norm": norm, "largest_bound": largest}


def critic_gradient(run: Run[Config], state: "State", coins: Callable[[], torch.Generator]) -> PenaltyGradient[Records]:
    """The query: the gradient of the critic's loss, where each record is paired with a fake."""
    pairs = pairs_for(state.G.net, coins)
    return PenaltyGradient(state.D.net, pairs, PENALTY, physical_batch_size=run.config.physical_batch_size)


def pairs_for(G: Generator, coins: Callable[[], torch.Generator]) -> Callable[[Records], Points]:
    """Lines 26 to 28: each record with a fake of its own, and a point between the two. These are its random choices."""

    def points(records: Records) -> Points:
        stream = coins()
        images, labels = records.tensors(next(G.parameters()).device)
        real = 2 * images - 1
        latents = sent(torch.randn(len(records), G.latent_size, generator=stream), real.device)  # l. 27
        weight = sent(torch.rand(len(records), 1, 1, 1, generator=stream), real.device)
        with torch.no_grad():
            fake = 2 * G(latents, labels) - 1
        return Points(real, fake, fake.lerp(real, weight), labels)  # l. 28

    return points


def generator_step(run: Run[Config], state: "State", B: int) -> None:
    """Lines 19 and 20: one update of the generator."""
    latents, labels = state.G.latents(run, B, part=run.ranks.shard(B))
    loss = -state.D.net(2 * state.G.net(latents, labels) - 1, labels).sum() / B
    state.G.descend(loss, run.ranks)
    state.G.average.follow()
    state.since = 0
    state.shown = {"generator_loss": float(run.ranks.total(loss.detach()))}


def move_bounds(run: Run[Config], state: "State", private: Confined[Records], query: PenaltyGradient[Records]) -> None:
    """Lines 4 and 5: new bounds for the groups before clustering, from public records or by a charged question."""
    if run.config.bounds == "public":
        assert run.public is not None  # see `DpWgan.use_of_public`
        state.norms = run.ranks.broadcast(public_norms(run, state, run.public))
    elif run.config.asks and state.step % run.config.quantile_every == 0:
        ask_quantiles(run, state, private, query)


def public_norms(run: Run[Config], state: "State", public: Records) -> list[float]:
    """The mean gradient norm of each group before clustering, over a fresh batch of public records."""
    stream = run.rng.public("bounds")
    query = critic_gradient(run, state, lambda: stream)
    batch = drawn_from(public, min(run.config.warm_batch_size, len(public)), stream)
    mean = query.norms(Records(batch.images, batch.labels), state.groups).nan_to_num(0, 0, 0).mean(0)
    return [max(SMALLEST_BOUND, float(norm)) for norm in mean]


def ask_quantiles(
    run: Run[Config], state: "State", private: Confined[Records], query: PenaltyGradient[Records]
) -> None:
    """Move the bounds towards the wanted quantile of norms, by one charged release."""
    config, B = run.config, run.config.expected_batch_size
    question = SharesBelow(query, tuple(state.norms), state.groups)
    release = dataclasses.replace(run.query("shares below"), max_norm=question.sensitivity)
    if not private.remaining(release.event):  # a crash has used some up
        return
    answer = private.release(release, question)
    norms = moved(state.norms, answer, expected_batch_size=B, quantile=config.quantile, rate=0.2)
    state.norms = [max(SMALLEST_BOUND, bound) for bound in norms]


def joined(config: Config, state: "State") -> Bounds:
    """The bounds of the next release: Algorithm 2 on the present norms, where asked for."""
    bounds = Bounds(norms=tuple(state.norms), groups=state.groups)
    if config.grouping == "cluster":
        bounds = grouping.cluster(state.norms, config.groups)
    clipped = (clipped_to(norm, noise_multiplier=config.noise_multiplier) for norm in bounds.norms)
    return Bounds(norms=tuple(clipped), groups=bounds.groups)


def warm_start(run: Run[Config], state: "State", public: Records) -> Iterator[Logs]:
    """Line 1: ordinary WGAN-GP on public records, one critic step per yield. Costs nothing."""
    config, B = run.config, min(run.config.warm_batch_size, len(public))
    query = critic_gradient(run, state, lambda: run.rng.public("warm pairs"))
    if state.step == 0:
        state.renew(_adam(config, config.warm_learning_rate), _adam(config, config.warm_learning_rate))
    for _ in range(state.step, config.warm_steps):
        batch = drawn_from(public, B, run.rng.public("warm start"))
        state.D.step(query.summed(batch).div_(B))
        state.since += 1
        if state.since >= config.critic_steps:
            generator_step(run, state, B)
        yield state.shown
    state.renew(_adam(config, config.critic_learning_rate), _adam(config, config.generator_learning_rate))
    state.G.average.restart()
    state.since = 0


@dataclass(kw_only=True)
class State(Adversaries):
    """Where a run is.

    Args:
        groups: the group of each tensor of the critic, before clustering.
        norms: the bound of each of these groups.
    """

    scores_have_no_scale = True

    groups: tuple[int, ...]
    norms: list[float]

    def scores(self, records: Records) -> Tensor:
        """What the critic says of records: numbers without a scale, larger for those that look more real. [1, n]"""
        images, labels = records.tensors()
        values: Tensor = self.D.net(2 * images - 1, labels)
        return values[None]


def start(run: Run[Config]) -> State:
    """Networks and optimisers at the start of a run."""
    config, card = run.config, run.card
    with initialised_by(run.rng.public("initialisation")):
        G = generator(config, card).to(run.device)
        D = critic(config, card).to(run.device)
    groups = grouping.first_groups(config.grouping, D)
    return State(
        D=Learner(D, _adam(config, config.critic_learning_rate)),
        G=InTraining(G, _adam(config, config.generator_learning_rate), config.average_decay),
        groups=groups,
        norms=[config.max_norm] * (max(groups) + 1),
    )


def generator(config: Config, card: DataCard) -> Generator:
    """The network that a run releases, with fresh weights."""
    return Generator(card.shape, _classes(config, card), width=config.width, latent_size=config.latent_size)


def critic(config: Config, card: DataCard) -> Critic:
    """The network that learns from the records, with fresh weights."""
    return Critic(card.shape, _classes(config, card), width=config.width)


def check_groups(config: Config, card: DataCard) -> None:
    """Refuse a number of groups that the critic's tensors cannot make. Counted on a critic without weights."""
    with torch.device("meta"):
        tensors = len(list(critic(config, card).parameters()))
    if not 1 <= config.groups <= tensors:
        raise RequestError(
            f"`groups` must lie between 1 and {tensors}, the tensors of the critic, not {config.groups}."
        )


def _adam(config: Config, rate: float) -> Optimiser:
    return adam(rate, (config.beta1, 0.9))  # Table 1


def _classes(config: Config, card: DataCard) -> int:
    return card.classes if config.conditional else 1
