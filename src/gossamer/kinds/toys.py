"""Made-up records of each kind, on which the methods of other packages are tested."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from gossamer.data.card import DataCard
from gossamer.data.records import Records
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.linked.card import LinkedCard
from gossamer.data.tables.linked.read import LinkedRecords
from gossamer.data.tables.table import CODES, Table

CARD = DataCard(shape=(1, 28, 28), classes=2, declared_size=200)
"""The public facts of the records of a check, unless the author gives others."""


def stripes(n: int, seed: int = 0, card: Any = CARD) -> Any:
    """Records of which class 0 is bright on the left, and class 1 on the right.

    Rows of a table have the first value of each column in class 0, and the last in class 1; one value in ten is another.
    """
    draw = np.random.default_rng(seed)
    if isinstance(card, LinkedCard):
        return _linked(n, card, lambda rows, at: stripes(rows, seed + at, card.parts[at].card))
    if isinstance(card, TableCard):
        labels, sizes = draw.integers(2, size=(n, 1)), np.array(card.domain)
        codes = np.where(
            draw.random((n, len(sizes))) < 0.1, draw.integers(sizes, size=(n, len(sizes))), labels * (sizes - 1)
        )
        codes[:, card.label_index or 0] = labels[:, 0]
        return Table(codes.astype(CODES))
    middle = card.shape[2] // 2
    labels = draw.integers(2, size=n)
    images = draw.integers(0, 40, size=(n, *card.shape))
    images[labels == 0, :, :, :middle] += 200
    images[labels == 1, :, :, middle:] += 200
    return Records(images.astype(np.uint8), labels)


def garbage(n: int, seed: int = 1, card: Any = CARD) -> Any:
    """Records of which every pixel is random, all of class 0. Rows of a table have random values."""
    draw = np.random.default_rng(seed)
    if isinstance(card, LinkedCard):
        return _linked(n, card, lambda rows, at: garbage(rows, seed + at, card.parts[at].card))
    if isinstance(card, TableCard):
        return Table(draw.integers(card.domain, size=(n, len(card.domain))).astype(CODES))
    return Records(draw.integers(0, 256, size=(n, *card.shape)).astype(np.uint8), np.zeros(n, dtype=np.int64))


def extremes(n: int, card: Any = CARD, *, several: bool = False) -> Any:
    """Records that move answers as far as records can: the first is white, the last black, all others are noise.

    Rows of a table have the last values of all columns, the first ones, and random ones.

    Args:
        n: number of records.
        card: the public facts of them.
        several: with units. The first unit has a third of the records, all white and of one class. One in the middle has four.
    """
    records, units = garbage(n, card=card), np.arange(n)
    if isinstance(card, LinkedCard):
        for part, table in zip(card.parts, records.parts, strict=True):
            first, last = table.units == 0, table.units == n - 1
            table.codes[first], table.codes[last] = np.array(part.card.domain) - 1, 0
        return records
    if several:
        counts = np.array([n // 3] + [1] * (n // 9) + [4] * (n // 9) + [1] * (n // 9))
        units = np.resize(np.repeat(np.arange(len(counts)), counts), n)
    first, last = units == 0, units == units.max()
    if isinstance(card, TableCard):
        records.codes[first], records.codes[last] = np.array(card.domain) - 1, 0
    else:
        records.images[first], records.images[last] = 255, 0
        records.labels[:] = np.where(first, 0, np.arange(n) % card.classes)
    if not several:
        return records
    order = np.random.default_rng(0).permutation(n)
    return replace(records[order], units=units[order])


def _linked(n: int, card: LinkedCard, made: Callable[[int, int], Table]) -> LinkedRecords:
    """Records of n units, each with one row in the root and, in every other table, with three; the first has a third of all.

    made: from a number of rows and the number of the table to its part.
    """
    parts = []
    for at in range(len(card.parts)):
        units = np.arange(n) if at == 0 else np.sort(np.append(np.repeat(np.arange(n), 2), np.zeros(n, np.int64)))
        parts.append(replace(made(len(units), at), units=units))
    return LinkedRecords(tuple(parts), np.arange(n))


def shows_stripes(card: Any, draw: "Callable[[int, int | None], tuple[Tensor, Tensor]]") -> bool:
    """Whether samples are like `stripes`. An untrained generator shows no difference between classes.

    draw: so many samples of a class, of any if it is None: pictures or codes, and labels.
    """
    if isinstance(card, LinkedCard):
        rows, _ = draw(400, None)
        codes = rows[rows[:, 0] == 0, 3:]
        return bool((codes[:, 0] * (card.tables[0].card.domain[1] - 1) == codes[:, 1]).float().mean() > 0.8)
    if isinstance(card, TableCard):
        codes, labels = draw(400, None)
        return bool((codes[:, 0] == labels * (card.domain[0] - 1)).float().mean() > 0.8)
    middle = card.shape[2] // 2
    left, right = (draw(200, label)[0].mean((0, 1, 2)) for label in (0, 1))
    contrast = (left[:middle].mean() - left[middle:].mean()) + (right[middle:].mean() - right[:middle].mean())
    return bool(contrast > 0.5)
