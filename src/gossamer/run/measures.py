"""The metrics of `gossamer evaluate --metrics`, by name. Each goes from a `Subject` to figures with their names.

Names say what a figure was computed on where it is not the release: "... of the real-data twin" (the same on real records),
"... of the public warm start alone" (before any record was read).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from gossamer.data.records import Records
from gossamer.errors import DataError, RequestError, did_you_mean
from gossamer.estimate import Estimate
from gossamer.files import write_atomically
from gossamer.methods.privae.nets import Autoencoder
from gossamer.methods.synthesizer import Synthesizer
from gossamer.metrics import classical, classify, per_class, semi_supervised
from gossamer.metrics.discriminate import discriminate
from gossamer.metrics.features import ClassifierFeatures, Features, InceptionFeatures
from gossamer.metrics.fidelity import frechet, inception_score, mmd
from gossamer.metrics.intervals import proportion
from gossamer.metrics.neighbours import nearest, neighbourhood
from gossamer.run.codes import codes
from gossamer.run.figures import sample_grid
from gossamer.run.sinks import Terminal
from gossamer.run.twins import Twins

ACCURACY, TWIN, WARM_ALONE = "accuracy", "accuracy of the real-data twin", "accuracy of the public warm start alone"
OF_TWIN = " of the real-data twin"
PROTOCOLS: dict[str, classify.Protocol] = {"paper": classify.PAPER, "reduced": classify.REDUCED}
TRAINED_ON = {
    ACCURACY: "synthetic records",
    TWIN: "real records",
    WARM_ALONE: "samples of the public warm start, before any record was read (epsilon 0)",
}
NEIGHBOURS = 10_000
"""Samples and records at most whose neighbours are looked up: the time grows with the product."""
KERNEL = 5_000
"""Samples and records at most in an MMD."""
DISCRIMINATED = 20_000
"""Samples and records at most of the Jensen-Shannon score."""
CODED = 4_000
"""Test records at most whose codes are looked at."""

Figures = Mapping[str, Estimate]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is measured, and against what.

    Args:
        samples: of the release.
        real: real training records.
        tests: real test records.
        classes: number of classes.
        labelled: whether the samples carry labels.
        twins: the cache of what depends on real records alone.
        protocol: a key of PROTOCOLS.
        seed: of all trainings and draws.
        warm: samples of the public warm start alone, or None.
        synthesizer: the release itself, where SYNTH is a run; None for a file.
        labelled_records: how many labelled records the semi-supervised analyst has.
        limit: training records of the classical classifiers.
        inception: weights of Inception-V3 and their SHA-256, or None.
        pictures: where the picture of the nearest real records goes, private; None for a file of samples.
        terminal: shows progress.
    """

    samples: Records
    real: Records
    tests: Records
    classes: int
    labelled: bool
    twins: Twins
    protocol: str = "paper"
    seed: int = 0
    warm: Records | None = None
    synthesizer: Synthesizer | None = None
    labelled_records: int = 100
    limit: int = 10_000
    inception: tuple[Path, str] | None = None
    pictures: Path | None = None
    terminal: Terminal | None = None
    _kept: dict[str, ClassifierFeatures] = field(default_factory=dict)

    def progress(self, what: str) -> Callable[..., None]:
        """A progress function for one training: done, all, and perhaps an accuracy."""
        begun = False

        def report(done: int, total: int, held_out: float | None = None) -> None:
            nonlocal begun
            if self.terminal is None:
                return
            if not begun:
                self.terminal.begin(what, total)
                begun = True
            known = held_out is not None and np.isfinite(held_out)  # a protocol without held-out pictures has none
            self.terminal.advance(done, f"{held_out:.1%} of the held-out pictures" if known else "")

        return report

    def features(self) -> ClassifierFeatures:
        """The classifier trained on the real training records whose features measure distances."""
        if "classifier" not in self._kept:
            self._kept["classifier"] = self.twins.features(
                "features",
                lambda: ClassifierFeatures.train(
                    self.real.images, self.real.labels, classes=self.classes, seed=self.seed,
                    progress=self.progress("the classifier for features"),
                ),
            )  # fmt: skip
        return self._kept["classifier"]

    def distance_features(self) -> Features:
        """Those of Inception-V3 where its weights are given, else those of the classifier."""
        return self.features() if self.inception is None else InceptionFeatures(*self.inception)

    def some(self, records: Records, most: int) -> np.ndarray:
        """At most so many of the pictures, at random: files may be sorted by class."""
        if len(records) <= most:
            return records.images
        chosen = np.sort(np.random.default_rng(self.seed).permutation(len(records))[:most])
        return np.asarray(records.images[chosen])


