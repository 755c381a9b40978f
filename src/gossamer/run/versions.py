"""Versions of what the guarantee and the model rest on."""

import importlib.metadata


def versions() -> dict[str, str]:
    """The installed version of each package, by its name."""
    return {
        name: importlib.metadata.version(name)
        for name in ("gossamer", "torch", "numpy", "dp-accounting", "cryptography")
    }
