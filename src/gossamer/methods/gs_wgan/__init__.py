"""GS-WGAN: what a run promises and costs. `loop.py` picks critics and trains, `nets.py` has the nets.

The critics are in `critics.py`, and their mathematics in `stacked_critics.py`.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from gossamer.errors import RequestError
from gossamer.methods import contract
from gossamer.methods.common.declared import events, gaussian, sanitized_rows
from gossamer.methods.common.method_start import StartConfig
from gossamer.methods.contract import FROM_EPSILON, DataCard, Loop, MaybeZero, Phases, Query, TrialConfig


@dataclass(frozen=True, kw_only=True)
class Config(StartConfig):
    """Settings of one run.

    Args:
        noise_multiplier: standard deviation of the noise / (2 x `max_norm`), for each row (sigma). 0: a non-private run.
        steps: number of generator steps.
        answers: noisy answers in a step (paper: 1), each from a newly chosen critic. Each uses epsilon: T is steps x answers.
        critics: number of critics (K). Each trains on its own part of the records. In a federated run: clients that must be
            there, and then all by default.
        batch_size: generated pictures in an answer (B): one row for each.
        draw: critic that answers. secret: a random one that nobody learns; round_robin: in turns; paper: the one just trained.
        max_norm: clipping bound: the largest L2 norm of each row (C).
        critic_steps: training steps whenever a critic's turn comes (n_critic).
        critic_batch_size: records in a training step of a critic. It has as many fakes.
        visits: number of critics that train at each generator step. More than 1: only with secret.
        width: channels of a critic's first layer, a quarter of the generator's. Paper: 64.
        generator: network of the generator: resnet as in the paper, or dcgan, which is ten times faster.
        latents: distribution of the latent vector: bernoulli (zeros and ones, as in the paper) or normal.
        latent_size: length of the generator's latent vector.
        critic_learning_rate: Adam's learning rate of the critics.
        generator_learning_rate: Adam's learning rate of the generator.
        average_decay: decay of the running average of the weights, which is released. 0 releases the last weights.
        warm_steps: turns of each critic before the first answer, each with a step of a generator that is then deleted.
        warm_stack: critics that warm up at once. It limits the memory and does not change the result.
        public_steps: non-private steps of the generator and one critic on public records; only with public records. All critics
            start with that critic's weights, and warm up on that generator's fakes.
        public_learning_rate: Adam's learning rate in the `public_steps`.
        storage: number format of critics between turns. bfloat16 takes half the memory and rounds at random.
    """

    noise_multiplier: float = FROM_EPSILON
    steps: int = 5_000
    answers: int = 1
    critics: int = 100
    batch_size: int = 16
    draw: Literal["secret", "round_robin", "paper"] = "secret"  # `costs.Draw`, spelled out: that loads the accountants
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
    warm_steps: MaybeZero = 100
    warm_stack: int = 4
    public_steps: int = 2_000
    public_learning_rate: float = 1e-3
    storage: Literal["float32", "bfloat16"] = "float32"

    @property
    def warm_visits(self) -> int:
        """Visits of the warm start, each to a whole stack: one stack after the other."""
        return -(-self.critics // self.warm_stack) * self.warm_steps


def _public_draws(trial: TrialConfig) -> TrialConfig:
    """The loop of the paper asks one critic a step, and its draws are public."""
    if trial.settings.get("draw") != "paper":
        return trial
    steps = int(trial.settings["steps"]) * int(trial.settings["answers"])
    return dataclasses.replace(trial, settings={**trial.settings, "steps": steps, "answers": 1}, revealed=True)


class GsWgan(contract.Method[Config, Any]):
    """GS-WGAN: gradient-sanitised Wasserstein GAN (Chen, Orekondy, Fritz; NeurIPS 2020), all records in one place.

    Guarantee: (epsilon, delta)-DP for one unit. The records are split among K critics that train without noise and never leave
    `Confined`. An answer of a critic holds the gradient of the generator's loss at each of B generated images. Each is
    clipped to C and gets noise in proportion to 2C (equation 11). All else is post-processing. A unit is in one shard and may
    change that critic arbitrarily. So an answer is one Gaussian of multiplier noise_multiplier / sqrt(B).

    `draw` decides how T answers compose. With secret, the default, 1 of K critics answers, sampled without replacement; the
    relation is replace-one. With round_robin every critic answers ceil(T / K) times. With paper it is the authors' loop. Its
    critics reveal the draws, so the cost takes them as published. The relation of both is add-or-remove-one.

    Departures from the paper:
        - The published epsilon counts T x B separate draws, where B rows share one. Its critics train when drawn, so
          their state reveals the hidden draws. Here the cost follows the draws (docs/methods/gs-wgan.md).
        - In `secret` the critics train in turns, whatever the draw. An answering critic may have trained K steps ago.
        - Records go to shards by independent random choices, so that one record more moves no other. A shard may be empty.
        - Answering changes nothing: the power iteration of a critic's spectral norm takes a step when it trains, and only then.
        - The fakes of a step are made once, for the critic that trains and the one that answers. The first meets them at
          all its steps, paired by label with its records. Batches are drawn with replacement. All critics begin with the
          same weights.
        - A step may average several answers, each from its own draw and with its own cost (`answers`; 1 in the paper).
        - The labels of fakes are drawn from the card's prior; the authors' critics see fakes with the labels of their
          records.
        - The throw-away generators of the warm start are DCGANs, whatever the generator is, and a visit there is as in
          training.
        - The loss of a critic has a drift term, 0.001 D(x)^2 on records, as in the authors' code.
    """

    name = "gs-wgan"
    title = "GS-WGAN (Chen, Orekondy, Fritz 2020)"
    config_type = Config
    loop = Loop("gossamer.methods.gs_wgan.loop")
    trial = TrialConfig(
        canary="critic",
        settings={
            "steps": 1, "answers": 2, "critics": 2, "batch_size": 2, "critic_steps": 1, "critic_batch_size": 2,
            "width": 2, "latent_size": 2, "warm_steps": 0, "generator": "dcgan",
        },
        of_a_run=("max_norm", "draw"),
        adjust=_public_draws,
    )  # fmt: skip
    ranks_take = "all records"

    def queries(self, config: Config, card: DataCard) -> list[Query]:  # noqa: ARG002 (it has no sampling rate)
        """One charge for each answer, or for each pass in turns. The loop asks for all answers of a step at once."""
        rows = sanitized_rows.SanitizedRows(
            draw=config.draw,
            critics=config.critics,
            batch_size=config.batch_size,
            max_norm=gaussian.clipped_to(config.max_norm, noise_multiplier=config.noise_multiplier),
            noise_multiplier=config.noise_multiplier,
        )
        answers = config.steps * config.answers
        charges = events.charges_of(draw=config.draw, critics=config.critics, answers=answers)
        return [Query("answers", rows, charges)]

    def phases(self, config: Config, card: DataCard) -> Phases[Config, Any]:
        """A public start, free; a warm start, of which nothing leaves; then the training."""
        return [
            contract.OnPublic(name="public start", steps=config.public_steps, body=self.loop.public_start),
            contract.OnPrivate(name="warm start", steps=config.warm_visits, body=self.loop.warm_start),
            self.training(config, card, steps=config.steps),
        ]

    def bounds_units(self, card: DataCard) -> str:  # noqa: ARG002 (what every method is asked)
        """They are in one shard."""
        return "they all go to one critic, which is sampled as a whole, and no other critic sees them"

    def check_ranks(self, config: Config, count: int) -> None:
        """Refuse more ranks than critics."""
        if config.critics < count:
            raise RequestError(f"`critics={config.critics}` cannot be shared out among {count} ranks: each needs one.")

    def check(self, config: Config, card: DataCard) -> None:  # noqa: ARG002 (what every method is asked)
        """Refuse settings that do not go with the draw."""
        if config.visits > 1 and config.draw != "secret":
            raise RequestError(f"`visits={config.visits}` goes with `draw=secret` alone.")
        if config.answers > 1 and config.draw == "paper":
            raise RequestError(f"`answers={config.answers}` goes with other draws: the paper asks one critic a step.")
        for name in ("visits", "answers"):
            if not 1 <= (count := getattr(config, name)) <= config.critics:
                raise RequestError(f"`{name}={count}` is not between 1 and the {config.critics} critics.")

    def relation(self, config: Config) -> Any:
        """Replace-one for the secret draw, add-or-remove-one for the others."""
        return events.relation_of(config.draw)

    def explain(self, config: Config) -> str:
        """Which draw a plan has, in words."""
        T, K = config.steps * config.answers, config.critics
        in_words = {
            "secret": f"each of {T:,} answers is given by one of {K:,} critics, whose choice stays secret",
            "round_robin": f"{K:,} critics answer in turns, each {-(-T // K):,} times; nothing is amplified",
            "paper": f"the drawn one of {K:,} critics trains and answers, {T:,} times; its draws count as known",
        }
        return f"draw {config.draw}: {in_words[config.draw]}"
