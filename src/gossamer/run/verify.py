"""Checking a run or a release folder, and copying out what may be handed out.

A release names its files in SHA256SUMS, in the form of `sha256sum --check`. A RUN has none: its report is rewritten after every
`evaluate` and `attack`, and neither it nor the pictures are part of the promise.
"""

import dataclasses
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gossamer.data.card import DataCard
from gossamer.errors import GossamerError, LedgerDamaged, RequestError, RunFolderError
from gossamer.files import write_atomically
from gossamer.lazy import Lazy
from gossamer.methods import METHODS
from gossamer.privacy import certificate
from gossamer.privacy.certificate import CERTIFICATE, CONFIG, LEDGER, sha256
from gossamer.privacy.figures import purposes
from gossamer.privacy.guarantee import RELATION_NAMES
from gossamer.privacy.ledger import PrivacyLedger, merge
from gossamer.run.folder import ATTACKS, EVENTS, METRICS, PRIVATE, RELEASED, REPORT, SAMPLES, RunFolder

if TYPE_CHECKING:
    from gossamer.run import report
else:
    report = Lazy("gossamer.run.report")

SUMS = "SHA256SUMS"
"""Names every other file of a release with its SHA-256; what has it is a release."""
INTERNAL = (METRICS, ATTACKS, EVENTS, PRIVATE, "tensorboard")
"""What must not lie in a release: computed on real records, or not covered by the guarantee."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What `gossamer verify` found.

    Args:
        problems: each in a sentence that names file and line; empty if all holds.
        guarantees: the promise recomputed from the ledger, one entry per accountant.
        notes: what the check does not speak about, each in a sentence.
    """

    problems: list[str]
    guarantees: list[dict[str, Any]]
    notes: list[str] = dataclasses.field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether all holds."""
        return not self.problems


def verify(run: str | Path) -> Verdict:
    """Write the certificate again from ledger and settings, with every accountant, and hold all files against it.

    Raises:
        RunFolderError: if the folder does not exist or holds no finished run.
    """
    folder = RunFolder(Path(run))
    if not folder.path.is_dir():
        raise RunFolderError(f"{folder.path} is not a folder. `gossamer verify` takes a RUN or a release folder.")
    if not folder.begun and not folder.file(CERTIFICATE).exists():
        raise RunFolderError(f"{folder.path} holds neither a run nor a release: there is no {CERTIFICATE} in it.")
    if folder.begun and not folder.file(CERTIFICATE).exists() and not is_release(folder.path):
        raise RunFolderError(
            f"{folder.path} is unfinished: it has no certificate yet. `gossamer resume {folder.path}` finishes it."
        )
    found = certificate.check(folder.path)
    problems = list(found.problems)
    notes: list[str] = []
    try:
        named, notes = _sums(folder.path)
        problems += named
    except OSError as error:
        problems.append(f"{Path(error.filename or folder.path).name} cannot be read ({error.strerror}).")
    if found.ledger is not None and found.settings is not None:
        problems += _settings(found.settings, found.ledger)
    return Verdict(problems, found.guarantees, notes)


def _settings(settings: dict[str, Any], ledger: PrivacyLedger) -> list[str]:
    """Whether config.json and the method's plan lead to what the ledger opened with and reserved."""
    try:
        card = DataCard.from_dict(settings["card"])
        job = METHODS[settings["method"]].job(settings["config"], card)
        opened = {"unit": ledger.unit, "delta": ledger.delta, "epsilon": ledger.budget}
        says = {"unit": card.unit, "delta": settings["delta"], "epsilon": float(settings["epsilon"])}
        relation = job.relation
        same = merge(job.plan) == merge(ledger.plan)
        named = purposes([(phase.name, phase.plan) for phase in job.phases])
        same_parts = settings.get("components", named) == named
    except GossamerError as error:
        return [f"{CONFIG} cannot be read as settings: {error}"]
    except Exception as error:  # what damaged settings raise is open-ended, and may quote them
        return [f"{CONFIG} cannot be read as settings ({type(error).__name__})."]
    problems = [
        f"{CONFIG}: its {name} is {says[name]}, and line 1 of {LEDGER} opens with {opened[name]}."
        for name in opened
        if says[name] != opened[name]
    ]
    if relation is not ledger.relation:
        problems.append(
            f"{CONFIG}: these settings are accounted for under {RELATION_NAMES[relation]}, and line 1 of {LEDGER} says "
            f"{RELATION_NAMES[ledger.relation]}."
        )
    if not same_parts:
        problems.append(f"{CONFIG}: its components are not the phases of these settings.")
    if not same:
        problems.append(f"{CONFIG}: these settings lead to another plan than the one that line 2 of {LEDGER} reserves.")
    return problems


def is_release(folder: Path) -> bool:
    """Whether `release` made this folder."""
    return (folder / SUMS).is_file()


