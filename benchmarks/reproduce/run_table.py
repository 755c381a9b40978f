"""Run the cells of a table that have no JSON file yet, one after the other, until all are done or time is over."""

import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.reproduce import commands, datasets, result_files
from benchmarks.reproduce.run_cell import Places, delete_work, run_cell
from benchmarks.reproduce.tables import SEEDS, Cell, Scale, Table
from gossamer.errors import DataError, DiskFull, GossamerError, Interrupted, RequestError, did_you_mean
from gossamer.events import PROGRESS, Event, Sink, note
from gossamer.run.storage import run_folder

STOPPED = "stopped; nothing that is finished is lost. The same command goes on."


def run(  # noqa: PLR0913 (its arguments are the options of a command)
    table: Table,
    *,
    root: Path,
    work: Path,
    into: Path,
    scale: Scale = "laptop",
    seeds: Sequence[int] = SEEDS,
    only: Sequence[str] = (),
    minutes: float | None = None,
    device: str = "cpu",
    keep: bool = False,
    inception: Path | None = None,
    sink: Sink,
) -> None:
    """Run the cells of a table that have no JSON yet, and that no other process is at.

    Args:
        table: the table.
        root: where the data sets lie.
        work: where runs are worked on; what is unfinished there goes on.
        into: the folder of results.
        scale: settings for two cores, or those of the paper.
        seeds: one run of each row for each.
        only: names of rows; empty: all.
        minutes: stop after so many: in training at a checkpoint, else after the part that has begun.
        device: "cpu" or "cuda".
        keep: keep the folders of runs that are done.
        inception: weights of Inception-V3, of a table that is measured with them.
        sink: takes all events.

    Raises:
        RequestError: if there is no such row, or nothing at this scale.
        DataError: after all else is done, if data sets are not below `root`; names the rows.
        Interrupted: if it was stopped, or its minutes were over. The same command goes on.
        GossamerError: after all else is done, if cells failed; names them.
    """
    asked = chosen(table, scale, seeds, only)
    away = datasets.missing([cell.row.data for cell in asked], root)
    todo = [cell for cell in asked if cell.row.data not in away and result_files.load(into, cell) is None]
    work.mkdir(parents=True, exist_ok=True, mode=0o700)
    if todo:
        sink(note(
            f"{len(todo)} of {len(asked)} cells are to be run. Each has an account book of its own below {work}, and yours is "
            "not touched: these are researchers' public data sets, and nobody's budget is spent."
        ))  # fmt: skip
    places = Places(root=root, work=work, device=device, inception=inception)
    failed: dict[str, str] = {}
    until = _Until(minutes)
    for number, cell in enumerate(todo, 1):
        until.check()
        about = {"table": table.name, "row": cell.row.name, "scale": scale}
        try:
            lock = places.hold(cell)
        except BlockingIOError:
            sink(note(f"{number} of {len(todo)}: another process is at {cell.row.label}, seed {cell.seed}"))
            continue
        with lock:
            if result_files.load(into, cell) is None:  # nobody has run it meanwhile
                sink(note(f"{number} of {len(todo)}: {cell.row.label}, seed {cell.seed}"))
                try:
                    result = run_cell(cell, places, sink=sink, training=until.watching(sink), about=about)
                except (Interrupted, KeyboardInterrupt):  # the second: outside of a training, which hears for itself
                    raise Interrupted(STOPPED) from None
                except DiskFull:
                    raise
                except GossamerError as error:
                    failed[f"{cell.row.name}, seed {cell.seed}"] = str(error)
                    sink(note(f"This cell failed, and the others go on: {error}"))
                    continue
                result_files.save(into, cell, result, samples=_samples(table, cell, places))
            if not keep:
                delete_work(cell, places)
    if failed:
        told = "; ".join(f"{name}: {words}" for name, words in failed.items())
        raise GossamerError(f"{len(failed)} of {len(todo)} cells failed, and all others are done. {told}")
    if away:
        raise DataError(_away(away, [cell for cell in asked if cell.row.data in away], table, root))


def _samples(table: Table, cell: Cell, places: Places) -> Path | None:
    """The picture of a release's samples, if the page is to show it."""
    path = places.folder(cell) / commands.RUN / run_folder.SAMPLES
    return path if table.show_samples and cell.row.method and cell.seed == SEEDS[0] and path.is_file() else None


def chosen(table: Table, scale: Scale, seeds: Sequence[int], only: Sequence[str]) -> list[Cell]:
    """The cells that were asked for.

    Raises:
        RequestError: if a row is not there, or none is run at this scale.
    """
    names = [row.name for row in table.rows]
    for name in only:
        if name not in names:
            raise RequestError(
                f"{table.name} has no row {name!r}.{did_you_mean(name, names)} Its rows: {', '.join(names)}."
            )
    cells = [cell for cell in table.cells(scale, seeds) if not only or cell.row.name in only]
    if not cells:
        raise RequestError(
            f"{table.name} has no such rows to run at the scale of {scale}. Leave --only or --scale out."
        )
    return cells


def _away(away: Sequence[str], cells: Sequence[Cell], table: Table, root: Path) -> str:
    rows: Mapping[str, list[str]] = {
        name: list(dict.fromkeys(cell.row.name for cell in cells if cell.row.data == name)) for name in away
    }
    told = "; ".join(
        f"{datasets.DATASETS[name].title} ({root / datasets.DATASETS[name].where}), for {', '.join(rows[name])}"
        for name in away
    )
    return (
        f"these data sets of {table.name} are not below {root}: {told}. Put them there (docs/reproduce.md says in what form), "
        "or leave these rows out with --only. All other rows have been seen to."
    )


class _Until:
    """When to stop: after so many minutes."""

    def __init__(self, minutes: float | None) -> None:
        self._ends = None if minutes is None else time.monotonic() + 60 * minutes
        self._told = False

    @property
    def _over(self) -> bool:
        return self._ends is not None and time.monotonic() >= self._ends

    def check(self) -> None:
        """Between two cells."""
        if self._over:
            raise Interrupted(STOPPED)

    def watching(self, sink: Sink) -> Sink:
        """A sink that stops a training as Ctrl-C does: where nothing is lost."""

        def watch(event: Event, /) -> None:
            sink(event)
            if event.kind == PROGRESS and self._over and not self._told:
                self._told = True
                signal.raise_signal(signal.SIGINT)

        return watch
