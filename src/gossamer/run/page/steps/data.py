"""The first step: divide the records, look at them, and list what is wrong."""

import re
from pathlib import Path
from typing import Any

from gossamer.data import source
from gossamer.data.card import meanings
from gossamer.data.tables import any_card
from gossamer.data.tables.draft import STEPS
from gossamer.errors import GossamerError
from gossamer.events import NOTE, TEXT
from gossamer.kinds import kind_of_records
from gossamer.lazy import Lazy
from gossamer.run.page.opened import EMBEDDED, READING, Content, DataSet, Form, Opened, unquoted
from gossamer.run.page.steps.facts import draft_of
from gossamer.run.words import plain

splitting: Any = Lazy("gossamer.data.split")  # the first view needs neither, and they take seconds to load
data_sources: Any = Lazy("gossamer.run.storage.data_sources")
WINDOW = "window"
"""How `DataSet.pixels` begins where files are read by their own display windows."""


def show(data_set: DataSet, _query: Form) -> Content:
    """What was found in the records."""
    kind, problem, columns = kind_of_records(data_set.data), "", []
    header = {"yes": True, "no": False}.get(data_set.header)
    found = draft_of(data_set.draft) if data_set.draft.is_file() else None
    records, deep, seen = source.Source(data_set.used, labels_key=data_set.labels or None), None, None
    try:
        columns = kind.columns(records, name=data_set.name, header=header)
        deep = kind.deep_range(records) if found is None or data_set.pixels else None
        seen = None if found is None else kind.glance(records, found)
    except GossamerError as error:
        problem = plain(str(error))
    counts = data_set.jobs.last_of("split").said(TEXT) if data_set.parts else []
    notes = (note.removeprefix("Note: ") for note in data_set.jobs.last_of("card").said(NOTE))
    return {
        "kind": kind,
        "is_embedded": data_set.data in EMBEDDED,
        "columns": columns,
        "problem": problem,
        "found": found,
        "seen": seen,
        "deep": None if deep is None else (f"{deep[0]:.10g} {deep[1]:.10g}", deep[2]),
        "notes": [_in_words(note) for note in notes if not note.endswith(tuple(STEPS))],  # the next form asks for those
        "divided": [count.replace("units", "persons") for count in counts if count.startswith(("train: ", "test: "))],
    }


def divide(opened: Opened, data_set: DataSet, form: Form) -> str:
    """Divide the records into train and test."""
    data_set = _reading(opened, data_set, form)
    in_folder = kind_of_records(data_set.data).splits_into_folder(Path(data_set.data))
    out = data_set.new_parts[0 if in_folder else 1]
    words = [*reading_flags(data_set, data_set.units), *pixel_flags(data_set)]
    data_set.jobs.start("split", data_set.data, "-o", str(out), *words)
    return "data"


def look(opened: Opened, data_set: DataSet, form: Form) -> str:
    """Draft the card of the records."""
    data_set = _reading(opened, data_set, form)
    words = [*reading_flags(data_set, units_of(data_set)), *flag("--dictionary", data_set.dictionary)]
    words += pixel_flags(data_set)
    data_set.jobs.start("card", data_set.used, "-o", str(data_set.draft), "--force", *words)
    return "data"


def units_of(data_set: DataSet) -> str:
    """Whose each record is, for the records that a run uses. `split` writes ids of its own beside pictures; keys say it too."""
    if data_set.units and kind_of_records(data_set.data).matched(data_set.units) == "keys":
        return ""
    if data_set.parts is None or not data_set.units:
        return data_set.units
    if data_set.parts.is_file():
        return f"{data_set.parts}:{splitting.UNIT_KEY}"
    file = data_set.parts / splitting.UNITS_FILE
    return str(file) if file.is_file() else data_set.units


def reading_flags(data_set: DataSet, units: str) -> list[str]:
    """How the records are read, as options of a command."""
    header = {"yes": ["--header"], "no": ["--no-header"]}.get(data_set.header, [])
    return [*flag("--units", units), *flag("--labels-key", data_set.labels), *header]


def pixel_flags(data_set: DataSet) -> list[str]:
    """How pixels deeper than 8 bits are read, as options of `card` and `split`. Later commands have it from the card."""
    windows, ends = data_set.pixels.startswith(WINDOW), data_set.pixels.removeprefix(WINDOW).split()
    return [*(["--window"] if windows else []), *(["--pixel-range", *ends] if ends else [])]


def flag(name: str, value: str) -> list[str]:
    """An option and its value, as words of a command; nothing without a value."""
    return [name, value] if value else []


def _in_words(note: str) -> str:
    """A note without the spelling of facts in a card: `class_names` are class names here."""
    facts = (name for kind in any_card.CARDS.values() for name in meanings(kind) if "_" in name)
    return re.sub(rf"\b({'|'.join(facts)})\b", lambda found: found[0].replace("_", " "), note)


def _reading(opened: Opened, data_set: DataSet, form: Form) -> DataSet:
    """Keep how the records are read. Paths become absolute: a job works in a folder of its own."""
    given = {name: unquoted(form[name]) for name in READING if name in form}
    if given.get("pixels") == "other":
        given["pixels"] = form.get("pixels.other", "").strip()
    data = source.Source(data_set.data, units=given.get("units") or None)
    sources = data_sources.DataSources.of(data, public=given.get("public") or None)
    found = {"units": sources.data.units, "public": sources.public and str(sources.public.records)}
    changed = given | {name: place for name, place in found.items() if place}
    if given.get("dictionary"):
        changed["dictionary"] = str(Path(given["dictionary"]).expanduser().absolute())
    opened.change(data_set.id, changed)
    return opened.get(data_set.id)
