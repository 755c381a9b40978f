"""Ranks: processes that train one network together, each with its part of the records (`docs/proofs.md`, condition 9).

Every rank goes through the same loop, with the same public draws. A release is one mechanism over the records of all ranks:

1. Each rank records the cost. Rank 0 has it on disk before rank 0 reads.
2. Each rank samples from its own part and asks. Its answer has no noise, and goes to rank 0 alone.
3. All ranks compare what they are about to release: the event, what is left of the plan, bounds and noise. If one differs or
   has failed, nothing is added up and every rank stops.
4. Rank 0 adds the parts up in float64, adds the noise once, and sends the sum with its noise to all.

A unit has all its records on one rank. So it moves one part, and the sum, as far as it would in one process. PriVAE's parts are
more than a sum over units, so there the rank of a unit must not depend on other units: it is random and secret (`part_of` in
run/training/distributed.py). All else that ranks send one another has been released already, or never saw a record.
"""

import hashlib
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeVar

from gossamer.errors import RanksDisagree
from gossamer.lazy import Lazy

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist
    from torch import Tensor
else:
    torch, dist = Lazy("torch"), Lazy("torch.distributed")

_FAILED = 0  # what a rank sends that cannot go on

Result = TypeVar("Result")


class Next(IntEnum):
    """What comes after a step: the next step, a checkpoint and the next step, or a checkpoint and the end."""

    STEP = 0
    CHECKPOINT = 1
    CHECKPOINT_AND_STOP = 2


class Ranks:
    """One process, alone; `Group` has several. number: of this rank, from 0. count: of all ranks."""

    def __init__(self, number: int = 0, count: int = 1) -> None:
        self.number, self.count = number, count

    @property
    def first(self) -> bool:
        """Whether this is rank 0: it has the ledger, draws the noise, and writes the files."""
        return self.number == 0

    def shard(self, n: int) -> slice:
        """Return the shard of this rank: a slice of n items. The shards of all ranks are disjoint and cover all items."""
        return slice(n * self.number // self.count, n * (self.number + 1) // self.count)

    def release(
        self, exact: "Callable[[], Tensor]", noised: "Callable[[Tensor], Tensor]", belief: Callable[[], str]
    ) -> "Tensor":
        """Return the exact answers of all ranks, added up, with noise added once.

        Args:
            exact: records the cost, and computes this rank's part of the answer.
            noised: adds the noise; called on rank 0 only.
            belief: called after `exact`: what this rank is releasing, in words that are the same on all ranks.

        Raises:
            RanksDisagree: if ranks believe different things, or one of them has failed; nothing has left then.
        """
        del belief
        return noised(exact())

    def total(self, values: "Tensor") -> "Tensor":
        """The sum over all ranks, in place; the same bits on each. For released and public values only."""
        return values

    def totals(self, values: "Sequence[Tensor]") -> "Sequence[Tensor]":
        """The same for several tensors of one type, as one message."""
        return values

    def once(self, values: "Tensor") -> "Tensor":
        """The values on rank 0 and zeros on the others, to be counted once in a total."""
        return values

    def next(self, signal: Next) -> Next:
        """What rank 0 wants after this step; asked by all."""
        return signal

    def run_on_all(self, act: Callable[[], None]) -> None:
        """Run a function that all ranks run, and wait for all of them.

        Raises:
            RanksDisagree: if it failed on another rank.
        """
        act()

    def broadcast(self, state: Any) -> Any:
        """Return the value of rank 0 on every rank: tensors, plain numbers and their containers."""
        return state


ALONE = Ranks()
"""The one process of an ordinary run."""


class Group(Ranks):
    """The ranks of the process group that PyTorch has set up. Numbers go from device to device, flags over the CPU by gloo."""

    def __init__(self) -> None:
        super().__init__(dist.get_rank(), dist.get_world_size())

    def release(
        self, exact: "Callable[[], Tensor]", noised: "Callable[[Tensor], Tensor]", belief: Callable[[], str]
    ) -> "Tensor":
        part = self._agreed(exact, lambda part: f"{belief()}; {tuple(part.shape)}, {part.dtype}")
        total = part.double()  # so that adding up the ranks rounds nothing that the noise does not cover
        _on_wire(lambda: dist.reduce(total, 0))
        answer = noised(total).to(part.dtype) if self.first else torch.empty_like(part)
        _on_wire(lambda: dist.broadcast(answer, 0))
        return answer

    def total(self, values: "Tensor") -> "Tensor":
        _on_wire(lambda: dist.all_reduce(values))
        return values

    def totals(self, values: "Sequence[Tensor]") -> "Sequence[Tensor]":
        whole = self.total(torch.cat([value.flatten() for value in values]))
        parts = whole.split([value.numel() for value in values])
        return [part.view(value.shape) for part, value in zip(parts, values, strict=True)]

    def once(self, values: "Tensor") -> "Tensor":
        return values if self.first else torch.zeros_like(values)

    def next(self, signal: Next) -> Next:
        sent = torch.tensor([signal])
        _on_wire(lambda: dist.broadcast(sent, 0))
        return Next(int(sent))

    def run_on_all(self, act: Callable[[], None]) -> None:
        self._agreed(act, lambda _: "")

    def broadcast(self, state: Any) -> Any:
        box = [state if self.first else None]
        _on_wire(lambda: dist.broadcast_object_list(box, 0, device=torch.device("cpu")))
        return box[0]

    def _agreed(self, act: Callable[[], Result], belief: Callable[[Result], str]) -> Result:
        """Run a function that all ranks run, and stop unless all of them succeed and say the same of its result.

        Raises:
            RanksDisagree: naming the ranks.
        """
        try:
            result = act()
            token = _token(belief(result))
        except BaseException:
            self._gather_tokens(_FAILED)
            raise
        tokens = self._gather_tokens(token)
        if failed := [rank for rank, other in enumerate(tokens) if other == _FAILED]:
            raise RanksDisagree(f"{_listed(failed)} could not go on, and says why. Nothing has left; resume the run.")
        if others := [rank for rank, other in enumerate(tokens) if other != tokens[0]]:
            raise RanksDisagree(
                f"{_listed(others)} and rank 0 disagree about the release: its cost, its bounds, its size or what is left of "
                "the plan. Nothing has left. All ranks need the same version of Gossamer and of PyTorch."
            )
        return result

    def _gather_tokens(self, token: int) -> list[int]:
        own = torch.tensor([token], dtype=torch.int64)
        gathered = [torch.empty_like(own) for _ in range(self.count)]
        _on_wire(lambda: dist.all_gather(gathered, own))
        return [int(value) for value in gathered]


def _on_wire(send: Callable[[], object]) -> None:
    """Talk to the other ranks. PyTorch's own message would name hosts and ports."""
    try:
        send()
    except RuntimeError as error:
        raise RanksDisagree(
            f"another rank is gone ({type(error).__name__}). The last checkpoint is kept, and no budget is spent twice. "
            "`gossamer.resume(RUN)` goes on, on any number of ranks."
        ) from None


def _token(text: str) -> int:
    """A text as a positive number of 62 bits."""
    return 1 + (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 2)


def _listed(ranks: list[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"
