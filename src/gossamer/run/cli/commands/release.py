"""`gossamer release` and `gossamer sign`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gossamer.lazy import Lazy
from gossamer.run.cli.options import PATH, options_of

if TYPE_CHECKING:
    from gossamer.privacy.certificate import certificate
    from gossamer.run.release import release as handing_out
else:
    certificate, handing_out = Lazy("gossamer.privacy.certificate.certificate"), Lazy("gossamer.run.release.release")


@click.command()
@click.argument("run", type=PATH)
@click.option("-o", "--out", type=PATH, required=True, help="Folder to write. It must be new.")
@options_of(
    "gossamer.run.release.release.release",
    declared={"type": PATH, "metavar": "FILE.toml", "help": "Your statements for the certificate. Default: none."},
    samples={"type": click.IntRange(min=1), "default": None},
)
def release(run: Path, out: Path, declared: Path | None, samples: int | None, force: bool) -> None:
    """Copy what may leave RUN: model, certificate, ledger, settings, samples, README, report without private figures."""
    click.echo(str(handing_out.release(run, out, declared=declared, samples=samples or 0, force=force)))
    click.echo(certificate.Certificate.load(out).statement, err=True)


@click.command()
@click.argument("run", type=PATH)
@options_of("gossamer.run.release.release.sign", key={"type": click.Path(path_type=Path, dir_okay=False)})
def sign(run: Path, key: Path, new_key: bool, force: bool) -> None:
    """Sign RUN, a release or a run folder. Whoever has your public key can then check that it is yours and unchanged.

    \b
    gossamer sign RELEASE --key me.pem --new-key
    gossamer verify RELEASE --key me.pem.pub
    """
    public = handing_out.sign(run, key=key, new_key=new_key, force=force)
    click.echo(f"{run}: signed. Give others this public key by a way that they trust:\n{public}")
