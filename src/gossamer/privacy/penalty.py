"""The clipped sum for critics with a gradient penalty (WGAN-GP; Gulrajani et al. 2017, equation 3).

The loss of one record pairs it with one fake and with one point x^ between the two:

    L = D(fake) - D(real) + penalty (|grad_x D(x^)| - 1)^2

so a record uses every weight three times. In a piecewise-linear critic D(x) is linear around x^, and the gradient of the
penalty needs no second derivative. Let J = grad_x D(x^), u = dL/dJ, g the gradient of D(x^) at the output of a layer, and v
the direction u pushed forward through the network with its masks held fixed, at the input of that layer. Then the penalty's
gradient for the weight is g outer v: one more taped pair, with v for a and g for b. Biases and inputs that do not depend
on x (labels) have none. Critics with smooth activations, or with operations that are not linear in x, take torch.func.

The fake, the interpolation weight and the labels of a record are coins or data of that record (`docs/guarantees.md`, condition
1): they come from the secret coins of the run, not from a stream that another record could shift.
"""

import functools
import logging
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic

import torch
import torch.autograd.forward_ad as fwd
from torch import Tensor, nn

from gossamer.errors import RequestError
from gossamer.privacy.clipping import ordinary_gradient, summed_calls
from gossamer.privacy.gradients import (
    AnyBatch,
    Form,
    Memory,
    answer,
    check_tape,
    refusal,
)
from gossamer.privacy.mechanisms import Bounds
from gossamer.privacy.operations import Call, Operation
from gossamer.privacy.refusals import check_module
from gossamer.privacy.tape import Tape, TapeError, edges

_log = logging.getLogger(__name__)

VMAP_CHUNK = 32  # records whose gradients torch.func holds at a time

# Autograd nodes of operations that are linear in the images, or piecewise linear with a mask that the images choose.
_PIECEWISE_LINEAR = frozenset(
    [
        "_Taped",
        "AccumulateGrad",
        "LeakyRelu",
        "Relu",
        "Hardtanh",
        "Threshold",
        "PreluKernel",
        "Abs",
        "Where",
        "Maximum",
        "Minimum",
        "MaxPool1DWithIndices",
        "MaxPool2DWithIndices",
        "AvgPool1D",
        "AvgPool2D",
        "AdaptiveAvgPool2D",
        "MkldnnAdaptiveAvgPool2D",
        "Add",
        "Sub",
        "Neg",
        "Sum",
        "Mean",
        "View",
        "UnsafeView",
        "ReshapeAlias",
        "Cat",
        "Stack",
        "Squeeze",
        "Unsqueeze",
        "Transpose",
        "Permute",
        "T",
        "Slice",
        "Select",
        "Split",
        "SplitWithSizes",
        "Expand",
        "Clone",
        "Alias",
        "ToCopy",
        "Index",
        "Repeat",
        "Flip",
        "ConstantPadNd",
        "ReflectionPad2D",
        "ReplicationPad2D",
        "UpsampleNearest2D",
        "PixelShuffle",
        "PixelUnshuffle",
    ]
)
_LINEAR_IN_ONE = frozenset(("Mul", "Div", "Mm", "Bmm", "Addmm", "Mv", "Dot"))  # linear if one factor is a constant


@dataclass(frozen=True)
class Points:
    """What the critic sees of n records. real, fake, between: [n, ...]; labels: [n], handed to the critic as they are."""

    real: Tensor
    fake: Tensor
    between: Tensor
    labels: Tensor | None = None

    def __getitem__(self, which: slice) -> "Points":
        labels = None if self.labels is None else self.labels[which]
        return Points(self.real[which], self.fake[which], self.between[which], labels)

    def __len__(self) -> int:
        return len(self.real)


def penalised_losses(critic: nn.Module, points: Points, *, penalty: float = 10.0, drift: float = 0.0) -> Tensor:
    """One loss per record, [n], by double backward: the definition.

    Args:
        critic: called as critic(images), or critic(images, labels) where points have labels; gives [n].
        points: what it sees.
        penalty: weight of the gradient penalty, lambda of the paper.
        drift: weight of D(real)^2, which keeps the critic's level near zero (Karras et al. 2018); zero in the paper.
    """
    between = points.between.detach().requires_grad_()
    real, fake = _judge(critic, points.real, points), _judge(critic, points.fake, points)
    at = _judge(critic, between, points)
    (slope,) = torch.autograd.grad(at.sum(), between, create_graph=True)
    length = torch.linalg.vector_norm(slope.flatten(1), dim=1)
    losses: Tensor = fake - real + drift * real.square() + penalty * (length - 1).square()
    return losses


