"""Memory: the estimated peak of a run, what fits on a GPU, and pages that the process keeps between steps."""

import ctypes
import math
import sys
from typing import TYPE_CHECKING, Any

import torch

from gossamer.data.memory_mapped import SHARE, free_memory
from gossamer.data.records import at_once
from gossamer.methods.contract import batch_of

if TYPE_CHECKING:
    from torch import Tensor, nn

    from gossamer.methods.contract import BaseConfig, State
    from gossamer.methods.job import Job

_REST = 480e6
"""PyTorch and this program, with one thread on Linux. Measured, like all that follows: docs/which-method.md."""
_COPIES = 1.5
"""Records, in sizes of what the card declares: some are in memory twice while they are read and sampled."""
_STATES = 15
"""Networks, in sizes of the generator: other networks, gradients, optimisers, and a checkpoint as it is written."""
_CRITIC = 4
"""A critic of many, in sizes of the generator."""
_PASSES = 5
"""A batch, in sizes of the generator's activations: forward and backward, through two networks."""
_OF_A_FIT = 50
"""The cells of a table's model, in sizes of 8 bytes: directions of L-BFGS, messages, and tables as they are counted."""
_BLOCK = 4_096
"""Records that a method without batches reads at once; fewer where they are large (`at_once`)."""

_SHARE = 0.5
"""Share of a GPU's free memory for the gradients of a batch. A rough estimate, not measured on a GPU."""
_DEVIATIONS = 5
"""Standard deviations by which a Poisson sample exceeds the expected batch before it is processed in two parts."""
_MULTIPLE = 32
"""Batches of a multiple suit the matrix units of a GPU."""

_FEW = 4
"""Pictures that are generated to measure the activations."""
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # mallopt(3), glibc
_HEAP_STEP = 1 << 26
"""Bytes by which the heap grows at a time."""


def tune_malloc() -> None:
    """Ask glibc to keep freed pages for the next step. Has no effect on other systems.

    Every step allocates and frees the same large temporaries. By default glibc maps each one afresh, and the page faults
    cost 10 to 50 % of a step on a CPU. Call it once, before the first step.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    if mallopt is not None:
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_TOP_PAD, _HEAP_STEP)


def peak(job: "Job[BaseConfig, State]") -> float:
    """Estimate the peak bytes of a run from the card, the settings and a fresh generator. Reads no record.

    Decoded records of more than a quarter of the free memory go to a file, and count as nothing. Records of critics are always
    in memory. Records that are mapped from plain files take less than estimated.
    """
    card, settings = job.card, job.settings
    if card.kind == "table":
        table: float = 4.0 * len(card.columns) * card.declared_size
        read = _COPIES * table if table <= SHARE * free_memory() else 0.0
        return _REST + read + 8.0 * _OF_A_FIT * int(settings.get("cells", 0))
    with torch.random.fork_rng(devices=[]):
        net: Any = job.generator()
    weights: int = sum(tensor.numel() * tensor.element_size() for tensor in (*net.parameters(), *net.buffers()))
    features: int = getattr(getattr(net, "features", None), "size", 0)  # of every record, kept in two bytes each
    pixels: int = math.prod(card.shape)
    requested = settings.get("expected_batch_size", settings.get("batch_size"))
    batch: int = (
        min(at_once(card.shape, _BLOCK), card.declared_size) if requested is None else batch_of(int(requested), card)
    )
    if features:
        batch = min(batch, int(settings["physical_batch_size"]))
    drawn = 4 * features if features else _activation_size(job, net)
    stored: int = pixels * card.declared_size
    records: float = _COPIES * stored if "critics" in settings or stored <= SHARE * free_memory() else 0.0
    records += min(2 * features * card.declared_size, 1 << 31)
    networks = weights * (_STATES + _CRITIC * int(settings.get("critics", 0)))
    return _REST + records + networks + _PASSES * batch * max(drawn, 4 * pixels)


def fitted(job: "Job[BaseConfig, State]", device: str, *, ranks: int = 1) -> "Job[BaseConfig, State]":
    """Return the job with a `physical_batch_size` that fits on its GPU, where the settings leave it open (0).

    A batch is processed at once where it fits, else in equal parts. Results are the same but for rounding.

    Args:
        job: the method and its settings.
        device: where it trains. On a CPU the job stays as it is.
        ranks: that share a batch.
    """
    where, settings = torch.device(device), job.settings
    if where.type == "cpu" or settings.get("physical_batch_size") != 0:
        return job
    with torch.random.fork_rng(devices=[]):
        net: Any = job.generator()
    size = (
        _PASSES * int(settings.get("multiplicity", 1)) * max(_activation_size(job, net), 4 * math.prod(job.card.shape))
    )
    free, _ = torch.cuda.mem_get_info(where)
    holds = max(1, int(_SHARE * free / size))
    expected = batch_of(int(settings["expected_batch_size"]), job.card) / ranks
    largest = expected + _DEVIATIONS * math.sqrt(expected)
    part = largest / math.ceil(largest / holds)
    fitting = min(holds, _MULTIPLE * math.ceil(part / _MULTIPLE))
    return Job.of(job.method, {**settings, "physical_batch_size": fitting}, job.card)


def _activation_size(job: "Job[BaseConfig, State]", net: "nn.Module") -> float:
    """Return the bytes of a generator's activations for one picture. A layer that is called again counts once."""
    sizes: dict[nn.Module, int] = {}

    def note(layer: "nn.Module", _inputs: object, output: "Tensor") -> None:
        sizes[layer] = output.numel() * output.element_size()

    layers = [module for module in net.modules() if not list(module.children())]
    hooks = [module.register_forward_hook(note) for module in layers]
    job.sample(net, _FEW, None, torch.Generator())
    for hook in hooks:
        hook.remove()
    return sum(sizes.values()) / _FEW
