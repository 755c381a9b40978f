"""The contents of a source of any form, as its reader finds them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Stored:
    """Images and labels of one split, before labels are numbered.

    Args:
        images: as they are stored.
        labels: whole numbers or text, [N]: -1 or "" where one is missing.
        others: labels of the other split, if they may be names.
        class_names: what the numbers are called, label 0 first; empty: nobody said.
        formed: whether the images are uint8 [N, C, H, W] in the card's form already, as decoded pictures are.
        tables: the .parquet or .arrow files, or the .csv, that were read; empty: others were.
    """

    images: np.ndarray
    labels: np.ndarray
    others: np.ndarray | None = None
    class_names: tuple[str, ...] = ()
    formed: bool = False
    tables: Sequence[Path] = ()
