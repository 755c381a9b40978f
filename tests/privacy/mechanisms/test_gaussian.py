"""Measured sensitivity and two-sided statistics of what leaves through the mechanisms.

Statistical bounds hold with probability 1 - 1e-6 each (normal quantile 4.892, two-sided).
"""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.privacy.accounting.events import poisson_gaussian
from gossamer.privacy.mechanisms.gaussian import GroupedGaussianSum, PoissonGaussianSum, check_weights
from gossamer.privacy.per_sample_gradients.gradients import PerRecordGradient
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng

Z = 4.892
RNG = Rng()
NO_LESS = 0.998  # of max_norm: what rounding is charged, and the guard, stay below 0.2 % (`rounding.py`)


def critic() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))


def loss(module: nn.Module, records: Records) -> Tensor:
    images, labels = records.tensors()
    return (module(images * 1e4).squeeze(1) * (1 + labels)).pow(2)


def records(n: int, units: list[int] | None = None) -> Records:
    draw = np.random.default_rng(0)
    images = draw.integers(0, 256, size=(n, 1, 28, 28)).astype(np.uint8)
    return Records(images, np.arange(n) % 10, None if units is None else np.array(units))


def inserted(before: Records, at: int) -> Records:
    """One record more, white all over: its gradient is huge."""
    images = np.insert(before.images, at, 255, axis=0)
    return Records(images, np.insert(before.labels, at, 9), None)


@pytest.mark.parametrize("at", [0, 3, 7])
@pytest.mark.parametrize("max_norm", [0.1, 1.0, 30.0])
def test_one_huge_record_moves_the_sum_by_max_norm_no_more_and_no_less(at: int, max_norm: float) -> None:
    mechanism = PoissonGaussianSum(sampling_rate=1.0, max_norm=max_norm, noise_multiplier=0.0)
    query = PerRecordGradient(critic(), loss, physical_batch_size=3)
    without, with_it = mechanism(records(7), query, RNG), mechanism(inserted(records(7), at), query, RNG)
    assert NO_LESS * max_norm < float((with_it - without).norm()) <= max_norm


def test_a_unit_moves_the_sum_by_max_norm_however_many_records_it_has() -> None:
    mechanism = PoissonGaussianSum(sampling_rate=1.0, max_norm=1.0, noise_multiplier=0.0)
    query = PerRecordGradient(critic(), loss, physical_batch_size=2)
    all_ = records(9, [0, 0, 0, 0, 0, 1, 2, 2, 1])
    rest = Records(all_.images[5:], all_.labels[5:], all_.units[5:] - 1)
    moved = float((mechanism(all_, query, RNG) - mechanism(rest, query, RNG)).norm())
    assert NO_LESS < moved <= 1.0


def test_the_noise_has_the_declared_scale_whatever_the_bound() -> None:
    """Mean and variance of the noise on D = 4 x 6,289 coordinates; error rate 4e-6 in all."""
    query = PerRecordGradient(critic(), loss)
    for multiplier, max_norm in ((1.0, 1.0), (2.5, 0.3)):
        mechanism = PoissonGaussianSum(sampling_rate=0.0, max_norm=max_norm, noise_multiplier=multiplier)
        noise = torch.cat([mechanism(records(5), query, RNG) for _ in range(4)]).double() / (multiplier * max_norm)
        n = len(noise)
        assert abs(float(noise.mean())) < Z / n**0.5
        assert abs(float(noise.square().mean()) - 1) < Z * (2 / n) ** 0.5


GROUPED = Bounds(norms=(0.5, 3.0, 0.1), groups=(0, 1, 2, 1))


def test_one_huge_record_moves_every_group_by_its_bound() -> None:
    mechanism = GroupedGaussianSum(sampling_rate=1.0, noise_multiplier=0.0, bounds=GROUPED)
    query = PerRecordGradient(critic(), loss, physical_batch_size=3)
    moved = mechanism(inserted(records(7), 0), query, RNG) - mechanism(records(7), query, RNG)
    parts = moved.split(query.sizes)
    assert NO_LESS * 0.5 < float(parts[0].norm()) <= 0.5
    assert NO_LESS * 3.0 < float(torch.cat([parts[1], parts[3]]).norm()) <= 3.0
    assert NO_LESS * 0.1 < float(parts[2].norm()) <= 0.1


@pytest.mark.parametrize("weights", [None, (0.6, 0.64, 0.48)])
def test_the_noise_of_k_groups_makes_one_gaussian(weights: tuple[float, ...] | None) -> None:
    """Per group: noise_multiplier x c_j / w_j, by default x sqrt(k); and in units of that noise a record moves the whole by
    1 / noise_multiplier. Mean and variance by group, over 400 draws; error rate 6e-6 in all."""
    multiplier = 1.5
    mechanism = GroupedGaussianSum(sampling_rate=0.0, noise_multiplier=multiplier, bounds=GROUPED, weights=weights)
    query = PerRecordGradient(critic(), loss)
    scales = [multiplier * c / w for c, w in zip(GROUPED.norms, weights or (3**-0.5,) * 3, strict=True)]
    draws = [mechanism(records(3), query, RNG).double().split(query.sizes) for _ in range(400)]
    for tensor, group in enumerate((0, 1, 2, 1)):
        noise = torch.cat([draw[tensor] for draw in draws]) / scales[group]
        n = len(noise)
        assert abs(float(noise.mean())) < Z / n**0.5
        assert abs(float(noise.square().mean()) - 1) < Z * (2 / n) ** 0.5
    joint = sum((c / scale) ** 2 for c, scale in zip(GROUPED.norms, scales, strict=True)) ** 0.5
    assert joint == pytest.approx(1 / multiplier, rel=1e-6)
    assert mechanism.event == poisson_gaussian(sampling_rate=0.0, noise_multiplier=multiplier)


