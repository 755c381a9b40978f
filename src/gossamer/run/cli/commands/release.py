"""`gossamer verify`, `gossamer report`, `gossamer release` and `gossamer sign`."""

import dataclasses
from pathlib import Path
from typing import Any

import click

import gossamer
from gossamer.errors import GossamerError, RunFolderError
from gossamer.run.cli.options import PATH, as_json, options_of, show
from gossamer.run.storage.run_folder import SUMS


@click.command()
@click.argument("run", type=PATH)
@options_of("run.release.verify.verify", key={"metavar": "PUBLIC"})
@as_json
def verify(run: Path, as_json: bool, **options: Any) -> None:
    """Recompute the guarantee of RUN, a run folder or a release, from its ledger with every accountant, and check its files."""
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
    """Write the report of RUN, a run folder, again: RUN/report.html, one self-contained page."""
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
    declared={"type": PATH, "metavar": "FILE.toml", "help": "Your statements for the certificate. Default: none."},
    samples={"type": click.IntRange(min=1), "default": None},
)
def release(run: Path, out: Path, samples: int | None, **options: Any) -> None:
    """Copy what may leave RUN: model, certificate, ledger, settings, samples, README, report without private figures."""
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
