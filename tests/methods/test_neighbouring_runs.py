"""How far one unit moves each answer of each method, in every mode: the run, then the run without it, with the same answers.

`privgan` has no mechanism and promises nothing, so it is not here. Records are extreme: see `trial_run.extremes`. As a script,
this prints the table of docs/proofs.md:

    PYTHONPATH=src:tests/fixtures python tests/methods/test_neighbouring_runs.py
"""

import dataclasses
import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from slowly import slow_among
from torch import Tensor

from gossamer import plugins
from gossamer.data.card import DataCard
from gossamer.data.columns.column import Column
from gossamer.data.records import Records
from gossamer.data.tables import table as codes
from gossamer.data.tables.any_card import AnyCard
from gossamer.data.tables.card import TableCard
from gossamer.kinds.toys import extremes, stripes
from gossamer.methods import METHODS
from gossamer.methods.common import bounded_sum, votes
from gossamer.methods.job import Job
from gossamer.privacy.mechanisms.gaussian import GroupedGaussianSum, PoissonGaussianSum
from gossamer.privacy.mechanisms.sanitized_rows import SanitizedRows
from gossamer.privacy.per_sample_gradients import clipping, gradients
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng
from gossamer.testing import neighbours
from gossamer.testing.neighbours import FixedChoices, Move, moves_of
from gossamer.testing.trial_run import Subject

ROUNDING = 1e-6
"""By how much a ratio may exceed 1. All bounds of these methods have room for rounding: none has come near 1 + 1e-12."""
SIDE, CLASSES = 28, 2
PICTURES = DataCard(shape=(1, SIDE, SIDE), classes=CLASSES, declared_size=150)
MANY = dataclasses.replace(PICTURES, declared_size=50_000)
"""So many are declared that a step of a classifier samples some of them."""
TABLE = TableCard(
    columns=(
        Column(name="side", kind="category", values=("left", "middle", "right")),
        Column(name="age", kind="integer", bounds=(0, 99), bins=4),
        Column(name="ill", kind="category", values=("no", "yes")),
    ),
    declared_size=150,
    label="ill",
)
BATCH = {"noise_multiplier": 1.0, "steps": 2, "expected_batch_size": 15, "physical_batch_size": 7}
"""Of a run of noisy gradients: pieces are smaller than a batch, and end within it."""
GAN = {"warm_steps": 2, "warm_batch_size": 8, "width": 4, "latent_size": 8}
VAE = {**BATCH, **GAN, "partitions": 3}
DIFFUSION = {**BATCH, "axes": 8, "width": 16, "depth": 1, "warm_steps": 2, "warm_batch_size": 8, "multiplicity": 2}
CRITICS = {
    "noise_multiplier": 4.0, "steps": 6, "critics": 3, "batch_size": 3, "critic_steps": 2, "critic_batch_size": 5, "width": 2,
    "latent_size": 8, "warm_steps": 2, "warm_stack": 2, "public_steps": 2, "critic_learning_rate": 0.1,
}  # fmt: skip
BOTH = (False, True)
VOTES = {"noise_multiplier": 1.0, "steps": 2, "embedding": "cosines", "candidates": 6, "variations": 2}
LABELS = {"own_label": 0.5, "labelling_steps": 2}
MEPF = {
    "noise_multiplier": 1.0, "axes": 8, "pixel_axes": 10, "features_steps": 2, "features_batch_size": 8, "features_width": 2,
    "warm_steps": 2, "warm_batch_size": 8, "matching_steps": 3, "likeness_steps": 2, "batch_size": 8, "width": 4,
    "latent_size": 8, "candidates": 6, "start_records": 40, "rounds": 2,
}  # fmt: skip
MOMENTS = {"noise_multiplier": 1.0, "axes": 8}
ROWS = {"noise_multiplier": 1.0, "rounds": 3, "cells": 200, "iterations": 5}


@dataclass(frozen=True)
class Case:
    """A mode of a method.

    tiny: with a bound that every gradient reaches. public: with public pictures. units: with units of several records
    (True), or with records alone.
    """

    method: str
    settings: Mapping[str, Any]
    public: bool = False
    tiny: bool = False
    card: AnyCard = PICTURES
    units: tuple[bool, ...] = BOTH
    n: int = 72


