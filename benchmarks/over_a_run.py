"""Figures over a run: a training on public records is stopped at some steps, and its generator is judged there.

    python benchmarks/over_a_run.py dpgan --data ROOT/mnist --card card.toml --steps 500 1000 2000 4000 --out runs/curve
    python benchmarks/over_a_run.py privgan --data digits --card card.toml --steps 100 1000 --out runs/curve -- --pairs 2

What follows after `--` goes to `gossamer.fit`: a preset, settings, epsilon. Each stop writes a line to figures.jsonl: the
accuracy of a CNN that learns from 12,000 samples (on the test split), and the Frechet distance in features of a classifier
that learnt from real records. Samples are beside it, ten a class. The same command goes on where it was stopped, and draws
figures.svg again. It judges on real records again and again: for public data and research alone.

Figures 1 to 4 of Bie et al. 2023, figure 4 of Chen et al. 2020, figures 2, 8 and 9 of Mukherjee et al. 2021.
"""

import argparse
import dataclasses
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib import image
from matplotlib.figure import Figure

import gossamer
from gossamer.data.records import Records
from gossamer.data.source import Source
from gossamer.errors import Interrupted
from gossamer.events import PROGRESS, Event
from gossamer.kinds.pictures import PICTURES
from gossamer.methods.synthesizer import Synthesizer
from gossamer.metrics import classify
from gossamer.metrics.features import ClassifierFeatures
from gossamer.metrics.fidelity import frechet
from gossamer.privacy.random.noise import Rng
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.training.open_run import OpenRun
from gossamer.run.training.progress import Process

SAMPLES, A_CLASS = 12_000, 10
ACCURACY, DISTANCE = "accuracy", "Frechet distance"


@dataclasses.dataclass
class Stops:
    """A sink that stops the run, as Ctrl-C does, at the next of some steps of its training."""

    steps: Sequence[int]
    done: int = 0

    def __call__(self, event: Event) -> None:
        if (
            event.kind == PROGRESS
            and event.phase == "training"
            and any(self.done < at <= event.step for at in self.steps)
        ):
            self.done = event.step
            os.kill(os.getpid(), signal.SIGINT)


def generators(
    method: str, run: Path, steps: Sequence[int], done: int, given: dict[str, Any]
) -> Iterator[tuple[int, Any]]:
    """The step of each stop and the generator there, and at the end of the run. done: the last step that was judged."""
    stops = Stops(steps, done)
    while True:
        try:
            process = Process(sink=stops)
            if RunFolder(run).begun or RunFolder(run).finished:
                finished = gossamer.resume(run, process=process)
            else:
                finished = gossamer.fit(method, out=run, process=process, **given)
        except Interrupted:
            with OpenRun.resume(RunFolder(run), process=Process(progress=False)) as opened:
                training = opened.job.begin(Rng(0))
                opened.restore(training.state)
            stops.done = training.state.step
            yield training.state.step, Synthesizer(training.state.released, opened.job, None, run)  # type: ignore[arg-type]  # none yet
        else:
            events = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
            yield max(each["step"] for each in events if each["phase"] == "training"), finished
            return


def judged(
    generator: Any, train: Records, test: Records, features: ClassifierFeatures, pictures: Path
) -> dict[str, Any]:
    """Accuracy and distance of one generator. Its samples go to a file."""
    drawn, classes = generator.sample(SAMPLES, seed=0), generator.job.card.classes
    rows = [drawn.images[np.flatnonzero(drawn.labels == label)[:A_CLASS]] for label in range(classes)]
    grid = np.concatenate([np.concatenate([*row], axis=-1) for row in rows if len(row) == A_CLASS], axis=-2)
    image.imsave(pictures, np.repeat(grid, 3 // len(grid), 0).transpose(1, 2, 0))
    found = {DISTANCE: frechet(drawn.images, train.images, features)}
    if classes > 1:
        found[ACCURACY] = classify.accuracy(
            drawn.images, drawn.labels, test.images, test.labels, classes=classes, protocol=classify.REDUCED, seed=0
        )
    return {name: dataclasses.asdict(each) for name, each in found.items()}


def draw(lines: Sequence[dict[str, Any]], out: Path, title: str) -> None:
    """Each figure against the step."""
    figures = [name for name in (ACCURACY, DISTANCE) if name in lines[0]["figures"]]
    page = Figure(figsize=(4 * len(figures), 3), layout="constrained")
    for name, axes in zip(figures, np.ravel(page.subplots(1, len(figures))), strict=True):
        axes.plot([each["step"] for each in lines], [each["figures"][name]["value"] for each in lines], "o-")
        axes.set(title=name, xlabel="step")
        axes.set_ylim(bottom=0)
    page.suptitle(title)
    page.savefig(out)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method")
    parser.add_argument("--data", required=True, help="public records with a train and a test split, or digits")
    parser.add_argument("--card", type=Path, required=True)
    parser.add_argument("--steps", type=int, nargs="+", required=True, help="where to stop")
    parser.add_argument("--out", type=Path, required=True)
    at = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    asked = parser.parse_args(sys.argv[1:at])
    words = sys.argv[at + 1 :]
    settings = {
        name.lstrip("-").replace("-", "_"): int(value) if value.isdigit() else _number(value)
        for name, value in zip(words[::2], words[1::2], strict=True)
    }
    torch.set_num_threads(1)
    asked.out.mkdir(parents=True, exist_ok=True)
    card = gossamer.DataCard.load(asked.card)
    train, test = (PICTURES.read(Source(f"{asked.data}:{split}"), card, split=split) for split in ("train", "test"))
    features = ClassifierFeatures.train(train.images, train.labels, classes=card.classes, seed=0)
    file = asked.out / "figures.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    delta = {"delta": 1e-5} if "epsilon" in settings else {}
    given = {"data": Source(asked.data, public_test_data=True), "card": card, **delta, **settings}
    done, began = max((each["step"] for each in lines), default=0), time.monotonic()
    for step, generator in generators(asked.method, asked.out / "RUN", asked.steps, done, given):
        if step <= done:  # the run was stopped at its last step
            continue
        done = step
        figures = judged(generator, train, test, features, asked.out / f"step-{step}.png")
        lines.append({"method": asked.method, "settings": settings, "step": step, "figures": figures})
        file.write_text("".join(json.dumps(each) + "\n" for each in lines))
        shown = ", ".join(f"{name} {each['value']:.3f}" for name, each in figures.items())
        print(f"step {step:,}: {shown} ({time.monotonic() - began:.0f} s)", flush=True)
        draw(lines, asked.out / "figures.svg", f"{asked.method} on {card.title or asked.data}")


def _number(word: str) -> float | str:
    try:
        return float(word)
    except ValueError:
        return word


if __name__ == "__main__":
    main()
