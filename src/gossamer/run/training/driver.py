"""The driver of a run: thins events, shows progress, writes checkpoints, and stops at Ctrl-C."""

import math
from collections.abc import Callable
from contextlib import closing
from typing import Any, TypeAlias

from gossamer.errors import DiskFull, Diverged, Interrupted, RunFolderError, is_full
from gossamer.events import Event, Sink, progress
from gossamer.files import write_atomically
from gossamer.methods.method import BaseConfig, OnPublic, State, StepResult, Training
from gossamer.methods.synthesizer import model_bytes
from gossamer.privacy.accounting.cost import Odometer
from gossamer.privacy.distributed import Next
from gossamer.privacy.guarantee import rounded_up
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.per_sample_gradients.precision import full_precision
from gossamer.run.storage.data_sources import LoadedData
from gossamer.run.storage.run_folder import EVENTS, TENSORBOARD, WARM, RunFolder
from gossamer.run.training import checkpoint, disk_space, distributed
from gossamer.run.training.memory import fitted, tune_malloc
from gossamer.run.training.progress import JsonLines, tensorboard, to_all
from gossamer.run.training.signals import stop_on_signal
from gossamer.run.training.torchrun import local
from gossamer.run.training.training_run import TrainingRun

Saved: TypeAlias = tuple[dict[str, Any], dict[str, Any]]
"""What a checkpoint holds: the state, and the public streams."""


def train(run: TrainingRun, data: LoadedData, *, saved: Saved | None = None) -> State:
    """Go through the method's phases from the last checkpoint to the end.

    Args:
        run: the run.
        data: its records: the private ones isolated, and the public ones.
        saved: state and public streams of the last checkpoint; None: from the start.

    Returns:
        The state at the end, which the run certifies.

    Raises:
        Interrupted: after Ctrl-C.
        DiskFull: if there is no room left; `resume` goes on.
        RunFolderError: if the plan was spent and nothing trained.
    """
    tune_malloc()
    job = fitted(run.job, local(run.device), ranks=run.ranks.count)
    training = job.begin(run.rng, local(run.device), run.ranks)
    checkpoint.reserve_disk(run.folder.private, disk_space.state(training.state.released), must=True)
    distributed.lead(run, data, saved)
    up_to = None
    if saved is not None:
        training.state.load_state_dict(saved[0])
        run.rng.restore(saved[1])
        up_to = training.state.phase, training.state.step
    with closing(JsonLines(run.folder.file(EVENTS), up_to=up_to)) as lines:
        boards = [tensorboard(run.folder.file(TENSORBOARD))] if run.with_tensorboard else []
        emit = to_all([lines, run.sink, *boards])
        with full_precision():  # of which a method may leave some in passes that bound nothing
            _drive(run, data, training, emit)
        if not training.trained:
            raise untrained(run.folder)
        checkpoint.free_reserve(run.folder.private)
        emit(Event("done", training.state.step, {}, training.state.phase))
    return training.state


def _drive(run: TrainingRun, data: LoadedData, training: Training[BaseConfig, State], emit: Sink) -> None:
    """Every step: what it may show goes to the sinks; a checkpoint where it is due and nothing is lost."""
    clock, spent = checkpoint.Clock(), _spent_so_far(run.ledger)

    def save() -> float:
        if not checkpoint.finite(training.state.state_dict()):
            raise _diverged(run.folder, training.state)
        return checkpoint.save(run.folder.private, training.state.state_dict(), run.rng.state(), run.ledger, run.ranks)

    full = False
    try:
        with stop_on_signal() as stop:
            private = data.private.map(lambda records: distributed.part_of(records, run.job, run.ranks, run.rng))
            for result in training.drive(private, data.public):
                if result.logs is None and isinstance(result.phase, OnPublic) and not any(run.ledger.used):
                    run.ledger.check_place()
                    write_atomically(run.folder.private / WARM, model_bytes(training.state.released))
                try:
                    _emit_step(result, emit, spent)
                except OSError as error:
                    full = is_full(error)  # to the end of the block, as after Ctrl-C: what is paid for is used
                    if not full:
                        raise
                paid_for = (
                    result.logs is None and result.phase.releases
                )  # the phase is over: it cannot be paid for again
                stopping = full or bool(stop)
                if run.ledger.prepaid == 0 and (stopping or paid_for or clock.due()):
                    run.ranks.next(Next.CHECKPOINT_AND_STOP if stopping else Next.CHECKPOINT)
                    clock.written(save())
                    if full:
                        raise DiskFull
                    if stopping:
                        raise Interrupted(
                            f"stopped at step {result.step:,} of the {result.phase.name}; nothing is lost. Go on with "
                            f"`gossamer resume {run.folder.path}`."
                        )
                else:
                    run.ranks.next(Next.STEP)
            save()
    except Exception as error:  # PyTorch reports a full disk by errors of its own; all others go on
        if not is_full(error):
            raise
        raise disk_full(run.folder, _save_to_reserve(run, save)) from None


