"""The clipped sum for critics with a gradient penalty (WGAN-GP; Gulrajani et al. 2017, equation 3).

The loss of one record pairs it with one fake and with one point x^ between the two:

    L = D(fake) - D(real) + penalty (|grad_x D(x^)| - 1)^2

so a record uses every weight three times.

A piecewise-linear critic D(x) is linear around x^, so the gradient of the penalty needs no second derivative. Let J = grad_x
D(x^), u = dL/dJ, and g the gradient of D(x^) at the output of a layer. Let v be the direction u pushed forward through the
network, with its masks held fixed, to the input of that layer. Then the penalty's gradient for the weight is g outer v: one
more taped pair, with v for a and g for b. Biases, and inputs that do not depend on x (labels), have none. Other critics take
the slow form.

The fake and the interpolation weight of a record are secret random choices of that record (`docs/proofs.md`, condition 1).
They never come from a stream that another record could shift.
"""

import functools
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
import torch.autograd.forward_ad as fwd
from torch import Tensor, nn

from gossamer.errors import RequestError
from gossamer.privacy.per_sample_gradients.clipping import ordinary_gradient, summed_calls
from gossamer.privacy.per_sample_gradients.ghost import Call, Layer
from gossamer.privacy.per_sample_gradients.gradients import AnyBatch, Form, Gradients, Memory, check_tape, refusal
from gossamer.privacy.per_sample_gradients.refused import check_module
from gossamer.privacy.per_sample_gradients.tape import Tape, TapeError, edges

# Autograd nodes of operations that are linear in the images, or piecewise linear with a mask that the images choose.
_ACTIVATIONS = "LeakyRelu Relu Hardtanh Threshold PreluKernel Abs Where Maximum Minimum"
_POOLING = (
    "MaxPool1DWithIndices MaxPool2DWithIndices AvgPool1D AvgPool2D AdaptiveAvgPool2D MkldnnAdaptiveAvgPool2D "
    "UpsampleNearest2D"
)
_SUMS = "_Taped AccumulateGrad Add Sub Neg Sum Mean"
_SHAPES = (
    "View UnsafeView ReshapeAlias Squeeze Unsqueeze Transpose Permute T Expand Clone Alias ToCopy Flip PixelShuffle "
    "PixelUnshuffle"
)
_PARTS = "Cat Stack Slice Select Split SplitWithSizes Index Repeat"
_PADDING = "ConstantPadNd ReflectionPad2D ReplicationPad2D"
_PIECEWISE_LINEAR = frozenset(" ".join([_ACTIVATIONS, _POOLING, _SUMS, _SHAPES, _PARTS, _PADDING]).split())
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

    def judged(self, critic: nn.Module, images: Tensor) -> Tensor:
        """The critic's numbers for images [n, ...] of these records, with their labels. [n]

        Raises:
            RequestError: if it gives anything else.
        """
        values: Tensor = critic(images) if self.labels is None else critic(images, self.labels)
        if values.shape != (len(self),):
            raise RequestError("the critic must give one number per record, as a vector of n")
        return values


def penalised_losses(critic: nn.Module, points: Points, *, penalty: float = 10.0) -> Tensor:
    """One loss per record, [n], by double backward: the definition. For critic and penalty see `PenaltyGradient`."""
    between = points.between.detach().requires_grad_()
    real, fake = points.judged(critic, points.real), points.judged(critic, points.fake)
    at = points.judged(critic, between)
    (slope,) = torch.autograd.grad(at.sum(), between, create_graph=True)
    length = torch.linalg.vector_norm(slope.flatten(1), dim=1)
    losses: Tensor = fake - real + penalty * (length - 1).square()
    return losses


@dataclass(frozen=True)
class PenaltyGradient(Gradients[AnyBatch]):
    """The query: the sum over the sampled units of clipped gradients of the penalised loss.

    Args:
        module: the critic, called as critic(images) or critic(images, labels); gives [n].
        points: real, fake and interpolated images of a batch, and its labels. It makes each record's random choices.
        penalty: weight of the gradient penalty, lambda of the paper.
        form: "fast" refuses critics that are not piecewise linear. "slow" is double backward, one record at a time. "auto"
            is fast where it can be.

    Raises:
        RequestError: as for `PerRecordGradient`.
    """

    module: nn.Module
    points: Callable[[AnyBatch], Points]
    penalty: float = 10.0
    physical_batch_size: int = 512
    form: Form = "auto"
    memory: Memory = field(default_factory=Memory, init=False, repr=False, compare=False)
    multiplicity = 1  # a record appears once in a batch of each of the three kinds
    precision = "fp32"  # the pairs of the penalty come from products of their own

    def __post_init__(self) -> None:
        if self.physical_batch_size < 1 or not math.isfinite(self.penalty):
            raise RequestError("physical_batch_size must be 1 or more, and the penalty a finite number")
        check_module(self.module)

    def losses(self, batch: AnyBatch) -> Tensor:
        """[n], by double backward."""
        return penalised_losses(self.module, self.points(batch), penalty=self.penalty)

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
        return penalty_calls(self.module, self.points(batch), self.penalty, self.memory)

    def rows(self, batch: AnyBatch) -> Iterator[Tensor]:
        """[1, D] for each record, by double backward."""
        points = self.points(batch)
        for i in range(len(points)):
            losses = penalised_losses(self.module, points[i : i + 1], penalty=self.penalty)
            yield ordinary_gradient(losses.sum(), self.module)[None]


def penalty_calls(critic: nn.Module, points: Points, penalty: float, memory: Memory) -> list[Call]:
    """The taped pairs of the penalised loss: D(real), D(fake) and the penalty, three per use of a weight.

    Raises:
        TapeError: the critic is not piecewise linear, or the tape does not know a layer.
    """
    tape = Tape(critic)
    between = points.between.detach().requires_grad_()
    with tape:
        fake, real = points.judged(critic, points.fake), points.judged(critic, points.real)
        before = len(tape.calls)
        tape.keep_outputs = True
        at = points.judged(critic, between)
    check_tape(tape, fake + real + at, len(points), memory)
    if (name := _not_piecewise_linear(at)) is not None:
        raise TapeError(f"{name}, which is not piecewise linear,")
    (slope,) = tape.backward(fake.sum() - real.sum() + at.sum(), between)
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


class _Tangents(Tape):
    """While it is entered, the tangent that meets each watched weight is written down, and pushed on.

    outputs: of the same calls on the same points, with their versions. An output that was changed in place is computed again.
    """

    def __init__(self, module: nn.Module, outputs: list[tuple[Tensor, int]]) -> None:
        super().__init__(module)
        self.outputs_before = outputs

    def use(self, layer: Layer, a: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
        out, version = self.outputs_before[len(self.calls)]
        primal, tangent = fwd.unpack_dual(a)
        self.calls.append(Call(layer, None, None, a=tangent))
        if out._version != version:
            out = layer.forward(primal, weight, bias)
        return out if tangent is None else fwd.make_dual(out, layer.forward(tangent, weight, None))


def _pushed(
    critic: nn.Module, points: Points, direction: Tensor, outputs: list[tuple[Tensor, int]]
) -> list[Tensor | None]:
    """The direction at the input of each use of a weight, in the order of the uses; None where it is zero for all."""
    _load_forward_mode()
    tape = _Tangents(critic, outputs)
    with torch.no_grad(), fwd.dual_level(), tape:
        points.judged(critic, fwd.make_dual(points.between.detach(), direction))
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
