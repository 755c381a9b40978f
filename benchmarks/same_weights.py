"""Whether a change of the code leaves every model as it was: small seeded fits of all methods, by SHA-256.

python -m benchmarks.same_weights before.json                        on the code before the change
python -m benchmarks.same_weights after.json --against before.json   on the code after it, on the same machine

Each method is fitted with its defaults, with public records, with each of its presets and with two more seeds, at sizes that
take seconds. Noise and samples are fixed by a test generator. A digest covers the released weights and 48 samples. The lines of
the certificate that state what a run cost are kept beside it. Bits depend on the processor and on the libraries, so digests
are compared and never committed. Exit status 1: something differs, or a fit of the file before is missing.
"""

import argparse
import contextlib
import dataclasses
import hashlib
import io
import json
import math
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import gossamer
from gossamer.data.card import DataCard
from gossamer.data.columns.column import Column
from gossamer.data.source import Source
from gossamer.data.tables.card import TableCard
from gossamer.errors import GossamerError
from gossamer.methods import METHODS
from gossamer.methods.contract import presets_of
from gossamer.privacy.random.noise import Rng
from gossamer.run.training.progress import Process

MOST: dict[str, int] = {
    "steps": 6, "expected_batch_size": 32, "width": 8, "latent_size": 8, "discriminator_steps": 2, "critic_steps": 2,
    "warm_steps": 4, "warm_batch_size": 16, "physical_batch_size": 16, "critics": 4, "critic_batch_size": 8,
    "warm_stack": 2, "public_steps": 3, "visits": 2, "answers": 3, "epochs": 4, "adversary_warm_epochs": 1,
    "adversary_delay_epochs": 1, "axes": 12, "pixel_axes": 12, "features_steps": 3, "features_batch_size": 16,
    "features_width": 2, "matching_steps": 5, "likeness_steps": 3, "candidates": 20, "embedding_steps": 3, "depth": 1,
    "embedding_batch_size": 16, "sampler_steps": 3, "start_records": 40, "iterations": 20, "cells": 2_000, "multiplicity": 2,
    "labelling_steps": 3, "codes_per_record": 2, "partitions": 3, "groups": 3,
}  # fmt: skip
"""No setting is larger than this, so that a fit takes seconds."""
LARGEST_BATCH = {"privgan": {"batch_size": 8}, "gs-wgan": {"batch_size": 3}, "dp-mepf": {"batch_size": 20}}
MORE: dict[str, dict[str, Any]] = {
    "moments": {"cells": 2},
    "feature-moments": {"encoder": ""},
    "dp-diffusion": {"precision": "fp32"},
}
"""Settings of a method besides."""
CARD = DataCard(shape=(1, 28, 28), classes=10, declared_size=240)
SHAPES = {"paper-cifar10": (3, 32, 32)}
"""Of the pictures of a preset that takes no others."""
TABLE = TableCard(
    columns=(
        Column(name="side", kind="category", values=("left", "middle", "right")),
        Column(name="age", kind="integer", bounds=(0, 99), bins=8),
        Column(name="weight", kind="number", bounds=(0, 10), bins=8),
        Column(name="ill", kind="category", values=("no", "yes")),
    ),
    declared_size=240,
    label="ill",
)


def stripes(n: int, seed: int, shape: tuple[int, ...] = CARD.shape) -> tuple[np.ndarray, np.ndarray]:
    """Pictures uint8 [n, *shape] with a bright stripe whose place depends on the class, and their labels [n]."""
    draw = np.random.default_rng(seed)
    labels = np.arange(n) % CARD.classes
    images = draw.integers(0, 40, size=(n, *shape))
    for label in range(CARD.classes):
        images[labels == label, :, :, 2 * label + 3 : 2 * label + 6] += 200
    return images.astype(np.uint8), labels


