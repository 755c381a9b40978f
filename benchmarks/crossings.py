"""How many modules of Gossamer one private step goes through: the hops of somebody who reads along.

python benchmarks/crossings.py       one discriminator step of dpgan in the middle of a run, and what the driver does then
python benchmarks/crossings.py 20    and the 20 pairs of modules that call one another most often

A *module* is a file of src/gossamer in which a function ran. A *call* begins a function or the next part of a generator. A
*crossing* is a call from one such file to another, whatever of Python and PyTorch is in between. The step is what
`methods/dpgan/loop.py: train` does from one yield to the next.
"""

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
FOUND: dict[str, Counter[tuple[str, str]]] = {"the step": Counter(), "the driver": Counter()}


def profile(part: str | None) -> None:
    """Count calls by caller and called from here on, for a part of a step; None: stop."""

    def count(frame: FrameType, event: str, _: object) -> None:
        above = frame.f_back
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            while above is not None and not above.f_code.co_filename.startswith(ROOT):
                above = above.f_back
            ends = (each.f_code.co_filename.removeprefix(ROOT) for each in (above, frame) if each is not None)
            FOUND[str(part)][next(ends), next(ends)] += 1

    sys.setprofile(None if part is None else count)


def watched(*given: Any, train: Any = loop.train) -> Any:
    for number, logs in enumerate(train(*given), 1):
        profile("the driver" if number == MEASURED else None)
        yield logs
        profile("the step" if number == MEASURED - 1 else None)


if __name__ == "__main__":
    loop.train = watched
    data = torch.randint(256, (600, 1, 28, 28)).byte().numpy(), torch.randint(10, (600,)).numpy()
    card = DataCard(shape=(1, 28, 28), classes=10, declared_size=600)
    with tempfile.TemporaryDirectory() as folder:
        given = {"data": data, "card": card, "out": folder, "delta": 1e-5}
        gossamer.fit("dpgan", noise_multiplier=1, steps=30, expected_batch_size=64, **given)
    for name, pairs in FOUND.items():
        crossings = Counter({pair: count for pair, count in pairs.items() if pair[0] != pair[1]})
        print(f"{name}: {len({to for _, to in pairs})} modules, {pairs.total()} calls, {crossings.total()} crossings")
        for (caller, called), count in crossings.most_common(int([*sys.argv, "0"][1])):
            print(f"{count:8}  {caller} -> {called}")
