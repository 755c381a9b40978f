"""What a step of the page is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from starlette.datastructures import QueryParams

from gossamer.run.page.opened import DataSet, Opened

Show: TypeAlias = Callable[[DataSet, QueryParams], Mapping[str, Any]]
"""Returns what the template shows, from the data set and the query of the address."""
Act: TypeAlias = Callable[[Opened, DataSet, QueryParams], str]
"""Does what a form asks for. Returns where to go: a step, perhaps with a query. Raises GossamerError."""


@dataclass(frozen=True)
class Step:
    """A step of the page.

    Args:
        name: in addresses, and of its template.
        title: what the user reads.
        show: returns what the template shows.
        actions: what its forms do, by name.
    """

    name: str
    title: str
    show: Show
    actions: Mapping[str, Act] = field(default_factory=dict)
