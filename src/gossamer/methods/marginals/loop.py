"""Noisy marginals on a junction tree: all columns first, then rounds of errors, marginals and a fit.

The select-measure-generate scheme of AIM (McKenna et al. 2022) on the graphical models of McKenna, Sheldon, Miklau 2019.
`__init__.py` lists the departures.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from gossamer.methods import contract
from gossamer.methods.contract import Logs, Run
from gossamer.methods.marginals import (
    Config,
    Noise,
    counts_label,
    fine_columns,
    groups,
    known_columns,
    measurements,
    rows_before,
    selection,
    smoothing,
    steps,
    wide_columns,
)
from gossamer.methods.marginals.counts import Counts, Errors, Interactions
from gossamer.methods.marginals.fit import fit
from gossamer.methods.marginals.measurements import Measurement
from gossamer.methods.marginals.nets import MarkovField
from gossamer.methods.marginals.smoothing import FineCounts
from gossamer.methods.marginals.tree import Clique, JunctionTree
from gossamer.privacy.confined import Confined
from gossamer.privacy.mechanisms.gaussian import GroupedGaussianSum
from gossamer.privacy.queries import Bounds


def train(run: Run[Config], state: "State", private: Confined[Any]) -> Iterator[Logs]:
    """Rounds of two queries, each of which is a step. Ends when the ledger holds no further release."""
    run = dataclasses.replace(run, config=run.config.resolved(run.card))
    while state.step < 2 * run.config.rounds:
        round_ = state.step // 2
        candidates = open_candidates(run.config, run.card, state, round_)
        if state.step % 2 == 0:
            with threadpool_limits(1):
                expected = selection.expected(candidates, state.net.tree, state.net.tables)
            scaled = of_site(run, state, candidates, [each * state.total for each in expected])
            query = Errors(counts(run, state, candidates), scaled, interactions(run, state, round_))
            release = a_bound_each(run.query("errors"), query)
            if not private.remaining(release.event):
                return
            state.errors = counted_first(private, release, query)
            yield {"mean_error": state.errors.mean() if candidates else 0.0}
        else:
            asked = counts(run, state, chosen(run, state, candidates, round_))
            joint = a_bound_each(run.query("marginals"), asked, selection.noise_weights(asked.sizes))
            if not private.remaining(joint.event):
                return
            state.measured += measurements.released(asked, counted_first(private, joint, asked), joint)
            fit_all(run, state)
            yield {"cliques": float(len(asked.cliques)), "cells": float(state.net.tree.cells)}


def columns(run: Run[Config], state: "State", private: Confined[Any]) -> Iterator[Logs]:
    """The counts of each column, with the label where there is one. One query."""
    run = dataclasses.replace(run, config=run.config.resolved(run.card))
    query = first_query(run)
    release = a_bound_each(run.query("columns"), query)
    if state.step == 0 and private.remaining(release.event):  # another phase may have the same event
        measured = measurements.released(query, counted_first(private, release, query), release)
        state.total = measurements.total(measured)
        merge_rare(run, state, measured, query)
        fit_all(run, state)
        yield {"total": state.total}


def counted_first(private: Confined[Any], release: GroupedGaussianSum, query: Counts | Errors) -> Tensor:
    """Release an answer. The counts are there before the cost is recorded, so an engine that fails costs no query."""
    private.update(lambda rows: None if rows is None else query.clipped_sum(rows, release.bounds))
    return private.release(release, query)


def of_site(run: Run[Config], state: "State", cliques: Sequence[Clique], expected: list[Tensor]) -> list[Tensor]:
    """What is expected of the records here: at a site, the model's tables fitted to its own noisy counts of each column.

    Errors are no sums over units. Against the tables of all sites, the errors of a site would show how its people differ.
    """
    if run.answered is None:
        return expected
    (answer, noise), asked = run.answered, first_query(run)
    release = a_bound_each(dataclasses.replace(run.query("errors"), noise_multiplier=noise), asked)
    measured = measurements.released(asked, answer, release)
    own = zip(fine_counts(run, measured, asked), asked.maps, state.net.maps, strict=False)  # `asked` has further maps
    return selection.of_part(cliques, expected, [fine.sums(of_bins(bins, values)) for fine, bins, values in own])


def first_query(run: Run[Config]) -> Counts:
    """Each column as `first_cliques` has it; columns with many bins alone, by groups of neighbours and maybe by values too."""
    card: Any = run.card  # a TableCard
    wide, fine = wide_columns(run.config, card), fine_columns(run.config, card)
    maps = {column: torch.arange(size) for column, size in enumerate(card.domain)}
    cliques = [clique for clique in first_cliques(run) if not set(clique) & set(wide)]
    for column in wide:
        own = smoothing.group_map(card.domain[column], card.columns[column].in_order, groups(run.config, card))
        maps[len(maps) if fine else column] = own
    held = known_columns(card).union(*cliques)
    return Counts([*maps.values()], [*cliques, *((k,) for k in maps if k not in held)], card.max_rows, fine)


def first_cliques(run: Run[Config]) -> list[Clique]:
    """Each column with the label; each column alone where there is none, or where the noise would be too much."""
    card: Any = run.card  # a TableCard
    label, count = card.label_index, len(card.domain)
    if not counts_label(run.config, card):
        return [(column,) for column in range(count) if column not in known_columns(card)]
    others = {*range(count)} - known_columns(card) - {label}
    return [(min(column, label), max(column, label)) for column in sorted(others)]


def counts(run: Run[Config], state: "State", cliques: Sequence[Clique]) -> Counts:
    """The query that counts some cliques. The rows of a unit weigh as the card says."""
    card: Any = run.card  # a TableCard
    return Counts(state.net.maps, cliques, card.max_rows)


def open_candidates(config: Config, card: Any, state: "State", round_: int) -> list[Clique]:
    """The candidates of a round, from what is public or released."""
    triples = 0 < config.triples_from <= round_ + 1 and selection.triples_stand_out(config, card, len(state.net.sizes))
    found = selection.candidates(state.net.sizes, triples=triples, most_cells=config.clique_cells)
    return [clique for clique in found if not known_columns(card).issuperset(clique)]


def interactions(run: Run[Config], state: "State", round_: int) -> Interactions | None:
    """Those of the label with several columns, in the last round; None: before, without a label, or if noise hides them."""
    net, last = state.net, round_ == run.config.rounds - 1
    sets = selection.interaction_sets(run.config, run.card, net.sizes) if last else []
    return Interactions(selection.halves(net), net.label, sets) if sets and net.label is not None else None


def chosen(run: Run[Config], state: "State", candidates: Sequence[Clique], round_: int) -> list[Clique]:
    """What a round measures: candidates that promise more than their noise costs, or if there are none, `first_cliques`."""
    config, net = run.config, state.net
    card: Any = run.card  # a TableCard
    assert state.errors is not None
    errors, coefficients = state.errors[: len(candidates)], state.errors[len(candidates) :]
    if (asked := interactions(run, state, round_)) is not None:
        noise = selection.interaction_noise(config, card, len(asked.sets))
        found = selection.standing_out(asked, coefficients, net, total=state.total, noise=noise)
        candidates, errors = [*candidates, *found], torch.cat([errors, torch.tensor([*found.values()]).double()])
    return selection.choose(
        candidates,
        errors,
        weights=[config.label_weight if net.label in clique else 1.0 for clique in candidates],
        deviation=Noise.of(config, card).marginals * card.max_rows,
        held=[*(clique for clique, *_ in state.measured), *(clique for clique, *_ in state.folds)],
        sizes=net.sizes,
        most_cells=config.cells * (round_ + 1) // config.rounds,
        most=math.ceil(1.5 * len(net.domain)),
        also=lambda clique: steps.mirror(card, clique),
    ) or first_cliques(run)


def a_bound_each(
    declared: GroupedGaussianSum, query: Counts | Errors, weights: tuple[float, ...] | None = None
) -> GroupedGaussianSum:
    """The mechanism of a query: all units, and a bound on each table or group. weights: None: equal ones."""
    bounds = Bounds(norms=query.norms, groups=tuple(range(len(query.norms))))
    return dataclasses.replace(declared, bounds=bounds, weights=weights)


def fine_counts(run: Run[Config], measured: Sequence[Measurement], query: Counts) -> list[FineCounts]:
    """What the first query says of the bins of each column."""
    card: Any = run.card  # a TableCard
    found = []
    for column, facts in enumerate(card.columns):
        if column in known_columns(card):
            found.append(FineCounts(torch.ones(facts.size).double(), 0.0, facts.in_order))
            continue
        noisy, deviation = measurements.of_column(measured, column)
        fine = FineCounts(noisy, deviation, facts.in_order + len(noisy) - len(query.maps[column]))
        if column in query.again:
            second = len(card.columns) + query.again.index(column)
            fine = fine.with_groups(measurements.of_column(measured, second)[0], query.maps[second])
        found.append(fine)
    return found


def with_none(values: Tensor, size: int) -> Tensor:
    """The map of the column of the row before: as that of the row, and the last code, of no row, apart. int64 [size]"""
    none = values.max()[None] + 1
    _, numbers = torch.unique(torch.cat([values[: size - 1], none]), return_inverse=True)
    return torch.as_tensor(numbers)


def of_bins(bins: Tensor, values: Tensor) -> Tensor:
    """A map of bins, from that of their values: int64 [bins]. bins: int64 [values]."""
    return torch.zeros(int(bins.max()) + 1).long().scatter(0, bins, values)


def merge_rare(run: Run[Config], state: "State", measured: Sequence[Measurement], query: Counts) -> None:
    """Merge rare values in the model, and in the tables that found them. Not those of the label."""
    net, maps = state.net, []
    for column, fine in enumerate(fine_counts(run, measured, query)):
        state.fine.append((fine.counts, fine.deviation, fine.in_order, fine.width))
        stays = column == net.label or column in known_columns(run.card)
        maps.append(net.maps[column] if stays else selection.merged(fine, most=run.config.bins))
    for before, column in rows_before(run.card):
        maps[before] = with_none(maps[column][query.maps[column]], net.domain[before])
    state.bins = [*query.maps[: len(maps)]]
    of_values = [each[bins] for each, bins in zip(maps, state.bins, strict=True)]
    net.merge(of_values, [torch.ones_like(each) for each in of_values])
    once = {*range(len(maps))} - {*query.again}
    state.measured = [measurements.merged(each, maps) for each in measured if once.issuperset(each[0])]
    state.measured += [((column,), *FineCounts(*state.fine[column]).sums(maps[column])) for column in query.again]


def fit_all(run: Run[Config], state: "State") -> None:
    """Fit the model to all that has been measured. It sees released values only.

    Tensors are small. On a busy machine, threads that wait for each other take 35 times as long as a single one.
    """
    config, net = run.config, state.net
    asked: list[Measurement | measurements.Fold] = [*state.folds, *state.measured]
    measured = [*asked, *steps.mirrored(run.card, net, state.measured, state.fine)]
    tree = JunctionTree.over([each[0] for each in measured], net.sizes, net.label)
    last = state.phase == "training" and state.step == 2 * config.rounds - 1
    with threadpool_limits(1):
        probabilities, duals = fit(
            measured,
            tree,
            total=state.total,
            smoothing=config.smoothing,
            iterations=config.iterations
            if last
            else -(-config.iterations // 3),  # a rough model is enough to choose by
            duals=state.duals,
        )
    net.take(tree, probabilities)
    shares = []
    for fine, bins, own, alone in zip(state.fine, state.bins, net.maps, net.alone, strict=True):
        found = smoothing.shares(FineCounts(*fine), of_bins(bins, own), alone * state.total)
        shares.append((found / torch.bincount(bins))[bins])
    net.merge(net.maps, shares)
    net.keep(state.measured)
    state.duals = duals[: sum(each[-1].numel() for each in asked)]


@dataclass
class State(contract.State):
    """All of it has been released, or follows from what has."""

    net: MarkovField
    total: float
    """Estimated number of rows, each with its weight."""
    measured: list[Measurement] = field(default_factory=list)
    fine: list[tuple[Tensor, float, int, int]] = field(default_factory=list)
    """The `FineCounts` of the bins of each column."""
    bins: list[Tensor] = field(default_factory=list)
    """By column, the bin of each value: a group of values, or itself."""
    folds: list[measurements.Fold] = field(default_factory=list)
    """How rows follow from the rows before, of linked tables."""
    errors: Tensor | None = None
    """The noisy errors of the present round's candidates."""
    duals: Tensor | None = None

    def check_sent(self) -> None:
        """Refuse values outside the columns: counting would fail for some records only."""
        if not all(0 <= int(own.min()) <= int(own.max()) < len(own) for own in self.net.maps):
            raise ValueError("a value is merged into none of its column")

    @property
    def released(self) -> MarkovField:
        """The generator that the run hands out."""
        return self.net


def start(run: Run[Config]) -> State:
    """Uniform rows, as many as the card declares."""
    return State(generator(run.config, run.card), float(run.card.declared_size))


def generator(_config: Config, card: Any) -> MarkovField:
    """The network that a run releases, with uniform rows. card: a TableCard."""
    return MarkovField(card.domain, card.label_index)
