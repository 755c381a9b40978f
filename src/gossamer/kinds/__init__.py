"""The kinds of records: all that depends on what a record is, in one object for each kind.

Nothing above this package asks which kind it has. What `data/` and `methods/` need of a kind is asked of its card and of its
samples, which are below. Attacks and metrics are loaded when a kind is first asked for.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gossamer.data.card import Card
from gossamer.data.source import Data
from gossamer.data.sources.tables import is_table
from gossamer.data.tables.any_card import card_class
from gossamer.data.tables.linked.read import are_linked
from gossamer.lazy import Lazy

if TYPE_CHECKING:
    from gossamer.kinds.kind import Kind

_pictures: Any = Lazy("gossamer.kinds.pictures")
_tables: Any = Lazy("gossamer.kinds.tables")
_linked: Any = Lazy("gossamer.kinds.linked")


def all_kinds() -> "dict[str, Kind[Any, Any]]":
    """Each kind by the name that its cards have."""
    return {kind.name: kind for kind in (_pictures.PICTURES, _tables.TABLES, _linked.LINKED)}


def kind_of(card: Card | Mapping[str, Any]) -> "Kind[Any, Any]":
    """The kind that a card describes; the card may be plain values, as `to_dict` gives them."""
    return all_kinds()[(card_class(card) if isinstance(card, Mapping) else card).kind]


def kind_of_records(data: Data) -> "Kind[Any, Any]":
    """The kind that records are of, by their form and the names of columns. Raises DataError: a file that cannot be read."""
    return all_kinds()["linked" if are_linked(data) else "table" if is_table(data) else "pictures"]
