"""How many private steps per second does DPGAN make, with the plain loop over records and with the fast clipped sum?

Both runs are the whole training loop (fakes, clipped sums, noise, Adam, generator step) on drawn glyphs as records, taken in
turns in one process. Prints a Markdown table: wall time per discriminator step, median over the steps.

    python benchmarks/dpgan.py --width 32 --batch 512 --steps 12
"""

import argparse
import functools
import statistics
import time
from collections.abc import Iterator

import torch

from gossamer.data.card import DataCard
from gossamer.data.synthetic.glyphs import draw
from gossamer.methods import METHODS
from gossamer.methods.dpgan import loop
from gossamer.methods.job import Job, StepResult
from gossamer.privacy.confined import Confined
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.per_sample_gradients.gradients import PerRecordGradient
from gossamer.privacy.random.noise import Rng
from gossamer.run.training.memory import tune_malloc


def training(form: str, options: argparse.Namespace) -> Iterator[StepResult]:
    """A run whose discriminator steps use one form of the clipped sum."""
    records = draw(6_000, seed=0)
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=len(records))
    settings = {"noise_multiplier": 1.0, "steps": 10_000, "expected_batch_size": options.batch, "width": options.width}
    job = Job.of(METHODS["dpgan"], settings, card)
    ledger = PrivacyLedger(budget=float("inf"), delta=1e-5)
    ledger.reserve(job.plan)
    loop.PerRecordGradient = functools.partial(PerRecordGradient, form=form)
    steps = job.begin(rng := Rng(0)).drive(Confined(records, ledger, rng))
    next(steps)  # looks at the networks once
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    tune_malloc()
    runs = {form: training(form, options) for form in ("slow", "fast")}
    seconds: dict[str, list[float]] = {form: [] for form in runs}
    for _ in range(options.steps):
        for form, steps in runs.items():
            started = time.perf_counter()
            next(steps)
            seconds[form].append(time.perf_counter() - started)
    print("| clipped sum | seconds per step | steps per second |\n|---|---|---|")
    for form, name in (("slow", "plain loop over records"), ("fast", "fast form")):
        median = statistics.median(seconds[form])
        print(f"| {name} | {median:.3f} | {1 / median:.2f} |")


if __name__ == "__main__":
    main()
