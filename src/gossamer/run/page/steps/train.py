"""The fifth step: train, watch, stop and resume."""

import shlex
from itertools import accumulate, chain
from pathlib import Path

from gossamer.data.source import Source
from gossamer.data.tables import any_card
from gossamer.kinds import kind_of
from gossamer.privacy.certificate import certificate
from gossamer.run.budget import budget as spending
from gossamer.run.page.jobs import FIT
from gossamer.run.page.opened import Content, DataSet, Form, Opened
from gossamer.run.page.steps.data import units_of
from gossamer.run.page.steps.method import command_for
from gossamer.run.page.steps.protection import asked
from gossamer.run.page.steps.step import chosen
from gossamer.run.report import promise

SMALL, BLOCK = 8 << 20, 4096
"""Bytes of records that are read while somebody waits, and bytes that each file counts at least."""


def show(data_set: DataSet, query: Form) -> Content:
    """What the next run does, and what became of the earlier ones."""
    finished = data_set.finished()
    is_open = "method" in query and query.get("run") not in finished
    return {
        "planned": _planned(data_set, query) if is_open and data_set.jobs.running() is None else None,
        "query": query,
        "newest": _result(data_set, finished[-1]) if finished else None,
        "unfinished": data_set.unfinished(),
    }


def start(_opened: Opened, data_set: DataSet, form: Form) -> str:
    """Start a run."""
    out = data_set.new("run")
    data_set.jobs.start(*command_for(data_set, form, str(out)), about=out.name)
    return f"train?{chosen(form)}&run={out.name}"


def resume(_opened: Opened, data_set: DataSet, form: Form) -> str:
    """Continue a run."""
    run = data_set.child(form.get("run", ""))
    data_set.jobs.start("resume", str(run), name=FIT, about=run.name)
    return "train"


def _planned(data_set: DataSet, query: Form) -> Content:
    """What the next run will do."""
    card = any_card.load_card(data_set.card)
    epsilon, delta = asked(card, query)
    words = command_for(data_set, query, str(data_set.new("run")))
    records = Source(data_set.used, units=units_of(data_set) or None, labels_key=data_set.labels or None)
    looked = _is_small(data_set.used)
    earlier = spending.budget_of_records(records, card, look=looked)
    return {
        "method": query["method"],
        "epsilon": f"{epsilon:g}",
        "delta": promise.all_digits(delta),
        "unit": card.unit,
        "guess": promise.percent_up(promise.certainty(epsilon, delta)),
        "command": shlex.join(["gossamer", *words]),
        "earlier": earlier,
        "looked": looked,
        "others": [name for name in earlier.account.names if name not in (card.data_set, data_set.used)],
        "together": epsilon + min((bound.guarantee.epsilon for bound in earlier.bounds), default=0.0),
    }


def _is_small(data: str) -> bool:
    """Whether the files of the records take a moment to read. Embedded records have no file."""
    files = filter(Path.is_file, chain([Path(data)], Path(data).rglob("*")))
    return all(size <= SMALL for size in accumulate(max(path.stat().st_size, BLOCK) for path in files))


def _result(data_set: DataSet, name: str) -> Content:
    """What a finished run promises."""
    stated = certificate.Certificate.load(data_set.child(name))
    return {
        "name": name,
        "statement": stated.statement,
        "promise": promise.in_words(stated.guarantee),
        "kind": kind_of(stated.card),
    }