def accuracy(subject: Subject) -> Figures:
    """Train on samples, test on real records: the CNN of Bie et al., beside its twins."""
    protocol = PROTOCOLS[subject.protocol]

    def of(name: str, records: Records) -> Estimate:
        return classify.accuracy(
            records.images, records.labels, subject.tests.images, subject.tests.labels, classes=subject.classes,
            protocol=protocol, seed=subject.seed, trained_on=TRAINED_ON[name], progress=subject.progress(name),
        )  # fmt: skip

    found = {ACCURACY: of(ACCURACY, subject.samples)}
    found |= subject.twins.estimates(f"{TWIN}, {_key(protocol)}", lambda: {TWIN: of(TWIN, subject.real)})
    if subject.warm is not None:
        found[WARM_ALONE] = of(WARM_ALONE, subject.warm)
    return found


def _protocol_accuracy(name: str, protocol: classify.Protocol) -> Callable[[Subject], Figures]:
    def measure(subject: Subject) -> Figures:
        def of(what: str, records: Records, trained_on: str) -> Estimate:
            return classify.accuracy(
                records.images, records.labels, subject.tests.images, subject.tests.labels, classes=subject.classes,
                protocol=protocol, seed=subject.seed, trained_on=trained_on, progress=subject.progress(what),
            )  # fmt: skip

        twin = name + OF_TWIN
        return {
            name: of(name, subject.samples, "synthetic records"),
            **subject.twins.estimates(
                f"{twin}, {_key(protocol)}", lambda: {twin: of(twin, subject.real, "real records")}
            ),
        }

    return measure


def _key(protocol: classify.Protocol) -> str:
    """All that a figure under this protocol depends on, in words that stay the same from run to run."""
    settings = (protocol.epochs, protocol.batch_size, protocol.learning_rate, protocol.held_out, protocol.limit)
    return f"{protocol.net.title} {settings}"


def classical_list(subject: Subject) -> Figures:
    """GS-WGAN's list of classifiers, their average, and the average of accuracy / accuracy on real records."""

    def of(records: Records, trained_on: str) -> dict[str, Estimate]:
        return classical.classical_accuracies(
            records.images, records.labels, subject.tests.images, subject.tests.labels, classes=subject.classes,
            limit=subject.limit, seed=subject.seed, trained_on=trained_on,
            progress=subject.progress(f"classifiers, {trained_on}"),
        )  # fmt: skip

    synthetic = of(subject.samples, "synthetic records")
    real = subject.twins.estimates(f"classical {subject.limit}", lambda: of(subject.real, "real records"))
    return {
        **{f"accuracy, {name}": estimate for name, estimate in synthetic.items()},
        **{f"accuracy, {name}{OF_TWIN}": estimate for name, estimate in real.items()},
        "average accuracy": classical.average(synthetic),
        "average accuracy" + OF_TWIN: classical.average(real),
        "calibrated accuracy": classical.calibrated(synthetic, real),
    }


def inception(subject: Subject) -> Figures:
    """Inception score by the classifier trained on real records, beside that of the real test records."""
    features = subject.features()
    name = "Inception score"
    shuffled = np.random.default_rng(subject.seed).permutation(len(subject.samples))  # splits are consecutive
    return {
        name: inception_score(features.probabilities(subject.samples.images[shuffled])),
        **subject.twins.estimates(
            name,
            lambda: {f"{name} of real test records": inception_score(features.probabilities(subject.tests.images))},
        ),
    }


