"""`fit auto`: the methods and settings of which a look at the records chooses one. Reads no record.

Presets say what records show for which they are (`shows`), and for how many records and which epsilon they were tuned. For each
word that the look may answer, the nearest preset that the card allows is a choice. All noise of such a preset follows from
`noise_multiplier`, so that the choices share most of one plan.
"""

from typing import Any

from gossamer.data.tables.any_card import AnyCard
from gossamer.errors import RequestError
from gossamer.kinds import kind_of
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.run.training import presets

LOOK_SHARE = 0.02
"""Of the budget, for the look."""


def choices(card: AnyCard, epsilon: float) -> dict[str, Job[Any, Any]]:
    """What a look at such records may choose, with some noise, by the word for which it does; see `picture_facts.WORDS`.

    The first where it has no answer. Of a kind without a look, its first method for the word "".
    """
    methods, found = METHODS.taking(card.kind), dict[str, Job[Any, Any]]()
    look = kind_of(card).look
    for word in look.WORDS if look else ():
        for name, _, entry in presets.by_distance(methods, card, epsilon, shows=word):
            if "shows" not in entry:
                continue
            try:
                job = Job.of(METHODS[name], presets.tailored(name, entry, card) | presets.any_noise(name), card)
                presets.check_net(job)
            except RequestError:
                continue  # such as axes that are more than pixels, or drawings of other classes
            found[word] = job
            break
    first = next(iter(methods))
    return found or {"": Job.of(METHODS[first], presets.any_noise(first), card)}