CASES = {
    "moments": Case("moments", MOMENTS),
    "moments, aligned": Case("moments", {**MOMENTS, "align": True}),
    "moments, 3 cells": Case("moments", {**MOMENTS, "cells": 3}),
    "moments, axes of the records, 3 cells, aligned": Case(
        "moments", {**MOMENTS, "axes_noise": 2.0, "cells": 3, "align": True}
    ),
    "moments, axes of the records": Case("moments", {**MOMENTS, "axes_noise": 2.0}),
    "moments, mean of the records, aligned": Case("moments", {**MOMENTS, "mean_noise": 2.0, "align": True}),
    "moments, public detail, 2 cells": Case("moments", {**MOMENTS, "public_detail": True, "cells": 2}, public=True),
    "feature-moments": Case("feature-moments", {**MOMENTS, "encoder": ""}, public=True),
    "feature-moments, encoder": Case("feature-moments", {**MOMENTS, "encoder": "extreme", "axes": 4}, public=True),
    "moments, autoencoder, 2 cells": Case("moments", {**MOMENTS, "autoencoder": "halves", "cells": 2}, public=True),
    "evolve, letters, own label": Case("evolve", {**VOTES, **LABELS, "drawing": "letters"}, card=MANY),
    "evolve, patches": Case("evolve", {**VOTES, "drawing": "patches"}),
    "evolve, learnt features": Case(
        "evolve", {**VOTES, "drawing": "letters", "embedding": "features", "embedding_steps": 2}
    ),
    "evolve, public pictures": Case("evolve", {**VOTES, "drawing": "pictures", "clusters": 6}, public=True),
    "evolve, encoder": Case("evolve", {**VOTES, "drawing": "letters", "encoder": "extreme"}),
    "teacher": Case("teacher", BATCH, tiny=True),
    "teacher, banded": Case("teacher", {**BATCH, "steps": 4, "bands": 2}),
    "teacher, encoder": Case("teacher", {**BATCH, "encoder": "extreme"}),
    "dp-mepf, start evolve, own label": Case(
        "dp-mepf",
        {
            **MEPF,
            **LABELS,
            "start": {"method": "evolve", "drawing": "letters", "embedding": "cosines", "candidates": 6, "steps": 2},
        },
    ),
    "dp-mepf, start moments, 2 cells": Case("dp-mepf", {**MEPF, "start": {"method": "moments", "axes": 8, "cells": 2}}),
    "dp-mepf, public pictures": Case("dp-mepf", {**MEPF, "learnt_bends": True}, public=True),
    "dpgan": Case("dpgan", {**BATCH, **GAN}, tiny=True),
    "dpgan, adaptive": Case("dpgan", {**BATCH, **GAN, "adaptive": True}, public=True),
    "dp-wgan": Case("dp-wgan", {**BATCH, **GAN}, tiny=True),
    "dp-wgan, weights and biases, public bounds": Case(
        "dp-wgan", {**BATCH, **GAN, "grouping": "weight-bias", "bounds": "public"}, public=True
    ),
    "dp-wgan, 3 clusters, private quantiles": Case(
        "dp-wgan",
        {**BATCH, **GAN, "grouping": "cluster", "groups": 3, "bounds": "private-quantile", "quantile_every": 2},
    ),
    "privae, no divergence, mixture": Case("privae", {**VAE, "prior": "mixture"}, tiny=True),
    "privae, two terms, mmd": Case("privae", {**VAE, "divergence": "mmd", "codes_per_record": 2}),
    "privae, two terms, kl, convolutions": Case("privae", {**VAE, "divergence": "kl", "split": 0.2, "network": "conv"}),
    "privae, whole, batch": Case("privae", {**VAE, "divergence": "mmd", "aggregation": "batch"}),
    "privae, whole, micro": Case("privae", {**VAE, "divergence": "mmd", "aggregation": "micro"}),
    "dp-diffusion": Case("dp-diffusion", {**DIFFUSION, "label_dropout": 0.3}, tiny=True),
    "dp-diffusion, unet": Case("dp-diffusion", {**DIFFUSION, "network": "unet"}),
    "dp-diffusion, votes on public pictures": Case("dp-diffusion", {**DIFFUSION, "votes_noise": 2.0}, public=True),
    "dp-diffusion, start moments": Case(
        "dp-diffusion", {**DIFFUSION, "start": {"method": "moments", "axes": 8}, "start_records": 40}
    ),
    "gs-wgan, secret, 2 answers": Case("gs-wgan", {**CRITICS, "answers": 2}),
    "gs-wgan, round robin": Case("gs-wgan", {**CRITICS, "draw": "round_robin"}),
    "gs-wgan, paper": Case("gs-wgan", {**CRITICS, "draw": "paper"}),
    "gs-wgan, a federated client": Case("gs-wgan", {**CRITICS, "draw": "round_robin", "critics": 1}, units=(False,)),
    "gs-wgan, public start": Case("gs-wgan", {**CRITICS, "storage": "bfloat16"}, public=True),
    "marginals": Case("marginals", ROWS, card=TABLE),
    "marginals, triples, no label": Case(
        "marginals", {**ROWS, "triples_from": 1}, card=dataclasses.replace(TABLE, label=None)
    ),
    "marginals, 1 row of 1,000 counts": Case(
        "marginals", ROWS, card=dataclasses.replace(TABLE, unit="person", max_rows=1), units=(True,), n=3_000
    ),
    "marginals, 3 rows of 1,000 count": Case(
        "marginals", ROWS, card=dataclasses.replace(TABLE, unit="person", max_rows=3), units=(True,), n=3_000
    ),
    "marginals, 7 rows of 1,000 count": Case(
        "marginals", ROWS, card=dataclasses.replace(TABLE, unit="person", max_rows=7), units=(True,), n=3_000
    ),
}
SLOW = (
    ("moments, axes of the records, 3 cells, aligned", False),
    ("evolve, letters, own label", False),
    ("dp-mepf, start evolve, own label", False),
    ("gs-wgan, paper", False),
    ("gs-wgan, public start", False),
    ("moments, axes of the records, 3 cells, aligned", True),
    ("evolve, letters, own label", True),
    ("evolve, encoder", True),
    ("dp-mepf, start evolve, own label", True),
    ("dp-mepf, start moments, 2 cells", False),
    ("dp-mepf, public pictures", True),
    ("dpgan, adaptive", False),
    ("dp-wgan", False),
    ("dp-wgan, weights and biases, public bounds", True),
    ("dp-wgan, 3 clusters, private quantiles", True),
    ("privae, two terms, mmd", True),
    ("privae, two terms, kl, convolutions", False),
    ("privae, whole, micro", False),
    ("dp-diffusion, unet", False),
    ("dp-diffusion, unet", True),
    ("dp-diffusion, votes on public pictures", False),
    ("dp-diffusion, votes on public pictures", True),
    ("dp-diffusion, start moments", True),
    ("gs-wgan, secret, 2 answers", True),
    ("gs-wgan, round robin", False),
    ("gs-wgan, paper", True),
    ("gs-wgan, public start", True),
)
"""Cases, with units of several records or not, that repeat what quicker ones cover, or take seconds."""


