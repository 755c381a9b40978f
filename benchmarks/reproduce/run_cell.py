"""Run one cell: fit, sample, evaluate and attack. A cell that was interrupted continues from its checkpoint."""

import datetime
import json
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import torch

from benchmarks.reproduce import commands, datasets, subset
from benchmarks.reproduce.machine import machine, software
from benchmarks.reproduce.metrics import classical
from benchmarks.reproduce.metrics.measure import measure
from benchmarks.reproduce.result_files import SCHEMA
from benchmarks.reproduce.tables import Cell
from gossamer.data.card import DataCard
from gossamer.data.samples.samples import Samples
from gossamer.events import Event, Sink
from gossamer.files import hold, write_atomically
from gossamer.methods.synthesizer import Synthesizer
from gossamer.metrics.metric import Measures
from gossamer.run.evaluation.attack import attack
from gossamer.run.evaluation.evaluate import evaluate
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.training.fit import fit
from gossamer.run.training.progress import Process
from gossamer.run.training.resume import resume

NONE, NOTHING_READ = "none", "nothing read"
"""In place of a guarantee: of a run that has none, and of records that cost none."""
ACCOUNTS, BASELINES = "accounts", "baselines"
"""An account book in the folder of each cell: a hundred runs in one book would take minutes to add up before each run. And in
the work folder, what depends on real records alone."""
LOCK = "lock"
"""Held in the folder of a cell by the process that is at it."""
KEEP_EVERY = 5.0
"""Seconds after which a cell's clock is written down again: what a killed process loses of it at most."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where things are.

    Args:
        root: the public data sets, see `datasets`.
        work: the folder of runs that are under way.
        device: where networks are.
        inception: weights of Inception-V3, if the table is measured with them.
    """

    root: Path
    work: Path
    device: str = "cpu"
    inception: Path | None = None

    def folder(self, cell: Cell) -> Path:
        """Where a cell is worked on."""
        return self.work / "cells" / cell.name

    def hold(self, cell: Cell) -> IO[bytes]:
        """Make that folder, and keep other processes out of it until what is given is closed.

        Raises:
            BlockingIOError: if another process holds it.
        """
        while True:
            self.folder(cell).mkdir(parents=True, exist_ok=True, mode=0o700)
            try:
                return hold(self.folder(cell) / LOCK, wait=False)
            except FileNotFoundError:  # whoever held it has just deleted it
                continue


def run_cell(cell: Cell, places: Places, *, sink: Sink, training: Sink, about: Mapping[str, str]) -> dict[str, Any]:
    """Run a cell, or continue it, and return its result, ready for JSON.

    Args:
        cell: what is run.
        places: where; `cell` is held there.
        sink: takes the events of evaluation and attacks.
        training: takes those of the training.
        about: table, row and scale for which it is run.

    Raises:
        Interrupted: if it was stopped in training.
        GossamerError: what its commands raise.
    """
    folder = places.folder(cell)
    clock = _Clock(folder / "seconds.json")

    def timed(to: Sink) -> Sink:
        def seen(event: Event, /) -> None:
            clock.keep()
            to(event)

        return seen

    whole = datasets.source(cell.row.data, places.root)
    data = whole
    toy = datasets.data_set(cell.row.data).toy
    if cell.row.records or toy:
        data = str(folder / commands.SUBSET)
        if not Path(data).exists():
            subset.write_subset(whole, cell.row.size, Path(data))
    if toy:
        whole = data
    card = datasets.card_of(cell.row.data, cell.row.size)
    card.save(folder / commands.CARD)
    guarantee: dict[str, Any] | str = NOTHING_READ
    noise = None
    if cell.row.method:
        with clock.of("fit"):
            synthesizer = _trained(cell, data, folder, places, timed(training))
        guarantee = _guarantee(synthesizer)
        noise = synthesizer.job.settings.get("noise_multiplier")
        if not cell.measures.needs_run:
            with clock.of("sample"):
                count = cell.measures.samples
                Samples.write(
                    folder / commands.SAMPLES, synthesizer.stream(count, seed=cell.seed), count=count, force=True
                )
    with clock.of("evaluate"):
        metrics, left_out = _evaluated(cell, data, whole, places, timed(sink))
    attacks: list[dict[str, Any]] = []
    if cell.row.attack:
        with clock.of("attack"):
            process = Process(sink=timed(sink))
            attacked = attack(folder / commands.RUN, members=data, nonmembers=whole, seed=cell.seed, process=process)
        attacks = [{name: value for name, value in entry.items() if name != "roc"} for entry in attacked.attacks]
    return {
        "schema": SCHEMA,
        **about,
        "seed": cell.seed,
        "digest": cell.digest,
        "resolved": cell.resolved,
        "noise_multiplier": noise,
        "guarantee": guarantee,
        "metrics": metrics,
        "left_out": left_out,
        "attacks": attacks,
        "seconds": clock.seconds,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(places.device) | {"threads": clock.threads},
        "software": software(),
        "commands": commands.commands(cell, places.device),
        "card": card.to_dict(),
    }


