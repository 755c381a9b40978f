"""The metrics of `gossamer evaluate --metrics`. `metric_functions.py` computes them, and is loaded when asked."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gossamer.errors import DataError, RequestError, did_you_mean
from gossamer.lazy import Lazy

if TYPE_CHECKING:
    from gossamer.run.evaluation import metric_functions
else:
    metric_functions = Lazy("gossamer.run.evaluation.metric_functions")

_CALLED = {
    **dict.fromkeys(("samples", "images_a", "a", "probabilities"), "the samples"),
    **dict.fromkeys(("records", "images_b", "b", "test_images"), "the real records"),
    "train_images": "the pictures that a classifier learns from",
}
"""What the arguments of the metrics are, in an evaluation."""
PROTOCOLS = ("paper", "reduced")
"""For `accuracy`: the 10 epochs of the paper, or fewer."""


@dataclass(frozen=True)
class Metric:
    """One metric.

    Args:
        name: as on the command line.
        compute: from what is measured to figures with their names.
        needs_labels: whether samples without labels leave it nothing to train on.
        in_all: whether `--metrics all` asks for it; the others take an hour or more, or settings of their own.
    """

    name: str
    compute: "Callable[[metric_functions.Inputs], metric_functions.Figures]"
    needs_labels: bool = False
    in_all: bool = False


METRICS = {
    metric.name: metric
    for metric in (
        Metric("accuracy", lambda inputs: metric_functions.accuracy(inputs), needs_labels=True, in_all=True),
        Metric("gs-wgan-cnn", lambda inputs: metric_functions.gs_wgan_cnn(inputs), needs_labels=True),
        Metric("privgan-cnn", lambda inputs: metric_functions.privgan_cnn(inputs), needs_labels=True),
        Metric("classical", lambda inputs: metric_functions.classical_list(inputs), needs_labels=True),
        Metric("inception-score", lambda inputs: metric_functions.inception(inputs), in_all=True),
        Metric("fid", lambda inputs: metric_functions.frechet_distance(inputs), in_all=True),
        Metric("neighbours", lambda inputs: metric_functions.neighbours(inputs), in_all=True),
        Metric("mmd", lambda inputs: metric_functions.discrepancy(inputs), in_all=True),
        Metric("jensen-shannon", lambda inputs: metric_functions.jensen_shannon(inputs), in_all=True),
        Metric("per-class", lambda inputs: metric_functions.by_class(inputs), in_all=True),
        Metric("nearest", lambda inputs: metric_functions.copies(inputs)),
        Metric("semi-supervised", lambda inputs: metric_functions.semi(inputs)),
        Metric("latent", lambda inputs: metric_functions.latent_space(inputs)),
    )
}
IN_ALL = tuple(name for name, metric in METRICS.items() if metric.in_all)


def chosen_metrics(text: str) -> list[str]:
    """The metrics of a comma-separated list; "all" stands for the quick ones.

    Raises:
        RequestError: if there is no such metric; names the nearest.
    """
    names: list[str] = []
    for name in (part.strip() for part in text.split(",")):
        if name != "all" and name not in METRICS:
            raise RequestError(
                f"there is no metric {name!r}.{did_you_mean(name, METRICS)} Known: all, {', '.join(METRICS)}."
            )
        names += [metric for metric in (IN_ALL if name == "all" else (name,)) if metric not in names]
    return names


def measured(
    inputs: "metric_functions.Inputs", names: list[str]
) -> "Iterator[tuple[str, metric_functions.Figures, str]]":
    """Name of the metric, its figures, and why there are none where it does not apply to these records.

    Raises:
        DataError, RequestError: if the only metric asked for does not apply.
    """
    for name in names:
        if METRICS[name].needs_labels and not inputs.labelled:
            reason = "the samples carry no labels (an unconditional generator), so nothing can be trained on them"
            if len(names) == 1:
                raise RequestError(f"{name}: {reason}. Take fid, inception-score or neighbours.")
            yield name, {}, reason
            continue
        try:
            yield name, METRICS[name].compute(inputs), ""
        except (DataError, RequestError) as error:
            reason = _in_words(str(error))
            if len(names) == 1:
                raise type(error)(reason) from None
            yield name, {}, reason


def _in_words(reason: str) -> str:
    """A refusal that names an argument, as whoever asked for an evaluation knows it."""
    argument, colon, rest = reason.partition(": ")
    return f"{_CALLED.get(argument, argument)}{colon}{rest}"
