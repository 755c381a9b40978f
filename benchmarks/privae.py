"""The experiments of Takahashi et al. 2020 on PriVAE: figure 1 (sparse codes of Fashion-MNIST) and figure 2 (the pinwheel).

Every finished run is kept as a JSON file in --out, and a second call goes on with those that are missing. All figures but the
released weights are computed on real records and their codes: they are for research, and no guarantee covers them.

    python benchmarks/privae.py sparsity --data ../shared/data/fashion_mnist --out runs/privae-sparsity
    python benchmarks/privae.py pinwheel --out runs/privae-pinwheel
"""

import argparse
import dataclasses
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import matplotlib as mpl
import numpy as np
import torch

mpl.use("Agg")
from matplotlib import pyplot as plt

from benchmarks.reproduce.metrics import latent
from benchmarks.reproduce.metrics.latent_codes import codes
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.source import Reading
from gossamer.data.sources.pictures.read import read
from gossamer.files import write_atomically
from gossamer.methods.job import Job
from gossamer.methods.privae import Config, Privae
from gossamer.methods.privae.nets import CENTRES, Autoencoder
from gossamer.privacy.accounting import calibrate
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.training import presets
from gossamer.run.training.memory import tune_malloc
from reproduce.pinwheel import ARMS, EXTENT, as_points, pinwheel

PRIVAE = Privae()
# What each curve of figure 1 is: settings over those common to all.
CURVES: dict[str, dict[str, Any]] = {
    "PriVAE + MMD": {"divergence": "mmd", "max_norm_batch": 0.005},
    "PriVAE": {},
    "DP-SGD, micro aggregation": {"divergence": "mmd", "aggregation": "micro", "max_norm": 0.0002},
    "DP-SGD, batch aggregation": {"divergence": "mmd", "aggregation": "batch", "max_norm": 0.0002},
}
# Without clipping any bound above zero switches the MMD term on, over the whole batch.
WITHOUT_PRIVACY: dict[str, dict[str, Any]] = {
    "VAE + MMD": {"divergence": "mmd", "max_norm_batch": 1.0, "partitions": 1},
    "VAE": {},
}
MEASURES = {
    "sparsity": "sparsity of the codes",
    "likelihood": "log p(x), nats",
    "discrepancy": "MMD between q(z) and p(z)",
}
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # Okabe and Ito


@dataclasses.dataclass(frozen=True)
class Run:
    """One model of figure 1. epsilon infinity: without privacy."""

    curve: str
    epsilon: float
    seed: int

    @property
    def name(self) -> str:
        """Of its file."""
        return (
            f"{self.curve.lower().replace(',', '').replace(' + ', '-').replace(' ', '-')}-{self.epsilon:g}-{self.seed}"
        )


def runs(options: argparse.Namespace) -> Iterator[Run]:
    """One seed of everything before the next."""
    for seed in range(options.seeds):
        yield from (Run(curve, math.inf, seed) for curve in WITHOUT_PRIVACY)
        for epsilon in options.epsilons:
            yield from (Run(curve, epsilon, seed) for curve in CURVES)


def settings(run: Run, options: argparse.Namespace) -> dict[str, Any]:
    """What section 5.1 says, with the network, the optimiser and its rate from the command line."""
    common: dict[str, Any] = {
        "steps": options.steps, "expected_batch_size": 256, "max_norm": 0.05, "max_norm_batch": 0.0, "partitions": 16,
        "alpha": 100.0, "prior": "sparse", "likelihood": "laplace", "conditional": False, "latent_size": options.latent_size,
        "network": options.network, "width": options.width, "optimiser": options.optimiser,
        "learning_rate": options.learning_rate, "average_decay": 0.0, "release_encoder": True,
    }  # fmt: skip
    if math.isinf(run.epsilon):
        return {
            **common,
            **WITHOUT_PRIVACY[run.curve],
            "noise_multiplier": 0.0,
            "learning_rate": 5e-4,
            "optimiser": "adam",
        }
    return {**common, **CURVES[run.curve]}


