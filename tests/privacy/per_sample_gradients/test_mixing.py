"""Losses that mix records are refused before a record is read; networks that keep records apart are taken."""

import logging
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from reference_gradients import rows
from torch import Tensor, nn

from gossamer.data.records import Records
from gossamer.errors import RequestError
from gossamer.nets.dcgan import Discriminator
from gossamer.privacy.mechanisms.quantiles import SharesBelow
from gossamer.privacy.per_sample_gradients import mixing
from gossamer.privacy.per_sample_gradients.gradients import PerRecordGradient, Tensors
from gossamer.privacy.per_sample_gradients.penalty import PenaltyGradient, Points
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng, rehearsal

ONE = Bounds(norms=(1.0,))
SIZE, CLASSES = 6, 3


@pytest.fixture(autouse=True)
def everything_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No loss here fails on stand-ins."""

    def failed(*_: object) -> None:
        raise SystemError("a loss could not be asked about stand-ins")

    monkeypatch.setattr(mixing._log, "warning", failed)


def batch(n: int = 9, seed: int = 3) -> Tensors:
    stream = torch.Generator().manual_seed(seed)
    return Tensors((torch.randn(n, SIZE, generator=stream), torch.randint(CLASSES, (n,), generator=stream)))


def net(*middle: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(SIZE, 8), nn.Tanh(), *middle, nn.Linear(8, CLASSES))


def cross_entropy(module: nn.Module, held: Tensors) -> Tensor:
    return F.cross_entropy(module(held.parts[0]), held.parts[1], reduction="none")


class Hidden(nn.Module):
    """A classifier with a function of the hidden layer, [n, 8]."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner, self.outer, self.function = nn.Linear(SIZE, 8), nn.Linear(8, CLASSES), function

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.function(torch.tanh(self.inner(x))))


