"""What does `fit auto` reach on sets that nobody tuned it for, and what do presets reach that are chosen by hand?

Each set is drawn from a public one, and split. A multilayer perceptron learns from 4,000 samples of a run (15 epochs), and is
tested on test records: at most 2,000, which no run has seen. `guess` is the share of the largest class. One JSON line a run.

    python -m benchmarks.auto --data ROOT --sets digits inverted > benchmarks/results/auto-DATE.jsonl
    python -m benchmarks.auto --data ROOT --facts --sizes 1000
    python -m benchmarks.auto --data ROOT --sets digits --asked "moments few-records" "evolve votes" --epsilons 1

ROOT has the folders mnist, fashion_mnist, cifar10_subset and lfw, as their sites hand them out, and adult.
"""

import argparse
import datetime
import gzip
import itertools
import json
import shlex
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageFilter
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier

import gossamer
from benchmarks.reproduce.machine import machine, software
from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.kinds.pictures import PICTURES
from gossamer.methods import METHODS
from gossamer.methods.contract import presets_of
from gossamer.run.training import presets

Set = tuple[np.ndarray, np.ndarray]
"""Pictures uint8 [n, C, H, W], and labels [n]."""
TESTED, JUDGED, DELTA = 2_000, 4_000, 1e-5
BY_HAND = "moments few-records"


def idx(folder: Path, part: str) -> Set:
    """A part of MNIST or of Fashion-MNIST."""
    images, labels = (
        np.frombuffer(gzip.decompress((folder / f"{part}-{what}.gz").read_bytes()), np.uint8)[skipped:]
        for what, skipped in (("images-idx3-ubyte", 16), ("labels-idx1-ubyte", 8))
    )
    return images.reshape(-1, 1, 28, 28), labels.astype(np.int64)


def changed(change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], tuple[Set, Set]]:
    """MNIST with each picture [28, 28] changed."""

    def made(root: Path) -> tuple[Set, Set]:
        train, test = (idx(root / "mnist", part) for part in ("train", "t10k"))
        both = []
        for images, labels in (train, test):
            both.append((np.stack([change(image[0]) for image in images])[:, None].astype(np.uint8), labels))
        return both[0], both[1]

    return made


def small(image: np.ndarray) -> np.ndarray:
    """At 12 of 28 pixels, somewhere: its place follows from the picture."""
    shrunk = np.asarray(Image.fromarray(image).resize((12, 12), Image.Resampling.BOX))
    draw = np.random.default_rng(int(image.sum()))
    whole = np.zeros_like(image)
    top, left = draw.integers(0, 17, 2)
    whole[top : top + 12, left : left + 12] = shrunk
    return whole


def thick(image: np.ndarray) -> np.ndarray:
    """With thick strokes."""
    return np.asarray(Image.fromarray(image).filter(ImageFilter.MaxFilter(5)))


def parted(images: np.ndarray, labels: np.ndarray, seed: int = 0, share: float = 0.2) -> tuple[Set, Set]:
    """Records in random order, a share of them for tests."""
    order = np.random.default_rng(seed).permutation(len(images))
    cut = round(len(images) * (1 - share))
    return (images[order[:cut]], labels[order[:cut]]), (images[order[cut:]], labels[order[cut:]])


def scikit(_root: Path) -> tuple[Set, Set]:
    """Digits of scikit-learn, 8x8, set into 16x16 pixels that are twice as fine."""
    found = load_digits()
    images = np.clip(found.images * 16, 0, 255).astype(np.uint8)
    return parted(images[:, None].repeat(2, 2).repeat(2, 3), found.target.astype(np.int64))


def fashion(root: Path) -> tuple[Set, Set]:
    """Fashion-MNIST."""
    return idx(root / "fashion_mnist", "train"), idx(root / "fashion_mnist", "t10k")


def faces(root: Path) -> tuple[Set, Set]:
    """LFW, by gender."""
    found = np.load(root / "lfw" / "lfwcrop_gray32.npz")
    known = found["gender"] >= 0
    images = found["images"][known].reshape(-1, 1, 32, 32)
    return parted(images, found["gender"][known].astype(np.int64))


def objects(root: Path) -> tuple[Set, Set]:
    """The part of CIFAR-10."""
    found = np.load(root / "cifar10_subset" / "cifar10_5000_1000.npz")
    return tuple(  # type: ignore[return-value]  # two of them
        (found[f"{part}_images"].transpose(0, 3, 1, 2), found[f"{part}_labels"].astype(np.int64))
        for part in ("train", "test")
    )


