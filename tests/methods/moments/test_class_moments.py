"""Class moments: what is asked, how much a record moves it, and the Gaussians that the answer makes."""

import copy
import dataclasses
import html
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import gossamer
from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.methods.moments.class_moments import WEIGHTS, Moments
from gossamer.methods.moments.mixture import Mixture
from gossamer.nets.latent import Latent
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng

ONE = Bounds(norms=(1.0,))


def records(n: int, classes: int = 3, *, seed: int = 0, units: np.ndarray | None = None) -> Records:
    draw = np.random.default_rng(seed)
    labels = draw.integers(classes, size=n)
    images = draw.integers(0, 256, size=(n, 1, 6, 6)) // (labels + 1)[:, None, None, None]
    return Records(images.astype(np.uint8), labels, units)


def query(axes: int = 4, radius: float = 1.0) -> Moments:
    return Moments(Latent((1, 6, 6), axes), 3, radius)


def by_hand(asked: Moments, held: Records) -> Tensor:
    """Record by record, with matrices written out."""
    d, (a, b, c) = asked.latent.axes, WEIGHTS
    total = torch.zeros(asked.classes, asked.dimension // asked.classes, dtype=torch.float64)
    for image, label in zip(held.images, held.labels, strict=True):
        z = asked.latent.code(torch.from_numpy(image)[None] / 255)[0].double() / asked.reach
        z = z / max(1.0, float(z.norm()))
        upper = [z[i] * z[j] * (1.0 if i == j else math.sqrt(2)) for i in range(d) for j in range(i, d)]
        total[label] += torch.stack([torch.tensor(a), *(b * z), *(c * each for each in upper)])
    return total.flatten()


def test_the_query_by_hand() -> None:
    asked, held = query(), records(50)
    torch.testing.assert_close(asked.clipped_sum(held, ONE), by_hand(asked, held), atol=1e-4, rtol=0)


def centres(asked: Moments, m: int) -> Tensor:
    """Of m cells for each class, about the origin. [K, m, d]"""
    drawn = torch.Generator().manual_seed(2)
    return torch.randn(asked.classes, m, asked.latent.axes, generator=drawn, dtype=torch.float64) * 0.3


def test_cells_by_hand() -> None:
    """Every record in the cell of its class whose centre is nearest, counted from there."""
    plain, held, (a, b, c) = query(), records(60), WEIGHTS
    asked = dataclasses.replace(plain, centres=centres(plain, 3))
    assert asked.centres is not None
    expected = torch.zeros(9, asked.dimension // 9, dtype=torch.float64)
    for image, label in zip(held.images, held.labels, strict=True):
        code = asked.latent.code(torch.from_numpy(image)[None] / 255)[0].double()
        nearest = int((asked.centres[label] - code).norm(dim=1).argmin())
        z = (code - asked.centres[label, nearest]) / asked.reach
        z = z / max(1.0, float(z.norm()))
        upper = [z[i] * z[j] * (1.0 if i == j else math.sqrt(2)) for i in range(4) for j in range(i, 4)]
        expected[3 * label + nearest] += torch.stack([torch.tensor(a), *(b * z), *(c * each for each in upper)])
    torch.testing.assert_close(asked.clipped_sum(held, ONE), expected.flatten(), atol=1e-4, rtol=0)


def test_the_cell_of_a_record_is_found_without_rounding() -> None:
    """Where a record stands is the same to the last bit, whatever stands beside it and in any order of the sum."""
    plain, held = query(axes=36), records(3_000)
    asked = dataclasses.replace(plain, centres=centres(plain, 4))
    images, labels = held.tensors()
    order = torch.randperm(36, generator=torch.Generator().manual_seed(0))
    shuffled = copy.deepcopy(asked)
    shuffled.latent.basis.copy_(asked.latent.basis[order])
    shuffled.latent.centre.copy_(asked.latent.centre[order])
    one = torch.cat([asked.placed(images[i : i + 1]) for i in range(200)])
    assert torch.equal(asked.placed(images)[:200], one)
    assert torch.equal(shuffled.placed(images.flatten(2)[:, :, order].view_as(images)), asked.placed(images))
    assert len(torch.unique(asked.placed(images))) > 1_000
    assert sorted(set((asked.nearest(images, labels) // 4 - labels).tolist())) == [0]


def test_a_place_is_made_of_axes_and_a_middle_on_the_grid() -> None:
    """Pixels, axes and middle are multiples of 1/256 and 1/4096: their products add up without rounding."""
    plain, images = query(axes=12), records(300).tensors()[0]
    torch.manual_seed(3)
    plain.latent.centre.copy_(torch.rand_like(plain.latent.centre))
    basis, middle = ((4_096 * part.double()).round() / 4_096 for part in (plain.latent.basis, plain.latent.centre))
    assert not torch.equal(basis, plain.latent.basis.double()) and not torch.equal(middle, plain.latent.centre.double())
    pixels = (255 * images).round().double().flatten(1) / 256
    exact = (256 / 255 * (pixels @ basis) - middle @ basis) / plain.latent.scale.double()
    found = plain.placed(images)
    assert torch.equal(found, (4_096 * exact).round() / 4_096)
    assert torch.equal(4_096 * found, (4_096 * found).round())


def test_a_far_record_moves_the_cells_by_one() -> None:
    plain, held = query(radius=0.01), records(40)
    asked = dataclasses.replace(plain, centres=centres(plain, 3))
    far = Records(np.full((1, 1, 6, 6), 255, np.uint8), np.array([2]))
    joined = Records(np.concatenate([far.images, held.images]), np.concatenate([far.labels, held.labels]))
    moved = float((asked.clipped_sum(joined, ONE) - asked.clipped_sum(held, ONE)).norm())
    assert 1 - 1e-4 < moved <= 1


def test_weights_share_a_bound_of_one() -> None:
    assert sum(weight**2 for weight in WEIGHTS) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("value", [0, 255])
def test_a_far_record_moves_the_answer_by_one(value: int) -> None:
    """A code beyond the radius fills the bound: count, mean and covariance together, and no more."""
    asked, held = query(radius=0.01), records(40)
    far = Records(np.full((1, 1, 6, 6), value, np.uint8), np.array([2]))
    joined = Records(np.concatenate([far.images, held.images]), np.concatenate([far.labels, held.labels]))
    moved = float((asked.clipped_sum(joined, ONE) - asked.clipped_sum(held, ONE)).norm())
    assert 1 - 1e-4 < moved <= 1


@pytest.mark.parametrize("at_once", [4_096, 7])
def test_a_unit_moves_it_by_one_whatever_it_holds(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty records of one unit over all classes, at once or in five blocks."""
    monkeypatch.setattr(Moments, "most", at_once)
    asked = query()
    others, own = records(40), records(30, seed=5)
    joined = Records(
        np.concatenate([own.images, others.images]),
        np.concatenate([own.labels, others.labels]),
        np.concatenate([np.zeros(30, np.int64), np.arange(1, 41)]),
    )
    moved = asked.clipped_sum(joined, ONE) - asked.clipped_sum(others, ONE)
    assert 0.99 < float(moved.norm()) <= 1
    z, cells = asked._codes(joined[:30])
    whole = asked._sums(z, cells, torch.ones(30, dtype=z.dtype)).flatten()
    torch.testing.assert_close(moved, whole / whole.norm(), rtol=1e-5, atol=1e-9)


def test_blocks_follow_from_the_size_of_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many records as fit, however many there are; the answer is the same but for the last bits."""
    asked, held, seen = query(), records(50), list[int]()
    whole, codes = asked.clipped_sum(held, ONE), Moments._codes
    monkeypatch.setattr("gossamer.data.records._BLOCK", 4 * 36 * 20 + 1)
    monkeypatch.setattr(Moments, "_codes", lambda self, given: (seen.append(len(given)), codes(self, given))[1])
    torch.testing.assert_close(asked.clipped_sum(held, ONE), whole, atol=1e-9, rtol=0)
    assert seen == [20, 20, 10]


def test_non_finite_codes_add_a_count_and_no_more() -> None:
    asked = query()
    asked.latent.basis[0, 0] = math.nan
    answer = asked.clipped_sum(records(5), ONE)
    assert float(answer.norm()) <= 5 * WEIGHTS[0]


def test_the_method_draws_the_classes() -> None:
    """At a high budget the mean picture of each class comes out, within a tenth of the range."""
    card = DataCard(shape=(1, 6, 6), classes=3, declared_size=6_000)
    held = records(6_000)
    job = Job.of(METHODS["moments"], {"noise_multiplier": 1.0, "axes": 36, "radius": 2.0}, card)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5, relation=job.relation)
    ledger.reserve(job.plan)
    training = job.begin(Rng(0))
    for _ in training.drive(Confined(held, ledger, training.run.rng)):
        pass
    net = training.state.released
    for label in range(3):
        drawn, _ = job.sample(net, 2_000, torch.full((2_000,), label), torch.Generator().manual_seed(0))
        own = torch.from_numpy(held.images[held.labels == label]).float().mean(0) / 255
        torch.testing.assert_close(drawn.mean(0), own, atol=0.1, rtol=0)


def test_what_is_faint_in_a_sample_is_black_and_all_else_as_it_was() -> None:
    card = DataCard(shape=(1, 6, 6), classes=3, declared_size=6_000)
    drawn = []
    for threshold in (0.0, 0.4):
        job = Job.of(METHODS["moments"], {"noise_multiplier": 1.0, "axes": 9, "threshold": threshold}, card)
        net = job.begin(Rng(0)).state.released
        images, _ = job.sample(net, 50, None, torch.Generator().manual_seed(0))
        drawn.append(images)
    plain, cut = drawn
    for image, image_cut in zip(plain, cut, strict=True):
        faint = image < 0.4 * image.max()
        assert 0.05 < faint.float().mean() < 0.95
        assert torch.equal(image_cut, torch.where(faint, 0.0, image))
    assert any((image_cut > 0).logical_and(image_cut < 0.4).any() for image_cut in cut), "of a dark sample more is left"
    with pytest.raises(
        RequestError, match=r"`threshold` is a share of a sample's brightest pixel, at most 1, not 1\.5"
    ):
        _ = Job.of(METHODS["moments"], {"noise_multiplier": 1.0, "threshold": 1.5}, card).plan


def test_a_record_moves_nobody_elses_part() -> None:
    """Inserted first, it moves all others by one place, and to other blocks: what they add stays the same to 1e-9."""
    asked, others, one = query(axes=36), records(5_000), records(1, seed=9)
    joined = Records(np.concatenate([one.images, others.images]), np.concatenate([one.labels, others.labels]))
    moved = asked.clipped_sum(joined, ONE) - asked.clipped_sum(others, ONE)
    assert float((moved - asked.clipped_sum(one, ONE)).norm()) < 1e-9


def test_a_smaller_bound_shortens_every_record() -> None:
    """A record whose count alone is longer than the bound."""
    asked, held = query(), records(1)
    assert float(asked.clipped_sum(held, Bounds(norms=(0.1,))).norm()) == pytest.approx(0.1, rel=1e-5)


@pytest.mark.parametrize(("noise", "expected"), [(0.5, "'b'"), (1e4, "'a', 'b', 'c'")])
def test_a_run_its_release_and_its_report_name_classes_that_are_mostly_noise(
    noise: float, expected: str, tmp_path: Path
) -> None:
    """No record is of class b. What is said follows from the released model."""
    held, said = records(120), list[str]()
    held = Records(held.images, np.where(held.labels == 1, 0, held.labels))
    card = DataCard(shape=(1, 6, 6), classes=3, declared_size=120, class_names=("a", "b", "c"))
    made = gossamer.fit(
        "moments", data=gossamer.Source(held, public_test_data=True), card=card, out=tmp_path / "run", delta=1e-3, axes=4,
        noise_multiplier=noise,
        process=gossamer.Process(sink=lambda event: said.extend([str(event)]), rng=Rng(0, noise_seed=1)),
    )  # fmt: skip
    assert made.remark.startswith(f"Mostly noise: samples of class {expected}. ")
    assert any(made.remark in each for each in said)
    gossamer.release(tmp_path / "run", tmp_path / "out")
    assert made.remark in (tmp_path / "out/README.md").read_text()
    assert f"of class {expected}. " in html.unescape((tmp_path / "out/report.html").read_text())
    assert gossamer.verify(tmp_path / "out").problems == []


def test_a_run_without_noise_names_no_class() -> None:
    asked, held = query(), records(300)
    mixture = Mixture(3, 1, asked.latent.axes)
    assert mixture.unseen == []
    mixture.take(asked.clipped_sum(held, ONE), asked, noise_multiplier=0.0)
    assert mixture.unseen == []
