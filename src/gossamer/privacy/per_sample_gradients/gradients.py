"""The clipped sum of per-record gradients: what every DP-SGD mechanism asks for.

    query = PerRecordGradient(critic, loss)      # once, before the loop
    total = query.clipped_sum(records, bounds)   # every step; [D]

Contract: fix the random choices of each record. Then adding or removing one unit, at any position, moves the sum by at most
`bounds.norms[j]` in L2 on the parameters of group j. `rounding` says how far this includes rounding. `answers` computes it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from gossamer.errors import RequestError
from gossamer.privacy.per_sample_gradients.answers import AnyBatch, Form, Gradients, Memory, check_tape
from gossamer.privacy.per_sample_gradients.clipping import ordinary_gradient, place
from gossamer.privacy.per_sample_gradients.precision import Precision, lowered
from gossamer.privacy.per_sample_gradients.refusals import check_module
from gossamer.privacy.per_sample_gradients.tape import Tape
from gossamer.privacy.per_sample_gradients.uses import Call


@dataclass(frozen=True)
class Tensors:
    """A batch of plain tensors that share their first dimension: fakes, public records, tests."""

    parts: tuple[Tensor, ...]
    units: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.parts[0])

    def __getitem__(self, which: slice | np.ndarray, /) -> Self:
        index = which if isinstance(which, slice) else torch.from_numpy(which)
        units = None if self.units is None else self.units[which]
        return type(self)(tuple(part[index] for part in self.parts), units)


@dataclass(frozen=True)
class PerRecordGradient(Gradients[AnyBatch]):
    """The query of DP-SGD: the sum over the drawn units of clipped gradients of a per-record loss.

    Args:
        module: the network. A parameter that does not learn, or that the loss does not use, has the gradient zero.
        loss: called as loss(module, batch); one loss per record. Random choices that it needs (latents, masks, weights) are
            secret and belong to a record (`docs/proofs.md`, condition 1).
        physical_batch_size: records in memory at a time. The answer depends on it by rounding only.
        form: "fast", "slow", or "auto": fast where the network is known, slow where it is not.
        multiplicity: losses per record, [multiplicity x n], record r at r, r + n, r + 2n ... Its gradient is their sum.
        precision: of forward pass and input gradients; norms and sums stay in single precision (`rounding`).

    Raises:
        RequestError: if the network or the loss mixes records, takes random numbers from a common stream, or changes with every
            call. `mixing` says how this is found, and what it cannot find.
    """

    module: nn.Module
    loss: Callable[[nn.Module, AnyBatch], Tensor]
    physical_batch_size: int = 512
    form: Form = "auto"
    multiplicity: int = 1
    precision: Precision = "fp32"
    memory: Memory = field(default_factory=Memory, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.physical_batch_size < 1 or self.multiplicity < 1:
            raise RequestError("physical_batch_size and multiplicity must be 1 or more")
        check_module(self.module)

    def losses(self, batch: AnyBatch) -> Tensor:
        """[multiplicity x n]

        Raises:
            RequestError: if the loss is not one number per row.
        """
        losses = self.loss(self.module, batch)
        if losses.shape != (self.multiplicity * len(batch),):
            raise RequestError(
                f"the loss must give one number per record, as a vector of multiplicity x n, not {losses.dim()} dimensions. "
                "Take reduction='none', and no mean or sum over the batch."
            )
        return losses

    def summed(self, batch: AnyBatch) -> Tensor:
        """[D], the gradient of the summed losses by ordinary autograd."""
        with lowered(self.precision, place(self.module)):
            return ordinary_gradient(self.losses(batch).sum(), self.module)

    def taped(self, batch: AnyBatch) -> list[Call]:
        """One forward pass and one backward pass; what the tape then holds."""
        tape = Tape(self.module)
        with lowered(self.precision, place(self.module)):
            with tape:
                losses = self.losses(batch)
            check_tape(tape, losses, self.multiplicity * len(batch), self.memory)
            tape.backward(losses.sum())
        return tape.calls

    def rows(self, batch: AnyBatch) -> Iterator[Tensor]:
        """[1, D] for each record: the plain loop."""
        for i in range(len(batch)):
            yield self.summed(batch[i : i + 1])[None]
