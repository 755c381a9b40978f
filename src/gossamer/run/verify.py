"""Checking a run or a release folder, and copying out what may be handed out."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

from gossamer.data.card import DataCard
from gossamer.errors import GossamerError, RequestError, RunFolderError
from gossamer.methods import METHODS
from gossamer.privacy import certificate
from gossamer.privacy.certificate import CERTIFICATE, LEDGER
from gossamer.privacy.ledger import PrivacyLedger, merge
from gossamer.run.folder import CONFIG, RELEASED, RunFolder
from gossamer.run.report import write_report


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What `gossamer verify` found.

    Args:
        problems: each in a sentence that names file and line; empty if all holds.
        guarantees: the promise recomputed from the ledger, one entry per accountant.
    """

    problems: list[str]
    guarantees: list[dict[str, Any]]

    @property
    def ok(self) -> bool:
        """Whether all holds."""
        return not self.problems


def verify(run: str | Path) -> Verdict:
    """Recompute the guarantee from the ledger with every accountant, and hold certificate, settings and model against it.

    Raises:
        RunFolderError: if the folder does not exist or holds no finished run.
    """
    folder = RunFolder(Path(run))
    if not folder.path.is_dir():
        raise RunFolderError(f"{folder.path} is not a folder. `gossamer verify` takes a RUN or a release folder.")
    if folder.begun and not folder.file(CERTIFICATE).is_file():
        raise RunFolderError(
            f"{folder.path} is unfinished: it has no certificate yet. `gossamer resume {folder.path}` finishes it."
        )
    try:
        problems = certificate.verify(folder.path, folder.config())
    except (GossamerError, KeyError, TypeError, ValueError) as error:
        return Verdict([f"{CONFIG} cannot be read as settings: {error}"], [])
    try:
        ledger = PrivacyLedger.load(folder.file(LEDGER))
    except (GossamerError, OSError):
        return Verdict(problems, [])
    problems += _settings(folder, ledger)
    return Verdict(problems, certificate.recompute(ledger))


def _settings(folder: RunFolder, ledger: PrivacyLedger) -> list[str]:
    """Whether config.json and the method's plan lead to what the ledger reserved."""
    try:
        config_json = folder.config()
        stated = json.loads(folder.file(CERTIFICATE).read_text(encoding="utf-8"))
        module = METHODS[config_json["method"]]
        plan = module.plan(module.Config(**config_json["config"]), DataCard.from_dict(config_json["card"]))
        problems = [
            f"{CONFIG}: {name} is not what {CERTIFICATE} states."
            for name in ("method", "config", "card")
            if config_json[name] != stated[name]
        ]
    except (GossamerError, KeyError, TypeError, ValueError) as error:
        return [f"{CONFIG} or {CERTIFICATE} cannot be read as settings: {error}"]
    if merge(plan) != merge(ledger.plan):
        problems.append(f"{CONFIG}: these settings lead to another plan than the one that line 2 of {LEDGER} reserves.")
    return problems


def release(run: str | Path, out: str | Path, *, force: bool = False) -> Path:
    """Copy what may be handed out, and nothing else: model, certificate, ledger, settings, samples, a report without
    internal figures.

    Raises:
        RequestError: if the run does not verify; it must not be handed out then.
        RunFolderError: if the run is unfinished, or `out` is taken.
    """
    folder, target = RunFolder(Path(run)), Path(out)
    verdict = verify(folder.path)
    if not verdict.ok:
        raise RequestError(f"{folder.path} does not verify and must not be released: {' '.join(verdict.problems)}")
    if target.exists() and (not target.is_dir() or (any(target.iterdir()) and not force)):
        raise RunFolderError(f"{target} is taken. Choose another folder, or replace it with --force.")
    if target.is_dir() and force and any(target.iterdir()) and not RunFolder(target).finished:
        raise RunFolderError(f"{target} holds something other than a release; --force replaces releases only.")
    if target.resolve() == folder.path.resolve():
        raise RunFolderError(f"{target} is the run itself; a release goes into a folder of its own.")
    shutil.rmtree(target, ignore_errors=True)
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for name in RELEASED:
        shutil.copyfile(folder.file(name), partial / name)
    shutil.copyfile(folder.file("events.jsonl"), partial / "events.jsonl")
    write_report(partial, internal=False)
    (partial / "events.jsonl").unlink()
    partial.replace(target)
    return target
