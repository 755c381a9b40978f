"""Files with an object of JSON in each line as relations: numbers are text, as they are written."""

import io
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from gossamer.data.sources.blocks import from_rows
from gossamer.data.sources.relation import Relation
from gossamer.data.sources.text_file import TextFile
from gossamer.errors import DataError

_TRUTH = {True: "true", False: "false"}


def open_json_lines(path: Path) -> Relation:
    """Open a .jsonl or .ndjson file. Its first line names the columns; null or a name left out is a missing value.

    Raises:
        DataError: by line, what is no object, or has a name that the first line has not.
    """
    keys = [*next(_objects(path), {})]
    if not keys:
        raise DataError(f"{path}: the file or its first line is empty. Write one object of JSON into each line.")
    notes: set[str] = set()
    relation = from_rows(keys, lambda: ([row.get(key) for key in keys] for row in _objects(path, keys, notes)))
    relation.notes = notes
    return relation


def _objects(path: Path, keys: Sequence[str] = (), notes: set[str] | None = None) -> Iterator[dict[str, Any]]:
    """The object of each line that is not blank. keys: the names that it may have; none: any."""
    file = TextFile(path, notes=set() if notes is None else notes)
    lines = (line for _, text in file.pieces() for line in io.StringIO(text))
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        row = None
        with suppress(ValueError, RecursionError):
            row = json.loads(
                line, parse_int=str, parse_float=str, parse_constant=str, object_pairs_hook=_without_repetition
            )
        if not isinstance(row, dict) or (keys and not row.keys() <= {*keys}):
            raise DataError(
                f"{path}, line {number}: this is no object of JSON, or names a column twice, or has a name that the first line "
                "has not. The first line names all columns; null is a missing value."
            )
        yield {key: _TRUTH[value] if isinstance(value, bool) else value for key, value in row.items()}


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found
