"""The clipped sum: what it promises, what it refuses, and when it takes its slow form."""

import logging
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_gradients import clipped_sum, rows
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gossamer.errors import RequestError
from gossamer.nets.dcgan import Discriminator
from gossamer.privacy.per_sample_gradients import clipping, convolution, gradients, rounding
from gossamer.privacy.per_sample_gradients.clipping import clip_rows, empty
from gossamer.privacy.per_sample_gradients.composed import STEPS, attention, recurrent
from gossamer.privacy.per_sample_gradients.convolution import Convolution
from gossamer.privacy.per_sample_gradients.gradients import PerRecordGradient, Tensors
from gossamer.privacy.per_sample_gradients.rounding import charged
from gossamer.privacy.queries import Bounds

INFINITE = Bounds(norms=(math.inf,))


def cross_entropy(module: nn.Module, batch: Tensors) -> Tensor:
    *inputs, target = batch.parts
    return F.binary_cross_entropy_with_logits(module(*inputs), target, reduction="none")


def discriminator(width: int = 8) -> nn.Module:
    torch.manual_seed(0)
    return Discriminator((1, 28, 28), 10, width)


def drawn(n: int, dtype: torch.dtype = torch.float32) -> Tensors:
    generator = torch.Generator().manual_seed(3)
    images = torch.rand(n, 1, 28, 28, generator=generator, dtype=torch.float64).to(dtype)
    labels = torch.randint(0, 10, (n,), generator=generator)
    return Tensors((images, labels, (labels % 2).to(dtype)))


def square(module: nn.Module, batch: Tensors) -> Tensor:
    out = module(batch.parts[0])
    return out.reshape(len(out), -1).square().sum(1)


def reference(
    module: nn.Module, loss: Callable[[nn.Module, Tensors], Tensor], batch: Tensors, bounds: Bounds
) -> Tensor:
    return clip_rows(rows(module, loss, batch), module, bounds).sum(0)


