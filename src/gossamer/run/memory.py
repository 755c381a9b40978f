"""Memory that stays with the process between steps."""

import ctypes
import sys

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