def _evaluated(
    cell: Cell, data: str, whole: str, places: Places, sink: Sink
) -> tuple[Sequence[Mapping[str, Any]], dict[str, str]]:
    """The figures of a cell, and the metrics that were left out, each with its reason."""
    folder = places.folder(cell)
    if cell.measures.of_papers:
        return measure(
            folder / commands.RUN, cell.measures.metrics, train=data, test=whole, labelled=cell.measures.labelled,
            seed=commands.INSTRUMENTS, sink=sink,
        ), {}  # fmt: skip
    classical.register(cell.measures.limit)
    weights = None if places.inception is None else (places.inception, cell.measures.inception)
    how = Measures(**commands.measured(cell), cache=places.work / BASELINES, inception=weights)
    found = evaluate(
        cell.row.samples_of or folder / commands.evaluated(cell), train=data, test=whole,
        process=Process(sink=sink), out=folder / commands.METRICS,
        card=None if cell.measures.needs_run else folder / commands.CARD,
        seed=commands.INSTRUMENTS, metrics=how,
    )  # fmt: skip
    return found.metrics, found.left_out


def delete_work(cell: Cell, places: Places) -> None:
    """Delete the work folder of a cell: generators are large."""
    shutil.rmtree(places.folder(cell), ignore_errors=True)


def _trained(cell: Cell, data: str, folder: Path, places: Places, sink: Sink) -> Synthesizer:
    """The release of a cell's run: fitted, resumed, or loaded where it had ended."""
    out = folder / commands.RUN
    arguments = commands.fit_arguments(cell)
    if (share := arguments.pop("public_share", None)) is not None:
        arguments["public"] = share
    if RunFolder(out).begun:
        return resume(out, process=Process(sink=sink))
    return fit(
        cell.row.method, data=data, card=DataCard.load(folder / commands.CARD), out=out, device=places.device,
        accounts=folder / ACCOUNTS, process=Process(sink=sink), **arguments,
    )  # fmt: skip


def _guarantee(synthesizer: Synthesizer) -> dict[str, Any] | str:
    found = synthesizer.certificate.guarantee
    return NONE if found["epsilon"] == "inf" else dict(found)


class _Clock:
    """Seconds of each part of a cell, on the wall and of the processor, and its threads, through stops and crashes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.seconds: dict[str, dict[str, float]] = {}
        if path.is_file():
            self.seconds = json.loads(path.read_text(encoding="utf-8"))
        self._part = ""
        self._last = self._now()

    @contextmanager
    def of(self, part: str) -> Iterator[None]:
        """Time what is done inside; a part that is begun once more after a crash takes all that it took."""
        self._part, self._last = part, self._now()
        passed = self.seconds.setdefault(part, {"wall": 0.0, "cpu": 0.0, "threads": 0})
        passed["threads"] = max(passed["threads"], torch.get_num_threads())
        try:
            yield
        finally:
            self._add()

    @property
    def threads(self) -> int:
        """The most that a part had: a cell may be gone on with by a process that has fewer."""
        return int(max(part["threads"] for part in self.seconds.values()))

    def keep(self) -> None:
        """Write down what has passed, now and then."""
        if self._part and time.monotonic() - self._last[0] >= KEEP_EVERY:
            self._add()

    def _add(self) -> None:
        now = self._now()
        passed = self.seconds[self._part]
        passed["wall"] = round(passed["wall"] + now[0] - self._last[0], 2)
        passed["cpu"] = round(passed["cpu"] + now[1] - self._last[1], 2)
        self._last = now
        write_atomically(self._path, json.dumps(self.seconds))

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.monotonic(), time.process_time()
