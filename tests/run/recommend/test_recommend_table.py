"""What `recommend` says of a table: figures from the card alone, checked against the noise that the method has."""

import dataclasses
import itertools
import math
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from gossamer import Column, TableCard
from gossamer.data.tables.linked.card import LinkedCard
from gossamer.errors import RequestError
from gossamer.methods import METHODS
from gossamer.methods.contract import Run
from gossamer.methods.job import Job
from gossamer.methods.marginals import Config, counts_label, measurements, precision
from gossamer.methods.marginals.counts import Counts
from gossamer.methods.marginals.loop import a_bound_each, first_cliques, generator
from gossamer.privacy.random.noise import Rng
from gossamer.run.recommend.recommend import Recommended, recommend
from gossamer.run.training.plan import plan

outlook = import_module("gossamer.methods.marginals.outlook")
CARD = TableCard(
    columns=(*(Column(name=f"c{k}", kind="category", values=tuple("abcdefgh")) for k in range(9)),
             Column(name="y", kind="category", values=("no", "yes"))),
    declared_size=30_000, label="y",
)  # fmt: skip


def advice(card: TableCard = CARD, epsilon: float = 1.0) -> Recommended:
    (found,) = recommend(card, epsilon=epsilon, delta=1e-5).ranked
    return found


def config_of(card: TableCard) -> Config:
    config = plan("marginals", card, epsilon=1.0, delta=1e-5).job.config
    assert isinstance(config, Config)
    return config


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


@pytest.mark.parametrize(
    "facts", [CARD, dataclasses.replace(CARD, label=None), dataclasses.replace(CARD, unit="person", max_rows=3)]
)
def test_the_precision_of_counts_is_that_of_the_first_query(facts: TableCard) -> None:
    config = config_of(facts)
    run = Run(config, facts, Rng(0, noise_seed=0), queries=Job(METHODS["marginals"], config, facts).queries)
    net = generator(config, facts)
    query = Counts(net.maps, first_cliques(run), facts.max_rows)
    release = a_bound_each(run.query("columns"), query)
    _, deviation = measurements.of_column(measurements.released(query, torch.zeros(query.dimension), release), 0)
    count = precision(config, facts, with_label=counts_label(config, facts))
    assert count == pytest.approx(2 * deviation / 30_000, rel=1e-6)
    assert percent(count) in advice(facts).notes[0]


RUNS = [
    {
        "table": "a",
        "epsilon": 1.0,
        "noise": 0.004,
        "seconds": 2,
        "mean": [0.01, 0.05],
        "p99": [0.02, 0.1],
        "pairs": 0.2,
    },
    {
        "table": "b",
        "epsilon": 3.0,
        "noise": 0.006,
        "seconds": 9,
        "mean": [0.03, 0.15],
        "p99": [0.04, 0.3],
        "pairs": 0.4,
    },
    {"table": "c", "epsilon": 0.3, "noise": 0.1, "seconds": 1, "mean": [0.3, 0.9], "p99": [0.5, 2.0], "pairs": 0.98},
]


def test_what_was_measured_with_as_much_noise_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlook, "_runs", lambda: RUNS)
    assert [*outlook.measured(0.005)] == [
        "Measured with about as much noise, no forecast: a at epsilon 1, b at epsilon 3.",
        "The slowest of these runs took 9 s on one core.",
        "Means of half of the columns were off by 0.02 standard deviations, and of one in ten by up to 0.15.",
        "Of the distance from median to 99th percentile, half of the columns missed 3.0 %, and one in ten up to 30.0 %.",
        "Pairs of columns kept 60.0 % to 80.0 % of what sets them apart from independent columns.",
    ]
    for noise in (0.09, 5.0):  # beyond all runs, the nearest counts
        *_, last = outlook.measured(noise)
        assert last.startswith("Expect pairs of columns no better than independent columns.")
    assert "a at epsilon 1." in next(outlook.measured(1e-6))


