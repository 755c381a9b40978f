"""`gossamer release`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gossamer.lazy import Lazy
from gossamer.run.cli.options import force

if TYPE_CHECKING:
    from gossamer.privacy.certificate import certificate
    from gossamer.run.release import release as handing_out
else:
    certificate, handing_out = Lazy("gossamer.privacy.certificate.certificate"), Lazy("gossamer.run.release.release")


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="A new folder.")
@click.option(
    "--declared",
    type=click.Path(path_type=Path),
    metavar="FILE.toml",
    help="Who made it, whom to ask, how settings were chosen ...: what the certificate says and nobody can recompute.",
)
@click.option("--samples", type=click.IntRange(min=1), help="Put so many synthetic records into it, as samples.npz.")
@force
def release(run: Path, out: Path, declared: Path | None, samples: int | None, force: bool) -> None:
    """Copy what may be handed out: model, certificate, ledger, settings, samples, README, a report without internal figures."""
    click.echo(str(handing_out.release(run, out, declared=declared, samples=samples or 0, force=force)))
    click.echo(certificate.Certificate.load(out).statement, err=True)
