"""The clipped sum for critics with a gradient penalty (WGAN-GP; Gulrajani et al. 2017, equation 3).

The loss of one record pairs it with one fake and with one point x^ between the two:

    L = D(fake) - D(real) + penalty (|grad_x D(x^)| - 1)^2

so a record uses every weight three times. In a piecewise-linear critic the gradient of the penalty needs no second derivative
(`tangents`). Other critics take the slow form.

The fake and the interpolation weight of a record are secret random choices of that record (`docs/proofs.md`, condition 1).
They never come from a stream that another record could shift.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from gossamer.errors import RequestError
from gossamer.privacy.per_sample_gradients.answers import AnyBatch, Form, Gradients, Memory, refusal
from gossamer.privacy.per_sample_gradients.clipping import ordinary_gradient, summed_calls
from gossamer.privacy.per_sample_gradients.refusals import check_module
from gossamer.privacy.per_sample_gradients.tangents import Points, penalty_calls
from gossamer.privacy.per_sample_gradients.tape import TapeError
from gossamer.privacy.per_sample_gradients.uses import Call


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
    precision = "fp32"  # `tangents` makes its pairs by products of its own

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
