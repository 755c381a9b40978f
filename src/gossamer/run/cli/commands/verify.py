"""`gossamer verify` and `gossamer report`."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gossamer.errors import GossamerError, RunFolderError
from gossamer.lazy import Lazy
from gossamer.run.cli.options import PATH, as_json, options_of
from gossamer.run.storage.run_folder import SUMS

if TYPE_CHECKING:
    from gossamer.privacy import guarantee
    from gossamer.run.release import verify as checking
    from gossamer.run.report import html as reporting
else:
    guarantee = Lazy("gossamer.privacy.guarantee")
    checking, reporting = Lazy("gossamer.run.release.verify"), Lazy("gossamer.run.report.html")


@click.command()
@click.argument("run", type=PATH)
@options_of("gossamer.run.release.verify.verify", key={"metavar": "PUBLIC"})
@as_json
def verify(run: Path, key: str | None, as_json: bool) -> None:
    """Recompute the guarantee of RUN, a run folder or a release, from its ledger with every accountant, and check its files."""
    verdict = checking.verify(run, key=key)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(verdict) | {"ok": verdict.ok}))
    elif verdict.ok:
        for entry in verdict.guarantees:
            click.echo(f"{entry['accountant']}: {guarantee.Guarantee.from_json(entry)}")
        click.echo(f"{run}: verified. The certificate follows from ledger and settings, and names this model.")
        for note in verdict.notes:
            click.echo(f"Note: {note}")
        for line in verdict.not_checked:
            click.echo(f"Not checked: {line}")
    if not verdict.ok:
        raise GossamerError(f"{run} does not verify. {' '.join(verdict.problems)}")


@click.command()
@click.argument("run", type=PATH)
def report(run: Path) -> None:
    """Write the report of RUN, a run folder, again: RUN/report.html, one self-contained page."""
    if checking.is_release(run):
        raise RunFolderError(
            f"{run} is a release. Its report was written with it, and {SUMS} pins it. Use `gossamer report` with a run folder."
        )
    click.echo(str(reporting.write_report(run, internal=True)))
