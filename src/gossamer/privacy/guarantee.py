"""What a run promises, never as a bare number."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import Required, TypeAlias, TypedDict

import dp_accounting
from dp_accounting import DpEvent

NeighboringRelation: TypeAlias = dp_accounting.NeighboringRelation
ADD_OR_REMOVE_ONE = NeighboringRelation.ADD_OR_REMOVE_ONE
REPLACE_ONE = NeighboringRelation.REPLACE_ONE

RELATION_NAMES = {ADD_OR_REMOVE_ONE: "add-or-remove-one", REPLACE_ONE: "replace-one"}
RELATIONS = {name: relation for relation, name in RELATION_NAMES.items()}

Plan: TypeAlias = Sequence[tuple[DpEvent, int]]
"""What a run may release, and how often."""


class Terms(TypedDict, total=False):
    """What a bound on epsilon is stated for; see `Guarantee`. Without more, one record is added or removed."""

    delta: Required[float]
    relation: NeighboringRelation
    unit: str


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """(epsilon, delta)-differential privacy for one unit under one neighbouring relation.

    >>> print(Guarantee(epsilon=9.9981, delta=1e-5, relation=ADD_OR_REMOVE_ONE, unit="record"))
    epsilon 9.999 at delta 1e-05, add-or-remove-one record

    Args:
        epsilon: infinity where there is no guarantee.
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
        without = " (no formal guarantee)" if math.isinf(self.epsilon) else ""
        epsilon, delta = f"{rounded_up(self.epsilon)}{without}", in_full(self.delta)
        return f"epsilon {epsilon} at delta {delta}, {RELATION_NAMES[self.relation]} {self.unit}"

    def to_json(self) -> dict[str, float | str]:
        """The four parts."""
        return {
            "epsilon": as_json(self.epsilon),
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


def as_json(bound: float) -> float | str:
    """A bound as JSON can hold it: infinity as the string "inf". `float` is the inverse."""
    return "inf" if math.isinf(bound) else float(bound)


def rounded_up(bound: float, digits: int = 3) -> str:
    """A bound with so many decimals, rounded up, never to the nearest: what is printed must still be a bound.

    All bounds are rounded here. The rounded number is the shortest decimal of the float, so 0.3 stays 0.300.

    >>> rounded_up(9.9981), rounded_up(1e-9), rounded_up(0.3), rounded_up(math.inf)
    ('9.999', '0.001', '0.300', 'infinity')
    """
    if math.isinf(bound):
        return "infinity"
    exact = Decimal(repr(float(bound)))
    return f"{exact.quantize(Decimal(1).scaleb(-digits), rounding=ROUND_CEILING, context=_WIDE):f}"


def in_full(delta: float) -> str:
    """A delta with all its digits, because a shortened one might be smaller than the delta that was given.

    >>> in_full(1e-5), in_full(1.2345612e-6), in_full(0.0)
    ('1e-05', '1.2345612e-06', '0')
    """
    return repr(float(delta)).removesuffix(".0")


_WIDE = Context(prec=400)
