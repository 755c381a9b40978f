"""What does `fit auto` reach on sets that nobody tuned it for, and what do presets reach that are chosen by hand?

Each set is drawn from a public one, and split. The CNN of a score learns from 4,000 samples of a run, at half of their height
and width, which is quick, but for small shapes and letters. It is tested on test records: at most 2,000, which no run has
seen. With `--held-out`, the last 10,000 training records take the place of both. `guess` is the share of the largest class.
`drawings` are those of a program, which cost nothing; `real` are records. Of a table the figure is the AUC of gradient
boosting. One JSON line a run.

    python -m benchmarks.auto --data ROOT --sets digits inverted > benchmarks/results/auto-DATE.jsonl
    python -m benchmarks.auto --data ROOT --facts --sizes 1000
    python -m benchmarks.auto --data ROOT --coverage 200 --epsilons 1 10
    python -m benchmarks.auto --data ROOT --sets digits --asked "moments few-records" "evolve votes" drawings --epsilons 1
    python -m benchmarks.auto --data ROOT --held-out --sets turned --asked "moments few-records" --epsilons 1 .77 .32

ROOT has the folders mnist, fashion_mnist, cifar10_subset and lfw, as their sites hand them out. Adult and votes are those of
`benchmarks.tables`.
"""

import argparse
import dataclasses
import datetime
import gzip
import itertools
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import gossamer
from benchmarks.reproduce.machine import machine, software
from benchmarks.tables import datasets, scores
from benchmarks.tables import own as own_tables
from gossamer.data.records import Records
from gossamer.data.synthetic.glyphs import Glyphs
from gossamer.data.tables.table import Table
from gossamer.errors import RequestError
from gossamer.kinds.pictures import JUDGE
from gossamer.kinds.score import Facts, right_and_wrong
from gossamer.methods import METHODS
from gossamer.methods.common import picture_facts
from gossamer.methods.contract import presets_of
from gossamer.metrics import classify
from gossamer.privacy.certificate.figures import noisy_share, score_weights
from gossamer.privacy.queries import Bounds
from gossamer.run.training import presets
from gossamer.run.training.plan import plan

Set = tuple[np.ndarray, np.ndarray]
"""Pictures uint8 [n, C, H, W], and labels [n]."""
TESTED, JUDGED, HELD_OUT, DELTA = 2_000, 4_000, 10_000, 1e-5
BY_HAND, DRAWINGS, REAL = "moments few-records", "drawings", "real"
TABLES = ("adult", "votes")
FONTS = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic"),
    *("DejaVuSansMono", "STIXGeneral", "STIXGeneralBol", "STIXGeneralItalic", "cmr10", "cmss10", "cmtt10", "cmti10"),
)
"""Fonts that Matplotlib brings. No setting was chosen with them."""
LETTERS = 12_000


def idx(folder: Path, part: str) -> Set:
    """A part of MNIST or of Fashion-MNIST."""
    images, labels = (
        np.frombuffer(gzip.decompress((folder / f"{part}-{what}.gz").read_bytes()), np.uint8)[skipped:]
        for what, skipped in (("images-idx3-ubyte", 16), ("labels-idx1-ubyte", 8))
    )
    return images.reshape(-1, 1, 28, 28), labels.astype(np.int64)


def mnist(root: Path) -> tuple[Set, Set]:
    """MNIST."""
    return idx(root / "mnist", "train"), idx(root / "mnist", "t10k")


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


def on_paper(image: np.ndarray) -> np.ndarray:
    """At 13 to 18 of 28 pixels, near the middle, in ink of some darkness on paper that is not of one shade."""
    draw = np.random.default_rng(int(image.sum()))
    side, page = int(draw.integers(13, 19)), 250 + draw.normal(0, 3, image.shape)
    ink = np.asarray(Image.fromarray(image[4:24, 4:24]).resize((side, side), Image.Resampling.LANCZOS), float)
    top, left = (28 - side) // 2 + draw.integers(-3, 4, 2)
    page[top : top + side, left : left + side] -= ink * draw.uniform(0.7, 0.95)
    return page.clip(0, 255).astype(np.uint8)


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


