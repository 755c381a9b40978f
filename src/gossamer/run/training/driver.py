"""The driver of a run: it writes events and checkpoints, shows progress, and stops at Ctrl-C."""

import math
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from gossamer.errors import DiskFull, Diverged, Interrupted, RunFolderError, is_full
from gossamer.events import Event, Sink, progress
from gossamer.lazy import Lazy
from gossamer.methods.contract import BaseConfig, OnPublic, State
from gossamer.methods.job import StepResult, Training
from gossamer.methods.synthesizer import Synthesizer, save_model
from gossamer.privacy.accounting.cost import Odometer
from gossamer.privacy.distributed import Next
from gossamer.privacy.guarantee import rounded_up
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.per_sample_gradients.rounding import full_precision
from gossamer.run.storage.data_sources import LoadedData
from gossamer.run.storage.run_folder import EVENTS, WARM, RunFolder
from gossamer.run.training import checkpoint, disk_space, distributed
from gossamer.run.training.memory import fitted, tune_malloc
from gossamer.run.training.open_run import OpenRun
from gossamer.run.training.progress import JsonLines, to_all
from gossamer.run.training.signals import stop_on_signal
from gossamer.run.training.torchrun import local

if TYPE_CHECKING:
    from gossamer.run.report import html
else:
    html = Lazy("gossamer.run.report.html")


def train_and_certify(run: OpenRun, data: LoadedData, *, report: bool = True) -> Synthesizer:
    """Train from the last checkpoint to the end, then certify, and write the report.

    Args:
        run: with its cost in the budget log.
        data: its records. The certificate and the report cannot reach them.
        report: whether to write one now. `save`, `evaluate` and `attack` write what is missing.

    Raises:
        Interrupted: after Ctrl-C.
        DiskFull: if the disk is full; `resume` goes on.
        RunFolderError: if the plan is used up and nothing was trained.
    """
    with _disk_full(run.folder, lambda: "everything that was trained is kept", said=DiskFull):
        run = run.looked(data.private)
        synthesizer = run.finish(train(run, data))
        if report:
            html.write_report(run.folder.path, internal=True)
    return synthesizer


def train(run: OpenRun, data: LoadedData) -> State:
    """Go through the method's phases from the last checkpoint to the end, and return the last state.

    Args:
        run: the run.
        data: its records: the private ones isolated, and the public ones.

    Raises:
        Interrupted: after Ctrl-C.
        DiskFull: if the disk is full; `resume` goes on.
        RunFolderError: if the plan is used up and nothing was trained, or another version began the run.
    """
    tune_malloc()
    job = fitted(run.job, local(run.device), ranks=run.ranks.count)
    training = job.begin(run.rng, local(run.device), run.ranks)
    checkpoint.reserve_disk(run.folder.private, disk_space.state(training.state.released), must=True)
    distributed.lead(run, data)
    if checks := distributed.check_devices(run.device, job.settings, run.ranks):
        run.ledger.note_device(checks)
    up_to = None
    if run.saved is not None:
        run.restore(training.state)
        up_to = training.state.phase, training.state.step
    with closing(JsonLines(run.folder.file(EVENTS), up_to=up_to)) as lines:
        emit = to_all([lines, run.sink])
        with full_precision():  # of which a method may leave some in passes that bound nothing
            _drive(run, data, training, emit)
        if not training.trained:
            raise untrained(run.folder)
        checkpoint.free_reserve(run.folder.private)
        run.measure(training.state, data.private)
        emit(Event("done", training.state.step, {}, training.state.phase))
    return training.state


