"""Adult at epsilon 1: the benchmark runs, and a run is about as good as its figures say."""

import pytest

from benchmarks import tables
from gossamer.methods.marginals import Marginals
from gossamer.privacy.accounting import cost

pytestmark = pytest.mark.skipif(not tables.ADULT.is_dir(), reason="Adult is not here")


def test_presets_cost_what_their_names_say() -> None:
    """The noise that the benchmark takes is that of the default settings: how a run shares its budget changes no cost."""
    facts = tables.card(32_561)
    for epsilon in (0.3, 1.0, 3.0, 10.0):
        preset = Marginals().presets()[f"adult-eps{epsilon:g}"]
        settings = {name: value for name, value in preset.items() if name not in ("about", "records")}
        plan = Marginals().job({**settings, "noise_multiplier": tables.noise_for(epsilon)}, facts).plan  # type: ignore[arg-type]
        assert 0.999 * epsilon < cost.guarantee(plan, delta=tables.DELTA).epsilon <= epsilon


@pytest.mark.slow
def test_adult_at_epsilon_1() -> None:
    """Real rows reach an accuracy of 0.865 and an AUC of 0.920. Three seeds: within 0.002."""
    facts = tables.card(32_561)
    rows, test = tables.read("adult.data", facts), tables.read("adult.test", facts)
    job = Marginals().job({"noise_multiplier": tables.noise_for(1.0)}, facts)  # type: ignore[arg-type]
    samples, _ = tables.sampled(job, rows, seed=0)
    found = tables.figures(samples, rows, test, facts)
    assert found["accuracy"] > 0.845
    assert found["auc"] > 0.9
    assert found["tv2"] < 0.03