class Remembering(nn.Module):
    """Keeps an average of activations in a buffer: in place, or as a new tensor."""

    average: Tensor

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.inner, self.in_place = nn.Linear(SIZE, CLASSES), in_place
        self.register_buffer("average", torch.zeros(CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        h = self.inner(x)
        if self.in_place:
            self.average.lerp_(h.detach().mean(0), 0.1)
        else:
            self.average = self.average.lerp(h.detach().mean(0), 0.1)
        return h


def self_attention(h: Tensor) -> Tensor:
    """By mistake over the records: the first dimension is taken for the sequence."""
    return F.scaled_dot_product_attention(h[None], h[None], h[None], is_causal=True)[0]


def weighted_by_batch(module: nn.Module, held: Tensors) -> Tensor:
    losses = cross_entropy(module, held)
    return losses * (losses.detach() / losses.detach().max())


def hardest(module: nn.Module, held: Tensors) -> Tensor:
    """Hard examples alone: a rank over the batch."""
    losses = cross_entropy(module, held)
    return losses * (losses.detach() >= losses.detach().topk(3).values.min())


def contrastive(module: nn.Module, held: Tensors) -> Tensor:
    codes = F.normalize(module(held.parts[0]), dim=1)
    return F.cross_entropy(codes @ codes.t(), torch.arange(len(codes)), reduction="none")


def centred(module: nn.Module, held: Tensors) -> Tensor:
    return cross_entropy(module, Tensors((held.parts[0] - held.parts[0].mean(0), held.parts[1])))


def by_class_counts(module: nn.Module, held: Tensors) -> Tensor:
    counts = held.parts[1].bincount(minlength=CLASSES).float()
    return cross_entropy(module, held) / counts[held.parts[1]]


def from_zero(module: nn.Module, held: Tensors) -> Tensor:
    """Mixes, and shows it in no value: the last layer is zero at the start."""
    h = module[0](held.parts[0])  # type: ignore[index]  # a Sequential
    return cross_entropy(module[1:], Tensors((h - h.detach().mean(0), held.parts[1])))  # type: ignore[index]  # a Sequential


def with_later_rows(module: nn.Module, held: Tensors) -> Tensor:
    """As `from_zero`, and the last row follows itself alone."""
    h = module[0](held.parts[0]).flip(0).cumsum(0).flip(0)  # type: ignore[index]  # a Sequential
    return cross_entropy(module[1:], Tensors((h, held.parts[1])))  # type: ignore[index]  # a Sequential


def straight_through(h: Tensor) -> Tensor:
    """The value is that of the row; the gradient flows to all."""
    mean = h.mean(0)
    return h + mean - mean.detach()


def with_fixed_features() -> nn.Module:
    """A buffer that was computed in inference mode, which has no version."""
    made = net()
    with torch.inference_mode():
        made.register_buffer("features", torch.ones(3) * 2)
    return made


def zero_headed() -> nn.Module:
    made = nn.Sequential(nn.Linear(SIZE, 8), nn.Linear(8, CLASSES))
    nn.init.zeros_(made[1].weight)
    nn.init.zeros_(made[1].bias)
    return made


Loss = Callable[[nn.Module, Any], Tensor]
MIXED: dict[str, tuple[Callable[[], nn.Module], Loss]] = {
    "sum along the batch, forward only": (lambda: Hidden(lambda h: h.cumsum(0)), cross_entropy),
    "attention over records": (lambda: Hidden(self_attention), cross_entropy),
    "detached mean and deviation": (
        lambda: Hidden(lambda h: (h - h.detach().mean(0)) / h.detach().std(0)),
        cross_entropy,
    ),
    "detached mean": (lambda: Hidden(lambda h: h - h.mean(0).detach()), cross_entropy),
    "mean": (lambda: Hidden(lambda h: h - h.mean(0)), cross_entropy),
    "gradient of a mean": (lambda: Hidden(straight_through), cross_entropy),
    "the row before": (lambda: Hidden(lambda h: h + h.roll(1, 0)), cross_entropy),
    "inputs centred by the batch": (net, centred),
    "losses weighted by the batch": (net, weighted_by_batch),
    "the hardest of the batch": (net, hardest),
    "negatives of the batch": (net, contrastive),
    "share of positive activations": (lambda: Hidden(lambda h: h * (h > 0).float().mean(0)), cross_entropy),
    "class counts": (net, by_class_counts),
    "a head of zeros": (zero_headed, from_zero),
    "a head of zeros, on later rows": (zero_headed, with_later_rows),
}

RANDOM: dict[str, tuple[Callable[[], nn.Module], str]] = {
    "attention with dropout": (
        lambda: Hidden(lambda h: F.scaled_dot_product_attention(h[:, None], h[:, None], h[:, None], None, 0.3)[:, 0]),
        "PyTorch",
    ),
    "torch.dropout": (lambda: Hidden(lambda h: torch.dropout(h, 0.3, True)), "PyTorch"),
    "torch.bernoulli": (lambda: Hidden(lambda h: h * torch.bernoulli(torch.full_like(h, 0.5))), "PyTorch"),
    "gumbel": (lambda: Hidden(lambda h: F.gumbel_softmax(h)), "PyTorch"),
    "RReLU": (lambda: Hidden(nn.RReLU()), "PyTorch"),
    "noise": (lambda: Hidden(lambda h: h + torch.randn_like(h)), "PyTorch"),
    "a recurrent layer's dropout": (
        lambda: Hidden(Sequence(nn.GRU(8, 8, 2, dropout=0.3, batch_first=True))),
        "PyTorch",
    ),
    "multi-head attention's dropout": (
        lambda: Hidden(Sequence(nn.TransformerEncoderLayer(8, 2, 8, 0.0, batch_first=True), dropout=0.3)),
        "PyTorch",
    ),
    "NumPy": (lambda: Hidden(lambda h: h + float(np.random.rand())), "NumPy"),
    "Python": (lambda: Hidden(lambda h: h + random.random()), "Python"),
}


class Sequence(nn.Module):
    """A layer for sequences on [n, 8], as a sequence of two."""

    def __init__(self, layer: nn.Module, dropout: float = 0.0) -> None:
        super().__init__()
        self.layer = layer
        if dropout:
            layer.self_attn.dropout = dropout  # type: ignore[union-attr,assignment]  # of a TransformerEncoderLayer

    def forward(self, h: Tensor) -> Tensor:
        found = self.layer(torch.stack([h, -h], 1))
        return (found[0] if isinstance(found, tuple) else found)[:, 0]


def refused(module: nn.Module, loss: Loss, held: Any, form: Any, match: str) -> None:
    """The query is refused, and no record was handed to the loss."""
    seen: list[Any] = []

    def noting(module: nn.Module, held: Any) -> Tensor:
        seen.append(held)
        return loss(module, held)

    query = PerRecordGradient(module, noting, form=form)
    with pytest.raises(RequestError, match=match):
        query.clipped_sum(held, ONE)
    assert seen
    marks = {float(row) for row in held.parts[0][:, 0]}
    assert not [row for made in seen for row in made.parts[0][:, 0].tolist() if row in marks]


@pytest.mark.parametrize("form", ["auto", "slow"])
@pytest.mark.parametrize("name", MIXED)
def test_a_loss_that_mixes_records_is_refused_before_a_record_is_read(name: str, form: str) -> None:
    build, loss = MIXED[name]
    refused(build(), loss, batch(), form, "depends on other records")


@pytest.mark.parametrize("form", ["auto", "slow"])
@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_of_a_common_stream_are_refused(name: str, form: str) -> None:
    build, stream = RANDOM[name]
    refused(build(), cross_entropy, batch(), form, rf"{stream}'s common stream|secret_generator")


@pytest.mark.parametrize("in_place", [True, False])
def test_a_buffer_that_records_change_is_refused(in_place: bool) -> None:
    refused(Remembering(in_place), cross_entropy, batch(), "auto", "changes 'average'")


def test_a_weight_that_records_change_is_refused() -> None:
    """An embedding that shortens the rows it looks up."""
    module = nn.Sequential(nn.Embedding(CLASSES, 4, max_norm=0.1), nn.Linear(4, CLASSES))

    def loss(module: nn.Module, held: Tensors) -> Tensor:
        return F.cross_entropy(module(held.parts[1]), held.parts[1], reduction="none")

    with pytest.raises(RequestError, match=r"changes '0\.weight'"):
        PerRecordGradient(module, loss).clipped_sum(batch(), ONE)


def test_an_empty_draw_is_refused_too() -> None:
    """Whether a loss is refused must not depend on how many records were sampled."""
    with pytest.raises(RequestError, match="other records"):
        PerRecordGradient(net(), centred).clipped_sum(batch(0), ONE)


def test_pictures_in_bytes_that_the_loss_centres_are_refused() -> None:
    """With random choices for each record, and then with a head of zeros, where values alone show nothing."""
    rng = Rng()

    def loss(mixed: Callable[[Tensor], Tensor]) -> Loss:
        def of(module: nn.Module, records: Records) -> Tensor:
            images, labels = records.tensors()
            noise = torch.randn(len(images), CLASSES, generator=rng.secret_generator())
            return F.cross_entropy(module(mixed(images)) + noise, labels, reduction="none")

        return of

    records = Records(np.full((5, 1, 4, 4), 7, np.uint8), np.arange(5) % CLASSES)
    module = nn.Sequential(nn.Flatten(), nn.Linear(16, CLASSES))
    for mixed in (lambda x: x - x.mean(0), lambda x: x + x[torch.arange(len(x)) - 1]):
        with pytest.raises(RequestError, match="other records"):
            PerRecordGradient(module, loss(mixed)).clipped_sum(records, ONE)
        nn.init.zeros_(module[1].weight)
    PerRecordGradient(module, loss(lambda x: x)).clipped_sum(records, ONE)


def test_a_critic_with_a_penalty_that_mixes_records_is_refused() -> None:
    def points(held: Tensors) -> Points:
        return Points(held.parts[0], -held.parts[0], held.parts[0] / 2)

    class Critic(Hidden):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x)[:, 0]

    for function in (lambda h: h - h.detach().mean(0), lambda h: h.cumsum(0)):
        with pytest.raises(RequestError, match="other records"):
            PenaltyGradient(Critic(function), points).clipped_sum(batch(), ONE)
    PenaltyGradient(Critic(lambda h: h), points).clipped_sum(batch(), ONE)


def test_votes_on_norms_are_asked_too() -> None:
    """The quantile of norms reads the same gradients."""
    votes = SharesBelow(PerRecordGradient(net(), centred), (1.0,), (0, 0, 0, 0))
    with pytest.raises(RequestError, match="other records"):
        votes.clipped_sum(batch(), ONE)


# Networks that keep records apart.


class Tokens(nn.Module):
    """A small transformer over the values of a record, with positions as given."""

    def __init__(self, positions: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.positions = positions
        self.inner, self.places = nn.Linear(1, 8), nn.Embedding(SIZE, 8)
        self.place = nn.Parameter(torch.randn(SIZE, 8))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.outer = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        h = self.inner(x[:, :, None])
        h = h + (self.place if self.positions == "parameter" else self.places(torch.arange(SIZE)))
        return self.outer(self.attention(h, h, h)[0].mean(1))


class Recurrent(nn.Module):
    """Sequence first: records are the second dimension."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = nn.LSTM(1, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(self.inner(x.t()[:, :, None])[0][-1])


class Sorted(nn.Module):
    """Computes its rows in another order, and brings them back."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = net()

    def forward(self, x: Tensor) -> Tensor:
        order = x[:, 0].nan_to_num().argsort(descending=True)
        return self.layers(x[order])[order.argsort()]


class Coincident(nn.Module):
    """Tables whose first dimension is the size of a batch of stand-ins."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.table, self.outer = nn.Parameter(torch.randn(size, SIZE)), nn.Linear(size, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(F.linear(x, self.table / self.table.norm()))


def own_noise(rng: Rng) -> Loss:
    """A variational loss: random choices of each record, from the run's secret stream."""

    def loss(module: nn.Module, held: Tensors) -> Tensor:
        noise = torch.randn(len(held), SIZE, generator=rng.secret_generator())
        return cross_entropy(module, Tensors((held.parts[0] + noise, held.parts[1])))

    return loss


def own_public_noise(stream: torch.Generator) -> Loss:
    def loss(module: nn.Module, held: Tensors) -> Tensor:
        noise = torch.randn(len(held), SIZE, generator=stream)
        return cross_entropy(module, Tensors((held.parts[0] + noise, held.parts[1])))

    return loss


def slope(module: nn.Module, held: Tensors) -> Tensor:
    x = held.parts[0].detach().requires_grad_()
    (found,) = torch.autograd.grad(module(x).square().sum(), x, create_graph=True)
    return found.square().sum(1)


def pictures(*layers: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Unflatten(1, (1, 2, 3)), *layers, nn.Flatten(), nn.LazyLinear(CLASSES))


def lazy(module: nn.Module) -> nn.Module:
    module(torch.zeros(2, SIZE))
    return module


SEPARATE: dict[str, tuple[Callable[[], nn.Module], Loss]] = {
    "perceptron": (net, cross_entropy),
    "layer norm": (lambda: net(nn.LayerNorm(8)), cross_entropy),
    "group norm": (lambda: net(nn.GroupNorm(2, 8)), cross_entropy),
    "batch norm in evaluation": (lambda: net(nn.BatchNorm1d(8, affine=False)).eval(), cross_entropy),
    "learnt slope": (lambda: net(nn.PReLU()), cross_entropy),
    "rectified by hand": (lambda: Hidden(lambda h: torch.where(h > 0, h, 0)), cross_entropy),
    "in place": (lambda: Hidden(lambda h: (h + 1).mul_(2).clamp_(min=0)), cross_entropy),
    "norm of a row": (lambda: Hidden(lambda h: h / h.norm(dim=1, keepdim=True)), cross_entropy),
    "convolution": (
        lambda: lazy(pictures(nn.Conv2d(1, 4, 2), nn.ReLU(), nn.MaxPool2d((1, 2)))),
        cross_entropy,
    ),
    "instance norm": (lambda: lazy(pictures(nn.Conv2d(1, 4, 1), nn.InstanceNorm2d(4, affine=True))), cross_entropy),
    "attention, learnt positions": (lambda: Tokens("parameter"), cross_entropy),
    "attention, looked-up positions": (lambda: Tokens("embedding"), cross_entropy),
    "transformer layer": (
        lambda: Hidden(Sequence(nn.TransformerEncoderLayer(8, 2, 8, 0.0, batch_first=True))),
        cross_entropy,
    ),
    "recurrent, sequence first": (Recurrent, cross_entropy),
    "recurrent, batch first": (lambda: Hidden(Sequence(nn.GRU(8, 8, batch_first=True))), cross_entropy),
    "rows in another order": (Sorted, cross_entropy),
    "a table of 7": (lambda: Coincident(7), cross_entropy),
    "a table of 11": (lambda: Coincident(11), cross_entropy),
    "layers of 7 and 11": (
        lambda: nn.Sequential(nn.Linear(SIZE, 7), nn.Linear(7, 11), nn.Linear(11, CLASSES)),
        cross_entropy,
    ),
    "gradient in the loss": (net, slope),
    "noise of each record": (net, own_noise(Rng())),
    "noise of a public stream": (net, own_public_noise(torch.Generator().manual_seed(0))),
    "weights of the record's class": (
        net,
        lambda module, held: cross_entropy(module, held) * torch.tensor([1.0, 2.0, 3.0])[held.parts[1]],
    ),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(SIZE, CLASSES)), cross_entropy),
    "a head of zeros": (zero_headed, cross_entropy),
    "a buffer of inference mode": (with_fixed_features, cross_entropy),
}


