"""Named settings, from presets.toml: each row of the papers' tables, and what was tuned for two cores."""

import tomllib
from importlib import resources
from typing import Any

from gossamer.errors import RequestError, did_you_mean


def all_presets() -> dict[str, dict[str, dict[str, Any]]]:
    """{method: {name: {"about": ..., settings...}}}."""
    return tomllib.loads(resources.files("gossamer.run").joinpath("presets.toml").read_text(encoding="utf-8"))


def settings(method: str, name: str) -> dict[str, Any]:
    """The settings of one preset.

    Raises:
        RequestError: if there is none of that name; says the nearest.
    """
    known = all_presets().get(method, {})
    if name not in known:
        raise RequestError(
            f"{method} has no preset {name!r}.{did_you_mean(name, known)} Known: {', '.join(known) or 'none'}."
        )
    return {key: value for key, value in known[name].items() if key != "about"}
