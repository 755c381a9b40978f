"""The third step: choose epsilon, and limit what all runs may use together."""

from typing import Any

from gossamer.data.tables import any_card
from gossamer.data.tables.any_card import AnyCard
from gossamer.errors import RequestError
from gossamer.run.budget import budget as spending
from gossamer.run.page.opened import Content, DataSet, Form, FormError, Opened
from gossamer.run.page.steps.step import chosen
from gossamer.run.recommend import recommend as advising
from gossamer.run.report import promise, wording

EPSILONS = (0.5, 1.0, 2.0, 3.0, 5.0, 10.0)
"""What the page compares."""


def show(data_set: DataSet, query: Form) -> Content:
    """What each epsilon means, and what is used of the limit."""
    if not data_set.card.is_file():
        return {"declared": False}
    card = any_card.load_card(data_set.card)
    epsilon, delta = asked(card, query) if "epsilon" in query else (0.0, advising.usual_delta(card))
    return {
        "declared": True,
        "unit": card.unit,
        "delta": f"{delta:g}",
        "delta_in_words": promise.all_digits(delta),
        "choices": [_choice(card, each, delta) for each in sorted({*EPSILONS, epsilon or EPSILONS[0]})],
        "epsilon": epsilon,
        "used": used(data_set),
        "query": query,
    }


def limit(_opened: Opened, data_set: DataSet, form: Form) -> str:
    """Limit the total epsilon of all runs."""
    given = Form({"epsilon": form.get("limit", ""), "delta": form.get("delta", "")})
    epsilon, delta = asked(any_card.load_card(data_set.card), given)
    before = used(data_set)
    if "larger" not in form and before and any(epsilon > each.epsilon for each in before.account.limits):
        raise FormError("This is above the limit: see below.", {"limit": "Tick the box if a larger limit is meant."})
    spending.budget(data_set.used, card=data_set.card, epsilon=epsilon, delta=delta, force="larger" in form)
    return f"protection?{chosen(form)}"


def asked(card: AnyCard, query: Form) -> tuple[float, float]:
    """Return epsilon and delta of a query or a form. Without a delta, it is the usual one.

    Raises:
        RequestError: if one is no number, `recommend` refuses them, or it says that they promise nothing.
    """
    try:
        epsilon = float(query.get("epsilon", "").replace(",", "."))
        delta = float(query["delta"]) if query.get("delta") else None
    except ValueError:
        raise RequestError("Epsilon and delta must be numbers, such as 3 and 0.00001.") from None
    delta = advising.advised_delta(card, epsilon=epsilon, delta=delta)
    if nothing := wording.remark(epsilon):
        raise RequestError(nothing)
    return epsilon, delta


def used(data_set: DataSet) -> Any:
    """What all runs on these records have used, as `gossamer budget` reports it; None: no run and no limit."""
    try:
        return spending.budget(data_set.used, card=data_set.card if data_set.card.is_file() else None)
    except RequestError:  # the budget log does not know them
        return None


def _choice(card: AnyCard, epsilon: float, delta: float) -> Content:
    """What an epsilon means for these records. certainty: how often an attacker is right at most, as a share and in words."""
    certainty = promise.certainty(epsilon, delta)
    return {
        "epsilon": epsilon,
        "certainty": certainty,
        "guess": promise.percent_up(certainty),
        "known": _known(card, epsilon, delta),
    }


def _known(card: AnyCard, epsilon: float, delta: float) -> str:
    """What the card alone tells of the first method of `recommend`, in a sentence; empty: nothing, as of pictures."""
    if card.has_public:
        return ""
    ranked = advising.recommend(card, epsilon=epsilon, delta=delta).ranked
    return ranked[0].notes[0] if ranked and ranked[0].notes else ""