def _sums(folder: Path) -> tuple[list[str], list[str]]:
    """What is wrong with the files that a release names or must not hold; and what is not checked."""
    if not is_release(folder):
        return [], [
            f"{REPORT} and {SAMPLES} are not checked: this is a RUN, not a release, and its report is rewritten after every "
            "evaluation."
        ]
    try:
        named = _read_sums(folder)
    except ValueError:
        return [f"{SUMS} does not name the files of a release."], []
    problems = [f"{SUMS} does not name {name}." for name in (*RELEASED, REPORT) if name not in named]
    notes = []
    for name, digest in named.items():
        path = folder / name
        if path.is_symlink() or not path.is_file():
            problems.append(f"{name} is missing, or a link.")
        elif sha256(path) != digest:
            problems.append(f"{name} is not the file that was released (its SHA-256 differs from {SUMS}).")
    for path in sorted(folder.iterdir()):
        if path.name in INTERNAL:
            problems.append(f"{path.name} is internal and must not lie in a release: the guarantee does not cover it.")
        elif path.name not in (*named, SUMS):
            notes.append(f"{path.name!r} is not part of the release: nothing here speaks for it.")
    return problems, notes


def _read_sums(folder: Path) -> dict[str, str]:
    """Name and SHA-256 of the files of a release.

    Raises:
        ValueError: if a line is not of the form, or names a file elsewhere.
    """
    if (folder / SUMS).is_symlink():
        raise ValueError("a link")
    found: dict[str, str] = {}
    with (folder / SUMS).open(encoding="utf-8") as file:
        lines = file.read(2**16).splitlines()
    for line in lines:
        digest, name = line.split("  ", 1)
        if name in found or name not in (*RELEASED, REPORT):
            raise ValueError(name)
        found[name] = digest
    return found


def release(run: str | Path, out: str | Path, *, force: bool = False) -> Path:
    """Copy what may be handed out, and nothing else: model, certificate, ledger, settings, samples, a report without
    internal figures, and SHA256SUMS. A release is copied as it is.

    Modes are 0644 whatever the umask says. The copy is verified before it gets its name.

    Raises:
        RequestError: if the run does not verify; it must not be handed out then.
        RunFolderError: if the run is unfinished or lacks its samples, or `out` is taken, in the run, or cannot be written.
    """
    folder, target = Path(run), Path(out).absolute()
    _check_target(folder, target, force=force)
    _must_hold(folder, verify(folder))
    if not (folder / SAMPLES).is_file() or (folder / SAMPLES).is_symlink():
        raise RunFolderError(f"{folder} has no {SAMPLES} of its own; restore it from a copy of the run.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
        old = partial.with_name(f"{partial.name}.old")
    except OSError as error:
        raise RunFolderError(f"{target} cannot be written ({error.strerror}). Choose another folder.") from None
    try:
        _fill(folder, partial)
        _must_hold(folder, verify(partial))  # what lies there now, should somebody write to the run meanwhile
        partial.chmod(0o755)
        if target.is_dir():
            target.replace(old)
        partial.replace(target)
    except FileNotFoundError as error:
        raise LedgerDamaged(
            f"{folder} changed while it was copied: {Path(str(error.filename)).name} is gone."
        ) from None
    finally:
        for left in (partial, old):
            shutil.rmtree(left, ignore_errors=True)
    return Path(out)


def _fill(folder: Path, partial: Path) -> None:
    """Copy the files of a release, or make them from those of a RUN."""
    if is_release(folder):
        for name in (*RELEASED, REPORT, SUMS):
            write_atomically(partial / name, (folder / name).read_bytes())
        return
    for name in RELEASED:
        write_atomically(partial / name, (folder / name).read_bytes())
    if (folder / EVENTS).is_file():
        shutil.copyfile(folder / EVENTS, partial / EVENTS)
    try:
        report.write_report(partial, internal=False)
    except RunFolderError as error:
        raise RunFolderError(str(error).replace(str(partial), str(folder))) from None
    (partial / EVENTS).unlink(missing_ok=True)
    sums = "".join(f"{sha256(partial / name)}  {name}\n" for name in (*RELEASED, REPORT))
    write_atomically(partial / SUMS, sums)


def _check_target(folder: Path, target: Path, *, force: bool) -> None:
    """Refuse a target that is the run, lies in it or around it, or is taken. Changes nothing."""
    here, there = folder.resolve(), target.resolve()
    if here == there:
        raise RunFolderError(f"{target} is the run itself; a release goes into a folder of its own.")
    if here in there.parents or there in here.parents:
        raise RunFolderError(f"{target} lies in {folder}, or around it; a release goes into a folder of its own.")
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise RunFolderError(f"{target} is a file or a link; a release goes into a folder of its own.")
    if not target.is_dir() or not any(target.iterdir()):
        return
    if not force:
        raise RunFolderError(f"{target} is taken. Choose another folder, or replace it with --force.")
    if not is_release(target) or (target / PRIVATE).exists():
        raise RunFolderError(f"{target} holds something other than a release; --force replaces releases only.")


def _must_hold(folder: Path, verdict: Verdict) -> None:
    if not verdict.ok:
        raise RequestError(f"{folder} does not verify and must not be released: {' '.join(verdict.problems)}")
