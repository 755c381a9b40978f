"""The server listens on this machine alone, starts quickly, and says how to get its extra."""

import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gossamer.errors import RequestError
from gossamer.run.cli.main import main
from gossamer.run.page import server
from gossamer.run.page.opened import Opened


def test_it_listens_on_this_machine_alone():
    with server._listen(0) as listening:
        address, port = listening.getsockname()
        assert address == "127.0.0.1"
        socket.create_connection((address, port), timeout=5).close()  # a browser need not wait for the server
        with pytest.raises(RequestError, match=f"Port {port} cannot be used"):
            server._listen(port)


def test_the_token_is_in_a_private_file_and_in_no_argument_of_the_browser(monkeypatch, tmp_path):
    """Other users of this machine can read the arguments of processes."""
    said, asked, opened = [], [], threading.Event()

    def browse(address):
        path = Path(address.removeprefix("file://"))
        asked.append((address, path.read_text(encoding="utf-8"), path.stat().st_mode & 0o777))
        opened.set()

    monkeypatch.setattr(server.webbrowser, "open", browse)
    monkeypatch.setattr(server.uvicorn.Server, "run", lambda *_, **__: opened.wait(20))
    server.serve(Opened(tmp_path / "state"), port=0, say=said.append, open_browser=True)
    token = said[0].partition("token=")[2]
    ((address, text, mode),) = asked
    assert token and token not in address and f"token={token}" in text and mode == 0o600
    assert list((tmp_path / "state").iterdir()) == []


def test_a_closed_terminal_ends_the_page_in_good_order(monkeypatch, tmp_path):
    def run(self, **_):
        signal.raise_signal(signal.SIGHUP)
        stopped.append(self.should_exit)

    stopped, before = [], signal.signal(signal.SIGHUP, lambda *_: None)  # by default it would end the tests
    monkeypatch.setattr(server.uvicorn.Server, "run", run)
    server.serve(Opened(tmp_path / "state"), port=0, say=lambda _: None, open_browser=False)
    signal.signal(signal.SIGHUP, before)
    assert stopped == [True]


def test_the_page_opens_without_what_is_slow_to_load():
    """PyTorch and the accountants take seconds. They are loaded after the first page is there."""
    code = "import gossamer.run.page.server, sys; print([m for m in ('torch', 'numpy', 'scipy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_other_commands_do_not_load_the_server():
    code = (
        "import gossamer, gossamer.run.cli.main, sys; print([m for m in ('starlette', 'uvicorn') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_without_its_extra_the_command_says_how_to_get_it(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "gossamer.run.page.server", None)
    monkeypatch.delattr("gossamer.run.page.server")
    with pytest.raises(SystemExit) as ended:
        main(["page"])
    assert ended.value.code == 2
    assert "pip install 'gossamer[page]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_records_that_are_not_there_are_refused_before_the_page_opens(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        main(["page", str(tmp_path / "nothing.csv")])
    assert ended.value.code == 2
    assert "There is nothing at" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
