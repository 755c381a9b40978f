"""The attacks of Mukherjee et al. 2021 on privGAN, by the paper's protocol: tables 1 to 6, beside the paper's figures.

A tenth of the training split is the training set (the members), the rest are non-members, and the test split is held out for
principal components. That is the paper's protocol for the Monte-Carlo attack; its white-box and TVD attacks merge both splits
first, and here one model serves all three. Every finished model is kept as a JSON file in --out, and a second call goes on
with those that are missing. Smaller than the paper by default: give --epochs 500 --warm-epochs 50 --delay-epochs 100
--repeats 10 --samples 100000 for its numbers.

    python benchmarks/privgan.py --data ../shared/data/mnist --name MNIST --out runs/privgan-mnist
    python benchmarks/privgan.py --data digits --records 1437 --share 0.5 --epochs 20 --width 64 --out runs/privgan-digits
"""

import argparse
import dataclasses
import json
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gossamer.attacks.discriminator import white_box
from gossamer.attacks.monte_carlo import set_attack
from gossamer.attacks.total_variation import total_variation
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.samples.samples import Samples
from gossamer.data.source import Reading
from gossamer.data.sources.pictures.read import read
from gossamer.files import write_atomically
from gossamer.intervals import mean
from gossamer.methods.contract import Run
from gossamer.methods.job import Job, Training
from gossamer.methods.privgan import Config, Privgan
from gossamer.methods.privgan.loop import State
from gossamer.metrics import classify
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.training.memory import tune_malloc

PRIVGAN = Privgan()
PAPER = {
    "white-box": (
        {"MNIST": (0.467, 0.144, 0.12, 0.096), "f-MNIST": (0.527, 0.192, 0.192, 0.095),
         "LFW": (0.724, 0.148, 0.107, 0.086), "CIFAR-10": (0.723, 0.568, 0.424, 0.154)},
        {"MNIST": (0.12, 0.095, 0.098, 0.08), "f-MNIST": (0.194, 0.17, 0.14, 0.126),
         "CIFAR-10": (0.424, 0.139, 0.11, 0.101)},
    ),
    "TVD": (
        {"MNIST": (0.438, 0.31, 0.235, 0.048), "f-MNIST": (0.674, 0.323, 0.278, 0.155),
         "LFW": (0.756, 0.237, 0.097, 0.261), "CIFAR-10": (0.91, 0.371, 0.367, 0.244)},
        {"MNIST": (0.235, 0.084, 0.054, 0.03), "f-MNIST": (0.278, 0.235, 0.166, 0.101),
         "CIFAR-10": (0.367, 0.247, 0.138, 0.056)},
    ),
    "Monte-Carlo": (
        {"MNIST": (0.79, 0.71, 0.68, 0.56), "f-MNIST": (0.75, 0.73, 0.7, 0.64), "LFW": (0.77, 0.66, 0.57, 0.55),
         "CIFAR-10": (0.62, 0.61, 0.56, 0.52)},
        {"MNIST": (0.68, 0.53, 0.6, 0.57), "f-MNIST": (0.7, 0.69, 0.5, 0.6), "CIFAR-10": (0.56, 0.55, 0.56, 0.52)},
    ),
}  # fmt: skip
"""Tables 1 to 3, against lambda at N = 2, and tables 4 to 6, against N at lambda = 1."""


@dataclasses.dataclass(frozen=True)
class Model:
    """One model to train and attack: pairs 1 is the plain GAN."""

    pairs: int
    weight: float
    repeat: int

    @property
    def name(self) -> str:
        """Of its file."""
        return f"gan-{self.repeat}" if self.pairs == 1 else f"lambda-{self.weight:g}-pairs-{self.pairs}-{self.repeat}"


def jobs(options: argparse.Namespace) -> Iterator[Model]:
    """The plain GAN, every lambda at two pairs, every number of pairs at lambda 1; one repeat of all before the next."""
    for repeat in range(options.repeats):
        grid = [(1, 0.0), *((2, weight) for weight in options.lambdas), *((pairs, 1.0) for pairs in options.pairs)]
        yield from (Model(pairs, weight, repeat) for pairs, weight in dict.fromkeys(grid))


