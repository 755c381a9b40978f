"""The fast form against a plain loop, for every layer and every activation that it knows.

All nets here are in double precision, where the two must agree to 1e-9. Every net ends in one number per record.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from reference_gradients import clipped_sum, rows
from torch import Tensor, nn

from gossamer.privacy.per_sample_gradients import clipping, gradients
from gossamer.privacy.per_sample_gradients.clipping import clip_rows
from gossamer.privacy.per_sample_gradients.convolution import Convolution
from gossamer.privacy.per_sample_gradients.gradients import PerRecordGradient, Tensors
from gossamer.privacy.queries import Bounds

# Torch itself warns that "same" with an even kernel copies its input; the plain loop takes that path.
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths:UserWarning")


@dataclass(frozen=True)
class Case:
    """A network, and how to draw one input of it: shape, or the number of different indices."""

    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    vocabulary: int | None = None

    def inputs(self, n: int, seed: int = 1) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        if self.vocabulary is not None:
            return torch.randint(0, self.vocabulary, (n, *self.shape), generator=generator)
        return torch.randn(n, *self.shape, generator=generator, dtype=torch.float64)


class Residual(nn.Module):
    """Two branches share one gradient: scaling it in place would spoil the other."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 3, 3, padding=1), nn.Conv2d(3, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.one(x) + self.two(x)


class Twice(nn.Module):
    """The same layer on two sizes of input: one weight, several uses by one record."""

    def __init__(self, layer: nn.Module, cut: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.cut = layer, cut

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).flatten(1).square().sum(1) + self.layer(self.cut(x)).flatten(1).sin().sum(1)


class Tied(nn.Module):
    """One table as an embedding, as a linear map, and one of its columns as nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 4)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.table(x).tanh(), self.table.weight)


class ScaleIsBias(nn.Module):
    """One vector as the scale of a normalisation and as a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.vector = nn.Parameter(torch.randn(4))
        self.weight = nn.Parameter(torch.randn(4, 6))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(F.linear(x, self.weight, self.vector), (4,), self.vector, None)


class ScaleIsKernel(nn.Module):
    """One parameter as the scale of a normalisation and as the kernel of a convolution: without taps, and with three."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 3, 3))

    def forward(self, x: Tensor) -> Tensor:
        scaled = F.layer_norm(x, (2, 3, 3), self.weight, None)
        return F.conv1d(scaled.reshape(-1, 3, 6), self.weight, padding=1)


class Labelled(nn.Module):
    """An image and its label as constant planes."""

    def __init__(self, *settings: Any, size: tuple[int, int] = (6, 6)) -> None:
        super().__init__()
        self.image, self.label = nn.Conv2d(1, 2, *settings), nn.Conv2d(5, 3, *settings)
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        image, value = x[:, :-5], x[:, -5:]
        planes = value[:, :, None, None].expand(-1, -1, *self.size)
        return torch.cat([self.image(image.view(-1, 1, *self.size)), self.label(planes)], 1).tanh()


class NormalisedByIts(nn.Module):
    """One matrix as the scale of a normalisation and, before and after it, as a linear map."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.weight = nn.Linear(4, 16), nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        h = F.linear(self.one(x).view(-1, 4, 4), self.weight)
        return F.linear(F.layer_norm(h, (4, 4), self.weight).tanh(), self.weight)


class PlanesAndImage(nn.Module):
    """One convolution of constant planes and of an image."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv2d(2, 3, 3, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x[:, :, :1, :1].detach().expand(-1, -1, 6, 6)) + self.layer(x)


class BothWays(nn.Module):
    """One kernel in a convolution and in a transposed one."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3, 3, 3))

    def forward(self, x: Tensor) -> Tensor:
        return F.conv_transpose2d(F.conv2d(x, self.weight, padding=1), self.weight, padding=1)


class WithAndWithoutGroups(nn.Module):
    """One kernel meets all channels in groups, and some of them at once."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 2, 3, 3))

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, groups=2) + F.conv2d(x[:, :2], self.weight)


class Frozen(nn.Module):
    """A weight that does not learn beneath a bias that does, and the other way round."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 5), nn.Linear(5, 3)
        self.one.weight.requires_grad_(False)
        self.two.bias.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.two(self.one(x).tanh())


