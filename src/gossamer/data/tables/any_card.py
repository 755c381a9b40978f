"""The kind of a card: `[[column]]` entries are of a table, `[table.NAME]` of linked tables, and neither is of pictures."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from gossamer.data.card import DataCard, Kind, parsed, text_of_card
from gossamer.data.samples.samples import Samples
from gossamer.data.samples.synthetic_records import SyntheticRecords
from gossamer.data.tables.card import TableCard, TableDraft
from gossamer.data.tables.linked.card import LinkedCard, LinkedDraft
from gossamer.data.tables.linked.samples import LinkedSamples
from gossamer.data.tables.samples import TableSamples

AnyCard: TypeAlias = DataCard | TableCard | LinkedCard
Draft: TypeAlias = TableDraft | LinkedDraft
CARDS: dict[Kind, type[AnyCard]] = {"pictures": DataCard, "table": TableCard, "linked": LinkedCard}
SAMPLES: dict[Kind, type[SyntheticRecords]] = {"pictures": Samples, "table": TableSamples, "linked": LinkedSamples}
"""The card and the samples of each kind of records."""


def card_class(facts: Mapping[str, Any]) -> type[AnyCard]:
    """The class of a card that is plain values. Only that of a table has entries in double brackets."""
    if isinstance(facts.get("table"), dict):
        return LinkedCard
    return TableCard if "column" in facts or any(map(_is_entries, facts.values())) else DataCard


def _is_entries(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def card_from(facts: dict[str, Any], *, where: str = "the card") -> AnyCard:
    """A card of either kind from plain values, as `to_dict` gives them. Raises CardError."""
    return card_class(facts).from_dict(facts, where=where)


def load_card(card: AnyCard | Draft | str | Path) -> AnyCard:
    """A card of either kind, from its TOML file, or from a draft of which nothing is measured. Raises CardError."""
    if isinstance(card, DataCard | TableCard | LinkedCard):
        return card
    if isinstance(card, Draft):
        return card.declared()
    return card_from(parsed(text_of_card(card), where=str(card)), where=str(card))
