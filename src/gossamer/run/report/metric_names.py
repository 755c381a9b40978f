"""The figures of an evaluation: each one's name, unit and sentence, once. Names are keys of metrics.json.

A name says what a figure was computed on where that is not the release: "... of the real-data baseline" (the same on real
records), "... of the public warm start alone" (before any record was read).
"""

from collections.abc import Sequence
from dataclasses import dataclass

PERCENT = "\N{NO-BREAK SPACE}%"
_OF_BASELINE = " of the real-data baseline"
_OF_CLASS, _LOOKS = "samples of class ", " that look like it"
_LISTED = "accuracy, "
_SEMI = "semi-supervised accuracy"


@dataclass(frozen=True)
class Figure:
    """One figure.

    Args:
        name: its key.
        sentence: what it says to a curator who is no statistician, with places for the value and its range.
        share: whether it is a share, shown in per cent.
        bar: its label where it is drawn as a bar; empty: it is not.
    """

    name: str
    sentence: str
    share: bool = False
    bar: str = ""


ACCURACY = Figure(
    "accuracy",
    "A classifier trained only on these synthetic records gets {value} of real test records right ({range}). That does "
    "not measure likeness (letters can teach digits): read it beside the distances and beside the public records.",
    share=True,
    bar="the synthetic records",
)
BASELINE = Figure(
    "accuracy" + _OF_BASELINE,
    "The same classifier trained on the real records gets {value} right ({range}).",
    share=True,
    bar="the real records",
)
WARM_ALONE = Figure(
    "accuracy of the public warm start alone",
    "Trained on samples of the public warm start alone, before any record was read, it gets {value} ({range}).",
    share=True,
    bar="the public start alone",
)
PUBLIC_ITSELF = Figure(
    "accuracy of the public records themselves",
    "Trained on the public records themselves, which cost no privacy (epsilon 0), it gets {value} ({range}). What "
    "a release is worth begins above that.",
    share=True,
    bar="the public records",
)
AVERAGE = Figure(
    "average accuracy",
    "Averaged over a list of classical classifiers trained on the synthetic records: {value} right ({range}).",
    share=True,
    bar="the synthetic records, many classifiers",
)
AVERAGE_BASELINE = Figure(
    "average accuracy" + _OF_BASELINE,
    "The same list trained on the real records: {value} right ({range}).",
    share=True,
    bar="the real records, many classifiers",
)
CALIBRATED = Figure(
    "calibrated accuracy", "The list reaches {value} of what it reaches on real records ({range}).", share=True
)
PRECISION = Figure(
    "precision",
    "Precision: {value} of the samples lie where real records lie ({range}). Low: unlike any record.",
    share=True,
)
RECALL = Figure(
    "recall",
    "Recall: {value} of the real records lie where samples lie ({range}). Low: kinds of records are missing.",
    share=True,
)
COVERAGE = Figure(
    "coverage",
    "Coverage: {value} of the real records have a sample close by ({range}). More real records would reach 97"
    + PERCENT
    + ".",
    share=True,
)
DENSITY = Figure(
    "density", "Density {value} ({range}): about 1 for real records, more where samples crowd in the middle."
)
TOLD_APART = Figure(
    "accuracy of telling real from synthetic",
    "A classifier made for it tells real from synthetic in {value} of cases ({range}). Tossing a coin is right in 50"
    + PERCENT
    + ".",
    share=True,
)
COPIES = Figure(
    "samples that copy a training record",
    "Of the samples on the grid, {value} are exact copies of a real training record ({range}).",
    share=True,
)
INCEPTION = Figure(
    "Inception score",
    "Inception score {value} ({range}): clear and varied samples score high, at most the number of classes.",
)
INCEPTION_OF_REAL = Figure("Inception score of real test records", "Real test records score {value} ({range}).")
CLASSIFIER_FID = Figure(
    "classifier-FID",
    "classifier-FID {value} ({range}): the distance between samples and real test records on the features of a classifier; 0 "
    "is best. It is not the FID of the literature, which takes Inception-V3.",
)
FID = Figure(
    "FID",
    "FID {value} ({range}): the distance between samples and real test records on Inception-V3's features; 0 is best.",
)
MMD = Figure("MMD", "Maximum mean discrepancy {value} ({range}): 0 where samples and records are alike.")
JENSEN_SHANNON = Figure(
    "Jensen-Shannon divergence",
    "Jensen-Shannon divergence {value} bits ({range}): 0 where no classifier tells samples from records.",
)
JENSEN_SHANNON_PAPER = Figure(
    "Jensen-Shannon score (formula of the paper)", "By the formula of Zhang et al. {value} ({range})."
)
AMBIGUITY = Figure("ambiguity", "Ambiguity {value} ({range}): how unsure a classifier is about a sample; 0 is clear.")
DIVERSITY = Figure("class diversity", "Class diversity {value} ({range}): how evenly samples spread over the classes.")


