"""The method: what a round chooses, what it may release, and that nothing else leaves."""

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dp_accounting import GaussianDpEvent
from safetensors.torch import load_file
from torch import Tensor

from gossamer.data.columns.column import Column
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.table import Table
from gossamer.errors import DataError, GossamerError, RequestError
from gossamer.methods.contract import State
from gossamer.methods.job import Job, StepResult
from gossamer.methods.marginals import Config, Marginals, Noise, counts_label, loop, measurements, selection, smoothing
from gossamer.methods.marginals.counts import Counts, Errors
from gossamer.methods.marginals.nets import MarkovField
from gossamer.methods.marginals.smoothing import FineCounts
from gossamer.methods.marginals.tree import Clique, cells_of, triangulated
from gossamer.methods.synthesizer import model_bytes
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.mechanisms.gaussian import GroupedGaussianSum, PoissonGaussianSum
from gossamer.privacy.random.noise import Rng
from gossamer.run.training import checkpoint

SMALL = {"noise_multiplier": 2.0, "rounds": 2, "triples_from": 2, "cells": 400, "iterations": 50}


def category(name: str, values: int) -> Column:
    return Column(name=name, kind="category", values=tuple(f"{name}{k}" for k in range(values)))


def card(label: str | None = "c", sizes: tuple[int, ...] = (3, 4, 2, 5), **facts: Any) -> TableCard:
    columns = (*(category(name, size) for name, size in zip("abcd", sizes, strict=False)),)
    return TableCard(columns=columns, declared_size=300, label=label, **facts)


def rows(n: int, *, seed: int = 0, units: np.ndarray | None = None) -> Table:
    """Of `card`: a, b and d depend on c."""
    draw = np.random.default_rng(seed)
    c = draw.integers(2, size=n)
    a, b, d = (c * (size - 1) ^ (draw.random(n) < 0.2) * (size > 1) for size in (3, 4, 5))
    return Table(np.stack([a.clip(0, 2), b.clip(0, 3), c, d.clip(0, 4)], 1).astype(np.int32), units)


def other_rows(n: int) -> Table:
    return Table(np.random.default_rng(9).integers(2, size=(n, 4)).astype(np.int32))


class Run:
    """One training in memory."""

    def __init__(self, held: Table, *, rng: Rng, facts: TableCard | None = None, **settings: Any) -> None:
        self.job = Job.of(Marginals(), {**SMALL, **settings}, facts or card())
        self.plan = self.job.plan
        self.ledger = PrivacyLedger(budget=float("inf"), delta=1e-5, relation=self.job.relation)
        self.ledger.reserve(self.plan)
        self.private: Confined[Any] = Confined(held, self.ledger, rng)
        self.rng = rng
        self.training = self.job.begin(rng)
        self.events: list[dict[str, Any]] = []

    def steps(self) -> Iterator[StepResult]:
        for reached in self.training.drive(self.private):
            shown = {name: float(value) for name, value in (reached.logs or {}).items()}
            self.events.append({"phase": reached.phase.name, "step": reached.step, **shown})
            yield reached

    def end(self) -> State:
        for _ in self.steps():
            pass
        return self.training.state


