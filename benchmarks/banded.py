"""What banded noise does to the running sums of a training: its error as computed, and as measured on noise alone.

    python benchmarks/banded.py --units 60000 --batch 512 --steps 4000 --epsilons 10 3 1

The noise multiplier follows from epsilon for each number of bands. Errors are root mean squares over all steps, divided by
that of independent noise. No record is read.
"""

import argparse
import math

import numpy as np
import torch
from torch import Tensor

from gossamer.privacy.accounting.calibrate import calibrate_noise
from gossamer.privacy.guarantee import Plan
from gossamer.privacy.mechanisms.banded import error_of, gradient_sum
from gossamer.privacy.mechanisms.gaussian import PoissonGaussianSum
from gossamer.privacy.queries import Bounds
from gossamer.privacy.random.noise import Rng

NUMBERS = 2_000
"""Length of an answer of noise alone."""


class Nobody:
    """No unit, and a query whose sum over none is zero."""

    population = 0

    def take(self, _positions: np.ndarray) -> "Nobody":
        return self

    def clipped_sum(self, _records: "Nobody", _bounds: Bounds) -> Tensor:
        return torch.zeros(NUMBERS)


def measured(ask: PoissonGaussianSum, steps: int) -> float:
    """Root mean square of the running sums of noise alone."""
    nobody, rng, squares = Nobody(), Rng(), 0.0
    total = torch.zeros(NUMBERS, dtype=torch.float64)
    for _ in range(steps):
        total += ask(nobody, nobody, rng)
        squares += float(total.square().mean())
    return math.sqrt(squares / steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=60_000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4_000)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[10.0])
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--bands", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32])
    asked = parser.parse_args()
    print("| epsilon | bands | noise multiplier | error, computed | error, measured |\n|---|---|---|---|---|")
    for epsilon in asked.epsilons:
        alone: tuple[float, float] | None = None
        for bands in asked.bands:
            if bands * asked.batch > asked.units:
                continue

            def mechanism(noise: float, bands: int = bands) -> PoissonGaussianSum:
                rate = asked.batch / asked.units
                return gradient_sum(
                    sampling_rate=rate, max_norm=1.0, noise_multiplier=noise, steps=asked.steps, bands=bands
                )

            def plan(noise: float, bands: int = bands) -> Plan:
                return [(mechanism(noise, bands).event, -(-asked.steps // bands))]

            noise = calibrate_noise(plan, epsilon=epsilon, delta=asked.delta)
            found = noise * error_of(bands, asked.steps), measured(mechanism(noise), asked.steps)
            alone = alone or found
            errors = " | ".join(f"{mine / first:.3f}" for mine, first in zip(found, alone, strict=True))
            print(f"| {epsilon:g} | {bands} | {noise:.4f} | {errors} |", flush=True)


if __name__ == "__main__":
    main()