def frechet_distance(subject: Subject) -> Figures:
    """Frechet distance of samples to real test records, beside its floor: that of real training records."""
    features = subject.distance_features()
    name = features.distance_name
    floor = f"{name} of real training records"
    return {
        name: frechet(subject.samples.images, subject.tests.images, features),
        **subject.twins.estimates(
            f"{floor} {features.name}",
            lambda: {floor: frechet(subject.real.images, subject.tests.images, features)},
        ),
    }


def neighbours(subject: Subject) -> Figures:
    """Precision, recall, density and coverage on the features of the classifier."""
    features = subject.features()
    found = neighbourhood(
        features(subject.some(subject.samples, NEIGHBOURS)), features(subject.some(subject.tests, NEIGHBOURS))
    )
    return {"precision": found.precision, "recall": found.recall, "density": found.density, "coverage": found.coverage}


def discrepancy(subject: Subject) -> Figures:
    """Maximum mean discrepancy on the features of the classifier."""
    features = subject.features()
    return {"MMD": mmd(features(subject.some(subject.samples, KERNEL)), features(subject.some(subject.tests, KERNEL)))}


def jensen_shannon(subject: Subject) -> Figures:
    """The Jensen-Shannon score of Zhang et al.: can a classifier tell samples from records?"""
    found = discriminate(
        subject.some(subject.samples, DISCRIMINATED), subject.some(subject.real, DISCRIMINATED), seed=subject.seed,
        progress=subject.progress("real against synthetic"),
    )  # fmt: skip
    return {
        "Jensen-Shannon divergence": found.jensen_shannon,
        "Jensen-Shannon score (formula of the paper)": found.jensen_shannon_paper,
        "accuracy of telling real from synthetic": found.accuracy,
    }


def by_class(subject: Subject) -> Figures:
    """Ambiguity and diversity of samples (privGAN, section 6.3), and how often a sample is what its label says, by class."""
    features = subject.features()
    probabilities = features.probabilities(subject.samples.images)
    predicted = probabilities.argmax(1)
    found = {
        "ambiguity": per_class.ambiguity(probabilities),
        "class diversity": per_class.diversity(predicted, classes=subject.classes),
    }
    if subject.labelled:
        table = classify.confusion(subject.samples.labels, predicted, classes=subject.classes)
        for label, estimate in per_class.per_class_accuracy(table).items():
            found[f"samples of class {label} that look like it"] = Estimate(
                estimate.value,
                estimate.low,
                estimate.high,
                estimate.n,
                "samples, judged by the classifier trained on real records",
            )
    return found


