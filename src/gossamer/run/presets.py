"""Named settings: each row of the papers' tables, and what was tuned for two cores. Every method keeps its own."""

from typing import Any

from gossamer.errors import RequestError, did_you_mean
from gossamer.methods import METHODS


def all_presets() -> dict[str, dict[str, dict[str, Any]]]:
    """{method: {name: {"about": ..., settings...}}}."""
    return {name: method.presets() for name, method in METHODS.items()}


def settings(method: str, name: str) -> dict[str, Any]:
    """The settings of one preset.

    Raises:
        RequestError: if there is none of that name; says the nearest.
    """
    known = METHODS[method].presets()
    if name not in known:
        raise RequestError(
            f"{method} has no preset {name!r}.{did_you_mean(name, known)} Known: {', '.join(known) or 'none'}."
        )
    return {key: value for key, value in known[name].items() if key != "about"}
