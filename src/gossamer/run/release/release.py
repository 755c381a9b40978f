"""Handing out a run: the folder that others get, and its signature."""

import glob
import shutil
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gossamer.errors import LedgerDamaged, RequestError, RunFolderError
from gossamer.files import ANSWERS, CERTIFICATE, SITES, at_home, begun, held_folder, write_atomically
from gossamer.kinds import kind_of
from gossamer.methods import synthesizer
from gossamer.metrics.registry import PUBLIC_ITSELF
from gossamer.privacy.certificate.certificate import Certificate, sha256
from gossamer.privacy.certificate.declarations import declare
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.run.release import contents, signing
from gossamer.run.release.contents import RELEASED_BY
from gossamer.run.release.standalone_loader import loadable
from gossamer.run.release.texts import CROISSANT, croissant, readme, registry_entry
from gossamer.run.release.verify import LOADER, MAY_HAVE, README, Verdict, is_release, read_sums, to_sign, verify
from gossamer.run.report import html
from gossamer.run.report.audit_record import audited
from gossamer.run.storage.run_folder import (
    DECLARED,
    EVENTS,
    RELEASED,
    REPORT,
    SAMPLES,
    SIGNATURE,
    SUMS,
    RunFolder,
    today,
)
from gossamer.run.storage.versions import with_source
from gossamer.run.validation import checked_arguments

MEASURED = "measured with `gossamer evaluate`; the figure reads real records and stays with whoever ran it"
ATTACKED = "run with `gossamer attack`; its figures read real records and stay with whoever ran it"


@checked_arguments
def release(
    run: str | Path | synthesizer.Synthesizer,
    out: str | Path,
    *,
    declared: str | Path | Mapping[str, Any] | None = None,
    samples: int = 0,
    tables: bool = False,
    registry: Path | None = None,
    force: bool = False,
) -> Path:
    """Copy what may be handed out, and nothing else.

    A release holds model, certificate, ledger, settings, samples, a report without internal figures, a README, SHA256SUMS,
    croissant.json for catalogues, and a loader if one can be written. A release is copied as it is. Modes are 0644 whatever
    the umask says. The copy is verified before it gets its name. `privacy.certificate.declarations.QUESTIONS` lists what may be
    declared.

    Args:
        run: a finished RUN, or what `fit` returned. Or a release.
        out: a new folder.
        declared: your statements for the certificate, such as who made the release and how settings were chosen, in TOML.
            Default: RUN/declared.toml, if it is there.
        samples: put this many synthetic records into the release, as samples.npz, or samples.csv of a
            table. Default: none.
        tables: put the noisy tables behind the generator of a table into the release, as tables.csv, with standard errors.
        registry: write an entry of the Differential Privacy Deployments Registry into this YAML file, which is no part of
            the release. Default: none.
        force: replace a release that is there, and an entry of the registry.

    Raises:
        RequestError: if the run does not verify, or what is declared is malformed, or its method counts no tables. Also if
            the registry asks for what is not declared.
        RunFolderError: if the run is unfinished or its generator is another version's. Also if `out` or `registry` is taken,
            or cannot be written, or `out` is in the run.
    """
    folder, target = Path(run), Path(out).absolute()
    _clear_up(target)
    _check_target(folder, target, force=force)
    if registry is not None and (not registry.parent.is_dir() or (registry.exists() and not force)):
        raise RunFolderError(
            f"{registry} exists, or its folder does not. Choose another file, or replace it with `force=True`."
        )
    _must_hold(folder, verify(folder))
    answers = _answers(folder, declared)
    if is_release(folder) and (declared is not None or samples or tables):
        raise RequestError(
            f"{folder} is a release and is copied as it is: declare and add files when you release its RUN."
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=target.parent, prefix=_prefix(target)))
        old = partial.with_name(f"{partial.name}.old")
    except OSError as error:
        raise RunFolderError(f"{target} cannot be written ({error.strerror}). Choose another folder.") from None
    try:
        with held_folder(partial):
            if is_release(folder):
                _copy(folder, partial)
            else:
                _fill(folder, partial, answers, samples, tables=tables)
            _must_hold(folder, verify(partial))  # the copy: the run may have changed meanwhile
            if registry is not None:
                write_atomically(registry, registry_entry(Certificate.load(partial)))
            partial.chmod(0o755)
            if target.is_dir():
                target.replace(old)
            partial.replace(target)
    except FileNotFoundError as error:
        raise LedgerDamaged(
            f"{folder} changed while it was copied: {Path(str(error.filename)).name} is gone."
        ) from None
    finally:
        if old.is_dir() and not target.exists():  # stopped between the two renames
            old.replace(target)
        for left in (partial, old):
            shutil.rmtree(left, ignore_errors=True)
    return Path(out)


