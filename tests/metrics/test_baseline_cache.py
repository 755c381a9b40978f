"""What is computed on real records alone is computed once, however many evaluations ask for it at a time."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gossamer.intervals import Estimate
from gossamer.metrics.baseline_cache import Baselines
from gossamer.metrics.features import ClassifierFeatures
from gossamer.nets.features import FeatureCNN


def test_who_comes_second_waits_and_takes_what_the_first_has_computed(tmp_path: Path) -> None:
    """A lock is held by an open file, so that two threads with a cache each stand for two processes."""
    asked, computed = threading.Barrier(2, timeout=10), []

    def compute() -> dict[str, Estimate]:
        computed.append(1)
        time.sleep(0.3)  # the other has the time to come in
        return {"accuracy": Estimate(0.5, 0.4, 0.6, 10, "10 things")}

    def evaluation(_: int) -> dict[str, Estimate]:
        cache = Baselines(tmp_path / "cache", "these records")
        asked.wait()
        return cache.estimates("accuracy", compute)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(evaluation, range(2))
    assert first == second == {"accuracy": Estimate(0.5, 0.4, 0.6, 10, "10 things")}
    assert len(computed) == 1


def test_another_seed_has_baselines_of_its_own(tmp_path: Path) -> None:
    values = [
        Baselines(tmp_path, f"these records {seed}").estimates(
            "accuracy", lambda s=seed: {"a": Estimate(s / 4, 0, 1, 10, "x")}
        )
        for seed in (1, 2, 1)
    ]
    assert [each["a"].value for each in values] == [0.25, 0.5, 0.25]


def test_what_is_damaged_is_computed_again(tmp_path: Path) -> None:
    cache, figures = Baselines(tmp_path, "these records"), {"a": Estimate(0.5, 0.4, 0.6, 10, "x")}
    features = ClassifierFeatures(FeatureCNN((1, 8, 8), 2, 4), trained_on=3)
    other = ClassifierFeatures(FeatureCNN((1, 8, 8), 2, 4), trained_on=4)
    assert cache.estimates("a", lambda: figures) == cache.estimates("a", dict) == figures
    assert cache.features("f", lambda: features) is features
    assert cache.features("f", lambda: other).trained_on == 3
    for damage in (b"no", b"{}", b"[]", b""):
        for path in (*tmp_path.glob("*.json"), *tmp_path.glob("*.safetensors")):
            path.write_bytes(damage)
        assert cache.estimates("a", lambda: figures) == (figures if damage != b"{}" else {})
        assert cache.features("f", lambda: other).trained_on == 4
