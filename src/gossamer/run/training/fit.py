"""From a request to a finished run: check, load, reserve, train and certify."""

import atexit
import numbers
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from gossamer import plugins
from gossamer.data.card import protected_part
from gossamer.data.pixels.polarity import NEARLY_CONSTANT
from gossamer.data.pixels.to_uint8 import SCALED
from gossamer.data.source import Data, Source, source_of
from gossamer.data.tables.any_card import AnyCard, Draft, load_card
from gossamer.errors import CardError, DataError, RequestError
from gossamer.files import refuse_without_locks
from gossamer.methods import METHODS
from gossamer.methods.contract import BaseConfig, State
from gossamer.methods.job import Job, try_out
from gossamer.methods.registry import AUTO, asked
from gossamer.methods.synthesizer import Synthesizer
from gossamer.privacy.device_check import check_device
from gossamer.privacy.random.noise import Rng
from gossamer.run.budget.entry import budget_log_at, place_of
from gossamer.run.report.wording import remark
from gossamer.run.storage.data_sources import DataFacts, DataSources
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.training import disk_space
from gossamer.run.training.distributed import on_every_rank, present
from gossamer.run.training.driver import train_and_certify
from gossamer.run.training.open_run import OpenRun
from gossamer.run.training.plan import Request, check_takes_public, method_named, plan
from gossamer.run.training.progress import DEFAULT, Process
from gossamer.run.training.torchrun import local
from gossamer.run.validation import checked_arguments, refuse_misspelt


@checked_arguments
@on_every_rank
def fit(  # noqa: PLR0913 (its arguments are the options of a command)
    method: str | BaseConfig,
    *,
    data: Data,
    card: AnyCard | Draft | str | Path | None = None,
    out: str | Path | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    public: Data | float | None = None,
    preset: str | None = None,
    score: float | None = None,
    seed: int = 0,
    device: str = "cpu",
    accounts: str | Path | None = None,
    process: Process = DEFAULT,
    **settings: Any,
) -> Synthesizer:
    """Train `method` on private records under a budget and write a RUN folder.

    Args:
        method: a key of METHODS, for example "dpgan", or a Config, such as `gossamer.methods.DPGAN(steps=4_000)`. Or auto: a
            noisy query looks at the records, and its answer chooses method and settings.
        data: the private records: a path, 'digits' or 'glyphs'. Add ':train' or ':test' for a split. From Python also arrays, a
            DataFrame, a dict of columns, or a `Source`, which says whose each record is.
        card: data card: the TOML file with the public facts about the data.
        out: run folder to write. It must be new or empty. Default from Python: a temporary folder. It is deleted when the
            program ends, unless the run is unfinished.
        epsilon: privacy budget; smaller is safer. 'inf' trains without privacy. Default: follows from noise multiplier
            and steps.
        delta: chance that the epsilon bound fails, for example 1e-5. It must be below 1 / (declared size).
        public: public records for pre-training. They are not protected. To choose who is made public, put their records
            here and take them out of `data`: no unit may be in both. A number is the share of `data` to make public in place
            of them, for example 0.02: a hash picks the units, and the certificate says so.
        preset: named settings to start from; `gossamer presets` lists them. Other options override them.
        score: share of the budget for one noisy query at the end: how many records a model gets right that learns from samples
            alone; of a table also how far counts and quartiles are off. The certificate has each figure with its interval.
            Default: 0, no such query; of auto 0.03.
        seed: number that fixes initial weights and public random choices. Noise and sampling stay random.
        device: device for the networks: cpu or cuda.
        accounts: folder of the budget log, which adds up the cost of all runs. Default: gossamer/ in your state folder.
        process: what is shown while it trains, and for tests the noise.
        settings: fields of the method's Config. Not with a Config.

    Returns:
        The Synthesizer, already saved in the RUN folder.

    Raises:
        RequestError: if the request is wrong, or the data set's limit forbids it; nothing has been written then.
        Interrupted: after Ctrl-C; `resume` goes on.
    """
    refuse_without_locks()
    if method == AUTO and public is not None:
        raise RequestError("`auto` uses no public records. Leave `public` out, or name a method.")
    if method != AUTO:
        refuse_misspelt(settings, fit, method_named(method), data=Source, public=Source, process=Process)
    if card is None:
        raise CardError(
            "card is missing. Draft one with gossamer.draft_card(data), check every value, and pass it as card."
        )
    card = load_card(card)
    counted = not source_of(data).public_test_data
    if not counted and accounts is not None:
        raise RequestError("accounts and public_test_data contradict each other. Leave one of them out.")
    share, beside = None, cast("Data | None", public)
    if isinstance(public, numbers.Real) and not isinstance(public, bool):
        share, beside = float(public), None
        card = protected_part(card, share)
    request = plan(method, card, settings, epsilon=epsilon, delta=delta, preset=preset, score=score)
    if (request.asks.look or request.asks.score) and present().count > 1:
        raise RequestError("`auto` and `score` ask in one process alone. Leave them out, or train in one process.")
    sources = DataSources.of(data, public=beside, share=share)
    if sources.in_memory and present().count > 1:
        raise RequestError("Several processes cannot share records in memory. Save them to a file, and pass its path.")
    with _run_folder(out) as folder:
        for job in request.asks.jobs:
            _check(job, sources, folder, device)
        if counted:
            budget_log_at(accounts, beside=folder)  # refused before a record is read
        with OpenRun.create(
            folder, request, seed=seed, process=process, device=device, ranks=present(),
            accounts=accounts if counted else False,
        ) as opened:  # fmt: skip
            loaded = opened.read(sources)
            if loaded.public is not None:
                request.job.check_public(len(loaded.public))
            _log_start(opened, request, loaded.facts, sources)
            if not counted:
                _refuse_counted(card.data_set or place_of(sources), loaded.facts)
            charged = opened.charge(sources, loaded.facts)
            if out is None:
                opened.log(f"Run folder: {folder.path}. It is temporary: `synthesizer.save(FOLDER)` keeps the run.")
            return train_and_certify(charged, loaded, report=out is not None)


