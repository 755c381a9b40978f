"""The metrics of `gossamer evaluate`: each with its figures, what it needs, and the function that measures it.

Names of figures are the keys of metrics.json. A name says what a figure was computed on where that is not the release:
"... of the real-data baseline" is the same figure on real records.
The help of the command line reads this module, so numpy, scipy and PyTorch are loaded only when a metric is measured.

To add a metric: its figures, its function, and `@METRICS.metric` with a name. The file is long because all metrics of pictures
are in it. Those of tables are in `metrics.tables.registry`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gossamer.errors import DataError, RequestError
from gossamer.intervals import Estimate
from gossamer.lazy import Lazy
from gossamer.metrics import linked, metric
from gossamer.metrics.metric import GUESSED, OF_BASELINE, Figure, Figures, Registry
from gossamer.metrics.tables import registry as tables

if TYPE_CHECKING:
    import numpy as np

    from gossamer import intervals
    from gossamer.data.card import Kind
    from gossamer.data.records import Labelled, Records
    from gossamer.data.samples.samples import Samples
    from gossamer.metrics import classify, features, fidelity, neighbours, per_class
else:
    np, intervals = Lazy("numpy"), Lazy("gossamer.intervals")
    classify, features = Lazy("gossamer.metrics.classify"), Lazy("gossamer.metrics.features")
    fidelity, neighbours = Lazy("gossamer.metrics.fidelity"), Lazy("gossamer.metrics.neighbours")
    per_class = Lazy("gossamer.metrics.per_class")

PROTOCOLS = ("paper", "reduced")
"""For `accuracy`: the 10 epochs of the paper, or fewer."""
NEIGHBOURS = 10_000
"""Samples and records at most whose neighbours are looked up: the time grows with the product."""
KERNEL = 5_000
"""Samples and records at most in an MMD."""
TURNED = 5_000
"""Records at most that are turned four times, to train features without classes."""

_PERCENT = "\N{NO-BREAK SPACE}%"


@dataclass(frozen=True, kw_only=True)
class Inputs(metric.Inputs):
    """Pictures that are measured.

    Args:
        classes: number of classes.
        protocol: one of PROTOCOLS.
        warm: draws samples of the public warm start alone; None: there was none.
        public: reads the public records of the run. It gives None where they cannot be read.
        inception: weights of Inception-V3 and their SHA-256, or None.
        grid: draws the sample grid of a RUN; None for a file of samples.
        released: which test records the classifier of the release itself gets right; None: the release has none.
        show_pairs: stores the picture of the grid (images, then labels) in the private folder of a RUN.
    """

    samples: "Samples"
    real: "Records"
    tests: "Records"
    classes: int
    protocol: str = "paper"
    warm: "Callable[[], Samples] | None" = None
    public: "Callable[[], Records | None] | None" = None
    inception: tuple[Path, str] | None = None
    grid: "Callable[[], Samples] | None" = None
    released: "Callable[[], np.ndarray] | None" = None
    show_pairs: "Callable[[np.ndarray, np.ndarray], None] | None" = None

    @cached_property
    def features(self) -> "features.ClassifierFeatures":
        """The classifier trained on the real training records whose features measure distances.

        If all have one class, it is trained to tell turned pictures apart.
        """

        def train() -> "features.ClassifierFeatures":
            images, labels, classes, of = self.real.images, self.real.labels, self.classes, "real records"
            if self.of_one_class:
                images, labels = features.turned(self.subset(self.real, TURNED))
                classes, of = 4, "turned pictures of real records"
            return features.ClassifierFeatures.train(
                images, labels, classes=classes, of=of, seed=self.seed,
                progress=self.progress("the classifier for features"),
            )  # fmt: skip

        return self.baselines.features("turned" if self.of_one_class else "features", train)

    @cached_property
    def of_one_class(self) -> bool:
        """Whether all real training records have one class."""
        return bool((self.real.labels == self.real.labels[0]).all())

    def probabilities(self, images: "np.ndarray") -> "np.ndarray":
        """The probability of each class for each picture, float64 [n, classes]. Raises DataError: there is one class."""
        if self.of_one_class:
            raise DataError(
                "all real records have one class, so there are no classes to tell apart. Take fid or neighbours."
            )
        return self.features.probabilities(images)

    def subset(self, records: "Labelled", limit: int) -> "np.ndarray":
        """At most so many of the pictures, at random: files may be sorted by class."""
        if len(records) <= limit:
            return records.images
        indices = np.sort(np.random.default_rng(self.seed).permutation(len(records))[:limit])
        return np.asarray(records.images[indices])


METRICS = Registry("pictures")

# ---------------------------------------------------------------------- accuracy

ACCURACY = Figure(
    "accuracy",
    "A classifier trained only on these synthetic records gets {value} of real test records right ({range}). That does "
    "not measure realism (letters can teach digits): read it beside the distances and beside the public records.",
    bar="the synthetic records",
)
RELEASED = Figure(
    "accuracy of the released classifier",
    "The classifier in the release itself gets {value} of real test records right ({range}).",
    bar="the released classifier",
)
BASELINE = Figure(
    "accuracy" + OF_BASELINE,
    "The same classifier trained on the real records gets {value} right ({range}).",
    bar="the real records",
)
WARM_ALONE = Figure(
    "accuracy of the public warm start alone",
    "Trained on samples of the public warm start alone, before any record was read, it gets {value} ({range}).",
    bar="the public start alone",
)
PUBLIC_ITSELF = Figure(
    "accuracy of the public records themselves",
    "Trained on the public records themselves, which cost no privacy (epsilon 0), it gets {value} ({range}). What "
    "a release is worth begins above that.",
    bar="the public records",
)


@METRICS.metric("accuracy", RELEASED, ACCURACY, BASELINE, GUESSED, WARM_ALONE, PUBLIC_ITSELF, needs_labels=True)
def accuracy(inputs: Inputs) -> Figures:
    """Train on samples, test on real records: the CNN of Bie et al., beside its baselines. Soft labels are used, if given."""
    protocol = classify.PROTOCOLS[inputs.protocol]

    def of(figure: Figure, records: "Labelled", trained_on: str) -> dict[str, Estimate]:
        progress = inputs.progress(f"classifier trained on {trained_on.partition(',')[0]}")
        estimate = classify.accuracy(
            records.images, records.labels, inputs.tests.images, inputs.tests.labels, classes=inputs.classes,
            protocol=protocol, seed=inputs.seed, trained_on=trained_on, progress=progress,
            train_probabilities=getattr(records, "probabilities", None),
        )  # fmt: skip
        return {figure.name: estimate}

    count, on = len(inputs.tests), f"{len(inputs.tests):,} real test records"
    found: dict[str, Estimate] = {}
    if inputs.released is not None:
        found[RELEASED.name] = intervals.proportion(int(inputs.released().sum()), count, on)
    found |= of(ACCURACY, inputs.samples, "synthetic records")
    found |= inputs.baselines.estimates(
        f"{BASELINE.name}, {protocol.key}", lambda: of(BASELINE, inputs.real, "real records")
    )
    most_frequent = np.bincount(inputs.real.labels).argmax()
    found[GUESSED.name] = intervals.proportion(int((inputs.tests.labels == most_frequent).sum()), count, on)
    if inputs.warm is not None:
        before = "samples of the public warm start, before any record was read (epsilon 0)"
        found |= of(WARM_ALONE, inputs.warm(), before)
    if inputs.public is not None and (public := inputs.public()) is not None:
        found |= of(PUBLIC_ITSELF, public, "public records as they are (epsilon 0)")
    return found


# ---------------------------------------------------------------------- realism

INCEPTION = Figure(
    "Inception score",
    "Inception score {value} ({range}): clear and varied samples score high, at most the number of classes.",
)
INCEPTION_OF_REAL = Figure("Inception score of real test records", "Real test records score {value} ({range}).")


@METRICS.metric("inception-score", INCEPTION, INCEPTION_OF_REAL)
def inception(inputs: Inputs) -> Figures:
    """Inception score by the classifier trained on real records, beside that of the real test records."""
    probabilities = inputs.probabilities
    shuffled = np.random.default_rng(inputs.seed).permutation(len(inputs.samples))  # splits are consecutive
    return {
        INCEPTION.name: fidelity.inception_score(probabilities(inputs.samples.images[shuffled])),
        **inputs.baselines.estimates(
            INCEPTION.name,
            lambda: {INCEPTION_OF_REAL.name: fidelity.inception_score(probabilities(inputs.tests.images))},
        ),
    }


def floor(distance: str) -> Figure:
    """The floor of a distance: what real training records have."""
    return Figure(
        f"{distance} of real training records", "Its floor, the distance of real training records: {value} ({range})."
    )


CLASSIFIER_FID = Figure(
    "classifier-FID",
    "classifier-FID {value} ({range}): the distance between samples and real test records on the features of a classifier; 0 "
    "is best. It is not the FID of the literature, which takes Inception-V3.",
)
FID = Figure(
    "FID",
    "FID {value} ({range}): the distance between samples and real test records on Inception-V3's features; 0 is best.",
)


@METRICS.metric("fid", CLASSIFIER_FID, floor(CLASSIFIER_FID.name), FID, floor(FID.name))
def frechet_distance(inputs: Inputs) -> Figures:
    """Frechet distance of samples to real test records, beside its floor: that of real training records."""
    seen = inputs.features if inputs.inception is None else features.InceptionFeatures(*inputs.inception)
    name = seen.distance_name
    lowest = floor(name).name
    return {
        name: fidelity.frechet(inputs.samples.images, inputs.tests.images, seen),
        **inputs.baselines.estimates(
            f"{lowest} {seen.name}",
            lambda: {lowest: fidelity.frechet(inputs.real.images, inputs.tests.images, seen)},
        ),
    }


@METRICS.metric(
    "neighbours",
    Figure(
        "precision",
        "Precision: {value} of the samples lie where real records lie ({range}). Low: unlike any record.",
        share=True,
    ),
    Figure(
        "recall",
        "Recall: {value} of the real records lie where samples lie ({range}). Low: kinds of records are missing.",
        share=True,
    ),
    Figure("density", "Density {value} ({range}): about 1 for real records, more where samples crowd in the middle."),
    Figure(
        "coverage",
        "Coverage: {value} of the real records have a sample close by ({range}). More real records would reach 97"
        f"{_PERCENT}.",
        share=True,
    ),
)
def neighbourhood(inputs: Inputs) -> Figures:
    """Precision, recall, density and coverage on the features of the classifier."""
    seen = inputs.features
    samples, tests = inputs.subset(inputs.samples, NEIGHBOURS), inputs.subset(inputs.tests, NEIGHBOURS)
    return vars(neighbours.neighbourhood(seen(samples), seen(tests)))


MMD = Figure("MMD", "Maximum mean discrepancy {value} ({range}): 0 where samples and records are alike.")


@METRICS.metric("mmd", MMD)
def discrepancy(inputs: Inputs) -> Figures:
    """Maximum mean discrepancy on the features of the classifier."""
    seen = inputs.features
    samples, tests = inputs.subset(inputs.samples, KERNEL), inputs.subset(inputs.tests, KERNEL)
    return {MMD.name: fidelity.mmd(seen(samples), seen(tests))}


# ---------------------------------------------------------------------- by class

AMBIGUITY = Figure("ambiguity", "Ambiguity {value} ({range}): how unsure a classifier is about a sample; 0 is clear.")
DIVERSITY = Figure("class diversity", "Class diversity {value} ({range}): how evenly samples spread over the classes.")
OF_CLASS = Figure("samples of class {} that look like it", share=True)


@METRICS.metric("per-class", AMBIGUITY, DIVERSITY, OF_CLASS)
def by_class(inputs: Inputs) -> Figures:
    """Ambiguity and diversity of samples (privGAN, section 6.3), and how often a sample is what its label says, by class."""
    probabilities = inputs.probabilities(inputs.samples.images)
    predicted = probabilities.argmax(1)
    found = {
        AMBIGUITY.name: per_class.ambiguity(probabilities),
        DIVERSITY.name: per_class.diversity(predicted, classes=inputs.classes),
    }
    if inputs.labelled:
        shares = per_class.shares_recognised(inputs.samples.labels, predicted)
        found |= {OF_CLASS.of(label): share for label, share in shares.items()}
    return found


# ---------------------------------------------------------------------- copies

COPIES = Figure(
    "samples that copy a training record",
    "Of the samples on the grid, {value} are exact copies of a real training record ({range}).",
    share=True,
)


@METRICS.metric("nearest", COPIES, in_all=False)
def copies(inputs: Inputs) -> Figures:
    """How many samples of the grid are exact copies of a training record; their neighbours go into the private folder."""
    if inputs.grid is None or inputs.show_pairs is None:
        raise RequestError("nearest needs a RUN: the picture of the nearest records goes into its private folder.")
    grid = inputs.grid()
    real = inputs.real.images.reshape(len(inputs.real), -1)
    closest = neighbours.nearest(grid.images.reshape(len(grid), -1) / np.float32(255), real / np.float32(255))
    pairs = np.stack([grid.images, inputs.real.images[closest.index]], 1).reshape(-1, *grid.shape)
    inputs.show_pairs(pairs, np.repeat(grid.labels, 2))
    description = f"samples of the grid against {len(real):,} real training records, pixel by pixel"
    return {COPIES.name: intervals.proportion(int((closest.distance == 0).sum()), len(grid), description)}


# ---------------------------------------------------------------------- both kinds

OF_KIND: "Mapping[Kind, Registry]" = {"pictures": METRICS, "table": tables.METRICS, "linked": linked.METRICS}
"""The metrics of each kind of records."""


def declared(name: str, kind: "Kind" = "pictures") -> tuple[Figure, str]:
    """The figure of that name and "", or its family and the member that it is about. One that is not declared is plain.

    kind: of the records; it decides where both kinds have a figure of this name, which is a share of both or of none.
    """
    figures = [
        each for metrics in (OF_KIND[kind], *OF_KIND.values()) for one in metrics.values() for each in one.figures
    ]
    found = [(each, member) for each in figures if (member := each.member(name)) is not None]
    return min(found, key=lambda each: len(each[1]), default=(Figure(name), ""))


def figure(name: str, kind: "Kind" = "pictures") -> Figure:
    """The figure of that name, see `declared`. One without a sentence of its own gets a plain one."""
    found, _ = declared(name, kind)
    if found.sentence:
        return found
    title = name[:1].upper() + name[1:] if found.share else name
    return Figure(name, title + ": {value} ({range}).", share=found.share)


def shown(name: str, class_names: Sequence[str]) -> str:
    """A figure's name for people: a class is called what the card calls it."""
    number = OF_CLASS.member(name)
    return name if number is None or int(number) >= len(class_names) else OF_CLASS.of(class_names[int(number)])


def stands_alone(name: str) -> bool:
    """Whether a figure is more than a row of a table of classes, classifiers or subgroups."""
    return not declared(name)[1]
