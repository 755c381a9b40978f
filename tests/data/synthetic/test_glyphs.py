"""Drawn glyphs: the same for the same seed, framed as MNIST is, and close enough to handwriting to teach it."""

import math

import numpy as np
import pytest
import torch
from shared_data import SHARED, needs
from torch import nn
from torch.nn.functional import cross_entropy

from gossamer.data.sources.pictures.read import read
from gossamer.data.synthetic.glyphs import Glyphs, draw
from gossamer.errors import RequestError


def test_equal_arguments_give_equal_glyphs():
    first, again, other = draw(30, seed=3), draw(30, seed=3), draw(30, seed=4)
    np.testing.assert_array_equal(first.images, again.images)
    np.testing.assert_array_equal(first.labels, again.labels)
    assert not np.array_equal(first.images, other.images)
    before = torch.get_rng_state()
    draw(3, seed=1)
    assert torch.equal(before, torch.get_rng_state()), "the global generator is not touched"


@pytest.mark.parametrize(("classes", "count"), [("digits", 10), ("letters", 26)])
def test_labels_are_even_and_shuffled(classes, count):
    glyphs = draw(3 * count + 2, classes=classes, seed=0)
    counts = np.bincount(glyphs.labels, minlength=count)
    assert len(counts) == count
    assert counts.min() == 3
    assert counts.max() == 4
    assert (np.diff(glyphs.labels) < 0).sum() > count / 2, "not in order of the classes"
    assert glyphs.images.shape == (len(glyphs), 1, 28, 28)
    assert glyphs.images.dtype == np.uint8


@pytest.mark.parametrize("size", [28, 32, 64])
def test_framed_as_mnist(size):
    """Ink on black, the longer side about 20 of 28 pixels, the centre of mass near the middle."""
    images = draw(500, seed=5, size=size).images[:, 0].astype(float)
    assert (images.max((1, 2)) > 200).all()
    ink = images > 100
    unit = size / 28
    off_centre = []
    for image, mask in zip(images, ink, strict=True):
        ys, xs = np.nonzero(mask)
        longer = (max(np.ptp(xs), np.ptp(ys)) + 1) / unit
        assert 15.5 < longer < 25.5
        centre = np.array(np.unravel_index(np.arange(image.size), image.shape)) @ image.ravel() / image.sum()
        off_centre.append(np.abs((centre + 0.5) / unit - 14).max())
    assert np.median(off_centre) < 0.6
    assert max(off_centre) < 3
    assert 0.10 < images.mean() / 255 < 0.16  # MNIST: 0.13


def test_bad_requests():
    with pytest.raises(RequestError, match="digits or letters, not 'runes'"):
        draw(1, classes="runes", seed=0)
    with pytest.raises(RequestError, match="n = 0"):
        draw(0, seed=0)


@pytest.mark.slow
@needs("mnist")
def test_glyphs_teach_handwriting():
    """A small CNN that has seen glyphs only reads MNIST's test digits: 90 % measured, 80 % asked."""
    images, labels = read("glyphs", split="train").tensors()
    torch.manual_seed(0)
    net = nn.Sequential(
        *(nn.Conv2d(1, 16, 5, stride=2, padding=2), nn.ReLU()),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 49, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 10)),
    )
    optimiser = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(4):
        for batch in torch.randperm(len(images)).split(128):
            optimiser.zero_grad()
            cross_entropy(net(images[batch]), labels[batch]).backward()
            optimiser.step()
    net.eval()
    real, truth = read(str(SHARED / "mnist"), split="test").tensors()
    with torch.no_grad():
        accuracy = (net(real).argmax(1) == truth).float().mean().item()
    assert accuracy > 0.8


def plain(program: Glyphs, labels: torch.Tensor) -> torch.Tensor:
    """Parameters of unbent characters: all at their means, the first shape of each class."""
    means = [prior.mean for prior in program.ranges for _ in range(prior.count)]
    return torch.tensor([[0.0, *means]]).repeat(len(labels), 1)


def extents(pictures: torch.Tensor) -> torch.Tensor:
    """The longer side of the ink of each picture, in pixels."""
    ink = pictures[:, 0] > 100
    return torch.stack([torch.maximum(each.any(0).sum(), each.any(1).sum()) for each in ink]).float()


def test_a_character_of_half_the_size_has_half_the_extent():
    program, labels = Glyphs("digits", smallest_size=0.4), torch.arange(10)
    assert program.size == Glyphs("digits").size + 1
    drawn = []
    for size in (1.0, 0.5):
        parameters = plain(program, labels)
        parameters[:, -1] = math.log(size)
        drawn.append(program.draw(parameters, labels, 56))
    assert torch.equal(drawn[0], Glyphs("digits").draw(plain(Glyphs("digits"), labels), labels, 56)), "1 is as MNIST"
    torch.testing.assert_close(extents(drawn[1]) / extents(drawn[0]), torch.full((10,), 0.5), atol=0.06, rtol=0)


def test_a_character_is_turned_by_its_angle():
    program, labels = Glyphs("digits", largest_rotation=180.0), torch.arange(10)
    upright, turned = plain(program, labels), plain(program, labels)
    turned[:, -1] = math.pi / 2
    pictures = [program.draw(parameters, labels, 28).float() for parameters in (upright, turned)]
    apart = [(torch.rot90(pictures[0], k, dims=(2, 3)) - pictures[1]).abs().mean() for k in range(4)]
    assert 3 * apart[1] < min(apart[0], apart[2], apart[3]), apart


def test_sizes_and_angles_cover_their_ranges():
    """1,000 draws: the size is from 0.4 to 1, the angle within 90 degrees; each end is reached, and no value is usual."""
    program = Glyphs("digits", smallest_size=0.4, largest_rotation=90.0)
    drawn = program.random(torch.randn(1_000, program.size, generator=torch.Generator().manual_seed(0)))
    sizes, angles = drawn[:, -2].exp(), drawn[:, -1].rad2deg()
    assert float(sizes.min()) == pytest.approx(0.4) and float(sizes.max()) == pytest.approx(1)
    assert float(angles.min()) == pytest.approx(-90) and float(angles.max()) == pytest.approx(90)
    assert 0.15 < float((sizes < 0.5).float().mean()) < 0.45
    assert 0.3 < float((angles.abs() > 45).float().mean()) < 0.6
