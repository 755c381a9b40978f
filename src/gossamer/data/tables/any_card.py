"""The kind of a card: `[[column]]` entries tell the card of a table from that of pictures."""

from pathlib import Path
from typing import Any, TypeAlias

from gossamer.data.card import DataCard, parsed, text_of_card
from gossamer.data.tables.card import TableCard, TableDraft

AnyCard: TypeAlias = DataCard | TableCard


def card_from(facts: dict[str, Any], *, where: str = "the card") -> AnyCard:
    """A card of either kind from plain values, as `to_dict` gives them. Raises CardError."""
    kind = TableCard if "column" in facts else DataCard
    return kind.from_dict(facts, where=where)


def load_card(card: AnyCard | TableDraft | str | Path) -> AnyCard:
    """A card of either kind, from its TOML file, or from a draft of which nothing is measured. Raises CardError."""
    if isinstance(card, DataCard | TableCard):
        return card
    if isinstance(card, TableDraft):
        return card.declared()
    return card_from(parsed(text_of_card(card), where=str(card)), where=str(card))
