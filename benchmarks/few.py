"""A federation of few: quality against the number of sites, and the same with all records in one place.

    python -m benchmarks.few adult --sites 5 --epsilon 1 --out /tmp/few      one run, with its sites as folders on this machine
    python -m benchmarks.few mnist --sites 5 --epsilon 1 --out /tmp/few
    python -m benchmarks.few curve adult --out results.json                  3, 5, 10 and 20 sites at epsilon .5, 1 and 3
    python -m benchmarks.few curve adult --shares --out shares.json          the same with the noise of secure aggregation

The parts are unequal, in the proportions 1, 2, 3 ... Adult is divided by age, with some overlap, so that sites have other
populations. The figures of `docs/federated.md` come from here. One site is a central
run: what secure aggregation would give back at best.
"""

import argparse
import csv
import json
import math
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch

from benchmarks.evolve import accuracy
from benchmarks.tables import datasets, scores
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.sources.pictures.read import read
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.certificate import sites as sites_
from gossamer.privacy.random.noise import Rng
from gossamer.run.federated.centre import ask
from gossamer.run.federated.network import Local
from gossamer.run.federated.site import Site
from gossamer.run.release.verify import verify
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.training.plan import plan

DELTA = 1e-5
SITES, EPSILONS = (5, 3, 10, 20), (1.0, 0.5, 3.0)


def unequal(order: np.ndarray, count: int) -> list[np.ndarray]:
    """Positions of the records of each site, in the proportions 1, 2, 3 ..."""
    ends = np.cumsum(np.arange(1, count + 1))
    return np.split(order, (ends[:-1] / ends[-1] * len(order)).astype(int))


def adult_parts(folder: Path, count: int) -> tuple[Any, list[Path]]:
    """The card, and a CSV file for each site. Sites have people of other ages; neighbouring ones overlap."""
    with (datasets.SHARED / "adult" / "adult.data").open(newline="") as lines:
        rows = [row for row in csv.reader(lines, skipinitialspace=True) if len(row) == len(datasets.ADULT)]
    ages = np.array([float(row[datasets.ADULT.index("age")]) for row in rows])
    files = []
    for number, own in enumerate(unequal(np.argsort(ages + np.random.default_rng(1).normal(0, 2, len(ages))), count)):
        files.append(folder / f"part-{number}.csv")
        with files[-1].open("w", newline="") as file:
            csv.writer(file).writerows([datasets.ADULT, *(rows[position] for position in own)])
    return datasets.adult_card(), files


def mnist_parts(folder: Path, count: int) -> tuple[Any, list[Path]]:
    """The card, and a file for each site. Low digits are more frequent at the first sites."""
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=60_000, title="MNIST")
    records = read(str(datasets.SHARED / "mnist") + ":train", card)
    order = np.argsort(records.labels + np.random.default_rng(1).normal(0, 5, len(records)))
    files = []
    for number, own in enumerate(unequal(order, count)):
        files.append(folder / f"part-{number}.npz")
        np.savez(files[-1], images=records.images[own], labels=records.labels[own])
    return card, files


def train(
    kind: str, *, count: int, epsilon: float, out: Path, settings: Mapping[str, Any] | None = None
) -> tuple[Synthesizer, list[Path]]:
    """A whole federation in this process, with real noise. Gives the generator, and the folders of the sites."""
    parts = tempfile.TemporaryDirectory()
    with parts:
        card, files = (adult_parts if kind == "adult" else mnist_parts)(Path(parts.name), count)
        names = [f"site-{number}" for number in range(len(files))]
        sites = {
            name: Site(
                folder=RunFolder(out / name), sources=DataSources.of(str(file)), card=card, epsilon=epsilon, delta=DELTA,
                accounts=out / "accounts",
            )
            for name, file in zip(names, files, strict=True)
        }  # fmt: skip
        method, preset = ("marginals", None) if kind == "adult" else ("moments", "mnist-eps1")
        synthesizer = ask(
            plan(method, card, settings, epsilon=epsilon, delta=DELTA, preset=preset), sites=names, out=out / "centre",
            network=Local({name: site.answer for name, site in sites.items()}),
        )  # fmt: skip
    return synthesizer, [out / name for name in names]


def quality(kind: str, synthesizer: Synthesizer) -> dict[str, float]:
    """What the samples are worth, on test records: the figures of `benchmarks.tables`, or the accuracy of a classifier."""
    job, net, stream = synthesizer.job, synthesizer.net, torch.Generator().manual_seed(0)
    if kind == "adult":
        data = datasets.load("adult")
        found = scores.figures(job.sample(net, len(data.seen), None, stream)[0].numpy(), data)
        return {name: round(value, 4) for name, value in found.items()}
    test = read(str(datasets.SHARED / "mnist") + ":test", synthesizer.card)
    drawn = synthesizer.sample(60_000, seed=0)
    return {"accuracy": round(accuracy(Records(drawn.images, drawn.labels), test), 4)}


@contextmanager
def shares(count: int) -> Iterator[None]:
    """The noise that secure aggregation would leave, without its protocol: each site adds noise / sqrt(count)."""
    whole = Rng.add_gaussian_

    def share(self: Rng, out: torch.Tensor, std: float) -> torch.Tensor:
        return whole(self, out, std / math.sqrt(count))

    with mock.patch.object(Rng, "add_gaussian_", share), mock.patch.object(sites_, "of_sum", lambda noise, _: noise):
        yield


def curve(kind: str, out: Path, *, shared: bool) -> None:
    """Add what is not yet in the results, one line of JSON each."""
    done = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    known = {(each["sites"], each["epsilon"]) for each in done}
    for epsilon in EPSILONS:
        for count in (*SITES, 1):
            if (count, epsilon) in known:
                continue
            with tempfile.TemporaryDirectory() as folder, shares(count) if shared else nullcontext():
                found = quality(kind, train(kind, count=count, epsilon=epsilon, out=Path(folder))[0])
            with out.open("a") as file:
                file.write(json.dumps({"sites": count, "epsilon": epsilon, **found}) + "\n")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("adult", "mnist", "curve"))
    parser.add_argument("kind", nargs="?", choices=("adult", "mnist"), default="adult")
    parser.add_argument("--sites", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument(
        "--shares", action="store_true", help="each site adds a share of the noise, as behind secure aggregation"
    )
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    if given.what == "curve":
        curve(given.kind, given.out, shared=given.shares)
        return
    synthesizer, sites = train(given.what, count=given.sites, epsilon=given.epsilon, out=given.out)
    verdicts = [verify(folder) for folder in (given.out / "centre", *sites)]
    print(json.dumps({**quality(given.what, synthesizer), "verify": [verdict.ok for verdict in verdicts]}))
    print("\n".join(problem for verdict in verdicts for problem in verdict.problems))


if __name__ == "__main__":
    main()
