"""What `evolve` makes of MNIST: a small CNN trained on 20,000 samples reads held-out training records.

    python benchmarks/evolve.py --epsilon 1 10 --set candidates=500 steps=2

The votes are of the first 50,000 training records, the classifier is held against the last 10,000; the test records are not
read. Beside it stand plain drawings (epsilon 0). One line for each run; nothing of this is covered by a guarantee.
"""

import argparse
import dataclasses
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.sources.pictures.read import read
from gossamer.data.synthetic.glyphs import draw
from gossamer.methods.evolve import Config
from gossamer.methods.job import Training
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.training.plan import plan

MNIST = Path("../shared/data/mnist")
CARD = DataCard(shape=(1, 28, 28), classes=10, declared_size=50_000)
SAMPLES, EPOCHS, DELTA = 20_000, 6, 1e-5


def accuracy(samples: Records, real: Records, seed: int = 0) -> float:
    """Of a small CNN that has seen the samples, on real records."""
    images, labels = samples.tensors()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = nn.Sequential(
            *(nn.Conv2d(1, 16, 5, stride=2, padding=2), nn.ReLU()),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 10)),
        )
        optimiser = torch.optim.Adam(net.parameters(), 1e-3)
        for _ in range(EPOCHS):
            for batch in torch.randperm(len(images)).split(128):
                optimiser.zero_grad()
                cross_entropy(net(images[batch]), labels[batch]).backward()
                optimiser.step()
    net.eval()
    return float(np.mean([hits(net, real[np.arange(i, i + 1_000)]) for i in range(0, len(real), 1_000)]))


@torch.no_grad()
def hits(net: nn.Module, records: Records) -> float:
    """Share of records whose class a net reads."""
    images, labels = records.tensors()
    found: Tensor = net(images).argmax(1) == labels
    return float(found.float().mean())


def evolved(records: Records, epsilon: float, seed: int, settings: dict[str, Any]) -> tuple[Records, str]:
    """20,000 samples of a run, and what it did."""
    request = plan("evolve", CARD, settings, epsilon=epsilon, delta=DELTA)
    ledger = PrivacyLedger(budget=epsilon, delta=DELTA, relation=request.job.relation)
    ledger.reserve(request.plan)
    training: Training[Any, Any] = request.job.begin(Rng(seed))
    shown: list[dict[str, float]] = []
    for reached in training.drive(Confined(records, ledger, training.run.rng)):
        if reached.logs and reached.phase.releases:
            shown.append({name: round(float(value)) for name, value in reached.logs.items()})
    images, labels = request.job.sample(
        training.state.released, SAMPLES, torch.arange(SAMPLES) % 10, torch.Generator().manual_seed(seed)
    )
    told = f"noise {request.job.settings['noise_multiplier']:.3f}, kept {[each['candidates_kept'] for each in shown]}"
    return Records((images * 255).round().byte().numpy(), labels.numpy()), told


def main() -> None:
    """Print a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, nargs="*", default=[1.0, 10.0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings of evolve")
    parser.add_argument("--no-drawings", action="store_true", help="leave the epsilon-0 row out")
    arguments = parser.parse_args()
    kinds = {each.name: type(each.default) for each in dataclasses.fields(Config)}
    pairs = (each.split("=") for each in arguments.set)
    settings = {name: kinds[name](value) for name, value in pairs}
    torch.set_num_threads(1)
    training = read(str(MNIST), split="train")
    held_out = training[np.arange(50_000, 60_000)]
    for seed in range(arguments.seeds):
        if not arguments.no_drawings:
            print(
                f"drawings, epsilon 0, seed {seed}: {accuracy(draw(SAMPLES, seed=100 + seed), held_out, seed):.4f}",
                flush=True,
            )
        for epsilon in arguments.epsilon:
            start = time.perf_counter()
            samples, told = evolved(training[np.arange(50_000)], epsilon, seed, settings)
            took = time.perf_counter() - start
            found = accuracy(samples, held_out, seed)
            print(f"epsilon {epsilon:g}, seed {seed}, {settings}: {found:.4f}, {took:.0f} s, {told}", flush=True)


if __name__ == "__main__":
    main()
