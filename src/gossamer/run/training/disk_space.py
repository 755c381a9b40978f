"""Disk space: checked before a run begins or goes on."""

import shutil
from pathlib import Path

from torch import nn

from gossamer.errors import RunFolderError

_NETWORKS = 12
"""State of a run, in sizes of its generator: other networks, optimisers, averages."""
_HEAD = 1 << 20
"""Bytes of a checkpoint besides networks."""
_REST = 24 << 20
"""Bytes of ledger, events, pictures and report."""


def needed(net: nn.Module) -> int:
    """Estimate the bytes of a run: three checkpoints (old, new, reserved), and the rest. Many critics take more."""
    return 3 * state(net) + _REST


def state(net: nn.Module) -> int:
    """Estimate the bytes of a checkpoint before there is one."""
    return (
        _NETWORKS * sum(tensor.numel() * tensor.element_size() for tensor in (*net.parameters(), *net.buffers()))
        + _HEAD
    )


def check(folder: Path, needed: int) -> None:
    """Refuse a disk with less free space than needed, with a RunFolderError."""
    existing = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise RunFolderError(
            f"{folder}: the disk has {free / 1e6:,.0f} MB free, and a run needs about {needed / 1e6:,.0f} MB. Free "
            f"some space, or name another `out`; nothing has been written."
        )