def deafen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mechanisms run the query, then answer with noise only."""
    for mechanism in (PoissonGaussianSum, GroupedGaussianSum):

        def deaf(self: Any, held: Any, query: Any, rng: Rng, ask: Any = mechanism.exact) -> Tensor:
            return torch.zeros_like(ask(self, held, query, rng))

        monkeypatch.setattr(mechanism, "exact", deaf)


HELD = [rows(180), rows(180, units=np.random.default_rng(1).integers(40, size=180)), rows(0), rows(1)]


@pytest.mark.parametrize("held", HELD, ids=["rows", "persons", "empty", "one row"])
@pytest.mark.parametrize("label", ["c", None])
def test_spends_its_plan_exactly(held: Table, label: str | None) -> None:
    """Whoever is in it, and where nobody is: an error or a release less would tell. The model is finite."""
    if held.units is not None:
        held = dataclasses.replace(held, units=np.unique(held.units, return_inverse=True)[1])
    run = Run(held, rng=Rng(), facts=card(label))
    net = run.end().released
    assert run.ledger.used == [count for _, count in run.plan] == [1, 2, 2]
    assert bool(net.state_dict()["probabilities"].isfinite().all())
    assert bool((net.state_dict()["probabilities"] >= 0).all())
    codes, labels = run.job.sample(net, 50, None, torch.Generator().manual_seed(0))
    assert codes.shape == (50, 4)
    assert torch.equal(labels, torch.zeros(50, dtype=torch.int64) if label is None else codes[:, 2])
    json.dumps(run.events, allow_nan=False)


def test_the_queries_together_cost_what_the_noise_multiplier_says() -> None:
    """1 / sigma^2 adds up over the releases of a plan, for Gaussians exactly."""
    for settings in ({}, {"rounds": 5}, {"columns_share": 0.3, "errors_share": 0.05}):
        plan = Job.of(Marginals(), {"noise_multiplier": 3.0, **settings}, card()).plan
        assert all(isinstance(event, GaussianDpEvent) for event, _ in plan)
        assert sum(count / event.noise_multiplier**2 for event, count in plan) == pytest.approx(1 / 9)


def test_the_non_private_run_says_infinity() -> None:
    run = Run(rows(180), rng=Rng(), noise_multiplier=0.0)
    net = run.end().released
    assert run.ledger.promise().epsilon == float("inf")
    assert bool(net.state_dict()["probabilities"].isfinite().all())


def test_plan_is_pure() -> None:
    first = Job.of(Marginals(), SMALL, card())
    assert first.plan == Job.of(Marginals(), SMALL, dataclasses.replace(card())).plan


def noises(monkeypatch: pytest.MonkeyPatch, run: Run) -> list[tuple[object, float, list[float]]]:
    """Of each release: the query, the charged noise multiplier, and the standard deviations of the noise on its groups."""
    seen: list[tuple[object, float, list[float]]] = []
    add = Rng.add_gaussian_

    def noted(self: Rng, out: Tensor, std: float) -> Tensor:
        seen[-1][2].append(std)
        return add(self, out, std)

    release = Confined.release

    def asked(self: Confined[Any], mechanism: Any, query: object) -> Tensor:
        seen.append((query, mechanism.event.noise_multiplier, []))
        return release(self, mechanism, query)

    monkeypatch.setattr(Rng, "add_gaussian_", noted)
    monkeypatch.setattr(Confined, "release", asked)
    run.end()
    return seen


@pytest.mark.parametrize(("max_rows", "declared_size", "multiplier"), [(1, 300, 2.0), (3, 300, 2.0), (3, 10_000, 0.5)])
def test_each_release_has_the_noise_that_is_charged(
    monkeypatch: pytest.MonkeyPatch, max_rows: int, declared_size: int, multiplier: float
) -> None:
    """In units of its noise, a unit moves a release by at most 1 / its noise multiplier: for groups by sum (K / std)^2. Where
    many rows are declared, the last errors have interactions beside them."""
    facts = dataclasses.replace(card(unit="person", max_rows=max_rows), declared_size=declared_size)
    settings = {**SMALL, "noise_multiplier": multiplier}
    found = noises(monkeypatch, Run(rows(900, units=np.arange(900) // 4), rng=Rng(0), facts=facts, **settings))
    assert [type(query) for query, _, _ in found] == [Counts, Errors, Counts, Errors, Counts]
    noise = Noise.of(Config(**settings), facts)  # type: ignore[arg-type]  # settings of mixed types
    for (query, charged, stds), due in zip(
        found, [noise.columns, noise.errors, noise.marginals, noise.errors, noise.marginals], strict=True
    ):
        assert charged == due
        if isinstance(query, Counts):
            assert len(stds) == len(query.cliques)
            assert sum((max_rows / std) ** 2 for std in stds) == pytest.approx(1 / charged**2)
        else:
            assert isinstance(query, Errors)
            assert len(stds) == len(query.sizes)
            assert (len(query.sizes) == 2) == (query is found[3][0] and declared_size > 300)
            assert sum((norm / std) ** 2 for norm, std in zip(query.norms, stds, strict=True)) == pytest.approx(
                1 / charged**2
            )


def test_the_first_query_has_the_label_in_every_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless that costs too much noise for the declared size: the noise of 300 rows is 0.2 of them."""
    alone = [(0,), (1,), (2,), (3,)]
    many = dataclasses.replace(card(), declared_size=100_000)
    for facts, due in ((many, [(0, 2), (1, 2), (2, 3)]), (card(), alone), (card(None), alone)):
        with monkeypatch.context() as patched:
            (first, *_) = noises(patched, Run(rows(180), rng=Rng(0), facts=facts))
        assert isinstance(first[0], Counts)
        assert first[0].cliques == due


