"""Every method at random settings: the certified epsilon, beside one computed anew from the lines of its ledger.

Nothing of Gossamer's accounting takes part in the second figure: the ledger's JSON is parsed here, Poisson draws and plain
Gaussians go to dp_accounting, secret and revealed draws to formulas written out here. Each is bounded from both sides, by a
discretisation that rounds losses down and one that rounds them up, so that the certificate can be neither below the
first nor more than 3 % above the second.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as loss
from scipy.optimize import brentq
from scipy.stats import binom, norm
from slowly import slow_among

from gossamer.data.card import DataCard
from gossamer.methods import METHODS
from gossamer.methods.job import Job
from gossamer.privacy.ledger import PrivacyLedger
from kinds import OF_PICTURES

LOOSEST = 1.03
"""Times the best figure: what a certificate may read at most."""

# ---------------------------------------------------------------------- random settings


def random_card(draw: np.random.Generator) -> DataCard:
    return DataCard(
        shape=(1, 28, 28),
        classes=int(draw.integers(2, 11)),
        declared_size=int(10 ** draw.uniform(2.7, 5)),
        unit=str(draw.choice(["record", "writer"])),
    )


def poisson_settings(draw: np.random.Generator, card: DataCard) -> dict[str, Any]:
    """What every method with Poisson draws has: rates from 0.005 to 0.2, 10 to 300 steps."""
    batch = max(1, int(card.declared_size * 10 ** draw.uniform(-2.3, -0.7)))
    return {
        "noise_multiplier": float(draw.uniform(1, 4)),
        "steps": int(draw.integers(10, 300)),
        "expected_batch_size": batch,
        "max_norm": float(10 ** draw.uniform(-2, 2)),
    }


def dpgan(draw: np.random.Generator, card: DataCard) -> dict[str, Any]:
    more = {"adaptive": bool(draw.integers(2)), "clip_fakes": bool(draw.integers(2)), "average_decay": 0.5}
    return {**poisson_settings(draw, card), **more, "discriminator_steps": int(draw.integers(1, 50))}


def dp_wgan(draw: np.random.Generator, card: DataCard) -> dict[str, Any]:
    """With charged quantiles half of the time: two events in one plan."""
    settings = poisson_settings(draw, card)
    if draw.integers(2):
        questions = {
            "quantile_noise_multiplier": float(draw.uniform(2, 12)),
            "quantile_every": int(draw.integers(1, 30)),
        }
        return {**settings, "bounds": "private-quantile", **questions}
    return {**settings, "bounds": "public", "grouping": "cluster", "groups": int(draw.integers(1, 8))}


def privae(draw: np.random.Generator, card: DataCard) -> dict[str, Any]:
    return {
        **poisson_settings(draw, card),
        "aggregation": str(draw.choice(["termwise", "micro", "batch"])),
        "divergence": str(draw.choice(["mmd", "kl"])),
        "partitions": int(draw.integers(1, 20)),
        "max_norm_batch": float(draw.uniform(0, 1)),
        "split": float(draw.uniform(0.05, 0.95)),
        "codes_per_record": int(draw.integers(1, 4)),
    }


def gs_wgan(how: str) -> Callable[[np.random.Generator, DataCard], dict[str, Any]]:
    def settings(draw: np.random.Generator, _card: DataCard) -> dict[str, Any]:
        batch, critics = int(draw.integers(1, 33)), int(draw.integers(2, 60))
        answers = 1 if how == "paper" else int(draw.integers(1, min(critics, 4) + 1))
        joint = {"secret": (0.8, 4.0), "round_robin": (2.0, 10.0), "paper": (3.0, 12.0)}[how]
        return {
            "noise_multiplier": float(draw.uniform(*joint)) * math.sqrt(batch),
            "steps": int(draw.integers(10, 150)),
            "answers": answers,
            "critics": critics,
            "batch_size": batch,
            "draw": how,
        }

    return settings


def dp_diffusion(draw: np.random.Generator, card: DataCard) -> dict[str, Any]:
    """With votes half of the time, and half of the time after class moments: up to three events in one plan."""
    start = {"start": "moments", "start_noise": float(draw.uniform(1, 6))} if draw.integers(2) else {}
    return {**poisson_settings(draw, card), **start, "votes_noise": float(draw.integers(2) * draw.uniform(1, 6))}


def dp_mepf(draw: np.random.Generator, _card: DataCard) -> dict[str, Any]:
    """After class moments half of the time, and before votes half of the time: up to three events."""
    start = {"start": "moments", "start_noise": float(draw.uniform(0.5, 6))} if draw.integers(2) else {}
    votes = {"rounds": int(draw.integers(3)), "votes_noise": float(draw.uniform(0.5, 3))}
    return {"noise_multiplier": float(draw.uniform(0.5, 20)), **votes, **start}


def moments(draw: np.random.Generator, _card: DataCard) -> dict[str, Any]:
    """With cells, with axes, and with the mean of the records half of the time each: up to four events."""
    return {
        "noise_multiplier": float(draw.uniform(0.5, 20)), "axes": int(draw.integers(2, 30)), "cells": int(draw.integers(1, 3)),
        "classes_noise": float(draw.uniform(0.5, 5)), "axes_noise": float(draw.integers(2) * draw.uniform(0.5, 5)),
        "mean_noise": float(draw.integers(2) * draw.uniform(0.5, 9)),
    }  # fmt: skip


def feature_moments(draw: np.random.Generator, _card: DataCard) -> dict[str, Any]:
    """One query of all units."""
    return {"noise_multiplier": float(draw.uniform(0.5, 20)), "axes": int(draw.integers(2, 30)), "encoder": ""}


def evolve(draw: np.random.Generator, card: DataCard) -> dict[str, Any]:
    """Votes of all units, a few times."""
    return {"noise_multiplier": float(draw.uniform(0.7, 12)), "steps": int(draw.integers(1, 9)), "drawing": "letters"}


SETTINGS: dict[str, Callable[[np.random.Generator, DataCard], dict[str, Any]]] = {
    "dpgan": dpgan,
    "dp-wgan": dp_wgan,
    "privae": privae,
    "dp-diffusion": dp_diffusion,
    "dp-mepf": dp_mepf,
    "moments": moments,
    "feature-moments": feature_moments,
    "evolve": evolve,
    "gs-wgan secret": gs_wgan("secret"),
    "gs-wgan round_robin": gs_wgan("round_robin"),
    "gs-wgan paper": gs_wgan("paper"),
    "teacher": poisson_settings,
}

# ---------------------------------------------------------------------- the second computation


def recomputed(path: Path, near: float) -> tuple[float, float]:
    """Epsilon of the plan that a ledger reserves, from below and from above. near: about what it will be, for the grid."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    head, entries = lines[0]["open"], [entry for line in lines for entry in line.get("reserve", [])]
    if any(entry["event"] == {"event": "NonPrivate"} or without_noise(entry["event"]) for entry in entries):
        return math.inf, math.inf
    kinds = {entry["event"]["event"] for entry in entries}
    if kinds == {"RevealedDrawGaussian"}:
        ((event, count),) = [(entry["event"], entry["count"]) for entry in entries]
        exact = revealed(event["population"], event["noise_multiplier"], count, head["delta"])
        return exact, exact
    if kinds == {"Gaussian"}:
        precision = sum(entry["count"] / entry["event"]["noise_multiplier"] ** 2 for entry in entries)
        exact = dp_accounting.get_epsilon_gaussian(precision**-0.5, head["delta"])
        return exact, exact
    steps = sum(entry["count"] for entry in entries)
    grid = min(1e-4, max(1e-5, 0.01 * near / steps))
    found = []
    for upwards in (False, True):
        whole = loss.identity(value_discretization_interval=grid, pessimistic_estimate=upwards)
        for entry in entries:
            of_one = DISTRIBUTIONS[entry["event"]["event"]](entry["event"], head, grid, upwards)
            whole = whole.compose(of_one.self_compose(entry["count"]))
        found.append(float(whole.get_epsilon_for_delta(head["delta"])))
    return found[0], found[1]