def letters(_root: Path) -> tuple[Set, Set]:
    """Letters A to Z: ink on white, of several sizes, places and slopes."""
    draw, images = np.random.default_rng(0), np.zeros((LETTERS, 1, 28, 28), np.uint8)
    labels = np.arange(LETTERS) % 26
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    for image, label in zip(images, labels, strict=True):
        sheet = Image.new("L", (56, 56), 255)
        font = ImageFont.truetype(str(fonts / f"{draw.choice(FONTS)}.ttf"), int(draw.integers(22, 41)))
        at = (28 + int(draw.integers(-7, 8)), 28 + int(draw.integers(-7, 8)))
        ImageDraw.Draw(sheet).text(at, chr(65 + label), 0, font, anchor="mm")
        sheet = sheet.rotate(draw.uniform(-12, 12), Image.Resampling.BILINEAR, fillcolor=255)
        image[0] = np.asarray(sheet.resize((28, 28), Image.Resampling.BOX))
    return parted(images, labels)


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


CHANGES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "digits": lambda image: image,
    "inverted": lambda image: 255 - image,
    "turned": np.rot90,
    "small": small,
    "paper": on_paper,
    "thick": thick,
    "mixed": lambda image: 255 - image if image.sum() % 2 else image,
}
"""Sets that are MNIST with each picture [28, 28] changed."""
SETS: dict[str, Callable[[Path], tuple[Set, Set]]] = {
    **dict.fromkeys(CHANGES, mnist),
    "scikit": scikit,
    "letters": letters,
    "fashion": fashion,
    "faces": faces,
    "objects": objects,
}


def some(name: str, records: Set, which: np.ndarray | slice) -> Set:
    """Some records of a set, as it changes them."""
    images, labels = (array[which] for array in records)
    if name in CHANGES:
        images = np.stack([CHANGES[name](image[0]) for image in images])[:, None]
    return images, labels


def accuracy(name: str, train: Set, test: Set, seed: int) -> float:
    """Of the CNN that learns from `train`."""
    sized = np.asarray if name in ("small", "paper", "letters") else halved
    (images, labels), (tests, truth) = ((sized(images), labels) for images, labels in (train, test))
    classes = 1 + int(max(labels.max(), truth.max()))
    trained = classify.train(images, labels, classes=classes, protocol=JUDGE, seed=seed)
    return float((classify.predict(trained.net, tests) == truth).mean())


