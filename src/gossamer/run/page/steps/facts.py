"""The second step: declare the public facts. The data card as a form: what is measured, what is declared, and a card from both.

A draft holds values that were measured. They are suggestions: each counts only if the user accepts it. The questions are in the
template of the step, and in that of the kind of records.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from gossamer.data.card import UNIFORM, meanings
from gossamer.data.columns.generated import KINDS as GENERATED
from gossamer.data.tables import any_card
from gossamer.data.tables.card import MEASURED, TableCard, facts_of_draft
from gossamer.data.tables.linked.table import LinkedTable
from gossamer.errors import CardError
from gossamer.kinds import kind_of
from gossamer.run.page.opened import Content, DataSet, Form, FormError, Opened
from gossamer.run.words import plain

_IN_A_DRAFT = ("declared_size", "shape", "classes", "class_names")
"""What the draft measures, besides columns and numbers of rows of linked tables."""
_MOST_ROWS = f"{MEASURED}max_rows"
"""The largest number of rows of a parent, in the draft of a linked table."""
_OF_A_TABLE = (*fields(LinkedTable), *(entry for entry in fields(TableCard) if entry.name == "label"))
"""What is declared of a linked table, besides columns."""
_ASKED = {"name", "kind", "values", "bounds", "missing", "missing_words", "outside", "decimals", "bins"}
"""Entries of a column that the form asks for or need not show."""
_MEASURED_TOO = {
    "measured_special": "codes of their own",
    "measured_missing_words": "words for missing",
    "measured_clock": "the last two digits are minutes",
}
"""What is measured besides values and bounds, and accepted with them."""
ACCEPT_ALL = "accept.all"
"""The button that accepts all that was measured."""
_FIELDS = {"bounds": "low", "special": "values"}
"""Entries of a column whose field has another name."""
_SUGGESTED = ("clip", "other")
"""What the form proposes for another number, and for another category, where values were only measured. Records for tests may
have values that those for training lack."""


def show(data_set: DataSet, _query: Form) -> Content:
    """The questions of the card, with what is declared and what was measured."""
    if not data_set.draft.is_file():
        return {"drafted": False}
    draft = draft_of(data_set.draft)
    card = _declared(data_set)
    return {
        "drafted": True,
        "kind": kind_of(draft),
        "unit": draft["unit"],
        "stated": stated(draft, card),
        "measured": measured(draft),
        "columns": columns_of(draft, card),
        "declared": bool(card),
    }


def declare(_opened: Opened, data_set: DataSet, form: Form) -> str:
    """Write the card."""
    draft, before = draft_of(data_set.draft), _declared(data_set)
    given = form if ACCEPT_ALL not in form else all_accepted(draft, before, form)
    if problems := problems_of(draft, before, given):
        raise FormError("Some answers are missing or cannot be used. Each of them says why.", problems)
    card_from(draft, before, given).save(data_set.card)
    return "protection"


def all_accepted(draft: Content, card: Content, form: Mapping[str, str]) -> dict[str, str]:
    """The form with the tick of each measured value that no text replaces: the user declares all of them public."""
    ticked = {f"accept.{name}": "1" for name in measured(draft)}
    for column in columns_of(draft, card):
        ticked |= {f"accept.{column['at']}": "1"} if column["measured"] else {}
        ticked |= {f"{column['at']}.missing": "1"} if column["some_missing"] else {}
    return {**form, **ticked}


def problems_of(draft: Content, card: Content, form: Mapping[str, str]) -> dict[str, str]:
    """What is wrong with a form, by the names of its fields; "" is the whole form. Each is found with all others put right.

    Arguments: see `card_from`.
    """
    found: dict[str, str] = {}
    columns = {(column["table"], column["name"]): column["at"] for column in columns_of(draft, card)}
    repaired = {**form}
    for _ in range(len(form) + len(columns)):
        try:
            card_from(draft, card, repaired)
            break
        except CardError as error:
            said = str(error).removeprefix("the card: ")
        field, problem = _field_of(said, columns)
        if field in found or (found and not field):  # what is left follows from what was left out
            break
        found[field] = f"{problem[:1].upper()}{problem[1:].removesuffix('.')}."
        at, _, entry = field.rpartition(".") if field.startswith("column.") else (field, "", "")
        repaired = {key: text for key, text in repaired.items() if key != at and not key.startswith(f"{at}.")}
        repaired |= {f"accept.{at}": "1"} if at in measured(draft) else {}
        left_out = next((name for (_, name), place in columns.items() if entry and place == at), None)
        chosen = [key for key, text in repaired.items() if key.endswith(("label", "order")) and text == left_out]
        repaired |= dict.fromkeys(chosen, "")
    return found


def _field_of(said: str, columns: Mapping[tuple[str, str], str]) -> tuple[str, str]:
    """The field of a form that a message of a card is about, and the rest of the message.

    Args:
        said: the message.
        columns: how the fields of each column begin, by the names of its table and of the column.
    """
    in_column = r"(?:table (?P<table>\w+): )?column (?P<name>'.*?'|\".*?\"), (?P<key>\w+): "
    if found := re.match(in_column, said):
        at = columns[found["table"] or "", found["name"][1:-1]]
        return f"{at}.{_FIELDS.get(found['key'], found['key'])}", plain(said[found.end() :])
    place, _, problem = re.sub(r"^table (\w+): ", r"table.\1.", said).partition(" ")
    place = place.rstrip(":")
    name = place.rpartition(".")[2]
    if name in (entry.name for entry in _OF_A_TABLE):
        return place, plain(problem)
    is_fact = any(name in meanings(kind) for kind in any_card.CARDS.values())
    return (name, plain(problem)) if is_fact else ("", plain(said))


def _declared(data_set: DataSet) -> Content:
    """The facts of the card; empty: there is none yet."""
    return any_card.load_card(data_set.card).to_dict() if data_set.card.is_file() else {}


def draft_of(path: Path) -> dict[str, Any]:
    """Return the facts of a draft. What it measured of columns is under `measured_values` and `measured_bounds`."""
    return facts_of_draft(path.read_text(encoding="utf-8"))


def stated(draft: Content, card: Content) -> dict[str, str]:
    """Return the facts that are declared, or that the draft has without measuring, as text.

    Args:
        draft: its facts.
        card: the facts that are declared now; empty: none.
    """
    of_tables = {
        f"table.{table}.{name}": value
        for table, own, before in _tables(draft, card)
        for name, value in _kept(own, before).items()
    }
    return {name: _text(value) for name, value in (of_tables | _kept(draft, card)).items()}


def measured(draft: Content) -> dict[str, str]:
    """Return what the draft has measured of the whole data set, as text."""
    return {name: _text(value) for name, value in _measured(draft).items()}


def _measured(draft: Content) -> dict[str, Any]:
    """The same as values, by the names of their fields."""
    rows = {f"table.{name}.max_rows": own[_MOST_ROWS] for name, own, _ in _tables(draft, {}) if _MOST_ROWS in own}
    return {name: draft[name] for name in _IN_A_DRAFT if name in draft} | rows


def columns_of(draft: Content, card: Content) -> list[dict[str, Any]]:
    """Return each column of all tables as the form shows it. Texts are empty where nothing is declared or measured.

    `table` names the table of linked ones. `at` is how the fields of the column begin. `drafted` and `declared` are its entries
    in the draft and in the card. `some_missing` says that values are
    missing in the records, which is measured too. `other` has the entries that the form does not ask for, in words. Arguments:
    see `stated`.
    """
    found: list[dict[str, Any]] = []
    for table, own, before in _tables(draft, card):
        declared = {column["name"]: column for column in before.get("column", [])}
        dropped = own.get("drop", {}) | before.get("drop", {})
        for column in [*own.get("column", []), *({"name": name, "kind": ""} for name in dropped)]:
            now = declared.get(column["name"], {"kind": ""} if before else None)
            shown = _column(column, now, dropped.get(column["name"], ""))
            found.append(shown | {"table": table, "at": f"column.{len(found)}", "drafted": column, "declared": now})
    return found


def card_from(draft: Content, card: Content, form: Mapping[str, str]) -> any_card.AnyCard:
    """Return the card that a form declares.

    Args:
        draft: facts of the draft.
        card: the facts that were declared before; empty: none. Entries that the form does not ask for stay.
        form: the texts by name. A measured value counts where `accept.NAME` is there and no text.

    Raises:
        CardError: a fact that is missing or makes no sense.
    """
    facts = _kept(draft, card) | _answered(fields(any_card.card_class(draft)), draft, form)
    columns = columns_of(draft, card)
    for table, own, before in _tables(draft, card):
        chosen = [
            column for column in columns if column["table"] == table and form.get(f"{column['at']}.kind", "").strip()
        ]
        entries = {"column": [_declared_column(column, form) for column in chosen]}
        if table:
            links = _kept(own, before) | _answered(_OF_A_TABLE, draft, form, f"table.{table}.")
            facts.setdefault("table", {})[table] = {key: value for key, value in links.items() if value != ""} | entries
        elif columns:
            facts |= entries
    return any_card.card_from(facts)


def _answered(
    entries: Iterable[Field[Any]], draft: Content, form: Mapping[str, str], before: str = ""
) -> dict[str, Any]:
    """The facts that a form answers. before: how the names of its fields begin. Raises CardError: a measured one is open."""
    facts, known = dict[str, Any](), _measured(draft)
    for entry in entries:
        name = f"{before}{entry.name}"
        text, is_measured = form.get(name, "").strip(), name in known
        if is_measured and not text and f"accept.{name}" not in form:
            raise CardError(f"{name}: write what may be public, or accept the measured value.")
        if text or (name in form and not is_measured):
            facts[entry.name] = _value(entry, text)
        elif is_measured:
            facts[entry.name] = known[name]
    return facts


def _tables(draft: Content, card: Content) -> list[tuple[str, Content, Content]]:
    """Each table, with its facts in the draft and in the card. One that is linked to no other has no name."""
    if "table" not in draft:
        return [("", draft, card)]
    return [(name, own, card.get("table", {}).get(name, {})) for name, own in draft["table"].items()]


def _kept(draft: Content, card: Content) -> dict[str, Any]:
    """The facts on the whole data set, or on a linked table, that hold where the form says nothing else."""
    rest = {name: value for name, value in draft.items() if name not in _IN_A_DRAFT} | dict(card)
    left_out = ("column", "drop", "table", _MOST_ROWS)
    return {name: value for name, value in rest.items() if name not in left_out}


def _declared_column(column: Content, form: Mapping[str, str]) -> dict[str, Any]:
    """The entries of a column that the form keeps. column: see `columns_of`."""
    at, drafted = column["at"], column["drafted"]
    texts = {key.removeprefix(f"{at}."): text.strip() for key, text in form.items() if key.startswith(f"{at}.")}
    kind, known = texts["kind"], column["declared"] or drafted
    entries = {
        **{key: value for key, value in known.items() if known["kind"] == kind and not key.startswith(MEASURED)},
        "name": column["name"],
        "kind": kind,
    }
    if kind in GENERATED:
        return entries
    entries |= {"missing": "missing" in texts, "outside": texts.get("outside") or "refuse"}
    ends = [texts.get("low", ""), texts.get("high", "")]
    if kind == "category" and texts.get("values"):
        entries["values"] = _list(texts["values"])
    elif kind != "category" and any(ends):
        entries["bounds"] = list(map(_number, ends))
        entries.pop("edges", None)
    elif f"accept.{at}" in form and drafted.get("kind") == kind:
        entries |= {key.removeprefix(MEASURED): value for key, value in drafted.items() if key.startswith(MEASURED)}
    else:
        entries.pop("values", None)
        entries.pop("bounds", None)
    if words := _list(texts.get("missing_words", "")):
        entries["missing_words"] = words
    elif f"accept.{at}" not in form:
        entries.pop("missing_words", None)
    if kind == "number":
        entries.pop("decimals", None)
        entries |= {"decimals": _number(texts["decimals"])} if texts.get("decimals") else {}
    return entries


def _column(drafted: Content, declared: Content | None, dropped: str) -> dict[str, Any]:
    """One column as the form shows it. declared: None where there is no card yet. dropped: why it is left out."""
    entries = drafted if declared is None else declared
    found = drafted.get("measured_values") or drafted.get("measured_bounds") or []
    shown = _text(found) if "measured_values" in drafted else " to ".join(map(str, found))
    too = [f"{what}: {_text(drafted[key])}" for key, what in _MEASURED_TOO.items() if key in drafted]
    suggested = declared is None and bool(found)
    others = (key for key in entries if key not in _ASKED and not key.startswith(MEASURED))
    return {
        "name": drafted["name"],
        "kind": entries.get("kind", ""),
        "values": _text(entries.get("values", [])),
        "ends": [str(end) for end in entries.get("bounds", ["", ""])],
        "measured": ", ".join([shown, *too]),
        "missing": bool(entries.get("missing", False)) and not suggested,
        "some_missing": bool(found) and bool(drafted.get("missing", False)),
        "outside": _SUGGESTED[drafted["kind"] == "category"] if suggested else entries.get("outside", "refuse"),
        "has_words": "measured_missing_words" in drafted or "missing_words" in entries,
        "missing_words": _text(entries.get("missing_words", [])),
        "decimals": str(entries.get("decimals", "")),
        "dropped": dropped,
        "other": ", ".join(f"{key} = {_text(entries[key])}" for key in others),
    }


def _text(value: Any) -> str:
    """A value of a card as the form shows it."""
    if isinstance(value, list | tuple):
        return (" x " if value and all(isinstance(part, int) for part in value) else " | ").join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(entry: Field[Any], text: str) -> Any:
    """A fact from its text. What does not fit stays text: the card says what is wrong with it."""
    if entry.type is bool:
        return text == "true"
    if entry.name == "class_names":
        return _list(text)
    if entry.name == "shape":
        return list(map(_number, _list(re.sub("[x,]", "|", text))))
    if entry.name == "label_prior" and text != UNIFORM:
        return list(map(_number, _list(text)))
    return _number(text) if entry.type is int else text


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split("|") if part.strip()]


def _number(text: str) -> int | float | str:
    plain = text.replace(",", "") if re.fullmatch(r"-?\d{1,3}(,\d{3})+", text) else text
    for kind in (int, float):
        try:
            return kind(plain)
        except ValueError:
            continue
    return text
