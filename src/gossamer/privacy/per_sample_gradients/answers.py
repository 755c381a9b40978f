"""How a query is answered: units, physical batches, the fast form or the slow one.

The *fast form* costs little more than an ordinary step. It takes one forward pass, and one backward pass without weight
gradients (`tape`). Then it takes the norms of all records' gradients (`ghost`), and one weight-gradient call per layer on
clipped pairs. The *slow form* takes the records one at a time through ordinary autograd. It is the reference, and serves
networks that the fast form does not know. "auto" chooses it for these, and says so once in the log.

A *unit* with several records in the draw (a writer, a patient) is clipped as a whole. One backward pass goes over all of its
records, in pieces of `physical_batch_size`, and one factor clips the result. Units with one record take the fast form.

Non-finite gradients count as zero, and raise nothing: raising would be an output. An empty draw gives zeros.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    place,
    row_norms,
    sum_dtype,
)
from gossamer.privacy.per_sample_gradients.mixing import refuse_mixing
from gossamer.privacy.per_sample_gradients.precision import Precision, one_size
from gossamer.privacy.per_sample_gradients.refusals import check_module
from gossamer.privacy.per_sample_gradients.tape import Tape, TapeError
from gossamer.privacy.per_sample_gradients.uses import Call
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

    def clipped_sum(self, records: AnyBatch, bounds: Bounds, /, *, out: Tensor | None = None) -> Tensor:
        """Return the sum of the clipped gradients, in the order of `module.parameters()`; added to `out`, if given.

        [D], float32 or wider.
        """
        return answer(self, records, bounds, out)


def answer(query: Gradients[AnyBatch], records: AnyBatch, bounds: Bounds, out: Tensor | None) -> Tensor:
    """The clipped sum of any query, [D]: units, physical batches, fast or slow. It is added to out, where that is given."""
    inspect(query, records)
    groups_of_parameters(bounds, len(list(query.module.parameters())))
    if out is None and len(records) == 0:
        return empty(query.module).zero_()
    fresh = out is None  # nothing is in it yet: the first batch writes where others add
    out = empty(query.module) if out is None else out
    single, several = by_unit(records) if clips(bounds) else (records, [])
    for lo in range(0, len(single), query.physical_batch_size):
        _add_records_(out, query, single[lo : lo + query.physical_batch_size], bounds, fresh=fresh)
        fresh = False
    if fresh:
        out.zero_()
    for unit in several:
        _add_unit_(out, query, unit, bounds)
    return out


def inspect(query: Gradients[AnyBatch], records: AnyBatch) -> None:
    """Refuse a network or a loss for which a record has no gradient of its own. Raises RequestError."""
    check_module(query.module)
    query.memory.separate = query.memory.separate or refuse_mixing(query, records)


def norms(query: Gradients[AnyBatch], records: AnyBatch, groups: Sequence[int]) -> Tensor:
    """L2 norms of each unit's gradient, group by group: [units, k]. Not clipped: on private records only inside a query.

    groups: the group of each parameter tensor, from 0 to k - 1.
    """
    check_module(query.module)
    k, size = max(groups) + 1, query.physical_batch_size
    single, several = by_unit(records)
    parts = [torch.zeros(0, k, dtype=sum_dtype(query.module))]
    for lo in range(0, len(single), size):
        parts.append(_norms_of_records(query, single[lo : lo + size], groups))
    for unit in several:
        total = sum(query.summed(unit[lo : lo + size]) for lo in range(0, len(unit), size))
        parts.append(row_norms(torch.as_tensor(total)[None], query.module, groups))
    return torch.cat([part.cpu() for part in parts])


def _norms_of_records(query: Gradients[AnyBatch], batch: AnyBatch, groups: Sequence[int]) -> Tensor:
    """[n, k] for one physical batch, each record its own unit."""
    calls = _fast(query, batch)
    if calls is not None:
        return call_norms(
            calls, query.module, groups, len(batch), at_once=query.physical_batch_size, multiplicity=query.multiplicity
        )
    return torch.cat([row_norms(rows, query.module, groups) for rows in query.rows(batch)])


def _add_records_(out: Tensor, query: Gradients[AnyBatch], batch: AnyBatch, bounds: Bounds, *, fresh: bool) -> None:
    """One physical batch, each record its own unit. Where `out` is fresh, it is written and never read."""
    if not clips(bounds):
        total = query.summed(batch)
        if bool(total.isfinite().all()):
            _ = out.copy_(total) if fresh else out.add_(total)
            return
        # A record is not finite: the clipped form leaves it out, and a bound of infinity leaves the others whole.
    calls = _fast(query, batch)
    if calls is not None:
        add_clipped_(
            out, calls, query.module, bounds,
            at_once=query.physical_batch_size, multiplicity=query.multiplicity, fresh=fresh,
        )  # fmt: skip
        return
    if fresh:
        out.zero_()
    for gradients in query.rows(batch):
        out.add_(clip_rows(gradients, query.module, bounds).sum(0))


def _fast(query: Gradients[AnyBatch], batch: AnyBatch) -> list[Call] | None:
    """The taped calls of a physical batch; None where the slow form is asked for, or the tape does not know the network."""
    if query.form == "slow" or query.memory.slow:
        return None
    full = filled(batch, query.physical_batch_size) if one_size(query.precision, place(query.module)) else batch
    try:
        calls = query.taped(full)
        check_lengths(calls, query.multiplicity * len(full))
    except TapeError as unknown:
        if query.form == "fast":
            raise refusal(unknown) from None
        query.memory.slow = True
        _log.warning(
            "The fast clipped sum does not know %s in this network. Its slow form is taken from here on, which is right.",
            unknown,
        )
        return None
    for call in calls if len(full) > len(batch) else ():
        call.keep(len(batch), query.multiplicity)
    return calls


def filled(batch: AnyBatch, size: int) -> AnyBatch:
    """The batch, filled up to `size` by its first record, so that all batches are computed alike (`precision`)."""
    return batch[np.arange(size) * (np.arange(size) < len(batch))] if 0 < len(batch) < size else batch


def refusal(unknown: TapeError) -> RequestError:
    """What form="fast" answers where the tape does not know the network."""
    return RequestError(
        f"the fast clipped sum does not know {unknown}. Use form='auto' or 'slow', or a layer that it knows: Linear, Conv1d, "
        "Conv2d, their transposes, Embedding, LayerNorm, RMSNorm, GroupNorm."
    )


def _add_unit_(out: Tensor, query: Gradients[AnyBatch], unit: AnyBatch, bounds: Bounds) -> None:
    """One unit with several records: its gradients added up over all physical batches, then clipped once."""
    size = query.physical_batch_size
    total = sum((query.summed(unit[lo : lo + size]) for lo in range(0, len(unit), size)), torch.zeros_like(out))
    out.add_(clip_rows(total[None], query.module, bounds)[0])


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
        if call.b is None:
            continue
        others = call.b[1:]
        if len(call.b) != count or bool(((others != 0) & others.isfinite()).any()):
            raise TapeError(f"{type(call.layer).__name__} on an input whose first dimension is not the record")
        # A gradient that is zero everywhere shows nothing, so the next batch is checked too.
        memory.independent = memory.independent or bool((call.b[0] != 0).any())


def check_lengths(calls: Sequence[Call], count: int) -> None:
    """The first dimension of every pair must be the batch's. Raises TapeError."""
    for call in calls:
        if call.b is not None and (len(call.b) != count or call.a is None or len(call.a) != count):
            raise TapeError(f"{type(call.layer).__name__} on an input whose first dimension is not the record")
