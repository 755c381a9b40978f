"""Mean and principal axes of the records: what is asked, how much a record moves it, and what is made of the answer."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from driven import driven
from torch import Tensor

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.methods.moments.aligned_latent import AlignedLatent
from gossamer.methods.moments.latents import with_codes
from gossamer.methods.moments.loop import Generator
from gossamer.methods.moments.principal_axes import WAVES, Mean, Products, SumInWaves, waves_of
from gossamer.methods.synthesizer import Synthesizer
from gossamer.nets.latent import Latent
from gossamer.privacy.queries import Bounds
from gossamer.run.release.release import release
from gossamer.run.release.verify import verify
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process
from gossamer.testing import checks
from gossamer.testing.trial_run import Subject

SIDE, AXES = 12, 3
CARD = DataCard(shape=(1, SIDE, SIDE), classes=2, declared_size=400)
SETTINGS: dict[str, Any] = {"axes": AXES, "axes_noise": 2.0, "noise_multiplier": 1.0}
ONE = Bounds(norms=(1.0,))


def pictures(n: int, *, seed: int = 0, units: np.ndarray | None = None) -> Records:
    """About a mean that is no constant, along three sharp patterns with spreads of 30, 18 and 9, and noise."""
    draw = np.random.default_rng(seed)
    images = 90.0 + 60 * (np.indices((SIDE, SIDE)).sum(0) % 2) + draw.normal(0, 2, (n, SIDE, SIDE))
    images = images + np.einsum("nk,khw->nhw", draw.normal(size=(n, 3)) * [30, 18, 9], patterns())
    return Records(images.round().clip(0, 255).astype(np.uint8)[:, None], draw.integers(2, size=n), units)


def patterns() -> np.ndarray:
    """Three checkerboards of different fields, which no low wave is like; orthogonal, of ones and minus ones."""
    y, x = np.indices((SIDE, SIDE))
    signs = [(y // 2 + x) % 2, (y + x // 3) % 2, (y // 2 + x // 2) % 2]
    return np.stack([1.0 - 2.0 * sign for sign in signs])


def asked(kind: type[SumInWaves], radius: float = 1.0) -> SumInWaves:
    return of_kind(kind, waves_of(Latent(CARD.shape, AXES)), radius)


def of_kind(kind: type[SumInWaves], waves: Latent, radius: float, *, coded: bool = False) -> SumInWaves:
    if kind is Mean:
        return Mean(waves, radius, coded, declared_size=400)
    return kind(waves, radius, coded)


def by_hand(query: SumInWaves, held: Records) -> Tensor:
    """Record by record, with products written out."""
    d, total = query.waves, torch.zeros(query.dimension, dtype=torch.float64)
    for image in held.images:
        z = query.latent.code(torch.from_numpy(image)[None] / 255)[0].double() / query.reach
        z = z / max(1.0, float(z.norm()))
        upper = z.outer(z) * torch.where(torch.eye(d) == 1, 1.0, math.sqrt(2))
        total += z if isinstance(query, Mean) else upper[torch.triu_indices(d, d).unbind()]
    return total


@pytest.mark.parametrize("kind", [Mean, Products])
@pytest.mark.parametrize("radius", [0.3, 3.0])
def test_the_queries_by_hand(kind: type[SumInWaves], radius: float) -> None:
    query, held = asked(kind, radius), pictures(30)
    assert query.waves == SIDE * SIDE < WAVES
    torch.testing.assert_close(query.clipped_sum(held, ONE), by_hand(query, held), atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", [Mean, Products])
def test_a_record_and_a_unit_add_one_at_most(kind: type[SumInWaves]) -> None:
    """Codes far beyond the reach; and a unit with twenty records of them."""
    query, held = asked(kind, 0.01), pictures(20)
    alone = torch.stack([query.clipped_sum(held[i : i + 1], ONE) for i in range(20)])
    assert float(alone.norm(dim=1).min()) > 0.99 and float(alone.norm(dim=1).max()) <= 1
    torch.testing.assert_close(alone.sum(0), query.clipped_sum(held, ONE))
    together = query.clipped_sum(pictures(20, units=np.zeros(20, np.int64)), ONE)
    assert 0.99 < float(together.norm()) <= 1


@pytest.mark.parametrize("kind", [Mean, Products])
def test_of_aligned_codes_the_shape_counts_alone(kind: type[SumInWaves]) -> None:
    """Pose and ground are no part of the sum, and take nothing of the reach."""
    waves = waves_of(AlignedLatent(CARD.shape, AXES))
    held = with_codes(None, waves, pictures(20))
    query = of_kind(kind, waves, 0.5, coded=True)
    z = torch.from_numpy(held.images[:, : query.waves]) / query.reach
    z = z / z.norm(dim=1, keepdim=True).clamp(min=1)
    found = query.clipped_sum(held, ONE)
    if kind is Mean:
        torch.testing.assert_close(found, z.sum(0), atol=1e-5, rtol=0)
    else:
        diagonal = torch.arange(query.waves).flip(0).cumsum(0).roll(1)  # of products, row by row, upper triangle
        diagonal[0] = 0
        places = torch.arange(query.waves) + diagonal
        torch.testing.assert_close(found[places], z.square().sum(0), atol=1e-5, rtol=0)


def test_without_noise_centre_and_axes_are_those_of_the_records() -> None:
    """Cosine waves are far from these patterns. The axes span them, the largest first, and the centre is the mean."""
    held = pictures(400)
    job = Job.of(METHODS["moments"], {**SETTINGS, "noise_multiplier": 0.0, "radius": 3.0, "cells_radius": 3.0}, CARD)
    latent = driven(job, held).state.released.latent
    flat = torch.from_numpy(held.images).double().flatten(1) / 255
    torch.testing.assert_close(latent.centre.double(), flat.mean(0), atol=1e-5, rtol=0)
    true = torch.linalg.svd(flat - flat.mean(0), full_matrices=False).Vh[:AXES].t()
    torch.testing.assert_close(
        (latent.basis.double() * true).sum(0).abs(), torch.ones(AXES).double(), atol=1e-5, rtol=0
    )
    assert bool((latent.basis.gather(0, latent.basis.abs().argmax(0, keepdim=True)) > 0).all()), "one of two directions"
    waves = Latent(CARD.shape, AXES).basis.double()
    assert float(torch.linalg.svdvals(true.t() @ waves).max()) < 0.5


def test_with_noise_the_axes_are_near() -> None:
    """Noise of 0.5 on products of 400 records, whose clipped lengths are 1. It is secret: the worst of 60 runs had 0.995."""
    latent = driven(
        Job.of(METHODS["moments"], {**SETTINGS, "axes_noise": 0.5, "cells_radius": 0.2}, CARD), pictures(400)
    ).state.released.latent
    two = torch.from_numpy(patterns()).flatten(1)[:2] / SIDE
    seen = (two @ latent.basis.double()).square().sum(1)
    assert bool((seen > torch.tensor([0.9, 0.7])).all()), seen


def test_the_plan_has_all_queries() -> None:
    job = Job.of(METHODS["moments"], {**SETTINGS, "cells": 2, "classes_noise": 3.0, "noise_multiplier": 1.5}, CARD)
    assert [event.noise_multiplier for event, _ in job.plan] == [24.0, 3.0, 4.5, 1.5]
    assert [phase.name for phase in job.phases] == [
        "axes",
        "mean",
        "principal axes",
        "whole classes",
        "cells",
        "training",
    ]
    assert len(Job.of(METHODS["moments"], {**SETTINGS, "axes_noise": 0.0}, CARD).plan) == 1


@pytest.mark.parametrize("more", [{}, pytest.param({"cells": 2, "align": True}, marks=pytest.mark.slow)])
def test_it_reads_no_record_but_through_the_mechanism(more: dict[str, Any], tmp_path: Path) -> None:
    """Unrelated records and a mechanism that answers with noise alone: the same bits. And one record changes no public draw."""
    whole = Subject(method=METHODS["moments"], small={**SETTINGS, "axes": 5, **more})
    checks.non_interference(whole, warm=False)
    checks.spends_its_plan(checks.finished_run(whole))
    checks.resume_at_the_ends_of_phases(whole, tmp_path)
    checks.removing_a_protected_record_changes_nothing_public(whole, share=0.25)


@pytest.mark.parametrize("align", [False, True])
def test_the_mean_alone_becomes_the_centre(align: bool) -> None:
    """Without axes of the records. Along the waves of the latent, where codes are; the waves stay."""
    settings = {"axes": 20, "mean_noise": 8.0, "noise_multiplier": 1.5, "align": align}
    job = Job.of(METHODS["moments"], settings, CARD)
    assert [event.noise_multiplier for event, _ in job.plan] == [12.0, 1.5]
    assert [phase.name for phase in job.phases] == ["axes", "mean", "training"]
    held = pictures(400)
    exact = Job.of(METHODS["moments"], {**settings, "noise_multiplier": 0.0, "radius": 5.0}, CARD)
    latent = driven(exact, held).state.released.latent
    waves = type(latent)(CARD.shape, 20)
    assert torch.equal(latent.basis, waves.basis)
    codes = torch.from_numpy(with_codes(None, waves, held).images)[:, :20]
    moved = (latent.centre - waves.centre).double() @ waves.basis.double() / waves.scale.double()
    torch.testing.assert_close(moved, codes.mean(0), atol=1e-5, rtol=0)


def test_many_axes_are_found_in_more_waves() -> None:
    assert waves_of(Latent((1, 40, 40), 10)).basis.shape[1] == WAVES
    assert waves_of(Latent((1, 40, 40), 300)).basis.shape[1] == 600
    assert waves_of(Latent((1, 16, 16), 200)).basis.shape[1] == 256


def test_refusals(tmp_path: Path) -> None:
    for more in ({"autoencoder": "toy"}, {"public_detail": True}):
        with pytest.raises(RequestError, match="finds axes of pixels in the records, without public pictures"):
            Job.of(METHODS["moments"], {**SETTINGS, **more}, CARD).check()
    with pytest.raises(RequestError, match="has no use for public records with these settings"):
        fit(
            "moments", data=pictures(400), public=pictures(50), card=CARD, out=tmp_path / "run", delta=1e-3, accounts=None,
            **SETTINGS,
        )  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_a_run_is_released_loaded_and_verified(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    made = fit(
        "moments",
        data=pictures(400),
        card=CARD,
        out=run,
        delta=1e-3,
        accounts=None,
        **{**SETTINGS, "cells": 2, "threshold": 0.3},
        process=Process(progress=False),
    )
    assert isinstance(made.net, Generator)
    assert float((made.net.latent.basis - Latent(CARD.shape, AXES).basis).abs().max()) > 0.01
    release(run, out)
    assert verify(out).problems == []
    again = Synthesizer.load(out)
    assert np.array_equal(made.sample(30, seed=3).images, again.sample(30, seed=3).images)
