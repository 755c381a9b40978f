"""What the metrics of `run/evaluation/metric_registry.py` compute: each goes from a `Inputs` to figures with their names."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np
import torch

from gossamer.data.records import Labelled, Records, Samples
from gossamer.errors import RequestError
from gossamer.estimate import Estimate
from gossamer.events import Sink, progress, silent
from gossamer.files import write_atomically
from gossamer.intervals import proportion
from gossamer.methods.synthesizer import Synthesizer
from gossamer.metrics import classical, classify, per_class, semi_supervised
from gossamer.metrics.discriminate import discriminate
from gossamer.metrics.features import ClassifierFeatures, Features, InceptionFeatures
from gossamer.metrics.fidelity import frechet, inception_score, mmd
from gossamer.metrics.neighbours import nearest, neighbourhood
from gossamer.run.evaluation.baseline_cache import Baselines
from gossamer.run.evaluation.latent_codes import Encodes, codes
from gossamer.run.report import metric_names
from gossamer.run.report.plots import sample_grid

Figures: TypeAlias = Mapping[str, Estimate]
"""Figures by their names."""
PROTOCOLS: dict[str, classify.Protocol] = {"paper": classify.PAPER, "reduced": classify.REDUCED}
TRAINED_ON = {
    metric_names.ACCURACY.name: "synthetic records",
    metric_names.BASELINE.name: "real records",
    metric_names.PUBLIC_ITSELF.name: "public records as they are (epsilon 0)",
    metric_names.WARM_ALONE.name: "samples of the public warm start, before any record was read (epsilon 0)",
}
NEIGHBOURS = 10_000
"""Samples and records at most whose neighbours are looked up: the time grows with the product."""
KERNEL = 5_000
"""Samples and records at most in an MMD."""
DISCRIMINATED = 20_000
"""Samples and records at most of the Jensen-Shannon score."""
CODED = 4_000
"""Test records at most whose codes are looked at."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What is measured, and against what.

    Args:
        samples: of the release.
        real: real training records.
        tests: real test records.
        classes: number of classes.
        labelled: whether the samples carry labels.
        baselines: the cache of what depends on real records alone.
        protocol: a key of PROTOCOLS.
        seed: of all trainings and draws.
        warm: samples of the public warm start alone, or None.
        public: the public records of the run, or None.
        synthesizer: the release itself, where SYNTH is a run; None for a file.
        labelled_records: how many labelled records the semi-supervised analyst has.
        limit: training records of the classical classifiers.
        inception: weights of Inception-V3 and their SHA-256, or None.
        pictures: where the picture of the nearest real records goes, private; None for a file of samples.
        sink: takes progress.
    """

    samples: Samples
    real: Records
    tests: Records
    classes: int
    labelled: bool
    baselines: Baselines
    protocol: str = "paper"
    seed: int = 0
    warm: Samples | None = None
    public: Records | None = None
    synthesizer: Synthesizer | None = None
    labelled_records: int = 100
    limit: int = 10_000
    inception: tuple[Path, str] | None = None
    pictures: Path | None = None
    sink: Sink = silent
    _cache: dict[str, ClassifierFeatures] = field(default_factory=dict)

    def progress(self, label: str) -> Callable[..., None]:
        """A progress function for one training: done, all, and perhaps an accuracy."""

        def report(done: int, total: int, held_out: float | None = None) -> None:
            has_held_out = held_out is not None and np.isfinite(
                held_out
            )  # a protocol without held-out pictures has none
            self.sink(progress(label, done, total, f"{held_out:.1%} of the held-out pictures" if has_held_out else ""))

        return report

    def features(self) -> ClassifierFeatures:
        """The classifier trained on the real training records whose features measure distances."""
        if "classifier" not in self._cache:
            self._cache["classifier"] = self.baselines.features(
                "features",
                lambda: ClassifierFeatures.train(
                    self.real.images, self.real.labels, classes=self.classes, seed=self.seed,
                    progress=self.progress("the classifier for features"),
                ),
            )  # fmt: skip
        return self._cache["classifier"]

    def distance_features(self) -> Features:
        """Those of Inception-V3 where its weights are given, else those of the classifier."""
        return self.features() if self.inception is None else InceptionFeatures(*self.inception)

    def subset(self, records: Labelled, limit: int) -> np.ndarray:
        """At most so many of the pictures, at random: files may be sorted by class."""
        if len(records) <= limit:
            return records.images
        indices = np.sort(np.random.default_rng(self.seed).permutation(len(records))[:limit])
        return np.asarray(records.images[indices])


def accuracy(inputs: Inputs) -> Figures:
    """Train on samples, test on real records: the CNN of Bie et al., beside its baselines."""
    protocol = PROTOCOLS[inputs.protocol]

    def of(figure: metric_names.Figure, records: Labelled) -> dict[str, Estimate]:
        estimate = classify.accuracy(
            records.images, records.labels, inputs.tests.images, inputs.tests.labels, classes=inputs.classes,
            protocol=protocol, seed=inputs.seed, trained_on=TRAINED_ON[figure.name],
            progress=inputs.progress(figure.name),
        )  # fmt: skip
        return {figure.name: estimate}

    return {
        **of(metric_names.ACCURACY, inputs.samples),
        **inputs.baselines.estimates(
            f"{metric_names.BASELINE.name}, {_key(protocol)}", lambda: of(metric_names.BASELINE, inputs.real)
        ),
        **({} if inputs.warm is None else of(metric_names.WARM_ALONE, inputs.warm)),
        **({} if inputs.public is None else of(metric_names.PUBLIC_ITSELF, inputs.public)),
    }


def _protocol_accuracy(classifier: str, protocol: classify.Protocol) -> Callable[[Inputs], Figures]:
    name = metric_names.of_classifier(classifier)

    def measure(inputs: Inputs) -> Figures:
        def of(title: str, records: Labelled, trained_on: str) -> Estimate:
            return classify.accuracy(
                records.images, records.labels, inputs.tests.images, inputs.tests.labels, classes=inputs.classes,
                protocol=protocol, seed=inputs.seed, trained_on=trained_on, progress=inputs.progress(title),
            )  # fmt: skip

        baseline = metric_names.of_baseline(name)
        return {
            name: of(name, inputs.samples, "synthetic records"),
            **inputs.baselines.estimates(
                f"{baseline}, {_key(protocol)}", lambda: {baseline: of(baseline, inputs.real, "real records")}
            ),
        }

    return measure


def _key(protocol: classify.Protocol) -> str:
    """All that a figure under this protocol depends on, in words that stay the same from run to run."""
    settings = (protocol.epochs, protocol.batch_size, protocol.learning_rate, protocol.held_out, protocol.limit)
    return f"{protocol.net.title} {settings}"


def classical_list(inputs: Inputs) -> Figures:
    """GS-WGAN's list of classifiers, their average, and the average of accuracy / accuracy on real records."""

    def of(records: Labelled, trained_on: str) -> dict[str, Estimate]:
        return classical.classical_accuracies(
            records.images, records.labels, inputs.tests.images, inputs.tests.labels, classes=inputs.classes,
            limit=inputs.limit, seed=inputs.seed, trained_on=trained_on,
            progress=inputs.progress(f"classifiers, {trained_on}"),
        )  # fmt: skip

    synthetic = of(inputs.samples, "synthetic records")
    real = inputs.baselines.estimates(f"classical {inputs.limit}", lambda: of(inputs.real, "real records"))
    return {
        **{metric_names.of_classifier(name): estimate for name, estimate in synthetic.items()},
        **{metric_names.of_baseline(metric_names.of_classifier(name)): estimate for name, estimate in real.items()},
        metric_names.AVERAGE.name: classical.average(synthetic),
        metric_names.AVERAGE_BASELINE.name: classical.average(real),
        metric_names.CALIBRATED.name: classical.calibrated(synthetic, real),
    }


