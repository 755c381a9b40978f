"""Memory: how many records of a batch fit on a GPU at once, and pages that the process keeps between steps."""

import ctypes
import math
import sys
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from gossamer.methods.contract import BaseConfig, State, batch_of
from gossamer.methods.job import Job

_PASSES = 5
"""A batch, in sizes of the generator's activations: forward and backward, through two networks."""
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


def fitted(job: Job[BaseConfig, State], device: str, *, ranks: int = 1) -> Job[BaseConfig, State]:
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
    record = max(_activation_size(job, net), 4 * math.prod(job.card.shape))
    size = _PASSES * int(settings.get("multiplicity", 1)) * record
    free, _ = torch.cuda.mem_get_info(where)
    holds = max(1, int(_SHARE * free / size))
    expected = batch_of(int(settings["expected_batch_size"]), job.card) / ranks
    largest = expected + _DEVIATIONS * math.sqrt(expected)
    part = largest / math.ceil(largest / holds)
    fitting = min(holds, _MULTIPLE * math.ceil(part / _MULTIPLE))
    return Job.of(job.method, {**settings, "physical_batch_size": fitting}, job.card)


def _activation_size(job: Job[BaseConfig, State], net: nn.Module) -> float:
    """Return the bytes of a generator's activations for one picture. A layer that is called again counts once."""
    sizes: dict[nn.Module, int] = {}

    def note(layer: nn.Module, _inputs: object, output: Tensor) -> None:
        if not list(layer.children()):
            sizes[layer] = output.nbytes

    with register_module_forward_hook(note):
        job.sample(net, _FEW, None, torch.Generator())
    return sum(sizes.values()) / _FEW