def _prefix(target: Path) -> str:
    """Of the names of the folders beside `target` in which a release for it is made."""
    return f".{target.name}.release-"


def _clear_up(target: Path) -> None:
    """After a kill: put a release back that was being replaced, and delete one that was begun."""
    for left in sorted(target.parent.glob(f"{glob.escape(_prefix(target))}{'?' * 8}*")):
        with held_folder(left) as locked:
            if not locked or not _is_ours(left) or (left.suffix == ".old" and left.with_suffix("").exists()):
                continue  # another process uses it, or it is not ours
            if left.suffix == ".old" and not target.exists():
                left.replace(target)
            else:
                shutil.rmtree(left, ignore_errors=True)


def _is_ours(left: Path) -> bool:
    """Whether a folder holds nothing but files of a release, finished or begun."""
    expected = (*RELEASED, REPORT, *MAY_HAVE, SUMS, SIGNATURE, EVENTS)
    return all(path.is_file() and (path.name in expected or begun(path.name) in expected) for path in left.iterdir())


@checked_arguments
def sign(run: str | Path, *, key: str | Path, new_key: bool = False, force: bool = False) -> str:
    """Sign a release, or a RUN: write signature.json beside its files. Gives the public key in hexadecimal.

    The signature of a RUN is not copied into its release: sign the release.

    Args:
        run: a release or a finished RUN; it has to verify.
        key: PEM file of an Ed25519 private key that you alone can read, outside the folder.
        new_key: make the key first, and beside it KEY.pub, which you hand out.
        force: replace a signature that is there already.

    Raises:
        RequestError: if the folder does not verify, or the key is none, or lies in the folder.
        RunFolderError: if it is signed already, the key exists already, or something cannot be written.
    """
    folder, path = Path(run), Path(key)
    signature = folder / SIGNATURE
    taken = signature.exists() or signature.is_symlink()
    if taken and not force:
        raise RunFolderError(f"{folder} is signed already. `force=True` replaces the signature.")
    verdict = verify(folder)
    problems = [problem for problem in verdict.problems if not (taken and problem.startswith(SIGNATURE))]
    if problems:
        raise RequestError(f"{folder} does not verify and is not signed: {' '.join(problems)}")
    if folder.resolve() in path.resolve().parents:
        raise RequestError(f"{path} lies in {folder} and would be handed out with it. Keep the key elsewhere.")
    if new_key:
        signing.new_key(path)
    return signing.sign(folder, to_sign(folder), key=path, date=today())


def _answers(folder: Path, declared: str | Path | Mapping[str, Any] | None) -> dict[str, Any]:
    """What the certificate says that cannot be recomputed, and which measurements were made. Their figures are internal."""
    if declared is None and not is_release(folder) and (folder / DECLARED).is_file():
        declared = folder / DECLARED
    where = str(declared) if isinstance(declared, str | Path) else "what is declared"
    if isinstance(declared, str | Path):
        try:
            answers = tomllib.loads(at_home(declared).read_text(encoding="utf-8"))
        except OSError as error:
            raise RequestError(f"{declared} cannot be read ({error.strerror}).") from None
        except ValueError as error:
            raise RequestError(f"{declared} is not TOML ({error}).") from None
    else:
        answers = dict(declared or {})
    if RunFolder(folder).attacked and isinstance(answers.get("attacked", {}), dict):
        answers["attacked"] = {"membership_inference": ATTACKED, **answers.get("attacked", {})}
    if statement := audited(folder):
        answers = {"audited": statement, **answers}
    if any(entry["metric"] == PUBLIC_ITSELF.name for entry in RunFolder(folder).metrics()):
        answers = {"baseline": MEASURED, **answers}
    return declare(answers, where=where)


def _copy(folder: Path, partial: Path) -> None:
    """Copy a release as it is, with the signature that it may have."""
    signed = [SIGNATURE] if (folder / SIGNATURE).is_file() else []
    for name in (*read_sums(folder), SUMS, *signed):
        write_atomically(partial / name, (folder / name).read_bytes())


