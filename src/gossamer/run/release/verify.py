"""Checking a run or a release folder.

A release names its files in SHA256SUMS, in the form of `sha256sum --check`. A RUN has no such file: every `evaluate` and
`attack` rewrites its report, and neither report nor pictures are part of the guarantee. README and loader of a release
follow from its certificate: they are written again and compared. `contents.py` looks into the model and the samples. What
follows from nothing in the folder is listed as not checked.
"""

import dataclasses
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from gossamer import notebook, plugins
from gossamer.data.source import Data
from gossamer.data.tables.any_card import card_from
from gossamer.errors import DataError, GossamerError, LedgerDamaged, RequestError, RunFolderError
from gossamer.files import ANSWERS, CERTIFICATE, CONFIG, LEDGER, MODEL, SITES
from gossamer.kinds import kind_of
from gossamer.kinds.score import SCORE
from gossamer.lazy import Lazy
from gossamer.methods import METHODS, method_of
from gossamer.methods.job import plugins_of
from gossamer.privacy.accounting import federated
from gossamer.privacy.certificate import sites
from gossamer.privacy.certificate.certificate import Certificate, check, content, sha256
from gossamer.privacy.certificate.declarations import is_past
from gossamer.privacy.certificate.figures import purposes
from gossamer.privacy.certificate.json_diff import difference
from gossamer.privacy.certificate.statements import plugin, role_of
from gossamer.privacy.guarantee import RELATION_NAMES, Guarantee
from gossamer.privacy.ledger import PrivacyLedger, merge
from gossamer.run.release import contents, signing
from gossamer.run.release.contents import RELEASED_BY, SAMPLE_SETS, TABLES
from gossamer.run.release.standalone_loader import loadable
from gossamer.run.release.texts import CROISSANT, croissant, readme
from gossamer.run.report.audit_record import audited, refuted, said_by
from gossamer.run.storage.run_folder import (
    ATTACKS,
    AUDIT,
    EVENTS,
    METRICS,
    OURS,
    PRIVATE,
    RELEASED,
    REPORT,
    SAMPLES,
    SIGNATURE,
    SUMS,
    RunFolder,
    today,
)
from gossamer.run.storage.run_plan import LOOK, RunPlan
from gossamer.run.storage.versions import with_source
from gossamer.run.validation import checked_arguments

if TYPE_CHECKING:
    from gossamer.methods.synthesizer import Synthesizer
    from gossamer.run.release import replay as replaying
else:
    replaying = Lazy("gossamer.run.release.replay")

README, LOADER = "README.md", "load.py"
MAY_HAVE = (README, LOADER, SITES, *SAMPLE_SETS, TABLES, ANSWERS, CROISSANT)
"""What a release may hold besides."""
_REPLAY = " `gossamer.verify(..., replay=True)` shows whether the model follows from them."
NOT_CHECKED = {
    MODEL: "whether it came from the queries in the ledger. For this, you rely on the signer.",
    CERTIFICATE: "created, versions and declared; epsilon and mu beyond six digits.",
    CONFIG: "whether the data card and the count of earlier runs are true.",
    REPORT: "whether it agrees with the certificate.",
    SAMPLES: "whether the generator drew it.",
    ANSWERS: f"whether their noise is honest. For this, you rely on the signer.{_REPLAY}",
}
"""What is not checked, by the file."""
INTERNAL = (METRICS, ATTACKS, EVENTS, PRIVATE)
"""What must not be in a release: computed on real records, or not covered by the guarantee."""
_SUM_TOLERANCE = 1e-3
"""Relative: the stated sum over several runs may be so much less than the cost of one, as accountants use finite grids."""
RUNS = frozenset({".py", ".pyc", ".pyd", ".pyw", ".so"})
"""Suffixes of files that Python may run when it imports a file beside them."""


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What `gossamer verify` found.

    Args:
        problems: each in a sentence that names file and line; empty: the folder verifies.
        guarantees: recomputed from the ledger, one entry per accountant.
        notes: the signature, the audit, and files that are no part of the folder, each in a sentence.
        not_checked: what may be wrong although the folder verifies, by its file.
    """

    problems: list[str]
    guarantees: list[dict[str, Any]]
    notes: list[str] = dataclasses.field(default_factory=list)
    not_checked: list[str] = dataclasses.field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether the folder verifies."""
        return not self.problems

    def _repr_html_(self) -> str:
        """Show what was found, in a notebook."""
        found = {"problem": self.problems, "note": self.notes, "not checked": self.not_checked}
        rows = [("" if at else name, text) for name, texts in found.items() for at, text in enumerate(texts)]
        return notebook.card("It verifies" if self.ok else "It does not verify", rows)


