"""From a request to a finished run: read, confine, train, checkpoint, certify. And `resume`, the same from the middle."""

import dataclasses
import datetime
import hashlib
import importlib.metadata
import math
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gossamer.data.card import DataCard
from gossamer.errors import AccountsError, DataError, GossamerError, RequestError, RunFolderError
from gossamer.events import Event, Sink, silent
from gossamer.files import write_atomically
from gossamer.methods import METHODS
from gossamer.methods.synthesizer import Synthesizer, model_bytes
from gossamer.privacy.accounting import Odometer
from gossamer.privacy.certificate import CONFIG, LEDGER, Certificate, sha256
from gossamer.privacy.confined import Confined
from gossamer.privacy.guarantee import rounded_up
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.noise import Rng
from gossamer.run import checkpoint, presets
from gossamer.run.accounts import Booked, begin, book_at, charge_of, go_on, new_word
from gossamer.run.budget import Request, reason_without_guarantee, resolve
from gossamer.run.figures import sample_grid
from gossamer.run.folder import EVENTS, SAMPLES, WARM, RunFolder
from gossamer.run.interrupt import stop_asked
from gossamer.run.memory import keep_pages
from gossamer.run.report import write_report
from gossamer.run.sinks import JsonLines, Terminal, tensorboard, tensorboard_writer, to_all
from gossamer.run.sources import Found, Sources, protected_part

GRID_PER_CLASS = 10
GRID_ALONE = 100
"""Samples on the grid of a generator without labels."""


class Interrupted(GossamerError):
    """The user stopped the run; it can be resumed."""


def fit(
    method: str,
    *,
    data: str | Path,
    card: DataCard | str | Path,
    out: str | Path,
    epsilon: float | None = None,
    delta: float | None = None,
    public: str | Path | None = None,
    public_share: float | None = None,
    labels_key: str | None = None,
    units: str | None = None,
    preset: str | None = None,
    seed: int = 0,
    device: str = "cpu",
    force: bool = False,
    accounts: str | Path | None = None,
    sink: Sink = silent,
    terminal: Terminal | None = None,
    with_tensorboard: bool = False,
    rng: Rng | None = None,
    **settings: Any,
) -> Synthesizer:
    """Train `method` on private records under a budget and write a RUN folder.

    Args:
        method: a key of METHODS, for example "dpgan".
        data: the private records: a path, "digits" or "glyphs", with ":train" or ":test".
        card: the declared public facts, or the path of a card.toml.
        out: the RUN folder, new or empty.
        epsilon: the budget; infinity trains the non-private twin. None: what noise and steps cost.
        delta: the delta of the guarantee.
        public: public records for a warm start; they are not protected.
        public_share: give up this share of `data` as public instead; the certificate says that it is not protected.
        labels_key: key of the labels in an .npz.
        units: whose (writer, patient) each record is: FILE.csv, "folder", FILE.npz:KEY or :KEY, see `data.readers.read`.
        preset: a named set of settings, see `gossamer presets`.
        seed: fixes initialisation and the public draws; never noise or sampling.
        device: "cpu" or "cuda".
        force: replace a finished run in `out`.
        accounts: folder of the account book; None: the user's state folder.
        sink: takes the events too.
        terminal: shows progress.
        with_tensorboard: write TensorBoard files into the run.
        rng: for tests: a generator with a fixed noise seed. The run is then not private, and says so.
        settings: fields of the method's Config.

    Returns:
        The Synthesizer, already saved in the RUN folder.

    Raises:
        RequestError: if the request is wrong, or the data set's limit forbids it; nothing has been written then.
        Interrupted: after Ctrl-C; `resume` goes on.
    """
    card = card if isinstance(card, DataCard) else DataCard.load(card)
    if public_share is not None:
        if public is not None:
            raise RequestError(
                "give either --public or --public-share: public records of their own, or a part of --data."
            )
        card = protected_part(card, public_share)
    request = resolve(
        method,
        card,
        settings,
        epsilon=epsilon,
        delta=delta,
        defaults=presets.settings(method, preset) if preset else None,
    )
    facts = METHODS[method].FACTS
    if not facts.takes_public and (public is not None or public_share is not None):
        raise RequestError(f"{method} has no use for public records: leave --public and --public-share out.")
    if facts.needs_public(request.config) and public is None and public_share is None:
        raise RequestError(f"these settings of {method} need public records: give --public DATA, or --public-share.")
    _check_device(device)
    _check_network(request)
    if with_tensorboard:
        tensorboard_writer()
    folder = RunFolder(Path(out))
    folder.check_free(force=force)
    book = book_at(accounts, beside=folder)
    ledger = PrivacyLedger(budget=request.epsilon, delta=request.delta, relation=request.relation, unit=card.unit)
    ledger.reserve(request.plan)
    sources = Sources.of(data, public=public, labels_key=labels_key, units=units, share=public_share)
    rng = rng or Rng(seed)
    run = new_word()
    with folder.held(), closing(ledger):
        folder.check_free(force=force)
        found = sources.read(card)
        say = _saying(method, terminal)
        if found.unit_facts["matched"] == "position":
            say("Records and their units are matched by position: the first record has the first unit, and so on.")

        def write(known: dict[str, Any], session: str) -> None:
            if not folder.blank:
                folder.clear()
            config_json = _config_json(request, seed, device, found, with_tensorboard=with_tensorboard)
            source = {"sources": dataclasses.asdict(sources), "fingerprint": found.fingerprint}
            kept = None if accounts is None else str(Path(accounts).absolute())
            folder.create({**config_json, "run": run, "accounts": known}, {**source, "accounts": kept})
            ledger.create(folder.file(LEDGER), settings=sha256(folder.file(CONFIG)), session=session)

        charge = charge_of(
            ledger, run=run, card=card, sources=sources, found=found, method=method, folder=folder.path,
            infinite=rng.reproducible or bool(facts.without_guarantee),
        )  # fmt: skip
        try:
            booked = begin(book, charge, write, say=say)
        except AccountsError:
            if folder.begun and not folder.finished:  # the book failed between what it refuses and what it enters
                ledger.close()
                folder.clear()
            raise
        return _train(
            folder, request.config, card, method, ledger, found, booked, rng=rng, device=device, sink=sink,
            terminal=terminal, with_tensorboard=with_tensorboard,
        )  # fmt: skip


