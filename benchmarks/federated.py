"""Federated GS-WGAN: the debugging task, a deployment of Flower on loopback, and what an honest epsilon takes.

    python benchmarks/federated.py debug --out /tmp/debug       section 5.4 of Chen et al. (2020), on the writers of MNIST
    python benchmarks/federated.py curve                        epsilon against the number of clients, by accounting alone
    python benchmarks/federated.py flower --out /tmp/flower     SuperLink, 8 SuperNodes and sites; kills and a liar
    python benchmarks/federated.py few --out /tmp/few           the same with 5 sites, which hold Adult

Each prints what `docs/federated.md` states. It needs the extra `federated`; `debug` needs ../shared/data too.
"""

import argparse
import dataclasses
import gzip
import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

import fed_avg_gan
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.source import Source
from gossamer.data.sources.pictures.read import read
from gossamer.methods.gs_wgan import GsWgan
from gossamer.methods.job import Job
from gossamer.privacy.accounting import calibrate, cost, events, federated
from gossamer.run.federated.simulate import simulate
from gossamer.run.release.verify import verify
from gossamer.run.training.progress import Process, Terminal

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"


# ---------------------------------------------------------------------- the debugging task


def writers() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """MNIST's training pictures, labels and writers. uint8 [60000, 28, 28], [60000], int16 [60000]."""

    def idx(name: str, skip: int) -> np.ndarray:
        with gzip.open(SHARED / "mnist" / name) as file:
            return np.frombuffer(file.read(), np.uint8, offset=skip)

    images = idx("train-images-idx3-ubyte.gz", 16).reshape(-1, 28, 28)
    whose = np.load(SHARED / "mnist_writers" / "mnist_writer_ids.npz")["train_writer"]
    return images, idx("train-labels-idx1-ubyte.gz", 8), whose


@dataclass(frozen=True)
class Population:
    """Clients of one debugging run, on disk for `simulate`, with the card that all have."""

    name: str
    file: Path
    card: DataCard

    @property
    def records(self) -> Records:
        return read(Source(str(self.file), units=":units"), self.card.reading)


def populations(out: Path) -> dict[str, Population]:
    """Suspected writers, every other of whom has dark and light exchanged; the other writers; and all of them, as they are."""
    images, labels, whose = writers()
    names = np.unique(whose)
    suspected, others = names[::2], names[1::2]
    found = {}
    for name, members in {"suspected": suspected, "others": others, "all": names}.items():
        mine = np.isin(whose, members)
        inverted = mine & np.isin(whose, suspected[::2]) & (name == "suspected")
        shown = np.where(inverted[:, None, None], 255 - images, images)
        np.savez(out / f"{name}.npz", images=shown[mine], labels=labels[mine], units=whose[mine])
        card = DataCard(
            shape=(1, 28, 28), classes=10, declared_size=len(members), unit="writer", title=f"{name} writers"
        )
        found[name] = Population(name, out / f"{name}.npz", card)
    return found


def light(images: np.ndarray) -> float:
    """The share of pictures whose corners are light: uint8 [n, 1, 28, 28]. Of MNIST's, none; exchanged, all."""
    corners = images[:, 0, [0, 0, 1, 1, -1, -1, -2, -2], [0, 1, 0, 1, -1, -2, -1, -2]]
    return float((corners.mean(1) > 127).mean())


def debug(out: Path, settings: dict[str, Any], fed_avg: dict[str, Any], asked: argparse.Namespace) -> None:
    """Both systems on both populations: the figures of each run, and a sheet of the samples of all that `out` has by now."""
    out.mkdir(parents=True, exist_ok=True)
    for name, of in populations(out).items():
        for system in asked.systems:
            if name not in asked.which:
                continue
            began, cpu = time.monotonic(), time.process_time()
            run = gs_wgan if system == "GS-WGAN" else fed_avg_gan_of
            sample, said = run(of, out / name, settings, fed_avg, asked)
            np.save(out / f"{system}, {name}.npy", sample(80, np.tile(np.arange(10), 8)))
            many = sample(1000, None)
            said |= {
                "seconds": round(time.monotonic() - began), "cpu_seconds": round(time.process_time() - cpu),
                "peak_memory_MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                "light": light(many), "light_records": light(of.records.images),
                "mean": float(many.mean()), "mean_records": float(of.records.images.mean()),
            }  # fmt: skip
            print(system, name, json.dumps(said, indent=1), flush=True)
            sheet(out)


