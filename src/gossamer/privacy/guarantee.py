"""What a run promises, never as a bare number."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import dp_accounting
from dp_accounting import DpEvent

NeighboringRelation: TypeAlias = dp_accounting.NeighboringRelation
ADD_OR_REMOVE_ONE = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE_ONE = NeighboringRelation.REPLACE_ONE

RELATION_NAMES = {ADD_OR_REMOVE_ONE: "add-or-remove-one", REPLACE_ONE: "replace-one"}
RELATIONS = {name: relation for relation, name in RELATION_NAMES.items()}

Plan: TypeAlias = Sequence[tuple[DpEvent, int]]
"""What a run may release, and how often."""


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """(epsilon, delta)-differential privacy for one unit under one neighbouring relation.

    >>> print(Guarantee(epsilon=9.9981, delta=1e-5, relation=ADD_OR_REMOVE_ONE, unit="record"))
    epsilon 9.999 at delta 1e-05, add-or-remove-one record

    Args:
        epsilon: the privacy loss bound; infinity where there is no guarantee.
        delta: the probability with which the bound may fail, in [0, 1).
        relation: which data sets are neighbours.
        unit: whose contribution is protected: "record", "writer", "client".

    Raises:
        ValueError: if epsilon is negative or not a number, delta is outside [0, 1), or the unit is empty.
    """

    epsilon: float
    delta: float
    relation: NeighboringRelation
    unit: str

    def __post_init__(self) -> None:
        if math.isnan(self.epsilon) or self.epsilon < 0:
            raise ValueError(f"epsilon must be zero or more, not {self.epsilon}")
        if not 0 <= self.delta < 1:
            raise ValueError(f"delta must be at least 0 and below 1, not {self.delta}")
        if self.relation not in RELATION_NAMES:
            raise ValueError(f"relation must be one of {', '.join(RELATION_NAMES.values())}")
        if not self.unit:
            raise ValueError("unit must say whose contribution is protected, for example 'record'")

    def __str__(self) -> str:
        epsilon = "infinity (no formal guarantee)" if math.isinf(self.epsilon) else f"{_up(self.epsilon):.3f}"
        return f"epsilon {epsilon} at delta {self.delta:g}, {RELATION_NAMES[self.relation]} {self.unit}"

    def to_json(self) -> dict[str, float | str]:
        """The four parts, infinity as the string "inf" (JSON has no infinity)."""
        return {
            "epsilon": "inf" if math.isinf(self.epsilon) else self.epsilon,
            "delta": self.delta,
            "relation": RELATION_NAMES[self.relation],
            "unit": self.unit,
        }

    @classmethod
    def from_json(cls, data: dict[str, float | str]) -> "Guarantee":
        """The inverse of `to_json`."""
        return cls(
            epsilon=float(data["epsilon"]),
            delta=float(data["delta"]),
            relation=RELATIONS[str(data["relation"])],
            unit=str(data["unit"]),
        )


def _up(epsilon: float, digits: int = 3) -> float:
    """Rounded up, never down: a printed bound must still be a bound."""
    scale = 10**digits
    return float(math.ceil(round(epsilon * scale, 6)) / scale)
