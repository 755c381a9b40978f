"""Networks with weights that do not learn: the fast form passes over them, and its sums are those of the slow form."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gossamer.data.records import Records
from gossamer.privacy.per_sample_gradients.ghost import Call
from gossamer.privacy.per_sample_gradients.gradients import PerRecordGradient, Tensors
from gossamer.privacy.per_sample_gradients.layers import Embedding
from gossamer.privacy.per_sample_gradients.mixing import _stand_ins
from gossamer.privacy.per_sample_gradients.penalty import PenaltyGradient, Points
from gossamer.privacy.queries import Bounds

BOUNDS = Bounds((0.5,))


def drawn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


FIXED = {
    "conv2d": lambda x: F.conv2d(x, drawn(4, 2, 3, 3), padding=1),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x, drawn(2, 4, 3, 3), padding=1),
    "embedding": lambda x: x + F.embedding((x[:, 0, 0] > 0).long(), drawn(2, 6))[:, None],
    "layer_norm": lambda x: F.layer_norm(x, [6, 6], drawn(6, 6), drawn(6, 6, seed=2)),
    "rms_norm": lambda x: F.rms_norm(x, [6, 6], drawn(6, 6)),
    "group_norm": lambda x: F.group_norm(x, 2, drawn(2), drawn(2, seed=2)),
}


class Fixed(nn.Module):
    """A function with weights that are no parameters, between two layers that learn."""

    def __init__(self, name: str) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.name, self.last = nn.Conv2d(1, 2, 3, padding=1), name, nn.LazyLinear(1)
        self(drawn(2, 1, 6, 6))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(FIXED[self.name](self.first(x)).flatten(1)).squeeze(1)


def loss(net: nn.Module, batch: Tensors) -> Tensor:
    return net(batch.parts[0]).square()


@pytest.mark.parametrize("name", FIXED)
def test_a_function_of_a_fixed_weight_is_passed_through(name: str) -> None:
    batch = Tensors((drawn(7, 1, 6, 6, seed=5),))
    fast, slow = (
        PerRecordGradient(Fixed(name), loss, form=form).clipped_sum(batch, BOUNDS) for form in ("fast", "slow")
    )
    assert torch.allclose(fast, slow, rtol=1e-4, atol=1e-5)
    assert fast.norm() > 0.1


@pytest.mark.parametrize("learns", ["weight", "bias"])
def test_of_a_layer_of_which_a_part_learns_the_rest_has_no_gradient(learns: str) -> None:
    def critic() -> nn.Module:
        torch.manual_seed(4)
        net = nn.Sequential(nn.Linear(5, 4), nn.LeakyReLU(), nn.Linear(4, 1), nn.Flatten(0))
        for name, parameter in net[0].named_parameters():
            parameter.requires_grad_(name == learns)
        return net

    def points(batch: Tensors) -> Points:
        (real,) = batch.parts
        return Points(real, real.flip(1), (real + real.flip(1)) / 2)

    batch = Tensors((drawn(6, 5),))
    sums = [PenaltyGradient(critic(), points, form=form) for form in ("fast", "slow")]
    for ask in (lambda query: query.summed(batch), lambda query: query.clipped_sum(batch, BOUNDS)):
        fast, slow = map(ask, sums)
        assert torch.allclose(fast, slow, rtol=1e-4, atol=1e-5)
        assert fast.norm() > 0.01
        fixed = fast[:20] if learns == "bias" else fast[20:24]
        assert fixed.tolist() == [0.0] * len(fixed)


def test_a_loss_that_no_parameter_moves_has_gradient_zero() -> None:
    net = nn.Linear(3, 1)
    batch = Tensors((drawn(5, 3),))
    for form in ("fast", "slow"):
        query = PerRecordGradient(net, lambda net, batch: batch.parts[0].sum(1), form=form)
        assert query.summed(batch).tolist() == query.clipped_sum(batch, BOUNDS).tolist() == [0.0] * 4
        assert query.clipped_sum(batch, BOUNDS, out=torch.ones(4)).tolist() == [1.0] * 4


class Blind(nn.Module):
    """A critic that judges without a look at its input."""

    def __init__(self, *, learns: bool) -> None:
        super().__init__()
        self.layer, self.learns = nn.Linear(1, 1), learns

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(torch.ones(len(x), 1)).squeeze(1) if self.learns else x.new_zeros(len(x))


@pytest.mark.parametrize("learns", [True, False])
def test_a_critic_that_does_not_look_at_its_input_has_no_slope_to_punish(learns: bool) -> None:
    def points(batch: Tensors) -> Points:
        (real,) = batch.parts
        return Points(real, real.flip(1), (real + real.flip(1)) / 2)

    query = PenaltyGradient(Blind(learns=learns), points, form="fast")
    assert query.clipped_sum(Tensors((drawn(6, 5),)), BOUNDS).tolist() == [0.0, 0.0], "fakes add what records take away"


def test_a_use_that_the_loss_does_not_reach_keeps_nothing() -> None:
    call = Call(Embedding(None), weight=0, bias=None)
    call.keep(1, multiplicity=1)
    assert call.a is call.b is None


def test_the_names_of_units_are_left_out_of_stand_ins() -> None:
    names = np.array(["P1", "P2", "P3"])
    batch = Records(np.zeros((3, 1, 2, 2), np.uint8), np.arange(3), units=np.arange(3), names=names)
    made = _stand_ins(batch, 5)
    assert (len(made.images), len(made.labels), len(made.names)) == (5, 5, 0)