Sampler = Callable[[int, np.ndarray | None], np.ndarray]
"""How many, and of which labels (None: by the prior): uint8 [n, 1, 28, 28]."""


def gs_wgan(
    of: Population, out: Path, settings: dict[str, Any], _: dict[str, Any], asked: argparse.Namespace
) -> tuple[Sampler, dict[str, Any]]:
    """GS-WGAN by `simulate`, with a folder and a certificate for each client."""
    with Terminal() as terminal:
        made = simulate(
            data=Source(of.file, units=":units"),
            card=of.card,
            out=out,
            epsilon=asked.epsilon,
            delta=asked.delta,
            public=asked.public or None,
            seed=asked.seed,
            accounts=out.parent / f"book-{of.name}",
            **settings,
            process=Process(sink=terminal),
        )
    said = {
        "clients": of.card.declared_size, "views": made.certificate.facts.get("views"),
        "noise_multiplier": made.certificate.config["noise_multiplier"],
        "disk_MB": sum(each.stat().st_size for each in out.rglob("*") if each.is_file()) // 2**20,
        "server_verifies": verify(out).ok,
    }  # fmt: skip
    if asked.verify_clients:
        said["clients_that_verify"] = sum(verify(one).ok for one in (out / "checkpoint" / "clients").iterdir())
    return lambda n, labels: made.sample(n, labels=labels, seed=1).images, said


def fed_avg_gan_of(
    of: Population, _: Path, settings: dict[str, Any], fed_avg: dict[str, Any], asked: argparse.Namespace
) -> tuple[Sampler, dict[str, Any]]:
    """Fed-Avg GAN, with the networks, the critic steps and the public start of the other."""
    config = GsWgan().config_type(**{"noise_multiplier": 0.0, **settings, **FED_AVG_CRITIC})
    public = read(asked.public, of.card.reading) if asked.public else None
    net, guarantee, noise = fed_avg_gan.simulate(
        of.records, of.card, public, config, fed_avg_gan.Settings(**fed_avg), epsilon=asked.epsilon, delta=asked.delta,
        seed=asked.seed,
    )  # fmt: skip
    job = Job.of(GsWgan(), dataclasses.asdict(config), of.card)

    def sample(n: int, labels: np.ndarray | None) -> np.ndarray:
        given = None if labels is None else torch.from_numpy(labels)
        images, _ = job.sample(net.eval(), n, given, torch.Generator().manual_seed(1))
        return (images * 255).round().to(torch.uint8).numpy()

    said = {"clients": of.card.declared_size, "guarantee": str(guarantee), "noise_multiplier": noise}
    return sample, said


def sheet(out: Path) -> None:
    """samples.png: a row for each system, a panel for each population: ten classes across, eight samples of each."""
    files = sorted(out.glob("*.npy"))
    systems = sorted({file.stem.split(", ")[0] for file in files}, reverse=True)
    names = sorted({file.stem.split(", ")[1] for file in files}, reverse=True)
    figure = Figure(figsize=(4.2 * len(names), 3.7 * len(systems)), dpi=110)
    for file in files:
        system, name = file.stem.split(", ")
        axes = figure.add_subplot(len(systems), len(names), systems.index(system) * len(names) + names.index(name) + 1)
        tiles = np.load(file).reshape(8, 10, 28, 28).transpose(0, 2, 1, 3).reshape(8 * 28, 10 * 28)
        axes.imshow(tiles, cmap="gray", vmin=0, vmax=255)
        axes.set_title(file.stem)
        axes.set_axis_off()
    figure.savefig(out / "samples.png", bbox_inches="tight")


# ---------------------------------------------------------------------- what an honest epsilon takes


