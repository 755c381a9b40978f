"""What does `fit auto` reach on sets that nobody tuned it for, and what do presets reach that are chosen by hand?

Each set is drawn from a public one, and split. A small CNN learns from 12,000 samples of a run (4 epochs), and is tested on
test records: at most 5,000, which no run has seen. `guess` is the share of the largest class. One JSON line for each run.

    python -m benchmarks.auto --data ROOT --sets digits inverted --epsilons 1 10 > benchmarks/results/auto-DATE.jsonl

ROOT has the folders mnist, fashion_mnist, cifar10_subset and lfw, as their sites hand them out, and adult.
"""

import argparse
import datetime
import gzip
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

import gossamer
from gossamer.metrics import classify

Set = tuple[np.ndarray, np.ndarray]
"""Pictures uint8 [n, C, H, W], and labels [n]."""
TESTED, JUDGED, DELTA = 5_000, 12_000, 1e-5
JUDGE = classify.Protocol(epochs=4)
BY_HAND = {
    "pictures": [
        ("moments", "few-records"), ("moments", "mnist-eps1"), ("moments", "mnist-eps10"), ("moments", "fashion-eps1"),
        ("moments", "fashion-eps10"), ("evolve", "few-records"),
    ],
}  # fmt: skip


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
    from sklearn.datasets import load_digits

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
    return tuple(  # type: ignore[return-value]
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


def accuracy(train: Set, test: Set, classes: int, seed: int) -> float:
    """Of a small CNN that learns from `train`."""
    net = classify.train(*train, classes=classes, protocol=JUDGE, seed=seed).net
    return float((classify.predict_alone(net, test[0][:TESTED]) == test[1][:TESTED]).mean())


def run(
    method: str, records: Set, epsilon: float, seed: int, **settings: object
) -> tuple[Set, float, dict[str, object]]:
    """Samples of a run of a method, its seconds, and what its certificate says."""
    images, labels = records
    classes = int(labels.max()) + 1
    card = gossamer.DataCard(shape=images.shape[1:], classes=classes, declared_size=len(images))
    source = gossamer.Source({"images": images, "labels": labels}, public_test_data=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        made = gossamer.fit(
            method, data=source, card=card, out=out, epsilon=epsilon, delta=DELTA, seed=seed, **settings
        )
        took = time.monotonic() - began
        drawn = made.sample(JUDGED, seed=seed)
    chosen = {"method": made.job.method.name, "settings": made.job.settings}
    return (drawn.images, drawn.labels), took, {**chosen, "score": made.certificate.figures.get("score")}
