"""What a method makes of training records, read off other training records that were set apart: for choosing settings.

    python benchmarks/set_apart.py moments --data ../shared/data/fashion_mnist --epsilon 10 --set axes=128
    python benchmarks/set_apart.py dp-diffusion --data ../shared/data/mnist --epsilon 10 --set start=evolve steps=500

The method is trained on all but the last `--apart` training records (on the first `--records` of these), the paper's CNN
(5 epochs, batch 128) on samples of it, with soft labels where they have some. The CNN is held against those last records.
Test records are not read. No guarantee covers any of this, and no account is charged.
"""

import argparse
import ast
import copy
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.source import Reading
from gossamer.data.sources.pictures.read import read
from gossamer.methods.contract import BaseConfig, State
from gossamer.methods.job import Job
from gossamer.metrics import classify, fidelity, neighbours
from gossamer.metrics.features import ClassifierFeatures
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.training.memory import fitted, tune_malloc
from gossamer.run.training.plan import plan


def main() -> None:
    """One line for each start on public pictures, and one for the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method")
    parser.add_argument("--data", required=True)
    parser.add_argument("--public")
    parser.add_argument("--epsilon", type=float, default=10.0)
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--apart", type=int, default=10_000)
    parser.add_argument("--records", type=int, help="the first so many of those left; default: all of them")
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", help="where it trains: cpu or cuda")
    parser.add_argument(
        "--features", type=Path, help="file of a classifier for classifier-FID and coverage; made if absent"
    )
    parser.add_argument("--keep", type=Path, help=".npz file for the last samples")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of the method")
    asked = parser.parse_args()

    records = read(asked.data, split="train")
    held, apart = records[: -asked.apart][: asked.records], records[-asked.apart :]
    card = DataCard(shape=records.shape, classes=int(records.labels.max()) + 1, declared_size=len(held))
    public = None if asked.public is None else read(asked.public, Reading(shape=card.shape), split="train")
    settings = {name: value_of(text) for name, text in (each.split("=", 1) for each in asked.set)}
    features = None if asked.features is None else features_of(asked.features, held, card.classes)
    epsilon = None if "noise_multiplier" in settings else asked.epsilon
    request = plan(asked.method, card, settings, epsilon=epsilon, delta=asked.delta)
    ledger = PrivacyLedger(budget=request.epsilon, delta=asked.delta, relation=request.job.relation)
    ledger.reserve(request.plan)
    tune_malloc()
    job = fitted(request.job, asked.device)
    training = job.begin(Rng(asked.seed), torch.device(asked.device))
    started = time.monotonic()

    def show(what: str) -> None:
        net = copy.deepcopy(training.state.released)
        told(what, started, job, net if getattr(net, "samples_on_gpu", False) else net.cpu(), asked, apart, features)

    for reached in training.drive(Confined(held, ledger, training.run.rng), public):
        if reached.logs is None and reached.phase.name in ("public start", "warm start", "matching"):
            show(reached.phase.name)
    show("end")


def told(
    what: str,
    started: float,
    job: Job[BaseConfig, State],
    net: nn.Module,
    asked: argparse.Namespace,
    apart: Records,
    features: ClassifierFeatures | None,
) -> None:
    """Print how well a classifier does that has learnt from samples and, with features, how like records they are."""
    took = time.monotonic() - started
    stream, pictures, labels, soft = torch.Generator().manual_seed(1), [], [], []
    for images, drawn, probabilities in job.chunks(net.eval(), [1_000] * -(-asked.samples // 1_000), None, stream):
        pictures.append(images.mul(255).round().clamp(0, 255).byte().numpy())
        labels.append(drawn.numpy())
        soft += [] if probabilities is None else [probabilities.numpy()]
    samples = Records(np.concatenate(pictures), np.concatenate(labels))
    soft_labels = np.concatenate(soft) if soft else None
    if asked.keep is not None:
        kept = {} if soft_labels is None else {"probabilities": soft_labels}
        np.savez(asked.keep, images=samples.images, labels=samples.labels, **kept)
    found = classify.accuracy(
        samples.images, samples.labels, apart.images, apart.labels, classes=job.card.classes,
        protocol=classify.Protocol(epochs=asked.epochs, batch_size=128), seed=0, train_probabilities=soft_labels,
    )  # fmt: skip
    more = ""
    if features is not None:
        some = samples[: len(apart)]
        distance = fidelity.frechet(some.images, apart.images, features).value
        covered = neighbours.neighbourhood(features(some.images), features(apart.images)).coverage.value
        more = f", classifier-FID {distance:.1f}, coverage {covered:.1%}"
    print(f"{what}: {found.value:.2%} ({found.low:.2%} to {found.high:.2%}){more}, after {took:.0f} s", flush=True)


def features_of(path: Path, held: Records, classes: int) -> ClassifierFeatures:
    """Those in the file, or of a classifier that learns from the records, 5 epochs."""
    if not path.exists():
        ClassifierFeatures.train(held.images, held.labels, classes=classes, epochs=5, seed=0).save(path)
    return ClassifierFeatures.load(path)


def value_of(text: str) -> Any:
    """A setting as its Config has it: 2 is a whole number, 2.0 is not."""
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    assert isinstance(value, bool | int | float | dict)
    return value


if __name__ == "__main__":
    main()
