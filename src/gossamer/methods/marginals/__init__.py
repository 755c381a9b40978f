"""Noisy marginals of tables: what a run promises and costs. `loop.py` measures, `selection.py` chooses, `fit.py` fits."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from gossamer.errors import RequestError
from gossamer.lazy import Lazy
from gossamer.methods.contract import (
    FROM_EPSILON,
    BaseConfig,
    Draw,
    MaybeZero,
    Method,
    OnPrivate,
    Phases,
    Query,
    TrialConfig,
)
from gossamer.privacy.queries import Bounds

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from gossamer.data.tables import card as table_card
    from gossamer.data.tables.linked.part import Part
    from gossamer.methods.marginals import linked, loop, outlook
    from gossamer.privacy.mechanisms import gaussian
else:
    torch = Lazy("torch")
    loop, gaussian = Lazy("gossamer.methods.marginals.loop"), Lazy("gossamer.privacy.mechanisms.gaussian")
    outlook, linked = Lazy("gossamer.methods.marginals.outlook"), Lazy("gossamer.methods.marginals.linked")
    table_card = Lazy("gossamer.data.tables.card")

CLEAR = 0.02
"""Least precision of counts for a first query that counts each column with the label. Chosen on Adult's training rows."""
MOST_FIRST_CELLS = 1_000_000
"""Cells of all tables of the first query."""
COLUMNS_SHARE = 0.4
"""Of the privacy budget, for the first query."""
STEPS_SHARE, BLIND_STEPS = 0.25, 0.5
BLIND = 1 / 3
"""Noise of so much of the rows hides which pairs are dependent."""
LEAST_GROUPS = 4
"""Groups of neighbours of a column with many bins, at least."""
CELLS_PER_ROW = 4
"""Cells of the model for each row per standard deviation of the noise."""
LARGE_NOISE = 8
"""From this noise multiplier on, that of Adult at an epsilon below 0.5, the fit is smoothed less."""