def test_the_label_is_counted_where_a_count_is_known_to_two_percent() -> None:
    """2 s sqrt(3 tables x 2 labels) / n, where s is the noise multiplier of the first query."""
    config = Config(noise_multiplier=0.2, columns_share=0.12)
    least = 2 * Noise.of(config, card()).columns * 6**0.5 / 0.02
    for size, due in ((math.floor(least), False), (math.ceil(least), True)):
        assert counts_label(config, dataclasses.replace(card(), declared_size=size)) == due
    assert not counts_label(config, card(None))
    several = dataclasses.replace(card(unit="person", max_rows=3), declared_size=math.ceil(least))
    assert not counts_label(config, several), "three times the noise"


@pytest.mark.parametrize(("label", "declared_size"), [("c", 300), (None, 300), ("c", 10_000)])
def test_non_interference(monkeypatch: pytest.MonkeyPatch, label: str | None, declared_size: int) -> None:
    """Unrelated data of another size, same seeds, deaf mechanisms: artefact and events are equal bit for bit."""
    deafen(monkeypatch)
    if declared_size > 300:  # else noise alone leaves columns of one value, without interactions
        monkeypatch.setattr(selection, "merged", lambda fine, most: torch.arange(len(fine.counts)))
    found, asked = selection.standing_out, []
    monkeypatch.setattr(selection, "standing_out", lambda *given, **named: asked.append(1) or found(*given, **named))
    persons = dataclasses.replace(rows(90), units=np.arange(90) // 3)
    facts = dataclasses.replace(card(label), declared_size=declared_size)
    runs = [Run(held, rng=Rng(3, noise_seed=4), facts=facts) for held in (rows(180), other_rows(260), rows(0), persons)]
    artefacts = [model_bytes(run.end().released) for run in runs]
    assert all(each == artefacts[0] for each in artefacts)
    assert all(run.events == runs[0].events for run in runs)
    assert len(runs[0].events) == sum(phase.steps + 1 for phase in runs[0].job.phases)
    assert len(asked) == len(runs) * (declared_size > 300)


def test_the_mechanism_is_what_the_data_go_through() -> None:
    runs = [Run(held, rng=Rng(3, noise_seed=4)) for held in (rows(180), other_rows(180))]
    assert model_bytes(runs[0].end().released) != model_bytes(runs[1].end().released)


def test_removing_a_row_changes_no_public_draw() -> None:
    streams = []
    for held in (rows(180), rows(180)[1:]):
        run = Run(held, rng=Rng(3))
        run.end()
        streams.append({name: state.tolist() for name, state in run.rng.state()["public"].items()})
    assert streams[0] == streams[1]


@pytest.mark.parametrize("at", range(1, 8))
def test_resume_equals_an_unbroken_run_under_test_seeds(at: int, tmp_path: Path) -> None:
    """After each step, and at the end of each phase."""
    whole = Run(rows(180), rng=Rng(1, noise_seed=2))
    expected = whole.end()
    first = Run(rows(180), rng=Rng(1, noise_seed=2))
    for _ in itertools.islice(first.steps(), at):
        pass
    checkpoint.save(tmp_path, first.training.state.state_dict(), first.rng.state(), first.ledger)
    second = Run(rows(180), rng=Rng(1, noise_seed=2))
    second.ledger, second.private = first.ledger, first.private
    saved, rng = checkpoint.load(tmp_path, first.ledger) or ({}, {})
    second.training.state.load_state_dict(saved)
    second.rng.restore(rng)
    assert model_bytes(second.end().released) == model_bytes(expected.released)
    assert first.ledger.used == whole.ledger.used


def test_a_release_that_a_crash_used_up_is_not_made_again() -> None:
    """The charge of each kind is gone, the state is at the start: the run ends early, with what it has."""
    run = Run(rows(180), rng=Rng(1))
    noise = Noise.of(Config(**SMALL), card())  # type: ignore[arg-type]  # settings of mixed types
    run.ledger.charge(GaussianDpEvent(noise.columns))
    run.ledger.charge(GaussianDpEvent(noise.errors))
    run.ledger.charge(GaussianDpEvent(noise.errors))
    net = run.end().released
    assert run.ledger.used == [1, 2, 0]
    assert model_bytes(net) == model_bytes(MarkovField(card().domain, 2))


@pytest.mark.parametrize("at", [0, 1, 2])
def test_rows_are_counted_before_the_cost_is_recorded(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """An engine that is lost costs no query: columns, errors or marginals."""
    run, asked, count = Run(rows(180), rng=Rng(1)), list[int](), Table.counts

    def lost(*given: Any) -> Any:
        used = sum(run.ledger.used)
        asked.append(used)
        if used == at:
            raise DataError("the engine is lost")
        return count(*given)

    monkeypatch.setattr(Table, "counts", lost)
    with pytest.raises(GossamerError):
        run.end()
    assert sum(run.ledger.used) == at == asked[-1]


def test_the_loop_can_be_read_beside_the_paper() -> None:
    import ast
    import inspect
    import textwrap

    (train,) = ast.parse(textwrap.dedent(inspect.getsource(loop.train))).body
    assert isinstance(train, ast.FunctionDef)
    assert (train.end_lineno or 0) - train.body[1].lineno + 1 <= 25


def test_saves_and_loads_the_generator(tmp_path: Path) -> None:
    run = Run(rows(180), rng=Rng(1))
    net = run.end().released
    (tmp_path / "model.safetensors").write_bytes(model_bytes(net))
    fresh = run.job.generator()
    fresh.load_state_dict(load_file(tmp_path / "model.safetensors"))
    one, other = (run.job.sample(each, 30, None, torch.Generator().manual_seed(1))[0] for each in (net, fresh))
    assert torch.equal(one, other)


def test_learns_a_toy() -> None:
    """With little noise: each pair of columns is within a total variation of 0.05 of 2,000 rows."""
    held = rows(2_000)
    run = Run(held, rng=Rng(0, noise_seed=1), noise_multiplier=0.2, iterations=300)
    codes, _ = run.job.sample(run.end().released, 2_000, None, torch.Generator().manual_seed(0))
    domain = card().domain
    for a, b in itertools.combinations(range(4), 2):
        true, found = (
            np.bincount(
                np.ravel_multi_index((each[:, a], each[:, b]), (domain[a], domain[b])), minlength=domain[a] * domain[b]
            )
            for each in (held.codes, codes.numpy())
        )
        assert np.abs(true - found).sum() / 4_000 < 0.05


def test_persons_count_once() -> None:
    """One person with 900 equal rows beside 100 persons with one row each: the samples are those of the 100."""
    codes = np.zeros((1_000, 4), np.int32)
    codes[100:] = 1
    held = Table(codes, np.append(np.arange(100), np.full(900, 100)))
    run = Run(held, rng=Rng(0, noise_seed=1), noise_multiplier=0.05, iterations=300)
    samples, _ = run.job.sample(run.end().released, 1_000, None, torch.Generator().manual_seed(0))
    assert float((samples[:, 0] == 0).double().mean()) > 0.95
    all_rows = card(unit="person", max_rows=900)
    rows_of_all = Run(held, rng=Rng(0, noise_seed=1), facts=all_rows, noise_multiplier=1e-4, iterations=300)
    samples, _ = rows_of_all.job.sample(rows_of_all.end().released, 1_000, None, torch.Generator().manual_seed(0))
    assert float((samples[:, 0] == 0).double().mean()) == pytest.approx(0.1, abs=0.02), "each row counts"


def test_tables_are_measured_in_units_that_are_released() -> None:
    """The number of rows is estimated from noisy tables: with noise, it is not the true one."""
    totals = []
    for seed in range(8):
        run = Run(rows(180), rng=Rng(0, noise_seed=seed), noise_multiplier=20.0)
        state = run.end()
        assert isinstance(state, loop.State)
        totals.append(state.total)
    assert 180.0 not in totals
    assert np.std(totals) > 1


def test_one_column_and_a_column_of_one_value() -> None:
    for facts in (card(None, (3,)), card("a", (3,)), card("c", (3, 1, 2))):
        codes = np.zeros((50, len(facts.domain)), np.int32)
        run = Run(Table(codes), rng=Rng(0), facts=facts)
        net = run.end().released
        assert run.job.sample(net, 7, None, torch.Generator())[0].shape == (7, len(facts.domain))
        assert run.ledger.used == [count for _, count in run.plan]


def test_refusals() -> None:
    method = Marginals()
    for settings, flag in (
        ({"columns_share": 1.1}, "columns_share"),
        ({"errors_share": 1.0}, "errors_share"),
        ({"errors_share": 0.0}, "errors_share"),
        ({"columns_share": 0.6, "errors_share": 0.4}, "together"),
    ):
        with pytest.raises(RequestError, match=flag):
            Job.of(method, {**SMALL, **settings}, card()).plan  # noqa: B018
    many = TableCard(columns=tuple(category(f"x{k}", 2) for k in range(201)), declared_size=10)
    with pytest.raises(RequestError, match="at most 200 columns"):
        Job.of(method, SMALL, many).plan  # noqa: B018
    large = TableCard(columns=tuple(category(f"x{k}", 2_000) for k in range(2)), declared_size=10**9, label="x0")
    with pytest.raises(RequestError, match="fewer bins"):
        Job.of(method, SMALL, large).plan  # noqa: B018
    amount = Column(name="amount", kind="integer", bounds=(1, 9_000), bins=9_000)
    for alone in (
        dataclasses.replace(large, declared_size=10),
        dataclasses.replace(large, columns=(large.columns[0], amount)),
    ):
        assert Job.of(method, SMALL, alone).plan, "no column is counted with the label"
    with pytest.raises(RequestError, match="one process"):
        method.check_ranks(Config(noise_multiplier=1.0), 2)


def test_samples_of_a_wrong_kind_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job.of(Marginals(), SMALL, card())
    net, zeros = job.generator(), torch.zeros(5, dtype=torch.int64)
    for codes, wrong in (
        (torch.zeros(5, 3, dtype=torch.int64), "codes are"),
        (torch.zeros(5, 4), "codes are"),
        (torch.full((5, 4), 4), "a code is none"),
        (torch.full((5, 4), -1), "a code is none"),
    ):
        monkeypatch.setattr(Marginals, "sample", lambda *given, codes=codes: (codes, zeros))
        with pytest.raises(GossamerError, match=wrong):
            job.sample(net, 5, None, torch.Generator())


# What a round chooses


def chosen(sizes: tuple[int, ...], cliques: list[Clique], errors: Tensor, **given: Any) -> list[Clique]:
    settings = {"weights": [1.0] * len(cliques), "deviation": 5.0, "held": [], "most_cells": 10**9, "most": 99}
    return selection.choose(cliques, errors, sizes=sizes, **{**settings, **given})


def promised(cliques: list[Clique], every: list[Clique], errors: Tensor, sizes: tuple[int, ...], noise: float) -> float:
    """By the noise that each table would have: the error less what its noise is expected to be."""
    if not cliques:
        return 0.0
    cells = [cells_of([clique], sizes) for clique in cliques]
    stds = [noise / weight for weight in selection.noise_weights(cells)]
    gains = [float(errors[every.index(clique)]) for clique in cliques]
    return float(sum(gain - (2 / np.pi) ** 0.5 * std * n for gain, std, n in zip(gains, stds, cells, strict=True)))


@pytest.mark.parametrize("seed", range(10))
def test_the_greedy_choice_is_the_best_of_all_where_tables_are_equally_large(seed: int) -> None:
    """All 2^6 sets of pairs are tried. With equal tables, the best set of each size holds the largest errors."""
    sizes = (3, 3, 3, 3)
    pairs = selection.candidates(sizes, triples=False, most_cells=100)
    errors = 300 * torch.rand(6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    sets = [list(each) for r in range(7) for each in itertools.combinations(pairs, r)]
    best = max(sets, key=lambda each: promised(each, pairs, errors, sizes, 5.0))
    assert sorted(chosen(sizes, pairs, errors)) == sorted(best)


@pytest.mark.parametrize("seed", range(10))
def test_each_greedy_step_is_the_best_that_fits(seed: int) -> None:
    """Tables of different sizes, triples too, and a limit that binds: step by step against all candidates."""
    sizes, limit = (2, 3, 4, 2, 3), 60
    every = selection.candidates(sizes, triples=True, most_cells=100)
    errors = 400 * torch.rand(len(every), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    held: list[Clique] = [(0, 1), (3, 4)]
    found = chosen(sizes, every, errors, held=held, most_cells=limit, deviation=2.0)
    so_far: list[Clique] = []
    for step in [*found, None]:
        fitting = [
            clique
            for clique in every
            if not any(set(clique) <= set(taken) for taken in so_far)
            and cells_of(triangulated([*held, *so_far, clique], sizes), sizes) <= limit
        ]
        values = {clique: promised([*so_far, clique], every, errors, sizes, 2.0) for clique in fitting}
        better = {c: value for c, value in values.items() if value > promised(so_far, every, errors, sizes, 2.0)}
        assert step == max(better, key=lambda clique: better[clique], default=None)
        so_far += [] if step is None else [step]
    assert cells_of(triangulated([*held, *found], sizes), sizes) <= limit


def test_nothing_is_chosen_for_less_than_its_noise() -> None:
    sizes = (3, 3, 3)
    pairs = selection.candidates(sizes, triples=False, most_cells=100)
    assert chosen(sizes, pairs, torch.full((3,), 10.0)) == []
    assert len(chosen(sizes, pairs, torch.full((3,), 1e6))) == 3
    assert len(chosen(sizes, pairs, torch.full((3,), 1e6), most=2)) == 2
    assert chosen(sizes, [], torch.zeros(0)) == []


def test_a_round_that_chooses_nothing_measures_the_first_tables_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "choose", lambda *given, **named: [])
    found = noises(monkeypatch, Run(rows(50), rng=Rng(0), facts=dataclasses.replace(card(), declared_size=100_000)))
    assert [query.cliques for query, _, _ in found if isinstance(query, Counts)] == [[(0, 2), (1, 2), (2, 3)]] * 3


def test_candidates() -> None:
    assert selection.candidates((2, 3, 4), triples=False, most_cells=8) == [(0, 1), (0, 2)]
    assert selection.candidates((2, 3, 4), triples=True, most_cells=24) == [(0, 1), (0, 2), (1, 2), (0, 1, 2)]


def test_triples_are_candidates_where_noise_does_not_hide_pairs() -> None:
    """The noise on the errors of 4 columns' pairs and triples, sqrt(10) times that on one, is at most 3 in 100 rows."""
    config = Config(noise_multiplier=2.0)
    least = math.ceil(Noise.of(config, card()).errors * 10**0.5 / 0.03)
    for size, due in ((least, True), (least - 1, False)):
        assert selection.triples_stand_out(config, dataclasses.replace(card(), declared_size=size), 4) == due
    several = dataclasses.replace(card(unit="person", max_rows=2), declared_size=least)
    assert not selection.triples_stand_out(config, several, 4)
    assert not selection.triples_stand_out(Config(noise_multiplier=0.0), card(), 40), "9,880 would take too long"


def merged(counts: list[float], deviation: float, in_order: int = 0, most: int = 32) -> list[int]:
    found: list[int] = selection.merged(FineCounts(torch.tensor(counts), deviation, in_order), most=most).tolist()
    return found


def test_rare_values_are_merged() -> None:
    """Neighbours where there is an order, the others with each other. A value above the limit stays alone."""
    counts = [5.0, 40.0, 10.0, 10.0, 15.0, 50.0, -3.0, 31.0, 2.0, 60.0]
    assert merged(counts, 10.0) == [4, 0, 4, 4, 4, 1, 4, 2, 4, 3]
    assert merged(counts, 10.0, 6)[:6] == [0, 0, 1, 1, 1, 1], "45 is above 30 sqrt(2), and 35 is below 30 sqrt(3)"
    assert merged([max(count, 0.0) for count in counts], 0.0, 10) == list(range(10))
    assert merged([0.0] * 4, 10.0, 4) == [0, 0, 0, 0]
    assert merged([50.0, 3.0, 4.0], 10.0) == [0, 1, 1]
    many = [5.0, 40.0, 30.0, 25.0, 15.0, 50.0]
    assert merged(many, 10.0, 6) == [0, 0, 1, 2, 2, 2]
    assert merged(many, 10.0, 6, most=5) == [0, 0, 0, 1, 1, 1], "two fifths of all are 66"
    assert merged(many, 20.0, 6, most=5) == [0, 0, 0, 0, 0, 0], "75 is below 60 sqrt(3)"


def test_a_frequent_value_is_no_part_of_the_one_before_though_noise_follows() -> None:
    counts = [700.0, 140.0, 143.0, -15.0, 14.0, -1.0, -28.0, 8.0, -38.0]
    assert merged(counts, 31.0, 9) == [0, 1, 2, 2, 2, 2, 2, 2, 2], "the sum of what follows 140 is below 93 sqrt(7)"


def test_noise_alone_seldom_divides_the_rare_values_of_a_column() -> None:
    """A value with nearly all rows, and 20 without any: sums of noise are held against the noise that they have."""
    rng = np.random.default_rng(0)
    found = [merged([1_000.0, *rng.normal(0, 10, 20)], 10.0, 21)[-1] for _ in range(200)]
    assert np.mean([last > 1 for last in found]) < 0.05


def test_many_values_in_order_get_quantiles_and_a_frequent_one_stays_alone() -> None:
    counts = [10.0] * 100
    assert np.bincount(merged(counts, 0.0, 100, most=10)).tolist() == [20] * 5
    counts[49] = 500.0
    numbers = merged(counts, 0.0, 100, most=10)
    assert [k for k in range(100) if numbers[k] == numbers[49]] == [49]
    assert max(numbers) + 1 <= 10 + 1
    assert merged(counts, 0.0, 100, most=100) == list(range(100))


def test_empty_values_are_no_bins_of_their_own() -> None:
    """A card with far too wide bounds: 990 of 1,000 bins are empty, and their noise does not make them bins of the model."""
    draw = torch.Generator().manual_seed(0)
    noisy = 10 * torch.randn(1_000, generator=draw, dtype=torch.float64)
    noisy[:10] += 1_000
    fine = FineCounts(noisy, 10.0, 1_000)
    numbers = selection.merged(fine, most=50)
    assert 10 <= int(numbers.max()) + 1 <= 14
    net = MarkovField([1_000], None)
    net.merge([numbers], [smoothing.shares(fine, numbers, fine.sums(numbers)[0])])
    assert torch.allclose(net.shares[:9], torch.ones(9).double())
    for value in range(int(numbers.max()) + 1):
        assert float(net.shares[numbers == value].sum()) == pytest.approx(1)


def test_merged_tables_keep_their_sums() -> None:
    table = torch.arange(12.0).double().view(4, 3)
    clique, counts, variances = measurements.merged(
        ((0, 1), table, torch.ones(4, 3).double()), [torch.tensor([0, 1, 1, 0]), torch.arange(3)]
    )
    assert clique == (0, 1)
    assert torch.equal(counts, torch.stack([table[0] + table[3], table[1] + table[2]]))
    assert torch.equal(variances, torch.full((2, 3), 2.0).double())


def test_total_and_columns_from_noisy_tables() -> None:
    one = torch.ones
    measured = [
        ((0, 1), torch.tensor([[10.0, 20.0], [30.0, 40.0]]).double(), one(2, 2).double()),
        ((1, 2), torch.tensor([[50.0, 10.0, 10.0], [30.0, 5.0, 5.0]]).double(), 2 * one(2, 3).double()),
    ]
    assert measurements.total(measured) == pytest.approx((100 / 4 + 110 / 12) / (1 / 4 + 1 / 12))
    counts, deviation = measurements.of_column(measured, 1)
    assert counts.tolist() == [55.0, 50.0]
    assert deviation == pytest.approx((2 + 6) ** 0.5 / 2)
    lost = [((0,), torch.tensor([-50.0, 10.0]).double(), 100 * one(2).double())]
    assert measurements.total(lost) == pytest.approx(200**0.5)
