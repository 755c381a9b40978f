"""What every attack asks of its arrays: scores that are numbers, records of one shape, and as many as it needs."""

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gossamer.errors import DataError

Scores: TypeAlias = NDArray[np.float64]
Features: TypeAlias = NDArray[np.float32]
Array: TypeAlias = NDArray[Any]


def scores(name: str, values: ArrayLike) -> Scores:
    """Scores of one set as float64 [N], each finite; higher means more likely a member.

    Raises:
        DataError: if there are fewer than two, more than one axis, or one is not finite; names the set and the index.
    """
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1:
        raise DataError(f"{name}: an array with {numbers.ndim} axes; give one score per record, [N].")
    _enough_and_finite(name, numbers)
    return numbers


def scores_of_both(member_scores: ArrayLike, nonmember_scores: ArrayLike) -> tuple[Scores, Scores]:
    """Scores of both sets by one or several discriminators, float64 [D, M] and [D, N]; one axis means one discriminator.

    Raises:
        DataError: as `scores`, for [N] or [D, N]; or if the numbers of discriminators differ.
    """
    sets = {}
    for name, values in (("member_scores", member_scores), ("nonmember_scores", nonmember_scores)):
        sets[name] = numbers = np.atleast_2d(np.asarray(values, dtype=np.float64))
        if numbers.ndim != 2 or not len(numbers):
            raise DataError(
                f"{name}: an array of shape {np.shape(values)}; scores are [N], or [D, N] for D discriminators."
            )
        for row in numbers:
            _enough_and_finite(name, row)
    members, nonmembers = sets.values()
    if len(members) != len(nonmembers):
        raise DataError(
            f"nonmember_scores: scores of {len(nonmembers)} discriminators, but member_scores holds {len(members)}; "
            "score both sets by the same ones."
        )
    return members, nonmembers


def features(name: str, records: Array) -> Features:
    """Records as float32 [N, D]: pictures, uint8 [N, C, H, W], flattened and divided by 255; feature rows [N, D] as given.

    Raises:
        DataError: for another type or number of axes, for fewer than two records, or a value that is not finite.
    """
    if records.dtype == np.uint8 and records.ndim == 4:
        width = math.prod(records.shape[1:])
        vectors = records.reshape(len(records), width).astype(np.float32) / np.float32(255)
    elif np.issubdtype(records.dtype, np.floating) and records.ndim == 2:
        vectors = records.astype(np.float32)
    else:
        raise DataError(
            f"{name}: an array of {records.dtype} with {records.ndim} axes; "
            "give pictures, uint8 [N, C, H, W], or features, floating point [N, D]."
        )
    if not vectors.shape[1]:
        raise DataError(f"{name}: the records hold no values; give at least one per record.")
    _enough_and_finite(name, vectors)
    return vectors


def features_of(**sets: Array) -> list[Features]:
    """`features` of each set by its name, in the order given; all must have one width.

    Raises:
        DataError: as `features`, or if two sets have records of different shapes.
    """
    first = next(iter(sets))
    for name, records in sets.items():
        if records.shape[1:] != sets[first].shape[1:]:
            raise DataError(
                f"{name}: records of shape {records.shape[1:]}, but {first} holds {sets[first].shape[1:]}; "
                "bring all sets to one shape."
            )
    return [features(name, records) for name, records in sets.items()]


def same_number(**sets: Array) -> int:
    """The number of records that all sets share. Raises DataError if they differ; the remedy is a random subset."""
    (first, one), *rest = sets.items()
    for name, records in rest:
        if len(records) != len(one):
            raise DataError(
                f"{name}: {len(records)} records, but {first} holds {len(one)}; the comparison is fair only between "
                "equal numbers: draw a random subset of the larger set."
            )
    return len(one)


def _enough_and_finite(name: str, values: Array) -> None:
    if len(values) < 2:
        count = "no records" if not len(values) else "one record"
        raise DataError(f"{name}: {count}; an attack needs at least two members and two non-members.")
    wrong = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
    if len(wrong):
        raise DataError(
            f"{name}: not a finite number at index {wrong[0]} ({len(wrong)} such records); "
            "leave these records out, or find out why they have no score."
        )