def floor(distance: str) -> Figure:
    """The floor of a distance: what real training records have."""
    return Figure(
        f"{distance} of real training records", "Its floor, the distance of real training records: {value} ({range})."
    )


_KNOWN = {
    figure.name: figure
    for figure in (
        ACCURACY, BASELINE, WARM_ALONE, PUBLIC_ITSELF,
        AVERAGE, AVERAGE_BASELINE, CALIBRATED, PRECISION, RECALL, COVERAGE, DENSITY,
        TOLD_APART, COPIES, INCEPTION, INCEPTION_OF_REAL, CLASSIFIER_FID, floor(CLASSIFIER_FID.name), FID, floor(FID.name),
        MMD, JENSEN_SHANNON, JENSEN_SHANNON_PAPER, AMBIGUITY, DIVERSITY,
    )
}  # fmt: skip


def figure(name: str) -> Figure:
    """The figure of that name; one that is not listed, as those of single classifiers, speaks for itself."""
    if name in _KNOWN:
        return _KNOWN[name]
    share = name.startswith((_OF_CLASS, _LISTED, _SEMI))
    label = name[:1].upper() + name[1:] if share else name
    return Figure(name, label + ": {value} ({range}).", share=share)


def of_baseline(name: str) -> str:
    """The name of the same figure for the baseline, trained on real records."""
    return name + _OF_BASELINE


def is_of_baseline(name: str) -> bool:
    """Whether a figure is the baseline's."""
    return name.endswith(_OF_BASELINE)


def of_classifier(classifier: str) -> str:
    """The name of the accuracy of one classifier of a list."""
    return _LISTED + classifier


def classifier_of(name: str) -> str | None:
    """Which classifier of a list a figure is the accuracy of, the baseline's too; None: of none."""
    return name[len(_LISTED) :].removesuffix(_OF_BASELINE) if name.startswith(_LISTED) else None


def of_class(label: int) -> str:
    """The name of the share of a class's samples that look like it."""
    return f"{_OF_CLASS}{label}{_LOOKS}"


def class_of(name: str) -> str | None:
    """Which class's samples a figure is about; None: those of all."""
    return name[len(_OF_CLASS) : -len(_LOOKS)] if name.startswith(_OF_CLASS) else None


def shown(name: str, class_names: Sequence[str]) -> str:
    """A figure's name for people: a class is called what the card calls it."""
    number = class_of(name)
    if number is None or int(number) >= len(class_names):
        return name
    return f"{_OF_CLASS}{class_names[int(number)]}{_LOOKS}"


def semi_supervised(labelled: int, *, with_synthetic: bool) -> str:
    """The name of the accuracy of an analyst with so many labelled records, with synthetic ones or without."""
    return f"{_SEMI}, {labelled} labelled records{'' if with_synthetic else ' without synthetic ones'}"


def stands_alone(name: str) -> bool:
    """Whether a figure is more than a row of a table of classes or classifiers."""
    return class_of(name) is None and classifier_of(name) is None
