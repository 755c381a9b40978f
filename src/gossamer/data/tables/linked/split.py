"""Split the files of linked tables into train and test, by whole units. Values are written as they are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gossamer.data.source import Source
from gossamer.data.tables.split import split_table
from gossamer.errors import RequestError


def split_linked(
    tables: Mapping[str, Any], units: str | None, out: Path, share: float, salt: str, *, header: bool | None
) -> tuple[list[str], np.ndarray]:
    """Write out/train and out/test, each with a file for each table. See `split_table`.

    Args:
        tables: where each is, by name.
        units: the column with the key of the unit. Each table has it.
        out: a new folder; nothing is there yet.
        share: expected share of test, between 0 and 1.
        salt: the public key of the hash.
        header: see `split_table`.

    Returns:
        The key of each unit, and whether it goes to test, bool [units].

    Raises:
        RequestError: `units` is missing.
        DataError: a table has no such column, or cannot be read.
    """
    if not units:
        raise RequestError("`units` of linked tables name the column with the key of the person, which each table has.")
    sides: dict[str, bool] = {}
    for side in ("train", "test"):
        (out / side).mkdir(mode=0o700, parents=True)
    for name, place in tables.items():
        folder = out / f".{name}"
        ids, test = split_table(Source(place, units=units), str(place), folder, share, salt, "refuse", header=header)
        sides |= dict(zip(ids, test.tolist(), strict=True))
        for file in folder.iterdir():
            file.rename(out / file.stem / f"{name}{file.suffix}")
        folder.rmdir()
    return [*sides], np.array([*sides.values()])
