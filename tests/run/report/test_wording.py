"""What figures mean, in sentences."""

from typing import Any

import pytest

from gossamer.metrics.metric import of_baseline
from gossamer.run.report import wording


def accuracies(samples: float, real: float, guess: float, n: int = 100) -> list[dict[str, Any]]:
    """Figures with intervals of 5 points to each side."""
    named = {"accuracy": samples, of_baseline("accuracy"): real, "accuracy of guessing": guess}
    return [
        {"metric": name, "value": each, "low": each - 0.05, "high": each + 0.05, "n": n} for name, each in named.items()
    ]


@pytest.mark.parametrize(
    "figures, expected",
    [(accuracies(0.80, 0.86, 0.5), "learns as much from the samples as from real records, as far as 100 test records tell"),
     (accuracies(0.80, 0.92, 0.5), "learns less from the samples than from real records"),
     (accuracies(0.80, 0.92, 0.76), "is no better than guessing"),
     (accuracies(0.60, 0.62, 0.60, n=10_000), "from the samples, or from real records, is no better than guessing")],
)  # fmt: skip
def test_a_verdict_says_no_more_than_its_intervals(figures: list[dict[str, Any]], expected: str) -> None:
    first, *rest = wording.usefulness(figures)
    assert expected in first
    assert f"{figures[0]['value']:.0%}"[:-1] in rest[0] and f"{figures[1]['value']:.0%}"[:-1] in rest[1]


def test_a_released_classifier_comes_first() -> None:
    own = {"metric": "accuracy of the released classifier", "value": 0.981, "low": 0.979, "high": 0.983, "n": 100}
    samples = accuracies(0.53, 0.54, 0.1)
    assert wording.usefulness([*samples, own])[1:] == wording.usefulness(samples)
    first = wording.usefulness([*samples, own])[0].replace("\N{NO-BREAK SPACE}", " ")
    assert first == "The classifier in the release gets 98.1 % of real test records right (97.9 % to 98.3 %)."


def test_without_a_classifier_there_is_no_verdict() -> None:
    assert wording.usefulness([]) == wording.usefulness(accuracies(0.8, 0.9, 0.5)[:1]) == []