def halved(images: np.ndarray) -> np.ndarray:
    """Means of 2x2 pixels."""
    n, channels, height, width = images.shape
    blocks = images.reshape(n, channels, height // 2, 2, width // 2, 2).mean((3, 5))
    return np.asarray(blocks.round().astype(np.uint8))


def drawings(card: gossamer.DataCard, seed: int) -> Set:
    """Samples of the drawing program alone."""
    program, draw = Glyphs("digits" if card.classes == 10 else "letters"), torch.Generator().manual_seed(seed)
    labels = torch.arange(JUDGED) % card.classes
    parameters = program.random(torch.randn(JUDGED, program.normals, generator=draw), labels)
    return program.draw(parameters, labels, card.shape[1]).numpy().repeat(card.shape[0], 1), labels.numpy()


def of_table(name: str, asked: str, size: int, epsilon: float, seed: int, score: float) -> dict[str, Any]:
    """A run on rows, as a line of JSON."""
    data = datasets.load(name)
    which = np.random.default_rng(seed).permutation(len(data.seen))[: size or None]
    facts = dataclasses.replace(data.facts, declared_size=len(which))
    data = dataclasses.replace(data, seen=data.seen[which], facts=facts)
    busy = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        made = gossamer.fit(
            asked,
            data=gossamer.Source(Table(data.seen), public_test_data=True),
            card=data.facts,
            out=Path(folder) / "run",
            epsilon=epsilon,
            delta=DELTA,
            seed=seed,
            score=score,
        )
        worked = time.process_time() - busy
        found = scores.figures(made.sample(len(which), seed=seed).codes, data)
    return {
        "set": name, "records": len(which), "epsilon": epsilon, "seed": seed, "asked": asked,
        "score": told(made.certificate.figures.get("score")),
        "errors": {name: told(made.certificate.figures["score"][name]) for name in ("counts", "quantiles")},
        **{name: round(value, 4) for name, value in found.items()}, "cpu": round(worked, 1),
    }  # fmt: skip


def told(score: dict[str, float] | None) -> list[float] | None:
    """A figure of a score, between the ends of its interval."""
    ends = "low", "accuracy" if score and "accuracy" in score else "error", "high"
    return [round(score[end], 4) for end in ends] if score else None


def by_hand(method: str, preset: str, card: gossamer.DataCard) -> dict[str, Any]:
    """The settings of a preset, changed to a card, as `recommend` does it."""
    return presets.tailored(method, presets_of(METHODS[method])[preset], card)


def one(name: str, train: Set, test: Set, asked: str, epsilon: float, seed: int, score: float) -> dict[str, Any]:
    """A run, as a line of JSON. asked: "auto", or a method and a preset."""
    (images, labels), (method, _, preset) = train, asked.partition(" ")
    card = gossamer.DataCard(shape=images.shape[1:], classes=int(labels.max()) + 1, declared_size=len(images))
    if asked in (DRAWINGS, REAL):
        free = drawings(card, seed) if asked == DRAWINGS else (images[:JUDGED], labels[:JUDGED])
        return {
            "set": name, "records": 0, "epsilon": None, "seed": seed, "asked": asked,
            "accuracy": round(accuracy(name, free, test, seed), 4),
        }  # fmt: skip
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
    return {
        "set": name, "records": len(images), "epsilon": epsilon, "seed": seed, "asked": asked,
        "shows": figures.get("look", {}).get("shows"), "method": made.job.method.name,
        "accuracy": round(accuracy(name, (drawn.images, drawn.labels), test, seed), 4),
        "score": told(figures.get("score")),
        "guess": round(float(np.bincount(test[1]).max() / len(test[1])), 4),
        "seconds": round(took, 1), "cpu": round(worked, 1),
    }  # fmt: skip


def facts(name: str, records: Set) -> dict[str, Any]:
    """What a look without noise says of records, as a line of JSON."""
    images, labels = records
    card = gossamer.DataCard(shape=images.shape[1:], classes=int(labels.max()) + 1, declared_size=len(images))
    shares = picture_facts.facts(card)(Records(images, labels)).mean(0).tolist()
    rounded = {fact: round(share, 3) for fact, share in zip(picture_facts.FACTS, shares, strict=True)}
    return {"set": name, "records": len(images), **rounded, "shown": picture_facts.shown(shares)}


def blobs(n: int, draw: np.random.Generator) -> Set:
    """Records of a known distribution: a bright spot about one of four places, which overlap, on 8x8 pixels with noise."""
    labels = draw.integers(4, size=n)
    middle = np.stack([labels // 2, labels % 2], 1) * 2.0 + 2.5 + draw.normal(0, 0.9, (n, 2))
    apart = np.indices((8, 8))[None] - middle[:, :, None, None]
    images = 200 * np.exp(-np.square(apart).sum(1) / 3) + draw.normal(0, 25, (n, 8, 8))
    return images.clip(0, 255).astype(np.uint8)[:, None], labels


def coverage(runs: int, epsilon: float, records: int = 2_000, share: float = 0.03) -> dict[str, Any]:
    """How often the interval of a score holds the accuracy on 100,000 fresh records, as a line of JSON.

    The judge is a linear discriminant that learns from samples of `moments`. Query, noise and interval are those of a run.
    """
    fresh, draw = blobs(100_000, np.random.default_rng(99)), np.random.default_rng(0)
    held, widths, gaps = 0, [], []
    card = gossamer.DataCard(shape=(1, 8, 8), classes=4, declared_size=records)
    asked = plan("moments", card, {"axes": 16}, epsilon=epsilon, delta=DELTA, score=share).asks
    assert asked.score is not None
    noise = asked.score.noise_multiplier
    for run in range(runs):
        own = Records(*blobs(records, draw))
        net = own_tables.trained(asked.jobs[0], own, run)
        labels = torch.arange(JUDGED) % 4
        with torch.no_grad():
            samples = net(torch.randn(JUDGED, net.latent_size, generator=own_tables.stream(run)), labels)
        judge = LinearDiscriminantAnalysis().fit(samples.flatten(1).numpy(), labels.numpy())

        def right(pictures: Any, judge: Any = judge) -> np.ndarray:
            found = judge.predict(pictures.images.reshape(len(pictures), -1) / 255)
            return np.asarray(found == pictures.labels)

        query = Facts(right_and_wrong(right), score_weights(asked.score.judge))
        answer = query.clipped_sum(own, Bounds(norms=(1.0,))).numpy() + draw.normal(0, noise, 2)
        low, value, high = noisy_share(float(answer[0]), float(answer[1]), noise)
        true = float(right(Records(*fresh)).mean())
        held += low <= true <= high
        widths.append(high - low)
        gaps.append(value - true)
    return {
        "runs": runs, "records": records, "epsilon": epsilon, "share": share, "covered": float(held / runs),
        "width": round(float(np.mean(widths)), 4), "mean difference": round(float(np.mean(gaps)), 4),
        "accuracy": round(true, 4),
    }  # fmt: skip


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", nargs="+", choices=[*SETS, *TABLES], default=[*SETS])
    parser.add_argument(
        "--asked", nargs="+", default=["auto"], help=f"auto, {DRAWINGS}, {REAL}, or a preset such as {BY_HAND}"
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[5_000], help="records, at most; 0: all")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[10.0, 1.0])
    parser.add_argument("--coverage", type=int, help="so many runs: how often the interval of a score holds")
    parser.add_argument("--facts", action="store_true", help="no run: what a look without noise says of each set")
    parser.add_argument("--held-out", action="store_true", help="test on training records that runs do not see")
    parser.add_argument("--score", type=float, help="share of the budget")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    given = parser.parse_args()
    about = {
        "date": datetime.date.today().isoformat(),
        "command": shlex.join(["python", "-m", "benchmarks.auto", *sys.argv[1:]]),
    }
    print(json.dumps({**about, "machine": machine("cpu"), "software": software()}), flush=True)
    for epsilon in given.epsilons if given.coverage else ():
        print(json.dumps(coverage(given.coverage, epsilon)), flush=True)
    for name in () if given.coverage else given.sets:
        if name in TABLES:
            for size, *how in itertools.product(given.sizes, given.asked, given.epsilons, given.seeds):
                asked, epsilon, seed = how
                print(json.dumps(of_table(name, asked, size, epsilon, seed, given.score)), flush=True)
            continue
        train, test = SETS[name](given.data)
        if given.held_out:
            train, test = (tuple(array[part] for array in train) for part in (slice(-HELD_OUT), slice(-HELD_OUT, None)))
        if given.facts:
            which = np.random.default_rng(0).permutation(len(train[0]))[: given.sizes[0] or None]
            print(json.dumps(facts(name, some(name, train, which))), flush=True)
            continue
        for size, epsilon, seed, asked in itertools.product(given.sizes, given.epsilons, given.seeds, given.asked):
            which = np.random.default_rng(seed).permutation(len(train[0]))[: size or None]
            part, tests = some(name, train, which), some(name, test, slice(TESTED))
            try:
                line = one(name, part, tests, asked, epsilon, seed, given.score)
            except RequestError as error:  # such as axes that are more than pixels
                line = {"set": name, "epsilon": epsilon, "asked": asked, "refused": str(error)}
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
