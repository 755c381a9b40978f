"""DP-MEPF: what a run promises and costs. `loop.py` trains and votes, `features.py` learns codes of pictures, `embedding.py`
asks for their moments, `targets.py` has the loss of fakes, `nets.py` the released network.
"""

from dataclasses import dataclass
from typing import Any, Literal

from gossamer.errors import RequestError
from gossamer.methods import contract
from gossamer.methods.common.declared import ballot, once
from gossamer.methods.common.descent import Descent
from gossamer.methods.common.labelling import LabellingConfig, LabelsSamples, descent_of
from gossamer.methods.common.method_start import StartConfig
from gossamer.methods.contract import FROM_EPSILON, DataCard, Loop, MaybeZero, Phases, Query, Share, TrialConfig
from gossamer.methods.job import Job


@dataclass(frozen=True, kw_only=True)
class Config(StartConfig, LabellingConfig):
    """Settings of one run.

    Args:
        noise_multiplier: standard deviation of the noise on the moments, whose sensitivity is 1. 0: no noise.
        axes: principal axes of a block of features (d). A smaller block keeps all of its axes.
        pixel_axes: principal axes of the pixels.
        features_steps: steps in which a network learns features from the classes of public pictures.
        features_batch_size: public pictures in each of the `features_steps`.
        features_width: channels of the feature network's first convolution.
        warm_steps: steps in which the generator trains on public pictures, as a GAN, before it gets the noisy moments.
        warm_batch_size: public records in each of the `warm_steps`.
        warm_learning_rate: Adam's learning rate of the generator in the `warm_steps`. The discriminator's is half of it.
        matching_steps: steps in which the generator matches the noisy moments.
        batch_size: fakes in each of the `matching_steps`, with classes by the declared prior.
        learning_rate: Adam's learning rate in the `matching_steps`. It falls in the last 40 % of them.
        covariance_weight: weight of the covariances in the loss. Means have weight 1.
        floor: smallest variance of an axis in the covariance loss / mean variance of all axes.
        average_decay: decay of the running average of the weights, which is released. 0 releases the last weights.
        bends: random deformation of each generated picture. 1: about 7 degrees, 6 % in size, 10 % slant and so on. 0: none.
        learnt_bends: whether a small network learns to deform pictures, too. For many records and a large epsilon: with
            5,000 records, samples became less varied.
        black: share of a pixel's range, at the dark end, that becomes black in samples.
        white: share of a pixel's range, at the bright end, that becomes white in samples.
        likeness_steps: steps in which a network learns features from the classes of generated pictures. The votes use them.
        rounds: rounds of votes on generated pictures. Each round is one noisy query. 0: no votes.
        votes_noise: noise multiplier of a round of votes, divided by `noise_multiplier`.
        candidates: latent vectors per class, on average, that records vote on.
        spread: standard deviation of the latent vectors in the first round. The generator has trained with 1.
        degree: strength of variation of chosen latent vectors in the first round, from 0 to 1. Each later round has 0.6 of it.
        width: channels of the generator's last hidden layer, and of the discriminator's first. An even number.
        latent_size: length of the generator's latent vector, without the numbers for deformations.
    """

    noise_multiplier: float = FROM_EPSILON
    axes: int = 128
    pixel_axes: int = 192
    features_steps: int = 600
    features_batch_size: int = 128
    features_width: int = 24
    warm_steps: MaybeZero = 4_000
    warm_batch_size: int = 64
    warm_learning_rate: float = 1e-3
    matching_steps: int = 2_000
    batch_size: int = 500
    learning_rate: float = 5e-4
    covariance_weight: float = 1.0
    floor: float = 0.01
    average_decay: float = 0.98
    bends: float = 1.0
    learnt_bends: bool = False
    black: float = 0.0
    white: float = 0.0
    likeness_steps: MaybeZero = 2_000
    rounds: MaybeZero = 1
    votes_noise: float = 1.75
    candidates: int = 1_000
    spread: float = 1.3
    degree: Share = 0.6
    width: int = 32
    latent_size: int = 128


