"""What a guarantee means: bounds are rounded up, never down."""

import math

import pytest

from gossamer.run.report import promise


@pytest.mark.parametrize(
    "number, digits, expected",
    [(9.98, 3, "9.980"), (9.9798123, 3, "9.980"), (9.9800001, 3, "9.981"), (1e-9, 3, "0.001"), (0.0, 3, "0.000")],
)
def test_bounds_are_rounded_up(number, digits, expected):
    assert promise.up(number, digits) == expected


@pytest.mark.parametrize("epsilon", [0.0, 0.001, 0.3, 1.0, 2.302586, 4.0, 6.9, 6.91, 9.98, 13.8])
def test_the_factor_is_never_too_small(epsilon):
    factor = float(promise._factor(epsilon).replace(",", ""))
    assert math.exp(epsilon) <= factor * (1 + 1e-9) and factor <= math.exp(epsilon) * 1.011


@pytest.mark.parametrize(
    "epsilon, delta, expected", [(0.0, 0.0, 0.5), (math.log(3), 0.0, 0.75), (math.log(3), 0.5, 0.875), (1e9, 0.0, 1.0)]
)
def test_an_attacker_is_right_at_most_so_often(epsilon, delta, expected):
    """e^epsilon / (1 + e^epsilon) where delta is 0, and half of the rest where delta is a half."""
    assert promise.certainty(epsilon, delta) == pytest.approx(expected)


def test_certainty_is_rounded_up():
    assert promise.percent_up(promise.certainty(3.0, 1e-5)).replace("\N{NO-BREAK SPACE}", " ") == "95.3 %"
    assert promise.percent_up(0.999999) == "99.9999\N{NO-BREAK SPACE}%"