@pytest.mark.parametrize(
    "weights", [(0.5, 0.5), (1.0, 0.1, 0.1), (0.8, 0.7, 0.0), (0.3, 0.3, 0.4, 0.0), (0.9, 0.4, 0.3)]
)
def test_weights_that_hide_noise_are_refused(weights: tuple[float, ...]) -> None:
    with pytest.raises(RequestError, match="squares add up to 1"):
        GroupedGaussianSum(sampling_rate=0.1, noise_multiplier=1.0, bounds=GROUPED, weights=weights)


@pytest.mark.parametrize(
    ("excess", "refused"), [(1e-8, True), (1e-4, True), (5e-3, True), (1e-12, False), (-0.1, False)]
)
def test_squares_of_weights_add_up_to_one_but_for_rounding(excess: float, refused: bool) -> None:
    """A hundredth more in the squares would be half a hundredth less noise than is charged."""
    weights = (0.6, 0.48, (0.4096 + excess) ** 0.5)
    if not refused:
        check_weights(weights, 3)
        return
    with pytest.raises(RequestError, match="squares add up to 1"):
        check_weights(weights, 3)


@pytest.mark.parametrize("bound", [0.0, -1.0, float("inf"), float("nan")])
def test_a_bound_that_noise_cannot_cover_is_refused(bound: float) -> None:
    with pytest.raises(RequestError, match="finite number above zero"):
        GroupedGaussianSum(sampling_rate=0.1, noise_multiplier=1.0, bounds=Bounds(norms=(1.0, bound)))


class Count:
    """How many units were drawn, and which: only a test may look."""

    dimension = 1

    def __init__(self) -> None:
        self.seen: list[np.ndarray] = []

    def clipped_sum(self, drawn: Records, bounds: Bounds) -> Tensor:
        self.seen.append(drawn.labels)
        return torch.zeros(1)


def test_sampling_is_by_independent_coins() -> None:
    """Mean *and* variance of the drawn number over 2,000 draws of 400 at rate 0.3 (a shuffled batch has variance 0)."""
    query, n, rate, draws = Count(), 400, 0.3, 2_000
    mechanism = PoissonGaussianSum(sampling_rate=rate, max_norm=1.0, noise_multiplier=1.0)
    held = Records(np.zeros((n, 1, 1, 1), np.uint8), np.arange(n))
    for _ in range(draws):
        mechanism(held, query, RNG)
    sizes = np.array([len(seen) for seen in query.seen])
    variance = n * rate * (1 - rate)
    assert abs(sizes.mean() - n * rate) < Z * (variance / draws) ** 0.5
    assert abs(sizes.var() / variance - 1) < Z * (2 / draws) ** 0.5
    each = np.bincount(np.concatenate(query.seen), minlength=n)
    assert np.abs(each - draws * rate).max() < 6.1 * (draws * rate * (1 - rate)) ** 0.5  # 1e-6 over 400 positions


@pytest.mark.parametrize(("n", "rate"), [(1, 0.3), (3, 0.15), (5, 0.3), (9, 0.95), (40, 0.01)])
def test_the_rate_is_that_of_the_declared_size_whatever_the_number_of_records(n: int, rate: float) -> None:
    """Expected numbers of records that are not whole: a rate rounded to whole records would miss them. 20,000 draws each;
    mean and variance of the drawn number, error rate 2e-6."""
    query, draws = Count(), 20_000
    mechanism = PoissonGaussianSum(sampling_rate=rate, max_norm=1.0, noise_multiplier=1.0)
    held = Records(np.zeros((n, 1, 1, 1), np.uint8), np.arange(n))
    for _ in range(draws):
        mechanism.exact(held, query, RNG)
    sizes = np.array([len(seen) for seen in query.seen])
    variance = n * rate * (1 - rate)
    of_squares = (
        variance * (1 + 3 * (n - 2) * rate * (1 - rate)) - variance**2
    )  # fourth moment minus the second squared
    assert abs(sizes.mean() - n * rate) < Z * (variance / draws) ** 0.5
    assert abs(((sizes - n * rate) ** 2).mean() - variance) < Z * (of_squares / draws) ** 0.5


def test_an_empty_draw_is_an_ordinary_step() -> None:
    query = PerRecordGradient(critic(), loss)
    mechanism = PoissonGaussianSum(sampling_rate=0.0, max_norm=1.0, noise_multiplier=1.0)
    answer = mechanism(records(5), query, RNG)
    assert answer.shape == (query.dimension,)
    assert float(answer.norm()) > 0


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_non_finite_records_count_as_zero_and_never_raise(bad: float) -> None:
    def sick(module: nn.Module, drawn: Records) -> Tensor:
        return loss(module, drawn) * torch.where(torch.from_numpy(drawn.labels == 2), bad, 1.0)

    mechanism = PoissonGaussianSum(sampling_rate=1.0, max_norm=1.0, noise_multiplier=0.0)
    all_ = records(7)
    healthy = Records(np.delete(all_.images, 2, axis=0), np.delete(all_.labels, 2))
    module = critic()
    torch.testing.assert_close(
        mechanism(all_, PerRecordGradient(module, sick), RNG),
        mechanism(healthy, PerRecordGradient(module, loss), RNG),
        atol=1e-6,
        rtol=0,
    )


def test_the_event_is_what_the_call_does() -> None:
    mechanism = PoissonGaussianSum(sampling_rate=0.25, max_norm=3.0, noise_multiplier=1.5)
    assert mechanism.event == poisson_gaussian(sampling_rate=0.25, noise_multiplier=1.5)
    assert mechanism.event.sampling_probability == 0.25
    assert mechanism.event.event.noise_multiplier == 1.5
