"""How fast is cryptographic noise? `Rng.add_gaussian_` against torch's own normals, one thread, interleaved.

Prints a Markdown table. Times are process CPU time, medians; a ratio is the median of the per-round ratios, with the
range of its middle half. `normal_` fills a warm buffer; `torch.randn` allocates a new one in every call. Torch draws in
float32; our noise is drawn and added in float64 and rounded to a grid. ATEN_CPU_CAPABILITY=default shows a processor
without AVX.

    python benchmarks/noise.py --rounds 40
"""

import argparse
import platform
import statistics
import time
from collections.abc import Callable

import torch

from gossamer.privacy.random.noise import Rng


def cpu_ms(work: Callable[[], object]) -> float:
    """Process CPU time of one call, in milliseconds."""
    start = time.process_time()
    work()
    return 1e3 * (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="interleaved rounds (default 40)")
    parser.add_argument(
        "--numbers", type=int, default=1_724_289, help="normals per call (default: the critic of DPGAN)"
    )
    options = parser.parse_args()

    torch.set_num_threads(1)
    rng, out = Rng(), torch.zeros(options.numbers)
    contestants: dict[str, Callable[[], object]] = {
        "torch normal_ (warm buffer)": out.normal_,
        "torch randn (new buffer)": lambda: torch.randn(options.numbers),
        "Rng.add_gaussian_ (adds, warm buffer)": lambda: rng.add_gaussian_(out, 1.0),
    }
    for work in contestants.values():
        work()
    rounds = [{name: cpu_ms(work) for name, work in contestants.items()} for _ in range(options.rounds)]

    print(f"{options.numbers:,} float32 normals, 1 thread, {options.rounds} rounds, torch {torch.__version__},")
    print(f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}\n")
    bases = [name for name in contestants if name.startswith("torch")]
    print("| | CPU ms |" + "".join(f" ratio to `{base.split()[1]}` | middle half |" for base in bases))
    print("|---" * (2 + 2 * len(bases)) + "|")
    for name in contestants:
        print(f"| {name} | {statistics.median(times[name] for times in rounds):.2f} |", end="")
        for base in bases:
            low, middle, high = statistics.quantiles([times[name] / times[base] for times in rounds], n=4)
            print(f" {middle:.2f} | {low:.2f}-{high:.2f} |", end="")
        print()


if __name__ == "__main__":
    main()
