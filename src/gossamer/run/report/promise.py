"""What a guarantee means, in words and numbers for a data owner. Bounds are rounded up, never down."""

import math
from decimal import Decimal
from typing import Any

from gossamer.privacy.guarantee import in_full, rounded_up
from gossamer.run.report.wording import PERCENT


def in_words(guarantee: dict[str, Any]) -> dict[str, Any]:
    """The guarantee in words. Bounds are rounded up, never down."""
    epsilon, delta, unit = float(guarantee["epsilon"]), float(guarantee["delta"]), str(guarantee["unit"])
    if not math.isfinite(epsilon):
        return {"holds": False, "unit": unit}
    return {
        "holds": True,
        "epsilon": up(epsilon),
        "delta": all_digits(delta),
        "one_in": f"{1 / delta:,.0f}" if delta else "",
        "unit": unit,
        "relation": guarantee["relation"],
        "factor": _factor(epsilon),
        "guess": percent_up(certainty(epsilon, delta)),
    }


def certainty(epsilon: float, delta: float) -> float:
    """Return how often an attacker who guesses from an even chance is right at most, as a share.

    Kairouz, Oh, Viswanath 2015, theorem 2.1, at equal error rates.
    """
    return 1 - (1 - delta) / (1 + math.exp(min(epsilon, 700.0)))


def up(number: float | str, digits: int = 3) -> str:
    """Rounded up to so many decimals, with commas between thousands. number: "inf" is infinite."""
    finite = math.isfinite(float(number))
    return f"{Decimal(rounded_up(float(number), digits)):,}" if finite else "infinite"


def all_digits(delta: float | str) -> str:
    """Delta with all its digits, without an exponent where that is readable."""
    return f"{Decimal(repr(float(delta))):f}" if float(delta) >= 1e-7 else in_full(float(delta))


def _factor(epsilon: float) -> str:
    """e^epsilon in words, rounded up to three digits; as a power where that is beyond a million."""
    if epsilon > math.log(1e6):
        return f"e^{rounded_up(epsilon)}"
    factor = math.exp(epsilon)
    digits = 2 - math.floor(math.log10(factor))
    return up(factor, digits) if digits >= 0 else f"{math.ceil(factor / 10**-digits) * 10**-digits:,}"


def percent_up(share: float) -> str:
    """A share below one, rounded up, and to 100 % only where four decimals do not distinguish it from one."""
    for digits in range(1, 5):
        shown = up(share * 100, digits)
        if float(shown) < 100:
            return f"{shown}{PERCENT}"
    return f"100{PERCENT}"
