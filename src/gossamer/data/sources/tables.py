"""A table in any form as a relation: files, folders, databases, and what is in memory."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from gossamer.data.sources.relation import Relation
from gossamer.data.sources.text_file import open_text


def open_table(
    source: Any,
    *,
    split: str,
    wanted: Collection[str] = (),
    where: str,
    header: bool | None = None,
    decimal: str = "",
) -> Relation:
    """The columns of a source."""
    return open_text(Path(source), wanted, header=header, decimal=decimal)


def is_table(data: Any) -> bool:
    """Whether DATA is a table, by its form and the names and types of its columns alone."""
    from gossamer.data.tables.read import is_table  # noqa: PLC0415

    return is_table(data)