def by_taps(method: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a method; "taps" is how a GPU instantiates."""
    monkeypatch.setattr(convolution, "taps_help", lambda device: method == "taps")
    return "instantiate" if method == "taps" else method


def small() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)).double()


def points(n: int) -> Tensors:
    return Tensors((torch.randn(n, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2)),))


# Precision.


@pytest.mark.parametrize("n", [1, 3, 32])
def test_float32_error_is_a_millionth_of_n_max_norm(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper's discriminator, narrow, against the loop in double precision with the same weights.

    The guard on top of that shortens a gradient, and by less than 3e-5 here.
    """
    module, batch = discriminator(16), drawn(n)
    wide = discriminator(16).double()
    wide.load_state_dict({name: value.double() for name, value in module.state_dict().items()})
    bounds = Bounds(norms=(0.5,))
    expected = reference(wide, cross_entropy, drawn(n, torch.float64), Bounds(norms=(charged(0.5, torch.float32),)))
    guarded = clipped_sum(module, cross_entropy, batch, bounds, form="fast")
    monkeypatch.setattr(rounding, "raised", lambda squares, *_: squares)
    found = clipped_sum(module, cross_entropy, batch, bounds, form="fast")
    assert found.dtype == guarded.dtype == torch.float32
    assert (found.double() - expected).norm().item() < 1e-6 * n * 0.5
    assert (guarded - found).norm().item() < 3e-5 * n * 0.5


@pytest.mark.parametrize("method", ["instantiate", "taps", "gram", "phase"])
@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(3, 4, 4, 2, 1),
        nn.Conv2d(3, 4, 3, 2, 1),
        nn.Conv2d(9, 8, 3, 1, 1),
        nn.Conv2d(9, 8, (3, 2), 1, (0, 1)),
        nn.Conv2d(9, 8, 3, (1, 2), 1),
        nn.ConvTranspose2d(8, 9, 3, 1, 1),
        nn.Conv2d(4, 4, 5, 1, 2, groups=2),
        nn.Conv2d(3, 4, (3, 2), (2, 3), (0, 1), (2, 1)),
        nn.Conv2d(3, 4, 2, 3),
        nn.Conv1d(3, 4, 4, 3, 2),
        nn.ConvTranspose2d(3, 4, 4, 2, 1),
        nn.ConvTranspose2d(4, 6, 3, 3, 1, 1, groups=2),
        nn.Linear(7, 4),
    ],
    ids=str,
)
def test_every_method_agrees_with_the_loop(layer: nn.Module, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The method that counted work would choose is not asked: each must give the same sum, in blocks of one record too."""
    method = by_taps(method, monkeypatch)
    monkeypatch.setattr(clipping, "cheapest", lambda work: method if method in work else "gram")
    monkeypatch.setattr(clipping, "KEEP", 0)
    torch.manual_seed(0)
    module = nn.Sequential(layer, nn.Tanh()).double()
    channels = layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels
    shape = (
        (5, 7) if isinstance(layer, nn.Linear) else (channels, 8) if isinstance(layer, nn.Conv1d) else (channels, 8, 7)
    )
    batch = Tensors((torch.randn(5, *shape, dtype=torch.float64),))
    bounds = Bounds(norms=(float(rows(module, square, batch).norm(dim=1).median()),))
    expected = reference(module, square, batch, bounds)
    for block in (1, clipping.BLOCK):
        monkeypatch.setattr(clipping, "BLOCK", block)
        torch.testing.assert_close(clipped_sum(module, square, batch, bounds, form="fast"), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("keep", [0, clipping.KEEP])
def test_tap_by_tap_where_a_record_has_several_rows(keep: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of one record are n apart; a second use of the weight meets them with another padding."""
    method = by_taps("taps", monkeypatch)
    monkeypatch.setattr(clipping, "cheapest", lambda work: method)
    monkeypatch.setattr(clipping, "KEEP", keep)
    torch.manual_seed(0)
    module = nn.Conv2d(9, 8, 3, padding=1, bias=False).double()

    def loss(layer: nn.Module, batch: Tensors) -> Tensor:
        x = torch.cat([batch.parts[0], batch.parts[1]])
        assert isinstance(layer, nn.Conv2d)
        again = F.conv2d(x[:, :, 1:], layer.weight)
        return layer(x).sin().flatten(1).sum(1) + again.cos().flatten(1).sum(1)

    assert isinstance(
        Convolution((1, 1), (1, 1), (1, 1)).formed(
            torch.ones(1, 9, 6, 5), torch.ones(1, 8, 6, 5), torch.Size((8, 9, 3, 3)), 1
        ),
        Tensor,
    )
    batch = Tensors(tuple(torch.randn(4, 9, 6, 5, dtype=torch.float64) for _ in range(2)))
    alone = [clipped_sum(module, loss, batch[i : i + 1], INFINITE, form="slow", multiplicity=2) for i in range(4)]
    bounds = Bounds(norms=(float(torch.stack(alone).norm(dim=1).median()),))
    expected = clip_rows(torch.stack(alone), module, bounds).sum(0)
    for block in (1, clipping.BLOCK):
        monkeypatch.setattr(clipping, "BLOCK", block)
        found = clipped_sum(module, loss, batch, bounds, form="fast", multiplicity=2)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", ["instantiate", "gram"])
@pytest.mark.parametrize("padding", [None, 2])
def test_every_method_agrees_for_a_table(method: str, padding: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens that come twice add up; the padding row learns nothing."""
    monkeypatch.setattr(clipping, "cheapest", lambda work: method)
    monkeypatch.setattr(clipping, "KEEP", 0)
    torch.manual_seed(0)
    module = nn.Sequential(nn.Embedding(4, 3, padding_idx=padding), nn.Softplus()).double()
    batch = Tensors((torch.tensor([[0, 1, 1], [2, 2, 3], [3, 3, 3], [2, 2, 2]]),))
    bounds = Bounds(norms=(float(rows(module, square, batch).norm(dim=1).median()),))
    expected = reference(module, square, batch, bounds)
    torch.testing.assert_close(clipped_sum(module, square, batch, bounds, form="fast"), expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", ["gram", "phase"])
@pytest.mark.parametrize("shielded", [True, False])
def test_a_gradient_that_cancels_is_bounded(method: str, shielded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adversarial records: output gradients of a million that add up to nothing on equal patches.

    Without the guard the computed norm is rounding noise, and may be zero, while the sum moves by many times max_norm.
    """
    monkeypatch.setattr(clipping, "cheapest", lambda work: method)
    if not shielded:
        monkeypatch.setattr(rounding, "raised", lambda squares, *_: squares.double().clamp(min=0))
    module = nn.Conv2d(2, 3, 4, 2, bias=False)
    query = PerRecordGradient(module, lambda m, b: (m(b.parts[0]) * b.parts[1]).flatten(1).sum(1), form="fast")
    moved = []
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        images = torch.full((1, 2, 16, 16), 1 / 3)
        pulls = 1e6 * torch.randn(1, 3, 7, 7, generator=generator)
        pulls -= pulls.mean((2, 3), keepdim=True)
        moved.append(query.clipped_sum(Tensors((images, pulls)), Bounds(norms=(1e-3,))).norm().item())
    assert (max(moved) <= 1e-3) == shielded


@pytest.mark.parametrize("dtype", [torch.bfloat16, "autocast"])
def test_bfloat16_defines_the_gradient_by_rounded_pairs(dtype: torch.dtype | str) -> None:
    """The sum is float32, near that of float32 arithmetic, and one record moves it by max_norm and no more."""
    module, batch = discriminator(), drawn(6)
    if isinstance(dtype, torch.dtype):
        module, batch = (
            module.to(dtype),
            Tensors(tuple(t.to(dtype) if t.is_floating_point() else t for t in batch.parts)),
        )

    def loss(m: nn.Module, b: Tensors) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == "autocast"):
            return cross_entropy(m, Tensors((*b.parts[:2], b.parts[2]))).float() * b.parts[-1].float()

    scale = torch.ones(6)
    scale[0] = 1e4
    query = PerRecordGradient(module, loss, form="fast")
    parts = (*batch.parts, scale)
    bounds = Bounds(norms=(0.01,))
    whole = query.clipped_sum(Tensors(parts), bounds)
    without = query.clipped_sum(Tensors(parts)[1:], bounds)
    assert whole.dtype == torch.float32
    assert (whole - without).norm().item() <= 0.01
    exact = clipped_sum(discriminator(), cross_entropy, drawn(6), bounds)
    assert (whole - exact).norm() / exact.norm() < 0.2


def test_the_same_question_gives_the_same_bits() -> None:
    query, batch = PerRecordGradient(discriminator(), cross_entropy), drawn(40)
    first = query.clipped_sum(batch, Bounds(norms=(1.0,)))
    again = query.clipped_sum(batch, Bounds(norms=(1.0,)))
    other = PerRecordGradient(discriminator(), cross_entropy).clipped_sum(batch, Bounds(norms=(1.0,)))
    assert torch.equal(first, again)
    assert torch.equal(first, other)


# What a sum is.


@pytest.mark.parametrize("size", [1, 3, 7])
def test_physical_batches_change_nothing(size: int) -> None:
    module, batch, bounds = small(), points(7), Bounds(norms=(0.3,))
    whole = clipped_sum(module, square, batch, bounds)
    torch.testing.assert_close(
        clipped_sum(module, square, batch, bounds, physical_batch_size=size), whole, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("form", ["fast", "slow"])
def test_groups_are_bounded_each_by_its_own_norm(form: str) -> None:
    module, batch = small(), points(1)
    bounds = Bounds(norms=(1e-3, 1e-2), groups=(0, 1, 1, 0))
    total = clipped_sum(module, square, batch, bounds, form=form)  # type: ignore[arg-type]  # the text is one of Form, by parametrize
    parts = total.split([p.numel() for p in module.parameters()])
    assert torch.cat([parts[0], parts[3]]).norm().item() == pytest.approx(1e-3, rel=1e-9)
    assert torch.cat([parts[1], parts[2]]).norm().item() == pytest.approx(1e-2, rel=1e-9)


@pytest.mark.parametrize("size", [1, 2, 512])
def test_a_unit_is_clipped_as_a_whole(size: int) -> None:
    """Units 0 and 7 hold three and two records, scattered; the others one each."""
    units = np.array([0, 7, 0, 3, 5, 7, 0, 1])
    module, batch = small(), Tensors(points(8).parts, units)
    gradients = rows(module, square, batch)
    by_unit = torch.stack([gradients[units == unit].sum(0) for unit in np.unique(units)])
    bounds = Bounds(norms=(float(by_unit.norm(dim=1).median()),))
    expected = clip_rows(by_unit, module, bounds).sum(0)
    found = clipped_sum(module, square, batch, bounds, physical_batch_size=size)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    assert not torch.allclose(found, clipped_sum(module, square, Tensors(batch.parts), bounds))


def test_measured_sensitivity_of_a_unit() -> None:
    """A unit of three huge records, inserted first, moves the sum by max_norm: no more, and no less."""
    module = small()
    records = points(9).parts[0].clone()
    records[:3] *= 1e3
    units = np.array([0, 0, 0, 1, 2, 2, 3, 4, 4])
    whole = clipped_sum(module, square, Tensors((records,), units), Bounds(norms=(0.7,)))
    without = clipped_sum(module, square, Tensors((records[3:],), units[3:]), Bounds(norms=(0.7,)))
    assert (whole - without).norm().item() == pytest.approx(0.7, rel=1e-9)


def test_a_unit_with_a_record_that_is_not_finite_counts_as_zero() -> None:
    records = points(5).parts[0].clone()
    records[1, 0] = torch.nan
    units = np.array([0, 1, 1, 2, 0])
    found = clipped_sum(small(), square, Tensors((records,), units), Bounds(norms=(0.5,)))
    kept = [0, 3, 4]
    expected = clipped_sum(small(), square, Tensors((records[kept],), units[kept]), Bounds(norms=(0.5,)))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_without_bounds_it_is_the_ordinary_gradient() -> None:
    module, batch = small(), points(6)
    expected = torch.autograd.grad(square(module, batch).sum(), list(module.parameters()))
    found = clipped_sum(module, square, batch, INFINITE)
    torch.testing.assert_close(found, torch.cat([g.flatten() for g in expected]), rtol=0, atol=1e-12)
    batch.parts[0][2, 1] = torch.inf
    others = clipped_sum(module, square, Tensors((batch.parts[0][[0, 1, 3, 4, 5]],)), INFINITE)
    torch.testing.assert_close(clipped_sum(module, square, batch, INFINITE), others, rtol=0, atol=1e-12)


def test_a_sum_can_be_added_to_another() -> None:
    module, batch, bounds = small(), points(6), Bounds(norms=(0.3,))
    query = PerRecordGradient(module, square)
    total = query.clipped_sum(batch[:2], bounds)
    assert query.clipped_sum(batch[2:], bounds, out=total) is total
    torch.testing.assert_close(total, query.clipped_sum(batch, bounds), rtol=0, atol=1e-12)


class Twice(nn.Module):
    """One matrix meets every record twice, another once, and a third never."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.again, self.unused = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.again(self.again(self.first(x)).tanh())


@pytest.mark.parametrize("form", ["fast", "slow"])
@pytest.mark.parametrize("bounds", [Bounds(norms=(0.3,)), INFINITE])
@pytest.mark.parametrize("n", [0, 1, 6, 7])
@pytest.mark.parametrize("units", [False, True])
def test_what_stood_in_the_memory_of_a_new_sum_is_never_read(
    form: Any, bounds: Bounds, n: int, units: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch writes where others add. Whatever it does not write must be zero, not what a former user left."""
    batch = Tensors(points(n).parts, np.arange(n) // 2 if units else None)

    def summed(module: nn.Module) -> Tensor:
        return clipped_sum(module, square, batch, bounds, form=form, physical_batch_size=3)

    module = Twice().double()
    expected = summed(module)
    monkeypatch.setattr(gradients, "empty", lambda module: empty(module).fill_(torch.nan))
    assert torch.equal(summed(module), expected)
    if n and not units:
        by_hand = reference(module, square, batch, bounds)
        torch.testing.assert_close(expected, by_hand, rtol=0, atol=1e-2 * n * min(1.0, bounds.norms[0]))


def test_what_stood_in_the_memory_of_a_new_sum_is_not_read_with_constant_planes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module, batch = discriminator(4), drawn(3)
    expected = clipped_sum(module, cross_entropy, batch, Bounds(norms=(0.5,)), form="fast")
    monkeypatch.setattr(gradients, "empty", lambda module: empty(module).fill_(torch.nan))
    assert torch.equal(clipped_sum(module, cross_entropy, batch, Bounds(norms=(0.5,)), form="fast"), expected)


def test_leaves_no_trace_on_the_module() -> None:
    module = small()
    clipped_sum(module, square, points(3), Bounds(norms=(1.0,)))
    assert all(p.grad is None and p.requires_grad for p in module.parameters())


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True), min_size=8, max_size=8),
    st.floats(min_value=1e-6, max_value=1e6),
)
def test_no_values_move_the_sum_by_more_than_max_norm(values: list[float], max_norm: float) -> None:
    """Two records of any values, finite or not, in single precision."""
    torch.manual_seed(1)
    module = nn.Sequential(nn.Conv1d(1, 3, 2), nn.LeakyReLU(0.2), nn.Conv1d(3, 2, 2))
    batch = Tensors((torch.tensor(values, dtype=torch.float32).view(2, 1, 4),))
    query = PerRecordGradient(module, square, form="fast")
    first = query.clipped_sum(batch[:1], Bounds(norms=(max_norm,)))
    both = query.clipped_sum(batch, Bounds(norms=(max_norm,)))
    assert both.isfinite().all()
    assert (both - first).norm().item() <= max_norm


