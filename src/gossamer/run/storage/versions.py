"""Versions of what the guarantee and the model rest on."""

import hashlib
import importlib.metadata
from functools import cache
from pathlib import Path


def versions() -> dict[str, str]:
    """The installed version of each package, by its name."""
    return {
        name: importlib.metadata.version(name)
        for name in ("gossamer", "torch", "numpy", "dp-accounting", "cryptography")
    }


@cache
def with_source() -> str:
    """The version of Gossamer and a digest of its source: between two versions, the source may change."""
    digest, root = hashlib.sha256(), Path(__file__).parents[2]
    for path in sorted(root.rglob("*")):
        if path.suffix in (".py", ".txt"):
            digest.update(
                f"{path.relative_to(root).as_posix()}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode()
            )
    return f"{versions()['gossamer']}, source {digest.hexdigest()[:16]}"
