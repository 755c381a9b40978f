"""The penalised critic: the fast form against double backward, one record at a time."""

import logging
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gossamer.errors import RequestError
from gossamer.nets.dcgan import Discriminator
from gossamer.privacy.per_sample_gradients.clipping import clip_rows
from gossamer.privacy.per_sample_gradients.gradients import Tensors
from gossamer.privacy.per_sample_gradients.penalty import PenaltyGradient, Points, penalised_losses
from gossamer.privacy.per_sample_gradients.rounding import charged
from gossamer.privacy.queries import Bounds

INFINITE = Bounds(norms=(math.inf,))


class One(nn.Module):
    """A stack of layers that ends in one number per record; labels, if given, are not looked at."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor, labels: Tensor | None = None) -> Tensor:
        return self.layers(x).flatten(1).sum(1)


class Projected(nn.Module):
    """A projection of the label: a product of two things that are learnt, so not linear in either's absence."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(1, 3, 4, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(48, 5))
        self.classes, self.out = nn.Embedding(10, 5), nn.Linear(5, 1)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        h = self.inner(x)
        return self.out(h).squeeze(1) + (self.classes(labels) * h).sum(1)


def conv(*after: nn.Module, channels: int = 3) -> One:
    return One(nn.Conv2d(1, channels, 4, 2, 1), *after)


PIECEWISE: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: One(nn.Flatten(), nn.Linear(64, 5), nn.LeakyReLU(0.2), nn.Linear(5, 1, bias=False)),
    "leaky": lambda: conv(nn.LeakyReLU(0.2), nn.Conv2d(3, 4, 3, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(4, 1, 2)),
    "leaky in place": lambda: conv(
        nn.LeakyReLU(0.2, inplace=True), nn.Conv2d(3, 4, 3, 2, 1), nn.LeakyReLU(0.2, inplace=True), nn.Conv2d(4, 1, 2)
    ),
    "relu in place, max pool": lambda: conv(nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 1)),
    "hardtanh, average pool": lambda: conv(nn.Hardtanh(), nn.AvgPool2d(2), nn.Conv2d(3, 2, 2), nn.ReLU6(inplace=True)),
    "upsampled, groups": lambda: conv(nn.Upsample(scale_factor=2), nn.ReLU(), nn.Conv2d(4, 2, 3, groups=2), channels=4),
    "transposed": lambda: conv(nn.ReLU(), nn.ConvTranspose2d(3, 2, 3, 2), nn.LeakyReLU(0.1), nn.Conv2d(2, 1, 3)),
}
SMOOTH: dict[str, Callable[[], nn.Module]] = {
    "silu": lambda: conv(nn.SiLU(), nn.Flatten(), nn.Linear(48, 1)),
    "layer norm": lambda: conv(nn.ReLU(), nn.LayerNorm((3, 4, 4)), nn.Flatten(), nn.Linear(48, 1)),
    "tanh": lambda: One(nn.Flatten(), nn.Linear(64, 4), nn.Tanh(), nn.Linear(4, 1)),
    "projection": Projected,
}


def build(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    module = make().double()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn_like(p) * 0.5)
    return module


def triples(n: int, size: int = 8, labels: bool = False) -> Tensors:
    generator = torch.Generator().manual_seed(5)
    images = [torch.randn(n, 1, size, size, generator=generator, dtype=torch.float64) for _ in range(3)]
    return Tensors((*images, torch.randint(0, 10, (n,), generator=generator)) if labels else tuple(images))


def points(batch: Tensors) -> Points:
    return Points(*batch.parts)


def half(query: PenaltyGradient[Tensors], batch: Tensors) -> Bounds:
    """Bounds that clip about half of the records."""
    return Bounds(norms=(float(torch.cat(list(query.rows(batch))).norm(dim=1).median()),))