def _fill(folder: Path, partial: Path, answers: dict[str, Any], samples: int, *, tables: bool) -> None:
    """Make the files of a release from those of a RUN."""
    more = [name for name in (SITES,) if (folder / name).is_file()]
    for name in (*RELEASED, *more):
        if name != SAMPLES:
            write_atomically(partial / name, (folder / name).read_bytes())
    certificate = _certified(partial, answers, {contents.DRAWN_ON: contents.drawn_on()} if samples else {})
    if (folder / EVENTS).is_file():
        shutil.copyfile(folder / EVENTS, partial / EVENTS)
    try:
        generator = synthesizer.Synthesizer.load(partial)
        picture = kind_of(generator.card).picture(generator)
        write_atomically(partial / SAMPLES, picture)  # whatever lies under that name in the RUN
        html.write_report(partial, internal=False)
    except RunFolderError as error:
        raise RunFolderError(str(error).replace(str(partial), str(folder))) from None
    (partial / EVENTS).unlink(missing_ok=True)
    more.append(README)
    if samples:
        drawn = generator.stream(samples, seed=contents.samples_seed(certificate))
        target = partial / generator.samples.file
        generator.samples.write(target, drawn, count=samples)
        target.chmod(0o644)
        more.append(target.name)
    if tables:
        contents.write_tables(partial / contents.TABLES, generator)
        (partial / contents.TABLES).chmod(0o644)
        more.append(contents.TABLES)
    text, cannot = loadable(certificate)
    if text:
        write_atomically(partial / LOADER, text)
        more.append(LOADER)
    if (folder / ANSWERS).is_file():
        write_atomically(partial / ANSWERS, (folder / ANSWERS).read_bytes())
        more.append(ANSWERS)
    classifies, remark = generator.classifier is not None, generator.remark
    page = readme(certificate, samples=samples, no_loader=cannot, classifies=classifies, remark=remark, more=more)
    write_atomically(partial / README, page)
    sums = {name: sha256(partial / name) for name in (*RELEASED, REPORT, *more)}
    write_atomically(partial / CROISSANT, croissant(certificate, sums))
    sums[CROISSANT] = sha256(partial / CROISSANT)
    write_atomically(partial / SUMS, "".join(f"{digest}  {name}\n" for name, digest in sums.items()))


def _certified(partial: Path, answers: dict[str, Any], drawn: dict[str, str]) -> Certificate:
    """The certificate of the run, with what is declared. drawn: what drew the samples, if there are any."""
    old, folder = Certificate.load(partial), RunFolder(partial)
    new = Certificate.build(
        PrivacyLedger.load(folder.file(old.ledger["file"])), folder.config(), model_sha256=old.model["sha256"],
        versions={**old.versions, RELEASED_BY: with_source(), **drawn}, created=old.created, declared=answers,
    )  # fmt: skip
    new.save(partial)
    return new


def _check_target(folder: Path, target: Path, *, force: bool) -> None:
    """Refuse a target that is the run, lies in it or around it, or is taken. Changes nothing."""
    source, destination = folder.resolve(), target.resolve()
    if source == destination or source in destination.parents or destination in source.parents:
        raise RunFolderError(
            f"{target} is the run itself, a folder in it or a folder around it. Choose another folder."
        )
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise RunFolderError(f"{target} is a file or a link. Choose another folder.")
    if not target.is_dir() or not any(target.iterdir()):
        return
    if not force:
        raise RunFolderError(f"{target} is taken. Choose another folder, or replace it with `force=True`.")
    try:
        listed = {*read_sums(target), SUMS, SIGNATURE} if is_release(target) else set()
    except ValueError:
        listed = set()
    foreign = sorted(path.name for path in target.iterdir() if path.name not in listed)
    if foreign or CERTIFICATE not in listed:
        obstacle = (
            f"{foreign[0]}, which is no part of a release" if listed and foreign else "something other than a release"
        )
        raise RunFolderError(f"{target} holds {obstacle}; `force=True` replaces releases only. Choose another folder.")


def _must_hold(folder: Path, verdict: Verdict) -> None:
    if not verdict.ok:
        raise RequestError(f"{folder} does not verify and must not be released: {' '.join(verdict.problems)}")
