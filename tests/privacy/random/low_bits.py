"""An attack on the last bits of a sum with noise. Run as a script on a copy of `noise.py`, it loads little else of Gossamer.

    python tests/privacy/random/low_bits.py src/gossamer/privacy/random/noise.py

prints how many of 60 guesses were right on float32 and on float64 sums.
"""

import importlib.util
import math
import sys
from typing import Any

import numpy as np
import torch

MULTIPLIER, TRIALS, DIM = 10.0, 60, 2**17  # of norm 1: epsilon 0.34 at delta 1e-5


def right_guesses(rng: Any, dtype: torch.dtype) -> int:
    """How often an attacker names the right one of two neighbouring sums: zeros, or a vector of norm 0.71 with equal entries.

    Where a result is much smaller than an entry, the noise nearly cancelled that entry. A difference of two numbers of about
    its size is a multiple of their spacing. Noise alone, added to zero, takes smaller multiples.
    """
    entry = 2.0 ** math.floor(math.log2(DIM**-0.5))
    right = 0
    for coin in np.random.default_rng(22).integers(0, 2, TRIALS):
        released = rng.add_gaussian_(torch.full((DIM,), entry * coin, dtype=dtype), MULTIPLIER)
        small = released[released.abs() < entry / 2].double()
        guess = bool((small.remainder(entry * torch.finfo(dtype).eps / 2) == 0).all())
        right += guess == bool(coin)
    return right


def main() -> None:
    specification = importlib.util.spec_from_file_location("noise", sys.argv[1])
    assert specification is not None and specification.loader is not None
    noise = importlib.util.module_from_spec(specification)
    sys.modules["noise"] = noise
    specification.loader.exec_module(noise)
    rng = noise.Rng(noise_seed=21)
    print(right_guesses(rng, torch.float32), right_guesses(rng, torch.float64))


if __name__ == "__main__":
    main()
