"""From a request to a finished run: read, confine, train, checkpoint, certify. And `resume`, the same from the middle."""

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import torch

from gossamer.data.card import DataCard, protected_part
from gossamer.data.polarity import NEARLY_CONSTANT, contrast, nearly_constant
from gossamer.data.to_uint8 import SCALED
from gossamer.errors import BudgetLogError, DataError, RequestError, RunFolderError
from gossamer.events import Sink, note, silent
from gossamer.methods.method import AnyMethod
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.certificate.certificate import CONFIG, CONFIG_FORMAT, LEDGER, sha256
from gossamer.privacy.certificate.figures import purposes
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.budget.entry import Booked, begin, book_at, charge_of, enter_ended, go_on, in_hand, new_word, settle
from gossamer.run.report.wording import remark
from gossamer.run.storage.data_sources import Found, Sources
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.storage.versions import versions
from gossamer.run.training import checkpoint, disk_space
from gossamer.run.training.distributed import on_every_rank, present
from gossamer.run.training.driver import Underway, epsilon_as_json, train, untrained
from gossamer.run.training.plan import Request, check_takes_public, method_named, plan
from gossamer.run.training.progress import tensorboard_writer
from gossamer.run.validation import checked_arguments


@checked_arguments
@on_every_rank
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
    public_images_key: str | None = None,
    public_labels_key: str | None = None,
    images_key: str | None = None,
    labels_key: str | None = None,
    units: str | None = None,
    preset: str | None = None,
    seed: int = 0,
    device: str = "cpu",
    force: bool = False,
    accounts: str | Path | None = None,
    sink: Sink = silent,
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
        epsilon: the budget; infinity trains without privacy. None: what noise and steps cost.
        delta: the delta of the guarantee.
        public: public records for a warm start; they are not protected.
        public_share: give up this share of `data` as public instead; the certificate says that it is not protected.
        public_images_key: what `images_key` is for `data`, for `public`.
        public_labels_key: what `labels_key` is for `data`, for `public`.
        images_key: key of the images in an .npz, their column in a .parquet, their ending in a .tar.
        labels_key: the same for labels, and a column of metadata.csv; "none": there are no labels.
        units: whose (writer, patient) each record is: FILE.csv, "folder", FILE.npz:KEY or :KEY, see `data.readers.read`.
        preset: a named set of settings, see `gossamer presets`.
        seed: fixes initialisation and the public draws; never noise or sampling.
        device: "cpu" or "cuda".
        force: replace a finished run in `out`.
        accounts: folder of the account book; None: the user's state folder.
        sink: takes the events too, with notes and progress; `run.sinks.Terminal` shows them.
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
    if public is None and (public_images_key, public_labels_key) != (None, None):
        raise RequestError(
            "--public-images-key and --public-labels-key name what lies in --public, and there is none: leave them out."
        )
    request = plan(method, card, settings, epsilon=epsilon, delta=delta, preset=preset)
    job, asked = request.job, request.job.method
    if public is not None or public_share is not None:
        check_takes_public(job)
    if job.needs_public and public is None and public_share is None:
        instead = ", or --start evolve or --start moments, which make some" if "start" in job.settings else ""
        raise RequestError(
            f"these settings of {method} need public records: give --public DATA, or --public-share{instead}."
        )
    _check_device(device)
    job.generator()
    net = job.begin(
        Rng(seed), ranks=present()
    ).state.released  # all nets: what cannot be made is refused before it is charged
    if with_tensorboard:
        tensorboard_writer()
    folder = RunFolder(Path(out))
    folder.check_free(force=force)
    disk_space.check(folder.path, disk_space.needed(net, request.plan), then="or name another --out")
    book_at(accounts, beside=folder)  # refused before a record is read
    ledger = PrivacyLedger(budget=request.epsilon, delta=request.delta, relation=job.relation, unit=card.unit)
    ledger.reserve(request.plan)
    sources = Sources.of(
        data, public=public, images_key=images_key, labels_key=labels_key, units=units, share=public_share,
        public_images_key=public_images_key, public_labels_key=public_labels_key,
    )  # fmt: skip
    rng = rng or Rng(seed)
    with in_hand(folder), closing(ledger):
        folder.check_free(force=force)
        found = sources.read(card)
        say = _saying(asked, sink)
        for words in (remark(request.promise.epsilon), *found.notes):
            if words:
                say(words)
        if found.unit_facts["matched"] == "position":
            say("Records and their units are matched by position: the first record has the first unit, and so on.")
        if found.public is not None and (said := contrast("--data", found.private, "--public", found.public)):
            say(said)
        _check_shades(found, card, data, say)

        booked = enter(
            folder, request, ledger, found, sources, seed=seed, device=device, rng=rng, accounts=accounts, say=say,
            with_tensorboard=with_tensorboard,
        )  # fmt: skip
        return train(Underway(
            folder=folder, job=job, ledger=ledger, found=found, booked=booked, rng=rng, device=device, sink=sink,
            with_tensorboard=with_tensorboard, ranks=present(), sources=sources,
        ))  # fmt: skip


