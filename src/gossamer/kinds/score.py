"""The score of a run: the share of records that a model gets right, which learns from samples alone. One noisy query.

A unit adds the share of its records that are right to one sum, and the share that is wrong to another. So it moves both
together by at most 1 in L2. The accuracy is the first of the two by their sum. Its interval covers noise and sampling
(`figures.noisy_share`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from gossamer.lazy import torch
from gossamer.methods.common.declared import once
from gossamer.methods.contract import Query
from gossamer.methods.job import Job

if TYPE_CHECKING:
    from torch import Tensor

Plan: TypeAlias = Sequence[tuple[Any, int]]
"""What may be released, and how often."""
SCORE = "score"
"""The name of the query, and of its entry in config.json."""


@dataclass(frozen=True, kw_only=True)
class Score:
    """A score that a run asks for. Pure: known before a record is read.

    Args:
        noise_multiplier: standard deviation of the noise on both sums. 0: no noise.
        judge: what answers for the samples, in words; see `Kind.judge`.
    """

    noise_multiplier: float
    judge: str

    @property
    def query(self) -> Query:
        """The noisy query, which is asked once."""
        return once(SCORE, self.noise_multiplier)

    @property
    def plan(self) -> Plan:
        """What it may release."""
        return [(self.query.mechanism.event, 1)]


def planned(settings: Mapping[str, Any]) -> Score | None:
    """The score that the settings of a run plan; None: none. Raises TypeError: the entry has other fields."""
    return Score(**settings[SCORE]) if SCORE in settings else None


def plan_of(job: Job[Any, Any], score: Score | None) -> Plan:
    """All that a run may release. Raises RequestError: the settings of the job contradict each other."""
    return [*job.plan, *(score.plan if score else ())]


def parts_of(job: Job[Any, Any], score: Score | None) -> list[tuple[str, Plan]]:
    """The same by purpose: the phases of its method, and the score."""
    own = [(phase.name, phase.plan) for phase in job.phases]
    return own if score is None else [*own, (SCORE, score.plan)]


@dataclass(frozen=True)
class RightAndWrong:
    """A query: units by the share of their records that are right, and by the share that is wrong.

    Args:
        is_right: from records to bool [n]. What it says of one record depends on no other.
    """

    is_right: Callable[[Any], np.ndarray]
    dimension: ClassVar[int] = 2

    def clipped_sum(self, records: Any, bounds: Any, /) -> "Tensor":
        """float64 [2]; what one unit adds is at most 1 long, and at most bounds.norms[0]."""
        if len(records) == 0:
            return torch.zeros(self.dimension, dtype=torch.float64)
        right = self.is_right(records).astype(np.float64)
        if records.units is not None:
            owners = np.unique(records.units, return_inverse=True)[1]
            right = np.bincount(owners, right) / np.bincount(owners)
        sums = torch.tensor([right.sum(), (1 - right).sum()], dtype=torch.float64)
        return sums.mul_(min(bounds.norms[0], 1.0))