def trained(
    records: Records, card: DataCard, given: dict[str, Any], epsilon: float, seed: int, delta: float
) -> tuple[Autoencoder, Config]:
    """A network at the end of its training, with the noise that epsilon asks for."""
    if math.isfinite(epsilon):
        noise = calibrate.calibrate_noise(
            lambda m: Job.of(PRIVAE, {"noise_multiplier": m, **given}, card).plan, epsilon=epsilon, delta=delta
        )
        given = {"noise_multiplier": noise, **given}
    job = Job.of(PRIVAE, given, card)
    ledger = PrivacyLedger(budget=epsilon, delta=delta)
    ledger.reserve(job.plan)
    training = job.begin(Rng(seed))
    for _ in training.drive(Confined(records, ledger, training.run.rng)):
        pass
    return training.state.released, job.config


def sparsity(options: argparse.Namespace) -> None:
    """Figure 1, and its numbers as a table."""
    size = 32 if options.network == "conv" else 28
    data = read(options.data, Reading(shape=(1, size, size)), split="train")
    test = read(options.data, Reading(shape=(1, size, size)), split="test")[: options.test_records]
    card = DataCard(shape=data.shape, classes=10, declared_size=len(data))
    results: dict[Run, dict[str, float]] = {}
    for run in runs(options):
        path = options.out / f"{run.name}.json"
        if not path.exists():
            started = time.process_time()
            vae, config = trained(data, card, settings(run, options), run.epsilon, run.seed, options.delta)
            figures = codes(vae, test, seed=0)
            found = {measure: figures[name].value for measure, name in zip(MEASURES, figures, strict=False)}
            found["noise_multiplier"] = config.noise_multiplier
            found["seconds"] = time.process_time() - started
            write_atomically(path, json.dumps(found, indent=1).encode())
            print(run.name, json.dumps(found), flush=True)
        results[run] = json.loads(path.read_text())
    print("\n".join(table(results, options)))
    figure_1(results, options.out / "figure-1.png", options)


def of(results: dict[Run, dict[str, float]], curve: str, epsilon: float, measure: str) -> tuple[float, float]:
    """Mean and standard deviation over seeds."""
    values = [found[measure] for run, found in results.items() if (run.curve, run.epsilon) == (curve, epsilon)]
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else math.nan


def table(results: dict[Run, dict[str, float]], options: argparse.Namespace) -> Iterator[str]:
    """Markdown: mean and standard deviation over the seeds."""
    heads = [f"epsilon {epsilon:g}" for epsilon in options.epsilons]
    for measure, words in MEASURES.items():
        digits = 0 if measure == "likelihood" else 3
        yield f"\n| {words} | {' | '.join(heads)} | without privacy |\n|---|{'---|' * (len(heads) + 1)}"
        for curve in CURVES:
            private = [of(results, curve, epsilon, measure) for epsilon in options.epsilons]
            without = curve.replace("PriVAE", "VAE")
            free = of(results, without, math.inf, measure) if without in WITHOUT_PRIVACY else None
            cells = [f"{mean:.{digits}f} (sd {deviation:.{digits}f})" for mean, deviation in private]
            cells.append(f"{free[0]:.{digits}f} (sd {free[1]:.{digits}f})" if free else "")
            yield f"| {curve} | {' | '.join(cells)} |"


