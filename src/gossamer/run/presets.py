"""Named settings, from presets.toml: each row of the papers' tables, and what was tuned for two cores."""

import difflib
import tomllib
from importlib import resources
from typing import Any

from gossamer.errors import RequestError


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
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise RequestError(f"{method} has no preset {name!r}.{hint} Known: {', '.join(known) or 'none'}.")
    return {key: value for key, value in known[name].items() if key != "about"}
