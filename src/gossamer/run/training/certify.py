"""The end of a run: its certificate, its samples and its report."""

from gossamer.errors import DiskFull, PrivacyError, is_full, worded
from gossamer.methods.contract import State
from gossamer.methods.registry import changed_plugins
from gossamer.methods.synthesizer import Synthesizer, save_model
from gossamer.privacy.certificate.certificate import Certificate, sha256
from gossamer.privacy.certificate.statements import MODEL
from gossamer.run.report.html import write_report
from gossamer.run.report.plots import drawn_by
from gossamer.run.storage.data_sources import LoadedData
from gossamer.run.storage.run_folder import SAMPLES, today
from gossamer.run.storage.versions import versions
from gossamer.run.training.checkpoint import Saved
from gossamer.run.training.driver import disk_full, train
from gossamer.run.training.training_run import TrainingRun


def train_and_certify(run: TrainingRun, data: LoadedData, *, saved: Saved | None = None) -> Synthesizer:
    """Train from the last checkpoint to the end, then certify, and write the report.

    Args:
        run: reserved.
        data: its records. The certificate and the report cannot reach them.
        saved: state and public streams of the last checkpoint; None: from the start.

    Raises:
        Interrupted: after Ctrl-C.
        DiskFull: if the disk is full; `resume` goes on.
        RunFolderError: if the plan is used up and nothing was trained.
    """
    if run.budget_entry is not None:
        run.ledger.before_declassify = run.budget_entry.declassify
    try:
        synthesizer = certify(run, train(run, data, saved=saved))
        write_report(run.folder.path, internal=True)
    except Exception as error:  # PyTorch reports a full disk by errors of its own; all others go on
        if isinstance(error, DiskFull) or not is_full(error):
            raise
        raise disk_full(run.folder, "everything that was trained is kept") from None
    run.ranks.broadcast(synthesizer)
    return synthesizer


def certify(run: TrainingRun, state: State) -> Synthesizer:
    """Certify and save. The certificate is written last but for pictures, which can be drawn again.

    Raises:
        RunFolderError: if the folder is no longer the one in which the run began.
        PrivacyError: if an encoder or a generator has other weights than when the run began.
    """
    run.ledger.check_place()
    if changed := changed_plugins(run.job.pretrained, run.folder.config().get("plugins", []), "weights"):
        raise PrivacyError(f"{changed[0]}, and start a new run. Its weights must not change while it sees records.")
    net = state.released.cpu().eval()
    save_model(run.folder.file(MODEL), net)
    certificate = Certificate.build(
        run.ledger,
        run.folder.config(),
        model_sha256=sha256(run.folder.file(MODEL)),
        versions=versions(),
        created=today(),
    )
    synthesizer = Synthesizer(net, run.job, certificate)
    run.folder.file(SAMPLES).write_bytes(drawn_by(synthesizer))
    if run.budget_entry is not None:
        run.budget_entry.finish(run.ledger)
    certificate.save(run.folder.path)
    if state.remark:
        run.log(worded(state.remark))
    return synthesizer
