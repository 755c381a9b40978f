"""`gossamer page`."""

import sys
from functools import partial

import click

from gossamer.errors import RequestError
from gossamer.run.storage.state_folder import state_folder


@click.command()
@click.argument("data", required=False)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of this machine. Default: a free one.")
def page(data: str | None, port: int) -> None:
    """Open a page in your browser that leads from DATA to a signed release. It calls the same functions as the commands.

    Only the browser that opens the printed address, on this machine, can use it. Nothing leaves the machine. Ctrl-C ends the
    page; a run that trains goes on. Needs the extra `page`.
    """
    try:
        from gossamer.run.page import opened, server
    except ImportError as error:
        raise RequestError("The page needs its extra: pip install 'gossamer[page]'.") from error
    known = opened.Opened(state_folder())
    first = "/" if data is None else f"/d/{known.open(data).id}/data"
    say = partial(click.echo, err=True)
    server.serve(known, port=port, say=say, open_browser=sys.stderr.isatty(), first=first)
