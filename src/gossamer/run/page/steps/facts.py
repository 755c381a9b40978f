"""The second step: declare the public facts."""

from collections.abc import Mapping
from typing import Any

from starlette.datastructures import QueryParams

from gossamer.data.tables import any_card
from gossamer.run.page import card_form
from gossamer.run.page.opened import DataSet, Opened


def show(data_set: DataSet, _query: QueryParams) -> Mapping[str, Any]:
    """The questions of the card, with what is declared and what was measured."""
    if not data_set.draft.is_file():
        return {"drafted": False}
    draft = card_form.draft_of(data_set.draft)
    card = _declared(data_set)
    return {
        "drafted": True,
        "is_table": "column" in draft,
        "unit": draft["unit"],
        "stated": card_form.stated(draft, card),
        "measured": card_form.measured(draft),
        "columns": card_form.columns_of(draft, card),
        "names": [column["name"] for column in draft.get("column", []) if column["kind"] != "key"],
        "declared": bool(card),
    }


def declare(_opened: Opened, data_set: DataSet, form: QueryParams) -> str:
    """Write the card."""
    card = card_form.card_from(card_form.draft_of(data_set.draft), _declared(data_set), form)
    card.save(data_set.card)
    return "protection"


def _declared(data_set: DataSet) -> dict[str, Any]:
    """The facts of the card; empty: there is none yet."""
    return any_card.load_card(data_set.card).to_dict() if data_set.card.is_file() else {}
