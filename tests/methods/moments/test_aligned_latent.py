"""Aligned pictures: codes of one record alone, back to the picture, black on white as white on black, and what is released."""

import functools
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
from gossamer.methods.common import bounded_sum
from gossamer.methods.job import Job
from gossamer.methods.moments import aligned_latent
from gossamer.methods.moments.aligned_latent import POSE, AlignedLatent
from gossamer.methods.moments.class_moments import WEIGHTS, Moments
from gossamer.methods.moments.latents import with_codes
from gossamer.methods.moments.loop import Generator, asked
from gossamer.methods.moments.mixture import Noisy
from gossamer.methods.synthesizer import Synthesizer
from gossamer.nets.latent import Latent
from gossamer.privacy.queries import Bounds
from gossamer.run.release.release import release
from gossamer.run.release.verify import verify
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process
from gossamer.testing import checks
from gossamer.testing.trial_run import Subject

SIDE, N, PIECE = 16, 41, 10
CARD = DataCard(shape=(1, SIDE, SIDE), classes=2, declared_size=200)
SETTINGS: dict[str, Any] = {"axes": 30, "align": True, "noise_multiplier": 0.3}
GONE = (0, 9, 20, 40)
"""One record at a time: of the first piece, at its end, of a middle one, and the last piece as a whole."""


def shapes(poses: Tensor, *, channels: int = 1, side: int = 64) -> Tensor:
    """Crosses with a short arm, of these poses: x, y, wide, high and slant in half sides. float64 [n, C, H, W]"""
    at = (torch.arange(side, dtype=torch.float64) + 0.5) * (2 / side) - 1
    x, y, wide, high, slant = (number[:, None, None] for number in poses.double().unbind(1))
    down = (at[None, :, None] - y) / high
    across = (at[None, None, :] - x - slant * (at[None, :, None] - y)) / wide
    upright = torch.maximum(1 - (across / 0.5) ** 2, torch.zeros(())) * torch.sigmoid(20 * (1.5 - down.abs()))
    level = torch.maximum(1 - ((down - 0.5) / 0.4) ** 2, torch.zeros(())) * torch.sigmoid(
        20 * (1.6 - (across - 0.3).abs())
    )
    return (0.9 * torch.maximum(upright, level))[:, None].repeat(1, channels, 1, 1)


def poses(n: int, *, seed: int = 0) -> Tensor:
    """At random, as far as nothing is cut off."""
    draw = torch.rand(n, 5, generator=torch.Generator().manual_seed(seed))
    low, high = torch.tensor([[-0.1, -0.1, 0.24, 0.42, -0.3], [0.1, 0.1, 0.32, 0.54, 0.3]])
    return low + (high - low) * draw


def pictures(n: int, *, seed: int = 0, white_each: int = 16) -> Records:
    """Two classes, of which the second is mirrored; white on black, with every sixteenth black on white, or others."""
    images = shapes(poses(n, seed=seed), side=SIDE).mul(255).round().byte().numpy()
    labels = np.arange(n) % 2
    images[labels == 1] = images[labels == 1, :, :, ::-1]
    images[white_each - 1 :: white_each] = 255 - images[white_each - 1 :: white_each]
    return Records(images, labels)


def trained(held: Records, **more: Any) -> Generator:
    net = driven(Job.of(METHODS["moments"], {**SETTINGS, **more}, CARD), held).state.released
    assert isinstance(net, Generator)
    return net


def drawn(net: Generator, n: int) -> Tensor:
    labels = torch.arange(n) % 2
    return net(torch.randn(n, net.latent_size, generator=torch.Generator().manual_seed(0)), labels)


def test_a_pose_is_that_of_the_shape() -> None:
    """Moving, widening, heightening and slanting a shape change the numbers of its pose by just that."""
    base = torch.tensor([0.0, 0.0, 0.28, 0.5, 0.0])
    moved = base.repeat(5, 1)
    moved[1, :2] += torch.tensor([0.1, -0.05])
    moved[2, 2] *= 1.2
    moved[3, 3] *= 0.9
    moved[4, 4] += 0.3
    latent = AlignedLatent((1, 64, 64), 10)
    found = torch.cat([latent._aligned(image)[1] for image in shapes(moved).split(1)])
    change = found[1:] - found[0]
    expected = torch.zeros(4, 5, dtype=torch.float64)
    expected[0, :2] = torch.tensor([0.1, -0.05])
    expected[1, 2], expected[2, 3] = math.log(1.2), math.log(0.9)
    expected[3, 4] = 0.3
    expected[1:, :2] = change[1:, :2]  # the centre of mass is not the middle of the cross
    torch.testing.assert_close(change, expected, atol=0.02, rtol=0)


