"""Networks whose first weights follow from a public seed."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def initialised_by(stream: torch.Generator) -> Iterator[None]:
    """Inside, PyTorch's default initialisation draws from `stream`; the global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**62, (1,), generator=stream)))
        yield