def measured(job: Model, options: argparse.Namespace) -> dict[str, Any]:
    """Train one model and attack it."""
    whole = read(options.data, Reading(shape=options.shape), split="train")
    held_out = read(options.data, Reading(shape=options.shape), split="test")
    order = np.random.default_rng([options.seed, job.repeat]).permutation(len(whole))[: options.records]
    count = round(options.share * len(order))
    members, others = whole[order[:count]], whole[order[count:]]
    card = DataCard(shape=whole.shape, classes=int(whole.labels.max()) + 1, declared_size=count)
    config = Config(
        pairs=job.pairs, privacy_weight=job.weight, epochs=options.epochs, adversary_warm_epochs=options.warm_epochs,
        adversary_delay_epochs=options.delay_epochs, batch_size=options.batch_size, width=options.width,
        labels=options.labels, network=options.network, real_target=options.real_target,
    )  # fmt: skip
    started = time.perf_counter()
    state = trained(members, Run(config, card, Rng(1_000 * options.seed + job.repeat), options.device))
    seconds = time.perf_counter() - started

    scores = [on(state, records) for records in (members, others)]
    oracle = total_variation(*scores, seed=options.seed)
    samples = drawn(state, options.samples, options.seed + job.repeat, options.device)
    size = min(100, count // 10)
    sets = set_attack(
        samples.images, members.images, others.images, held_out.images, set_size=size,
        repeats=min(10, count // size, len(others) // size), components=min(40, len(held_out) // 2), seed=options.seed,
    )  # fmt: skip
    found = {
        "white-box": white_box(*scores, how="max").estimate.value,
        "white-box, mean": white_box(*scores, how="mean").estimate.value,
        "white-box, chance": count / len(order),
        "TVD": oracle.raw.estimate.value,
        "TVD, chance": oracle.raw.chance,
        "TVD, bias removed": oracle.corrected.estimate.value,
        "Monte-Carlo": sets.top.estimate.value,
        "Monte-Carlo, by pairs": sets.pairs.estimate.value,
        "Monte-Carlo, chance": sets.top.chance,
        "seconds": seconds,
    }
    if options.labels != "none":
        estimate = classify.accuracy(
            samples.images, samples.labels, held_out.images, held_out.labels, classes=card.classes,
            protocol=classify.REDUCED, seed=options.seed,
        )  # fmt: skip
        found["accuracy"] = estimate.value
    return found


def trained(members: Records, run: Run[Config]) -> State:
    """A model at the end of its training."""
    ledger = PrivacyLedger(budget=math.inf, delta=0.1 / run.card.declared_size)
    ledger.reserve(Job(PRIVGAN, run.config, run.card).plan)
    training = Training(Job.of(PRIVGAN, dataclasses.asdict(run.config), run.card), run)
    for _ in training.drive(Confined(members, ledger, training.run.rng)):
        pass
    return training.state


def on(state: State, records: Records) -> np.ndarray:
    """Scores of all discriminators, [N, n]."""
    pieces = [state.scores(records[lo : lo + 2_000]) for lo in range(0, len(records), 2_000)]
    return torch.cat(pieces, 1).double().cpu().numpy()


@torch.no_grad()
def drawn(state: State, n: int, seed: int, device: str) -> Samples:
    """Samples of the released generators."""
    stream, images, labels = torch.Generator().manual_seed(seed), [], []
    net = state.released
    for lo in range(0, n, 2_000):
        z = torch.randn(min(2_000, n - lo), net.latent_size, generator=stream)
        y = torch.randint(net.classes, (len(z),), generator=stream)
        images.append(net(z.to(device), y.to(device)).mul(255).round().byte().cpu().numpy())
        labels.append(y.numpy())
    return Samples(np.concatenate(images), np.concatenate(labels))


def cell(values: Sequence[float]) -> str:
    """The mean over repeats with its 95 % t interval."""
    if len(values) < 2:
        return f"{values[0]:.3f}" if values else "-"
    found = mean(values, "")
    return f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"


def tables(results: dict[Model, dict[str, Any]], options: argparse.Namespace) -> Iterator[str]:
    """Markdown: each attack against lambda and against N, the paper's row and ours, and what chance gives."""

    def ours(measure: str, pairs: int, weight: float) -> str:
        of = [found for job, found in results.items() if (job.pairs, job.weight) == (pairs, weight)]
        return cell([found[measure] for found in of if measure in found])

    by_weight = ["GAN", *(f"lambda {weight:g}" for weight in (0.1, 1.0, 10.0))]
    by_pairs = [f"N = {pairs}" for pairs in (2, 4, 6, 8)]
    kinds = (
        (by_weight, [(1, 0.0), (2, 0.1), (2, 1.0), (2, 10.0)]),
        (by_pairs, [(2, 1.0), (4, 1.0), (6, 1.0), (8, 1.0)]),
    )
    for kind, (heads, places) in enumerate(kinds):
        for number, (measure, paper) in enumerate(PAPER.items(), start=1 + 3 * kind):
            yield f"\nTable {number}: {measure}, {options.name or options.data}.\n"
            yield f"| | {' | '.join(heads)} |\n|---|{'---|' * len(heads)}"
            if options.name in paper[kind]:
                yield f"| paper | {' | '.join(f'{value:g}' for value in paper[kind][options.name])} |"
            yield f"| ours | {' | '.join(ours(measure, *place) for place in places)} |"
            yield f"| guessing | {' | '.join(ours(f'{measure}, chance', *place) for place in places)} |"
    if options.labels != "none":
        yield "\nAccuracy of a classifier trained on the samples (reduced protocol), test split.\n"
        yield f"| | {' | '.join(by_weight)} |\n|---|---|---|---|---|"
        yield f"| ours | {' | '.join(ours('accuracy', *place) for place in kinds[0][1])} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="as `gossamer fit --data`, with a train and a test split")
    parser.add_argument(
        "--name", default="", choices=["", "MNIST", "f-MNIST", "LFW", "CIFAR-10"], help="the paper's row"
    )
    parser.add_argument("--out", type=Path, required=True, help="one JSON file per model")
    parser.add_argument("--records", type=int, default=None, help="use so many records of the training split")
    parser.add_argument("--share", type=float, default=0.1, help="share of them that a model is trained on")
    parser.add_argument("--shape", type=int, nargs=3, default=None, help="channels, height, width")
    parser.add_argument("--lambdas", type=float, nargs="*", default=[0.1, 1.0, 10.0])
    parser.add_argument("--pairs", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--warm-epochs", type=int, default=10)
    parser.add_argument("--delay-epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--network", default="dense", choices=["dense", "conv"])
    parser.add_argument("--labels", default="none", choices=["none", "conditional", "per-class"])
    parser.add_argument("--real-target", type=float, default=0.95)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.shape = None if options.shape is None else tuple(options.shape)
    torch.set_num_threads(options.threads)
    torch.backends.mkldnn.matmul.fp32_precision = (
        "bf16"  # by oneDNN: twice as fast on AMD, and in float32 where AMX is absent
    )
    tune_malloc()
    options.out.mkdir(parents=True, exist_ok=True)
    same = {
        name: value
        for name, value in vars(options).items()
        if name not in ("out", "threads", "device", "name", "repeats")
    }
    same = json.loads(json.dumps({name: value for name, value in same.items() if name not in ("lambdas", "pairs")}))
    results: dict[Model, dict[str, Any]] = {}
    for job in jobs(options):
        path = options.out / f"{job.name}.json"
        if path.is_file():
            kept = json.loads(path.read_text())
            if kept["settings"] != same:
                raise SystemExit(f"{path} was made with other settings; choose another --out.")
        else:
            kept = {"settings": same, "found": measured(job, options)}
            write_atomically(path, json.dumps(kept, indent=2) + "\n")
        results[job] = kept["found"]
        print(f"{job.name}: " + ", ".join(f"{name} {value:.3f}" for name, value in kept["found"].items()), flush=True)
    repeats = f"{options.repeats} repeats" if options.repeats > 1 else "one repeat"
    print(
        f"\n{options.epochs} epochs, {options.share:g} of the records, {repeats}; the paper: 500 epochs, 0.1, 10 repeats."
    )
    for line in tables(results, options):
        print(line)


if __name__ == "__main__":
    main()
