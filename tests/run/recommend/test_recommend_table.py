"""What `recommend` says of a table: figures from the card alone, checked against the noise that the method has."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gossamer import Column, TableCard
from gossamer.errors import RequestError
from gossamer.methods import METHODS
from gossamer.methods.contract import Run
from gossamer.methods.job import Job
from gossamer.methods.marginals import Config, Noise, counts_label, measurements, precision
from gossamer.methods.marginals.counts import Counts
from gossamer.methods.marginals.loop import a_bound_each, first_cliques, generator
from gossamer.methods.marginals.outlook import dependence
from gossamer.methods.marginals.selection import promise
from gossamer.privacy.random.noise import Rng
from gossamer.run.recommend.recommend import Recommended, recommend
from gossamer.run.training.plan import plan

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


def test_the_dependence_is_that_at_which_a_table_is_worth_its_noise() -> None:
    config = config_of(CARD)
    share, found = np.array([64 ** (2 / 3)]), dependence(config, CARD)
    assert found is not None
    assert percent(found) in advice().notes[1]
    for factor, sign in ((1.001, 1), (0.999, -1)):
        error = np.array([2 * found * 30_000 * factor])
        assert np.sign(promise(error, share, share, Noise.of(config, CARD).marginals)) == sign


@pytest.mark.parametrize(
    ("size", "epsilon", "sentence"),
    [
        (60_000, 3, "Expect most dependences"),
        (3_000, 1, "Expect strong dependences between columns only"),
        (920, 1, "Expect each column by itself, and roughly how each goes with y."),
        (300, 1, "Expect the most frequent values of each column"),
    ],
)
def test_fewer_records_and_a_smaller_epsilon_let_expect_less(size: int, epsilon: float, sentence: str) -> None:
    told = advice(dataclasses.replace(CARD, declared_size=size), epsilon)
    assert told.notes[-1].startswith(sentence)


def test_on_the_command_line(gossamer: Any, tmp_path: Path) -> None:
    CARD.save(tmp_path / "card.toml")
    words = ["recommend", "--card", tmp_path / "card.toml", "--data", "my rows.csv", "--epsilon", 0.5]
    told = gossamer(*words)
    assert told.status == 0
    command = "gossamer fit marginals --data 'my rows.csv' --card "
    assert command in told.out and "--epsilon 0.5 --delta 1e-06 --out RUN" in told.out
    (first,) = gossamer(*words, "--json").json["ranked"]
    assert (first["method"], first["measured"]) == ("marginals", None)
    assert first["command"] in told.out and all(note in told.out for note in first["notes"])
    refused = gossamer(*words, "--pictures", "digits")
    assert (refused.status, "--pictures is for pictures" in refused.err) == (2, True)


def test_one_column_and_options_for_pictures() -> None:
    alone = dataclasses.replace(CARD, columns=CARD.columns[:1], label=None)
    assert dependence(config_of(alone), alone) is None
    assert advice(alone).notes[-1] == "Expect the column as it is."
    for given in ({"public": "glyphs"}, {"pictures": "digits"}):
        with pytest.raises(RequestError, match="is for pictures"):
            recommend(CARD, epsilon=1.0, **given)  # type: ignore[arg-type]  # a dict of options