@pytest.mark.parametrize("form", ["auto", "slow"])
@pytest.mark.parametrize("name", SEPARATE)
def test_a_network_that_keeps_records_apart_is_taken(name: str, form: Any, caplog: pytest.LogCaptureFixture) -> None:
    build, loss = SEPARATE[name]
    query = PerRecordGradient(build(), loss, form=form)
    with caplog.at_level(logging.WARNING):
        assert query.clipped_sum(batch(), ONE).isfinite().all()
    assert query.memory.separate


def test_a_discriminator_with_labels_and_several_rows_per_record_is_taken() -> None:
    torch.manual_seed(0)
    module = Discriminator((1, 28, 28), CLASSES, 8)
    records = Records(np.zeros((4, 1, 28, 28), np.uint8), np.arange(4) % CLASSES)

    def loss(module: nn.Module, records: Records) -> Tensor:
        images, labels = records.tensors()
        return F.softplus(-module(images.repeat(2, 1, 1, 1), labels.repeat(2)))

    query = PerRecordGradient(module, loss, multiplicity=2)
    query.clipped_sum(records, ONE)
    assert query.memory.separate


# What the check leaves behind: nothing.


def test_a_check_moves_no_stream() -> None:
    """Neither those that tests fix, nor public ones, nor the common ones: a run ends as it would have without."""
    fixed, public = Rng(noise_seed=1), torch.Generator().manual_seed(2)
    module = net()
    before, shared = fixed.state()["secret"], torch.get_rng_state()
    for loss in (own_noise(fixed), own_public_noise(public)):
        query = PerRecordGradient(module, loss)
        mixing.refuse_mixing(query, batch())
    assert fixed.state()["secret"] == before
    assert torch.equal(public.get_state(), torch.Generator().manual_seed(2).get_state())
    assert torch.equal(torch.get_rng_state(), shared)