@checked_arguments
def verify(run: str | Path, *, key: str | None = None, replay: bool = False, public: Data | None = None) -> Verdict:
    """Write the certificate again from ledger and settings, with every accountant, and compare all files with it.

    Args:
        run: a RUN or a release.
        key: the public key that must have signed it: a PEM file, or 64 hexadecimal digits. Default: a signature that is
            there must hold, whoever made it.
        replay: compute the model again from the noisy answers of the run, and compare model and samples. Takes as long as the
            training without its queries.
        public: the public records of the run, for `replay` of a run that had any.

    Raises:
        RunFolderError: if the folder does not exist or holds no finished run, or its method is not installed.
        RequestError: if the key is none, or `public` are not the public records of the run.
    """
    folder = RunFolder(Path(run))
    if not folder.file(CERTIFICATE).exists() and not (folder.begun and is_release(folder.path)):
        folder.check_finished()
    checked = check(folder.path)
    problems = list(checked.problems)
    not_installed = _not_installed(checked.settings, folder.path)
    if checked.ledger is not None and not not_installed:
        problems += _settings(checked.settings, checked.ledger, checked.guarantees)
    if checked.ledger is not None and role_of(checked.settings) == sites.CENTRE:
        problems += sites.problems(folder.path, checked.settings, checked.ledger)
    notes: list[str] = []
    not_checked = [f"{name}: {reason}" for name, reason in NOT_CHECKED.items() if folder.file(name).is_file()]
    try:
        sum_problems, notes = _sums(folder.path)
        signature_problems, signature_notes = signing.check(folder.path, to_sign(folder.path), key=key)
        problems, notes = problems + sum_problems + signature_problems, notes + signature_notes
        if refuted(folder.path):
            problems.append(f"{AUDIT}: the audit refutes the epsilon of this run.")
        # Anyone could put an audit.json into a release: only its certificate counts.
        audit_statement = "" if is_release(folder.path) else audited(folder.path)
        notes += filter(None, [audit_statement or said_by(checked.stated)])
        notes += _plugin_notes(checked.settings)
        for name in (LOOK, SCORE) if not problems else ():
            if figure := checked.stated["figures"].get(name):
                notes.append(f"{figure['statement']} Recomputed from the answer in {LEDGER}.")
        declared = checked.stated.get("declared", {})
        if not problems and is_past(declared, today()):
            notes.append(
                f"Expired: this release was to be used until {declared['expires']}. Ask for a newer one. What its guarantee "
                "says still holds."
            )
        if not problems and not not_installed:
            if any(map(_is_edited, plugins.stated(checked.settings.get("plugins", [])))):
                not_checked.append(
                    f"{CONFIG}: what the method says of itself, because its plug-in has another source here."
                )
            certified = Certificate.of(checked.stated)
            generator, not_compared = contents.of_model(folder.path, certified)
            not_checked += not_compared
            if is_release(folder.path):
                problems, not_compared = _pages(folder.path, certified, generator)
                not_checked += not_compared
            if replay and not problems:
                note, follow = replaying.replayed(folder.path, generator, checked, public)
                notes.append(note)
                left = (line for line in not_checked if line.partition(":")[0] not in follow)
                not_checked = [line.removesuffix(_REPLAY) for line in left]
    except (LedgerDamaged, RunFolderError) as error:
        problems.append(str(error))
    except OSError as error:
        problems.append(f"{Path(error.filename or folder.path).name} cannot be read ({error.strerror}).")
    if not_installed and not problems:
        raise RunFolderError(not_installed)
    return Verdict(problems, checked.guarantees, notes, not_checked)


def _not_installed(settings: dict[str, Any], folder: Path) -> str:
    """Why the method of these settings cannot be loaded here; empty: it can, or they name none."""
    name = settings.get("method")
    try:
        _ = isinstance(name, str) and method_of(name, folder=folder)
    except RunFolderError as error:
        return str(error)
    return ""


def _plugin_notes(settings: Mapping[str, Any]) -> list[str]:
    """What a reader must know of the plug-ins of a run, each in a sentence."""
    notes: list[str] = []
    try:
        entries = list(plugins.stated(settings.get("plugins", [])))
    except (TypeError, ValueError):  # a damaged file, of which `_settings` speaks
        return notes
    for entry in entries:
        about = plugin(entry).replace("the", "The", 1)
        notes.append(f"{about} is a plug-in, which Gossamer did not review.")
        if _has_other_source(entry):
            notes.append(f"{about} has another source here than when the run began.")
    return notes