def enter(
    folder: RunFolder,
    request: Request,
    ledger: PrivacyLedger,
    found: Found,
    sources: Sources,
    *,
    seed: int,
    device: str,
    rng: Rng,
    accounts: str | Path | Literal[False] | None,
    say: Callable[[str], None],
    with_tensorboard: bool = False,
    more: Mapping[str, Any] | None = None,
    source: Mapping[str, Any] | None = None,
) -> Booked | None:
    """Write a new run's folder and ledger and enter it in the account book, before it trains.

    Args:
        folder: held by this process.
        request: what was decided.
        ledger: the plan is reserved in it.
        found: the records.
        sources: where they are.
        seed: of the public draws.
        device: where the networks are.
        rng: of the run.
        accounts: folder of the account book; None: the user's state folder; False: no book is kept.
        say: tells the person at the terminal.
        with_tensorboard: kept in the settings.
        more: what the settings say besides.
        source: what the private folder keeps besides.

    Returns:
        The entry; None where no book is kept.

    Raises:
        BudgetError: if a limit forbids the run; nothing is left of it then.
        BudgetLogError: if the book cannot be used.
    """
    method, run = request.job.method, new_word()

    def write(known: dict[str, Any] | None, session: str) -> None:
        if not folder.blank:
            folder.set_aside()
        config_json = _config_json(request, seed, device, found, with_tensorboard=with_tensorboard)
        kept = str(Path(accounts).absolute()) if isinstance(accounts, str | Path) else None
        known_by = {"records": found.identity.fingerprint, "mark": found.identity.mark}
        private = {"sources": dataclasses.asdict(sources), **known_by, "accounts": kept}
        folder.create({**config_json, "run": run, "accounts": known, **(more or {})}, {**private, **(source or {})})
        ledger.create(folder.file(LEDGER), settings=sha256(folder.file(CONFIG)), session=session)

    if accounts is False:
        write(None, "")
        return None
    charge = charge_of(
        ledger, run=run, card=request.job.card, sources=sources, found=found, method=method.name, folder=folder.path,
        infinite=rng.reproducible or bool(method.without_guarantee), by_client="federated" in (more or {}),
    )  # fmt: skip
    try:
        booked = begin(book_at(accounts, beside=folder), charge, write, say=say)
    except BaseException as error:
        if folder.interrupted:  # where nothing is in the book, the old run comes back
            ledger.close()
            settle(folder)
        elif not folder.finished and (isinstance(error, (BudgetLogError, OSError)) or not folder.begun):
            ledger.close()  # the disk or the book failed between what is refused and what is entered
            folder.clear()
        if isinstance(error, OSError):
            raise RunFolderError(
                f"{folder.path} cannot be written ({error.strerror}). Mend that, or name another --out; nothing has been "
                "begun."
            ) from None
        raise
    folder.settle(new_stays=True)
    return booked


