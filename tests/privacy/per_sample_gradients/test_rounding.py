"""Rounding lets no record add more than max_norm: adversarial vectors, for every layer, in every form.

What a record adds is measured in double precision from the sum that comes back, and compared with max_norm itself. Here output
gradients are whatever the record says (`pulled`), so that its terms can cancel as it likes.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_gradients import clipped_sum
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from gossamer.methods.dp_wgan.nets import Critic
from gossamer.privacy.mechanisms.sanitized_rows import clipped
from gossamer.privacy.mechanisms.two_term import clip_whole
from gossamer.privacy.per_sample_gradients import clipping, convolution, ghost
from gossamer.privacy.per_sample_gradients.clipping import clip_rows, row_norms, summed_calls
from gossamer.privacy.per_sample_gradients.gradients import PerRecordGradient, Tensors
from gossamer.privacy.per_sample_gradients.layers import Linear
from gossamer.privacy.per_sample_gradients.penalty import PenaltyGradient, Points
from gossamer.privacy.per_sample_gradients.rounding import (
    SLACK,
    UNDERFLOW,
    charged,
    full_precision,
    gram,
    instantiated,
    paired,
    roundings,
    square_norms,
)
from gossamer.privacy.queries import Bounds

ONE = Bounds(norms=(1.0,))
EPS = torch.finfo(torch.float32).eps
NO_LESS = 1 - 1.25 * SLACK * EPS  # of max_norm: what is left for a record of which little cancels


def pulled(module: nn.Module, batch: Tensors) -> Tensor:
    """The output times the record's own pulls: these are the output gradients."""
    inputs, pulls = batch.parts
    return (module(inputs) * pulls).flatten(1).sum(1)


def added(module: nn.Module, inputs: Tensor, pulls: Tensor, bounds: Bounds = ONE, form: str = "fast") -> float:
    """L2 norm of what one record adds. inputs and pulls without the dimension of the record."""
    batch = Tensors((inputs[None], pulls[None]))
    total = clipped_sum(module, pulled, batch, bounds, form=form)  # type: ignore[arg-type]  # the text is one of Form, by parametrize
    return total.double().norm().item()


@pytest.fixture(params=[1, 2])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


# Long products.