def _drive(run: OpenRun, data: LoadedData, training: Training[BaseConfig, State], emit: Sink) -> None:
    """Take every step, send its public values to the sinks, and write a checkpoint when it is due."""
    clock, spent = checkpoint.Clock(), _spent_so_far(run.ledger)

    def save() -> float:
        if not checkpoint.finite(training.state.state_dict()):
            raise _diverged(run.folder, training.state)
        return run.save(training.state)

    full: OSError | None = None
    with _disk_full(run.folder, lambda: _save_to_reserve(run, save)), stop_on_signal() as stop:
        private = data.private.map(lambda records: distributed.part_of(records, run.job, run.ranks, run.rng))
        for result in training.drive(private, data.public):
            if result.logs is None and isinstance(result.phase, OnPublic) and not any(run.ledger.used):
                run.ledger.check_place()
                save_model(run.folder.private / WARM, training.state.released)
            try:
                _emit_step(result, emit, spent)
            except OSError as error:
                if not is_full(error):
                    raise
                full = error  # stop at the end of the block, as after Ctrl-C
            # A phase that is over cannot be repeated: its queries are used.
            paid_for = result.logs is None and result.phase.releases
            stopping = bool(full or stop)
            if run.ledger.prepaid == 0 and (stopping or paid_for or clock.due()):
                run.ranks.next(Next.CHECKPOINT_AND_STOP if stopping else Next.CHECKPOINT)
                clock.written(save())
                if full:
                    raise full
                if stopping:
                    raise Interrupted(
                        f"stopped at step {result.step:,} of the {result.phase.name}; nothing is lost. Go on with "
                        f"`gossamer.resume({str(run.folder.path)!r})`."
                    )
            else:
                run.ranks.next(Next.STEP)
        save()


def _diverged(folder: RunFolder, state: State) -> Diverged:
    """Return the error for a network with a value that is not finite. No checkpoint of it is written."""
    saved = checkpoint.saved_position(folder.private)
    last = f"checkpoint of step {saved[1]:,} of the {saved[0]} is kept" if saved else "run has no checkpoint yet"
    return Diverged(
        f"the training has diverged: at step {state.step:,} of the {state.phase} a network has a value that is not finite. The "
        f"{last}. `gossamer.resume({str(folder.path)!r})` tries again from there with fresh noise and the rest of the plan. "
        "Where it diverges again, take smaller step sizes in a new run."
    )


def _save_to_reserve(run: OpenRun, save: Callable[[], float]) -> str:
    """Write the last state into the reserved space of a full disk. Returns what is kept, in words."""
    checkpoint.free_reserve(run.folder.private)
    lost = "the last checkpoint is kept, and what was trained after it is lost"
    if checkpoint.saved_position(run.folder.private) is None:
        lost = "there was no checkpoint yet: what was trained is lost"
    if run.ranks.count > 1:  # the others are elsewhere by now
        return lost
    try:
        save()
    except Exception as error:  # PyTorch reports a full disk by errors of its own; all others go on
        if not is_full(error):
            raise
        return lost
    return "everything that was trained is kept"


@contextmanager
def _disk_full(folder: RunFolder, kept: Callable[[], str], *, said: tuple[()] | type[DiskFull] = ()) -> Iterator[None]:
    """Turn the error of a full disk into a DiskFull. kept: saves what it can, and says what is kept. said: goes on as it is."""
    try:
        yield
    except Exception as error:  # PyTorch reports a full disk by errors of its own; all others go on
        if isinstance(error, said) or not is_full(error):
            raise
        raise DiskFull(
            f"the disk of {folder.path} is full; {kept()}. Free some space, then go on with "
            f"`gossamer.resume({str(folder.path)!r})`."
        ) from None


def _emit_step(result: StepResult, emit: Sink, spent: Callable[[], float]) -> None:
    """Send the progress and, now and then, the figures of the step."""
    phase, step = result.phase, result.step
    if result.logs is None:
        return
    emit(progress(phase.name, step, phase.steps, f"epsilon used {rounded_up(spent())}" if phase.releases else ""))
    if phase.worth_keeping(step):
        values: dict[str, float | int | str] = {
            name: value if isinstance(value, int) else float(value) for name, value in result.logs.items()
        }
        if phase.releases:
            epsilon = spent()
            values["epsilon_spent"] = "inf" if math.isinf(epsilon) else epsilon
        emit(Event("step" if phase.releases else "warm", step, values, phase.name))


def _spent_so_far(ledger: PrivacyLedger) -> Callable[[], float]:
    """Return epsilon used so far, for display: by RDP, which is quick, and never above that of the whole plan."""
    odometer = Odometer(ledger.plan, delta=ledger.delta, relation=ledger.relation)
    promise = ledger.promise().epsilon
    return lambda: math.inf if ledger.reasons else min(odometer.epsilon(ledger.used), promise)


def untrained(folder: RunFolder) -> RunFolderError:
    """Return the error for a run that has used its plan without a trained generator."""
    return RunFolderError(
        f"{folder.path} has used its whole plan, and a crash came before the first checkpoint. An untrained generator is not "
        f"certified. Delete the run with `gossamer.discard({str(folder.path)!r})` and start another; the budget log keeps both "
        "costs."
    )