def test_a_rehearsal_makes_choices_alike_and_leaves_noise_and_samples_secret() -> None:
    rng = Rng()

    def choices() -> list[Any]:
        stream = rng.secret_generator()
        return [
            rng.uniform(3).tolist(), rng.integers(3, 1000).tolist(), rng.normals(3, "cpu").tolist(),
            torch.rand(3, generator=stream).tolist(),
        ]  # fmt: skip

    with rehearsal():
        first = choices()
    with rehearsal():
        assert choices() == first
        noise = [rng.add_gaussian_(torch.zeros(4), 1.0).tolist() for _ in range(2)]
        samples = [rng.poisson_sample(64, 0.5).tolist() for _ in range(2)]
    with rehearsal():
        assert rng.add_gaussian_(torch.zeros(4), 1.0).tolist() not in noise
        assert rng.poisson_sample(64, 0.5).tolist() not in samples
    assert choices() != first


def test_the_check_is_made_once_and_the_answer_is_that_of_the_plain_loop() -> None:
    calls: list[int] = []

    def counting(module: nn.Module, held: Tensors) -> Tensor:
        calls.append(len(held))
        return cross_entropy(module, held)

    query, held = PerRecordGradient(net(), counting), batch()
    found = query.clipped_sum(held, Bounds(norms=(1e9,)))
    assert set(calls[:-1]) == {7}
    assert calls[-1] == len(held)
    torch.testing.assert_close(found, rows(query.module, cross_entropy, held).sum(0))
    calls.clear()
    query.clipped_sum(held, ONE)
    assert calls == [len(held)]


