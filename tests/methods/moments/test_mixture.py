"""Mixtures out of released moments: exact without noise, drawn together as far as noise asks, cut by the first release."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.methods.moments.class_moments import WEIGHTS, Moments
from gossamer.methods.moments.mixture import Mixture, Noisy
from gossamer.nets.latent import Latent
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng

D = 5
ONE = Bounds(norms=(1.0,))


def records(n: int) -> Records:
    """Two classes, each with a dark and a bright half."""
    draw = np.random.default_rng(0)
    labels, bright = draw.integers(2, size=n), draw.integers(2, size=n)
    ground = (40 + 120 * bright + 40 * labels)[:, None, None, None]
    return Records((ground + draw.integers(-30, 31, size=(n, 1, 6, 6))).astype(np.uint8), labels)


def asked(held: Records) -> Moments:
    """Two cells in each class, at its dark and its bright half."""
    latent = Latent((1, 6, 6), D)
    codes, labels = latent.code(held.tensors()[0]).double(), torch.from_numpy(held.labels)
    halves = [
        codes[(labels == k) & ((codes[:, 0] > codes[labels == k, 0].mean()) == side)]
        for k in (0, 1)
        for side in (False, True)
    ]
    return Moments(latent, 2, 2.0, torch.stack([each.mean(0) for each in halves]).view(2, 2, D) + 0.05)


def test_without_noise_the_cells_are_exact() -> None:
    held = records(4_000)
    query = asked(held)
    mixture = Mixture(2, 2, D)
    mixture.take(query.clipped_sum(held, ONE), query, noise_multiplier=0.0)
    images, labels = held.tensors()
    codes, cells = query.latent.code(images), query.nearest(images, labels)
    for cell in range(4):
        own = codes[cells == cell]
        assert float(mixture.weights[cell]) == pytest.approx(len(own), rel=1e-6)
        torch.testing.assert_close(mixture.means[cell], own.mean(0), atol=2e-3, rtol=0)
        root = mixture.roots[cell]
        torch.testing.assert_close(root @ root.t(), torch.cov(own.t(), correction=0), atol=2e-3, rtol=0)


def test_samples_follow_the_cells_by_their_weights() -> None:
    """Class 1 has its cells at 0 and 10, one to three: shares within 0.02, means within 0.05 (4 standard errors)."""
    mixture = Mixture(2, 2, 2)
    mixture.weights.copy_(torch.tensor([1.0, 1, 1, 3]))
    mixture.means.copy_(torch.tensor([[5.0, 5], [5, 5], [0, 0], [10, 10]]))
    mixture.roots.copy_(torch.eye(2).repeat(4, 1, 1) * 0.5)
    normals = torch.randn(20_000, 3, generator=torch.Generator().manual_seed(0))
    codes = mixture(normals, torch.ones(20_000, dtype=torch.int64))
    far = codes[:, 0] > 5
    assert float(far.float().mean()) == pytest.approx(0.75, abs=0.02)
    torch.testing.assert_close(codes[far].mean(0), torch.full((2,), 10.0), atol=0.05, rtol=0)
    torch.testing.assert_close(codes[~far].std(0), torch.full((2,), 0.5), atol=0.02, rtol=0)


def noisy(covariances: Tensor, noise: float, count: float = 1.0) -> Noisy:
    n = len(covariances)
    counts = torch.full((n,), count, dtype=torch.float64)
    return Noisy(counts, torch.zeros(n, D).double(), covariances, torch.full_like(counts, noise))


def test_noise_draws_cells_together() -> None:
    """200 covariances that are all the same but for noise: what is left of it is a fifth at most; exact ones stay."""
    drawn = torch.Generator().manual_seed(1)
    common = torch.diag(torch.tensor([1.0, 0.5, 0.2, 0.1, 0.05])).double()
    spread = 0.01 / WEIGHTS[2]
    error = torch.randn(200, D, D, generator=drawn, dtype=torch.float64) * spread / math.sqrt(2)
    error = (
        error.triu(1) + error.triu(1).transpose(1, 2) + torch.diag_embed(error.diagonal(dim1=1, dim2=2)) * math.sqrt(2)
    )
    left = noisy(common + error, 0.01).drawn_to(common) - common
    assert float(left.norm()) < 0.2 * float(error.norm())
    real = torch.diag(torch.tensor([0.3, 0.2, 0.1, 0.1, 0.0])).double()
    torch.testing.assert_close(noisy((common + real)[None], 0.0).drawn_to(common), (common + real)[None])


def test_what_is_far_above_the_noise_stays() -> None:
    common = torch.eye(D).double()
    apart = common + 0.5 * torch.ones(D, D).double()
    torch.testing.assert_close(noisy(apart[None], 1e-3).drawn_to(common)[0], apart, atol=1e-3, rtol=0)


def test_a_cell_that_is_not_seen_is_at_the_origin() -> None:
    cells = Noisy(
        torch.tensor([3.0, 100.0]).double(), torch.full((2, D), 7.0).double(), torch.eye(D).double().repeat(2, 1, 1),
        torch.ones(2).double(),
    )  # fmt: skip
    found = cells.offsets(torch.zeros(D).double())
    assert found[0].tolist() == [0.0] * D
    torch.testing.assert_close(found[1], torch.full((D,), 7.0).double(), rtol=1e-4, atol=0)


def test_eigenvalues_that_noise_alone_would_give_are_not_seen() -> None:
    covariance = torch.diag(torch.tensor([0.5, 0.2, 0.001, -0.002, 0.0])).double()
    seen = torch.linalg.eigvalsh(noisy(covariance[None], 0.01).cleaned())
    torch.testing.assert_close(seen[-2:], torch.tensor([0.2, 0.5]).double())
    assert float(seen[:3].max()) < 1e-5


def test_groups_are_averages_by_count() -> None:
    cells = Noisy(
        torch.tensor([1.0, 3.0, 2.0]).double(), torch.arange(3).double()[:, None].repeat(1, D),
        torch.stack([k * torch.eye(D).double() for k in range(3)]), torch.full((3,), 2.0).double(),
    )  # fmt: skip
    found = cells.together(torch.tensor([0, 0, 1]))
    assert found.counts.tolist() == [4, 2]
    assert found.means[:, 0].tolist() == [0.75, 2]
    assert found.covariances[0, 0, 0] == 0.75
    assert found.noise.tolist() == pytest.approx([2 * math.sqrt(2), 2])


def test_the_method_finds_both_halves_of_a_class() -> None:
    """At a high budget: samples of each class are dark and bright in equal parts, and hardly ever between."""
    held = records(4_000)
    card = DataCard(shape=(1, 6, 6), classes=2, declared_size=4_000)
    job = Job.of(
        METHODS["moments"], {"noise_multiplier": 0.5, "axes": 16, "radius": 2.0, "cells": 2, "cells_radius": 1.0}, card
    )
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5, relation=job.relation)
    ledger.reserve(job.plan)
    training = job.begin(Rng(0))
    for _ in training.drive(Confined(held, ledger, training.run.rng)):
        pass
    assert ledger.unused == [0, 0]
    for label in (0, 1):
        drawn, _ = job.sample(
            training.state.released, 2_000, torch.full((2_000,), label), torch.Generator().manual_seed(0)
        )
        level = drawn.flatten(1).mean(1) * 255 - 40 * label
        assert float((level > 100).float().mean()) == pytest.approx(0.5, abs=0.05)
        assert float(((level > 75) & (level < 125)).float().mean()) < 0.02


def test_a_single_cell_is_one_release() -> None:
    card = DataCard(shape=(1, 6, 6), classes=2, declared_size=4_000)
    assert len(Job.of(METHODS["moments"], {"noise_multiplier": 1.0, "axes": 4}, card).plan) == 1
    plan = Job.of(METHODS["moments"], {"noise_multiplier": 1.0, "axes": 4, "cells": 3, "classes_noise": 2.5}, card).plan
    assert [event.noise_multiplier for event, _ in plan] == [2.5, 1.0]


def test_means_are_drawn_to_the_origin_as_far_as_noise_asks() -> None:
    """Of 40 means on 20 axes: where there is signal they stay, where there is noise alone a fifth of it is left at most."""
    drawn, count, noise = torch.Generator().manual_seed(2), 100.0, 3.0
    error = torch.randn(40, 20, generator=drawn, dtype=torch.float64) * noise / WEIGHTS[1] / count
    means = error.clone()
    means[:, :10] += 5.0 * torch.randn(40, 10, generator=drawn, dtype=torch.float64)
    counts = torch.full((40,), count, dtype=torch.float64)
    cells = Noisy(counts, means, torch.eye(20).double().repeat(40, 1, 1), torch.full_like(counts, noise))
    found = cells.offsets(torch.zeros(20).double())
    torch.testing.assert_close(found[:, :10], means[:, :10], rtol=0.01, atol=0.01)
    assert float(found[:, 10:].norm()) < 0.2 * float(error[:, 10:].norm())
    far = cells.offsets(torch.full((20,), 2.0).double())[:, 10:]
    assert float((far - means[:, 10:]).abs().max()) < 0.5  # what differs clearly from the origin stays


@pytest.mark.parametrize(
    ("count", "apart", "spread", "told"),
    [(1e4, 0.0, 1.0, True), (10.0, 0.0, 1.0, False), (10.0, 20.0, 1.0, True), (10.0, 0.0, 1e6, True)],
)
def test_a_class_is_told_by_its_place_or_by_little_noise(count: float, apart: float, spread: float, told: bool) -> None:
    """Two of three classes are large and at the origin. The third: noise of 2.6 on each axis where it has ten records."""
    counts, means = torch.tensor([1e4, 1e4, count]).double(), torch.zeros(3, D).double()
    means[2] += apart
    cells = Noisy(counts, means, torch.zeros(3, D, D).double(), torch.full_like(counts, 10.0))
    assert cells.told(spread).tolist() == [True, True, told]