@dataclass(frozen=True, kw_only=True)
class Config(BaseConfig):
    """Settings of one run.

    Args:
        noise_multiplier: noise multiplier of all queries of the run together. 0: no noise.
        rounds: rounds after the first query (R). Each has two queries: errors of all candidates, and the chosen tables.
        columns_share: share of the privacy budget for the first query, the counts of all columns. 1: there are no rounds. 0: a
            fixed share, or 1 where noise hides which pairs are dependent; see `columns_share`.
        errors_share: share of the privacy budget for the errors of candidates, in all rounds together, between 0 and 1.
        cells: largest number of cells of the tree of cliques. The rounds get to it in equal steps. 0: from the declared size
            and the noise, see `resolved`.
        clique_cells: largest number of cells of a candidate. 0: a tenth of `cells`.
        bins: largest number of bins of a column in the model, about; the first query finds where they end.
        triples_from: first round in which tables of three columns are candidates. 0: pairs only.
        label_weight: how much an error of a table with the label counts; a table without it counts 1.
        smoothing: weight of the entropy in the fit; 1 is the weight by the variance of the noise. 0: as `cells`.
        iterations: steps of L-BFGS in the last fit, at most; a third of it in each fit before. 0: as `cells`.
    """

    noise_multiplier: float = FROM_EPSILON
    rounds: int = 3
    columns_share: float = 0.0
    errors_share: float = 0.1
    cells: MaybeZero = 0
    clique_cells: MaybeZero = 0
    bins: int = 32
    triples_from: MaybeZero = 3
    label_weight: float = 2.0
    smoothing: float = 0.0
    iterations: MaybeZero = 0

    def resolved(self, card: Any) -> "Config":
        """The settings with those that are left to the declared size and the noise. Chosen on Adult's training rows.

        The rows for each standard deviation of the noise of the whole run say how many cells are worth their noise: Adult has
        2,900 at epsilon 0.3, 8,700 at 1, 23,000 at 3 and 65,000 at 10. card: a TableCard; of linked tables, of a part.
        """
        if linked_parts(card):
            return self
        noise = self.noise_multiplier * card.max_rows
        clear = card.declared_size / noise if noise else math.inf
        cells = self.cells or int(min(max(60_000, CELLS_PER_ROW * clear), 200_000))
        return replace(
            self,
            columns_share=columns_share(self, card),
            cells=cells,
            clique_cells=self.clique_cells or max(1, cells // 10),
            smoothing=self.smoothing or (0.02 if noise < LARGE_NOISE else 0.005),
            iterations=self.iterations or int(200 * math.sqrt(max(1.0, cells / 60_000))),
        )


@dataclass(frozen=True)
class Noise:
    """The noise multiplier of each query. The sum of 1 / multiplier^2 over a run is 1 / noise_multiplier^2.

    Gaussians of multipliers s_1, s_2 ... together are one Gaussian with that sum, exactly (Dong, Roth, Su 2022, corollary 3.3).
    """

    columns: float
    steps: float
    errors: float
    marginals: float

    @classmethod
    def of(cls, config: Config, card: Any) -> "Noise":
        """By the shares of a Config. card: a TableCard."""
        first, steps, rest = columns_share(config, card), steps_share(config, card), rounds_share(config, card)
        errors = config.errors_share if rest else 0.0
        each = [first, steps, errors / config.rounds, (rest - errors) / config.rounds]
        return cls(*(config.noise_multiplier / math.sqrt(share) if share else math.inf for share in each))


def linked_parts(card: Any) -> "list[tuple[Part, float]]":
    """The parts of linked tables, each with its share of the privacy budget: by the number of its columns. Of a table: none."""
    parts = getattr(card, "parts", ())
    sizes = [len(part.card.columns) - len(part.card.known) + len(part.card.steps) for part in parts]
    return [(part, size / sum(sizes)) for part, size in zip(parts, sizes, strict=True)]


def of_parts(config: Config, card: Any) -> "list[tuple[Part, Config]]":
    """The parts of linked tables, each with the settings for its share of the budget."""
    noise = config.noise_multiplier
    return [(part, replace(config, noise_multiplier=noise / math.sqrt(share))) for part, share in linked_parts(card)]


def known_columns(card: Any) -> frozenset[int]:
    """Columns that are known as a row of linked tables is drawn; of a table none. They are not counted alone."""
    return frozenset(getattr(card, "known", ()))


def steps_of(card: Any) -> list[tuple[int, int]]:
    """Tables that tell how a row of linked tables follows from the row before. They are counted in the first round."""
    return [*getattr(card, "steps", ())]


def rows_before(card: Any) -> list[tuple[int, int]]:
    """The columns of the row before, each with the same column of the row."""
    return [*getattr(card, "before", ())]


def columns_share(config: Config, card: Any) -> float:
    """The share of the privacy budget for the first query."""
    return config.columns_share or (1.0 - steps_share(config, card) if is_blind(config, card) else COLUMNS_SHARE)


def steps_share(config: Config, card: Any) -> float:
    """The share of the privacy budget for how rows follow from the rows before; of a table nothing."""
    return (BLIND_STEPS if is_blind(config, card) else STEPS_SHARE) if steps_of(card) else 0.0


def rounds_share(config: Config, card: Any) -> float:
    """The share of the privacy budget for all rounds."""
    rest = 1 - columns_share(config, card) - steps_share(config, card)
    return rest if rest > 1e-9 else 0.0


def is_blind(config: Config, card: Any) -> bool:
    """Whether the noise on the errors of all pairs is above BLIND of the rows."""
    pairs = math.comb(len(card.domain), 2) - math.comb(len(known_columns(card)), 2)
    noise = config.noise_multiplier * math.sqrt(config.rounds * pairs / config.errors_share) * int(card.max_rows)
    return noise > BLIND * int(card.declared_size)


def precision(config: Config, card: Any, *, with_label: bool) -> float:
    """How far a count of one value is from the truth in 95 of 100 cases at most, as a share of the declared size.

    By the first query, which divides its noise among its tables. The count of a value is the sum of its cells.
    """
    labels = card.domain[card.label_index] if with_label else 1
    tables = max(1, len(card.domain) - len(known_columns(card)) - with_label) + len(fine_columns(config, card))
    return _precision(config, card, tables * labels)


def _precision(config: Config, card: Any, tables: int) -> float:
    """The same, where the noise is divided among so many tables."""
    return 2 * Noise.of(config, card).columns * int(card.max_rows) * math.sqrt(tables) / int(card.declared_size)


def groups(config: Config, card: Any) -> int:
    """How many groups of neighbours are counted of a wide column, about: as many as stand out where rows are even."""
    noise = _precision(config, card, len(card.domain) - len(known_columns(card)))
    return int(min(config.bins, max(LEAST_GROUPS, 1 / noise))) if noise else config.bins


def wide_columns(config: Config, card: Any) -> list[int]:
    """The columns with more bins than a column of the model has. They are counted by groups of neighbours."""
    apart = known_columns(card) | {card.label_index}
    return [k for k, facts in enumerate(card.columns) if facts.in_order > config.bins and k not in apart]


def fine_columns(config: Config, card: Any) -> list[int]:
    """The wide columns that are also counted by values: all, or none where the noise would be above an even group of rows."""
    wide = wide_columns(config, card)
    tables = len(card.domain) - len(known_columns(card)) + len(wide)
    return wide if _precision(config, card, tables) * config.bins <= 2 else []


def counts_label(config: Config, card: Any) -> bool:
    """Whether the first query counts each column with the label: if there is one, and single columns stay clear."""
    if card.label_index is None or len(card.domain) == 1:
        return False
    return precision(config, card, with_label=True) <= CLEAR


def tables(name: str, bound: float, noise_multiplier: float, times: int) -> Query:
    """Counts of some tables, or groups of errors. The loop says how many there are, and how far a unit moves each."""
    counts = gaussian.GroupedGaussianSum(
        sampling_rate=1.0, noise_multiplier=noise_multiplier, bounds=Bounds(norms=(bound,))
    )
    return Query(name, counts, times)


class Marginals(Method[Config, "loop.State"]):
    """Noisy marginals on a junction tree, for tables (after AIM, McKenna et al. 2022).

    Guarantee: (epsilon, delta)-DP for one unit, add-or-remove-one. All queries are Gaussians over all units, 1 + 2R of them,
    known before a record is read. The rows of a unit with m rows weigh K/m each, where the card says that K rows count in
    full. So a unit moves each table of counts by at most K. The first query has the counts of each column, with the label
    where there is one. Each round asks for the errors of all candidates, which move by at most K each, and for the tables
    that are chosen by them. With the last errors it asks for interactions of the label with several columns, which move by at
    most K each. The rest is post-processing: it reads released values and public facts only. With K = 1 the
    release describes units: each counts once.

    Departures from the paper:
        - All candidates' errors are one Gaussian query, in place of an exponential mechanism a round. A round measures as many
          tables as promise more than their noise costs. So a few rounds are enough.
        - All queries are Gaussians, whose joint cost is exact. The paper adds up zero-concentrated privacy.
        - The fit solves the dual by L-BFGS, in place of mirror descent.
        - Rare values of a column are merged in the model, by the first query.
        - The first query counts each column with the label, in place of each column alone, unless that costs too much noise.
          It counts a column with many bins alone, by groups of neighbours and, unless noise hides them, by its bins.
        - Where noise hides which columns depend on each other, there are no rounds. The first query has the whole budget.
        - Tables of the label with many columns are found by Walsh-Hadamard coefficients, as many as stand out of their noise.
    """

    name = "marginals"
    title = "Noisy marginals on a junction tree (after McKenna et al. 2022)"
    takes = "table"
    takes_linked = True
    ranks_take = "counts"
    takes_public = False
    can_ask_sites = True
    config_type = Config
    loop = loop
    trial = TrialConfig(
        canary="row",
        columns=(3, 3, 3),
        ordinary=500,
        settings={"rounds": 1, "iterations": 1, "bins": 2},
        of_a_run=("columns_share", "errors_share"),
        one_size=False,
    )

    def queries(self, config: Config, card: Any) -> list[Query]:
        """Two queries in each round. The loop says how many tables an answer has. card: a TableCard; of linked tables none."""
        if linked_parts(card):
            return []
        noise, bound = Noise.of(config, card), float(card.max_rows)
        errors = tables("errors", bound, noise.errors, config.rounds)
        return [errors, tables("marginals", bound, noise.marginals, config.rounds)]

    def phases(self, config: Config, card: Any) -> "Phases[Config, Any]":
        """The columns, one query; then the rounds, unless noise hides which pairs are dependent.

        Of linked tables, these of one part after another. card: a TableCard or a LinkedCard.
        """
        if parts := of_parts(config, card):
            return [
                replace(phase, name=f"{phase.name} of {part.name}", body=partial(linked.of_part, number, own, phase))
                for number, (part, own) in enumerate(parts)
                for phase in self.phases(own, part.card)
            ]
        columns = tables("columns", float(card.max_rows), Noise.of(config, card).columns, 1)
        steps = tables("steps", float(card.max_rows), Noise.of(config, card).steps, 1)
        found: list[OnPrivate[Config, Any]] = [
            OnPrivate(name="columns", steps=1, queries=[columns], body=lambda *given: loop.columns(*given))
        ]
        if steps_of(card):
            found.append(OnPrivate(name="steps", steps=1, queries=[steps], body=lambda *given: linked.follow(*given)))
        rounds = [self.training(config, card, steps=2 * config.rounds)] if rounds_share(config, card) else []
        return [*found, *rounds]

    def net(self, config: Config, card: Any) -> "nn.Module":
        """See `Method`. card: a TableCard or a LinkedCard."""
        return linked.LinkedField(card) if linked_parts(card) else loop.generator(config, card)

    def start(self, run: Any) -> Any:
        """See `Method`."""
        return (linked if linked_parts(run.card) else loop).start(run)

    def bounds_units(self, card: Any) -> str:
        """Their weights add up to at most the number of rows that count in full. card: a TableCard or a LinkedCard."""
        if linked_parts(card):
            return (
                f"each of its m rows in a table weighs 1/m, so all of them together count as 1 in each table. The release "
                f"describes the {card.unit}s, and not their rows"
            )
        unit, K = card.unit, card.max_rows
        rows = f"rows, and the rows of a {unit} with more than {K} weigh less"
        return (
            f"each of its m rows weighs {K}/m, and at most 1, so all of them together count as at most {K}. The release "
            f"describes {rows if K > 1 else f'the {unit}s, and not the rows'}"
        )

    def outlook(self, config: Config, card: Any) -> Sequence[str]:
        """How clear the counts will be. card: a TableCard or a LinkedCard."""
        if parts := of_parts(config, card):
            return [f"{part.name}: {said}" for part, own in parts for said in self.outlook(own, part.card)]
        return [*outlook.sentences(config, card)]

    def check(self, config: Config, card: Any) -> None:
        """Refuse shares that leave nothing for the tables, and records with too many columns or values."""
        if parts := of_parts(config, card):
            for part, own in parts:
                self.check(own, part.card)
            return
        for flag in ("errors", "columns"):
            share = config.errors_share if flag == "errors" else columns_share(config, card)
            if not (0 < share < 1 or (share == 1 and flag == "columns")):
                raise RequestError(f"`{flag}_share` is a share of the budget, above 0 and below 1, not {share:g}.")
        if columns_share(config, card) < 1 <= columns_share(config, card) + config.errors_share:
            raise RequestError("`columns_share` and `errors_share` together must be below 1: the tables need the rest.")
        if len(card.domain) > (most := table_card.MOST_COLUMNS):
            raise RequestError(
                f"marginals takes at most {most} columns, and the card has {len(card.domain)}. More cannot be learned "
                "together. Drop columns from the card."
            )
        alone = {card.label_index, *wide_columns(config, card)}
        labels = card.domain[card.label_index] if counts_label(config, card) else 1
        cells = sum(size * (1 if k in alone else labels) for k, size in enumerate(card.domain))
        if cells > MOST_FIRST_CELLS:
            raise RequestError(
                f"The first query has {cells:,} counts, of at most {MOST_FIRST_CELLS:,}. Declare fewer bins or values."
            )

    def check_ranks(self, config: Config, count: int) -> None:  # noqa: ARG002 (what every method is asked)
        """Refuse several ranks: errors are no sums over units."""
        raise RequestError(
            f"marginals trains in one process, not in {count}: its errors are no sums over parts of the records."
        )

    def sample(self, net: Any, draw: Draw[Config]) -> "tuple[Tensor, Tensor]":
        """Codes int64 [n, columns], and the label of each row; zeros where there is no label column. card: a TableCard.

        Of linked tables, see `linked.sample`.
        """
        if linked_parts(draw.card):
            return linked.sample(net, draw)
        codes: Tensor = net.sample(draw.n, draw.labels, draw.stream)
        own = draw.card.label_index
        return codes, torch.zeros(draw.n, dtype=torch.int64) if own is None else codes[:, own]