def figure_1(results: dict[Run, dict[str, float]], path: Path, options: argparse.Namespace) -> None:
    """Three plots against epsilon: mean over the seeds, a band of one standard deviation; dashed, the runs without privacy."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    epsilons = np.array(options.epsilons)
    for axis, (measure, words) in zip(axes, MEASURES.items(), strict=True):
        for curve, colour in zip(CURVES, _COLOURS, strict=True):
            mean, deviation = np.array([of(results, curve, e, measure) for e in options.epsilons]).T
            axis.plot(epsilons, mean, color=colour, marker="o", markersize=4, label=curve)
            axis.fill_between(epsilons, mean - deviation, mean + deviation, color=colour, alpha=0.2, linewidth=0)
        for curve, colour in zip(WITHOUT_PRIVACY, _COLOURS, strict=False):
            axis.axhline(
                of(results, curve, math.inf, measure)[0],
                color=colour,
                linestyle="--",
                linewidth=1,
                label=f"{curve}, no privacy",
            )
        axis.set(xscale="log", xlabel="epsilon", title=words)
        axis.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        axis.minorticks_off()
        axis.spines[["top", "right"]].set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


@torch.no_grad()
def plane(vae: Autoencoder, test: Records) -> tuple[np.ndarray, np.ndarray]:
    """Codes (posterior means) and reconstructions of the test points. [n, 2] each"""
    images, labels = test.tensors("cpu")
    means, _ = vae.encode(images, labels)
    return means.numpy(), vae.decode(means, labels)[:, 0].reshape(-1, 2).numpy()


def pinwheels(options: argparse.Namespace) -> None:
    """Figure 2: without and with KL(p || q), at the paper's epsilon and without privacy."""
    data, test = pinwheel("train"), pinwheel("test")
    card = DataCard(shape=(1, 1, 2), classes=ARMS, declared_size=len(data))
    figure, axes = plt.subplots(
        len(options.epsilons), 4, figsize=(13, 3.4 * len(options.epsilons)), layout="constrained", squeeze=False
    )
    original = as_points(test.images)
    print("| epsilon | preset | seed | distance | adjusted Rand | silhouette |\n|---|---|---|---|---|---|")
    for row, epsilon in zip(axes, options.epsilons, strict=True):
        privacy = "without privacy" if math.isinf(epsilon) else f"epsilon {epsilon:g}"
        for pair, preset in zip((row[:2], row[2:]), ("paper-pinwheel", "paper-pinwheel-kl"), strict=True):
            for seed in range(options.seeds):
                given = {**presets.settings("privae", preset), "steps": options.steps}
                if math.isinf(epsilon):
                    given["noise_multiplier"] = 0.0
                vae, _ = trained(data, card, given, epsilon, seed, options.delta)
                found, points = plane(vae, test)
                error = float(np.linalg.norm(points - original, axis=1).mean())
                agreement = latent.cluster_agreement(found, test.labels, np.array(CENTRES)).value
                silhouette = latent.cluster_separation(found, test.labels).value
                print(
                    f"| {epsilon:g} | {preset} | {seed} | {error:.3f} | {agreement:.3f} | {silhouette:.3f} |",
                    flush=True,
                )
                if seed == 0:
                    draw_pair(
                        pair,
                        original,
                        points,
                        found,
                        f"{'KL(p || q)' if 'kl' in preset else 'beta 1'}, {privacy}",
                    )
    figure.savefig(options.out / "figure-2.png", dpi=110)


def draw_pair(axes: Any, original: np.ndarray, points: np.ndarray, means: np.ndarray, words: str) -> None:
    """Reconstructions over originals, and codes over the centres of the prior."""
    first, second = axes
    first.scatter(*original.T, s=6, color="#d55e00", linewidths=0, label="original")
    first.scatter(*points.T, s=6, color="#e6b000", linewidths=0, label="reconstruction")
    first.set(title=f"{words}\npoints", xlim=(-EXTENT, EXTENT), ylim=(-EXTENT, EXTENT), aspect="equal")
    first.legend(fontsize=7, loc="upper right")
    second.scatter(*means.T, s=6, color="#0072b2", linewidths=0)
    second.scatter(*np.array(CENTRES).T, marker="+", color="black")
    second.set(
        title=f"{words}\ncodes (+: centres of the prior)",
        xlim=(-EXTENT, EXTENT),
        ylim=(-EXTENT, EXTENT),
        aspect="equal",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("sparsity", help="figure 1")
    one.add_argument("--data", required=True, help="as `gossamer fit --data`, with a train and a test split")
    one.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 2.0, 4.0, 8.0])
    one.add_argument("--steps", type=int, default=2_344, help="10 epochs of 60,000 records")
    one.add_argument("--network", choices=["dense", "conv"], default="conv")
    one.add_argument("--width", type=int, default=32)
    one.add_argument("--latent-size", type=int, default=50)
    one.add_argument("--optimiser", choices=["adam", "sgd"], default="adam")
    one.add_argument("--learning-rate", type=float, default=1e-3)
    one.add_argument("--test-records", type=int, default=4_000)
    one.set_defaults(experiment=sparsity, delta=1e-5)
    two = commands.add_parser("pinwheel", help="figure 2")
    two.add_argument("--epsilons", type=float, nargs="+", default=[2.87, math.inf])
    two.add_argument("--steps", type=int, default=200, help="10 epochs of 400 points")
    two.set_defaults(experiment=pinwheels, delta=1e-3)
    for command in (one, two):
        command.add_argument("--out", type=Path, required=True, help="one file per model, and the figure")
        command.add_argument("--seeds", type=int, default=3)
        command.add_argument("--delta", type=float)
        command.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(options.threads)
    tune_malloc()
    options.experiment(options)


if __name__ == "__main__":
    main()