# Slow form.


class ByAVector(nn.Module):
    """A linear map whose weight is a vector, which torch allows."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.weight = nn.Linear(5, 5), nn.Parameter(torch.linspace(-1, 1, 5))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.first(x), self.weight)


def test_a_weight_that_is_a_vector_takes_the_slow_form() -> None:
    torch.manual_seed(0)
    net, batch = ByAVector(), Tensors((torch.randn(7, 5),))

    def loss(module: nn.Module, held: Tensors) -> Tensor:
        return torch.as_tensor(module(held.parts[0])).square()

    query = PerRecordGradient(net, loss)
    found = query.clipped_sum(batch, Bounds(norms=(1e9,)))
    torch.testing.assert_close(found, rows(net, loss, batch).sum(0))
    assert query.memory.slow


class By(nn.Module):
    """A parameter, used in a way that the tape does not know."""

    def __init__(self, use: Callable[[Tensor, Tensor], Tensor], *shape: int) -> None:
        super().__init__()
        self.numbers, self.use = nn.Parameter(torch.randn(shape)), use

    def forward(self, x: Tensor) -> Tensor:
        return self.use(x, self.numbers)


def without_gradient(x: Tensor, p: Tensor) -> Tensor:
    """A part of a parameter that does not learn here, beside one that does."""
    with torch.no_grad():
        fixed = p[:2]
    return F.linear(x, fixed, p[2, :2])


def turned() -> By:
    module = By(lambda x, p: F.linear(x, p[1:]), 1)
    module.numbers = nn.Parameter(torch.randn(4, 3).t())
    return module


def packed(layer: nn.GRU, x: Tensor) -> Tensor:
    return layer(nn.utils.rnn.pack_padded_sequence(x[:, None], [1] * len(x), batch_first=True))[1][0]


class Called(nn.Module):
    """A layer of torch, called in a way that the tape does not know."""

    def __init__(self, layer: nn.Module, call: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.call = layer, call

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self.layer, x)


class Scaled(nn.Module):
    """A weight that is changed before it is used."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 4))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight / self.weight.norm())