def inception(inputs: Inputs) -> Figures:
    """Inception score by the classifier trained on real records, beside that of the real test records."""
    features = inputs.features()
    name, of_real = metric_names.INCEPTION.name, metric_names.INCEPTION_OF_REAL.name
    shuffled = np.random.default_rng(inputs.seed).permutation(len(inputs.samples))  # splits are consecutive
    return {
        name: inception_score(features.probabilities(inputs.samples.images[shuffled])),
        **inputs.baselines.estimates(
            name, lambda: {of_real: inception_score(features.probabilities(inputs.tests.images))}
        ),
    }


def frechet_distance(inputs: Inputs) -> Figures:
    """Frechet distance of samples to real test records, beside its floor: that of real training records."""
    features = inputs.distance_features()
    name = features.distance_name
    floor = metric_names.floor(name).name
    return {
        name: frechet(inputs.samples.images, inputs.tests.images, features),
        **inputs.baselines.estimates(
            f"{floor} {features.name}",
            lambda: {floor: frechet(inputs.real.images, inputs.tests.images, features)},
        ),
    }


def neighbours(inputs: Inputs) -> Figures:
    """Precision, recall, density and coverage on the features of the classifier."""
    features = inputs.features()
    result = neighbourhood(
        features(inputs.subset(inputs.samples, NEIGHBOURS)), features(inputs.subset(inputs.tests, NEIGHBOURS))
    )
    return {
        metric_names.PRECISION.name: result.precision,
        metric_names.RECALL.name: result.recall,
        metric_names.DENSITY.name: result.density,
        metric_names.COVERAGE.name: result.coverage,
    }


def discrepancy(inputs: Inputs) -> Figures:
    """Maximum mean discrepancy on the features of the classifier."""
    features = inputs.features()
    samples, tests = inputs.subset(inputs.samples, KERNEL), inputs.subset(inputs.tests, KERNEL)
    return {metric_names.MMD.name: mmd(features(samples), features(tests))}