def _has_other_source(entry: Mapping[str, str]) -> bool:
    """Whether a plug-in is installed here, and not as it was when the run began."""
    with suppress(RequestError):  # it is not installed here
        return plugins.origin(cast(plugins.PluginKind, entry["kind"]), entry["name"]).source != entry["source"]
    return False


def _is_edited(entry: Mapping[str, str]) -> bool:
    """Whether a plug-in is a method with another source here, which may say other things of itself."""
    return entry["kind"] == "method" and _has_other_source(entry)


def _settings(settings: dict[str, Any], ledger: PrivacyLedger, guarantees: list[dict[str, Any]]) -> list[str]:
    """Check that config.json and the method's plan lead to what the ledger opened with, reserved and recorded."""
    try:
        card = card_from(settings["card"])
        asks = RunPlan.of(settings, Path())
        job, look, score = asks.jobs[ledger.choice], asks.look, asks.score
        entries = list(plugins.stated(settings.get("plugins", [])))
        opens, lead_to = f"line 1 of {LEDGER} opens with", "these settings lead to"
        facts = settings["methods"] if any(map(_is_edited, entries)) else job.facts
        pairs = [
            ("unit", card.unit, ledger.unit, opens),
            ("delta", settings["delta"], ledger.delta, opens),
            ("epsilon", float(settings["epsilon"]), ledger.budget, opens),
            ("components", settings["components"], purposes(asks.parts), lead_to),
            ("choice", ledger.choice, look.choice(ledger.look[0], card) if look and ledger.look else 0, lead_to),
            ("score", settings.get(SCORE), score and settings[SCORE] | kind_of(card).scored(job), lead_to),
            ("methods", settings["methods"], facts, lead_to),
            ("plugins", [[entry["kind"], entry["name"]] for entry in entries], plugins_of(job), lead_to),
            ("config", sorted(settings["config"]), sorted(job.settings), lead_to),
        ]
        role = role_of(settings)
        if role in federated.TRUST:
            pairs.append(("answers", settings["federated"]["answers"], federated.granted(settings), lead_to))
        problems = [problem for pair in pairs for problem in difference(*pair, where=CONFIG)]
        if job.relation is not ledger.relation:
            problems.append(
                f"{CONFIG}: these settings are accounted for under {RELATION_NAMES[job.relation]}, and line 1 of {LEDGER} says "
                f"{RELATION_NAMES[ledger.relation]}."
            )
        if merge(asks.plan) != merge(ledger.plan):
            problems.append(
                f"{CONFIG}: these settings lead to another plan than the one that line 2 of {LEDGER} reserves."
            )
        best = min(guarantees, key=lambda entry: float(entry["epsilon"]), default={"epsilon": "inf"})
        promises = math.isfinite(float(best["epsilon"]))
        if promises and not _is_enough(settings.get("accounts"), best):
            problems.append(
                f"{CONFIG}: its runs together are said to cost less than this run alone, or at another delta."
            )
        if promises and role != federated.CLIENT and not any(count for _, count in ledger.charged):
            problems.append(f"{LEDGER} records none of the queries that it reserves: it certifies nothing.")
    except GossamerError as error:
        return [f"{CONFIG} cannot be read as settings: {error}"]
    except Exception as error:  # damaged settings raise any error, and it may quote them
        return [f"{CONFIG} cannot be read as settings ({type(error).__name__})."]
    return problems


def _is_enough(accounts: dict[str, Any] | None, own: dict[str, Any]) -> bool:
    """Whether the stated sum over all runs is at least the finite cost of this run."""
    if accounts is None:
        return True
    sum_ = Guarantee.from_json(accounts["together"])
    return bool(sum_.delta == own["delta"] and sum_.epsilon >= own["epsilon"] * (1 - _SUM_TOLERANCE))


