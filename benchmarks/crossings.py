"""How many modules of Gossamer one private step goes through: the hops of somebody who reads along.

python benchmarks/crossings.py             one discriminator step of dpgan, in the middle of a run
python benchmarks/crossings.py --pairs 20  and which modules call one another most often

A *module* is a file of src/gossamer in which a function ran during the step. A *call* begins a function, a comprehension or the
next part of a generator. A *crossing* is a call from one such file to another, whatever of Python and PyTorch is in between.
The step is what `methods/dpgan/loop.py: train` does from one yield to the next, with its records and their noise. What the
driver does between two steps (events, checkpoints, epsilon used so far) is counted apart. Counts follow no clock.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import gossamer
from gossamer.data.card import DataCard
from gossamer.methods.dpgan import loop

ROOT, MEASURED = str(Path(gossamer.__file__).parent) + "/", 15
"""The source, and the step that is measured: the generator learns in every tenth."""


def counting(pairs: Counter[tuple[str, str]]) -> Any:
    """A profiler that counts calls by caller and called: files of the source."""

    def count(frame: FrameType, event: str, arg: object) -> None:  # noqa: ARG001 (what Python gives)
        above: FrameType | None = frame.f_back
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            while above is not None and not above.f_code.co_filename.startswith(ROOT):
                above = above.f_back
            caller = above.f_code.co_filename if above is not None else ROOT
            pairs[caller.removeprefix(ROOT), frame.f_code.co_filename.removeprefix(ROOT)] += 1

    return count


def main() -> None:
    """Fit, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=0, help="how many pairs of modules to show")
    shown, train = parser.parse_args().pairs, loop.train
    found: dict[str, Counter[tuple[str, str]]] = {"the step": Counter(), "the driver": Counter()}

    def watched(*given: Any) -> Any:
        for number, logs in enumerate(train(*given), 1):
            sys.setprofile(counting(found["the driver"]) if number == MEASURED else None)
            yield logs
            sys.setprofile(counting(found["the step"]) if number == MEASURED - 1 else None)

    loop.train = watched
    data = torch.randint(256, (600, 1, 28, 28)).byte().numpy(), torch.randint(10, (600,)).numpy()
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=600)
    with tempfile.TemporaryDirectory() as folder:
        settings = {"steps": 2 * MEASURED, "expected_batch_size": 64, "noise_multiplier": 1.0}
        gossamer.fit("dpgan", data=data, card=card, out=f"{folder}/run", delta=1e-5, **settings)
    for name, pairs in found.items():
        crossings = Counter({pair: count for pair, count in pairs.items() if pair[0] != pair[1]})
        modules = {called for _, called in pairs}
        print(f"{name}: {len(modules)} modules, {pairs.total()} calls, {crossings.total()} crossings")
        for (caller, called), count in crossings.most_common(shown):
            print(f"{count:8}  {caller} -> {called}")


if __name__ == "__main__":
    main()