def agree(module: nn.Module, batch: Tensors, form: str) -> None:
    slow = PenaltyGradient(module, points, form="slow")
    query = PenaltyGradient(module, points, form=form)  # type: ignore[arg-type]  # the text is one of Form, by parametrize
    bounds = half(slow, batch)
    expected = clip_rows(torch.cat(list(slow.rows(batch))), module, bounds).sum(0)
    torch.testing.assert_close(query.clipped_sum(batch, bounds), expected, rtol=0, atol=1e-9)
    torch.testing.assert_close(slow.clipped_sum(batch, bounds), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("n", [1, 3, 20])
@pytest.mark.parametrize("name", PIECEWISE)
def test_the_fast_form_is_double_backward(name: str, n: int) -> None:
    agree(build(PIECEWISE[name]), triples(n), "fast")


def test_an_empty_draw_gives_zeros() -> None:
    module = build(PIECEWISE["leaky"])
    found = PenaltyGradient(module, points, form="fast").clipped_sum(triples(0), Bounds(norms=(1.0,)))
    assert found.shape == (PenaltyGradient(module, points).dimension,)
    assert not found.any()


def test_with_labels_as_constant_planes() -> None:
    module = build(lambda: Discriminator((1, 28, 28), 10, 4))
    agree(module, triples(4, 28, labels=True), "fast")


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth_critics_take_the_slow_form_and_say_so(name: str, caplog: pytest.LogCaptureFixture) -> None:
    module, batch = build(SMOOTH[name]), triples(5, labels=True)
    with caplog.at_level(logging.WARNING):
        agree(module, batch, "auto")
    assert "not piecewise linear" in caplog.text
    with pytest.raises(RequestError, match="not piecewise linear"):
        PenaltyGradient(module, points, form="fast").clipped_sum(batch, Bounds(norms=(1.0,)))
    with pytest.raises(RequestError, match="not piecewise linear"):
        PenaltyGradient(module, points, form="fast").clipped_sum(batch, INFINITE)


@pytest.mark.parametrize("make", [PIECEWISE["leaky in place"], PIECEWISE["hardtanh, average pool"], SMOOTH["silu"]])
def test_without_bounds_it_is_the_ordinary_gradient(make: Callable[[], nn.Module]) -> None:
    module, batch = build(make), triples(6)
    losses = penalised_losses(module, points(batch))
    expected = torch.autograd.grad(losses.sum(), list(module.parameters()), materialize_grads=True, allow_unused=True)
    found = PenaltyGradient(module, points).clipped_sum(batch, INFINITE)
    torch.testing.assert_close(found, torch.cat([g.flatten() for g in expected]), rtol=0, atol=1e-9)


def test_the_loss_is_that_of_the_paper() -> None:
    """A linear critic has the slope of its weight everywhere."""
    module = One(nn.Flatten(), nn.Linear(64, 1, bias=False)).double()
    batch = triples(3)
    real, fake, _ = batch.parts
    weight = module.layers[1].weight[0]
    expected = (fake - real).flatten(1) @ weight + 7.0 * (weight.norm() - 1) ** 2
    torch.testing.assert_close(penalised_losses(module, points(batch), penalty=7.0), expected)


def test_by_groups() -> None:
    module, batch = build(PIECEWISE["leaky"]), triples(5)
    slow = PenaltyGradient(module, points, form="slow")
    gradients = torch.cat(list(slow.rows(batch)))
    bounds = Bounds(norms=(0.3 * float(gradients.norm()), 0.05 * float(gradients.norm())), groups=(0, 1, 1, 0, 0, 1))
    found = PenaltyGradient(module, points, form="fast").clipped_sum(batch, bounds)
    torch.testing.assert_close(found, clip_rows(gradients, module, bounds).sum(0), rtol=0, atol=1e-9)


@pytest.mark.parametrize("make", [PIECEWISE["leaky"], PIECEWISE["linear"], SMOOTH["silu"]])
def test_measured_sensitivity(make: Callable[[], nn.Module]) -> None:
    """One huge record more, inserted first, moves the sum by max_norm: no more, and no less."""
    module, batch = build(make), triples(6)
    for part in batch.parts:
        part[0] *= 1e6
    query = PenaltyGradient(module, points)
    whole = query.clipped_sum(batch, Bounds(norms=(0.7,)))
    without = query.clipped_sum(batch[1:], Bounds(norms=(0.7,)))
    assert (whole - without).norm().item() == pytest.approx(0.7, rel=1e-9)


@pytest.mark.parametrize("make", [PIECEWISE["leaky"], SMOOTH["silu"]])
@pytest.mark.parametrize("bounds", [Bounds(norms=(0.7,)), INFINITE])
@pytest.mark.parametrize("part", [0, 1])
def test_a_record_that_is_not_finite_counts_as_zero(make: Callable[[], nn.Module], bounds: Bounds, part: int) -> None:
    module, batch = build(make), triples(4)
    query = PenaltyGradient(module, points)
    others = query.clipped_sum(batch[np.array([0, 1, 3])], bounds)
    batch.parts[part][2, 0, 3, 3] = torch.nan
    torch.testing.assert_close(query.clipped_sum(batch, bounds), others, rtol=0, atol=1e-9)


def test_a_point_between_that_is_not_finite_spoils_no_other_record() -> None:
    """A piecewise-linear critic may still have a finite slope there; the loop says what counts."""
    module, batch, bounds = build(PIECEWISE["leaky"]), triples(4), Bounds(norms=(0.7,))
    batch.parts[2][2, 0, 3, 3] = torch.nan
    expected = PenaltyGradient(module, points, form="slow").clipped_sum(batch, bounds)
    torch.testing.assert_close(PenaltyGradient(module, points).clipped_sum(batch, bounds), expected, rtol=0, atol=1e-9)


def test_a_slope_of_zero_has_no_direction() -> None:
    """Where every unit is dead the penalty is constant: its gradient is zero, not 0 / 0."""
    module = build(lambda: One(nn.Flatten(), nn.Linear(64, 4), nn.ReLU(), nn.Linear(4, 1)))
    with torch.no_grad():
        module.layers[1].bias.fill_(-1e3)
    batch = triples(3)
    found = PenaltyGradient(module, points, form="fast").clipped_sum(batch, INFINITE)
    assert found.isfinite().all()
    assert not found.any()


def test_a_unit_is_clipped_as_a_whole() -> None:
    units = np.array([0, 1, 0, 2])
    module = build(PIECEWISE["leaky"])
    batch = Tensors(triples(4).parts, units)
    gradients = torch.cat(list(PenaltyGradient(module, points, form="slow").rows(batch)))
    by_unit = torch.stack([gradients[units == unit].sum(0) for unit in range(3)])
    bounds = Bounds(norms=(float(by_unit.norm(dim=1).median()),))
    found = PenaltyGradient(module, points, physical_batch_size=1).clipped_sum(batch, bounds)
    torch.testing.assert_close(found, clip_rows(by_unit, module, bounds).sum(0), rtol=0, atol=1e-9)


@pytest.mark.parametrize("n", [3, 24])
def test_float32_error_is_a_millionth_of_n_max_norm(n: int) -> None:
    make = PIECEWISE["leaky"]
    batch = triples(n)
    wide = build(make)
    narrow = build(make).float()
    bounds = Bounds(norms=(1.0,))
    exact = PenaltyGradient(wide.float().double(), points, form="slow")
    single = Tensors(tuple(part.float() for part in batch.parts))
    again = Tensors(tuple(part.double() for part in single.parts))
    within = Bounds(norms=(charged(1.0, torch.float32),))
    expected = clip_rows(torch.cat(list(exact.rows(again))), wide, within).sum(0)
    found = PenaltyGradient(narrow, points, form="fast").clipped_sum(single, bounds)
    assert found.dtype == torch.float32
    assert (found.double() - expected).norm().item() < 1e-6 * n


def test_critics_that_mix_records_are_refused() -> None:
    with pytest.raises(RequestError, match="GroupNorm"):
        PenaltyGradient(conv(nn.BatchNorm2d(3)), points)
    with pytest.raises(RequestError, match="one number per record"):
        PenaltyGradient(nn.Conv2d(1, 1, 3).double(), points).clipped_sum(triples(2), Bounds(norms=(1.0,)))