@checked_arguments
@on_every_rank
def resume(
    run: str | Path,
    *,
    accounts: str | Path | None = None,
    sink: Sink = silent,
    rng: Rng | None = None,
) -> Synthesizer:
    """Go on with a run that was stopped or killed; a finished one is loaded as it is, and charges nothing in its own book.

    Args:
        run: the RUN folder.
        accounts: folder of the account book, where the run is entered if that does not know it; None: the one that it was
            entered in.
        sink: takes the events too, with notes and progress; `run.sinks.Terminal` shows them.
        rng: for tests, as in `fit`.

    Raises:
        RunFolderError: if the folder is no run, another process trains in it, or its whole plan is spent and nothing trained.
        LedgerDamaged: if the ledger was changed, or is shorter than the checkpoint says.
        DataError: if the records are no longer those the run began with.
        BudgetError: if the folder is a copy, so that its plan counts once more, and the data set's limit forbids that.
    """
    folder = RunFolder(Path(run))
    if folder.interrupted:
        with in_hand(folder, accounts):  # the finished run comes back, or goes where the new one is in the book
            pass
    config_json = folder.config()
    if folder.finished:
        synthesizer = Synthesizer.load(folder.path)
        if accounts is not None:
            with in_hand(folder):
                enter_ended(folder, accounts, say=lambda text: sink(note(text)))
        return synthesizer
    if not folder.begun:
        raise RunFolderError(
            f"{folder.path} was cut off before its ledger was written; nothing was spent. Start it anew."
        )
    disk_space.check(folder.path, disk_space.of(folder.private), then="then resume again")
    with in_hand(folder), closing(PrivacyLedger.resume(folder.file(LEDGER), settings=folder.file(CONFIG))) as ledger:
        if folder.finished:  # by whoever held it a moment ago
            return Synthesizer.load(folder.path)
        source_json = folder.source()
        if "federated" in config_json:
            raise RequestError(
                f"{folder.path} is a federated run, which goes on with the command that began it: `gossamer federated`."
            )
        card = DataCard.from_dict(config_json["card"])
        job = method_named(config_json["method"]).job(config_json["config"], card)
        sources = Sources.from_json(source_json["sources"])
        rng = rng or Rng(config_json["seed"])
        sources.refuse_gone()
        found = sources.read(card)
        found.refuse_others(source_json, sources)
        if found.public_facts != config_json["public"]:
            raise DataError("--public is not what it was when the run began. Restore the records, or start a new run.")
        say = _saying(job.method, sink)
        saved = checkpoint.load(folder.private, ledger, lost=lambda count: say(
            f"{count:,} paid releases were lost in a crash: no checkpoint holds what they trained. The run is shorter by them."
        ))  # fmt: skip
        if not any(ledger.unused) and (saved is None or not job.paid_for(saved[0])):
            raise untrained(folder)
        charge = charge_of(
            ledger, run=config_json.get("run", ""), card=card, sources=sources, found=found,
            method=job.method.name, folder=folder.path, infinite=rng.reproducible or bool(job.method.without_guarantee),
        )  # fmt: skip
        book = book_at(accounts or source_json.get("accounts"), beside=folder)
        booked = go_on(book, charge, ledger, say=say)
        if accounts is not None:
            folder.note_source({**source_json, "accounts": str(Path(accounts).absolute())})
        underway = Underway(
            folder=folder, job=job, ledger=ledger, found=found, booked=booked, rng=rng, device=config_json["device"],
            sink=sink, with_tensorboard=config_json["tensorboard"], ranks=present(), sources=sources,
        )  # fmt: skip
        return train(underway, saved=saved)


def _saying(method: AnyMethod, sink: Sink) -> Callable[[str], None]:
    """Where to tell things; that a method promises nothing is told first."""

    def say(text: str) -> None:
        sink(note(text))

    if method.without_guarantee:
        say(f"No formal guarantee: epsilon is infinity, because {method.without_guarantee}.")
    return say


def _check_shades(found: Found, card: DataCard, data: str | Path, say: Callable[[str], None]) -> None:
    """Refuse deep pictures that the card's pixel_range makes nearly constant; say so of other pictures, which may be so."""
    if not nearly_constant(found.private):
        return
    if SCALED in found.notes:
        raise DataError(
            f"{data}: nearly every picture becomes one shade by pixel_range = {list(card.pixel_range)} of the card. A run "
            "would use privacy budget for nothing, so it has not begun. Declare the values that are black and white in these "
            f"pictures; `gossamer card {data}` names those of a DICOM header."
        )
    say(NEARLY_CONSTANT)


def _config_json(request: Request, seed: int, device: str, found: Found, *, with_tensorboard: bool) -> dict[str, Any]:
    return {
        "format": CONFIG_FORMAT,
        "method": request.job.method.name,
        "config": request.job.settings,
        "card": request.job.card.to_dict(),
        "epsilon": epsilon_as_json(request.epsilon),
        "delta": request.delta,
        "seed": seed,
        "device": device,
        "public": found.public_facts,
        "units": found.unit_facts,
        "tensorboard": with_tensorboard,
        "components": purposes([(phase.name, phase.plan) for phase in request.job.phases]),
        "versions": versions(),
    }


def _check_device(device: str) -> None:
    """Refuse a device that this machine or this build of PyTorch does not have."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise RequestError(
            f"--device {device} cannot be used on this machine ({str(error).splitlines()[0]}). Take cpu."
        ) from None