class Positioned(nn.Module):
    """A learnt position, looked up without the records: its first dimension is the length of a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.places, self.out = nn.Embedding(4, 3), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.tanh(x[:, :, None] + self.places(torch.arange(x.shape[1]))))


class Transposed(nn.Module):
    """The records are the second dimension where the weight meets them."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x.t()[:, :, None]).transpose(0, 1)


class Checkpointed(nn.Module):
    """Activations computed again in the backward pass, where the tape does not look."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.inner, self.outer, self.reentrant = nn.Linear(4, 6), nn.Linear(6, 2), reentrant

    def forward(self, x: Tensor) -> Tensor:
        x = x.clone().requires_grad_()
        return self.outer(checkpoint(lambda y: self.inner(y).tanh(), x, use_reentrant=self.reentrant))


def absolute(module: nn.Module, batch: Tensors) -> Tensor:
    return torch.as_tensor(module(batch.parts[0])).abs().square().sum(1)


def slope_of(module: nn.Module, batch: Tensors) -> Tensor:
    x = batch.parts[0].detach().requires_grad_()
    (slope,) = torch.autograd.grad(square(module, Tensors((x,))).sum(), x, create_graph=True)
    return slope.square().sum(1)


UNKNOWN: dict[str, tuple[Callable[[], nn.Module], Callable[[nn.Module, Tensors], Tensor], str]] = {
    "exponential": (lambda: By(lambda x, p: x * p.exp(), 4), square, "the use of 'numbers' by"),
    "overlapping view": (lambda: By(lambda x, p: F.linear(x, p.unfold(0, 4, 1)), 6), square, "the use of 'numbers' by"),
    "a view as complex": (
        lambda: By(lambda x, p: x[:, :2] * torch.view_as_complex(p), 2, 2),
        absolute,
        "the use of 'numbers'",
    ),
    "a row of its own": (lambda: By(lambda x, p: x + p[: len(x)], 11, 4), square, "the use of 'numbers' by"),
    "view without gradient": (lambda: By(without_gradient, 4, 4), square, "the use of 'numbers' by"),
    "view in another order of memory": (turned, square, "the use of 'numbers' by"),
    "added without records": (
        lambda: By(lambda x, p: x + (p + torch.ones(2, 4))[0], 4),
        square,
        "Copies on an input whose",
    ),
    "attention to a learnt key": (
        lambda: Called(
            nn.MultiheadAttention(4, 2, add_bias_kv=True, batch_first=True), lambda f, x: f(*[x[:, None]] * 3)[0]
        ),
        square,
        "the use of 'layer.out_proj.bias' by",
    ),
    "packed sequence": (
        lambda: Called(nn.GRU(4, 3, batch_first=True), packed),
        square,
        "the use of 'layer.bias_hh_l0' by",
    ),
    "changed weight": (Scaled, square, "the use of 'weight' by"),
    "position as long as the batch": (Positioned, square, "Embedding on an input whose first dimension"),
    "transposed": (Transposed, square, "Linear on an input whose first dimension"),
    "gradient in the loss": (small, slope_of, "gradient taken inside the loss"),
    "checkpoint": (lambda: Checkpointed(True), square, "activation checkpointing"),
    "checkpoint without reentry": (lambda: Checkpointed(False), square, "activation checkpointing"),
}


def test_a_mask_of_truth_values_hides_in_a_larger_function() -> None:
    """As torch does it where its function is called by itself; a layer makes numbers of the mask before."""
    x, hidden = torch.randn(4, 2, 6), torch.tensor([[False, True, True, True]]).expand(4, -1)
    weights = torch.randn(18, 6), None, torch.randn(6, 6), None
    given = x, x, x, 6, 2, weights[0], None, None, None, False, 0.0, weights[2], None
    expected, _ = F.multi_head_attention_forward(*given, attn_mask=hidden)
    found = attention(F.linear, *given, attn_mask=hidden)
    assert found is not None
    assert torch.allclose(found[0], expected, atol=1e-6)


def test_random_masks_inside_a_larger_function_are_not_left_out() -> None:
    """They are refused before, where made-up records show them; where those fail, torch's function stays in place."""
    x, w, h = torch.randn(3, 5, 4), [torch.randn(12, 4), torch.randn(12, 4)] * 2, torch.zeros(2, 5, 4)
    assert recurrent(STEPS[torch.gru], F.linear, x, h, w, False, 2, 0.5, True, False, False) is None
    projections = torch.randn(12, 4), None, None, None, False
    assert attention(F.linear, x, x, x, 4, 2, *projections, 0.5, torch.randn(4, 4), None) is None
    assert attention(F.linear, x, x, x, 4, 2, *projections, 0.0, torch.randn(4, 4), None) is not None