def without_noise(event: dict[str, Any]) -> bool:
    return without_noise(event["of"]) if "of" in event else event.get("noise_multiplier") == 0


def poisson(event: dict[str, Any], head: dict[str, Any], grid: float, upwards: bool) -> loss.PrivacyLossDistribution:
    """A Poisson-sampled Gaussian, by dp_accounting."""
    assert head["relation"] == "add-or-remove-one"
    return loss.from_gaussian_mechanism(
        event["of"]["noise_multiplier"],
        sampling_prob=event["sampling_rate"],
        value_discretization_interval=grid,
        pessimistic_estimate=upwards,
        use_connect_dots=upwards,
    )


def secret(event: dict[str, Any], head: dict[str, Any], grid: float, upwards: bool) -> loss.PrivacyLossDistribution:
    """One of K critics, drawn in secret, answers with noise s against its sensitivity of 1 (`accounting.md`, tight bound).

    With q = 1/K, gamma = e^epsilon >= 1 and gamma' = 1 + (gamma - 1) / q the profile is q H_gamma'(N(1, s^2) || N(0, s^2)), and
    the same with the roles changed. A profile h has P(loss > epsilon) = h - h' and Q(loss > epsilon) = -e^-epsilon h', where h'
    is its slope; with a, b = +-1/(2 s) - s ln gamma' these are q Phi(a) + (1 - q) Phi(b) and Phi(b). Losses below zero mirror
    those above it, and what is left lies at zero.
    """
    assert event["drawn"] == 1
    assert head["relation"] in ("replace-one", "add-or-remove-one")
    q, s = 1 / event["population"], event["of"]["noise_multiplier"]
    farthest = math.log1p(q * math.expm1(10 / s + 0.5 / s**2))
    edges = grid * np.arange(math.ceil(farthest / grid) + 1)
    inner = s * np.log1p(np.expm1(edges) / q)
    above_q = norm.cdf(-1 / (2 * s) - inner)
    above_p = q * norm.cdf(1 / (2 * s) - inner) + (1 - q) * above_q
    rising, falling = above_p[:-1] - above_p[1:], above_q[:-1] - above_q[1:]  # P of losses, and of their mirror images
    zero = 1 - above_p[0] - above_q[0]
    n = len(rising)
    masses = np.zeros(2 * n + 1)  # of the losses -n ... n times the grid
    masses[n] = zero
    # Between edges k and k + 1, rounded down to k or up to k + 1; below zero between -(k + 1) and -k.
    masses[n + upwards : 2 * n + upwards] += rising
    masses[upwards : n + upwards] += falling[::-1]
    masses[0] += above_q[-1]
    masses[-1] += 0 if upwards else above_p[-1]
    beyond = float(above_p[-1]) if upwards else 0.0
    return loss.PrivacyLossDistribution(pld_pmf.DensePLDPmf(grid, -n, masses, beyond, upwards))


