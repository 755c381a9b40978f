"""Memory: what a run takes at its peak, about, and pages that stay with the process between steps."""

import ctypes
import math
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from gossamer.data.mapped import SHARE, free_memory
from gossamer.data.npz import MAP_FROM
from gossamer.methods.method import batch_of

if TYPE_CHECKING:
    from torch import Tensor, nn

    from gossamer.methods.method import BaseConfig, Job, State

_REST = 480e6
"""PyTorch and this program, with one thread on Linux. Measured, like all that follows: docs/which-method.md."""
_COPIES = 1.5
"""Records, in sizes of what the card declares: some stand in memory twice while they are read and drawn."""
_STATES = 15
"""Networks, in sizes of the generator: others beside it, gradients, what optimisers keep, and a checkpoint as it is written."""
_CRITIC = 4
"""A critic of many, in sizes of the generator."""
_PASSES = 5
"""A batch, in sizes of what the generator's layers give for it: forward and backward, through two networks."""
_BLOCK = 4_096
"""Records that a method without batches looks at at once."""

_FEW = 4
"""Pictures that are drawn to look at the layers."""
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # mallopt(3), glibc


def keep_pages(*, top_pad: int = 1 << 26) -> bool:
    """Ask the C library to keep freed pages instead of handing them back to the system.

    Every step allocates and frees the same large temporaries. By default glibc maps each one afresh, and the page faults
    cost 10 to 50 % of a step on a CPU. Affects the whole process and speed only; call it once, before the first step.

    Args:
        top_pad: bytes by which the heap grows at a time.

    Returns:
        Whether it took effect: only with glibc on Linux.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    done = [mallopt(_MMAP_MAX, 0), mallopt(_TRIM_THRESHOLD, 2**31 - 1), mallopt(_TOP_PAD, top_pad)]
    return all(done)


@dataclass(frozen=True)
class Peak:
    """What a run takes in memory at its peak, about, in bytes.

    Args:
        records: as they are read and drawn.
        networks: with optimisers and a checkpoint.
        batch: what one step computes.
        rest: PyTorch and the program.
        mapped: so much less where the records are plain arrays that stay in their files.
    """

    records: float
    networks: float
    batch: float
    rest: float = _REST
    mapped: float = 0.0

    @property
    def total(self) -> float:
        """All of it."""
        return self.records + self.networks + self.batch + self.rest

    def __str__(self) -> str:
        parts = {"records": self.records, "networks": self.networks, "a batch": self.batch, "PyTorch": self.rest}
        named = ", ".join(f"{name} {value / 1e6:,.0f}" for name, value in parts.items())
        told = f"about {round(self.total / 1e6, -1):,.0f} MB at the peak ({named})"
        if not self.mapped:
            return told
        less = f"{round((self.total - self.mapped) / 1e6, -1):,.0f} MB"
        return f"{told}; about {less} where they are plain .npy, .npz or idx files, which are mapped"


def peak(job: "Job[BaseConfig, State]") -> Peak:
    """An estimate for a run on this machine, from the card, the settings and a fresh generator. Reads no record.

    Records that are decoded take no memory where they are more than a quarter of what is free: they go to a file then.
    Those that are dealt to critics are always in memory.
    """
    card, settings = job.card, job.settings
    with torch.random.fork_rng(devices=[]):
        net: Any = job.generator()
    weights = sum(each.numel() * each.element_size() for each in (*net.parameters(), *net.buffers()))
    features = getattr(
        getattr(net, "scattering", None), "size", 0
    )  # a classifier keeps those of every record, in two bytes
    pixels = math.prod(card.shape)
    asked = settings.get("expected_batch_size", settings.get("batch_size"))
    batch = min(_BLOCK, card.declared_size) if asked is None else batch_of(int(asked), card)
    if features:
        batch = min(batch, int(settings["physical_batch_size"]))
    drawn = 4 * features if features else _drawn(job, net)
    stored, dealt = pixels * card.declared_size, "critics" in settings
    records = _COPIES * stored if dealt or stored <= SHARE * free_memory() else 0.0
    return Peak(
        records=records + min(2 * features * card.declared_size, 1 << 31),
        networks=weights * (_STATES + _CRITIC * int(settings.get("critics", 0))),
        batch=_PASSES * batch * max(drawn, 4 * pixels),
        mapped=0.0 if dealt or stored < MAP_FROM else records,
    )


def _drawn(job: "Job[BaseConfig, State]", net: "nn.Module") -> float:
    """Bytes that the layers of a generator give for one picture; a layer that is called again counts once."""
    given: dict[nn.Module, int] = {}

    def note(layer: "nn.Module", _inputs: object, output: "Tensor") -> None:
        given[layer] = output.numel() * output.element_size()

    layers = [each for each in net.modules() if not list(each.children())]
    hooks = [each.register_forward_hook(note) for each in layers]
    job.sample(net, _FEW, None, torch.Generator())
    for hook in hooks:
        hook.remove()
    return sum(given.values()) / _FEW