def curve() -> None:
    """Epsilon at T = 20,000 answers and the published noise, against the number of clients; delta 1 / (10 clients)."""
    print("| clients | answers of a client, expected / granted | against the release | against the server |")
    print("|---|---|---|---|")
    answers, noise = 20_000, 1.07
    for clients in (269, 539, 3_400, 10_000, 100_000, 1_000_000):
        delta = min(1e-5, 0.1 / clients)
        plan = events.plan_of(draw="secret", critics=clients, batch_size=1, noise_multiplier=noise, steps=answers)
        release = cost.guarantee(plan, delta=delta, relation=events.relation_of("secret"), unit="client").epsilon
        granted = federated.enough(answers=answers, critics=clients, clients=clients)
        server = federated.against_server({
            "config": {"batch_size": 1, "noise_multiplier": noise}, "federated": {"answers": granted},
            "card": {"unit": "client"}, "delta": delta,
        }).epsilon  # fmt: skip
        print(f"| {clients:,} | {answers / clients:.3g} / {granted} | {release:.3f} | {server:.1f} |", flush=True)
    print()
    print("| clients | noise multiplier for epsilon 10 against the release | for 10 against the server |")
    print("|---|---|---|")
    for clients in (269, 539, 3_400, 1_000_000):
        delta = min(1e-5, 0.1 / clients)
        needed = calibrate.calibrate_noise(
            lambda s, k=clients: events.plan_of(draw="secret", critics=k, batch_size=1, noise_multiplier=s, steps=answers),
            epsilon=10.0, delta=delta, relation=events.relation_of("secret"), unit="client",
        )  # fmt: skip
        granted = federated.enough(answers=answers, critics=clients, clients=clients)
        alone = calibrate.calibrate_noise(
            lambda s, n=granted: events.plan_of(draw="round_robin", critics=1, batch_size=1, noise_multiplier=s, steps=n),
            epsilon=10.0, delta=delta, relation=events.relation_of("round_robin"), unit="client",
        )  # fmt: skip
        print(f"| {clients:,} | {needed:.3f} | {alone:.3f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["debug", "curve", "flower", "few"])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--epsilon", type=float, default=10.0)
    parser.add_argument("--delta", type=float, default=1e-3)
    parser.add_argument("--public", default="glyphs", help='public records of the server; "": none')
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--which", nargs="*", default=["suspected", "others"])
    parser.add_argument("--systems", nargs="*", default=["GS-WGAN", "Fed-Avg GAN"])
    parser.add_argument("--verify-clients", action="store_true", help="verify each client's folder too")
    parser.add_argument("--settings", type=json.loads, default={}, help="JSON: fields of the method's Config")
    parser.add_argument("--fed-avg", type=json.loads, default={}, help="JSON: fields of fed_avg_gan.Settings")
    asked = parser.parse_args()
    if asked.what == "debug":
        debug(asked.out, {**DEBUG, **asked.settings}, {**FED_AVG, **asked.fed_avg}, asked)
    if asked.what == "curve":
        curve()
    if asked.what in ("flower", "few"):
        root = Path(__file__).resolve().parents[1]
        sys.path[:0] = [str(root / "tests" / "fixtures"), str(root)]
        import few_deployment  # noqa: PLC0415 (they need the fixtures, and Flower's processes)
        import flower_deployment  # noqa: PLC0415 (likewise)

        run = flower_deployment.flower if asked.what == "flower" else few_deployment.few
        run(asked.out)


DEBUG: dict[str, Any] = {
    "steps": 100, "answers": 64, "batch_size": 1, "visits": 20, "critic_steps": 2, "critic_batch_size": 16,
    "critic_learning_rate": 2e-3, "generator": "dcgan", "generator_learning_rate": 1e-3, "latents": "normal", "width": 8,
    "average_decay": 0.9, "warm_steps": 3, "warm_stack": 1, "public_steps": 600, "public_learning_rate": 5e-4,
}  # fmt: skip
FED_AVG: dict[str, Any] = {"rounds": 40, "clients_per_round": 27, "max_norm": 0.1, "generator_steps": 6}
FED_AVG_CRITIC = {"critic_steps": 6, "critic_batch_size": 32}
"""Of Augenstein et al. (2020), where the other takes `DEBUG`'s."""


if __name__ == "__main__":
    main()
