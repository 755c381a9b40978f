"""Private Evolution: what a run promises and costs. `loop.py` votes and varies, `nets.py` has the generator."""

from dataclasses import dataclass
from typing import Any, Literal

from gossamer.errors import RequestError
from gossamer.methods import contract
from gossamer.methods.common.declared import ballot
from gossamer.methods.common.descent import Descent
from gossamer.methods.common.labelling import LabellingConfig, LabelsSamples, descent_of
from gossamer.methods.common.labels_public import LabelsPublic, drawing_program
from gossamer.methods.contract import FROM_EPSILON, DataCard, Loop, MaybeZero, Phases, Query, Share, TrialConfig

_MOST_LETTERS, _DIGITS = 26, 10
PARTS = 100
"""Steps in which the public pictures are embedded."""
_VOTES_ON_PICTURES, _CLEAR = 25, 7.0
"""Votes that a cluster of pictures expects, at least; and in standard deviations of the noise."""
_CANDIDATES = 500
"""Of a class, unless the Config says otherwise: twelve records of 60,000 for each. More did no better."""


@dataclass(frozen=True, kw_only=True)
class Config(LabellingConfig):
    """Settings of one run.

    Args:
        noise_multiplier: standard deviation of the noise on the votes; a unit's votes have length 1 at most. 0: no noise.
        steps: rounds of votes (T). Each round is one noisy query.
        drawing: program that renders the candidates: digits, letters (classes 0 to 25, A to Z) or patches for other records.
            Or pictures: the candidates are the pictures in `public`, and the release contains them. Candidates, variations,
            `degree` and `shrink` have no meaning then.
        smallest_size: size of the smallest rendered character / MNIST's, above 0 and at most 1.
        largest_rotation: how far a rendered character is turned at most, either way, in degrees up to 180.
        candidates: candidates per class, on average, by the declared prior. 0: 500, or declared size / classes if that is
            smaller.
        clusters: clusters of similar candidates, for which records vote: per class, on average; with pictures, of all of them.
            0: computed from declared size, classes and noise.
        threshold: votes below this do not count, in standard deviations of the noise (H).
        degree: strength of the first variation, from 0 to 1. With one round, it is how far a sample differs from its candidate.
        shrink: strength of each later variation / the one before.
        variations: number of variations whose average feature represents a candidate (lookahead). 0: the candidate itself.
        embedding: features that measure similarity: cosines (lowest waves), or a network trained on rendered pictures
            (features).
        embedding_steps: training steps of the feature network, on rendered pictures only.
        embedding_batch_size: rendered pictures in each of the `embedding_steps`.
        generator: plug-in that makes and varies pictures in place of `drawing`: its name, or module:object. Empty: none.
        encoder: pre-trained network whose features measure similarity in place of `embedding`: lite0, onnx:FILE, the name of a
            plug-in, or module:object. Empty: none.
    """

    noise_multiplier: float = FROM_EPSILON
    steps: int = 2
    drawing: Literal["digits", "letters", "patches", "pictures"] = "digits"
    smallest_size: float = 1.0
    largest_rotation: float = 0.0
    candidates: MaybeZero = 0
    clusters: MaybeZero = 0
    threshold: float = 2.0
    degree: Share = 0.5
    shrink: Share = 0.5
    variations: MaybeZero = 4
    embedding: Literal["cosines", "features"] = "features"
    embedding_steps: int = 600
    embedding_batch_size: int = 128
    generator: contract.Generator = ""
    encoder: contract.Encoder = ""