def test_paper_that_is_not_of_one_shade_does_not_move_a_pose() -> None:
    given = shapes(poses(8))
    noise = 0.08 * torch.rand(given.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    latent = AlignedLatent((1, 64, 64), 10)
    clean, noisy = (
        torch.cat([latent._aligned(image)[1] for image in each.split(1)]) for each in (given, given + noise)
    )
    torch.testing.assert_close(noisy, clean, atol=0.05, rtol=0)


def test_aligned_shapes_are_alike() -> None:
    """The same cross in forty poses: nine tenths of what differs is gone."""
    given = shapes(poses(40))
    latent = AlignedLatent((1, 64, 64), 10)
    aligned = torch.cat([latent._aligned(image)[0] for image in given.split(1)])
    about = [(some - some.mean(0)).square().sum() for some in (given, aligned)]
    assert float(about[1] / about[0]) < 0.1


def test_a_shape_of_less_than_half_the_size_fills_the_same_frame() -> None:
    """Somewhere in the picture. Its pose is not cut, so its aligned picture is that of the whole one."""
    whole = poses(8)
    small = torch.cat([torch.tensor([[0.4, -0.3]]).repeat(8, 1), whole[:, 2:4] * 0.43, whole[:, 4:]], 1)
    latent = AlignedLatent((1, 64, 64), 10)
    one, other = (torch.cat([latent._aligned(image)[0] for image in shapes(each).split(1)]) for each in (whole, small))
    assert float((one - other).square().sum() / one.square().sum()) < 0.1


@pytest.mark.parametrize("channels", [1, 3])
def test_a_code_is_decoded_to_its_picture(channels: int) -> None:
    side = 32
    images = shapes(poses(12), channels=channels, side=side).float()
    grounds = torch.tensor([0.0, 1.0, 0.4]).repeat(4)
    images = (grounds[:, None, None, None] + (1 - 2 * grounds.round())[:, None, None, None] * images / 2).clamp(0, 1)
    latent = AlignedLatent((channels, side, side), channels * side * side)
    codes = latent.code(images)
    assert codes.shape == (12, latent.axes)
    assert latent.axes == channels * side * side + POSE + channels
    again = latent.decode(codes)
    assert float((again - images).abs().max()) < 0.08
    assert float((again - images).square().mean().sqrt()) < 0.01
    torch.testing.assert_close(latent.ground(codes)[:, 0, 0, 0], grounds)


@pytest.mark.parametrize(
    ("mean", "spread", "plain"),
    [
        (0.97, 0.05, 1.0),
        (0.89, 0.2, 1.0),
        (0.05, 0.1, 0.0),
        (0.4, 0.05, None),
        (0.8, 0.1, None),
        (0.5, 0.28, None),
        (0.745, 0.258, None),
    ],
)
def test_noise_gives_no_grey_boxes_to_a_plain_ground(mean: float, spread: float, plain: float | None) -> None:
    """A ground is black or white where what was released fits that. One that is grey, or of any shade, stays."""
    latent = AlignedLatent((1, SIDE, SIDE), 30)
    weight = latent._weight(aligned_latent._GROUND)
    means, roots = torch.randn(2, latent.axes), torch.randn(2, latent.axes, latent.axes)
    means[:, -1] = torch.tensor([mean - 0.5, 0.0]) * weight
    roots[:, -1] *= (torch.tensor([spread, 0.28]) * weight / roots[:, -1].norm(dim=1))[:, None]
    before = means.clone(), roots.clone()
    latent.make_plain(means, roots, (torch.zeros(2), torch.zeros(2)))
    if plain is not None:
        torch.testing.assert_close(means[0, -1], torch.tensor((plain - 0.5) * weight))
        assert not roots[0, -1].any()
        before[0][0, -1], before[1][0, -1] = means[0, -1], roots[0, -1]
    torch.testing.assert_close((means, roots), before)


def test_a_ground_that_noise_alone_made_grey_is_that_of_most() -> None:
    """Nine black cells. The noise moved the mean of one and the spread of another; the last is clearly white."""
    latent = AlignedLatent((1, SIDE, SIDE), 30)
    weight = latent._weight(aligned_latent._GROUND)
    grounds, spreads = torch.zeros(10), torch.full((10,), 0.02)
    grounds[2], spreads[5], grounds[9] = 0.2, 0.3, 1.0
    means, roots = torch.zeros(10, latent.axes), torch.zeros(10, latent.axes, latent.axes)
    means[:, -1], roots[:, -1, -1] = (grounds - 0.5) * weight, spreads * weight
    errors = torch.full((10,), 0.08 * weight), torch.full((10,), 0.04 * weight**2)
    latent.make_plain(means, roots, errors)
    torch.testing.assert_close(means[:, -1] / weight + 0.5, torch.eye(10)[9])
    assert not roots[:, -1].any()


def test_errors_of_moments_are_those_that_the_noise_makes() -> None:
    """Means and variances of codes, from noise alone on the sums of 50 records in each of 200 cells."""
    query, noise = Moments(Latent((1, SIDE, SIDE), 9), 200, 1.5), 2.0
    sums = torch.randn(200, 1 + 9 + 45, generator=torch.Generator().manual_seed(2), dtype=torch.float64) * noise
    sums[:, 0] = 50 * WEIGHTS[0]
    found = Noisy.of(sums.flatten(), query, noise)
    means, variances = query.errors(found.counts, noise)
    assert float(means.mean()) == pytest.approx(float((found.means * query.reach).std()), rel=0.05)
    products = (found.covariances + found.means[:, :, None] * found.means[:, None, :]) * query.reach**2
    assert float(variances.mean()) == pytest.approx(float(products.diagonal(dim1=1, dim2=2).std()), rel=0.05)


@pytest.mark.parametrize(("mean", "spread"), [(0.5, 0.5), (0.25, 0.42), (0.9, 0.3)])
def test_grounds_that_are_black_or_white_are_not_grey(mean: float, spread: float) -> None:
    """As often white as the Gaussian of the ground is above the middle, and shapes differ from it on the inner side."""
    latent = AlignedLatent((1, SIDE, SIDE), 30)
    weight = latent._weight(aligned_latent._GROUND)
    means, roots = torch.zeros(1, latent.axes), torch.eye(latent.axes)[None].clone()
    means[0, :30], means[0, -1] = latent.code(shapes(poses(1), side=SIDE))[0, :30], (mean - 0.5) * weight
    roots[0, -1] *= spread * weight
    latent.make_plain(means, roots, (torch.zeros(1), torch.zeros(1)))
    normals = torch.randn(4_000, latent.axes, generator=torch.Generator().manual_seed(0))
    normals[:, :-1] = 0
    codes = means + normals @ roots[0].t()
    ground = latent.ground(codes).flatten()
    assert float(((ground == 0) | (ground == 1)).float().mean()) > 0.98
    above = 0.5 * math.erfc((0.5 - mean) / spread / math.sqrt(2))
    assert float(ground.mean()) == pytest.approx(above, abs=0.03)
    apart = (latent.decode(codes[:50]) - ground[:50, None, None, None]) * (1 - 2 * ground[:50, None, None, None])
    assert float(apart.amax()) > 0.5
    assert float(apart.amin()) > -0.3


def test_the_two_maps_are_inverse() -> None:
    pose = torch.tensor([[0.2, -0.3, 0.3, -0.2, 0.7], [0.0, 0.0, 0.0, 0.0, 0.0]])
    there, back = aligned_latent._to_frame(pose), aligned_latent._to_picture(pose)
    last = torch.tensor([[[0.0, 0.0, 1.0]]]).repeat(2, 1, 1)
    whole = torch.cat([there, last], 1) @ torch.cat([back, last], 1)
    torch.testing.assert_close(whole, torch.eye(3).repeat(2, 1, 1))


def test_black_on_white_has_the_codes_of_white_on_black() -> None:
    """The same shape and pose, and the other ground."""
    images = shapes(poses(6), side=SIDE)
    latent = AlignedLatent((1, SIDE, SIDE), 30)
    codes, others = latent.wide_code(images), latent.wide_code(1 - images)
    torch.testing.assert_close(others[:, :30], codes[:, :30])
    torch.testing.assert_close(others[:, 30:-1], codes[:, 30:-1])
    torch.testing.assert_close(others[:, -1], -codes[:, -1])


@pytest.mark.parametrize("value", [0, 7, 255])
def test_a_picture_without_a_shape_has_a_code(value: int) -> None:
    latent = AlignedLatent((1, SIDE, SIDE), 30)
    images = torch.full((1, 1, SIDE, SIDE), value / 255)
    assert bool(latent.code(images).isfinite().all())
    torch.testing.assert_close(latent.decode(latent.code(images)), images, atol=0.06, rtol=0)


def test_no_pose_is_farther_than_it_may_be() -> None:
    """Pictures of noise, single pixels and stripes: codes of a pose are bounded, and no number is undefined."""
    draw = torch.rand(60, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    images = torch.cat([draw, (draw > 0.995).float(), (draw[..., :1] > 0.5).float().expand(-1, -1, -1, SIDE)])
    latent = AlignedLatent((1, SIDE, SIDE), 30)
    pose = latent.wide_code(images)[:, 30:35] / latent._weight(aligned_latent._POSE)
    assert bool((pose.abs() <= torch.tensor(aligned_latent._FARTHEST).double() + 1e-6).all())


def test_without_one_record_all_other_codes_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_sum, "MOST", PIECE)
    latent = AlignedLatent((1, SIDE, SIDE), 30)
    whole = with_codes(None, latent, pictures(N)).images
    assert whole.dtype == np.float64
    assert len(np.unique(whole, axis=0)) == N, "rows differ, so that another row would be seen"
    for gone in GONE:
        others = np.delete(np.arange(N), gone)
        assert with_codes(None, latent, pictures(N)[others]).images.tobytes() == whole[others].tobytes()


def test_a_record_adds_a_vector_of_length_one_at_most() -> None:
    """Of the query that a run asks, and also where the shape is so bright that its code is shortened."""
    net = Generator(Job.of(METHODS["moments"], {**SETTINGS, "radius": 0.2}, CARD).config, CARD.shape, 2)
    query = asked(net, 0.2)
    held = with_codes(None, net.latent, pictures(20))
    alone = torch.stack([query.clipped_sum(held[i : i + 1], Bounds(norms=(1.0,))) for i in range(20)])
    assert query.shape == (2, 1 + 36 + 36 * 37 // 2)
    assert float(alone.norm(dim=1).max()) <= 1
    assert float(alone.norm(dim=1).min()) > 0.99
    torch.testing.assert_close(alone.sum(0), query.clipped_sum(held, Bounds(norms=(1.0,))))


@pytest.mark.parametrize("white", [False, True])
def test_samples_are_sharper_than_without(white: bool) -> None:
    """Crosses in many poses, one Gaussian a class. Less than 0.6 of the distance to the records that fresh ones do not have."""
    held = pictures(2000, white_each=1 if white else 2001)
    both = (False, True)
    plain, aligned = (
        drawn(trained(held, align=align, axes=60, threshold=0.3, noise_multiplier=1e-3, radius=3.0), 400)
        for align in both
    )
    assert aligned[:, 0, 0, 0].unique().tolist() == [float(white)]
    truth = torch.from_numpy(held.images).float() / 255

    def nearest(images: Tensor) -> float:
        return float(torch.cdist(images.flatten(1), truth.flatten(1)).min(1).values.mean())

    fresh = pictures(400, seed=5, white_each=1 if white else 2001).images
    least = nearest(torch.from_numpy(fresh).float() / 255)
    assert nearest(aligned) - least < 0.6 * (nearest(plain) - least)


def test_what_is_faint_becomes_ground() -> None:
    latent = AlignedLatent((1, SIDE, SIDE), 30)
    codes = latent.code(torch.cat([shapes(poses(1), side=SIDE), 1 - shapes(poses(1), side=SIDE)]).float())
    images = latent.decode(codes).clamp(0, 1)
    cleared = latent.cleared(images, codes, 0.35)
    apart = (cleared - latent.ground(codes)).abs()
    assert float(apart[apart > 0].min()) >= 0.35 * float(apart.amax())
    assert bool((cleared[0] == images[0])[images[0] > 0.4].all())
    torch.testing.assert_close(cleared[1], 1 - cleared[0], atol=0.01, rtol=0)
    assert torch.equal(latent.cleared(images, codes, 0.0), images)


def test_axes_of_public_pictures_are_those_of_aligned_ones() -> None:
    """One cross in many poses: once aligned, few axes hold it."""
    given = shapes(poses(200), side=SIDE).float()
    latent = AlignedLatent((1, SIDE, SIDE), 4)
    latent.fit(given)
    error = (latent.decode(latent.code(given)) - given).square().mean()
    about = (given - given.mean(0)).square().mean()
    assert float(error / about) < 0.1


def test_it_reads_no_record_but_through_the_mechanism() -> None:
    """Unrelated records and a mechanism that answers with noise alone: the same bits. And one record changes no public draw."""
    for more in ({}, {"cells": 2}):
        whole = Subject(method=METHODS["moments"], small={**SETTINGS, "axes": 5, "noise_multiplier": 1.0, **more})
        checks.non_interference(whole, warm=True)
        checks.removing_a_protected_record_changes_nothing_public(whole, share=0.25)


def test_refusals() -> None:
    job = functools.partial(Job.of, METHODS["moments"])
    for more in ({"autoencoder": "toy"}, {"public_detail": True}):
        with pytest.raises(RequestError, match="`align` is for codes of pixels"):
            job({**SETTINGS, **more}, CARD).check()
    with pytest.raises(RequestError, match="`axes=257` is more than the 256 numbers of a picture"):
        job({**SETTINGS, "axes": 257}, CARD).generator()


def test_a_run_is_released_loaded_and_verified(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    made = fit(
        "moments",
        data=pictures(200),
        card=CARD,
        out=run,
        delta=1e-3,
        accounts=None,
        **{**SETTINGS, "cells": 2, "threshold": 0.3},
        process=Process(progress=False),
    )
    release(run, out)
    assert verify(out).problems == []
    again = Synthesizer.load(out)
    assert np.array_equal(made.sample(30, seed=3).images, again.sample(30, seed=3).images)
