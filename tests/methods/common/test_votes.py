"""Votes: counted by hand, bounded per unit, with one noise over all classes, each a matter of its own record to the bit."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.synthetic.glyphs import draw
from gossamer.methods.common.declared import ballot
from gossamer.methods.common.features import Features, _exact
from gossamer.methods.common.votes import Cosines, Votes, draw_preferred, embedded, on_grid, pick, thresholded
from gossamer.privacy.confined import Confined
from gossamer.privacy.guarantee import ADD_OR_REMOVE_ONE
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng

ONE = Bounds(norms=(1.0,))
EXACT = Bounds(norms=(math.inf,))


def noise_pictures(n: int, seed: int, classes: int = 3, units: np.ndarray | None = None) -> Records:
    draw = np.random.default_rng(seed)
    images = draw.integers(0, 256, (n, 1, 8, 8)).astype(np.uint8)
    return Records(images, draw.integers(classes, size=n), units)


def by_brightness(images: Tensor) -> Tensor:
    return images.mean((1, 2, 3), dtype=torch.float64)[:, None]


def greys(values: list[int], labels: list[int], units: list[int] | None = None) -> Records:
    images = np.tile(np.array(values, np.uint8)[:, None, None, None], (1, 1, 2, 2))
    return Records(images, np.array(labels, np.int64), None if units is None else np.array(units))


CANDIDATES = greys([0, 100, 200, 50, 150], [0, 0, 0, 1, 1])


def test_votes_counted_by_hand() -> None:
    """Each record votes within its class; class 2 has no candidate, and its record no vote."""
    query = Votes.on(CANDIDATES, by_brightness, 3)
    records = greys([0, 10, 90, 255, 90, 110, 7], [0, 0, 0, 0, 1, 1, 2])
    assert query.dimension == 5
    assert query.clipped_sum(records, EXACT).tolist() == [2, 1, 1, 1, 1]
    torch.testing.assert_close(
        query.clipped_sum(records, ONE), torch.tensor([2.0, 1, 1, 1, 1], dtype=torch.float64), atol=1e-5, rtol=0
    )


def test_the_votes_of_a_unit_have_length_one() -> None:
    """Three records for one cell and one for another are (3, 1) / sqrt(10); a unit with one record gives its whole vote."""
    query = Votes.on(CANDIDATES, by_brightness, 2)
    records = greys([0, 0, 60, 0, 100], [0, 0, 1, 0, 0], units=[0, 0, 0, 0, 1])
    expected = torch.tensor([3 / 10**0.5, 1, 0, 1 / 10**0.5, 0], dtype=torch.float64)
    torch.testing.assert_close(query.clipped_sum(records, ONE), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("where", [0, 4])
def test_a_unit_more_moves_the_histogram_by_one_and_no_more(where: int) -> None:
    """Inserted at the start or in the middle, with ten records or with one."""
    query = Votes.on(noise_pictures(20, 0), Cosines((1, 8, 8), 10), 3)
    owners = np.repeat(np.arange(9), [10, 1, 3, 1, 10, 1, 1, 2, 5])
    whole = noise_pictures(len(owners), 1, units=owners)
    rest = whole.take(np.delete(np.arange(9), where))
    moved = query.clipped_sum(whole, ONE) - query.clipped_sum(rest, ONE)
    assert 1 - 1e-5 < float(moved.norm()) <= 1
    one = query.clipped_sum(whole.take(np.array([1])), ONE)
    assert 1 - 1e-5 < float(one.norm()) <= 1


@pytest.mark.parametrize("side", [128, 512])
def test_sums_over_a_large_picture_are_exact_in_any_order_however_large_the_weights(side: int) -> None:
    """Its hidden layer adds 32,768 or 524,288 products up. Two numbers of 20 bits each would leave room for 8,192."""
    net = Features((1, side, side), 10)
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(1e6)
        weights, _ = _exact(net.hidden)
    points = on_grid(torch.rand(3, net.hidden.in_features, generator=torch.Generator().manual_seed(0)) * 512)
    largest = float(weights.abs().max() * points.max()) * 2**24  # in whole numbers
    assert largest * net.hidden.in_features <= 2**53
    order = torch.randperm(net.hidden.in_features, generator=torch.Generator().manual_seed(1))
    assert torch.equal(points @ weights.T, points[:, order] @ weights[:, order].T)


@pytest.mark.parametrize("kind", ["cosines", "features"])
def test_a_point_depends_on_its_record_alone_to_the_last_bit(kind: str) -> None:
    """In single precision the same sums differ in their last bits: a vote near a tie would move as another record joins."""
    torch.manual_seed(0)
    records = draw(100, seed=2)
    images, _ = records.tensors()
    net = Cosines.of(records, 20) if kind == "cosines" else Features((1, 28, 28), 10)
    together = embedded(records, net)
    with torch.no_grad():
        exact = net(images)
        for i in (0, 1, 50, 99):
            for n in (1, 2, 7):
                assert torch.equal(net(images[i : i + n]), exact[i : i + n])
                assert torch.equal(embedded(records[i : i + n], net), together[i : i + n])
    assert torch.equal(embedded(records[np.arange(100)[::-1].copy()], net).flip(0), together)
    points = on_grid(torch.randn(3_000, 64) * 50)
    products = points[:100] @ points.T
    assert torch.equal(products, (points[:100, None] * points).sum(2)), "exact: in any order"
    assert not torch.equal(
        (points[:100].float() @ points.float().T), (points[:100, None].float() * points.float()).sum(2)
    )


def test_the_nearest_of_two_is_found_however_near_they_are() -> None:
    """Candidates on both sides of a record, at distances that differ by one step of the grid, 2^-12. In single precision a
    square is rounded to 2^-10."""
    steps = torch.randint(4_000, (200,), generator=torch.Generator().manual_seed(0)) + 1
    middle = 100.0
    below, above = middle - steps / 2**12, middle + (steps + 1) / 2**12
    for first, second in zip(below.tolist(), above.tolist(), strict=True):
        positions = torch.tensor([[second], [first]], dtype=torch.float64)
        query = Votes(lambda images: torch.full((len(images), 1), middle), positions, torch.zeros(2).long(), 1)
        assert query.clipped_sum(greys([7], [0]), EXACT).tolist() == [0, 1]


def test_what_is_no_number_does_not_raise() -> None:
    def broken(images: Tensor) -> Tensor:
        return torch.tensor([[math.nan], [math.inf], [-math.inf]])[: len(images)]

    assert embedded(greys([1, 2, 3], [0, 0, 0]), broken).flatten().tolist() == [0, 256, -256]
    assert Votes.on(CANDIDATES, by_brightness, 2).clipped_sum(greys([], []), ONE).tolist() == [0] * 5


def test_the_noise_is_on_every_cell_of_every_class_and_charged_once() -> None:
    """400 releases: in each cell the standard deviation is 3, and the mean is the count, within five standard errors. False
    alarms: less than one in 10^5 runs. Were half the records left out, the cell of nine would be missed by 30 of them.
    """
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5, relation=ADD_OR_REMOVE_ONE)
    declared = ballot(noise_multiplier=3.0, rounds=400)
    ledger.reserve([(declared.mechanism.event, declared.times)])
    private = Confined(greys([0] * 8 + [10, 90], [0] * 9 + [1]), ledger, Rng())
    query = Votes.on(CANDIDATES, by_brightness, 2)
    found = torch.stack([private.release(declared.mechanism, query) for _ in range(400)])
    assert ledger.unused == [0]
    spread = found.std(0)
    assert float((spread - 3).abs().max()) < 5 * 3 / math.sqrt(800)
    torch.testing.assert_close(
        found.mean(0), torch.tensor([9.0, 0, 0, 1, 0], dtype=torch.float64), atol=5 * 3 / 20, rtol=0
    )


def test_the_threshold_is_in_standard_deviations_of_the_noise() -> None:
    votes = torch.tensor([-1.0, 5.9, 6.0, 7.5])
    assert thresholded(votes, 3.0, threshold=2.0).tolist() == [0, 0, 0, 1.5]
    torch.testing.assert_close(thresholded(votes, 0.0, threshold=2.0), votes.clamp(min=0))


def test_candidates_are_drawn_by_their_weights_within_the_class() -> None:
    """Classes out of order, zero weights never drawn, a class without weight drawn from evenly; numbers at the edges."""
    groups = torch.tensor([1, 0, 1, 0, 2, 2, 1])
    weights = torch.tensor([3.0, 0, 0, 2, 0, 0, 1])
    edge = torch.tensor([0.0, 1 - 2.0**-24])
    assert pick(weights, groups, torch.tensor([1, 1, 0, 0]), edge.repeat(2)).tolist() == [0, 6, 3, 3]
    assert pick(weights, groups, torch.tensor([2, 2]), edge).tolist() == [4, 5]
    n = 4_000
    uniform = (torch.arange(n) + 0.5) / n
    found = pick(weights, groups, torch.ones(n, dtype=torch.int64), uniform)
    assert torch.bincount(found, minlength=7).tolist() == [3_000, 0, 0, 0, 0, 0, 1_000]


def test_public_pictures_are_chosen_for_another_method() -> None:
    """Those nearest to the records; classes come by the prior, and one without pictures is left out."""
    public = greys(list(range(0, 250, 10)) * 2, [0] * 25 + [1] * 25)
    records = greys([30] * 50 + [200] * 50, [0] * 50 + [1] * 50)
    ledger = PrivacyLedger(budget=math.inf, delta=1e-5, relation=ADD_OR_REMOVE_ONE)
    declared = ballot(noise_multiplier=2.0, rounds=1)
    ledger.reserve([(declared.mechanism.event, declared.times)])
    private = Confined(records, ledger, Rng(noise_seed=1))
    votes = private.release(declared.mechanism, Votes.on(public, by_brightness, 3))
    card = DataCard(shape=(1, 2, 2), classes=3, declared_size=100, label_prior=(0.25, 0.5, 0.25))
    start = public[
        draw_preferred(
            public, thresholded(votes, 2.0, threshold=4), 1_000, card, torch.Generator().manual_seed(0)
        ).numpy()
    ]
    assert start.images.shape[1:] == (1, 2, 2)
    assert set(start.labels) == {0, 1}
    assert 180 < (start.labels == 0).sum() < 320
    assert set(start.images[start.labels == 0].flatten()) == {30}
    assert set(start.images[start.labels == 1].flatten()) == {200}
    again = public[
        draw_preferred(
            public, thresholded(votes, 2.0, threshold=4), 1_000, card, torch.Generator().manual_seed(0)
        ).numpy()
    ]
    assert np.array_equal(start.images, again.images)


def test_cosines_are_orthonormal_waves_scaled_to_public_pictures() -> None:
    plain = Cosines((1, 8, 8), 64)
    torch.testing.assert_close(plain.waves @ plain.waves.T, torch.eye(64, dtype=torch.float64), atol=2e-3, rtol=0)
    public = noise_pictures(500, 3)
    torch.testing.assert_close(
        embedded(public, Cosines.of(public, 10)).std(0, correction=0),
        torch.ones(10, dtype=torch.float64),
        atol=1e-2,
        rtol=0,
    )
    colour = Cosines((3, 8, 6), 12)
    assert colour(torch.rand(5, 3, 8, 6)).shape == (5, 36)
