"""Relations of rows, as spreadsheets and databases give them, and of batches of Arrow."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gossamer.data.sources.cells import of_objects, plain
from gossamer.data.sources.names import READ_AGAIN, clean_names
from gossamer.data.sources.relation import Block, Relation

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 1 << 14
"""Rows of a block."""


def from_rows(names: Sequence[str], rows: Callable[[], Iterator[Sequence[Any]]]) -> Relation:
    """Rows of objects as a relation. rows: from the first one, see `block_of`."""

    def blocks(positions: Sequence[int]) -> Iterator[Block]:
        start, found = 0, rows()
        relation.ragged.clear()
        while block := [*itertools.islice(found, _ROWS)]:
            numbers, columns = block_of(block, positions, len(names), start, relation.ragged)
            if len(numbers):
                yield numbers, columns
            start += len(block)

    relation = Relation(clean_names(names), blocks, remedy=READ_AGAIN)
    return relation


def from_batches(names: Sequence[str], batches: Callable[[Sequence[int]], Iterator["pa.RecordBatch"]]) -> Relation:
    """Batches of Arrow as a relation. batches: from the positions of some columns to these, from the first row."""

    def blocks(positions: Sequence[int]) -> Iterator[Block]:
        start = 0
        for batch in batches(positions):
            yield np.arange(start, start + len(batch)), [plain(column) for column in batch.columns]
            start += len(batch)

    return Relation(clean_names(names), blocks, remedy=READ_AGAIN)


def block_of(
    rows: Sequence[Sequence[Any]], positions: Sequence[int], width: int, start: int, ragged: list[int]
) -> Block:
    """The block of some columns of rows, which are numbered from `start`.

    A row has `width` cells, and empty ones behind them. The numbers of other rows go to `ragged`.
    """
    fits = [len(row) >= width and all(cell in (None, "") for cell in row[width:]) for row in rows]
    numbers, whole = start + np.flatnonzero(fits), [*itertools.compress(rows, fits)]
    ragged += [start + at for at, fit in enumerate(fits) if not fit]
    return numbers, [of_objects([row[at] for row in whole]) for at in positions]
