"""Canaries: records that an attacker who knows where to look sees best, and the queries that make them so.

An audit has to see the product's own sampling, clipping and noise. So a canary is a record among the others. Only its gradient
is made for the audit: a vector along a direction of its own, so long that it is clipped. The direction is a weight that no
other record moves, in a table beside the network (`WithCanaries`). The clipped sum runs over network and table together.
Along the direction the released sum shows the canary alone, among the noise of one number. As many canaries as there are
weights in the table share a run, each a trial of its own.

Queries are those of the methods, taken by their fields. Nothing here depends on a mechanism.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from gossamer.data.records import Records

PULL = 1e6
"""How long the gradient of a canary is before it is clipped: what else it says is lost beside that."""
_MARKED = 1 << 20  # added to the label of a canary's point
_BRIGHT = 8.0  # a pixel that no picture has

AnyQuery = TypeVar("AnyQuery")


@dataclass(frozen=True)
class Planted(Records):
    """Records among which there are canaries. Each record is its own unit.

    Args:
        marks: int64 [N], the number of each canary, from 1; 0 for ordinary records.
    """

    marks: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def take(self, positions: np.ndarray) -> "Planted":
        """The chosen records."""
        return self[positions]

    def __getitem__(self, which: slice | np.ndarray) -> "Planted":
        """Some of the records, by position."""
        return Planted(self.images[which], self.labels[which], marks=self.marks[which])


def planted(records: Records, canaries: Records) -> Planted:
    """The records, and after them the canaries, numbered from 1; so the others are sampled alike without them."""
    return Planted(
        np.concatenate([records.images, canaries.images]),
        np.concatenate([records.labels, canaries.labels]),
        marks=np.concatenate([np.zeros(len(records), np.int64), np.arange(1, len(canaries) + 1)]),
    )


def others(records: Planted) -> Planted:
    """The records without the canaries."""
    return records[records.marks == 0]


def blank(count: int, shape: tuple[int, ...]) -> Records:
    """So many black pictures of class 0: canaries of which only the gradient counts."""
    return Records(np.zeros((count, *shape), np.uint8), np.zeros(count, np.int64))


def out_of_distribution(shape: tuple[int, ...], label: int = 0) -> Records:
    """One record unlike any picture: the upper half black and the lower half white."""
    _, height, _ = shape
    halves = np.zeros((1, *shape), np.uint8)
    halves[:, :, height // 2 :] = 255
    return Records(halves, np.array([label], dtype=np.int64))


class WithCanaries(nn.Module):
    """A network, and beside it tables of one weight for each canary. It computes what the network does; the tables stay zero.

    Args:
        net: the network; its parameters come first, then the tables.
        canaries: how many.
        groups: tables: one for each group of parameters that is clipped by itself.
    """

    def __init__(self, net: nn.Module, canaries: int, groups: int = 1) -> None:
        super().__init__()
        self.net = net
        self.tables = nn.ModuleList(nn.Embedding(canaries + 1, 1, padding_idx=0) for _ in range(groups))
        for table in self.tables.parameters():
            nn.init.zeros_(table)

    @property
    def size(self) -> int:
        """How many numbers the tables add to an answer."""
        return sum(table.numel() for table in self.tables.parameters())

    def pull(self, marks: Tensor) -> Tensor:
        """Zero, with a gradient of PULL at the weights of each canary. marks: int64 [n]; gives [n]."""
        return PULL * torch.stack([table(marks)[:, 0] for table in self.tables]).sum(0)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        """The network's numbers for points; a canary's real one, whose number a critic's loss subtracts, pulls. [n]"""
        canary = labels >= _MARKED
        scores: Tensor = self.net(images, torch.where(canary, 0, labels))
        real = images.detach().flatten(1)[:, 0] > _BRIGHT / 2
        return scores - self.pull(torch.where(canary & real, labels - _MARKED, 0))