class Unused(nn.Module):
    """A layer that the output does not need."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(4, 5), nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        self.two(x)
        return self.one(x)


class Beside(nn.Module):
    """Parameters of some shapes, and what is computed from them and the input."""

    def __init__(self, compute: Callable[..., Tensor], *shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.compute = compute
        self.numbers = nn.ParameterList(torch.randn(shape) for shape in shapes)

    def forward(self, x: Tensor) -> Tensor:
        return self.compute(x, *self.numbers)


def added_in_place(x: Tensor, p: Tensor) -> Tensor:
    y = kept = x.sin()
    y += p
    return kept


def masked(x: Tensor, p: Tensor) -> Tensor:
    return torch.where(x < 0, p, x).softmax(-1)


def with_token(x: Tensor, token: Tensor, positions: Tensor) -> Tensor:
    """A token for each record before its own, and fewer positions than there are."""
    x = torch.cat([token.expand(len(x), -1, -1), x], 1)
    return (x + positions[:, : x.shape[1]]).tanh()


def both_views(x: Tensor, p: Tensor) -> Tensor:
    """Parts of one parameter that overlap, and all of it."""
    return (
        ((x[..., :2] * p[:2] + x[..., 2:] * p[2:]) @ p[:4].view(2, 2)).tanh() + p[1:3] + p.sum(0, keepdim=True).detach()
    )


class Attention(nn.Module):
    """Attention of torch, of one sequence or across two."""

    def __init__(self, use: Callable[[nn.MultiheadAttention, Tensor], Tensor], **settings: Any) -> None:
        super().__init__()
        self.layer, self.use = nn.MultiheadAttention(4, 2, **settings), use

    def forward(self, x: Tensor) -> Tensor:
        return self.use(self.layer, x)


def across(layer: nn.MultiheadAttention, x: Tensor) -> Tensor:
    return layer(x[:, :2], x[:, 1:], x[:, 1:].sin())[0]


def with_masks(layer: nn.MultiheadAttention, x: Tensor) -> Tensor:
    later = torch.ones(3, 3, dtype=torch.bool).triu(1)
    absent = torch.zeros(len(x), 3, dtype=torch.bool).index_fill_(1, torch.tensor([2]), True)
    one = layer(x, x, x, attn_mask=later, key_padding_mask=absent, need_weights=False)[0]
    several = torch.arange(len(x) * 2 * 9, dtype=x.dtype).view(-1, 3, 3) % 7 % 3  # each head of each record has its own
    return (
        one + layer(x, x, x, attn_mask=several[:1].expand(2 * len(x), -1, -1), average_attn_weights=False)[1].sum(1) @ x
    )


class Steps(nn.Module):
    """A cell of torch, step by step."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Tensor) -> Tensor:
        state: Any = None
        for now in x.unbind(1):
            state = self.cell(now, state)
        return state[0] + state[1] if isinstance(state, tuple) else state


class All(nn.Module):
    """All outputs of a recurrent layer, from a state of its own."""

    def __init__(self, layer: nn.RNNBase, start: bool = False) -> None:
        super().__init__()
        self.layer, self.start = layer, start

    def forward(self, x: Tensor) -> Tensor:
        given = x if self.layer.batch_first else x.transpose(0, 1)
        state = x.sum((1, 2))[None, :, None].expand(2, -1, 3).sin() if self.start else None
        out, last = self.layer(given, state)
        last = last if isinstance(last, tuple) else (last,)
        parts = [out if self.layer.batch_first else out.transpose(0, 1), *(t.transpose(0, 1) for t in last)]
        return torch.cat([part.flatten(1) for part in parts], 1)


