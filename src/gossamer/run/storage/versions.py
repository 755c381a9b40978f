"""Versions of what the guarantee and the model rest on."""

import importlib.metadata
from functools import cache

from gossamer import plugins


def versions() -> dict[str, str]:
    """The installed version of each package, by its name."""
    return {
        name: importlib.metadata.version(name)
        for name in ("gossamer", "torch", "numpy", "dp-accounting", "cryptography")
    }


@cache
def with_source() -> str:
    """The version of Gossamer and a digest of its source: between two versions, the source may change."""
    return f"{versions()['gossamer']}, source {plugins.source_of('gossamer')[:16]}"
