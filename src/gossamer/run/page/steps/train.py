"""The fifth step: train, watch, stop and resume."""

import shlex

from gossamer.data.tables import any_card
from gossamer.kinds import kind_of
from gossamer.privacy.certificate import certificate
from gossamer.run.page.jobs import FIT
from gossamer.run.page.opened import Content, DataSet, Form, Opened
from gossamer.run.page.steps.method import command_for
from gossamer.run.page.steps.protection import asked, used
from gossamer.run.report import promise


def show(data_set: DataSet, query: Form) -> Content:
    """What the next run does, and what became of the earlier ones."""
    finished = data_set.finished()
    return {
        "planned": _planned(data_set, query) if "method" in query else None,
        "query": query,
        "newest": _result(data_set, finished[-1]) if finished else None,
        "unfinished": data_set.unfinished(),
    }


def start(_opened: Opened, data_set: DataSet, form: Form) -> str:
    """Start a run."""
    out = data_set.new("run")
    data_set.jobs.start(*command_for(data_set, form, str(out)), about=out.name)
    return "train"


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
    return {
        "method": query["method"],
        "epsilon": f"{epsilon:g}",
        "delta": promise.all_digits(delta),
        "unit": card.unit,
        "guess": promise.percent_up(promise.certainty(epsilon, delta)),
        "command": shlex.join(["gossamer", *words]),
        "used": used(data_set),
    }


def _result(data_set: DataSet, name: str) -> Content:
    """What a finished run promises."""
    stated = certificate.Certificate.load(data_set.child(name))
    return {
        "name": name,
        "statement": stated.statement,
        "promise": promise.in_words(stated.guarantee),
        "kind": kind_of(stated.card),
    }