RECURRENT = {
    "gru": lambda: All(nn.GRU(4, 3, batch_first=True)),
    "gru, deep, both ways, time first": lambda: All(nn.GRU(4, 3, 2, bidirectional=True, bias=False), start=False),
    "gru from a state": lambda: All(nn.GRU(4, 3, 2, batch_first=True), start=True),
    "lstm": lambda: All(nn.LSTM(4, 3, batch_first=True)),
    "rnn": lambda: All(nn.RNN(4, 3, batch_first=True)),
    "rnn of relus": lambda: All(nn.RNN(4, 9, nonlinearity="relu")),
    "gru cell": lambda: Steps(nn.GRUCell(4, 3)),
    "lstm cell": lambda: Steps(nn.LSTMCell(4, 3, bias=False)),
    "rnn cell": lambda: Steps(nn.RNNCell(4, 3)),
    "rnn cell of relus": lambda: Steps(nn.RNNCell(4, 9, nonlinearity="relu")),
}


BESIDE: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "positions": (lambda x, p: (x + p).tanh(), ((3, 4),)),
    "positions of one record": (lambda x, p: (p + x).tanh(), ((1, 3, 4),)),
    "scalar": (lambda x, p: (x * p).tanh(), ((),)),
    "subtracted": (lambda x, p, q: (x - p) * (q - x), ((4,), (3, 1))),
    "divided": (lambda x, p: x / (p + x.detach() + 9), ((4,),)),
    "wider than the input": (lambda x, p: (x[:, :, :1] + p).tanh(), ((3, 4),)),
    "expanded": (lambda x, p: (x + p.expand_as(x)).tanh(), ((4,),)),
    "added in place": (added_in_place, ((4,),)),
    "where": (masked, ((4,),)),
    "token": (with_token, ((1, 1, 4), (1, 9, 4))),
    "whole and parts": (both_views, ((4,),)),
    "matrix": (lambda x, w, v: ((x @ w).tanh() @ v).sin(), ((4, 3), (3, 2))),
    "matrix both ways": (lambda x, w: F.linear((x @ w).tanh(), w), ((4, 3),)),
    "one matrix, two biases": (
        lambda x, w, a, b: F.linear(x, w, a).tanh() + F.linear(x.sin(), w, b),
        ((3, 4), (3,), (3,)),
    ),
    "one row of a table": (lambda x, w: F.linear(x[:, 0], w[1:3]).tanh(), ((5, 4),)),
    "matrix product of one row": (lambda x, w: torch.mm(x[:, 0], w).tanh(), ((4, 3),)),
    "rows of a table": (lambda x, w: F.linear(x, w[1:4]).tanh() + F.linear(x, w[4:]).sum(-1, keepdim=True), ((7, 4),)),
}


def sequence(*layers: nn.Module) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(*layers)


