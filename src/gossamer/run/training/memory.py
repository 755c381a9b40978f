"""Memory: what a run takes at its peak, about, what a GPU holds, and pages that stay with the process between steps."""

import ctypes
import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from gossamer.data.memory_mapped import SHARE, free_memory
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

_SHARE = 0.5
"""Of what is free on a GPU, for the gradients of a batch; the estimate is a rough one, and has not been held against a GPU."""
_DEVIATIONS = 5
"""Standard deviations by which a Poisson draw exceeds what is expected before it is taken in two parts: about never."""
_MULTIPLE = 32
"""A batch of such a multiple suits the matrix units of a GPU."""

_FEW = 4
"""Pictures that are drawn to look at the layers."""
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # mallopt(3), glibc


def tune_malloc(*, top_pad: int = 1 << 26) -> bool:
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


def peak(job: "Job[BaseConfig, State]") -> float:
    """Estimate the bytes that a run takes at its peak, from the card, the settings and a fresh generator. Reads no record.

    Records that are decoded take no memory where they are more than a quarter of what is free: they go to a file then.
    Records that are mapped from plain files take less than is estimated. Those that are dealt to critics are always in memory.
    """
    card, settings = job.card, job.settings
    with torch.random.fork_rng(devices=[]):
        net: Any = job.generator()
    weights: int = sum(tensor.numel() * tensor.element_size() for tensor in (*net.parameters(), *net.buffers()))
    features: int = getattr(getattr(net, "scattering", None), "size", 0)  # of every record, kept in two bytes each
    pixels = math.prod(card.shape)
    requested = settings.get("expected_batch_size", settings.get("batch_size"))
    batch = min(_BLOCK, card.declared_size) if requested is None else batch_of(int(requested), card)
    if features:
        batch = min(batch, int(settings["physical_batch_size"]))
    drawn = 4 * features if features else _activation_size(job, net)
    stored = pixels * card.declared_size
    records = _COPIES * stored if "critics" in settings or stored <= SHARE * free_memory() else 0.0
    records += min(2 * features * card.declared_size, 1 << 31)
    networks = weights * (_STATES + _CRITIC * int(settings.get("critics", 0)))
    return _REST + records + networks + _PASSES * batch * max(drawn, 4 * pixels)


def _free(device: torch.device) -> int:
    """Bytes that are free on a GPU."""
    free, _ = torch.cuda.mem_get_info(device)
    return free


def fitted(
    job: "Job[BaseConfig, State]", device: str, *, ranks: int = 1, free: Callable[[torch.device], int] = _free
) -> "Job[BaseConfig, State]":
    """The job, with the records whose gradients are computed at once chosen by the memory of its GPU.

    Only where the settings leave that open (`physical_batch_size` 0); on a CPU the job as it is. A draw is taken whole where it
    fits, else in equal parts. Results do not depend on it, but for rounding.

    Args:
        job: the method and its settings.
        device: where it trains.
        ranks: that share a draw.
        free: gives the free bytes of a device.
    """
    where, settings = torch.device(device), job.settings
    if where.type == "cpu" or settings.get("physical_batch_size") != 0:
        return job
    with torch.random.fork_rng(devices=[]):
        net: Any = job.generator()
    size = (
        _PASSES * int(settings.get("multiplicity", 1)) * max(_activation_size(job, net), 4 * math.prod(job.card.shape))
    )
    holds = max(1, int(_SHARE * free(where) / size))
    expected = batch_of(int(settings["expected_batch_size"]), job.card) / ranks
    largest = expected + _DEVIATIONS * math.sqrt(expected)
    part = largest / math.ceil(largest / holds)
    fitting = min(holds, _MULTIPLE * math.ceil(part / _MULTIPLE))
    return job.method.job({**settings, "physical_batch_size": fitting}, job.card)


def _activation_size(job: "Job[BaseConfig, State]", net: "nn.Module") -> float:
    """Bytes that the layers of a generator give for one picture; a layer that is called again counts once."""
    sizes: dict[nn.Module, int] = {}

    def note(layer: "nn.Module", _inputs: object, output: "Tensor") -> None:
        sizes[layer] = output.numel() * output.element_size()

    layers = [module for module in net.modules() if not list(module.children())]
    hooks = [module.register_forward_hook(note) for module in layers]
    job.sample(net, _FEW, None, torch.Generator())
    for hook in hooks:
        hook.remove()
    return sum(sizes.values()) / _FEW
