"""What a step of the page is."""

import importlib
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from gossamer.run.page.opened import Form


@dataclass(frozen=True)
class Step:
    """A step of the page. Its module, of the same name, is loaded when it is first used: it needs NumPy or PyTorch.

    The module has a function `show`, which returns what the template shows. It has one for each of its forms, which does what
    the form asks for. That one returns where to go: a step, perhaps with a query.

    Args:
        name: in addresses, in the list of steps, and of its module and its template.
        heading: of its page.
        actions: the functions that forms call.
    """

    name: str
    heading: str
    actions: tuple[str, ...] = ()

    @property
    def module(self) -> Any:
        """The module."""
        return importlib.import_module(f"{__package__}.{self.name}")


def chosen(query: Form) -> str:
    """What the user has chosen for a run, as the query of an address."""
    return urlencode({name: query[name] for name in ("epsilon", "delta", "method", "pictures") if query.get(name)})