def gaussian(event: dict[str, Any], _head: dict[str, Any], grid: float, upwards: bool) -> loss.PrivacyLossDistribution:
    """A Gaussian over all records."""
    return loss.from_gaussian_mechanism(
        event["noise_multiplier"],
        value_discretization_interval=grid,
        pessimistic_estimate=upwards,
        use_connect_dots=upwards,
    )


DISTRIBUTIONS = {"Gaussian": gaussian, "PoissonSampled": poisson, "SampledWithoutReplacement": secret}


def revealed(population: int, noise: float, count: int, delta: float) -> float:
    """The binomial mixture of Gaussians, written out count by count."""
    answers = np.arange(1, count + 1)
    chance, mu = binom.pmf(answers, count, 1 / population), np.sqrt(answers) / noise

    def excess(epsilon: float) -> float:
        gaussian = norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
        return float((chance * gaussian).sum()) - delta

    return 0.0 if excess(0.0) <= 0 else float(brentq(excess, 0.0, 200.0, xtol=1e-10))


# ---------------------------------------------------------------------- the sweep


def certified(name: str, settings: dict[str, Any], card: DataCard, delta: float, path: Path) -> float:
    """The figure of the certificate: plan, reserve on disk, promise. No record, no training."""
    job = Job.of(METHODS[_method(name)], settings, card)
    ledger = PrivacyLedger(budget=math.inf, delta=delta, relation=job.relation, unit=card.unit)
    ledger.reserve(job.plan)
    ledger.create(path)
    ledger.close()
    return ledger.promise().epsilon