def semi(subject: Subject) -> Figures:
    """Algorithm 4 of Zhang et al.: a few labelled records with and without synthetic pictures."""
    net = None if subject.synthesizer is None else subject.synthesizer.net
    if net is None or subject.synthesizer is None:
        raise RequestError("semi-supervised needs the generator: give a RUN or a release, not a file of samples.")
    synthesizer = subject.synthesizer
    chosen = np.random.default_rng(subject.seed).permutation(len(subject.real))[: subject.labelled_records]

    def draw(n: int, coins: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        stream = torch.Generator().manual_seed(int(coins.integers(2**62)))
        codes = torch.randn(n, synthesizer.config.latent_size, generator=stream)
        labels = torch.randint(synthesizer.classes, (n,), generator=stream)
        with torch.no_grad():
            images = net(codes, labels).mul(255).round().clamp(0, 255).byte().numpy()
        hot = torch.nn.functional.one_hot(labels, synthesizer.classes).float()
        return torch.cat([codes, hot], 1).numpy(), images

    found = semi_supervised.compare(
        subject.real.images[chosen], subject.real.labels[chosen], subject.tests.images, subject.tests.labels, draw,
        classes=subject.classes, seed=subject.seed, progress=subject.progress("semi-supervised"),
    )  # fmt: skip
    n = subject.labelled_records
    return {
        f"semi-supervised accuracy, {n} labelled records": found.with_synthetic,
        f"semi-supervised accuracy, {n} labelled records without synthetic ones": found.baseline,
    }


def latent_space(subject: Subject) -> Figures:
    """The codes of an autoencoder that was released with its encoder (Takahashi et al., section 5.1)."""
    net = None if subject.synthesizer is None else subject.synthesizer.net
    if not isinstance(net, Autoencoder) or net.encoder is None:
        raise RequestError("latent needs the encoder of a privae run: train it with --release-encoder.")
    chosen = np.random.default_rng(subject.seed).permutation(len(subject.tests))[:CODED]
    return codes(net, subject.tests[np.sort(chosen)], seed=subject.seed)


def copies(subject: Subject) -> Figures:
    """How many samples of the grid are exact copies of a training record; their neighbours go into the private folder."""
    if subject.synthesizer is None or subject.pictures is None:
        raise RequestError("nearest needs a RUN: the picture of the nearest records goes into its private folder.")
    per_class = np.repeat(np.arange(subject.synthesizer.classes), 10)
    grid = subject.synthesizer.sample(len(per_class), labels=per_class, seed=0)
    real = subject.real.images.reshape(len(subject.real), -1)
    found = nearest(grid.images.reshape(len(grid), -1) / np.float32(255), real / np.float32(255))
    pairs = np.stack([grid.images, subject.real.images[found.index]], 1).reshape(-1, *grid.shape)
    write_atomically(subject.pictures, sample_grid(pairs, np.repeat(per_class, 2), columns=20), private=True)
    words = f"samples of the grid against {len(real):,} real training records, pixel by pixel"
    return {"samples that copy a training record": proportion(int((found.distance == 0).sum()), len(grid), words)}


METRICS: dict[str, Callable[[Subject], Figures]] = {
    "accuracy": accuracy,
    "gs-wgan-cnn": _protocol_accuracy("accuracy, LeNet-5 of GS-WGAN", classify.GS_WGAN),
    "privgan-cnn": _protocol_accuracy("accuracy, CNN of privGAN", classify.PRIVGAN),
    "classical": classical_list,
    "inception-score": inception,
    "fid": frechet_distance,
    "neighbours": neighbours,
    "mmd": discrepancy,
    "jensen-shannon": jensen_shannon,
    "per-class": by_class,
    "nearest": copies,
    "semi-supervised": semi,
    "latent": latent_space,
}
NEED_LABELS = {"accuracy", "gs-wgan-cnn", "privgan-cnn", "classical"}
QUICK = ("accuracy", "inception-score", "fid", "neighbours", "mmd", "jensen-shannon", "per-class")
"""What `--metrics all` asks for; the others take an hour or more, or settings of their own."""


def chosen_metrics(text: str) -> list[str]:
    """The metrics of a comma-separated list; "all" stands for `QUICK`.

    Raises:
        RequestError: if there is no such metric; names the nearest.
    """
    names: list[str] = []
    for name in (part.strip() for part in text.split(",")):
        if name != "all" and name not in METRICS:
            raise RequestError(
                f"there is no metric {name!r}.{did_you_mean(name, METRICS)} Known: all, {', '.join(METRICS)}."
            )
        names += [each for each in (QUICK if name == "all" else (name,)) if each not in names]
    return names


def measured(subject: Subject, names: list[str]) -> Iterator[tuple[str, Figures, str]]:
    """Name of the metric, its figures, and why there are none where it does not apply to these records.

    Raises:
        DataError, RequestError: if the only metric asked for does not apply.
    """
    for name in names:
        if name in NEED_LABELS and not subject.labelled:
            reason = "the samples carry no labels (an unconditional generator), so nothing can be trained on them"
            if len(names) == 1:
                raise RequestError(f"{name}: {reason}. Take fid, inception-score or neighbours.")
            yield name, {}, reason
            continue
        try:
            yield name, METRICS[name](subject), ""
        except (DataError, RequestError) as error:
            if len(names) == 1:
                raise
            yield name, {}, str(error)