def _diverged(folder: RunFolder, state: State) -> Diverged:
    """What is said of a training whose networks hold something that is no number: no checkpoint is written of that."""
    saved = checkpoint.saved_position(folder.private)
    last = (
        f"The checkpoint of step {saved[1]:,} of the {saved[0]} is kept" if saved else "No checkpoint had been written"
    )
    return Diverged(
        f"the training has diverged: at step {state.step:,} of the {state.phase} a network holds something that is no finite "
        f"number. {last}, and what was paid stays paid. `gossamer resume {folder.path}` tries again from there with fresh "
        "noise, for what is left of the plan; where it diverges again, take smaller step sizes in a new run, and give this "
        f"one up with `gossamer discard {folder.path}`."
    )


def _save_to_reserve(run: TrainingRun, save: Callable[[], float]) -> str:
    """Write the last state into the room that was kept for it. The disk is full; says what is kept, in words."""
    checkpoint.free_reserve(run.folder.private)
    lost = "the last checkpoint is kept, and what was trained after it is lost"
    if checkpoint.saved_position(run.folder.private) is None:
        lost = "there was no checkpoint yet: what was trained is lost, and what was paid for it stays paid"
    if run.ranks.count > 1:  # the others are elsewhere by now
        return lost
    try:
        save()
    except Exception as error:  # PyTorch reports a full disk by errors of its own; all others go on
        if not is_full(error):
            raise
        return lost
    return "everything that was trained is kept"


def disk_full(folder: RunFolder, saved: str) -> DiskFull:
    """The error for a full disk. saved: says what is kept."""
    return DiskFull(
        f"the disk of {folder.path} is full; {saved}, and no budget is spent twice. Make room, then go on with "
        f"`gossamer resume {folder.path}`."
    )


def _emit_step(result: StepResult, emit: Sink, spent: Callable[[], float]) -> None:
    """How far the run is and, now and then, the figures of the step."""
    phase, step = result.phase, result.step
    if result.logs is None:
        return
    emit(progress(phase.name, step, phase.steps, f"epsilon spent {rounded_up(spent())}" if phase.releases else ""))
    if phase.worth_keeping(step):
        values: dict[str, float | int | str] = {
            name: value if isinstance(value, int) else float(value) for name, value in result.logs.items()
        }
        if phase.releases:
            epsilon = spent()
            values["epsilon_spent"] = "inf" if math.isinf(epsilon) else epsilon
        emit(Event("step" if phase.releases else "warm", step, values, phase.name))


def _spent_so_far(ledger: PrivacyLedger) -> Callable[[], float]:
    """Epsilon spent so far, for the eye: by RDP, which is quick, and never above the promise of the whole plan."""
    odometer = Odometer(ledger.plan, delta=ledger.delta, relation=ledger.relation)
    promise = ledger.promise().epsilon
    return lambda: math.inf if ledger.reasons else min(odometer.epsilon(ledger.used), promise)


def untrained(folder: RunFolder) -> RunFolderError:
    """What is said of a run whose releases are spent, with nothing to show for them."""
    return RunFolderError(
        f"{folder.path} has spent its whole plan, and no checkpoint holds a training step: the crash came between. The budget "
        "of this run is gone, and an untrained generator is not certified. Give the run up with "
        f"`gossamer discard {folder.path}` and start another; the account book will hold both plans."
    )
