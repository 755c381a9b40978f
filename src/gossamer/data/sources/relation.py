"""A relation: named columns in blocks of rows, each as text or of its own exact type, before anything is guessed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

Block: TypeAlias = "tuple[np.ndarray, list[pa.Array]]"
"""The numbers of some rows in the source, int64 [n] from 0, and the cells of some columns, n each."""


@dataclass
class Relation:
    """Columns of a table, from a file, a database or memory.

    The type of a column is its declared type in the source. Cells of a source that has none are text, as they are written. A
    column whose cells have types of their own (objects of pandas, a spreadsheet, SQLite) is a dense union. So no cell decides
    how another is read.

    Args:
        names: of all columns in their order; without space around them, and accents composed.
        blocks: from the positions of some columns to their blocks, from the first row; again for each call.
        guessed: whether a program may have guessed types from all rows, as pandas does.
        notes: what was converted, in words; complete once all blocks are read.
        ragged: the rows, counted from 0, with another number of cells than there are names; complete once all blocks are read.
        delimiter: of a text file; empty: of none.
        remedy: what to do if the names are a record. Empty: they cannot be.
        session: of an engine that can count the rows, see `tables.by_engine`. None: there is none.
    """

    names: list[str]
    blocks: Callable[[Sequence[int]], Iterator[Block]]
    guessed: bool = False
    notes: set[str] = field(default_factory=set)
    ragged: list[int] = field(default_factory=list)
    delimiter: str = ""
    remedy: str = ""
    session: Any = None