def _refuse_counted(name: str, facts: DataFacts) -> None:
    """Refuse public test data that the user's budget log counts or limits: they were private to somebody before."""
    known = budget_log_at(None).read().budget_of_names(name, mark=facts.identity.mark)
    if known.entries or known.limits:
        raise RequestError(
            "The budget log counts or limits these records, so they are not public test data. Leave public_test_data out."
        )


@contextmanager
def _run_folder(out: str | Path | None) -> Iterator[RunFolder]:
    """Give the run folder. Without `out`, it is in a temporary folder of its own, which only its user may open.

    A finished run is deleted there when the program ends. An unfinished one stays, because its budget is used.
    """
    if out is not None:
        yield RunFolder(Path(out))
        return
    place = Path(tempfile.mkdtemp(prefix="gossamer-"))
    try:
        yield RunFolder(place / "run")
        atexit.register(shutil.rmtree, place, ignore_errors=True)
    finally:
        with suppress(OSError):  # it holds the run
            place.rmdir()


def _check(job: Job[BaseConfig, State], sources: DataSources, folder: RunFolder, device: str) -> None:
    """Refuse what cannot work, before a record is read.

    Raises:
        RequestError: naming the option.
        RunFolderError: if the folder is taken or its disk is too small.
    """
    with asked(job.method.name):
        _ = job.facts  # refused now if they are no words for a certificate
    if sources.public is not None or sources.share is not None:
        check_takes_public(job)
    elif job.needs_public:
        makers = " or ".join(f"`start={name}`" for name in sorted(METHODS) if METHODS[name].can_warm_start)
        instead = f", or {makers}, which make some" if "start" in job.settings else ""
        share = "" if job.releases_public else ", or `public=SHARE`"
        raise RequestError(f"these settings of {job.method.name} need public records: give `public`{share}{instead}.")
    if sources.share is not None and job.releases_public:
        raise RequestError(
            f"With these settings, the release of {job.method.name} contains the public pictures, so "
            "`public=SHARE` would publish records. Write pictures that may be published into a folder: give it as `public`."
        )
    check_device(local(device), job.settings)
    job.generator()
    place = device if job.pretrained else "cpu"  # a plug-in is checked where it will run
    with asked(job.method.name):
        state = job.begin(Rng(0), place, present()).state  # refused here if it cannot be made
        if METHODS.is_plugin(job.method.name):
            try_out(job, state)
        networks = state.released
    disk_space.check(folder.path, disk_space.needed(networks))


def _log_start(run: OpenRun, request: Request, facts: DataFacts, sources: DataSources) -> None:
    """Show what is remarkable about the data and the request on the terminal.

    Raises:
        DataError: if the card's pixel_range makes deep pictures nearly constant.
    """
    card = run.job.card
    if reason := run.job.method.without_guarantee:
        run.log(f"No formal guarantee: epsilon is infinity, because {reason}.")
    if text := remark(request.promise.epsilon):
        run.log(text)
    for text in facts.notes:
        run.log(text, about="data")
    if facts.units["matched"] == "position":
        run.log("Records and their units are matched by position: the first record has the first unit, and so on.")
    if facts.one_shade and SCALED in facts.notes:
        raise DataError(
            f"{sources.name}: nearly every picture becomes one shade by pixel_range = {list(card.pixel_range)} of the card, so "
            "the run has not begun. Declare the values that are black and white in these pictures; "
            "`gossamer.draft_card(DATA)` names those of a DICOM header."
        )
    if facts.one_shade:
        run.log(NEARLY_CONSTANT, about="data")
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
    if "data" in sources.in_memory and not run.job.card.data_set:
        run.log(
            "These records have no path. Put a name as data_set on the card: then the budget log also counts runs on changed "
            "versions of them."
        )