def near(n: int, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Two positions of nearly equal entries whose output gradients cancel: the products are summed with a rounding that
    always goes one way, and what is left of the gradient is not far above the error."""
    constants = torch.rand(n, generator=torch.Generator().manual_seed(size)) + 0.1
    for constant, apart in itertools.product(constants.tolist(), (3e-3, 5e-3, 1e-2, 4e-2)):
        yield torch.full((size,), constant), torch.full((size,), constant * (1 + apart))


@pytest.mark.parametrize("size", [256, 4096, 20_000])
def test_two_positions_that_cancel_in_a_long_product(size: int, threads: int) -> None:
    """nn.Linear(size, 16) on two positions with the loss y_0 - y_1."""
    module = nn.Linear(size, 16, bias=False)
    pulls = 1e3 * torch.stack([torch.ones(16), -torch.ones(16)])
    found = [added(module, torch.stack(both), pulls) for both in near(6, size)]
    assert max(found) <= 1.0
    assert max(found) > 0.3


class Flat(nn.Module):
    """A critic that is one linear map, with a slope of length 1: the penalty pulls at nothing."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.out = nn.Linear(size, 1, bias=False)
        nn.init.constant_(self.out.weight, size**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(x).squeeze(1) * 1e3


@pytest.mark.parametrize("size", [4096, 20_000])
def test_three_meetings_of_a_critic_that_cancel(size: int) -> None:
    """The last layer meets a record three times: as a fake, as itself, and through the penalty."""
    query = PenaltyGradient(Flat(size), lambda batch: Points(*batch.parts), penalty=1e-9, form="fast")
    found = [
        query.clipped_sum(Tensors((real[None], fake[None], real[None])), ONE).double().norm().item()
        for real, fake in near(6, size)
    ]
    assert max(found) <= 1.0
    assert max(found) > 0.3


def test_three_meetings_of_the_shipped_critic_that_cancel() -> None:
    """Weights of one size make the features of a plain image equal; the fake is the same image in another shade."""
    module = Critic((1, 28, 28), 1, 64)
    for p in module.parameters():
        nn.init.constant_(p, 1 / p[0].numel())
    groups = tuple(int(name == "out.weight") for name, _ in module.named_parameters())

    def pairs(batch: Tensors) -> Points:
        return Points(*batch.parts, labels=torch.zeros(len(batch), dtype=torch.int64))

    query = PenaltyGradient(module, pairs, penalty=1e-9, form="fast")
    found = []
    for level, apart in itertools.product((0.13, 0.37, 0.71), (4e-3, 1e-2, 3e-2)):
        real = torch.full((1, 1, 28, 28), level)
        total = query.clipped_sum(Tensors((real, real * (1 + apart), real)), Bounds(norms=(1.0, 1e-4), groups=groups))
        found.append(total[-module.out.weight.numel() :].double().norm().item() / 1e-4)
    assert max(found) <= 1.0
    assert max(found) > 0.3


# Every layer in every form.

LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(700, 5), (3, 700)),
    "linear alone": (lambda: nn.Linear(1500, 3), (1500,)),
    "convolution": (lambda: nn.Conv2d(8, 6, 3, 2, 1), (8, 9, 9)),
    "convolution k4": (lambda: nn.Conv2d(3, 4, 4, 2, 1), (3, 10, 8)),
    "wide": (lambda: nn.Conv2d(96, 4, 3), (96, 6, 6)),
    "groups": (lambda: nn.Conv2d(4, 6, 3, groups=2), (4, 7, 7)),
    "one position": (lambda: nn.Conv2d(8, 4, 6), (8, 6, 6)),
    "one dimension": (lambda: nn.Conv1d(3, 4, 4, 3), (3, 20)),
    "transposed": (lambda: nn.ConvTranspose2d(3, 4, 4, 2, 1), (3, 6, 6)),
    "layer norm": (lambda: nn.LayerNorm(40), (5, 40)),
    "group norm": (lambda: nn.GroupNorm(2, 4), (4, 6, 6)),
}


class Twice(nn.Module):
    """One weight, two uses by one record, and their difference: nothing for an image of one shade."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(3, 4, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x[:, :, 1:]) - self.layer(x[:, :, :-1])


class Planes(nn.Module):
    """A label over an image: constant planes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(5, 4, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x[:, :, None, None].expand(-1, -1, 6, 6))


LAYERS["twice"] = (Twice, (3, 7, 7))
LAYERS["planes"] = (Planes, (5,))