def extreme_features(images: Tensor) -> Tensor:
    """An encoder whose features are huge for white pictures, and no numbers for black ones."""
    plane = torch.randn(SIDE * SIDE, 6, generator=torch.Generator().manual_seed(0))
    bright = images.flatten(1).float().mean(1, keepdim=True) / 255
    features = torch.cat([(row[None] / 255) @ plane for row in images.flatten(1).float()])
    return torch.where(bright > 0.99, 1e30 * features, torch.where(bright < 0.01, torch.nan, features))


class Halves:
    """An autoencoder of pictures to latents of half the side, and back."""

    def encode(self, images: Tensor) -> Tensor:
        return torch.nn.functional.avg_pool2d(images.float() / 255, 2)

    def decode(self, latents: Tensor) -> Tensor:
        return (255 * torch.nn.functional.interpolate(latents, scale_factor=2)).clamp(0, 255).to(torch.uint8)


@contextmanager
def pretrained() -> Iterator[None]:
    """With the encoder and the autoencoder of this file."""
    plugins.add("encoder", "extreme", extreme_features)
    plugins.add("autoencoder", "halves", Halves())
    try:
        yield
    finally:
        plugins.remove("encoder", "extreme")
        plugins.remove("autoencoder", "halves")


SEEN: list[np.ndarray] = []
"""The ids of the marked records that were looked at last."""


