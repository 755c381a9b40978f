"""From a request to a finished run: check, load, reserve, train and certify."""

import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from gossamer import notebook, plugins
from gossamer.data.card import protected_part
from gossamer.data.pixels.polarity import NEARLY_CONSTANT
from gossamer.data.pixels.to_uint8 import SCALED
from gossamer.data.source import Data
from gossamer.data.tables.any_card import AnyCard, load_card
from gossamer.data.tables.card import TableDraft
from gossamer.errors import CardError, DataError, RequestError
from gossamer.events import Sink, note
from gossamer.methods import METHODS
from gossamer.methods.method import BaseConfig
from gossamer.methods.registry import asked, try_out
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.device_check import check_device
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.privacy.random.noise import Rng
from gossamer.run.budget.entry import budget_log_at, place_of
from gossamer.run.report.wording import remark
from gossamer.run.storage.data_sources import DataFacts, DataSources
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.training import disk_space
from gossamer.run.training.certify import train_and_certify
from gossamer.run.training.distributed import on_every_rank, present
from gossamer.run.training.plan import Request, check_takes_public, method_named, plan
from gossamer.run.training.progress import shown, tensorboard_writer
from gossamer.run.training.reserve import reserve
from gossamer.run.training.torchrun import local
from gossamer.run.training.training_run import TrainingRun
from gossamer.run.validation import checked_arguments, refuse_misspelt


