"""The fourth step: choose a method by what `recommend` says."""

import shlex

from gossamer.data.tables import any_card
from gossamer.errors import RequestError
from gossamer.kinds import kind_of
from gossamer.methods.registry import AUTO
from gossamer.run.page.opened import Content, DataSet, Form
from gossamer.run.page.steps.data import reading_flags, units_of
from gossamer.run.page.steps.protection import asked
from gossamer.run.recommend import recommend as advising
from gossamer.run.recommend.recommend import Advice
from gossamer.run.report import promise

SHOWN = ("digits", "letters")
"""What the records may show, as `recommend --pictures` takes it."""


def show(data_set: DataSet, query: Form) -> Content:
    """What `recommend` says."""
    if not data_set.card.is_file() or "epsilon" not in query:
        return {"decided": False}
    card = any_card.load_card(data_set.card)
    epsilon, delta = asked(card, query)
    advice = advised(data_set, query)
    return {
        "decided": True,
        "outlook": [advice.outlook[0].replace(f"{delta:g}", promise.all_digits(delta)), *advice.outlook[1:]],
        "epsilon": f"{epsilon:g}",
        "delta": f"{delta:g}",
        "automatic": AUTO if kind_of(card).look else "",
        "candidates": advice.ranked,
        "left_out": advice.left_out,
        "pictures": query.get("pictures", ""),
        "shown": SHOWN if card.has_public else (),
    }


def advised(data_set: DataSet, query: Form) -> Advice:
    """Ask `recommend`, for the epsilon and delta of a query."""
    card = any_card.load_card(data_set.card)
    epsilon, delta = asked(card, query)
    return advising.recommend(
        data_set.card, epsilon=epsilon, delta=delta, public=data_set.public or None,
        pictures=query.get("pictures") or None, data=data_set.used,
    )  # fmt: skip


def command_for(data_set: DataSet, query: Form, out: str) -> list[str]:
    """Return the words of the command that `recommend` prints for the method of a query, with its run folder.

    Raises:
        RequestError: if `recommend` does not offer the method.
    """
    advice, method = advised(data_set, query), query.get("method", "")
    commands = {AUTO: advice.automatic} | {each.method: each.command for each in advice.ranked}
    if method not in commands:
        raise RequestError("This method does not suit these records. Choose one of the methods on the page.")
    words = shlex.split(commands[method])[1:]
    if "--units" in words:
        at = words.index("--units")
        del words[at : at + 2]
    assert words[-2:] == ["--out", "RUN"]
    return [*words[:-2], *reading_flags(data_set, units_of(data_set)), "--out", out]