@pytest.mark.parametrize(
    "layer",
    [
        Called(nn.MultiheadAttention(4, 2, dropout=0.5, batch_first=True), lambda f, x: f(*[x[:, None]] * 3)[0]),
        Called(nn.GRU(4, 3, 2, dropout=0.5, batch_first=True), lambda f, x: f(x[:, None])[1][0]),
    ],
    ids=["attention", "recurrent"],
)
def test_random_masks_inside_a_larger_function_are_refused(layer: nn.Module) -> None:
    """Its linear maps are known, its masks come from the common stream."""
    with pytest.raises(RequestError, match="common stream"):
        PerRecordGradient(layer, square).clipped_sum(Tensors((torch.randn(5, 4),)), Bounds(norms=(1.0,)))


@pytest.mark.parametrize("n", [4, 5])
@pytest.mark.parametrize("name", UNKNOWN)
def test_what_the_tape_does_not_know_goes_slowly_and_says_so_once(
    name: str, n: int, caplog: pytest.LogCaptureFixture
) -> None:
    build, loss, said = UNKNOWN[name]
    torch.manual_seed(0)
    module, batch = build().double(), points(n)
    bounds = Bounds(norms=(float(rows(module, loss, batch).norm(dim=1).median()),))
    expected = reference(module, loss, batch, bounds)
    query = PerRecordGradient(module, loss)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            torch.testing.assert_close(query.clipped_sum(batch, bounds), expected, rtol=0, atol=1e-9)
    assert len(caplog.records) == 1
    assert said in caplog.text
    with pytest.raises(RequestError, match=said):
        PerRecordGradient(module, loss, form="fast").clipped_sum(batch, bounds)


