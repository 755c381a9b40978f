"""The clipped sum of per-record gradients: what every DP-SGD mechanism asks for.

    query = PerRecordGradient(critic, loss)      # once, before the loop
    total = query.clipped_sum(records, bounds)   # every step; [D]

Contract: with the coins of each record fixed, adding or removing one unit, at any position, moves the sum by at most
`bounds.norms[j]` in L2 on the parameters of group j, rounding included as far as `rounding` says. How the sum is come by:
`answers`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Self, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from gossamer.errors import RequestError
from gossamer.privacy.per_sample_gradients.answers import AnyBatch, Form, Memory, answer, check_tape
from gossamer.privacy.per_sample_gradients.clipping import ordinary_gradient, place, sum_dtype
from gossamer.privacy.per_sample_gradients.precision import Precision, lowered
from gossamer.privacy.per_sample_gradients.refusals import check_module
from gossamer.privacy.per_sample_gradients.tape import Tape, TapeError
from gossamer.privacy.per_sample_gradients.uses import Call
from gossamer.privacy.queries import Bounds

RecordLoss: TypeAlias = Callable[[nn.Module, AnyBatch], Tensor]
"""Calls the module on the batch; gives one loss per record, [n]; with a multiplicity, [multiplicity x n]."""


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
class PerRecordGradient(Generic[AnyBatch]):
    """The query of DP-SGD: the sum over the drawn units of clipped gradients of a per-record loss.

    Make it once per run: it remembers what it has learnt about the network.

    Args:
        module: the network; the answer runs over `module.parameters()` in their order. A parameter that does not require a
            gradient, or that the loss does not use, has the gradient zero.
        loss: one loss per record. Coins that it needs (latents, masks, interpolation weights) come from the secret coins of
            the run and belong to a record; `docs/guarantees.md`, condition 1.
        physical_batch_size: how many records are in memory at a time. The answer does not depend on it, except by rounding.
        form: "fast", "slow", or "auto": fast where the network is known, slow where it is not.
        multiplicity: losses per record. They come as [multiplicity x n], record r at r, r + n, r + 2n ...; its gradient is the
            sum over its losses.
        precision: of forward pass and input gradients; norms and sums stay in single precision. The gradient of a record is
            then defined by what they leave (`rounding`). Below "fp32" every physical batch is filled up to one size.

    Raises:
        RequestError: if the network mixes records, takes coins of its own, or changes with every call.
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

    @property
    def sizes(self) -> list[int]:
        """Length of each parameter tensor, in order."""
        return [p.numel() for p in self.module.parameters()]

    @property
    def dimension(self) -> int:
        """D, the number of parameters."""
        return sum(self.sizes)

    def clipped_sum(self, records: AnyBatch, bounds: Bounds, /, *, out: Tensor | None = None) -> Tensor:
        """[D], float32 or wider: the sum of the clipped gradients, in the order of `module.parameters()`; added to `out`."""
        return answer(self, records, bounds, out)

    def losses(self, batch: AnyBatch) -> Tensor:
        """[multiplicity x n]

        Raises:
            RequestError: if the loss is not one number per row.
        """
        losses = self.loss(self.module, batch)
        if losses.shape != (self.multiplicity * len(batch),):
            raise RequestError(
                "the loss must give one number per record, times the multiplicity, as a vector of multiplicity x n: "
                f"reduction='none', no mean and no sum over the batch. It gave {losses.dim()} dimensions."
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


def clipped_sum(
    module: nn.Module,
    loss: RecordLoss[AnyBatch],
    batch: AnyBatch,
    bounds: Bounds,
    *,
    physical_batch_size: int = 512,
    form: Form = "auto",
    multiplicity: int = 1,
    precision: Precision = "fp32",
) -> Tensor:
    """The clipped sum in one call, [D]. In a loop, keep a `PerRecordGradient` instead: it looks at the network once."""
    query = PerRecordGradient(module, loss, physical_batch_size, form, multiplicity, precision)
    return query.clipped_sum(batch, bounds)


def rows(module: nn.Module, loss: RecordLoss[AnyBatch], batch: AnyBatch, *, multiplicity: int = 1) -> Tensor:
    """Per-record gradients [n, D] by a plain loop of ordinary autograd: the reference that the tests compare with."""
    query = PerRecordGradient(module, loss, multiplicity=multiplicity)
    parts = list(query.rows(batch))
    return torch.cat(parts) if parts else torch.zeros(0, query.dimension, dtype=sum_dtype(module))


def check_records_independent(
    module: nn.Module, loss: RecordLoss[AnyBatch], batch: AnyBatch, *, multiplicity: int = 1
) -> bool:
    """Whether, in this batch, the loss of the first record depends on that record alone, as far as gradients show.

    One extra backward pass. Every query asks this once, on its first batch of two records or more.
    """
    tape = Tape(module)
    with tape:
        losses = loss(module, batch)
    try:
        check_tape(tape, losses, multiplicity * len(batch), Memory())
    except TapeError:
        return False
    return True
