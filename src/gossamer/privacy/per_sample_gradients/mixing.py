"""Losses that mix records: found on stand-ins before a query reads its first record, and refused.

Clipping bounds what one record adds if the loss of a row follows from that row alone. So a query first asks its loss about
*stand-ins*: made-up rows of the same shapes. One row is kept, all others change, and its loss must stay as it was:

- Others that are not a number, in the batch and wherever a number first meets the loss. They show in means, sums and maxima,
  detached or not, even where weights are zero.
- Others with other values. They show in ranks, comparisons and counts, which drop what is not a number.

A query makes the same random choices each time (`noise.rehearsal`). Two batch sizes must show the fault. So a tensor whose
first dimension happens to be one of them is not taken for a batch.

It cannot find mixing at other sizes or values, or counts of integers above 1. Nor does it find random choices that follow the
position of a row, or tensors that a network keeps outside its buffers.
"""

import dataclasses
import logging
import pickle
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from gossamer.errors import GossamerError, RequestError
from gossamer.privacy.per_sample_gradients.clipping import place
from gossamer.privacy.per_sample_gradients.refused import check_function
from gossamer.privacy.per_sample_gradients.rounding import Precision, lowered
from gossamer.privacy.random.noise import rehearsal

_log = logging.getLogger(__name__)

_SIZES = (7, 11)
_TOLERANCE = 1e-3
"""How far a loss may move with other rows, relative to 1 + its size. Rounding moves it by less than a thousandth of that."""

_Fill: TypeAlias = tuple[float | None, int | None, int | None]
"""What the other rows hold: floating-point numbers, bytes, other integers. None: random numbers and bytes, zero as integer."""
_AT_RANDOM: _Fill = (None, None, None)
_NO_NUMBERS: _Fill = (float("nan"), None, None)
_OTHERS: tuple[_Fill, ...] = ((0.0, 0, 0), (3.0, 255, 0), (-3.0, 128, 1))


class Asked(Protocol):
    """A query by its losses: multiplicity x n of a batch, record r at r, r + n, r + 2n ..."""

    @property
    def module(self) -> nn.Module: ...

    @property
    def precision(self) -> Precision: ...

    def losses(self, batch: Any, /) -> Tensor: ...


def refuse_mixing(query: Asked, batch: Any) -> bool:
    """Refuse a loss that mixes records, takes shared random numbers, or changes its network. Return whether it was asked.

    The batch lends its shapes alone. If it is no dataclass of arrays or tensors, it lends its first records.

    Raises:
        RequestError: with the remedy.
    """
    if not len(batch) and len(_stand_ins(batch, 1)) != 1:
        return False
    before = _Traces(query.module)
    try:
        mixes = all(_mixes(query, batch, size, before) for size in _SIZES)
    except GossamerError:
        raise
    except Exception:  # a loss may refuse stand-ins in any way, and its message could hold a record
        _log.warning("This loss fails on made-up records, so nobody checked that it keeps records apart.")
        return True
    if mixes:
        raise RequestError(
            "the loss of a record depends on other records in its batch, so no bound on one record holds. Compute each loss "
            "from its own row. Take averages, ranks and weights from public data, or use GroupNorm."
        )
    return True


def _mixes(query: Asked, batch: Any, size: int, before: "_Traces") -> bool:
    """Whether the loss of the first or of the last of so many rows follows other rows."""
    at_random = _stand_ins(batch, size)
    losses = _losses(query, at_random)
    before.refuse_changes()
    for kept in (0, size - 1):
        unknown = _stand_ins(batch, size, kept, _NO_NUMBERS)
        found = _losses(query, unknown, _Unknown(query.module, {size, len(losses)}, size, kept))
        if bool((losses[kept::size].isfinite() & ~found[kept::size].isfinite()).any()):
            return True
    for others in _OTHERS if torch.equal(losses, _losses(query, at_random)) else ():
        integer = others[2] if place(query.module).type == "cpu" else 0  # a GPU does not survive a wrong class
        with suppress(IndexError, RuntimeError):  # 1 need not be a class
            moved = _losses(query, _stand_ins(batch, size, 0, (*others[:2], integer)))[::size] - losses[::size]
            if bool((moved.abs() > _TOLERANCE * (1 + losses[::size].abs())).any()):
                return True
    return False


def _losses(query: Asked, batch: Any, mode: TorchFunctionMode | None = None) -> Tensor:
    with rehearsal(), lowered(query.precision, place(query.module)), mode or _Rehearsed():
        return query.losses(batch).detach()


