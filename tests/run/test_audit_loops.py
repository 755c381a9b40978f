"""Every method under audit: its own loop, and what its canaries show along their directions; the command."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from gossamer.data.card import DataCard
from gossamer.methods import METHODS
from gossamer.run.audit import CONSISTENT, REFUTED, SMALL, Audited, Runs, audit, lines
from gossamer.run.cli import cli


def test_every_method_that_claims_something_is_audited() -> None:
    assert set(SMALL) == {name for name, method in METHODS.items() if not method.without_guarantee}


@pytest.mark.parametrize("method", sorted(SMALL))
def test_a_canary_adds_one_among_the_declared_noise(method: str) -> None:
    """Noise of a tenth, so that few trials show it: 1 at the rate of its draws where the canary is, 0 where it is not.

    Means within five standard errors, noise within five of its own; chances of 6e-7 each, and the seeds are fixed.
    """
    small = SMALL[method]
    many = small.canary == "gradients"
    trials = 200 if many else 12
    card = DataCard(shape=small.shape, classes=small.classes, declared_size=60 + (trials if many else 1))
    settings = {**small.settings, "noise_multiplier": 0.1}
    if many or small.canary == "terms":
        settings["expected_batch_size"] = card.declared_size // 2
    runs = Runs(METHODS[method].job(settings, card), 1e-5, seed=0, noise_seed=1)
    inside, outside = runs.together(trials) if many else runs.apart(small.canary, trials)
    rate, noise, steps = inside.declared
    assert inside.x.shape == outside.x.shape == (steps, trials)
    assert steps == METHODS[method].job(settings, card).phases[-1].steps
    drawn = (inside.x > 0.5).mean()
    assert drawn == pytest.approx(rate, abs=5 * (rate * (1 - rate) / inside.x.size) ** 0.5 + 1e-9)
    rest = np.concatenate([np.where(inside.x > 0.5, inside.x - 1, inside.x).ravel(), outside.x.ravel()])
    assert rest.mean() == pytest.approx(0, abs=0.002 + 5 * noise / rest.size**0.5)
    assert rest.std() == pytest.approx(noise, rel=0.02 + 5 / (2 * rest.size) ** 0.5)


def test_an_audit_says_claim_and_bound_and_that_a_low_value_proves_nothing() -> None:
    found = audit("teacher", epsilon=6.0, trials=200, settings={"steps": 1, "expected_batch_size": 260}, noise_seed=3)
    assert 5.9 < found.claim <= 6.0
    assert 0 < found.lower_bound <= found.claim
    assert found.counted <= found.lower_bound
    assert found.verdict == CONSISTENT
    text = "\n".join(lines(found))
    assert "proves nothing" in text
    assert f"{found.lower_bound:.3f}" in text
    assert json.loads(json.dumps(found.to_json()))["verdict"] == CONSISTENT


def test_either_bound_above_the_claim_refutes_it() -> None:
    terms = {
        "method": "m", "claim": 3.0, "delta": 1e-5, "confidence": 0.95, "trials": 100, "releases": 1, "sampling_rate": 1.0,
        "noise_multiplier": 1.0, "noise_at_most": 1.0, "seconds": 1.0, "canary": "c", "statistic": "s", "settings": {},
    }  # fmt: skip
    assert Audited(lower_bound=3.0, counted=2.0, **terms).verdict == CONSISTENT  # type: ignore[arg-type]  # a dict of mixed types
    assert Audited(lower_bound=3.1, counted=2.0, **terms).verdict == REFUTED  # type: ignore[arg-type]  # the same
    assert Audited(lower_bound=2.0, counted=3.1, **terms).verdict == REFUTED  # type: ignore[arg-type]  # the same


def test_a_method_without_a_claim_has_nothing_to_refute() -> None:
    answer = CliRunner().invoke(cli, ["audit", "privgan"])
    assert answer.exit_code != 0
    assert "claims nothing" in str(answer.exception)