def candidates_of(config: Config, card: DataCard) -> int:
    """Return the candidates per class, on average. One without votes is lost, so declared records limit the number."""
    return config.candidates or max(1, min(_CANDIDATES, card.declared_size // card.classes))


def clusters_of(config: Config, card: DataCard) -> int:
    """Return the clusters per class, on average, no more than candidates; with pictures, the clusters of all of them.

    By default a cluster expects as many votes as the noise on them deviates. With pictures it expects 25 at least, because the
    votes also tell its class.
    """
    noise = config.noise_multiplier
    if config.drawing == "pictures":
        return config.clusters or max(1, round(card.declared_size / max(_VOTES_ON_PICTURES, _CLEAR * noise)))
    most = candidates_of(config, card)
    return min(most, config.clusters or max(1, round(card.declared_size / card.classes / noise) if noise else most))


def descent(config: Config, card: DataCard) -> Descent:
    """The training of the classifier that softens labels."""
    return descent_of(config, card, noise_multiplier=config.noise_multiplier, others=[voting(config)])


def voting(config: Config) -> Query:
    """The rounds of votes."""
    return ballot(noise_multiplier=config.noise_multiplier, rounds=config.steps)


class Evolve(LabelsPublic[Config, Any], LabelsSamples[Config, Any]):
    """Private Evolution over a drawing program (Lin et al., "Differentially private synthetic data via foundation model
    APIs 1: images", 2024, Algorithm 1). The program is a simulator, as in "... via APIs 3" (2025).

    Guarantee: (epsilon, delta)-DP for one unit, add-or-remove-one. A program that never sees a record renders the pictures.
    In each round every record votes for the candidate of its class that is most similar to it. All votes are one histogram,
    with noise added once; a unit adds a vector of length 1 at most. What measures similarity has seen rendered pictures
    only. A generator or an encoder that a plug-in adds is assumed to have learnt from no record. A test on public pictures
    refuses an encoder whose features depend on other pictures. Clusters of candidates are found among public candidates.
    With `--drawing pictures`, the release contains public pictures as they are. The next candidates and the generator
    follow from the noisy histogram. With `own_label`, Poisson-sampled Gaussian queries follow in the same plan: the steps
    of a softmax regression on scattering features (or those of the encoder), clipped per unit. It is part of the release.

    Departures from the paper:
        - Classes share one histogram of disjoint bins. The declared label prior sets how many candidates a class has;
          the authors' library counts the records of each class, and reveals the counts.
        - Where records are few, similar candidates share one bin. With public pictures, a bin is for a cluster and a class, and
          samples are the pictures that got votes.
        - A unit with several records has its votes scaled to length 1; the paper's unit is the record.
        - The features for similarity are learnt from rendered pictures; the paper takes a network trained on ImageNet.
        - The release is a generator, not pictures: the last candidates with weights. A sample varies one of them.
        - With `own_label`, a classifier that learnt from the records by DP-SGD softens the labels of samples.
    """

    name = "evolve"
    title = "Private Evolution (Lin et al. 2024)"
    ranks_take = "units by place"
    config_type = Config
    loop = Loop("gossamer.methods.evolve.loop")
    trial = TrialConfig(
        canary="record",
        about="one record, found at the candidate that it votes for",
        settings={
            "steps": 2, "drawing": "letters", "embedding": "cosines", "candidates": 4, "variations": 0, "degree": 0.2,
        },
    )  # fmt: skip
    can_warm_start = True

    def queries(self, config: Config, card: DataCard) -> list[Query]:  # noqa: ARG002 (what every method is asked)
        """One Gaussian per round over all units."""
        return [voting(config)]

    def phases(self, config: Config, card: DataCard) -> Phases[Config, Any]:
        """The embedding learns from drawings, or sees public pictures, free; then the votes. With `own_label`, then one
        Poisson-sampled Gaussian per step of the classifier.
        """
        training = self.training(config, card)
        if config.drawing == "pictures":
            return [
                contract.OnPublic(name="public pictures", steps=PARTS, body=self.loop.embed_public),
                training,
            ]
        phases: Phases[Config, Any] = [
            contract.OnReleased(name="embedding", steps=config.embedding_steps, body=self.loop.learn_features),
            training,
            *self.labelling(config, card, descent(config, card)),
        ]
        return phases if config.embedding == "features" and not config.encoder else phases[1:]

    def check(self, config: Config, card: DataCard) -> None:
        """Refuse records that the drawing program cannot draw, and pictures that nothing compares."""
        if config.drawing == "pictures":
            self._check_pictures(config)
        else:
            self._check_drawing(config, card)
            self.check_labelling(config, card, config.encoder)

    def use_of_public(self, config: Config) -> Literal["none", "required"]:
        """Public pictures replace the drawing program, or are of no use."""
        return "required" if config.drawing == "pictures" else "none"

    def own_input(self, config: Config) -> dict[str, str]:
        """The drawing program, unless a generator or public pictures replace it."""
        if config.generator or config.drawing == "pictures":
            return {}
        return drawing_program(f"with the setting drawing = {config.drawing}")

    def check_public(self, config: Config, card: DataCard, count: int) -> None:  # noqa: ARG002 (what every method is asked)
        """Refuse fewer pictures than classes: they cannot have all labels."""
        if count < card.classes:
            raise RequestError(
                f"`public` has {count:,} pictures, and the card has {card.classes:,} classes. Add pictures, so that each class "
                "can have one."
            )

    def _check_pictures(self, config: Config) -> None:
        if config.own_label != 1:
            raise RequestError(
                "`own_label` is for drawn pictures. With `drawing=pictures`, the votes are the labels. Leave `own_label` out; "
                "teacher labels public pictures by a classifier."
            )
        if config.generator:
            raise RequestError(
                "`generator` makes the candidates in place of `drawing=pictures`. Leave one of them out."
            )
        if config.embedding == "features" and not config.encoder:
            raise RequestError(
                "With `drawing=pictures` nothing is drawn, so no features can be learnt from drawings. Add `encoder=lite0`, or "
                "`embedding=cosines` for simple pictures."
            )

    def _check_drawing(self, config: Config, card: DataCard) -> None:
        if config.generator:
            return
        if not 0.1 <= config.smallest_size <= 1:
            raise RequestError(
                f"`smallest_size` is a share of MNIST's size, from 0.1 to 1, not {config.smallest_size:g}."
            )
        if config.largest_rotation > 180:
            raise RequestError(f"`largest_rotation` is at most 180 degrees, not {config.largest_rotation:g}.")
        channels, height, width = card.shape
        if channels != 1 or height != width:
            raise RequestError(
                f"evolve draws square pictures of one channel; the card's are {channels}x{height}x{width}: take another "
                "method, or another shape on the card."
            )
        if config.drawing == "digits" and card.classes != _DIGITS:
            raise RequestError(f"`drawing=digits` draws the digits 0 to 9, and the card has {card.classes} classes.")
        if config.drawing == "letters" and card.classes > _MOST_LETTERS:
            raise RequestError(f"`drawing=letters` draws the letters A to Z, and the card has {card.classes} classes.")
        if config.drawing == "patches" and config.embedding == "features" and not config.encoder:
            raise RequestError(
                "`drawing=patches` is the same for all classes, so no features can be learnt: take `embedding=cosines`."
            )