class Centred(nn.Module):
    """Takes the mean of the batch away: mixes records."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = self.inner(x)
        return y - y.mean(0)


def test_mixed_records_are_noticed() -> None:
    torch.manual_seed(0)
    clipped_sum(small(), square, points(3), Bounds(norms=(1.0,)), form="fast")
    with pytest.raises(RequestError, match="other records"):
        clipped_sum(Centred().double(), square, points(3), Bounds(norms=(1.0,)), form="fast")


# Refusals.


@pytest.mark.parametrize(
    ("layer", "remedy"),
    [
        (nn.BatchNorm1d(4), "GroupNorm"),
        (nn.BatchNorm1d(4, track_running_stats=False).eval(), "GroupNorm"),
        (nn.InstanceNorm1d(4, track_running_stats=True), "track_running_stats=False"),
        (nn.Dropout(0.5), "secret_generator"),
        (nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)), "eval"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_layers_that_mix_records_are_refused_with_the_remedy(layer: nn.Module, remedy: str) -> None:
    with pytest.raises(RequestError, match=rf"layer '0.*{remedy}"):
        PerRecordGradient(nn.Sequential(layer, nn.Linear(4, 2)), square)


def test_the_same_layers_are_taken_where_they_mix_nothing() -> None:
    """In evaluation mode, with the loop's answer."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.BatchNorm1d(4, affine=False), nn.Dropout(0.5), nn.Linear(4, 2)).double().eval()
    batch, bounds = points(3), Bounds(norms=(0.1,))
    found = clipped_sum(module, square, batch, bounds, form="fast")
    torch.testing.assert_close(found, reference(module, square, batch, bounds), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "function", [lambda x: F.batch_norm(x, None, None, training=True), lambda x: F.dropout(x, 0.5), F.alpha_dropout]
)
def test_functions_that_mix_records_are_refused(function: Callable[[Tensor], Tensor]) -> None:
    if function is F.alpha_dropout:
        function = lambda x: F.alpha_dropout(x, 0.5, True)  # noqa: E731  # its default is off
    query = PerRecordGradient(small(), lambda m, b: square(m, Tensors((function(b.parts[0]),))))
    with pytest.raises(RequestError, match=r"GroupNorm|secret_generator"):
        query.clipped_sum(points(3), Bounds(norms=(1.0,)))


