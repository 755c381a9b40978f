"""What the noise leaves of a table: how clear its counts will be, from the card alone.

The noise is known before a record is read, so the precision of counts follows from it. What a model gains from them does not.
"""

import math
from collections.abc import Iterator

from gossamer.data.tables.card import TableCard
from gossamer.methods.marginals import Config, Noise, counts_label, precision, resolved
from gossamer.methods.marginals.selection import (
    HALF_NORMAL,
    OUTSTANDING,
    candidates,
    interaction_noise,
    interaction_sets,
)

CLEAR, FAINT, UNCLEAR = 0.05, 0.2, 0.1
"""Shares of the records. Where a dependence that concerns CLEAR of them is seen, most dependences of real tables are. Where it
must concern more than FAINT, hardly any is. Where counts of values are off by UNCLEAR, they show the frequent ones only."""


def sentences(config: Config, card: TableCard) -> Iterator[str]:
    """How far counts are from the truth at most in 95 of 100 cases, which dependence can be found, and what to expect."""
    unit = "rows" if card.unit == "record" or card.max_rows > 1 else f"{card.unit}s"
    count = precision(config, card, with_label=counts_label(config, card))
    smallest = dependence(config, card)
    yield f"How often a single value occurs is known to within {_percent(count)} of the {unit}, in 95 of 100 cases."
    if smallest is not None:
        yield f"To be seen, a dependence between two columns must concern {_percent(smallest)} of the {unit}."
    sets = interaction_sets(resolved(config, card), card, _merged_sizes(config, card))
    if sets:
        least = OUTSTANDING * interaction_noise(config, card, len(sets)) / card.declared_size
        yield (
            f"How {card.label} depends on several columns at once is counted for up to {len(sets[-1])} columns. To be seen, "
            f"such a dependence must concern {_percent(least)} of the {unit}."
        )
    elif card.label is not None and len(card.domain) > 2:
        yield f"How {card.label} depends on several columns at once is not counted: the noise would hide it."
    more = f"More {unit}, a larger epsilon or fewer columns help."
    if count > UNCLEAR:
        yield f"Expect the most frequent values of each column, and no dependence between columns. {more}"
    elif smallest is None:
        yield "Expect the column as it is."
    elif smallest > FAINT:
        about = "" if card.label is None else f", and roughly how each goes with {card.label}"
        yield f"Expect each column by itself{about}. Do not expect dependences between other columns. {more}"
    elif smallest > CLEAR:
        yield f"Expect strong dependences between columns only. {more}"
    else:
        yield "Expect most dependences between two columns."


def _merged_sizes(config: Config, card: TableCard) -> list[int]:
    """The first query merges values that are rare."""
    return [min(size, config.bins) for size in card.domain]


def dependence(config: Config, card: TableCard) -> float | None:
    """The smallest dependence of two columns that can be found: the total variation between their joint distribution and
    independence. None: there is one column.

    Its error promises as much as the noise on its table costs, if the table is measured alone. See `selection.promise`.
    The table has the median number of cells; total variation is half of L1.
    """
    sizes = _merged_sizes(config, card)
    cells = sorted(
        math.prod(sizes[column] for column in pair) for pair in candidates(sizes, triples=False, most_cells=10**9)
    )
    if not cells:
        return None
    deviation = Noise.of(config, card).marginals * card.max_rows
    return HALF_NORMAL * deviation * cells[len(cells) // 2] / 2 / card.declared_size


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