SETS: dict[str, Callable[[Path], tuple[Set, Set]]] = {
    "digits": changed(lambda image: image),
    "inverted": changed(lambda image: 255 - image),
    "turned": changed(np.rot90),
    "small": changed(small),
    "thick": changed(thick),
    "scikit": scikit,
    "fashion": fashion,
    "faces": faces,
    "objects": objects,
}


def accuracy(train: Set, test: Set, seed: int) -> float:
    """Of a multilayer perceptron that learns from `train`."""
    pixels = [images.reshape(len(images), -1) / 255 for images, _ in (train, test)]
    judge = MLPClassifier((256,), batch_size=64, max_iter=15, random_state=seed)
    return float(judge.fit(pixels[0], train[1]).score(pixels[1], test[1]))


def by_hand(method: str, preset: str, card: gossamer.DataCard) -> dict[str, Any]:
    """The settings of a preset, changed to a card, as `recommend` does it."""
    return presets.tailored(method, presets_of(METHODS[method])[preset], card)


def one(name: str, train: Set, test: Set, asked: str, epsilon: float, seed: int, score: float) -> dict[str, Any]:
    """A run, as a line of JSON. asked: "auto", or a method and a preset."""
    (images, labels), (method, _, preset) = train, asked.partition(" ")
    card = gossamer.DataCard(shape=images.shape[1:], classes=int(labels.max()) + 1, declared_size=len(images))
    source = gossamer.Source({"images": images, "labels": labels}, public_test_data=True)
    settings = by_hand(method, preset, card) if preset else {}
    began, busy = time.monotonic(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        made = gossamer.fit(
            method,
            data=source,
            card=card,
            out=Path(folder) / "run",
            epsilon=epsilon,
            delta=DELTA,
            seed=seed,
            score=score,
            **settings,
        )
        took, worked = time.monotonic() - began, time.process_time() - busy
        drawn = made.sample(JUDGED, seed=seed)
    figures = made.certificate.figures
    told = figures.get("score")
    return {
        "set": name, "records": len(images), "epsilon": epsilon, "seed": seed, "asked": asked,
        "shows": figures.get("look", {}).get("shows"), "method": made.job.method.name,
        "accuracy": round(accuracy((drawn.images, drawn.labels), test, seed), 4),
        "score": [round(told[end], 4) for end in ("low", "accuracy", "high")] if told else None,
        "guess": round(float(np.bincount(test[1]).max() / len(test[1])), 4),
        "seconds": round(took, 1), "cpu": round(worked, 1),
    }  # fmt: skip


def facts(name: str, records: Set) -> dict[str, Any]:
    """What a look without noise says of records, as a line of JSON."""
    images, labels = records
    card = gossamer.DataCard(shape=images.shape[1:], classes=int(labels.max()) + 1, declared_size=len(images))
    shares = PICTURES.facts(card)(Records(images, labels)).mean(0).tolist()
    told = {fact: round(share, 3) for fact, share in zip(PICTURES.looks_for, shares, strict=True)}
    return {"set": name, "records": len(images), **told, "shown": PICTURES.shown(shares)}


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=[*SETS])
    parser.add_argument("--asked", nargs="+", default=["auto"], help=f"auto, or a preset such as {BY_HAND}")
    parser.add_argument("--sizes", type=int, nargs="+", default=[5_000], help="records, at most; 0: all")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[10.0, 1.0])
    parser.add_argument("--facts", action="store_true", help="no run: what a look without noise says of each set")
    parser.add_argument("--score", type=float, default=0.0, help="share of the budget")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    given = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    about = {
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["python", "-m", "benchmarks.auto", *sys.argv[1:]]),
    }
    print(json.dumps({**about, "machine": machine("cpu"), "software": software()}), flush=True)
    for name in given.sets:
        train, test = SETS[name](given.data)
        if given.facts:
            some = np.random.default_rng(0).permutation(len(train[0]))[: given.sizes[0] or None]
            print(json.dumps(facts(name, (train[0][some], train[1][some]))), flush=True)
            continue
        for size, epsilon, seed, asked in itertools.product(given.sizes, given.epsilons, given.seeds, given.asked):
            some = np.random.default_rng(seed).permutation(len(train[0]))[: size or None]
            part, tests = (train[0][some], train[1][some]), (test[0][:TESTED], test[1][:TESTED])
            try:
                line = one(name, part, tests, asked, epsilon, seed, given.score)
            except RequestError as error:  # such as axes that are more than pixels
                line = {"set": name, "epsilon": epsilon, "asked": asked, "refused": str(error)}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
