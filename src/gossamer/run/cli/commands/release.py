"""`gossamer verify`, `gossamer report`, `gossamer release` and `gossamer sign`."""

import dataclasses
import sys
from pathlib import Path
from typing import Any

import click

import gossamer
from gossamer.errors import GossamerError, RunFolderError
from gossamer.files import write_atomically
from gossamer.run.cli.options import PATH, as_json, options_of, show
from gossamer.run.storage.run_folder import DECLARED, SUMS, RunFolder


@click.command()
@click.argument("run", type=PATH)
@options_of("run.release.verify.verify", key={"metavar": "PUBLIC"})
@as_json
def verify(run: Path, as_json: bool, **options: Any) -> None:
    """Recompute the guarantee of RUN, and check its files. RUN is a run folder or a release.

    Every accountant computes epsilon from the ledger.
    """
    from gossamer.privacy.guarantee import Guarantee

    verdict = gossamer.verify(run, **options)
    lines = [
        *(f"{entry['accountant']}: {Guarantee.from_json(entry)}" for entry in verdict.guarantees),
        f"{run}: verified. The certificate follows from ledger and settings, and names this model.",
        *(f"Note: {note}" for note in verdict.notes),
        *(f"Not checked: {line}" for line in verdict.not_checked),
    ]
    if as_json or verdict.ok:
        show(lines, dataclasses.asdict(verdict) | {"ok": verdict.ok}, as_json=as_json)
    if not verdict.ok:
        raise GossamerError(f"{run} does not verify. {' '.join(verdict.problems)}")


@click.command()
@click.argument("run", type=PATH)
def report(run: Path) -> None:
    """Write the report of RUN, a run folder, again. It is RUN/report.html, one self-contained page."""
    from gossamer.run.release.verify import is_release
    from gossamer.run.report.html import write_report

    if is_release(run):
        raise RunFolderError(
            f"{run} is a release. Its report was written with it, and {SUMS} pins it. Use `gossamer report` with a run folder."
        )
    click.echo(str(write_report(run, internal=True)))


@click.command()
@click.argument("run", type=PATH)
@click.option("-o", "--out", type=PATH, required=True, help="Folder to write. It must be new.")
@options_of(
    "run.release.release.release",
    declared={"metavar": "FILE.toml"},
    registry={"metavar": "ENTRY.yaml"},
    samples={"type": click.IntRange(min=1), "default": None},
)
def release(run: Path, out: Path, samples: int | None, **options: Any) -> None:
    """Copy what may leave RUN, and nothing else.

    That is model, certificate, ledger, settings, samples, README, and the report without private figures.

    On a terminal, the first release of RUN asks for what only you know, and keeps the answers in RUN/declared.toml.
    """
    if options["declared"] is None and sys.stdin.isatty():
        _ask(run)
    click.echo(str(gossamer.release(run, out, samples=samples or 0, **options)))
    click.echo(gossamer.privacy.Certificate.load(out).statement, err=True)


@click.command()
@click.argument("run", type=PATH)
@options_of("run.release.release.sign", key={"type": click.Path(path_type=Path, dir_okay=False)})
def sign(run: Path, **options: Any) -> None:
    """Sign RUN, a release or a run folder. Whoever has your public key can then check that it is yours and unchanged.

    \b
    gossamer sign RELEASE --key me.pem --new-key
    gossamer verify RELEASE --key me.pem.pub
    """
    public = gossamer.sign(run, **options)
    click.echo(f"{run}: signed. Give others this public key by a way that they trust:\n{public}")


def _ask(run: Path) -> None:
    """Ask once for what the certificate of a finished RUN says and nobody can compute, and keep the answers there."""
    from gossamer.data.card import toml
    from gossamer.privacy.certificate.declarations import QUESTIONS, declare, questions

    kept = run / DECLARED
    if kept.exists() or not RunFolder(run).finished or (run / SUMS).exists():
        return
    click.echo(f"Recipients read your answers. Enter leaves a question out. They are kept in {kept}.", err=True)
    answers: dict[str, str] = {}
    for name in questions(gossamer.privacy.Certificate.load(run).facts["public_inputs"]):
        while answer := click.prompt(f"{name}: {QUESTIONS[name]}", default="", show_default=False, err=True).strip():
            try:
                declare({name: answer}, where=name)
            except GossamerError as error:
                click.echo(error, err=True)
            else:
                answers[name] = answer
                break
    write_atomically(kept, "".join(f"{name} = {toml(answer)}\n" for name, answer in answers.items()), private=True)
