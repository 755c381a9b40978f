"""What a step of the page is."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from starlette.datastructures import QueryParams

from gossamer.errors import RequestError
from gossamer.lazy import Lazy
from gossamer.run.page.opened import DataSet, Opened


@dataclass(frozen=True)
class Step:
    """A step of the page. Its module, of the same name, is loaded when it is first used: it needs NumPy or PyTorch.

    The module has a function `show`, and one for each of its forms.

    Args:
        name: in addresses, and of its module and its template.
        title: what the user reads.
        actions: the functions that forms call.
    """

    name: str
    title: str
    actions: tuple[str, ...] = ()

    @cached_property
    def _module(self) -> Any:
        return Lazy(f"{__package__}.{self.name}")

    def show(self, data_set: DataSet, query: QueryParams) -> Mapping[str, Any]:
        """Return what the template shows. query: of the address."""
        content: Mapping[str, Any] = self._module.show(data_set, query)
        return content

    def act(self, action: str, opened: Opened, data_set: DataSet, form: QueryParams) -> str:
        """Do what a form asks for. Return where to go: a step, perhaps with a query. Raises GossamerError."""
        if action not in self.actions:
            raise RequestError("This step has no such action.")
        where: str = getattr(self._module, action)(opened, data_set, form)
        return where