def test_a_loss_must_be_one_number_per_record() -> None:
    with pytest.raises(RequestError, match="one number per record"):
        clipped_sum(small(), lambda m, b: square(m, b).mean(), points(3), Bounds(norms=(1.0,)))


@pytest.mark.parametrize(
    "bounds",
    [Bounds(norms=(1.0, 1.0)), Bounds(norms=(1.0,), groups=(0, 0)), Bounds(norms=(1.0,), groups=(0, 0, 0, 1))],
    ids=["no groups", "too few", "no such bound"],
)
def test_bounds_must_fit_the_module(bounds: Bounds) -> None:
    with pytest.raises(RequestError, match="group"):
        clipped_sum(small(), square, points(3), bounds)


# A second opinion.


# Opacus warns about its own use of torch's hooks and of random numbers; neither touches per-record gradients.
@pytest.mark.filterwarnings("ignore")
def test_opacus_agrees() -> None:
    from opacus import GradSampleModule

    batch, bounds = drawn(6, torch.float64), Bounds(norms=(0.4,))
    module = discriminator().double()
    found = clipped_sum(module, cross_entropy, batch, bounds, form="fast")
    wrapped = GradSampleModule(module, loss_reduction="sum")
    cross_entropy(wrapped, batch).sum().backward()
    gradients = torch.cat([p.grad_sample.flatten(1) for p in wrapped.parameters()], 1)
    expected = clip_rows(gradients, wrapped, bounds).sum(0)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
