"""What torchrun's environment variables say about this process. Needs no PyTorch."""

import os
import signal
import time

COMMANDS = ("fit", "resume")
"""Commands that several processes can run together."""

SPOKEN = 30.0
"""Seconds within which rank 0 says why it fails: it may load PyTorch more slowly than the others."""


def launched() -> bool:
    """Whether torchrun has started this process, and others beside it."""
    return "TORCHELASTIC_RUN_ID" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def rank() -> int:
    """The number of this process; 0 without torchrun."""
    return int(os.environ["RANK"]) if launched() else 0


def local(device: str) -> str:
    """The device of this process: of several GPUs, the one with its number on this machine."""
    return f"cuda:{os.environ['LOCAL_RANK']}" if device == "cuda" and launched() else device


def wait_for_the_words() -> None:
    """Wait until torchrun stops this rank: rank 0 must fail first, with the reason."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # `follow` ignores it
    time.sleep(SPOKEN)
