"""What `gossamer recommend` says of a table: how clear its counts will be, from the card alone.

The noise is known before a record is read, so the precision of counts follows from it. What a model gains from them does not.
"""

import math
import shlex
from dataclasses import dataclass
from typing import Any

from gossamer.data.tables.card import TableCard
from gossamer.errors import RequestError
from gossamer.methods.marginals import Config, Noise, counts_label, precision
from gossamer.methods.marginals.selection import HALF_NORMAL, candidates
from gossamer.run.report.wording import percent, remark
from gossamer.run.training import presets
from gossamer.run.training.plan import plan

METHOD = "marginals"
CLEAR, FAINT, UNCLEAR = 0.05, 0.2, 0.1
"""Shares of the records. Where a dependence that concerns CLEAR of them is seen, most dependences of real tables are. Where it
must concern more than FAINT, hardly any is. Where counts of values are off by UNCLEAR, they show the frequent ones only."""


@dataclass(frozen=True)
class TableAdvice:
    """What `recommend` says of a table.

    Args:
        outlook: what to expect, in sentences.
        count: how far a count of one value is from the truth at most in 95 of 100 cases, as a share of all units.
        dependence: the smallest dependence of two columns that can be found: the total variation between their joint
            distribution and independence. None: there is one column.
        preset: the settings of the command; None: the defaults.
        command: to copy.
    """

    outlook: list[str]
    count: float
    dependence: float | None
    preset: str | None
    command: str

    def lines(self) -> list[str]:
        """The outlook and the command."""
        settings = f"the settings of {self.preset}" if self.preset else "its default settings"
        return [*self.outlook, "", f"The method for tables is {METHOD}. With {settings}:", f"  {self.command}"]

    def to_json(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "outlook": self.outlook,
            "method": METHOD,
            "count": self.count,
            "dependence": self.dependence,
            "preset": self.preset,
            "command": self.command,
        }


def advise(card: TableCard, *, epsilon: float, delta: float, where: str, data: str) -> TableAdvice:
    """What to expect of a table with this card, and the command. Reads no record.

    Args:
        card: the public facts.
        epsilon: see `run.recommend.recommend.recommend`.
        delta: of the guarantee.
        where: path of the card, for the command.
        data: path of the records, for the command.

    Raises:
        RequestError: if the method refuses the card.
    """
    preset = _nearest_preset(epsilon)
    config = plan(METHOD, card, epsilon=epsilon, delta=delta, preset=preset).job.config
    assert isinstance(config, Config)
    size, unit = card.declared_size, _plural(card)
    count = precision(config, card, with_label=counts_label(config, card))
    dependence = _dependence(card, Noise.of(config).marginals * card.max_rows)
    outlook = [f"{size:,} {unit}, {len(card.domain)} columns, epsilon {epsilon:g} at delta {delta:g}."]
    outlook += [warning] if (warning := remark(epsilon)) else []
    outlook.append(
        f"How often a single value occurs is known to within {percent(count)} of the {unit}, in 95 of 100 cases."
    )
    if dependence is not None:
        outlook.append(
            f"To be seen, a dependence between two columns must concern {percent(dependence)} of the {unit}."
        )
    outlook.append(_verdict(count, dependence, card, unit))
    command = " ".join([
        f"gossamer fit {METHOD} --data {shlex.quote(data)} --card {shlex.quote(where)}",
        *(["--units COLUMN"] if card.unit != "record" else []),
        f"--epsilon {epsilon:g} --delta {delta:g}",
        *([f"--preset {preset}"] if preset else []),
        "--out RUN",
    ])  # fmt: skip
    return TableAdvice(outlook, count, dependence, preset, command)


def _verdict(count: float, dependence: float | None, card: TableCard, unit: str) -> str:
    more = f"More {unit}, a larger epsilon or fewer columns help."
    if count > UNCLEAR:
        return f"Expect the most frequent values of each column, and no dependence between columns. {more}"
    if dependence is None:
        return "Expect the column as it is."
    if dependence > FAINT:
        about = "" if card.label is None else f", and roughly how each goes with {card.label}"
        return f"Expect each column by itself{about}. Do not expect dependences between other columns. {more}"
    if dependence > CLEAR:
        return f"Expect strong dependences between columns only. {more}"
    return (
        "Expect most dependences between two columns. On Adult (32,561 rows of 15 columns, epsilon 1) a classifier that was "
        "trained on samples got 85.5 % of real test rows right; one that was trained on the real rows got 86.5 %."
    )


def _dependence(card: TableCard, deviation: float) -> float | None:
    """The dependence whose error promises as much as the noise on its table costs, if the table is measured alone.

    See `methods.marginals.selection.promise`. The table has the median number of cells; total variation is half of L1.
    """
    sizes = [min(size, 32) for size in card.domain]  # the first query merges values that are rare
    cells = sorted(
        math.prod(sizes[column] for column in pair) for pair in candidates(sizes, triples=False, most_cells=10**9)
    )
    if not cells:
        return None
    return HALF_NORMAL * deviation * cells[len(cells) // 2] / 2 / card.declared_size


def _plural(card: TableCard) -> str:
    return "rows" if card.unit == "record" or card.max_rows > 1 else f"{card.unit}s"


def _nearest_preset(epsilon: float) -> str | None:
    """The preset whose epsilon is nearest, by ratio."""
    own = {name: float(name.rpartition("eps")[2]) for name in presets.all_presets()[METHOD] if "eps" in name}
    return min(own, key=lambda name: abs(math.log(own[name] / epsilon)), default=None)


def refuse_options(**given: Any) -> None:
    """Refuse what is said of pictures, with a RequestError."""
    for name, value in given.items():
        if value is not None:
            raise RequestError(
                f"--{name} is for pictures. A table has one method, {METHOD}, which takes seconds to minutes: leave it out."
            )
