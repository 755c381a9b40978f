"""In which precision products are computed: where they may be narrow, and where never.

A run may ask for less than single precision in the forward pass of a loss and in the gradients of its inputs. Two contexts keep
that apart from what bounds privacy:

- `lowered`, around a forward and backward pass. What the tape then holds is rounded, and defines the gradient (`rounding`).
- `full_precision`, around norms and sums, whatever a caller has switched on.

The rounded pair of a record must not depend on the rest of the batch. Otherwise one record more would change the gradients of
the others, by a last bit of bfloat16. Libraries choose how they add up by the size of a batch. So in narrow precision, and on
a GPU in any precision, all physical batches have one size (`one_size`).
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, TypeAlias

import torch

Precision: TypeAlias = Literal["fp32", "tf32", "bf16"]
"""Of products in forward and backward passes: single precision; the same with 10 bits on GPUs that have it; bfloat16."""


@contextmanager
def lowered(precision: Precision, device: torch.device | str) -> Iterator[None]:
    """Forward and backward pass in this precision, while it is entered. A CPU has no TF32.

    "fp32" on a GPU is float32 for products too: PyTorch takes TF32 in convolutions where nothing is said.
    """
    with ExitStack() as stack:
        if torch.device(device).type == "cuda":
            stack.enter_context(_same_every_time())
        if precision == "bf16":
            stack.enter_context(torch.autocast(torch.device(device).type, torch.bfloat16))
        elif torch.device(device).type == "cuda":
            stack.enter_context(_float32_products(gpu="tf32" if precision == "tf32" else "ieee"))
        yield


def one_size(precision: Precision, device: torch.device) -> bool:
    """Whether all physical batches are filled up to one size, so that no record changes how others are computed.

    Not in single precision on a CPU: what the size of a batch changes there is within the slack of the bounds (`rounding`).
    On an H200 it was 2 % of max_norm for 500 records, where PyTorch had taken TF32 (docs/gpu.md).
    """
    return precision != "fp32" or device.type != "cpu"


@contextmanager
def full_precision() -> Iterator[None]:
    """Products of float32 numbers in float32, on every device, and the same every time, while it is entered.

    TF32 on a GPU, bfloat16 inside a matrix product of the CPU, and autocast bound nothing (`docs/proofs.md`, condition 13).
    """
    with ExitStack() as stack:
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        stack.enter_context(_float32_products(gpu="ieee", processor="ieee"))
        stack.enter_context(_same_every_time())
        yield


@contextmanager
def _same_every_time() -> Iterator[None]:
    """Convolutions that give the same bits every time, while it is entered.

    Others add up in the order in which parts of the GPU are done. On an H100 in bfloat16 that moved the gradients of 95 records
    by 5e-3 of max_norm from one call to the next (docs/gpu.md).
    """
    before = torch.backends.cudnn.deterministic
    torch.backends.cudnn.deterministic = True
    try:
        yield
    finally:
        torch.backends.cudnn.deterministic = before


@contextmanager
def _float32_products(*, gpu: str, processor: str | None = None) -> Iterator[None]:
    """How products of float32 numbers are computed; None: as before."""
    backends: Any = torch.backends
    if not hasattr(backends.cuda.matmul, "fp32_precision"):  # torch before 2.9
        matmul, convolution = torch.get_float32_matmul_precision(), backends.cudnn.allow_tf32
        torch.set_float32_matmul_precision("high" if gpu == "tf32" else "highest")
        backends.cudnn.allow_tf32 = gpu == "tf32"
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(matmul)
            backends.cudnn.allow_tf32 = convolution
        return
    wanted = [(backends.cuda.matmul, gpu), (backends.cudnn.conv, gpu)]
    if processor is not None:
        wanted += [(backends.mkldnn.matmul, processor), (backends.mkldnn.conv, processor)]
    before = [place.fp32_precision for place, _ in wanted]
    for place, precision in wanted:
        place.fp32_precision = precision
    try:
        yield
    finally:
        for (place, _), precision in zip(wanted, before, strict=True):
            place.fp32_precision = precision
