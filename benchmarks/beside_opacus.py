"""Do `gossamer.Engine` and Opacus reach the same accuracy at the same epsilon? The same networks, losses and optimisers.

    python -m benchmarks.beside_opacus --out FILE [--tasks mnist adult] [--epsilons 1 3] [--seeds 0 1 2]

Each side finds its own noise for epsilon, with its own accountant, and draws its own Poisson samples. FILE gets one line of
JSON for each run. A run that is there is not run again.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from opacus import PrivacyEngine
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

import gossamer
from benchmarks.tables import datasets
from gossamer.data.sources.pictures.read import read

DELTA = 1e-5


@dataclass(frozen=True)
class Task:
    """What is learnt: parts [n, ...] and labels [n], for training and for the test, and by which network."""

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    network: Callable[[], nn.Module]
    learning_rate: float
    batch: int = 500
    epochs: int = 10


def mnist() -> Task:
    """20,000 digits, and the two convolutions of the tutorial of Opacus."""
    card = gossamer.DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000)

    def part(name: str, most: int) -> tuple[Tensor, Tensor]:
        records = read(f"{datasets.SHARED / 'mnist'}:{name}", card)[:most]
        return torch.as_tensor(records.images[:]).float() / 127.5 - 1, torch.as_tensor(records.labels).long()

    def network() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU(),
            nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(512, 32), nn.ReLU(), nn.Linear(32, 10),
        )  # fmt: skip

    return Task(part("train", 20_000), part("test", 10_000), network, learning_rate=2e-3)


class Tokens(nn.Module):
    """A transformer with one token for each column of a row, and one block of attention."""

    def __init__(self, sizes: list[int], width: int = 32) -> None:
        super().__init__()
        self.starts = torch.tensor([sum(sizes[:at]) for at in range(len(sizes))])
        self.words, self.places = nn.Embedding(sum(sizes), width), nn.Embedding(len(sizes), width)
        self.norm, self.parts, self.head = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, 2)

    def forward(self, codes: Tensor) -> Tensor:
        x = self.words(codes + self.starts) + self.places(torch.arange(codes.shape[1]).expand_as(codes))
        q, k, v = self.parts(self.norm(x)).chunk(3, -1)
        return self.head((x + F.scaled_dot_product_attention(q, k, v)).mean(1))


def adult() -> Task:
    """Income from the other columns of Adult, 32,500 rows: whole batches, so that both sides sample at the same rate."""
    data = datasets.adult()
    sizes = [column.size for column in data.facts.columns]
    label = data.label

    def part(codes: np.ndarray) -> tuple[Tensor, Tensor]:
        rows = torch.as_tensor(codes[:32_500]).long()
        return torch.cat([rows[:, :label], rows[:, label + 1 :]], 1), rows[:, label]

    return Task(
        part(data.seen), part(data.test), lambda: Tokens(sizes[:label] + sizes[label + 1 :]), learning_rate=5e-3
    )


def losses(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(net(x), y, reduction="none")


def by_gossamer(task: Task, net: nn.Module, epsilon: float) -> float:
    """Train, and return the noise multiplier."""
    n = len(task.train[1])
    engine = gossamer.Engine(
        gossamer.Source(task.train, public_test_data=True), declared_size=n, expected_batch_size=task.batch,
        steps=task.epochs * -(-n // task.batch), max_norm=1.0, epsilon=epsilon, delta=DELTA,
    )  # fmt: skip
    optimiser = torch.optim.Adam(net.parameters(), lr=task.learning_rate)
    for _ in engine.steps(net, losses):
        optimiser.step()
    return engine.noise_multiplier


def by_opacus(task: Task, net: nn.Module, epsilon: float) -> float:
    """Train, and return the noise multiplier."""
    net, optimiser, loader = PrivacyEngine().make_private_with_epsilon(
        module=net, optimizer=torch.optim.Adam(net.parameters(), lr=task.learning_rate),
        data_loader=DataLoader(TensorDataset(*task.train), batch_size=task.batch),
        target_epsilon=epsilon, target_delta=DELTA, epochs=task.epochs, max_grad_norm=1.0,
    )  # fmt: skip
    for _ in range(task.epochs):
        for x, y in loader:
            optimiser.zero_grad()
            losses(net, x, y).mean().backward()
            optimiser.step()
    return float(optimiser.noise_multiplier)


TASKS, SIDES = {"mnist": mnist, "adult": adult}, {"gossamer": by_gossamer, "opacus": by_opacus}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=TASKS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 3.0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    there = [json.loads(line) for line in asked.out.read_text().splitlines()] if asked.out.exists() else []
    done = {tuple(line[name] for name in ("task", "side", "epsilon", "seed")) for line in there}
    for task_name in asked.tasks:
        task = TASKS[task_name]()
        for seed in asked.seeds:
            for epsilon in asked.epsilons:
                for side, train in SIDES.items():
                    if (task_name, side, epsilon, seed) in done:
                        continue
                    torch.manual_seed(seed)
                    net, begun = task.network(), time.process_time()
                    noise = train(task, net, epsilon)
                    seconds = time.process_time() - begun
                    right = net(task.test[0]).argmax(1) == task.test[1]
                    line = {
                        "task": task_name, "side": side, "epsilon": epsilon, "seed": seed, "noise": round(noise, 4),
                        "accuracy": round(float(right.float().mean()), 4), "cpu_seconds": round(seconds, 1),
                    }  # fmt: skip
                    print(line, flush=True)
                    with asked.out.open("a") as file:
                        file.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
