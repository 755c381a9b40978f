"""`gossamer sign`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gossamer.lazy import Lazy

if TYPE_CHECKING:
    from gossamer.run.release import release as handing_out
else:
    handing_out = Lazy("gossamer.run.release.release")


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--key", type=click.Path(path_type=Path, dir_okay=False), required=True, help="PEM file of an Ed25519 private key."
)
@click.option("--new-key", is_flag=True, help="Make the key first, and KEY.pub, which you hand out.")
@click.option("--force", is_flag=True, help="Replace a signature that is there already.")
def sign(run: Path, key: Path, new_key: bool, force: bool) -> None:
    """Sign a release (or a RUN): whoever has the public key sees that you stand for it, and that nothing was changed since.

    \b
    gossamer sign OUT --key me.pem --new-key
    gossamer verify OUT --key me.pem.pub
    """
    public = handing_out.sign(run, key=key, new_key=new_key, force=force)
    click.echo(f"{run}: signed. The public key, which others need from you by a way that they trust:\n{public}")
