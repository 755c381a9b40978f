"""`fit auto`: the methods and settings of which a look at the records chooses one. Reads no record.

Presets say what records show for which they are (`shows`), and for how many records and which epsilon they were tuned. For each
word that the look may answer, the nearest preset that the card allows is a choice. All noise of such a preset follows from
`noise_multiplier`, so that the choices share most of one plan.
"""

from dataclasses import dataclass
from typing import Any

from gossamer.data.tables.any_card import AnyCard
from gossamer.errors import RequestError
from gossamer.kinds import kind_of
from gossamer.methods import METHODS
from gossamer.methods.contract import AnyMethod
from gossamer.methods.job import Job
from gossamer.run.training import presets

LOOK_SHARE = 0.02
"""Of the budget, for the look."""


@dataclass(frozen=True)
class Choice:
    """A method with settings that a look may choose, and the word for which it does; see `Kind.words_shown`."""

    word: str
    method: AnyMethod
    settings: dict[str, Any]

    def job(self, card: AnyCard, noise: float) -> Job[Any, Any]:
        """With this noise multiplier. Raises RequestError: the card does not suit it."""
        return Job.of(self.method, {**self.settings, "noise_multiplier": noise}, card)


def choices(card: AnyCard, epsilon: float) -> list[Choice]:
    """What a look at such records may choose. The first where it has no answer; the only one where the kind has no look."""
    methods, found = METHODS.taking(card.kind), []
    for word, shows in kind_of(card).words_shown.items():
        for name, _, entry in presets.by_distance(methods, card, epsilon, shows=shows):
            choice = Choice(word, METHODS[name], presets.tailored(name, entry, card))
            try:
                presets.check_net(choice.job(card, 1.0))
            except RequestError:
                continue  # such as axes that are more than pixels, or drawings of other classes
            found.append(choice)
            break
    return found or [Choice("", METHODS[next(iter(methods))], {})]