def test_runs_of_four_tables_and_all_noises_were_measured() -> None:
    runs = outlook._runs()
    tables = {run["table"] for run in runs}
    assert len(tables) >= 4
    for table in tables:
        own = sorted((run["epsilon"], run["noise"]) for run in runs if run["table"] == table)
        assert [epsilon for epsilon, _ in own] == [0.3, 1, 3, 10]
        assert all(a > b for (_, a), (_, b) in itertools.pairwise(own)), "a larger epsilon has less noise"
    assert all(run["mean"][0] <= run["mean"][1] and run["p99"][0] <= run["p99"][1] for run in runs)


@pytest.mark.parametrize("size", [300, 3_000_000])
def test_the_notes_are_those_of_the_noise_of_the_card(size: int) -> None:
    card = dataclasses.replace(CARD, declared_size=size)
    request = plan("marginals", card, epsilon=1.0, delta=1e-7)
    config = request.job.config
    assert isinstance(config, Config)
    noise = config.noise_multiplier * math.sqrt(10) / size
    (told,) = recommend(card, epsilon=1.0, delta=1e-7).ranked
    due = [*outlook.measured(noise, pairs=size > 300)]
    assert [*told.notes[-len(due) :]] == due


def test_the_plan_says_the_same(gossamer: Any, tmp_path: Path) -> None:
    CARD.save(tmp_path / "card.toml")
    words = ["--card", tmp_path / "card.toml", "--epsilon", 1, "--delta", 1e-6]
    planned, told = gossamer("plan", "marginals", *words), gossamer("recommend", *words)
    lines = planned.out.splitlines()
    notes = gossamer("plan", "marginals", *words, "--json").json["outlook"]
    assert lines[-len(notes) :] == notes
    assert all(f"marginals: {note}" in told.out for note in notes)


def test_on_the_command_line(gossamer: Any, tmp_path: Path) -> None:
    CARD.save(tmp_path / "card.toml")
    words = ["recommend", "--card", tmp_path / "card.toml", "--data", "my rows.csv", "--epsilon", 0.5]
    told = gossamer(*words)
    assert told.status == 0
    command = "gossamer fit marginals --data 'my rows.csv' --card "
    assert command in told.out and "--epsilon 0.5 --delta 1e-06 --score 0.03 --out RUN" in told.out
    (first,) = gossamer(*words, "--json").json["ranked"]
    assert first["method"] == "marginals"
    assert first["command"] in told.out and all(note in told.out for note in first["notes"])
    refused = gossamer(*words, "--pictures", "digits")
    assert (refused.status, "--pictures is for pictures" in refused.err) == (2, True)


def test_one_column_and_options_for_pictures() -> None:
    alone = dataclasses.replace(CARD, columns=CARD.columns[:1], label=None)
    assert not any("columns no better" in note or "Pairs of columns" in note for note in advice(alone).notes)
    for given in ({"public": "glyphs"}, {"pictures": "digits"}):
        with pytest.raises(RequestError, match="is for pictures"):
            recommend(CARD, epsilon=1.0, **given)  # type: ignore[arg-type]  # a dict of options


def test_commands_that_measure_nothing_are_not_said_to() -> None:
    """Of linked tables without a label, no command has `--score`."""
    linked = LinkedCard.loads(
        'declared_size = 30000\nunit = "person"\n[table.a]\nkey = "id"\n[[table.a.column]]\nname = "x"\nkind = "category"\n'
        'values = ["f", "m"]\n[table.b]\nparent = "a"\nmax_rows = 3\n[[table.b.column]]\nname = "y"\nkind = "category"\n'
        'values = ["f", "m"]\n'
    )
    for card, measured in ((CARD, True), (linked, False)):
        found = recommend(card, epsilon=1.0, delta=1e-5)
        assert ("--score" in found.ranked[0].command) == measured
        assert ("The commands measure it" in found.outlook[-1]) == measured
