"""Measure the papers' metrics on a RUN: `python -m benchmarks.reproduce.metrics RUN --metrics latent --train ... --test ...`.

The figures read real records. They are internal, like those of `gossamer evaluate`.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from benchmarks.reproduce.metrics import cnn, semi_supervised
from benchmarks.reproduce.metrics.discriminate import discriminate
from benchmarks.reproduce.metrics.latent_codes import codes
from gossamer.data.records import Labelled, Records
from gossamer.data.samples.samples import Samples
from gossamer.data.sources.pictures.read import read
from gossamer.errors import RequestError
from gossamer.events import Sink, progress, silent
from gossamer.intervals import Estimate
from gossamer.methods.privae.nets import Autoencoder
from gossamer.methods.synthesizer import Synthesizer

SAMPLES = 60_000
"""Samples of the run on which classifiers are trained."""
DISCRIMINATED = 20_000
"""Samples and records at most of the Jensen-Shannon score."""
CODED = 4_000
"""Test records at most whose codes are looked at."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What is measured, and against what.

    Args:
        synthesizer: the release.
        real: real training records.
        tests: real test records.
        labelled: how many labelled records the semi-supervised analyst has.
        seed: of all trainings and draws.
        sink: takes progress.
    """

    synthesizer: Synthesizer[Samples]
    real: Records
    tests: Records
    labelled: int
    seed: int
    sink: Sink


def by_cnn(inputs: Inputs, protocol: cnn.Protocol) -> dict[str, Estimate]:
    """Accuracy by the classifier of a paper, beside that of the same classifier trained on the real records."""

    def of(records: Labelled, trained_on: str) -> Estimate:
        return cnn.accuracy(
            records.images, records.labels, inputs.tests.images, inputs.tests.labels,
            classes=inputs.synthesizer.classes, protocol=protocol, seed=inputs.seed, trained_on=trained_on,
        )  # fmt: skip

    name = f"accuracy, {protocol.net.title}"
    return {
        name: of(inputs.synthesizer.sample(SAMPLES, seed=inputs.seed), "synthetic records"),
        f"{name} of the real-data baseline": of(inputs.real, "real records"),
    }


def jensen_shannon(inputs: Inputs) -> dict[str, Estimate]:
    """The Jensen-Shannon score of Zhang et al.: can a classifier tell samples from records?"""
    count = min(DISCRIMINATED, len(inputs.real))
    chosen = np.sort(np.random.default_rng(inputs.seed).permutation(len(inputs.real))[:count])
    samples = inputs.synthesizer.sample(count, seed=inputs.seed)
    found = discriminate(samples.images, inputs.real.images[chosen], seed=inputs.seed)
    return {
        "Jensen-Shannon divergence": found.jensen_shannon,
        "Jensen-Shannon score (formula of the paper)": found.jensen_shannon_paper,
        "accuracy of telling real from synthetic": found.accuracy,
    }


def semi(inputs: Inputs) -> dict[str, Estimate]:
    """Algorithm 4 of Zhang et al.: a few labelled records with and without synthetic pictures."""
    synthesizer, net = inputs.synthesizer, inputs.synthesizer.net
    if not hasattr(net, "latent_size"):
        raise RequestError("semi-supervised needs a generator whose samples have codes, and this one has none.")
    indices = np.random.default_rng(inputs.seed).permutation(len(inputs.real))[: inputs.labelled]

    def draw(n: int, coins: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        stream = torch.Generator().manual_seed(int(coins.integers(2**62)))
        latents = torch.randn(n, int(net.latent_size), generator=stream)  # type: ignore[arg-type]  # asked for above
        labels = torch.randint(synthesizer.classes, (n,), generator=stream)
        with torch.no_grad():
            images = net(latents, labels).mul(255).round().clamp(0, 255).byte().numpy()
        hot = torch.nn.functional.one_hot(labels, synthesizer.classes).float()
        return torch.cat([latents, hot], 1).numpy(), images

    def report(done: int, total: int) -> None:
        inputs.sink(progress("semi-supervised", done, total))

    found = semi_supervised.compare(
        inputs.real.images[indices], inputs.real.labels[indices], inputs.tests.images, inputs.tests.labels, draw,
        classes=synthesizer.classes, seed=inputs.seed, progress=report,
    )  # fmt: skip
    name = f"semi-supervised accuracy, {inputs.labelled} labelled records"
    return {name: found.with_synthetic, f"{name} without synthetic ones": found.baseline}


def latent_space(inputs: Inputs) -> dict[str, Estimate]:
    """The codes of an autoencoder that was released with its encoder (Takahashi et al., section 5.1)."""
    net = inputs.synthesizer.net
    if getattr(net, "encoder", None) is None:
        raise RequestError("latent needs the encoder of a privae run: train it with --release-encoder.")
    indices = np.random.default_rng(inputs.seed).permutation(len(inputs.tests))[:CODED]
    return codes(cast(Autoencoder, net), inputs.tests[np.sort(indices)], seed=inputs.seed)


PAPER_METRICS: Mapping[str, Callable[[Inputs], dict[str, Estimate]]] = {
    "semi-supervised": semi,
    "latent": latent_space,
    "gs-wgan-cnn": lambda inputs: by_cnn(inputs, cnn.GS_WGAN),
    "privgan-cnn": lambda inputs: by_cnn(inputs, cnn.PRIVGAN),
    "jensen-shannon": jensen_shannon,
}
"""By the names that tables and the command line use."""


def measure(
    run: Path, metrics: Sequence[str], *, train: str, test: str, labelled: int, seed: int, sink: Sink = silent
) -> list[dict[str, Any]]:
    """The figures of these metrics, as entries of metrics.json.

    Args:
        run: a finished RUN or a release.
        metrics: keys of `PAPER_METRICS`.
        train: real training records.
        test: real test records.
        labelled: for semi-supervised: how many records have labels.
        seed: of all trainings and draws.
        sink: takes progress.

    Raises:
        RequestError: if a metric does not apply to the run.
    """
    synthesizer = Synthesizer[Samples].load(run)
    reading = synthesizer.card.reading
    inputs = Inputs(
        synthesizer=synthesizer,
        real=read(train, reading, split="train"),
        tests=read(test, reading, split="test"),
        labelled=labelled,
        seed=seed,
        sink=sink,
    )
    return [
        {"metric": name, **dataclasses.asdict(estimate), "internal": True}
        for metric in metrics
        for name, estimate in PAPER_METRICS[metric](inputs).items()
    ]