def resume(
    run: str | Path,
    *,
    accounts: str | Path | None = None,
    sink: Sink = silent,
    terminal: Terminal | None = None,
    rng: Rng | None = None,
) -> Synthesizer:
    """Go on with a run that was stopped or killed; a finished one is loaded as it is, and charges nothing.

    Args:
        run: the RUN folder.
        accounts: folder of the account book; None: the one that the run was entered in.
        sink: takes the events too.
        terminal: shows progress.
        rng: for tests, as in `fit`.

    Raises:
        RunFolderError: if the folder is no run, another process trains in it, or its whole plan is spent and nothing trained.
        LedgerDamaged: if the ledger was changed, or is shorter than the checkpoint says.
        DataError: if the records are no longer those the run began with.
        BudgetError: if the folder is a copy, so that its plan counts once more, and the data set's limit forbids that.
    """
    folder = RunFolder(Path(run))
    config_json = folder.config()
    if folder.finished:
        return Synthesizer.load(folder.path)
    if not folder.begun:
        raise RunFolderError(
            f"{folder.path} was cut off before its ledger was written; nothing was spent. Start it anew."
        )
    with folder.held(), closing(PrivacyLedger.resume(folder.file(LEDGER))) as ledger:
        if folder.finished:  # by whoever held it a moment ago
            return Synthesizer.load(folder.path)
        source_json = folder.source()
        card = DataCard.from_dict(config_json["card"])
        method = config_json["method"]
        config = METHODS[method].Config(**config_json["config"])
        sources = Sources.from_json(source_json["sources"])
        rng = rng or Rng(config_json["seed"])
        found = sources.read(card)
        if found.fingerprint != source_json["fingerprint"]:
            raise DataError(
                f"{sources.data} is not what it was when the run began. Restore the records, or start a new run."
            )
        if found.public_facts != config_json["public"]:
            raise DataError("--public is not what it was when the run began. Restore the records, or start a new run.")
        say = _saying(method, terminal)
        saved = checkpoint.load(folder.private, ledger, lost=lambda count: say(
            f"{count:,} paid releases were lost in a crash: no checkpoint holds what they trained. The run is shorter by them."
        ))  # fmt: skip
        if not any(ledger.unused) and (saved is None or saved[0]["step"] == 0):
            raise _untrained(folder)
        charge = charge_of(
            ledger, run=config_json.get("run", ""), card=card, sources=sources, found=found, method=method,
            folder=folder.path, infinite=rng.reproducible or bool(METHODS[method].FACTS.without_guarantee),
        )  # fmt: skip
        book = book_at(accounts or source_json.get("accounts"), beside=folder)
        booked = go_on(book, charge, ledger, say=say)
        return _train(
            folder, config, card, method, ledger, found, booked, rng=rng, device=config_json["device"], sink=sink,
            terminal=terminal, with_tensorboard=config_json["tensorboard"], saved=saved,
        )  # fmt: skip


