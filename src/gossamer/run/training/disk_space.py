"""Room on the disk: asked for before a run is begun or gone on with."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from gossamer.errors import RunFolderError

if TYPE_CHECKING:
    from torch import nn

    from gossamer.privacy.guarantee import Plan

_CHARGE = 64
"""Bytes of a charge in the ledger, about."""
_NETWORKS = 12
"""State of a run, in sizes of its generator: other networks, what their optimisers keep, averages. More is possible."""
_HEAD = 1 << 20
"""Bytes of a checkpoint besides networks."""
_REST = 24 << 20
"""Bytes of events, pictures and report."""


def needed(net: "nn.Module", plan: "Plan") -> int:
    """The bytes that a run takes on the disk, about: three checkpoints (the old, the new, and room for one more), and the rest.

    What critics by the thousand take comes on top: only a run knows.
    """
    return 3 * state(net) + _CHARGE * sum(count for _, count in plan) + _REST


def state(net: "nn.Module") -> int:
    """The bytes of a checkpoint, about, before there is one."""
    return (
        _NETWORKS * sum(tensor.numel() * tensor.element_size() for tensor in (*net.parameters(), *net.buffers()))
        + _HEAD
    )


def of(private: Path) -> int:
    """The bytes that it takes to go on with a run, about: a new checkpoint beside the old one, and the rest."""
    return sum(file.stat().st_size for file in private.glob("*") if file.is_file()) + _REST


def check(folder: Path, needed: int, *, remedy: str) -> None:
    """Refuse to begin on a disk that is full, or nearly.

    Args:
        folder: where the run is, or will be.
        needed: bytes.
        remedy: what to do when there is room, in words.

    Raises:
        RunFolderError: with what is needed and what is free; nothing has been written.
    """
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise RunFolderError(
            f"{folder}: the disk has {free / 1e6:,.0f} MB free, and a run needs about {needed / 1e6:,.0f} MB. Make room, "
            f"{remedy}; nothing has been written or charged."
        )