@dataclass(frozen=True)
class PenaltyGradient(Generic[AnyBatch]):
    """The query: the sum over the drawn units of clipped gradients of the penalised loss.

    With bounds of infinity it is the ordinary gradient of the summed loss, without double backward where the critic is
    piecewise linear. Make it once per run.

    Args:
        module: the critic, called as critic(images) or critic(images, labels); gives [n].
        points: real, fake and interpolated images of a batch, and its labels. It draws each record's coins.
        penalty: weight of the gradient penalty, lambda of the paper.
        drift: weight of D(real)^2.
        physical_batch_size: records in memory at a time.
        form: "fast" refuses critics that are not piecewise linear; "slow" is double backward, one record at a time; "auto"
            is fast where it can be, else torch.func.

    Raises:
        RequestError: if the critic mixes records, takes coins of its own, or changes with every call.
    """

    module: nn.Module
    points: Callable[[AnyBatch], Points]
    penalty: float = 10.0
    drift: float = 0.0
    physical_batch_size: int = 512
    form: Form = "auto"
    memory: Memory = field(default_factory=Memory, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.physical_batch_size < 1 or not math.isfinite(self.penalty) or not math.isfinite(self.drift):
            raise RequestError("physical_batch_size must be 1 or more; penalty and drift must be finite numbers")
        check_module(self.module)

    @property
    def draws(self) -> int:
        """One: a record appears once in a batch of each of the three kinds."""
        return 1

    @property
    def sizes(self) -> list[int]:
        """Length of each parameter tensor of the critic, in order."""
        return [p.numel() for p in self.module.parameters()]

    @property
    def dimension(self) -> int:
        """D, the number of parameters of the critic."""
        return sum(self.sizes)

    def clipped_sum(self, records: AnyBatch, bounds: Bounds, /, *, out: Tensor | None = None) -> Tensor:
        """[D], the sum of the clipped gradients, in the order of `module.parameters()`; added to out, if given."""
        return answer(self, records, bounds, out)

    def losses(self, batch: AnyBatch) -> Tensor:
        """[n], by double backward."""
        return penalised_losses(self.module, self.points(batch), penalty=self.penalty, drift=self.drift)

    def summed(self, batch: AnyBatch) -> Tensor:
        """[D], the gradient of the summed losses; without double backward where the critic is piecewise linear."""
        if self.form != "slow" and not self.memory.slow:
            try:
                return summed_calls(self.taped(batch), self.module)
            except TapeError as unknown:
                if self.form == "fast":
                    raise refusal(unknown) from None
        return ordinary_gradient(self.losses(batch).sum(), self.module)

    def taped(self, batch: AnyBatch) -> list[Call]:
        """The pairs of all three uses."""
        return penalty_calls(self.module, self.points(batch), self.penalty, self.drift, self.memory)

    def rows(self, batch: AnyBatch) -> Iterator[Tensor]:
        """Per-record gradients, [m, D]: by torch.func in chunks; one record at a time if so asked, or if that fails."""
        points = self.points(batch)
        if self.form != "slow" and not self.memory.one_by_one:
            for lo in range(0, len(points), VMAP_CHUNK):
                piece = points[lo : lo + VMAP_CHUNK]
                try:
                    gradients = rows_by_vmap(self.module, piece, penalty=self.penalty, drift=self.drift)
                except RuntimeError:
                    if lo:
                        raise  # it could follow the critic, so something else is wrong, and rows were given already
                    break
                yield gradients
            else:
                return
            self.memory.one_by_one = True
            _log.warning("torch.func cannot follow this critic: its records go one at a time from here on.")
        for i in range(len(points)):
            losses = penalised_losses(self.module, points[i : i + 1], penalty=self.penalty, drift=self.drift)
            yield ordinary_gradient(losses.sum(), self.module)[None]


def penalty_calls(critic: nn.Module, points: Points, penalty: float, drift: float, memory: Memory) -> list[Call]:
    """The taped pairs of the penalised loss: D(real), D(fake) and the penalty, three per use of a weight.

    Raises:
        TapeError: the critic is not piecewise linear, or the tape does not know a layer.
    """
    tape = Tape(critic)
    between = points.between.detach().requires_grad_()
    with tape:
        ends = _judge(critic, points.fake, points), _judge(critic, points.real, points)
        before = len(tape.calls)
        tape.keep_outputs = True
        at = _judge(critic, between, points)
    fake, real = ends
    check_tape(tape, fake + real + at, len(points), memory)
    if (name := _not_piecewise_linear(at)) is not None:
        raise TapeError(f"{name}, which is not piecewise linear,")
    root = fake.sum() - real.sum() + at.sum()
    if drift:
        root = root + drift * real.square().sum()
    (slope,) = tape.backward(root, between)
    if slope is None:
        return tape.calls[:before]
    # A point where the critic is not finite may have a finite slope; its record is left out like any such record.
    sound = torch.where(at.detach().isfinite(), 1.0, torch.nan).view(-1, *(1,) * (slope.dim() - 1))
    directions = _pushed(critic, points, _direction(slope, penalty) * sound.to(slope.dtype), tape.outputs)
    for call, direction in zip(tape.calls[before:], directions, strict=True):
        call.bias = None
        if direction is None:
            call.b = None
        call.a = direction
    return tape.calls


def rows_by_vmap(critic: nn.Module, points: Points, *, penalty: float, drift: float) -> Tensor:
    """Per-record gradients [n, D] of any critic that torch.func can follow."""
    learning = {name: p.detach() for name, p in critic.named_parameters()}

    def loss(given: dict[str, Tensor], real: Tensor, fake: Tensor, between: Tensor, label: Tensor | None) -> Tensor:
        def judge(image: Tensor) -> Tensor:
            inputs = (image[None],) if label is None else (image[None], label[None])
            value: Tensor = torch.func.functional_call(critic, given, inputs).sum()
            return value

        slope = torch.func.grad(judge)(between)
        level = judge(real)
        length = torch.linalg.vector_norm(slope)
        whole: Tensor = judge(fake) - level + drift * level.square() + penalty * (length - 1).square()
        return whole

    axes = (None, 0, 0, 0, None if points.labels is None else 0)
    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=axes)
    found = gradients(learning, points.real, points.fake, points.between, points.labels)
    return torch.cat([found[name].flatten(1) for name, _ in critic.named_parameters()], 1)