def _untrained(folder: RunFolder) -> RunFolderError:
    return RunFolderError(
        f"{folder.path} has spent its whole plan, and no checkpoint holds a training step: the crash came between. The budget "
        "of this run is gone, and an untrained generator is not certified. Give the run up with "
        f"`gossamer discard {folder.path}` and start another; the account book will hold both plans."
    )


def _saying(method: str, terminal: Terminal | None) -> Callable[[str], None]:
    """Where to tell things; that a method promises nothing is told first."""
    say = terminal.say if terminal is not None else lambda _text: None
    if reason := reason_without_guarantee(method):
        say(f"No formal guarantee: epsilon is infinity, because {reason}.")
    return say


def _train(
    folder: RunFolder,
    config: Any,
    card: DataCard,
    method: str,
    ledger: PrivacyLedger,
    found: Found,
    booked: Booked,
    *,
    rng: Rng,
    device: str,
    sink: Sink,
    terminal: Terminal | None,
    with_tensorboard: bool,
    saved: tuple[dict[str, Any], dict[str, Any]] | None = None,
) -> Synthesizer:
    """Drive the method's loop from the last checkpoint to the end, then certify."""
    keep_pages()
    module = METHODS[method]
    state, below = None, None
    if saved is not None:
        state = module.State.fresh(config, card, rng, device)
        state.load_state_dict(saved[0])
        rng.restore(saved[1])
        below = (state.warm, state.step)
    lines = JsonLines(folder.file(EVENTS), keep_below=below)
    sinks = [lines, sink, *([tensorboard(folder.path / "tensorboard")] if with_tensorboard else [])]
    spent_so_far = _display(ledger)

    def emit(event: Event, /) -> None:
        spent = {"epsilon_spent": _number(spent_so_far())} if event.kind == "step" else {}
        to_all(sinks)(Event(event.kind, event.step, {**event.values, **spent}))

    states = module.train(
        Confined(found.private, ledger),
        config,
        card,
        public=found.public,
        resume=state,
        emit=emit,
        rng=rng,
        device=device,
    )
    with closing(lines), terminal or _Quiet() as screen:
        warm_steps, _ = module.FACTS.length(config, card, found.public is not None)
        for reached in _driven(
            states, folder, ledger, rng, warm_steps, spent_so_far, screen, public=found.public is not None
        ):
            state = reached
        if state is None or state.step == 0:
            raise _untrained(folder)
        emit(Event("done", state.step, {}))
    return _finish(folder, config, card, ledger, state, booked)