def force(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every layer take this form, where it has it."""
    if form != "kept":
        monkeypatch.setattr(clipping, "KEEP", 0)
    monkeypatch.setattr(convolution, "taps_help", lambda device: form == "taps")
    method = "instantiate" if form in ("kept", "taps") else form
    monkeypatch.setattr(clipping, "cheapest", lambda work: method if method in work else "gram")


def adversaries(shape: tuple[int, ...], output: torch.Size, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Equal entries, nearly equal ones, ordinary ones; pulls that add up to nothing over positions; huge and tiny scales."""
    generator = torch.Generator().manual_seed(seed)
    noise, pulls = torch.randn(shape, generator=generator), torch.randn(output, generator=generator)
    level = float(torch.rand((), generator=generator)) + 0.1
    places = tuple(range(1, len(output))) or (0,)
    balanced = pulls - pulls.mean(places, keepdim=True)
    alternating = torch.ones(output).flatten()
    alternating[1::2] = -1
    for apart in (0.0, 1e-7, 1e-5, 1e-3):
        inputs = torch.full(shape, level) * (1 + apart * noise)
        for chosen in (pulls, balanced, alternating.view(output)):
            yield inputs, 1e6 * chosen
    for up, down in ((1e15, 1e-12), (1e-20, 1e18), (1e12, 1e3), (1e-22, 1e-3)):
        yield noise * up, pulls * down
        yield torch.full(shape, level * up), balanced * down


@pytest.mark.parametrize("form", ["kept", "instantiate", "taps", "gram", "phase", "slow"])
@pytest.mark.parametrize("name", LAYERS)
def test_no_adversary_adds_more_than_max_norm(name: str, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if form != "slow":
        force(form, monkeypatch)
    build, shape = LAYERS[name]
    torch.manual_seed(0)
    module = build()
    output = module(torch.zeros(1, *shape)).shape[1:]
    found = [
        added(module, *each, bounds, "slow" if form == "slow" else "fast") / bounds.norms[0]
        for seed, bounds in enumerate((ONE, Bounds(norms=(1e-3,))))
        for each in adversaries(shape, output, seed)
    ]
    assert max(found) <= 1.0
    assert max(found) > NO_LESS


@pytest.mark.parametrize("form", ["kept", "instantiate", "gram"])
def test_no_sequence_of_tokens_adds_more_than_max_norm(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    force(form, monkeypatch)
    module = nn.Embedding(4, 600)
    found = []
    for seed, tokens in enumerate(([1, 1, 1, 1], [1, 2, 1, 2], [0, 1, 2, 3])):
        for _, pulls in adversaries((1,), torch.Size((4, 600)), seed):
            balanced = pulls - pulls.mean(0)
            found += [added(module, torch.tensor(tokens), each) for each in (pulls, balanced)]
            equal = torch.full((600,), float(pulls[0, 0]))
            found.append(added(module, torch.tensor(tokens), torch.stack([equal, -equal, equal * 1.001, -equal])))
    assert max(found) <= 1.0
    assert max(found) > NO_LESS


@pytest.mark.parametrize("multiplicity", [2, 3])
def test_rows_of_one_record_that_cancel(multiplicity: int) -> None:
    """Several rows of the batch belong to the record; the last one takes back what the others gave."""
    module = nn.Linear(4096, 2, bias=False)

    def loss(m: nn.Module, batch: Tensors) -> Tensor:
        return pulled(m, Tensors(tuple(part.transpose(0, 1).flatten(0, 1) for part in batch.parts)))

    found = []
    for first, last in near(8, 4096):
        inputs = torch.stack([*[first] * (multiplicity - 1), last])
        pulls = torch.cat([torch.ones(multiplicity - 1, 2), torch.full((1, 2), 1.0 - multiplicity)]) * 1e4
        total = clipped_sum(
            module, loss, Tensors((inputs[None], pulls[None])), ONE, form="fast", multiplicity=multiplicity
        )
        found.append(total.double().norm().item())
    assert max(found) <= 1.0
    assert max(found) > 0.3


def test_beside_others_too() -> None:
    """An adversary, first in the batch, moves a sum of 64 ordinary records by max_norm and no more."""
    torch.manual_seed(0)
    module = nn.Conv2d(64, 8, 3, bias=False)
    query = PerRecordGradient(module, pulled, form="fast")
    others = torch.randn(64, 64, 8, 8), 10 * torch.randn(64, 8, 6, 6)
    without = query.clipped_sum(Tensors(others), ONE).double()
    found = []
    for inputs, pulls in adversaries((64, 8, 8), torch.Size((8, 6, 6)), 3):
        batch = Tensors((torch.cat([inputs[None], others[0]]), torch.cat([pulls[None], others[1]])))
        found.append((query.clipped_sum(batch, ONE).double() - without).norm().item())
    assert max(found) <= 1.0
    assert max(found) > NO_LESS


def test_a_unit_whose_records_cancel() -> None:
    """Its gradient is formed and clipped as it is, in pieces of one record and in one."""
    module = nn.Linear(4096, 4, bias=False)
    for size in (1, 8):
        for first, last in near(4, 4096):
            batch = Tensors((torch.stack([first, last]), torch.tensor([[1e4], [-1e4]]).expand(2, 4)), np.array([3, 3]))
            query = PerRecordGradient(module, pulled, physical_batch_size=size)
            assert NO_LESS < query.clipped_sum(batch, ONE).double().norm().item() <= 1.0


# What is proved, number by number.


def exact(u: Tensor, b: Tensor) -> Tensor:
    """[m] norm of the sum over positions of b_t outer u_t, of what these numbers are."""
    return (b.double() @ u.double().transpose(1, 2)).flatten(1).norm(dim=1)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**31),
    st.sampled_from([1, 2, 3, 5, 30]),
    st.sampled_from([3, 511, 513, 2048, 5000]),
    st.floats(-9, 0),
)
def test_the_computed_norm_is_an_upper_bound(seed: int, positions: int, size: int, digits: float) -> None:
    """Of the true gradient, and of the gradient as float32 matrix products form it in any order of positions."""
    generator = torch.Generator().manual_seed(seed)
    level = torch.rand(4, 1, 1, generator=generator) + 0.1
    u = level * (1 + 10**digits * torch.randn(4, size, positions, generator=generator))
    u[2:] = level[2:] * (1 + 10**digits * torch.randn(2, 1, positions, generator=generator))
    b = torch.randn(4, 7, positions, generator=generator)
    b -= b.mean(2, keepdim=True) * (positions > 1)
    b[1::2] = b[1::2, :1]
    formed = (b.flip(2) @ u.flip(2).transpose(1, 2)).double().flatten(1).norm(dim=1)
    truth = torch.maximum(exact(u, b), formed)
    steps = roundings(size, positions) + roundings(7, positions)
    for found in (paired(gram(u), gram(b), u.dtype, steps), instantiated(u, b)):
        assert found.dtype == torch.float64
        assert bool((found.sqrt() * (1 + SLACK * EPS) >= truth).all())


class OneByOne(TorchFunctionMode):
    """Matrix products that add one product after the other in single precision: an order that a library may choose."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func not in (Tensor.matmul, Tensor.__matmul__) or args[0].dtype != torch.float32:
            return func(*args, **(kwargs or {}))
        products = args[0].numpy()[:, :, :, None] * args[1].numpy()[:, None]
        return torch.from_numpy(np.cumsum(products, axis=2, dtype=np.float32)[:, :, -1])


@pytest.mark.parametrize("size", [512, 20_000])
def test_the_order_of_a_sum_does_not_matter(size: int) -> None:
    """Six positions of nearly equal entries that cancel. Summed one by one the products lose 60 machine epsilons in pieces of
    512 numbers, and 2,500 without."""
    b = torch.tensor([1.0, -1.0]).repeat(3).expand(1, 2, 6)
    for both in near(20, size):
        u = torch.stack(both * 3, 1)[None]
        with OneByOne():
            found = paired(gram(u), gram(b), u.dtype, roundings(size, 6) + roundings(2, 6))
            others = instantiated(u, b)
        assert bool((found.sqrt() >= exact(u, b)).all())
        assert bool((others.sqrt() >= exact(u, b)).all())


def test_the_norm_makes_room_for_what_the_weight_gradient_call_rounds() -> None:
    """(T + 1) machine epsilons of what the terms come to: more than rounding took from the norm itself."""
    generator = torch.Generator().manual_seed(0)
    u, b = torch.rand(8, 3, 300, generator=generator), torch.rand(8, 2, 300, generator=generator)
    terms = (u.double().norm(dim=1) * b.double().norm(dim=1)).sum(1)
    for found in (paired(gram(u), gram(b), u.dtype, roundings(3, 300) + roundings(2, 300)), instantiated(u, b)):
        assert bool((found.sqrt() >= exact(u, b) + 301 * EPS * terms).all())


@pytest.mark.parametrize("positions", [2, 6])
def test_terms_that_cancel_stay_below_512_max_norm(positions: int) -> None:
    """What other records' partial sums are rounded beside."""
    u = torch.ones(1, 700, 1).expand(1, 700, positions)
    b = torch.tensor([1.0, -1.0]).repeat(positions // 2).expand(1, 3, positions)
    terms = positions * (700 * 3) ** 0.5
    for found in (paired(gram(u), gram(b), u.dtype, 0), instantiated(u, b)):
        assert terms / found.sqrt().item() <= 513


def test_an_ordinary_norm_is_hardly_raised() -> None:
    """49 positions, 2,048 products: a tenth of a per cent."""
    generator = torch.Generator().manual_seed(0)
    u, b = torch.randn(8, 2048, 49, generator=generator), torch.randn(8, 256, 49, generator=generator)
    for found in (paired(gram(u), gram(b), u.dtype, roundings(2048, 49) + roundings(256, 49)), instantiated(u, b)):
        assert bool((found.sqrt() / exact(u, b) < 1.002).all())


def test_squares_are_summed_in_pieces() -> None:
    """A million equal numbers: one sum in single precision may be off by their number, pieces by theirs."""
    rows = torch.stack([torch.full((2**20 + 5,), c) for c in (0.1, 0.3, 1e-30, 3e15)])
    found = square_norms(rows)
    truth = rows.double().square().sum(1)
    assert bool((found >= truth * (1 - 520 * EPS)).all())
    assert bool((found <= truth * (1 + 520 * EPS) + 1e-30).all())
    assert square_norms(torch.zeros(0, 3)).shape == (0,)
    assert not square_norms(torch.tensor([[torch.nan], [torch.inf]])).isfinite().any()


@pytest.mark.parametrize("scale", [0.8, 1.0, 1.05])
def test_products_that_overflow_below_zero(scale: float) -> None:
    """Fifty terms against one, of 2.5e19 together: a column of products of -1e40 is -inf, which is no norm of zero."""
    against = 1.7e19
    pulls = torch.zeros(51, 512)
    pulls[:, 0] = (against + 2.5e19) / 50 * scale
    pulls[50, 0] = -against * scale
    inputs = torch.zeros(51, 512)
    inputs[:, 0] = 1.0
    assert added(nn.Linear(512, 512, bias=False), inputs, pulls) <= 1.0


@pytest.mark.parametrize("form", ["product", "planes", "kept"])
def test_squares_that_vanish(form: str) -> None:
    """Numbers of 1e-23 have no square in single precision: a gradient of rank one has a length that its factors hide."""
    bounds, wide, narrow = Bounds(norms=(1e-9,)), torch.full((200,), 8e-24), torch.full((200,), 1e17)
    module: nn.Module = nn.Linear(200, 200, bias=False)
    if form == "planes":
        module = nn.Conv2d(200, 200, 1, bias=False)
        planes = Tensors((wide[None], narrow[None]))
        total = clipped_sum(
            module, lambda m, b: (m(b.parts[0][:, :, None, None].expand(-1, -1, 1, 2))[..., 0].flatten(1) * b.parts[1]).sum(1),
            planes, bounds, form="fast",
        )  # fmt: skip
        moved = total.double().norm().item()
    elif form == "kept":
        bounds = Bounds(norms=(1e-22,))
        moved = clip_rows(wide.expand(1, -1).repeat(1, 200), module, bounds).double().norm().item()
    else:
        moved = added(module, wide, narrow, bounds)
    assert moved <= bounds.norms[0]


# What is charged.


def test_the_slack_is_charged() -> None:
    """A bound is divided by 1.001 in single precision, by next to nothing in double precision."""
    assert charged(1.0, torch.float32) == pytest.approx(1 / 1.000977, rel=1e-6)
    assert charged(1.0, torch.float64) == pytest.approx(1.0, rel=1e-11)
    assert charged(float("inf"), torch.float32) == float("inf")
    assert UNDERFLOW * torch.finfo(torch.float32).tiny < 1e-25
    module = nn.Linear(3, 2)
    big = torch.full((1, 8), 1e3)
    for bound in (0.1, 1.0, 30.0):
        moved = clip_rows(big, module, Bounds(norms=(bound,))).double().norm().item() / bound
        assert moved == pytest.approx(charged(1.0, torch.float32), rel=1e-6)


def test_votes_see_the_norm_itself() -> None:
    """The slack is taken from bounds, not added to norms."""
    module = nn.Linear(3, 2)
    rows = torch.arange(1.0, 9.0)[None]
    torch.testing.assert_close(row_norms(rows, module, (0, 0)), rows.norm(dim=1)[None], rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_rows_and_whole_answers_stay_within(dtype: torch.dtype) -> None:
    """A narrow row is widened: rounding it back would carry it over its bound."""
    rows = (torch.randn(50, 300, generator=torch.Generator().manual_seed(0)) * 3).to(dtype)
    found = clipped(rows, 0.7)
    assert found.dtype == torch.promote_types(dtype, torch.float32)
    whole = torch.stack([clip_whole(row, 0.7) for row in rows])
    for answer in (found, whole):
        assert float(answer.double().norm(dim=1).max()) <= 0.7
        assert float(answer.double().norm(dim=1).min()) > 0.7 * (1 - 1e-5)


# Full precision.


BACKENDS: Any = torch.backends
NEW = hasattr(BACKENDS.cuda.matmul, "fp32_precision")
PLACES = [BACKENDS.cuda.matmul, BACKENDS.cudnn.conv, BACKENDS.mkldnn.matmul, BACKENDS.mkldnn.conv] if NEW else []


@pytest.fixture
def narrow_products() -> Iterator[None]:
    """Products of float32 numbers may be rounded to bfloat16 or TF32, on every device."""
    before = [place.fp32_precision for place in PLACES]
    for place in PLACES:
        place.fp32_precision = "bf16" if "mkldnn" in repr(type(place)) + repr(place) else "tf32"
    yield
    for place, precision in zip(PLACES, before, strict=True):
        place.fp32_precision = precision


@pytest.mark.skipif(not NEW, reason="torch keeps its precision elsewhere before 2.9")
def test_norms_and_sums_are_in_full_precision(narrow_products: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """TF32 and bfloat16 are off while norms are taken and sums are formed, and on again afterwards; on a CPU too."""
    seen: list[list[str]] = []

    def look(function: Callable[..., object]) -> Callable[..., object]:
        def looking(*given: object, **named: object) -> object:
            seen.append([place.fp32_precision for place in PLACES])
            return function(*given, **named)

        return looking

    before = [place.fp32_precision for place in PLACES]
    monkeypatch.setattr(ghost, "gram", look(ghost.gram))
    monkeypatch.setattr(Linear, "add_weight_gradient_", look(Linear.add_weight_gradient_))
    module = nn.Linear(40, 30, bias=False)
    query = PerRecordGradient(module, pulled, form="fast")
    batch = Tensors((torch.randn(3, 2, 40), torch.randn(3, 2, 30)))
    query.clipped_sum(batch, ONE)
    assert len(seen) == 3
    clipping.call_norms(query.taped(batch), module, (0,), 3, at_once=3, multiplicity=1)
    summed_calls(query.taped(batch), module)
    assert len(seen) == 6
    assert all(place == "ieee" for places in seen for place in places)
    assert [place.fp32_precision for place in PLACES] == before
    with pytest.raises(KeyError), full_precision():
        raise KeyError
    assert [place.fp32_precision for place in PLACES] == before


def test_products_of_the_cpu_are_not_narrowed() -> None:
    """A caller has allowed bfloat16 in products: where the processor has it, nearly equal positions would vanish."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        module = nn.Linear(2048, 16, bias=False)
        pulls = 1e3 * torch.stack([torch.ones(16), -torch.ones(16)] * 3)
        found = [added(module, torch.stack(both * 3), pulls) for both in near(4, 2048)]
    finally:
        torch.set_float32_matmul_precision(before)
    assert 0.3 < max(found) <= 1.0


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_norm_does_not_follow_how_many_records_were_drawn(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The forms raise a norm by different amounts, so the form must not follow a private number.

    Here three records' gradients could be kept. With the fourth, the norms of all were raised at once, and the sum moved by
    more than the fourth record adds; likewise where a record more pushes another one into the next physical batch.
    """
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, bias=False))
    monkeypatch.setattr(clipping, "KEEP", 3 * module[0].weight.numel())
    monkeypatch.setattr(clipping, "cheapest", lambda work: "instantiate")
    inputs, pulls = torch.full((4, 3, 7, 7), 0.3), torch.randn(4, 4, 7, 7)
    held = Tensors((inputs + 1e-3 * torch.randn(4, 3, 7, 7), pulls - pulls.mean((2, 3), keepdim=True)))
    for at_once in (3, 4, 512):
        query = PerRecordGradient(module, pulled, physical_batch_size=at_once)
        alone = torch.cat([query.norms(held[at : at + 1], (0,)) for at in range(count)])
        torch.testing.assert_close(query.norms(held[:count], (0,)), alone, rtol=1e-6, atol=0)