@checked_arguments
@on_every_rank
def fit(  # noqa: PLR0913 (its arguments are the options of a command)
    method: str | BaseConfig,
    *,
    data: Data,
    card: AnyCard | TableDraft | str | Path | None = None,
    out: str | Path | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    public: Data | None = None,
    public_share: float | None = None,
    public_images_key: str | None = None,
    public_labels_key: str | None = None,
    images_key: str | None = None,
    labels_key: str | None = None,
    units: Data | None = None,
    preset: str | None = None,
    seed: int = 0,
    device: str = "cpu",
    accounts: str | Path | None = None,
    public_test_data: bool = False,
    progress: bool = True,
    sink: Sink | None = None,
    with_tensorboard: bool = False,
    rng: Rng | None = None,
    **settings: Any,
) -> Synthesizer:
    """Train `method` on private records under a budget and write a RUN folder.

    Args:
        method: a key of METHODS, for example "dpgan", or a Config, such as `gossamer.methods.DPGAN(steps=4_000)`.
        data: the private records: a path, 'digits' or 'glyphs'. Add ':train' or ':test' for a split. From Python also arrays, a
            DataFrame or a dict of columns.
        card: data card: the TOML file with the public facts about the data.
        out: run folder to write. It must be new or empty. Default from Python: a temporary folder, which is printed.
        epsilon: privacy budget; smaller is safer. 'inf' trains without privacy. Default: follows from noise multiplier
            and steps.
        delta: chance that the epsilon bound fails, for example 1e-5. It must be below 1 / (declared size).
        public: public records for pre-training. They are not protected. To choose who is made public, put their records
            here and take them out of `data`: no unit may be in both.
        public_share: share of `data` to make public in place of `public`, for example 0.02. A hash picks the units,
            always the same. They are not protected, and the certificate says so.
        public_images_key: the same as `images_key`, for `public`.
        public_labels_key: the same as `labels_key`, for `public`.
        images_key: see `data.readers.read.read`.
        labels_key: see `data.readers.read.read`.
        units: see `data.readers.read.read`.
        preset: named settings to start from; `gossamer presets` lists them. Other options override them.
        seed: number that fixes initial weights and public random choices. Noise and sampling stay random.
        device: device for the networks: cpu or cuda.
        accounts: folder of the budget log, which adds up the cost of all runs. Default: gossamer/ in your state folder.
        public_test_data: leave the budget log alone, because the records are public. The certificate says that no
            budget log counts the run.
        progress: show notes, a bar, time left and epsilon used, if there is a terminal or a notebook.
        sink: takes the events in place of that.
        with_tensorboard: write TensorBoard files into the run folder. Needs the extra `tensorboard`.
        rng: for tests: a generator with a fixed noise seed. The run is then not private, and says so.
        settings: fields of the method's Config. Not with a Config.

    Returns:
        The Synthesizer, already saved in the RUN folder.

    Raises:
        RequestError: if the request is wrong, or the data set's limit forbids it; nothing has been written then.
        Interrupted: after Ctrl-C; `resume` goes on.
    """
    refuse_misspelt(settings, fit, method_named(method))
    if card is None:
        raise CardError(
            "card is missing. Draft one with gossamer.draft_card(data), check every value, and pass it as card."
        )
    card = load_card(card)
    if public_test_data and accounts is not None:
        raise RequestError("accounts and public_test_data contradict each other. Leave one of them out.")
    if public_share is not None:
        if public is not None:
            raise RequestError(
                "give --public or --public-share, not both: public records of their own, or a part of --data."
            )
        card = protected_part(card, public_share)
    if card.kind == "table" and (images_key, labels_key) != (None, None):
        raise RequestError(
            "--images-key and --labels-key are for pictures, and the card describes a table. Leave them out."
        )
    if public is None and (public_images_key, public_labels_key) != (None, None):
        raise RequestError(
            "--public-images-key and --public-labels-key go with --public, which is missing: leave them out."
        )
    request = plan(method, card, settings, epsilon=epsilon, delta=delta, preset=preset)
    sources = DataSources.of(
        data, kind=card.kind, public=public, images_key=images_key, labels_key=labels_key, units=units, share=public_share,
        public_images_key=public_images_key, public_labels_key=public_labels_key,
    )  # fmt: skip
    if sources.held.names and present().count > 1:
        raise RequestError("Several processes cannot share records in memory. Save them to a file, and pass its path.")
    if with_tensorboard:
        tensorboard_writer()
    with shown(sink, progress=progress) as events, _run_folder(out, sink) as folder:
        _check(request, folder, public=public is not None or public_share is not None, device=device)
        if public_share is not None and request.job.releases_public:
            raise RequestError(
                f"With these settings, the release of {request.job.method.name} contains the public pictures, so "
                "--public-share would publish records. Write pictures that may be published into a folder: give it as --public."
            )
        if not public_test_data:
            budget_log_at(accounts, beside=folder)  # refused before a record is read
        return _fit(
            request, sources, folder, rng or Rng(seed), device=device, sink=events, with_tensorboard=with_tensorboard,
            accounts=False if public_test_data else accounts,
        )  # fmt: skip


def _fit(
    request: Request, sources: DataSources, folder: RunFolder, rng: Rng, *, device: str, sink: Sink, with_tensorboard: bool,
    accounts: str | Path | Literal[False] | None,
) -> Synthesizer:  # fmt: skip
    """Load the records, reserve the run, train and certify it."""
    card = request.job.card
    ledger = PrivacyLedger(budget=request.epsilon, delta=request.delta, relation=request.job.relation, unit=card.unit)
    ledger.reserve(request.plan)
    with folder.locked(), closing(ledger):
        folder.check_free()
        run = TrainingRun(
            folder=folder, job=request.job, ledger=ledger, rng=rng, device=device, sink=sink,
            with_tensorboard=with_tensorboard, ranks=present(),
        )  # fmt: skip
        loaded = sources.read(card, ledger, present(), sink=sink)
        if loaded.public is not None:
            request.job.check_public(len(loaded.public))
        _log_start(run, request, loaded.facts, sources)
        named = sources.named()
        if accounts is False:
            _refuse_counted(card.data_set or place_of(named), loaded.facts)
        run = reserve(run, named, loaded.facts, accounts=accounts, private={"counted": accounts is not False})
        return train_and_certify(run, loaded)