CONV1 = {
    "conv1d": dict(kernel_size=3),
    "conv1d stride padding": dict(kernel_size=4, stride=3, padding=2),
    "conv1d groups dilation": dict(kernel_size=3, dilation=2, groups=2),
    "conv1d same, uneven": dict(kernel_size=4, padding="same"),
}
CONV2 = {
    "conv2d": dict(kernel_size=3),
    "conv2d k4 s2 p1": dict(kernel_size=4, stride=2, padding=1),
    "conv2d k3 s2 p1": dict(kernel_size=3, stride=2, padding=1),
    "conv2d k5 s2 p2": dict(kernel_size=5, stride=2, padding=2),
    "conv2d k1 s2, pixels unread": dict(kernel_size=1, stride=2),
    "conv2d k2 s3, pixels unread": dict(kernel_size=2, stride=3),
    "conv2d wide padding": dict(kernel_size=3, padding=4, stride=3),
    "conv2d mixed": dict(kernel_size=(3, 2), stride=(1, 2), padding=(2, 0), dilation=(1, 2)),
    "conv2d dilation 3 stride 2": dict(kernel_size=3, stride=2, dilation=3, padding=3),
    "conv2d groups": dict(kernel_size=3, groups=2, padding=1),
    "conv2d depthwise": dict(kernel_size=3, groups=4, stride=2, padding=1),
    "conv2d same": dict(kernel_size=3, padding="same"),
    "conv2d same, uneven": dict(kernel_size=(2, 4), padding="same", dilation=(3, 1)),
    "conv2d valid": dict(kernel_size=3, padding="valid"),
    "conv2d reflect": dict(kernel_size=3, padding=1, padding_mode="reflect"),
    "conv2d no bias": dict(kernel_size=3, bias=False),
    "conv2d one position": dict(kernel_size=(7, 6)),
    "conv2d one position, groups": dict(kernel_size=(7, 6), groups=2),
    "conv2d one position, padding": dict(kernel_size=(9, 8), padding=1),
}
TRANSPOSED = {
    "transposed": dict(kernel_size=3),
    "transposed k4 s2 p1": dict(kernel_size=4, stride=2, padding=1),
    "transposed k3 s2 output padding": dict(kernel_size=3, stride=2, padding=1, output_padding=1),
    "transposed groups dilation": dict(kernel_size=3, stride=2, groups=2, dilation=2),
    "transposed no bias": dict(kernel_size=2, stride=3, bias=False),
}
CASES: dict[str, Case] = {
    "linear": Case(sequence(nn.Linear(4, 3)), (4,)),
    "linear no bias": Case(sequence(nn.Linear(4, 3, bias=False), nn.Tanh(), nn.Linear(3, 1)), (4,)),
    "linear sequence": Case(sequence(nn.Linear(4, 3), nn.ReLU(inplace=True), nn.Linear(3, 2)), (6, 4)),
    "linear 4-d": Case(sequence(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)), (2, 3, 4)),
    "linear short and wide": Case(sequence(nn.Linear(40, 30), nn.Tanh(), nn.Linear(30, 1)), (2, 40)),
    **{k: Case(sequence(nn.Conv1d(4, 6, **v), nn.Tanh()), (4, 9)) for k, v in CONV1.items()},
    **{
        k: Case(sequence(nn.Conv2d(4, 6 if v.get("groups") != 4 else 8, **v), nn.Tanh()), (4, 7, 6))
        for k, v in CONV2.items()
    },
    **{k: Case(sequence(nn.ConvTranspose2d(4, 6, **v), nn.Tanh()), (4, 3, 2)) for k, v in TRANSPOSED.items()},
    "transposed 1-d": Case(sequence(nn.ConvTranspose1d(4, 6, 4, 2, 1), nn.Tanh()), (4, 5)),
    "transposed from one position": Case(sequence(nn.ConvTranspose2d(4, 6, 4), nn.Tanh()), (4, 1, 1)),
    "two convolutions, wide": Case(
        sequence(nn.Conv2d(1, 16, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 32, 4, 2, 1), nn.Tanh()), (1, 8, 8)
    ),
    "embedding": Case(sequence(nn.Embedding(5, 3), nn.Tanh(), nn.Flatten(), nn.Linear(12, 2)), (4,), vocabulary=5),
    "embedding single": Case(sequence(nn.Embedding(5, 3), nn.Tanh(), nn.Linear(3, 2)), (), vocabulary=5),
    "embedding padding": Case(sequence(nn.Embedding(5, 3, padding_idx=-2), nn.Tanh()), (4,), vocabulary=5),
    "layer norm": Case(sequence(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 2)), (4,)),
    "layer norm over two": Case(sequence(nn.Conv2d(1, 2, 3), nn.LayerNorm((4, 4)), nn.Tanh()), (1, 6, 6)),
    "layer norm in a sequence": Case(sequence(nn.Linear(4, 6), nn.LayerNorm(6, bias=False), nn.Tanh()), (3, 4)),
    "rms norm": Case(sequence(nn.Linear(4, 6), nn.RMSNorm(6), nn.Tanh()), (4,)),
    "group norm": Case(sequence(nn.Conv2d(2, 6, 3), nn.GroupNorm(3, 6), nn.ReLU(inplace=True)), (2, 6, 6)),
    "group norm flat": Case(sequence(nn.Linear(4, 6), nn.GroupNorm(2, 6), nn.Tanh()), (4,)),
    "group norm first": Case(sequence(nn.GroupNorm(1, 2), nn.Tanh()), (2, 3, 3)),
    "residual": Case(sequence(Residual(), nn.LeakyReLU(0.2, inplace=True), Residual()), (3, 5, 5)),
    "linear twice": Case(lambda: Twice(nn.Linear(4, 3), lambda x: x * 2), (4,)),
    "linear twice, sequence": Case(lambda: Twice(nn.Linear(4, 3), lambda x: x[:, :2]), (5, 4)),
    "conv twice": Case(lambda: Twice(nn.Conv2d(4, 6, 3, 2, 1), lambda x: x[:, :, 1:, 1:]), (4, 7, 6)),
    "transposed twice": Case(lambda: Twice(nn.ConvTranspose2d(4, 6, 3, 2), lambda x: x[:, :, 1:]), (4, 3, 2)),
    "group norm twice": Case(lambda: Twice(nn.GroupNorm(2, 4), lambda x: x[:, :, 1:]), (4, 3, 2)),
    "embedding twice": Case(lambda: Twice(nn.Embedding(9, 6), lambda x: x[:, 1:]), (7,), vocabulary=9),
    "tied": Case(Tied, (3,), vocabulary=5),
    "scale is bias": Case(ScaleIsBias, (6,)),
    "scale is matrix": Case(NormalisedByIts, (4,)),
    "scale is kernel": Case(ScaleIsKernel, (2, 3, 3)),
    "planes and image": Case(PlanesAndImage, (2, 6, 6)),
    "both ways": Case(BothWays, (3, 6, 6)),
    "with and without groups": Case(WithAndWithoutGroups, (4, 6, 6)),
    "planes": Case(lambda: Labelled(4, 2, 1), (36 + 5,)),
    "planes dilated": Case(lambda: Labelled(3, 2, 2, 2), (36 + 5,)),
    "planes not square": Case(lambda: Labelled((3, 2), (2, 1), (1, 0), size=(6, 5)), (30 + 5,)),
    "planes twice": Case(lambda: Twice(Labelled(3, 1, 0, size=(3, 3)), lambda x: x * 2), (9 + 5,)),
    **{k: Case(lambda v=v: Beside(v[0], *v[1]), (3, 4)) for k, v in BESIDE.items()},
    **{k: Case(v, (3, 4)) for k, v in RECURRENT.items()},
    "prelu": Case(sequence(nn.Linear(4, 3), nn.PReLU(), nn.Linear(3, 2)), (4,)),
    "prelu by channel": Case(sequence(nn.Conv2d(2, 3, 3), nn.PReLU(3), nn.Tanh()), (2, 5, 5)),
    "attention": Case(lambda: Attention(lambda layer, x: layer(x, x, x)[0], batch_first=True), (3, 4)),
    "attention across": Case(lambda: Attention(across, batch_first=True), (3, 4)),
    "attention, masks": Case(lambda: Attention(with_masks, batch_first=True, bias=False), (3, 4)),
    "attention, other widths": Case(lambda: Attention(across, batch_first=True, kdim=4, vdim=4), (3, 4)),
    "attention, records second": Case(
        lambda: Attention(lambda layer, x: layer(*[x.transpose(0, 1)] * 3)[0].transpose(0, 1)), (3, 4)
    ),
    "transformer layer": Case(lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0, batch_first=True), (3, 4)),
    "frozen": Case(Frozen, (4,)),
    "unused": Case(Unused, (4,)),
}