def jensen_shannon(inputs: Inputs) -> Figures:
    """The Jensen-Shannon score of Zhang et al.: can a classifier tell samples from records?"""
    result = discriminate(
        inputs.subset(inputs.samples, DISCRIMINATED), inputs.subset(inputs.real, DISCRIMINATED), seed=inputs.seed,
        progress=inputs.progress("real against synthetic"),
    )  # fmt: skip
    return {
        metric_names.JENSEN_SHANNON.name: result.jensen_shannon,
        metric_names.JENSEN_SHANNON_PAPER.name: result.jensen_shannon_paper,
        metric_names.TOLD_APART.name: result.accuracy,
    }


def by_class(inputs: Inputs) -> Figures:
    """Ambiguity and diversity of samples (privGAN, section 6.3), and how often a sample is what its label says, by class."""
    features = inputs.features()
    probabilities = features.probabilities(inputs.samples.images)
    predicted = probabilities.argmax(1)
    figures = {
        metric_names.AMBIGUITY.name: per_class.ambiguity(probabilities),
        metric_names.DIVERSITY.name: per_class.diversity(predicted, classes=inputs.classes),
    }
    if inputs.labelled:
        table = classify.confusion(inputs.samples.labels, predicted, classes=inputs.classes)
        for label, estimate in per_class.per_class_accuracy(table).items():
            figures[metric_names.of_class(label)] = Estimate(
                estimate.value,
                estimate.low,
                estimate.high,
                estimate.n,
                "samples, judged by the classifier trained on real records",
            )
    return figures


def semi(inputs: Inputs) -> Figures:
    """Algorithm 4 of Zhang et al.: a few labelled records with and without synthetic pictures."""
    net = None if inputs.synthesizer is None else inputs.synthesizer.net
    if net is None or inputs.synthesizer is None:
        raise RequestError("semi-supervised needs the generator: give a RUN or a release, not a file of samples.")
    if not hasattr(net, "latent_size"):
        raise RequestError("semi-supervised needs a generator whose samples have codes, and this one has none.")
    synthesizer = inputs.synthesizer
    indices = np.random.default_rng(inputs.seed).permutation(len(inputs.real))[: inputs.labelled_records]

    def draw(n: int, coins: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        stream = torch.Generator().manual_seed(int(coins.integers(2**62)))
        codes = torch.randn(n, int(net.latent_size), generator=stream)  # type: ignore[arg-type]  # asked for above
        labels = torch.randint(synthesizer.classes, (n,), generator=stream)
        with torch.no_grad():
            images = net(codes, labels).mul(255).round().clamp(0, 255).byte().numpy()
        hot = torch.nn.functional.one_hot(labels, synthesizer.classes).float()
        return torch.cat([codes, hot], 1).numpy(), images

    comparison = semi_supervised.compare(
        inputs.real.images[indices], inputs.real.labels[indices], inputs.tests.images, inputs.tests.labels, draw,
        classes=inputs.classes, seed=inputs.seed, progress=inputs.progress("semi-supervised"),
    )  # fmt: skip
    n = inputs.labelled_records
    return {
        metric_names.semi_supervised(n, with_synthetic=True): comparison.with_synthetic,
        metric_names.semi_supervised(n, with_synthetic=False): comparison.baseline,
    }


def latent_space(inputs: Inputs) -> Figures:
    """The codes of an autoencoder that was released with its encoder (Takahashi et al., section 5.1)."""
    net = None if inputs.synthesizer is None else inputs.synthesizer.net
    if getattr(net, "encoder", None) is None:
        raise RequestError("latent needs the encoder of a privae run: train it with --release-encoder.")
    indices = np.random.default_rng(inputs.seed).permutation(len(inputs.tests))[:CODED]
    return codes(cast(Encodes, net), inputs.tests[np.sort(indices)], seed=inputs.seed)


def copies(inputs: Inputs) -> Figures:
    """How many samples of the grid are exact copies of a training record; their neighbours go into the private folder."""
    if inputs.synthesizer is None or inputs.pictures is None:
        raise RequestError("nearest needs a RUN: the picture of the nearest records goes into its private folder.")
    per_class = np.repeat(np.arange(inputs.synthesizer.classes), 10)
    grid = inputs.synthesizer.sample(len(per_class), labels=per_class, seed=0)
    real = inputs.real.images.reshape(len(inputs.real), -1)
    closest = nearest(grid.images.reshape(len(grid), -1) / np.float32(255), real / np.float32(255))
    pairs = np.stack([grid.images, inputs.real.images[closest.index]], 1).reshape(-1, *grid.shape)
    write_atomically(
        inputs.pictures, sample_grid(pairs, np.repeat(per_class, 2), columns=20, names=grid.class_names), private=True
    )
    description = f"samples of the grid against {len(real):,} real training records, pixel by pixel"
    return {metric_names.COPIES.name: proportion(int((closest.distance == 0).sum()), len(grid), description)}


gs_wgan_cnn: Callable[[Inputs], Figures] = _protocol_accuracy("LeNet-5 of GS-WGAN", classify.GS_WGAN)
privgan_cnn: Callable[[Inputs], Figures] = _protocol_accuracy("CNN of privGAN", classify.PRIVGAN)
