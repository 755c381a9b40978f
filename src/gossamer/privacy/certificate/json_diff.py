"""Where two JSON values differ, as a sentence; and figures that are the same but for the last digits of another machine."""

import json
from typing import Any

TOLERANCE = 1e-6
"""Relative: by so much epsilon may differ when it is recomputed with another build of numpy or scipy, up or down."""
_SHOWN = 60  # letters of a value in a problem


def difference(name: str, stated: Any, expected: Any, source: str, *, where: str) -> list[str]:
    """The first place where two JSON values differ, as a problem; `...` stands for an entry that is not there."""
    if same(stated, expected) or stated is ...:  # what is missing has been said
        return []
    while True:
        if isinstance(stated, dict) and isinstance(expected, dict):
            pairs = {f".{key}": (stated.get(key, ...), expected.get(key, ...)) for key in {**expected, **stated}}
        elif isinstance(stated, list) and isinstance(expected, list) and len(stated) == len(expected):
            pairs = {f"[{i}]": pair for i, pair in enumerate(zip(stated, expected, strict=True))}
        else:
            break
        step, (stated, expected) = next((step, pair) for step, pair in pairs.items() if not same(*pair))
        name += step
    return [f"{where}: {name!r} says {short(stated)}; {source} {short(expected)}."]


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are the same, types and all: 1 is not 1.0, and not True."""
    if one is ... or other is ...:
        return one is other
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def short(value: Any) -> str:
    """A JSON value as a problem quotes it."""
    text = "nothing" if value is ... else json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def settled(stated: Any, expected: Any, *, figure: bool = False) -> Any:
    """The stated value with the recomputed figures in the places where they are the same but for `TOLERANCE`.

    Figures are the values of "epsilon" and "mu", one number or a list. All else stays as it is stated.
    """
    if isinstance(stated, list) and isinstance(expected, list) and len(stated) == len(expected):
        return [settled(one, other, figure=figure) for one, other in zip(stated, expected, strict=True)]
    if isinstance(stated, dict) and isinstance(expected, dict):
        pairs = [(name, value, expected.get(name)) for name, value in stated.items()]
        return {name: settled(value, other, figure=name in ("epsilon", "mu")) for name, value, other in pairs}
    return expected if figure and within(stated, expected) else stated


def within(stated: Any, expected: Any) -> bool:
    """Whether a stated figure is the recomputed one, but for `TOLERANCE`."""
    return isinstance(stated, float) and isinstance(expected, float) and abs(stated - expected) <= TOLERANCE * expected