@dataclass(frozen=True, repr=False)
class Marked(Records):
    """Records that are still known when they are sampled and cut."""

    ids: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))

    def __len__(self) -> int:
        SEEN[:] = [self.ids]
        return len(self.images)

    def __getitem__(self, which: slice | np.ndarray) -> "Marked":
        return Marked(**vars(_plain(super().__getitem__(which))), ids=self.ids[which])

    def tensors(self, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
        SEEN[:] = [self.ids]
        return super().tensors(device)


def _plain(records: Records) -> Records:
    records.__dict__.pop("_by_unit", None)
    return records


class OwnRows(neighbours._Alike):
    """What secret generators give inside a query: to each record its own numbers, wherever in a batch it is."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = Counter[int]()

    def _rows(self, func: Any, size: tuple[int, ...], given: dict[str, Any]) -> Tensor:
        stream = given["generator"]
        self.calls[id(stream)] += 1
        assert size[0] == len(SEEN[0])
        seeds = [[stream.initial_seed() % 2**32, self.calls[id(stream)], number] for number in SEEN[0].tolist()]
        return torch.stack([func(size[1:], generator=seeded(seed)) for seed in seeds] or [func(size, generator=stream)])


def seeded(seed: list[int]) -> torch.Generator:
    return torch.Generator().manual_seed(int(np.random.default_rng(seed).integers(2**62)))


class OwnChoices(FixedChoices):
    """Each record has its own choices, also those of `dp-diffusion`: a noise level, a coin and noise, K times."""

    def normals(self, n: int, device: torch.device | str) -> Tensor:
        if self._inside is None:
            return super().normals(n, device)
        ids, seed = SEEN[0], self._asked["answers"]
        per_row = n // (DIFFUSION["multiplicity"] * len(ids)) if len(ids) else 0
        own = [np.random.default_rng([seed, k, number]) for k in range(2) for number in ids.tolist()]
        rows = np.stack([stream.standard_normal(per_row) for stream in own]) if own else np.empty((0, 2))
        flat = np.concatenate([rows[:, 0], rows[:, 1], rows[:, 2:].ravel()])
        return torch.from_numpy(flat.astype(np.float32)).to(device)


def moved(name: str, several: bool, *, own: bool = False) -> list[Move]:
    """How far three units move the answers of a case: the first, one in the middle, and the last."""
    case = CASES[name]
    card, settings = case.card, dict(case.settings)
    if several and card.unit == "record":
        card = dataclasses.replace(card, unit="person")
    if case.tiny:
        settings["max_norm"] = 1e-3
    records = extremes(case.n, card, several=several)
    if own:
        records = Marked(**vars(_plain(records)), ids=np.arange(len(records)))
    units = 0, records.population // 2, records.population - 1
    public = stripes(30, seed=5, card=card) if case.public else None
    subject = Subject(method=METHODS[case.method], small=settings, card=card)
    with pretrained(), mock.patch.object(neighbours, "_Alike", OwnRows if own else neighbours._Alike):
        return moves_of(subject, records, units, public=public, rng=OwnChoices if own else FixedChoices)


@pytest.mark.parametrize(
    ("name", "several"), slow_among([(name, several) for name, case in CASES.items() for several in case.units], SLOW)
)
def test_no_unit_moves_an_answer_by_more_than_the_charge_covers(name: str, several: bool) -> None:
    moves = moved(name, several)
    assert max(move.ratio for move in moves) <= 1 + ROUNDING
    assert max(move.ratio for move in moves) > 0.05, "units that hardly move an answer show little"
    case = CASES[name]
    plan = Job.of(METHODS[case.method], case.settings, case.card).plan
    charges = sum(count for _, count in plan) // case.settings.get("answers", 1)
    assert len(moves) == 3 * charges, "every query of the plan, without each of three units"


OWN = (
    "dp-wgan", "dp-wgan, 3 clusters, private quantiles", "privae, two terms, mmd", "privae, whole, micro", "dp-diffusion",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "several"),
    slow_among(itertools.product(OWN, BOTH), [(name, True) for name in OWN] + [(OWN[1], False)]),
)
def test_the_same_with_choices_of_its_own_for_each_record(name: str, several: bool) -> None:
    """Of the methods that make random choices inside a query. A record has the same ones wherever it is in a batch."""
    assert max(move.ratio for move in moved(name, several, own=True)) <= 1 + ROUNDING


def test_marked_records_have_choices_of_their_own() -> None:
    """So that the test above is about other choices than the one before it."""
    once, own = (moved("dp-wgan", False, own=own) for own in (False, True))
    assert [move.ratio for move in once] != [move.ratio for move in own]
    mode = OwnRows()
    stream = seeded([1])
    mode.generators.append(stream)
    with mode:
        len(Marked(np.zeros((3, 1, 1, 1), np.uint8), np.zeros(3, np.int64), ids=np.array([4, 7, 4])))
        rows = torch.randn(3, 5, generator=stream)
    assert torch.equal(rows[0], rows[2])
    assert not torch.equal(rows[0], rows[1])


def no_weights(units: np.ndarray, max_rows: int) -> np.ndarray:
    """All rows of a person count in full."""
    del max_rows
    return np.full(len(units), float(codes.GRID))


def one_by_one(records: Records) -> tuple[Records, list[Records]]:
    """No unit has several records."""
    return records, []


def unclipped(squares: list[Tensor], bounds: Bounds, dtype: torch.dtype) -> list[Tensor]:
    del bounds
    return [torch.ones_like(each, dtype=dtype) for each in squares]


def half_the_noise(self: PoissonGaussianSum, total: Tensor, query: object, rng: Rng) -> Tensor:
    del query
    return rng.add_gaussian_(total, self.noise_multiplier * self.max_norm / 2)


def noise_for_c(self: SanitizedRows, total: Tensor, query: object, rng: Rng) -> Tensor:
    del query
    rng.add_gaussian_(total.view(-1), self.noise_multiplier * self.max_norm)
    return total


FAULTS: dict[str, tuple[Any, str, Any, str, bool, float]] = {
    "a person's rows count in full": (codes, "row_weights", no_weights, "marginals, 3 rows of 1,000 count", True, 300),
    "the records of a person are clipped one by one": (bounded_sum, "by_unit", one_by_one, "moments", True, 23),
    "gradients of a person's records are clipped one by one": (gradients, "by_unit", one_by_one, "teacher", True, 10),
    "votes of a person are not clipped": (votes, "clipped", lambda rows, _norm: rows, "evolve, patches", True, 23),
    "gradients are not clipped": (clipping, "_factors", unclipped, "teacher", False, 100),
    "half of the noise": (PoissonGaussianSum, "noised", half_the_noise, "moments", False, 1.99),
    "groups with the noise of one": (GroupedGaussianSum, "_weight", lambda _self, _group: 1.0, "marginals", False, 1.4),
    "rows move by C, not 2 C": (SanitizedRows, "noised", noise_for_c, "gs-wgan, a federated client", False, 1.3),
}
"""Where a fault is put, what takes its place, the case that shows it, with units of several records or not, and how far above 1
the ratio is at least."""


@pytest.mark.parametrize("fault", FAULTS)
def test_it_sees_a_fault(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, name, wrong, case, several, at_least = FAULTS[fault]
    monkeypatch.setattr(place, name, wrong)
    assert max(move.ratio for move in moved(case, several)) > at_least


def table() -> str:
    """The ratios as Markdown, a line for each phase and query of each case."""
    lines = ["| method and mode | phase | query | number | worst ratio |", "|---|---|---|---|---|"]
    for name, case in CASES.items():
        rows = defaultdict[tuple[str, str], list[float]](list)
        for several in case.units:
            for move in moved(name, several):
                rows[move.phase, move.query].append(move.ratio)
        lines += [
            f"| {name} | {phase} | `{query}` | {len(found)} | {max(found):.4f} |"
            for (phase, query), found in rows.items()
        ]
    return "\n".join(lines)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(table())