class _Tangents(Tape):
    """While it is entered, the tangent that meets each watched weight is written down, and pushed on.

    Args:
        module: the critic.
        outputs: of the same calls on the same points, with their versions; computed again where an activation has changed
            one in place.
    """

    def __init__(self, module: nn.Module, outputs: list[tuple[Tensor, int]]) -> None:
        super().__init__(module)
        self.known = outputs

    def use(self, op: Operation, a: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        out, version = self.known[len(self.calls)]
        primal, tangent = fwd.unpack_dual(a)
        self.calls.append(Call(op, None, None, a=tangent))
        if out._version != version:
            out = op.forward(primal, weight, bias)
        return out if tangent is None else fwd.make_dual(out, op.forward(tangent, weight, None))


def _pushed(
    critic: nn.Module, points: Points, direction: Tensor, outputs: list[tuple[Tensor, int]]
) -> list[Tensor | None]:
    """The direction at the input of each use of a weight, in the order of the uses; None where it is zero for all."""
    _load_forward_mode()
    tape = _Tangents(critic, outputs)
    with torch.no_grad(), fwd.dual_level(), tape:
        _judge(critic, fwd.make_dual(points.between.detach(), direction), points)
    return [call.a for call in tape.calls]


@functools.cache
def _load_forward_mode() -> None:
    """Torch loads its rules for forward mode at first use, with a deprecation warning about its own torch.jit.script."""
    with warnings.catch_warnings(), fwd.dual_level():
        warnings.simplefilter("ignore", DeprecationWarning)
        fwd.make_dual(torch.zeros(1), torch.zeros(1))


def _direction(slope: Tensor, penalty: float) -> Tensor:
    """U, the derivative of penalty (|J| - 1)^2 by J, for each record; zero where J is. slope: J, [n, ...]."""
    length = torch.linalg.vector_norm(slope.flatten(1), dim=1)
    factor = torch.where(length == 0, 0, 2 * penalty * (length - 1) / length)
    return slope * factor.view(-1, *(1,) * (slope.dim() - 1))


def _judge(critic: nn.Module, images: Tensor, points: Points) -> Tensor:
    """[n]"""
    values: Tensor = critic(images) if points.labels is None else critic(images, points.labels)
    if values.shape != (len(points),):
        raise RequestError("the critic must give one number per record, as a vector of n")
    return values


def _not_piecewise_linear(root: Tensor) -> str | None:
    """The first operation under root that is not known to be piecewise linear in what reaches it."""
    for node in {root.grad_fn} | {child for _, child in edges(root)}:
        if node is None:
            continue
        name = node.name().rpartition("::")[2].rstrip("0123456789").removesuffix("Backward")
        factors = sum(child is not None for child, _ in node.next_functions)
        if name not in _PIECEWISE_LINEAR and not (name in _LINEAR_IN_ONE and factors <= 1):
            return name
    return None
