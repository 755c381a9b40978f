"""What torchrun says of this process, in its environment. Needs no PyTorch."""

import os

COMMANDS = ("fit", "resume")
"""Those that several processes can do together."""


def launched() -> bool:
    """Whether torchrun has started this process, and others beside it."""
    return "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def rank() -> int:
    """The number of this process; 0 without torchrun."""
    return int(os.environ["RANK"]) if launched() else 0


def local(device: str) -> str:
    """The device of this process: of several GPUs, the one with its number on this machine."""
    return f"cuda:{os.environ['LOCAL_RANK']}" if device == "cuda" and launched() else device
