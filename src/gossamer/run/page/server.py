"""Start the page: a server on this machine alone, and the browser that may speak to it."""

import errno
import os
import socket
import threading
import webbrowser
from collections.abc import Callable

import uvicorn

from gossamer.errors import RequestError
from gossamer.files import write_atomically
from gossamer.run.page import app
from gossamer.run.page.guard import Guard, opening
from gossamer.run.page.opened import Opened
from gossamer.run.training.signals import stop_at_hangup


def serve(opened: Opened, *, port: int, say: Callable[[str], None], open_browser: bool, first: str = "/") -> None:
    """Show the page until Ctrl-C. Jobs that run then go on.

    Args:
        opened: the list of data sets.
        port: of this machine; 0: any that is free.
        say: prints a line on the terminal.
        open_browser: open the address in the user's browser.
        first: the path of the page that it shows first.

    Raises:
        RequestError: if the port is taken.
    """
    listening = _listen(port)
    guard = Guard(app.application(opened), listening[0].getsockname()[1], first)
    server = uvicorn.Server(
        uvicorn.Config(
            guard, log_level="critical", access_log=False, server_header=False, lifespan="off", ws="none", proxy_headers=False,
            timeout_graceful_shutdown=2,
        )
    )  # fmt: skip
    say(f"The page is at {guard.address}")
    say("This address works once, in one browser on this machine. Ctrl-C ends the page; training goes on.")
    # What the steps need is loaded while the user reads the first page. Loading holds up all else, so it comes later.
    loading = threading.Timer(2, lambda: [step.module for step in app.STEPS.values()])
    loading.daemon = True
    loading.start()
    stop_at_hangup(server.handle_exit)
    try:
        if open_browser:
            write_atomically(opened.entrance, opening(guard.address), private=True)
            threading.Thread(target=webbrowser.open, args=(opened.entrance.as_uri(),), daemon=True).start()
        server.run(sockets=listening)
    except KeyboardInterrupt:  # uvicorn has ended in good order, and passes the signal on
        pass
    finally:
        _close(listening)
        opened.entrance.unlink(missing_ok=True)
    say("The page has ended.")
    for data_set in opened.all():
        if not data_set.problem and (job := data_set.jobs.running()) is not None:
            say(f"`gossamer {job.name}` goes on for {data_set.name}. Start `gossamer page` again to see it.")


def _listen(port: int) -> list[socket.socket]:
    """Sockets of this machine alone, all of one port. Browsers try ::1 before 127.0.0.1: nobody else may listen there."""
    listening: list[socket.socket] = []
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        try:
            listening.append(socket.create_server((host, port), family=family))
        except OSError as error:
            if error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL) and listening:  # a machine without IPv6
                continue
            _close(listening)
            raise RequestError(
                f"Port {port} cannot be used ({os.strerror(error.errno or 0)}). Leave --port out, or start again: then a free "
                "port is taken."
            ) from None
        port = listening[0].getsockname()[1]
    return listening


def _close(listening: list[socket.socket]) -> None:
    for each in listening:
        each.close()