ACTIVATIONS: list[Callable[[], nn.Module]] = [
    *(
        lambda f=f, i=i: f(inplace=i)
        for f in (nn.ReLU, nn.ELU, nn.SELU, nn.SiLU, nn.ReLU6, nn.Hardtanh)
        for i in (False, True)
    ),
    lambda: nn.LeakyReLU(0.2),
    lambda: nn.LeakyReLU(0.2, inplace=True),
    nn.Tanh,
    nn.Sigmoid,
    nn.GELU,
    nn.Softplus,
    nn.Hardswish,
    lambda: nn.MaxPool2d(2),
    lambda: nn.AvgPool2d(2),
    lambda: nn.Upsample(scale_factor=2),
]


def loss_of(module: nn.Module, batch: Tensors) -> Tensor:
    """Something that treats every output differently, and is not linear."""
    out = module(batch.parts[0])
    out = out.reshape(len(out), -1)
    weights = torch.arange(1, out.shape[1] + 1, dtype=out.dtype).sin()
    return (out * weights).sum(1) + 0.1 * out.square().sum(1)


def build(case: Case) -> nn.Module:
    torch.manual_seed(0)
    module = case.build().double()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.randn(p.shape, dtype=p.dtype) * 0.5)
    return module


def agree(module: nn.Module, inputs: Tensor, groups: tuple[int, ...] | None = None) -> None:
    """The fast clipped sum equals the clipped plain loop to 1e-9, at bounds that clip about half of the records."""
    batch = Tensors((inputs,))
    reference = rows(module, loss_of, batch)
    sizes = [p.numel() for p in module.parameters()]
    count = 1 if groups is None else max(groups) + 1
    norms = []
    for group in range(count):
        parts = [r for r, g in zip(reference.split(sizes, 1), groups or (0,) * len(sizes), strict=True) if g == group]
        norms.append(max(float(torch.cat(parts, 1).norm(dim=1).median()), 1e-3) * 0.9)
    bounds = Bounds(norms=tuple(norms), groups=groups)
    expected = clip_rows(reference, module, bounds).sum(0)
    found = clipped_sum(module, loss_of, batch, bounds, form="fast")
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    assert bool((expected != 0).any())


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_loop(name: str) -> None:
    case = CASES[name]
    agree(build(case), case.inputs(7))


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_loop_by_groups(name: str) -> None:
    """Weight and bias of one layer lie in different groups."""
    case = CASES[name]
    module = build(case)
    count = len(list(module.parameters()))
    agree(module, case.inputs(5), tuple(i % 2 for i in range(count)) if count > 1 else (0,))