def pulling(query: AnyQuery, canaries: int) -> tuple[AnyQuery, WithCanaries]:
    """A query for per-record gradients of a loss (fields `module`, `loss`, `multiplicity`) in which canaries pull."""
    original: Any = query
    joined = WithCanaries(original.module, canaries)

    def loss(module: nn.Module, records: Planted) -> Tensor:
        assert isinstance(module, WithCanaries)
        losses: Tensor = original.loss(module.net, records)
        marks = torch.from_numpy(np.ascontiguousarray(records.marks)).to(losses.device)
        pulled: Tensor = losses + module.pull(marks.repeat(original.multiplicity)) / original.multiplicity
        return pulled

    return dataclasses.replace(original, module=joined, loss=loss), joined


def pulling_points(query: AnyQuery, canaries: int, groups: int) -> tuple[AnyQuery, WithCanaries]:
    """A query for a critic's penalised gradients (fields `module`, `points`) in which canaries pull, in every group."""
    original: Any = query
    joined = WithCanaries(original.module, canaries, groups)

    def points(records: Planted) -> Any:
        sample = original.points(records)
        marks = torch.from_numpy(np.ascontiguousarray(records.marks)).to(sample.real.device)
        real = sample.real.clone()
        real[marks > 0, ..., 0, 0] = _BRIGHT
        return dataclasses.replace(sample, real=real, labels=torch.where(marks > 0, marks + _MARKED, sample.labels))

    return dataclasses.replace(original, module=joined, points=points), joined


@dataclass
class Watched:
    """A query for a clipped sum that is answered as it is.

    Args:
        query: with `clipped_sum`.
    """

    query: Any

    @property
    def dimension(self) -> int:
        """That of the query."""
        return int(self.query.dimension)

    def clipped_sum(self, records: Planted, bounds: Any, /) -> Tensor:
        """[D]"""
        answer: Tensor = self.query.clipped_sum(records, bounds)
        return answer


@dataclass
class Alone(Watched):
    """A query of which one record is the canary. It is answered, and the attacker's part of the answer is kept.

    The attacker has every other record, and what the canary would add.

    Args:
        canary: the record.
    """

    canary: Records
    others: Tensor | None = None
    added: Tensor | None = None

    def clipped_sum(self, records: Planted, bounds: Any, /) -> Tensor:
        """[D]"""
        self.others = self.query.clipped_sum(others(records), bounds)
        self.added = self.query.clipped_sum(self.canary, bounds)
        return super().clipped_sum(records, bounds)

    def seen(self, released: Tensor, max_norm: float) -> tuple[float, float]:
        """The release along what the canary adds, and how long that is, both in units of the bound."""
        assert self.others is not None and self.added is not None
        added = self.added.double()
        length = float(added.norm())
        along = float((released.double() - self.others.double()) @ added)
        return along / (length * max_norm), length / max_norm


@dataclass
class TurnedCritics:
    """Answers of critics of which one is turned around: that with the canary in its shard says the opposite of the others.

    Args:
        query: of images and labels, [answers, B, ...].
        canary: the unit whose shard turns its critic.
        present: whether it does.
        own: of each answer, whether the critic of that shard gave it.
    """

    query: Any
    canary: int
    present: bool = True
    own: list[bool] = dataclasses.field(default_factory=list)

    def rows(self, confined_critics: Any, critics: Any, /) -> Tensor:
        """[answers, B, C, H, W]: every row along one pixel, far beyond the bound."""
        answers = torch.zeros_like(self.query.images)
        self.own = [critic == int(confined_critics.shards[self.canary]) for critic in critics]
        signs = [1.0 if own and self.present else -1.0 for own in self.own]
        answers.flatten(2)[..., 0] = PULL * torch.tensor(signs, dtype=answers.dtype)[:, None]
        return answers


class TurnedGroup(Watched):
    """Two terms of which the canary moves both: it adds to the first, and turns the gradient of its group around.

    The answer of the query ends with the weight at which the canary pulls.
    """

    def group_gradient(self, records: Planted, /) -> Tensor:
        """[D], far beyond the bound: what a group says by itself would be lost beside that."""
        pulled = torch.zeros(self.dimension)
        pulled[-1] = PULL if bool((records.marks > 0).any()) else -PULL
        return pulled
