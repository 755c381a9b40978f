"""The clipped sum of per-record gradients: what every DP-SGD mechanism asks for.

    query = PerRecordGradient(critic, loss)      # once, before the loop
    total = query.clipped_sum(records, bounds)   # every step; [D]

Contract: fix the random choices of each record. Then adding or removing one unit, at any position, moves the sum by at most
`bounds.norms[j]` in L2 on the parameters of group j. `rounding` says how far this includes rounding.

The *fast form* costs little more than an ordinary step. It takes one forward pass, and one backward pass without weight
gradients (`tape`). Then it takes the norms of all records' gradients, and one weight-gradient call per layer on clipped pairs
(`clipping`). The *slow form* takes the records one at a time through ordinary autograd. It is the reference, and serves
networks that the fast form does not know. "auto" chooses it for these, and says so once in the log.

A *unit* with several records in the draw (a writer, a patient) is clipped as a whole. One backward pass goes over all of its
records, in pieces of `physical_batch_size`, and one factor clips the result. Units with one record take the fast form.

Non-finite gradients count as zero, and raise nothing: raising would be an output. An empty draw gives zeros.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from gossamer.errors import RequestError
from gossamer.privacy.per_sample_gradients.clipping import (
    add_clipped_,
    call_norms,
    clip_rows,
    clips,
    empty,
    groups_of_parameters,
    ordinary_gradient,
    place,
    row_norms,
    sum_dtype,
)
from gossamer.privacy.per_sample_gradients.ghost import Call
from gossamer.privacy.per_sample_gradients.mixing import refuse_mixing
from gossamer.privacy.per_sample_gradients.refused import check_module
from gossamer.privacy.per_sample_gradients.rounding import Precision, lowered, one_size
from gossamer.privacy.per_sample_gradients.tape import Tape, TapeError
from gossamer.privacy.queries import Bounds

_log = logging.getLogger(__name__)

Form: TypeAlias = Literal["auto", "fast", "slow"]


class Batch(Protocol):
    """Records that can be counted and cut. `data.records.Records` is one."""

    @property
    def units(self) -> np.ndarray | None:
        """int64 [n], equal numbers belong to one unit. None: every record is its own unit."""

    def __len__(self) -> int: ...

    def __getitem__(self, which: slice | np.ndarray, /) -> Self: ...


AnyBatch = TypeVar("AnyBatch", bound=Batch)


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


@dataclass
class Memory:
    """What a query remembers of its network, so that it inspects the network once."""

    separate: bool = False
    independent: bool = False
    slow: bool = False


class Gradients(ABC, Generic[AnyBatch]):
    """A query for clipped gradients of a network. Its subclasses define the loss.

    Make it once per run, because it remembers what it has learnt about the network.
    """

    module: nn.Module
    physical_batch_size: int
    form: Form
    multiplicity: int
    precision: Precision
    memory: Memory

    @abstractmethod
    def losses(self, batch: AnyBatch) -> Tensor:
        """Return the losses of a batch, [multiplicity x n]."""

    @abstractmethod
    def summed(self, batch: AnyBatch) -> Tensor:
        """Return the gradient of the summed losses, not clipped. [D]"""

    @abstractmethod
    def taped(self, batch: AnyBatch) -> list[Call]:
        """Return the calls of a backward pass. Raises TapeError."""

    @abstractmethod
    def rows(self, batch: AnyBatch) -> Iterator[Tensor]:
        """Return per-record gradients, [m, D], in any number of pieces."""

    @property
    def sizes(self) -> list[int]:
        """Length of each parameter tensor, in order."""
        return [p.numel() for p in self.module.parameters()]

    @property
    def dimension(self) -> int:
        """D, the number of parameters."""
        return sum(self.sizes)

    def inspect(self, records: AnyBatch) -> None:
        """Refuse a network or a loss for which a record has no gradient of its own. Raises RequestError."""
        check_module(self.module)
        self.memory.separate = self.memory.separate or refuse_mixing(self, records)

    def clipped_sum(self, records: AnyBatch, bounds: Bounds, /, *, out: Tensor | None = None) -> Tensor:
        """Return the sum of the clipped gradients, in the order of `module.parameters()`; added to `out`, if given.

        [D], float32 or wider.
        """
        self.inspect(records)
        groups_of_parameters(bounds, len(self.sizes))
        fresh = out is None  # nothing is in it yet: the first batch writes where others add
        out = empty(self.module) if out is None else out
        single, several = by_unit(records) if clips(bounds) else (records, [])
        for batch in self._physical(single):
            self._add_records_(out, batch, bounds, fresh=fresh)
            fresh = False
        if fresh:
            out.zero_()
        for unit in several:
            out.add_(clip_rows(self._of_unit(unit)[None], self.module, bounds)[0])
        return out

    def norms(self, records: AnyBatch, groups: Sequence[int]) -> Tensor:
        """L2 norms of each unit's gradient, group by group: [units, k]. Not clipped: on private records only inside a query.

        groups: the group of each parameter tensor, from 0 to k - 1.
        """
        check_module(self.module)
        single, several = by_unit(records)
        parts = [torch.zeros(0, max(groups) + 1, dtype=sum_dtype(self.module))]
        for batch in self._physical(single):
            if (calls := self._fast(batch)) is not None:
                parts.append(call_norms(calls, self.module, groups, len(batch), **self._public))
            else:
                parts += [row_norms(rows, self.module, groups) for rows in self.rows(batch)]
        parts += [row_norms(self._of_unit(unit)[None], self.module, groups) for unit in several]
        return torch.cat([part.cpu() for part in parts])

    def _physical(self, records: AnyBatch) -> Iterator[AnyBatch]:
        """The records, `physical_batch_size` at a time."""
        for lo in range(0, len(records), self.physical_batch_size):
            yield records[lo : lo + self.physical_batch_size]

    @property
    def _public(self) -> dict[str, int]:
        """What `clipping` is told of every batch, whatever was sampled."""
        return {"at_once": self.physical_batch_size, "multiplicity": self.multiplicity}

    def _add_records_(self, out: Tensor, batch: AnyBatch, bounds: Bounds, *, fresh: bool) -> None:
        """One physical batch, each record its own unit. Where `out` is fresh, it is written and never read."""
        if not clips(bounds):
            total = self.summed(batch)
            if bool(total.isfinite().all()):
                _ = out.copy_(total) if fresh else out.add_(total)
                return
            # A record is not finite: the clipped form leaves it out, and a bound of infinity leaves the others whole.
        if (calls := self._fast(batch)) is not None:
            add_clipped_(out, calls, self.module, bounds, fresh=fresh, **self._public)
            return
        if fresh:
            out.zero_()
        for gradients in self.rows(batch):
            out.add_(clip_rows(gradients, self.module, bounds).sum(0))

    def _of_unit(self, unit: AnyBatch) -> Tensor:
        """The gradients of a unit with several records, added up over all physical batches. [D]"""
        return sum(map(self.summed, self._physical(unit)), empty(self.module).zero_())

    def _fast(self, batch: AnyBatch) -> list[Call] | None:
        """The taped calls of a physical batch; None where the slow form is asked for, or the tape does not know the network."""
        if self.form == "slow" or self.memory.slow:
            return None
        full = filled(batch, self.physical_batch_size) if one_size(self.precision, place(self.module)) else batch
        try:
            calls = self.taped(full)
            for call in calls:
                check_length(call, self.multiplicity * len(full))
        except TapeError as unknown:
            if self.form == "fast":
                raise refusal(unknown) from None
            self.memory.slow = True
            _log.warning(
                "The fast clipped sum does not know %s in this network. Its slow form is taken from here on, which is right.",
                unknown,
            )
            return None
        for call in calls if len(full) > len(batch) else ():
            call.keep(len(batch), self.multiplicity)
        return calls


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


def filled(batch: AnyBatch, size: int) -> AnyBatch:
    """The batch, filled up to `size` by its first record, so that all batches are computed alike (`rounding`)."""
    return batch[np.arange(size) * (np.arange(size) < len(batch))] if 0 < len(batch) < size else batch


def refusal(unknown: TapeError) -> RequestError:
    """What form="fast" answers where the tape does not know the network."""
    return RequestError(
        f"the fast clipped sum does not know {unknown}. Use form='auto' or 'slow', or a layer that it knows: Linear, Conv1d, "
        "Conv2d, their transposes, Embedding, LayerNorm, RMSNorm, GroupNorm."
    )


def by_unit(records: AnyBatch) -> tuple[AnyBatch, list[AnyBatch]]:
    """The records that are alone in their unit, and the others unit by unit."""
    if records.units is None or len(records) == 0:
        return records, []
    _, inverse, counts = np.unique(records.units, return_inverse=True, return_counts=True)
    ordered = np.argsort(inverse, kind="stable")
    members = np.split(ordered, np.cumsum(counts)[:-1])
    alone = np.flatnonzero(counts[inverse] == 1)
    return records[alone], [records[member] for member in members if len(member) > 1]


def check_tape(tape: Tape, losses: Tensor, count: int, memory: Memory) -> None:
    """Check that the tape saw every use of a parameter, and that row r of every a and b belongs to row r of the batch.

    The gradient of the first loss alone must vanish at every other row. `memory` notes that this was seen. losses: [count].

    Raises:
        TapeError: naming what the tape does not know.
    """
    if (name := tape.unknown(losses)) is not None:
        raise TapeError(name)
    if memory.independent or count < 2:
        return
    tape.backward(losses[0], keep=True)
    for call in tape.calls:
        check_length(call, count, alone=True)
        # A gradient that is zero everywhere shows nothing, so the next batch is checked too.
        memory.independent = memory.independent or (call.b is not None and bool((call.b[0] != 0).any()))


def check_length(call: Call, count: int, *, alone: bool = False) -> None:
    """Check that the first dimension of a pair is the batch's. alone: and that b vanishes in all rows but the first.

    Raises:
        TapeError: naming the layer.
    """
    if call.b is None:
        return
    fits = len(call.b) == count and call.a is not None and len(call.a) == count
    if not fits or (alone and bool(((call.b[1:] != 0) & call.b[1:].isfinite()).any())):
        raise TapeError(f"{type(call.layer).__name__} on an input whose first dimension is not the record")


def assign(parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
    """Give each parameter its gradient, in its own order of memory.

    A GPU's convolutions order some gradients otherwise, and fused optimisers refuse those.
    """
    for parameter, part in zip(parameters, gradients, strict=True):
        parameter.grad = part if part.stride() == parameter.stride() else torch.empty_like(parameter).copy_(part)