@pytest.mark.parametrize("make", ACTIVATIONS, ids=lambda make: repr(make()))
def test_activations_in_place_and_not(make: Callable[[], nn.Module]) -> None:
    case = Case(sequence(nn.Conv2d(2, 3, 3, padding=1), make(), nn.Conv2d(3, 4, 3), make(), nn.Flatten()), (2, 10, 10))
    agree(build(case), case.inputs(5))


@pytest.mark.parametrize("n", [0, 1, 3, 64])
@pytest.mark.parametrize("name", ["linear", "conv2d k4 s2 p1", "planes", "group norm", "embedding"])
def test_batches_of_none_one_and_many(name: str, n: int) -> None:
    case = CASES[name]
    module = build(case)
    if n:
        agree(module, case.inputs(n))
        return
    found = clipped_sum(module, loss_of, Tensors((case.inputs(0),)), Bounds(norms=(1.0,)))
    assert found.shape == (sum(p.numel() for p in module.parameters()),)
    assert not found.any()


@pytest.mark.parametrize("name", CASES)
def test_measured_sensitivity(name: str) -> None:
    """One huge record more, inserted first, moves the sum by max_norm: no more, and no less."""
    case = CASES[name]
    module = build(case)
    query = PerRecordGradient(module, lambda m, b: loss_of(m, b) * b.parts[1], form="fast")
    inputs, scale = case.inputs(9), torch.ones(9, dtype=torch.float64)
    scale[0] = 1e12
    whole = query.clipped_sum(Tensors((inputs, scale)), Bounds(norms=(0.7,)))
    without = query.clipped_sum(Tensors((inputs[1:], scale[1:])), Bounds(norms=(0.7,)))
    assert (whole - without).norm().item() == pytest.approx(0.7, rel=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_a_record_that_is_not_finite_counts_as_zero(name: str) -> None:
    """NaN in one pixel and infinity in the loss: the sum is that of the others, and nothing is raised."""
    case = CASES[name]
    module = build(case)
    bounds = Bounds(norms=(0.7,))
    inputs, scale = case.inputs(5), torch.ones(5, dtype=torch.float64)
    others = torch.tensor([1, 3, 4])
    query = PerRecordGradient(module, lambda m, b: loss_of(m, b) * b.parts[1], form="fast")
    expected = query.clipped_sum(Tensors((inputs[others], scale[others])), bounds)
    scale[0] = torch.inf
    if case.vocabulary is None:
        inputs[2].view(-1)[0] = torch.nan
    else:
        scale[2] = torch.nan
    found = query.clipped_sum(Tensors((inputs, scale)), bounds)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("multiplicity", [2, 3])
@pytest.mark.parametrize(
    "name",
    [
        "linear",
        "linear sequence",
        "conv2d k4 s2 p1",
        "conv2d groups",
        "planes",
        "transposed",
        "embedding",
        "embedding single",
        "group norm",
        "conv twice",
        "tied",
        "scale is bias",
        "scale is matrix",
        "both ways",
        "token",
        "whole and parts",
        "rows of a table",
        "gru",
        "attention across",
    ],
)
def test_several_rows_per_record(name: str, multiplicity: int) -> None:
    """Record r is at r, r + n, ...; its gradient is the sum over its rows, clipped once."""
    case = CASES[name]
    module = build(case)
    n = 4
    inputs = torch.stack([case.inputs(n, seed=seed) for seed in range(multiplicity)], 1)

    def loss(m: nn.Module, batch: Tensors) -> Tensor:
        return loss_of(m, Tensors((batch.parts[0].transpose(0, 1).flatten(0, 1),)))

    reference = rows(module, loss, Tensors((inputs,)), multiplicity=multiplicity)
    bounds = Bounds(norms=(float(reference.norm(dim=1).median()),))
    found = clipped_sum(module, loss, Tensors((inputs,)), bounds, form="fast", multiplicity=multiplicity)
    torch.testing.assert_close(found, clip_rows(reference, module, bounds).sum(0), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["one row of a table", "matrix product of one row", "linear", "token"])
def test_what_stood_in_the_memory_of_a_new_sum_is_gone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product writes its own part of a parameter, and zeros are written elsewhere."""
    monkeypatch.setattr(gradients, "empty", lambda module: clipping.empty(module).fill_(torch.nan))
    case = CASES[name]
    agree(build(case), case.inputs(5))


@pytest.mark.parametrize("method", ["instantiate", "gram"])
@pytest.mark.parametrize(
    "name", ["tied", "scale is matrix", "planes and image", "both ways", "with and without groups", "planes twice"]
)
def test_a_weight_of_several_layers_in_every_form(name: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept, and the method is given: a small net would keep every gradient."""
    monkeypatch.setattr(clipping, "cheapest", lambda work: method)
    monkeypatch.setattr(clipping, "KEEP", 0)
    case = CASES[name]
    agree(build(case), case.inputs(5))


@pytest.mark.parametrize("method", ["instantiate", "gram", "phase"])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("name", ["conv2d k1 s2, pixels unread", "conv2d k2 s3, pixels unread"])
def test_a_pixel_that_no_tap_reads_spoils_nothing(
    name: str, bad: float, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A weight-gradient call may multiply such a pixel by zero, and zero times NaN is NaN: here it does, as some do.

    Its record counts as zero, in every form that calls it, and the others stay as they were.
    """
    convolved = Convolution.add_weight_gradient_

    def spoilt(layer: Convolution, out: Tensor, a: Tensor, b: Tensor) -> None:
        convolved(layer, out, a, b)
        out.add_((a * 0).sum())

    monkeypatch.setattr(clipping, "cheapest", lambda work: method)
    monkeypatch.setattr(clipping, "KEEP", 0)
    monkeypatch.setattr(Convolution, "add_weight_gradient_", spoilt)
    case = CASES[name]
    module = build(case)
    inputs = case.inputs(5)
    bounds = Bounds(norms=(0.7,))
    without = clipped_sum(module, loss_of, Tensors((inputs[[0, 1, 3, 4]],)), bounds, form="fast")
    inputs[2, :, -1, -1] = bad
    found = clipped_sum(module, loss_of, Tensors((inputs,)), bounds, form="fast")
    torch.testing.assert_close(found, without, rtol=0, atol=1e-9)