def _method(name: str) -> str:
    return name.partition(" ")[0]


def check(name: str, number: int, folder: Path) -> None:
    draw = np.random.default_rng([number, *name.encode()])
    card = random_card(draw)
    settings = SETTINGS[name](draw, card)
    delta = float(draw.uniform(0.05, 0.9)) / card.declared_size
    epsilon = certified(name, settings, card, delta, folder / "ledger.jsonl")
    low, high = recomputed(folder / "ledger.jsonl", epsilon)
    where = (
        f"{name} {settings}, {card.declared_size} declared, delta {delta}: certified {epsilon}, bounds {low} and {high}"
    )
    assert 0 < low <= high <= 1.05 * low, f"the recomputation is too coarse to judge: {where}"
    assert low * (1 - 1e-6) <= epsilon <= LOOSEST * high, where


@pytest.mark.parametrize("number", slow_among(range(2), {1}))
@pytest.mark.parametrize("name", SETTINGS)
def test_the_certificate_is_neither_below_nor_far_above_what_its_ledger_costs(
    name: str, number: int, tmp_path: Path
) -> None:
    check(name, number, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(2, 40))
@pytest.mark.parametrize("name", SETTINGS)
def test_the_same_at_many_settings(name: str, number: int, tmp_path: Path) -> None:
    check(name, number, tmp_path)


@pytest.mark.parametrize("name", [*SETTINGS, "privgan"])
def test_without_noise_both_say_infinity(name: str, tmp_path: Path) -> None:
    """The non-private run of each method, and the method that has no guarantee."""
    draw = np.random.default_rng(0)
    card = DataCard(shape=(1, 28, 28), classes=2, declared_size=5_000)
    settings = {**SETTINGS[name](draw, card), "noise_multiplier": 0.0} if name in SETTINGS else {}
    assert certified(name, settings, card, 1e-5, tmp_path / "ledger.jsonl") == math.inf
    assert recomputed(tmp_path / "ledger.jsonl", 1.0) == (math.inf, math.inf)


def test_the_sweep_is_over_every_method() -> None:
    assert {_method(name) for name in SETTINGS} | {"privgan"} == set(OF_PICTURES)


def test_the_second_computation_against_closed_forms() -> None:
    """K = 1 and a rate of 1 are plain Gaussians, where epsilon is known exactly; so is one critic that surely answers."""
    head = {"relation": "replace-one", "delta": 1e-5}
    exact = dp_accounting.get_epsilon_gaussian(2.0 / math.sqrt(9), 1e-5)
    event = {"population": 1, "drawn": 1, "of": {"noise_multiplier": 2.0}}
    for upwards, low, high in ((False, 0.997, 1.0), (True, 1.0, 1.003)):
        found = secret(event, head, 1e-3, upwards).self_compose(9).get_epsilon_for_delta(1e-5)
        assert low * exact <= found <= high * exact
    assert revealed(1, 2.0, 9, 1e-5) == pytest.approx(exact, rel=1e-6)