def _stand_ins(batch: Any, size: int, kept: int = 0, others: _Fill = _AT_RANDOM) -> Any:
    """A batch of so many rows. The kept one is the same whatever the others are."""
    made: dict[str, Any] = {}
    for field in dataclasses.fields(batch) if dataclasses.is_dataclass(batch) else ():
        value = getattr(batch, field.name)
        if isinstance(value, tuple) and value and all(isinstance(part, Tensor) for part in value):
            made[field.name] = tuple(_rows(part, size, kept, others) for part in value)
        elif isinstance(value, Tensor | np.ndarray) and value.ndim and len(value) == len(batch):
            made[field.name] = _rows(value, size, kept, others)
    if made:
        return dataclasses.replace(batch, **made)
    return batch[np.arange(size if len(batch) else 0) % max(1, len(batch))]


def _rows(like: Any, size: int, kept: int, others: _Fill) -> Any:
    """Rows of the shape and type of an array or a tensor; text is left out, as [0, ...]."""
    draw, shape = np.random.default_rng(0), (size, *like.shape[1:])
    if isinstance(like, Tensor):
        floating, byte = like.is_floating_point(), like.dtype == torch.uint8
    else:
        floating, byte = like.dtype.kind == "f", like.dtype == np.uint8
        if like.dtype.kind not in "fuib":
            return like[:0]
    rows = draw.random(shape) if floating else draw.integers(256, size=shape) if byte else np.zeros(shape, np.int64)
    if (other := others[0 if floating else 1 if byte else 2]) is not None:
        rows[np.arange(size) != kept] = other
    return torch.from_numpy(rows).to(like.device, like.dtype) if isinstance(like, Tensor) else rows.astype(like.dtype)


class _Rehearsed(TorchFunctionMode):
    """While it is entered, generators stay where they are, and functions that mix records are refused by name."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        del types
        kwargs = dict(kwargs or {})
        check_function(func, args, kwargs)
        if isinstance(stream := kwargs.get("generator"), torch.Generator):
            kwargs["generator"] = stream.clone_state()
        return self.call(func, args, kwargs)

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The function itself."""
        return func(*args, **kwargs)


class _Unknown(_Rehearsed):
    """Where all numbers of a tensor with a row per record are known, those of all records but the kept one become NaN.

    A tensor in which some are NaN has met the loss before, perhaps in another order of its rows.
    """

    def __init__(self, module: nn.Module, lengths: set[int], size: int, kept: int) -> None:
        super().__init__()
        self.own = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
        self.lengths, self.size, self.kept = lengths, size, kept

    def call(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not getattr(func, "__name__", "_").endswith("_"):  # what changes its argument has to get it
            args = tuple(
                [self.hidden(a) for a in arg] if type(arg) in (list, tuple) else self.hidden(arg) for arg in args
            )
        return self.hidden(func(*args, **kwargs))

    def hidden(self, value: Any) -> Any:
        """The tensor, with the rows of the other records not a number."""
        if not isinstance(value, Tensor) or not value.is_floating_point() or not value.dim() or id(value) in self.own:
            return value
        if len(value) not in self.lengths or bool(value.isnan().any()):
            return value
        kept = torch.arange(len(value), device=value.device) % self.size == self.kept
        return torch.where(kept.view(-1, *(1,) * (value.dim() - 1)), value, torch.nan)


class _Traces:
    """What a loss could leave behind: the state of shared random streams, and the tensors of its network."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.tensors = dict(self._now())
        self.streams = self._streams()

    def _now(self) -> Iterator[tuple[str, tuple[Tensor, int]]]:
        for name, tensor in (*self.module.named_parameters(), *self.module.named_buffers()):
            yield name, (tensor, 0 if tensor.is_inference() else tensor._version)  # the former cannot be changed here

    def _streams(self) -> dict[str, bytes]:
        devices = {tensor.device for tensor, _ in self.tensors.values() if tensor.device.type == "cuda"}
        states = [torch.get_rng_state(), *(torch.cuda.get_rng_state(device) for device in devices)]
        return {
            "PyTorch": b"".join(state.numpy().tobytes() for state in states),
            "NumPy": pickle.dumps(np.random.get_state()),
            "Python": pickle.dumps(random.getstate()),
        }

    def refuse_changes(self) -> None:
        """Raise RequestError where something is no longer as it was."""
        for name, state in self._streams().items():
            if state != self.streams[name]:
                raise RequestError(
                    f"the loss takes random numbers from {name}'s common stream, so removing one record changes those of "
                    "others. Draw them by rng.secret_generator(), as part of the batch, or call eval() on the layer."
                )
        for name, (tensor, version) in self._now():
            before = self.tensors.get(name)
            if before is None or before[0] is not tensor or before[1] != version:
                raise RequestError(
                    f"the loss changes {name!r} of its network, which would keep what it saw of records without noise. "
                    "Compute it from public data, or call eval() on the layer."
                )
