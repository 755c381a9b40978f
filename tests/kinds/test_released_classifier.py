"""What a classifier in a release reaches comes first among the figures: it is the product."""

from typing import Any

import numpy as np
import pytest
import torch

from gossamer.data.records import Records
from gossamer.intervals import proportion
from gossamer.kinds import pictures
from gossamer.metrics import classify, registry
from gossamer.metrics.baseline_cache import Baselines

IMAGES = np.stack([np.full((1, 4, 4), shade, np.uint8) for shade in (0, 250, 10, 240)])
TESTS = Records(IMAGES, np.array([0, 1, 0, 0]))


def by_brightness(images: torch.Tensor) -> torch.Tensor:
    """Pictures in [0, 1]: dark ones are of class 0."""
    bright = images.mean(dim=(1, 2, 3))
    return torch.stack([1 - bright, bright], dim=1)


def test_it_is_asked_for_the_test_records() -> None:
    assert pictures._right(by_brightness, TESTS).tolist() == [True, True, True, False]


def test_it_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classify, "accuracy", lambda *_, **__: proportion(2, 4, "4 real test records"))
    given: dict[str, Any] = {
        "samples": TESTS,
        "real": TESTS,
        "tests": TESTS,
        "classes": 2,
        "baselines": Baselines(None, ""),
    }
    inputs = registry.Inputs(**given, released=lambda: pictures._right(by_brightness, TESTS))
    figures = registry.accuracy(inputs)
    assert [*figures] == [
        "accuracy of the released classifier", "accuracy", registry.BASELINE.name, "accuracy of guessing",
    ]  # fmt: skip
    first = figures["accuracy of the released classifier"]
    assert (first.value, first.n, first.computed_on) == (0.75, 4, "4 real test records")
    assert figures["accuracy of guessing"].value == 0.75, "the most frequent class of the training records"
    assert "accuracy of the released classifier" not in registry.accuracy(registry.Inputs(**given))
