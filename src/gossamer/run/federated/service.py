"""`gossamer federated serve-records`: a site behind a local socket.

At a site, a SuperNode runs the program that the SuperLink sends it. So that program may not be where records are. Here one
process alone holds records, critic, ledger and budget log, as a user of its own. The program in the SuperNode, the messenger,
passes questions to a Unix socket and the answers back. File permissions say who may connect. No Flower is loaded here.

On the socket: a length in eight bytes, most significant first, then the text of a question; the reply has the same form. One
question per connection, one connection at a time.
"""

import os
import shutil
import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from gossamer.data.source import Data
from gossamer.data.tables.any_card import AnyCard, load_card
from gossamer.errors import Interrupted, RequestError, withheld
from gossamer.events import Sink, note, silent
from gossamer.run.federated.questions import LARGEST
from gossamer.run.federated.site import Site
from gossamer.run.storage.data_sources import DataSources
from gossamer.run.storage.run_folder import RunFolder
from gossamer.run.training.signals import stop_on_signal

_LENGTH = 8  # bytes that hold the length of a message
_TIMEOUT = 30.0  # seconds in which a messenger has to send, or to take, the next bytes
_LOOK = 0.5  # seconds between two looks at whether a stop was requested


def serve_records(
    *,
    data: Data,
    card: AnyCard | str | Path,
    epsilon: float,
    delta: float,
    out: str | Path,
    socket: Path,
    group: str | None = None,
    accounts: str | Path | None = None,
    sink: Sink = silent,
) -> None:
    """Answer the questions that come through a local socket, until SIGTERM or Ctrl-C.

    Args:
        data: the records of this site. For GS-WGAN all belong to one unit.
        card: data card, which all sites have.
        epsilon: limit of this site's total epsilon against everyone but its own people.
        delta: see `run.training.fit.fit`.
        out: run folder of this site: new, unfinished or finished.
        socket: Unix socket to listen on. Only the user of this process may write to its folder.
        group: group of users who may connect. The default is the user of this process alone.
        accounts: see `run.training.fit.fit`.
        sink: takes notes and progress.

    Raises:
        RequestError: if the request is wrong; nothing listens then.
    """
    card = load_card(card) if isinstance(card, str | Path) else card
    folder = RunFolder(Path(out))
    if not folder.begun:
        folder.check_free()
    site = Site(
        folder=folder, sources=DataSources.of(data), card=card, epsilon=epsilon, delta=delta,
        accounts=accounts, sink=sink,
    )  # fmt: skip
    with ExitStack() as stack, stop_on_signal() as site.stop:
        stack.callback(os.umask, os.umask(0o077))  # new folders and files are for this user alone
        stack.callback(site.close)
        listener = stack.enter_context(listening(socket, group))
        site.go_on()
        if folder.path.is_dir():
            folder.path.chmod(0o700)
        sink(note(f"records of {folder.path} answer at {socket}"))
        while not site.stop:
            with suppress(TimeoutError):
                connection, _ = listener.accept()
                with connection:
                    answer(site, connection)


def answer(site: Site, connection: socket.socket) -> None:
    """Read one question and send the reply. Whatever else comes is dropped, with a note on the terminal of this site."""
    connection.settimeout(_TIMEOUT)
    try:
        with connection.makefile("rwb") as stream:
            length = int.from_bytes(stream.read(_LENGTH))
            data = stream.read(length if length <= LARGEST else 0)
            if not data or len(data) < length:
                raise OSError
            reply = site.reply(data.decode()).encode()
            stream.write(len(reply).to_bytes(_LENGTH) + reply)
    except (OSError, UnicodeDecodeError, Interrupted) as error:
        site.sink(note(f"a connection was dropped: {withheld(error)}"))


@contextmanager
def listening(path: Path, group: str | None) -> Iterator[socket.socket]:
    """A listening socket, mode 0600, or 0660 for a group. Its file is removed at the end.

    Raises:
        RequestError: if others may write to its folder, something else is there, or the group cannot be given.
    """
    _check_folder(path)
    with socket.socket(socket.AF_UNIX) as listener:
        _remove_stale(path)
        try:
            listener.bind(str(path))  # nobody can connect before it listens
        except OSError as error:
            raise RequestError(f"`socket={path}` cannot be listened on ({error.strerror or error}).") from None
        try:
            path.chmod(0o600)
            if group is not None:
                _give_to(path, group)
            listener.settimeout(_LOOK)
            listener.listen()
            yield listener
        finally:
            path.unlink(missing_ok=True)


def _check_folder(path: Path) -> None:
    """Refuse a folder where another user could put a socket of their own in place of this one."""
    try:
        found = path.absolute().parent.stat()
    except OSError as error:
        raise RequestError(f"the folder of `socket={path}` cannot be read ({error.strerror}).") from None
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise RequestError(
            f"the folder of `socket={path}` belongs to another user, or others may write to it: they could replace the socket. "
            "Make a folder of this user, mode 0750 or 0755, and name a socket in it."
        )


def _remove_stale(path: Path) -> None:
    """Remove the socket of a process that is gone. Raises RequestError if a process listens, or the file is no socket."""
    if not path.exists():
        return
    if path.is_socket():
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                path.unlink()
                return
    raise RequestError(f"`socket={path}` is taken, by another process or a file. Choose another one.")


def _give_to(path: Path, group: str) -> None:
    try:
        shutil.chown(path, group=group)
        path.chmod(0o660)
    except (LookupError, PermissionError):
        raise RequestError(
            f"`group={group}`: there is no such group, or this user is not in it. Name a group that this user and the user of "
            "the SuperNode are in."
        ) from None