def _driven(
    states: Iterator[State],
    folder: RunFolder,
    ledger: PrivacyLedger,
    rng: Rng,
    warm_steps: int,
    spent_so_far: Callable[[], float],
    screen: Terminal,
    *,
    public: bool,
) -> Iterator[State]:
    """Pass the states through; show progress, write checkpoints, stop at Ctrl-C where nothing is lost."""
    clock = checkpoint.Clock()
    state = None
    begun = ""
    with stop_asked() as stop:
        for state in states:
            phase = "warm start" if state.step == 0 else "training"
            if phase != begun:
                total = warm_steps if phase == "warm start" else state.step + state.left
                screen.begin(phase, total, state.warm if phase == "warm start" else state.step - 1)
                begun = phase
            if public and state.step == 0 and state.warm == warm_steps:
                write_atomically(folder.private / WARM, model_bytes(state.released))
            note = f"epsilon spent {rounded_up(spent_so_far())}" if state.step else ""
            screen.advance(state.step or state.warm, note)
            if ledger.prepaid == 0 and (stop or clock.due()):
                clock.written(checkpoint.save(folder.private, state.state_dict(), rng.state(), ledger))
                if stop:
                    raise Interrupted(
                        f"stopped at step {state.step:,}; nothing is lost. Go on with `gossamer resume {folder.path}`."
                    )
            yield state
        if state is not None:
            checkpoint.save(folder.private, state.state_dict(), rng.state(), ledger)


def _display(ledger: PrivacyLedger) -> Callable[[], float]:
    """Epsilon spent so far, for the eye: by RDP, which is quick, and never above the promise of the whole plan."""
    odometer = Odometer(ledger.plan, delta=ledger.delta, relation=ledger.relation)
    promise = ledger.promise().epsilon
    return lambda: math.inf if ledger.reasons else min(odometer.epsilon(ledger.used), promise)


def _finish(
    folder: RunFolder, config: Any, card: DataCard, ledger: PrivacyLedger, state: State, booked: Booked
) -> Synthesizer:
    """Certify and save; the certificate is written last but for pictures, which can be drawn again."""
    net = state.released.cpu().eval()
    certificate = Certificate.build(
        ledger,
        folder.config(),
        model_sha256=hashlib.sha256(model_bytes(net)).hexdigest(),
        versions=versions(),
        created=datetime.datetime.now(datetime.UTC).date().isoformat(),
    )
    synthesizer = Synthesizer(net, config, card, certificate)
    per_class = np.repeat(np.arange(synthesizer.classes), GRID_PER_CLASS if synthesizer.classes > 1 else GRID_ALONE)
    grid = synthesizer.sample(len(per_class), labels=per_class, seed=0)
    folder.file(SAMPLES).write_bytes(sample_grid(grid.images, grid.labels, columns=GRID_PER_CLASS))
    booked.finish(ledger)
    synthesizer.save(folder.path)
    write_report(folder.path, internal=True)
    return synthesizer


class _Quiet(Terminal):
    """Shows nothing."""

    def say(self, text: str) -> None: ...

    def begin(self, what: str, total: int, done: int = 0) -> None: ...

    def advance(self, done: int, note: str = "") -> None: ...


def versions() -> dict[str, str]:
    """Versions of what the guarantee and the model rest on."""
    return {
        name: importlib.metadata.version(name)
        for name in ("gossamer", "torch", "numpy", "dp-accounting", "cryptography")
    }


def _config_json(request: Request, seed: int, device: str, found: Found, *, with_tensorboard: bool) -> dict[str, Any]:
    return {
        "format": 2,
        "method": request.method,
        "config": dataclasses.asdict(request.config),
        "card": request.card.to_dict(),
        "epsilon": _number(request.epsilon),
        "delta": request.delta,
        "seed": seed,
        "device": device,
        "public": found.public_facts,
        "units": found.unit_facts,
        "tensorboard": with_tensorboard,
        "versions": versions(),
    }


def _check_device(device: str) -> None:
    """Refuse a device that this machine or this build of PyTorch does not have."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise RequestError(
            f"--device {device} is not to be had here ({str(error).splitlines()[0]}). Take cpu."
        ) from None


def _check_network(request: Request) -> None:
    """Refuse settings of which no generator can be made, before anything is charged for them."""
    with torch.random.fork_rng(devices=[]):
        METHODS[request.method].generator(request.config, request.card)


def _number(value: float) -> float | str:
    return "inf" if math.isinf(value) else value