class DpMepf(LabelsSamples[Config, Any]):
    """DP-MEPF: a generator that matches moments of perceptual features, released once. After Harder, Jalali Asadabadi,
    Sutherland, Park: "Pre-trained Perceptual Features Improve Differentially Private Image Generation", TMLR 2023.

    Guarantee: (epsilon, delta)-DP for one unit, add-or-remove-one. One Gaussian query covers all records. Its answer
    holds the counts and mean codes of classes, and the second moments of all classes together. A unit adds a vector of
    length 1 at most. The features, their axes and the lengths that codes are shortened to come from public pictures
    alone. With a start, they come from pictures that the start makes of its release, which is a phase of the run. The
    generator never sees a record, however many steps it takes. Then each of `rounds` is one Gaussian query over all
    records. Each record votes for the sample of the generator, of its class, that is most similar to it. A unit adds a
    vector of length 1 at most to all votes. The features for similarity learn from its pictures: released values.
    With `own_label`, Poisson-sampled Gaussian queries follow in the same plan: the steps of a softmax regression on
    scattering features, clipped per unit. It is part of the release.

    Departures from the paper:
        - A small network learns the features from the classes of the public pictures; the paper's has seen ImageNet.
          They are Gram matrices of its layers (after Gatys, Ecker, Bethge 2016) and pixels, in a few principal axes.
        - Second moments are products of codes, x x^T, in place of squares of single features; for all classes together, beside
          means for each class. One Gaussian releases counts, means and products; the paper has two, and takes counts as known.
        - The loss is a squared Frechet distance to second order, of class means and of the covariance in them, not the
          distance of the embeddings. Two halves of a batch give estimates of it without bias.
        - The generator begins as one half of a GAN on the public pictures, and a running average of its weights is released.
        - Its pictures are bent before the last tanh, at random and, with `learnt_bends`, by a small network that learns with
          the rest. So it learns a shape once, not in every slant.
        - Votes on its latents follow: Private Evolution (Lin et al. 2024, Algorithm 1). This generator replaces the
          foundation model; its pictures train the features. Votes above the threshold count in full, not by excess.
        - With `own_label`, a classifier that learnt from the records by DP-SGD softens the labels of samples.
        - It takes public pictures or a start, and is no start itself.
    """

    name = "dp-mepf"
    title = "DP-MEPF (Harder et al. 2023)"
    ranks_take = "units by place"
    config_type = Config
    loop = Loop("gossamer.methods.dp_mepf.loop")
    trial = TrialConfig(
        canary="record",
        max_trials=6_000,
        settings={
            "axes": 2, "pixel_axes": 2, "features_steps": 1, "features_batch_size": 2, "features_width": 1, "warm_steps": 0,
            "matching_steps": 1, "likeness_steps": 2, "batch_size": 4, "width": 2, "latent_size": 2, "rounds": 1,
            "candidates": 4,
        },
    )  # fmt: skip

    def queries(self, config: Config, card: DataCard) -> list[Query]:  # noqa: ARG002 (what every method is asked)
        """One Gaussian over all records."""
        return [own_queries(config)[0]]

    def phases(self, config: Config, card: DataCard) -> Phases[Config, Any]:
        """Features and a warm start, free; one Gaussian over all records; what is made of its answer, free; then votes. With
        `own_label`, then one Poisson-sampled Gaussian per step of the classifier.
        """
        _, votes = own_queries(config)
        phases: list[contract.Phase[Config, Any]] = [
            contract.OnPublic(name="features", steps=config.features_steps, body=self.loop.learn_features),
            contract.OnPublic(name="warm start", steps=config.warm_steps, body=self.loop.warm_start),
            self.training(config, card),
            contract.OnReleased(name="matching", steps=config.matching_steps, body=self.loop.match),
            contract.OnReleased(name="likeness", steps=config.likeness_steps, body=self.loop.learn_likeness),
            contract.OnPrivate(name="votes", steps=config.rounds, queries=[votes], body=self.loop.vote),
        ]
        learning = [] if config.own_label == 1 else self.labelling(config, card, descent(config, card))
        return [*(phases if config.rounds > 0 else phases[:-2]), *learning]

    def use_of_public(self, config: Config) -> Literal["required"]:  # noqa: ARG002 (what every method is asked)
        """Features are learnt from pictures that no record went into, or from a start's."""
        return "required"

    def explain(self, config: Config) -> str:
        """What public pictures can be replaced by."""
        if config.start:
            return ""
        return "It needs public pictures (`public`), or `start=evolve` or `start=moments`, which make some within the budget."

    def check(self, config: Config, card: DataCard) -> None:
        """Refuse settings that make no sense."""
        self.check_labelling(config, card, encoder="")
        if config.batch_size < 2 * card.classes:
            raise RequestError(
                f"`batch_size={config.batch_size}` is too few: each half of a batch has every one of the {card.classes} "
                f"classes, so give at least {2 * card.classes}."
            )
        if config.black + config.white >= 0.5:
            raise RequestError(
                f"`black={config.black:g}` and `white={config.white:g}` leave too little between them: give less than 0.5 "
                "together."
            )
        if not 0 < config.floor <= 1:
            raise RequestError(
                f"`floor` is a share above 0 and at most 1, not {config.floor:g}: no difference is divided by nothing."
            )


def own_queries(config: Config) -> tuple[Query, Query]:
    """The release of moments, and the rounds of votes."""
    noise = config.noise_multiplier
    return once("moments", noise), ballot(noise_multiplier=config.votes_noise * noise, rounds=config.rounds)


def descent(config: Config, card: DataCard) -> Descent:
    """The training of the classifier that softens labels, after all other queries, those of the start among them."""
    first = Job(DpMepf(), config, card).first
    others = [*(() if first is None else first.queries), *own_queries(config)]
    return descent_of(config, card, noise_multiplier=config.noise_multiplier, others=others)