def rows(n: int) -> dict[str, list[Any]]:
    """Columns of a table whose last column depends on the others."""
    draw = np.random.default_rng(5)
    ages = draw.integers(0, 100, size=n)
    return {
        "side": [("left", "middle", "right")[i] for i in draw.integers(3, size=n)],
        "age": ages.tolist(),
        "weight": [round(float(w), 2) for w in draw.uniform(0, 10, size=n)],
        "ill": ["yes" if a > 50 else "no" for a in ages],
    }


def capped(method: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings, with none above `MOST`, as a preset or a default may have it."""
    most = {**MOST, **LARGEST_BATCH.get(method, {})}
    values = {field.name: field.default for field in dataclasses.fields(METHODS[method].config_type)} | settings
    smaller = {
        name: most[name] for name, value in values.items() if isinstance(value, int) and value > most.get(name, value)
    }
    return {**smaller, **MORE.get(method, {})}


def cases() -> Iterator[tuple[str, tuple[str, str, bool, int]]]:
    """The name of each case; its method, preset, whether there are public records, and seed."""
    for method in sorted(METHODS):
        for seed in (0, 1, 2):
            yield f"{method} default seed {seed}", (method, "", False, seed)
        if METHODS[method].takes_public:
            yield f"{method} public", (method, "", True, 0)
        for preset in presets_of(METHODS[method]):
            yield f"{method} {preset}", (method, preset, False, 0)
            if METHODS[method].takes_public:
                yield f"{method} {preset} public", (method, preset, True, 0)


def fitted(method: str, preset: str, public: bool, seed: int, folder: Path) -> dict[str, Any]:
    """What one small fit released: digests, and what the certificate states of the cost."""
    held = presets_of(METHODS[method]).get(preset, {})
    settings = capped(method, held)
    free = method == "privgan" or held.get("noise_multiplier") == 0.0
    if not free:
        settings["noise_multiplier"] = 1.5
    torch.manual_seed(0)
    table = method == "marginals"
    given: dict[str, Any] = {} if method == "privgan" else {"epsilon": math.inf} if free else {"delta": 1e-3}
    if public:
        given["public"] = stripes(120, 1)
    shape = SHAPES.get(preset, CARD.shape)
    card = TABLE if table else dataclasses.replace(CARD, shape=shape)
    data = Source(rows(240) if table else stripes(240, 0, shape), public_test_data=True)
    synthesizer = gossamer.fit(
        method, data=data, card=card, out=folder, preset=preset or None,
        process=Process(progress=False, rng=Rng(seed, noise_seed=7 + seed)), **given, **settings,
    )  # fmt: skip
    samples = synthesizer.sample(48, seed=11)
    arrays = [samples.codes] if table else [samples.images, samples.labels]
    certificate = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    return {
        "model": hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest(),
        "samples": hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in arrays)).hexdigest(),
        "certificate": {name: certificate[name] for name in ("guarantees", "releases") if name in certificate},
    }


def main() -> int:
    """Fit all cases, write what they gave, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--only", default="", help="part of the name of a case")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    for name, case in cases():
        if arguments.only not in name:
            continue
        with tempfile.TemporaryDirectory() as place, contextlib.redirect_stderr(io.StringIO()):
            try:
                found[name] = fitted(*case, Path(place) / "run")
            except GossamerError as error:
                found[name] = {"refused": type(error).__name__}
                print(f"{name}: refused: {str(error)[:90]}", flush=True)
        if "model" in found[name]:
            print(f"{name}: {found[name]['model'][:12]} {found[name]['samples'][:12]}", flush=True)
    arguments.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    fits = sum("model" in entry for entry in found.values())
    print(f"{fits} fits, {len(found) - fits} refused")
    if arguments.against is None:
        return 0
    before = {k: v for k, v in json.loads(arguments.against.read_text()).items() if arguments.only in k}
    other = [name for name in before if found.get(name) != before[name]]
    print(
        "\n".join(f"differs: {name}" for name in other)
        or f"{fits} models, samples and certified costs: equal bit for bit"
    )
    return int(bool(other))


if __name__ == "__main__":
    sys.exit(main())