class Plain:
    """A batch of an author's own, of which nothing is known but how to cut it."""

    units = None

    def __init__(self, held: Tensors) -> None:
        self.held = held

    def __len__(self) -> int:
        return len(self.held)

    def __getitem__(self, which: Any) -> "Plain":
        return Plain(self.held[which])


def test_a_batch_that_cannot_be_made_up_is_asked_by_copies_of_a_record() -> None:
    def loss(module: nn.Module, held: Plain) -> Tensor:
        return centred(module, held.held)

    query = PerRecordGradient(net(), loss)
    assert query.clipped_sum(Plain(batch(0)), ONE).abs().sum() == 0
    assert not query.memory.separate
    with pytest.raises(RequestError, match="other records"):
        query.clipped_sum(Plain(batch()), ONE)
    good = PerRecordGradient(net(), lambda module, held: cross_entropy(module, held.held))
    good.clipped_sum(Plain(batch()), ONE)
    assert good.memory.separate


def test_a_loss_that_fails_on_stand_ins_is_taken_and_said_to_be_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(mixing._log, "warning", lambda text, *_: said.append(text))

    def loss(module: nn.Module, held: Tensors) -> Tensor:
        if len(held) != 9:
            raise ValueError("a value of a record")
        return cross_entropy(module, held)

    query = PerRecordGradient(net(), loss)
    query.clipped_sum(batch(), ONE)
    query.clipped_sum(batch(), ONE)
    assert said == ["This loss fails on made-up records, so nobody checked that it keeps records apart."]
