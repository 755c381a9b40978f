"""A site's records service: its socket, what comes through it, and what another user can read."""

import grp
import importlib.util
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("flwr", reason="the extra `federated` is not installed")

from flwr.app import Context, RecordDict
from test_federated import (
    CARD,
    NAMES,
    QUIET,
    Heard,
    ask,
    asking,
    central,
    client,
    four,
    off_the_grid,
    question,
    records,
    refused,
    run,
    weights,
)

from gossamer.errors import RequestError, RunFolderError
from gossamer.privacy.ledger import PrivacyLedger
from gossamer.run.federated import service
from gossamer.run.federated.flower import message_to
from gossamer.run.federated.network import Local, Reply
from gossamer.run.federated.questions import Answer, NoReply, read, refusal
from gossamer.run.federated.service import answer, listening, serve_records
from gossamer.run.federated.site import REFUSED, Site

__all__ = ["central", "four", "off_the_grid"]  # fixtures
APP = Path(service.__file__).parent / "app" / "gossamer_flower"
NOBODY = 65534


def load_messenger() -> Any:
    spec = importlib.util.spec_from_file_location("client_app", APP / "client_app.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


messenger = load_messenger()


def at_site(path: Path) -> Context:
    return Context(run_id=0, node_id=2, node_config={"socket": str(path)}, state=RecordDict(), run_config={})


def through(path: Path, text: str) -> Reply:
    """The reply that the messenger brings."""
    reply = messenger.app(message_to(2, text), at_site(path))
    return NoReply(reply.error.reason) if reply.has_error() else str(reply.content["text"]["text"])


def through_sockets(sockets: dict[str, Path]) -> Local:
    """The messenger and a socket for each client, as in a deployment, without Flower's processes."""
    return Local({name: partial(through, path) for name, path in sockets.items()})


@contextmanager
def serving(one: Site, path: Path) -> Iterator[None]:
    """A service on a thread; it ends with the block."""
    stop = threading.Event()

    def loop(listener: socket.socket) -> None:
        listener.settimeout(0.05)
        while not stop.is_set():
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                continue
            with connection:
                answer(one, connection)

    with listening(path, None) as listener:
        thread = threading.Thread(target=loop, args=(listener,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@pytest.fixture
def place() -> Iterator[Path]:
    """A short path: a socket's name has 107 bytes at most. Others may pass through it."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def rows_of(reply: Reply) -> torch.Tensor:
    assert isinstance(reply, str)
    rows = read(Answer, reply).values
    assert rows is not None
    return rows


def test_services_give_what_the_central_loop_gives(
    tmp_path: Path, place: Path, four: list[Site], central: torch.Tensor
) -> None:
    with ExitStack() as stack:
        for name, one in zip(NAMES, four, strict=True):
            stack.enter_context(serving(one, place / name))
        found = weights(run(through_sockets({name: place / name for name in NAMES}), tmp_path / "run", **QUIET))
    torch.testing.assert_close(found, central, rtol=0, atol=1e-5)
    assert all(one.folder.finished for one in four)


BROKEN: dict[str, bytes] = {
    "nothing": b"",
    "half a length": b"\0\0",
    "a length without a message": (100).to_bytes(8),
    "half a message": (100).to_bytes(8) + b"x" * 50,
    "no text": (100).to_bytes(8) + b"\xff" * 100,
    "more than is allowed": (service.LARGEST + 1).to_bytes(8) + b"x" * 1000,
    "the longest length": b"\xff" * 8,
}


def test_what_is_no_message_is_dropped_and_the_service_goes_on(tmp_path: Path, place: Path) -> None:
    heard = Heard()
    one = client(tmp_path, 0, sink=heard)
    with serving(one, place / "s"):
        for data in BROKEN.values():
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(20)
                connection.connect(str(place / "s"))
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                with suppress(ConnectionResetError):  # it was dropped before all of it was read
                    assert connection.recv(8) == b""
        assert isinstance(through(place / "s", ""), NoReply)
        assert "no message of a federation" in str(through(place / "s", "{"))
        assert isinstance(through(place / "s", asking()), str)
    assert sum("was dropped" in each for each in heard) == len(BROKEN) + 1
    one.close()


def test_a_message_that_is_too_long_is_not_read(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "LARGEST", 64)
    one = client(tmp_path, 0)
    with serving(one, place / "s"):
        assert isinstance(through(place / "s", asking()), NoReply)
    assert not one.folder.path.exists()


def test_two_connections_at_once_are_answered_one_after_the_other(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = client(tmp_path, 0)
    running, most = [0], [0]
    honest = one.reply

    def reply(text: str) -> str:
        running[0] += 1
        most[0] = max(most[0], running[0])
        time.sleep(0.05)
        running[0] -= 1
        return honest(text)

    monkeypatch.setattr(one, "reply", reply)
    replies: list[Reply] = []
    with serving(one, place / "s"):
        through(place / "s", asking())
        threads = [threading.Thread(target=lambda: replies.append(through(place / "s", question()))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [len(rows_of(each)) for each in replies] == [4, 4, 4]
    assert most == [1]
    one.close()


def test_an_old_round_that_is_sent_again_is_charged_again_until_nothing_is_left(tmp_path: Path, place: Path) -> None:
    """A SuperLink may replay what it has. Each answer has noise of its own and its own line in the ledger."""
    one = client(tmp_path, 0, secret=True)
    round_ = message_to(2, question(2))
    with serving(one, place / "s"):
        through(place / "s", asking())  # six answers
        replies = [messenger.forward(round_, at_site(place / "s")) for _ in range(4)]
        through(place / "s", asking())
        again = messenger.forward(round_, at_site(place / "s"))
    texts = [str(each.content["text"]["text"]) for each in (*replies, again)]
    rows = [rows_of(text) for text in texts[:3]]
    assert not any(torch.equal(rows[i], rows[j]) for i, j in [(0, 1), (1, 2), (0, 2)])
    assert texts[3:] == [refusal(REFUSED)] * 2
    assert sum(one._run.ledger.used) == 6
    one.close()


def test_terms_beyond_the_budget_are_refused_through_the_socket(tmp_path: Path, place: Path) -> None:
    heard = Heard()
    one = client(tmp_path, 0, epsilon=5.0, sink=heard)
    with serving(one, place / "s"):
        assert through(place / "s", asking(config={"steps": 10**6})) == refusal(REFUSED)
    assert "more than the budget of epsilon 5" in heard[0]
    assert not one.folder.path.exists()


def test_a_messenger_says_nothing_of_its_machine(place: Path) -> None:
    assert str(through(place / "secret-name", asking())) == "the records service gave no answer"
    nowhere = Context(run_id=0, node_id=2, node_config={}, state=RecordDict(), run_config={})
    assert messenger.forward(message_to(2, ""), nowhere).error.reason == "the records service gave no answer"


def test_a_messenger_needs_neither_gossamer_nor_pytorch() -> None:
    code = "import client_app, sys; print({'torch', 'gossamer'} & {name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=APP, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# ---------------------------------------------------------------------- restarts and locks


def test_a_killed_service_goes_on_without_new_terms(tmp_path: Path) -> None:
    """The server does not know that the process is another one: no stream broke."""
    one = client(tmp_path, 0)
    ask(one, asking())
    ask(one, question())
    one._open.close()  # as a kill does: nothing more is saved
    again = client(tmp_path, 0)
    again.go_on()
    assert again._critics.left == 5
    assert ask(again, question(2)) is not None
    again._open.close()
    third = client(tmp_path, 0)  # from files, each question has a process of its own
    assert refused(third, question(4)) == REFUSED
    assert ask(third, question(3)) is not None
    third.close()


def test_a_service_that_was_killed_before_its_first_checkpoint_waits_for_its_terms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First weights come with the terms, and are in no file before the first checkpoint."""
    one = client(tmp_path, 0)
    with monkeypatch.context() as patch:
        patch.setattr(one, "_save", lambda: (_ for _ in ()).throw(MemoryError()))
        assert refused(one, asking()) == REFUSED
    assert one.folder.begun
    again = client(tmp_path, 0)
    again.go_on()
    assert again._agreed is None
    ask(again, asking())
    again.close()


def test_a_new_or_finished_folder_needs_nothing_to_go_on_with(tmp_path: Path) -> None:
    one = client(tmp_path, 0)
    one.go_on()
    assert one._agreed is None and not one.folder.path.exists()


def test_two_services_on_one_ledger_are_refused(tmp_path: Path) -> None:
    one = client(tmp_path, 0)
    ask(one, asking())
    with pytest.raises(RunFolderError, match="in use by another process"):
        client(tmp_path, 0).go_on()
    heard = Heard()
    second = client(tmp_path, 0, sink=heard)
    assert refused(second, asking()) == REFUSED
    assert "in use by another process" in heard[0]
    assert sum(one._run.ledger.used) == 0
    one.close()


def commanded(tmp_path: Path, place: Path, **changed: Any) -> dict[str, Any]:
    held = records(0)
    np.savez(tmp_path / "mine.npz", images=held.images, labels=held.labels)
    return {
        "data": tmp_path / "mine.npz", "card": CARD, "epsilon": 60.0, "delta": 1e-3, "out": tmp_path / "mine",
        "socket": place / "s", "accounts": tmp_path / "book", **changed,
    }  # fmt: skip


def test_sigterm_ends_the_service_and_removes_its_socket(tmp_path: Path, place: Path) -> None:
    asked = asking(config={"noise_multiplier": 30.0})

    def use() -> None:
        assert listens.wait(60)
        found.append(stat.S_IMODE((place / "s").stat().st_mode))
        found.append(isinstance(through(place / "s", asked), str))
        os.kill(os.getpid(), signal.SIGTERM)

    found: list[Any] = []
    listens = threading.Event()
    thread = threading.Thread(target=use)
    thread.start()
    serve_records(**commanded(tmp_path, place), sink=lambda _: listens.set())
    thread.join()
    assert found == [0o600, True]
    assert not (place / "s").exists()
    assert PrivacyLedger.load(tmp_path / "mine" / "ledger.jsonl").budget == 60.0
    assert stat.S_IMODE((tmp_path / "mine").stat().st_mode) == 0o700


def test_a_wrong_request_listens_nowhere(tmp_path: Path, place: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    with pytest.raises(RunFolderError, match="holds no run"):
        serve_records(**commanded(tmp_path, place))
    assert not (place / "s").exists()


# ---------------------------------------------------------------------- the socket's file


def opened(path: Path, group: str | None = None) -> None:
    with listening(path, group):
        pass


UNSAFE: dict[str, tuple[Callable[[Path], object], str]] = {
    "others may write": (lambda place: place.chmod(0o757), "could replace the socket"),
    "its group may write": (lambda place: place.chmod(0o775), "could replace the socket"),
    "a file is there": (lambda place: (place / "s").touch(), "is taken"),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_an_unsafe_place_is_refused(place: Path, name: str) -> None:
    spoil, why = UNSAFE[name]
    spoil(place)
    with pytest.raises(RequestError, match=why):
        opened(place / "s")


def test_a_folder_of_another_user_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(RequestError, match="belongs to another user"):
        opened(place / "s")
    with pytest.raises(RequestError, match="cannot be read"):
        opened(place / "none" / "s")
    with pytest.raises(RequestError, match="no such group"):
        monkeypatch.undo()
        opened(place / "s", "no-such-group")
    with pytest.raises(RequestError, match="cannot be listened on"):
        opened(place / ("s" * 200))


def test_the_socket_of_a_process_that_is_gone_is_replaced_and_one_in_use_is_not(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as gone:
        gone.bind(str(place / "s"))
    with listening(place / "s", None), pytest.raises(RequestError, match="is taken"):
        opened(place / "s")
    assert not (place / "s").exists()


# ---------------------------------------------------------------------- two users


def as_nobody(act: Callable[[], object], group: int = NOBODY) -> str:
    """What happens when another user does it: in a fork, so that no file of Python has to be readable to that user."""
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setgid(group)
            os.setuid(NOBODY)
            act()
            said = "done"
        except BaseException as error:
            said = type(error).__name__
        os.write(writer, said.encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as file:
        return file.read().decode()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")
def test_the_user_of_the_supernode_reads_no_records_ledger_or_critic(place: Path) -> None:
    """The program that a SuperLink sends runs as that user. It can connect, where the group of the socket lets it."""
    group = grp.getgrgid(NOBODY).gr_name
    home = place / "home"
    home.mkdir(mode=0o700)
    (home / "mine").mkdir(mode=0o755)
    request = commanded(home, place, group=group)
    request["data"].chmod(0o600)
    asked = asking(config={"noise_multiplier": 30.0})
    said: dict[str, str] = {}

    def connect() -> None:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(place / "s"))

    def use() -> None:
        try:
            while not (place / "s").exists() or stat.S_IMODE((place / "s").stat().st_mode) != 0o660:
                time.sleep(0.02)
            through(place / "s", asked)
            home.chmod(0o755)  # so that it is the run folder and the files themselves that refuse
            critics = list((home / "mine" / "checkpoint").iterdir())
            files = [home / "mine.npz", home / "mine" / "ledger.jsonl", *critics]
            files += [home / "book" / "accounts.jsonl"]
            for file in files:
                assert file.exists()
                said[file.name] = as_nobody(file.read_bytes)
            said["replace"] = as_nobody((place / "s").unlink)
            said["connect"] = as_nobody(connect)
            said["connect in another group"] = as_nobody(connect, group=NOBODY - 1)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=use)
    thread.start()
    serve_records(**request)
    thread.join()
    assert said.pop("connect") == "done"
    assert len(said) >= 6
    assert set(said.values()) == {"PermissionError"}, said
