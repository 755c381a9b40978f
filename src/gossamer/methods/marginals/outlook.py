"""What the noise leaves of a table: how clear its counts will be, and what runs with about as much noise reached.

The noise is known before a record is read, so the precision of counts follows from it. What a model gains from them does not:
`measured.toml` has what it was on six tables.
"""

import math
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import resources
from statistics import median
from typing import Any

from gossamer.data.tables.card import TableCard
from gossamer.methods.marginals import Config, columns_share, counts_label, precision
from gossamer.methods.marginals.selection import OUTSTANDING, interaction_noise, interaction_sets

NEAR = 2.0
"""Up to this factor, the noise of a measured run counts as much as that of a card."""
KEPT = 0.05
"""The least share of the dependence of pairs that is worth more than independent columns."""


def sentences(config: Config, card: TableCard) -> Iterator[str]:
    """How far counts are from the truth at most in 95 of 100 cases, which order of dependence is counted, what was measured."""
    unit = "rows" if card.unit == "record" or card.max_rows > 1 else f"{card.unit}s"
    count = precision(config, card, with_label=counts_label(config, card))
    blind = columns_share(config, card) == 1
    yield f"Noise moves the count of a single value by up to {_percent(count)} of the {unit}, in 95 of 100 cases."
    merged = [min(size, config.bins) for size in card.domain]  # the first query merges values that are rare
    sets = [] if blind else interaction_sets(config.resolved(card), card, merged)
    if blind:
        yield "Columns are counted alone, and samples have independent columns: the noise would hide which are dependent."
    elif sets:
        least = OUTSTANDING * interaction_noise(config, card, len(sets)) / card.declared_size
        yield (
            f"How {card.label} depends on several columns at once is counted for up to {len(sets[-1])} columns. To be seen, "
            f"such a dependence must concern {_percent(least)} of the {unit}."
        )
    elif card.label is not None and len(card.domain) > 2:
        yield f"How {card.label} depends on several columns at once is not counted: the noise would hide it."
    if config.noise_multiplier:
        yield from measured(noise_of(config, card), pairs=len(card.domain) > 1 and not blind)


def noise_of(config: Config, card: TableCard) -> float:
    """The noise of a run beside its rows. The square root of the columns stands for the tables that share the budget."""
    return config.noise_multiplier * card.max_rows * math.sqrt(len(card.domain)) / card.declared_size


def measured(noise: float, *, pairs: bool = True) -> Iterator[str]:
    """What was measured with about as much noise, as `noise_of` gives it."""

    def far(run: dict[str, Any]) -> float:
        return abs(math.log(run["noise"] / noise))

    near = [run for run in _runs() if far(run) <= math.log(NEAR)] or [min(_runs(), key=far)]
    half = {name: median(run[name][0] for run in near) for name in ("mean", "p99")}
    most = {name: max(run[name][1] for run in near) for name in ("mean", "p99")}
    kept = [max(0.0, 1 - run["pairs"]) for run in near]
    places = [f"{run['table']} at epsilon {run['epsilon']:g}" for run in near]
    yield f"Measured with about as much noise, no forecast: {', '.join(places)}."
    yield f"The slowest of these runs took {max(run['seconds'] for run in near):.0f} s on one core."
    yield (
        f"Means of half of the columns were off by {half['mean']:.2f} standard deviations, and of one in ten by up to "
        f"{most['mean']:.2f}."
    )
    yield (
        f"Of the distance from median to 99th percentile, half of the columns missed {_percent(half['p99'])}, and one in ten "
        f"up to {_percent(most['p99'])}."
    )
    if pairs and max(kept) < KEPT:
        yield "Expect pairs of columns no better than independent columns. More rows, a larger epsilon or fewer columns help."
    elif pairs:
        shares = " to ".join(dict.fromkeys(map(_percent, (min(kept), max(kept)))))
        yield f"Pairs of columns kept {shares} of what sets them apart from independent columns."


@cache
def _runs() -> list[dict[str, Any]]:
    text = resources.files("gossamer.methods.marginals").joinpath("measured.toml").read_text(encoding="utf-8")
    runs: list[dict[str, Any]] = tomllib.loads(text)["run"]
    return runs


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