def _pages(folder: Path, certificate: Certificate, generator: "Synthesizer | None") -> tuple[list[str], list[str]]:
    """What is wrong with README, loader, samples and noisy tables of a release, and what was not compared."""
    problems, not_compared = [], []
    text, cannot = loadable(certificate)
    listed = read_sums(folder)
    loads = LOADER in listed
    if loads and METHODS.is_plugin(certificate.method):
        problems.append(f"{LOADER} is not part of this release: Gossamer writes none for a method that is a plug-in.")
    elif loads and content(folder / LOADER) != text.encode():
        if certificate.versions.get(RELEASED_BY) == with_source():
            problems.append(f"{LOADER} is not the program that this version of Gossamer writes for the certificate.")
        else:
            not_compared.append(
                f"{LOADER}: not compared, because another version of Gossamer wrote it. It is a program: read it before you "
                "run it."
            )
    elif text and not loads:
        problems.append(f"{LOADER} is missing.")
    samples, name, kind = 0, contents.sample_set(certificate), kind_of(certificate.card)
    for foreign in {*SAMPLE_SETS} & {*listed} - {name}:
        problems.append(f"{foreign} is not part of this release, which is of {kind.in_words}.")
    if name in listed:
        try:
            samples = kind.sample_count(folder / name)
        except DataError:
            return [*problems, f"{name} does not hold samples."], not_compared
        wrong, not_drawn = contents.of_samples(folder, certificate, generator, samples)
        problems, not_compared = problems + wrong, not_compared + not_drawn
    if TABLES in listed:
        wrong, not_counted = contents.of_tables(folder, certificate, generator)
        problems, not_compared = problems + wrong, not_compared + not_counted
    classifies, remark = (generator.classifier is not None, generator.remark) if generator else (False, "")
    cannot = "" if loads else cannot
    page = readme(certificate, samples=samples, no_loader=cannot, classifies=classifies, remark=remark, more=listed)
    others = {name: digest for name, digest in listed.items() if name != CROISSANT}
    for name, text in ((README, page), (CROISSANT, croissant(certificate, others))):
        if name not in listed or content(folder / name) != text.encode():
            problems.append(f"{name} is missing, or not the page that the certificate leads to.")
    return problems, not_compared


def to_sign(folder: Path) -> list[str]:
    """The files that a signature names: all of a release, the final ones of a RUN. None if SHA256SUMS is damaged."""
    if not is_release(folder):
        return [MODEL, CERTIFICATE, LEDGER, CONFIG]
    try:
        return [*read_sums(folder), SUMS]
    except ValueError:
        return []


def is_release(folder: Path) -> bool:
    return (folder / SUMS).is_file()


def _sums(folder: Path) -> tuple[list[str], list[str]]:
    """What is wrong with the files that a folder names or must not hold; and notes on others."""
    if not is_release(folder):
        stripped = sorted(path.name for path in folder.iterdir() if path.name.casefold() in (README.casefold(), LOADER))
        if stripped:
            return [
                f"{SUMS} is missing: {stripped[0]} says that this is a release, whose files it names. "
                f"If it is a RUN, move {stripped[0]} elsewhere."
            ], []
        expected = {*OURS, PRIVATE}
        foreign = sorted(path.name for path in folder.iterdir() if path.name not in expected)
        return [], [
            f"{REPORT} and {SAMPLES} are not checked: this is a RUN, not a release, and its report is "
            "rewritten after every evaluation.",
            *(f"{name!r} is not part of the run: nothing here speaks for it." for name in foreign),
        ]
    try:
        listed = read_sums(folder)
    except ValueError:
        return [f"{SUMS} does not name the files of a release."], []
    problems = [f"{SUMS} does not name {name}." for name in (*RELEASED, REPORT) if name not in listed]
    notes = []
    for name, digest in listed.items():
        path = folder / name
        if path.is_symlink() or not path.is_file():
            problems.append(f"{name} is missing, or a link.")
        elif sha256(path) != digest:
            problems.append(f"{name} is not the file that was released (its SHA-256 differs from {SUMS}).")
    for path in sorted(folder.iterdir()):
        if path.name in INTERNAL:
            problems.append(f"{path.name} is internal and must not lie in a release: the guarantee does not cover it.")
        elif path.name in (*listed, SUMS, SIGNATURE):
            continue
        elif _runs(path):
            problems.append(
                f"{path.name!r} is not part of the release, and Python may run what is in it in place of {LOADER} or of what "
                f"that imports. Delete it before you import {LOADER.removesuffix('.py')}, then verify again."
            )
        else:
            notes.append(f"{path.name!r} is not part of the release: nothing here speaks for it.")
    return problems, notes


def _runs(path: Path) -> bool:
    """Whether Python may run this file, or a file in this folder. A link in a folder counts."""
    if not path.is_dir():
        return path.suffix.lower() in RUNS
    return path.is_symlink() or any(inner.suffix.lower() in RUNS or inner.is_symlink() for inner in path.rglob("*"))


def read_sums(folder: Path) -> dict[str, str]:
    """Name and SHA-256 of the files of a release. Raises ValueError if SHA256SUMS is malformed."""
    if (folder / SUMS).is_symlink():
        raise ValueError("a link")
    digests: dict[str, str] = {}
    with (folder / SUMS).open(encoding="utf-8") as file:
        lines = file.read(2**16).splitlines()
    for line in lines:
        digest, name = line.split("  ", 1)
        if name in digests or name not in (*RELEASED, REPORT, *MAY_HAVE):
            raise ValueError(name)
        digests[name] = digest
    return digests