def _refuse_counted(name: str, facts: DataFacts) -> None:
    """Refuse public test data that the user's budget log counts or limits: they were private to somebody before."""
    known = budget_log_at(None).read().budget_of_names(name, mark=facts.identity.mark)
    if known.entries or known.limits:
        raise RequestError(
            "The budget log counts or limits these records, so they are not public test data. Leave public_test_data out."
        )


@contextmanager
def _run_folder(out: str | Path | None, sink: Sink | None) -> Iterator[RunFolder]:
    """Give the run folder. Without `out`, it is in a temporary folder of its own, which only its user may open."""
    if out is not None:
        yield RunFolder(Path(out))
        return
    place = Path(tempfile.mkdtemp(prefix="gossamer-"))
    text = f"Run folder: {place / 'run'}. It is temporary: pass out to keep the run."
    if sink is None:
        notebook.say(text)
    else:
        sink(note(text))
    try:
        yield RunFolder(place / "run")
    finally:
        with suppress(OSError):  # it holds the run
            place.rmdir()


def _check(request: Request, folder: RunFolder, *, public: bool, device: str) -> None:
    """Refuse what cannot work, before a record is read. public: whether public records were given.

    Raises:
        RequestError: naming the option.
        RunFolderError: if the folder is taken or its disk is too small.
    """
    job = request.job
    with asked(job.method.name):
        _ = job.facts  # refused now if they are no words for a certificate
    if public:
        check_takes_public(job)
    elif job.needs_public:
        instead = ", or --start evolve or --start moments, which make some" if "start" in job.settings else ""
        share = "" if job.releases_public else ", or --public-share"
        raise RequestError(f"these settings of {job.method.name} need public records: give --public{share}{instead}.")
    check_device(local(device), job.settings)
    job.generator()
    place = device if job.pretrained else "cpu"  # a plug-in is checked where it will run
    with asked(job.method.name):
        state = job.begin(Rng(0), place, present()).state  # refused here if it cannot be made
        if METHODS.is_plugin(job.method.name):
            try_out(job, state)
        networks = state.released
    folder.check_free()
    disk_space.check(folder.path, disk_space.needed(networks, request.plan), remedy="or name another --out")


def _log_start(run: TrainingRun, request: Request, facts: DataFacts, sources: DataSources) -> None:
    """Show what is remarkable about the data and the request on the terminal.

    Raises:
        DataError: if the card's pixel_range makes deep pictures nearly constant.
    """
    card = run.job.card
    if reason := run.job.method.without_guarantee:
        run.log(f"No formal guarantee: epsilon is infinity, because {reason}.")
    for text in (remark(request.promise.epsilon), *facts.notes):
        if text:
            run.log(text)
    if facts.units["matched"] == "position":
        run.log("Records and their units are matched by position: the first record has the first unit, and so on.")
    if facts.one_shade and SCALED in facts.notes:
        raise DataError(
            f"{sources.data}: nearly every picture becomes one shade by pixel_range = {list(card.pixel_range)} of the card, so "
            "the run has not begun. Declare the values that are black and white in these pictures; "
            "`gossamer card DATA` names those of a DICOM header."
        )
    if facts.one_shade:
        run.log(NEARLY_CONSTANT)
    if facts.public["kind"] != "none" and run.job.releases_public:
        run.log(
            f"The release will contain the public pictures as they are: {run.job.releases_public}. Check that their licence "
            "allows this."
        )
    for kind, name in run.job.pretrained:
        if plugins.origin(kind, name).trained_on == plugins.NOT_KNOWN:
            run.log(
                f"Caution: it is not known what the {kind} {name!r} was trained on. If private records were among it, no "
                "epsilon covers them. State it as `trained_on`."
            )
    if sources.held.data is not None and not run.job.card.data_set:
        run.log(
            "These records have no path. Put a name as data_set on the card: then the budget log also counts runs on changed "
            "versions of them."
        )
