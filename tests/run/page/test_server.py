"""The server listens on this machine alone, starts quickly, and says how to get its extra."""

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import uvicorn
from chromium import CHROMIUM, LOOKS, QUIET
from starlette.datastructures import Headers
from starlette.responses import HTMLResponse

from gossamer.errors import RequestError
from gossamer.run.cli.main import main
from gossamer.run.page import server
from gossamer.run.page.guard import Guard, opening
from gossamer.run.page.opened import Opened


def hosts_of_ipv6():
    """Whether this machine has the address ::1."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


IPV6 = pytest.mark.skipif(not hosts_of_ipv6(), reason="this machine has no ::1")


def test_it_listens_on_this_machine_alone():
    listening = server._listen(0)
    addresses = [each.getsockname()[0] for each in listening]
    assert addresses == ["127.0.0.1", "::1"][: len(addresses)]
    (port,) = {each.getsockname()[1] for each in listening}
    for each in listening:
        socket.create_connection(each.getsockname()[:2], timeout=5).close()  # a browser need not wait for the server
    with pytest.raises(RequestError, match=f"Port {port} cannot be used"):
        server._listen(port)
    server._close(listening)
    server._close(server._listen(port))


@IPV6
def test_nobody_else_listens_where_a_browser_may_look_for_the_page():
    """Browsers try ::1 for a name below localhost. A server of another user there would get the cookie."""
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as other:
        port = other.getsockname()[1]
        with pytest.raises(RequestError, match=f"Port {port} cannot be used"):
            server._listen(port)
    listening = server._listen(0)
    with pytest.raises(OSError, match="in use"):
        socket.create_server(("::1", listening[0].getsockname()[1]), family=socket.AF_INET6)
    server._close(listening)


def test_a_machine_without_ipv6_has_a_page(monkeypatch):
    real = socket.create_server

    def create(address, *, family):
        if family == socket.AF_INET6:
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
        return real(address, family=family)

    monkeypatch.setattr(socket, "create_server", create)
    (listening,) = server._listen(0)
    listening.close()


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


class _Stranger(BaseHTTPRequestHandler):
    """Keeps the cookies that a browser brings to each host, and leads the browser to the next host."""

    def do_GET(self):
        self.server.cookies[self.headers["host"]] = self.headers["cookie"]
        following = self.server.hosts[len(self.server.cookies) % len(self.server.hosts)]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(opening(f"http://{following}/").encode())
        if len(self.server.cookies) == len(self.server.hosts):
            self.server.seen_all.set()

    def log_message(self, *words):
        pass


@contextlib.contextmanager
def running(serve, stop):
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield
    stop()
    thread.join(20)


@LOOKS[0]
@LOOKS[1]
def test_the_cookie_of_the_page_reaches_no_other_server_of_this_machine(tmp_path):
    """A browser sends a cookie to each port of its host. So the page has a host that no other server has."""
    strangers = ThreadingHTTPServer(("127.0.0.1", 0), _Stranger)
    port = strangers.server_port
    strangers.hosts = [f"{host}:{port}" for host in ("127.0.0.1", "localhost", "gossamer-1.localhost")]
    strangers.cookies, strangers.seen_all, asked = {}, threading.Event(), []

    async def page(scope, receive, send):
        asked.append(Headers(scope=scope).get("cookie"))
        await HTMLResponse(opening(f"http://{strangers.hosts[0]}/"))(scope, receive, send)

    listening = server._listen(0)
    guard = Guard(page, listening[0].getsockname()[1])
    uvicorn_server = uvicorn.Server(uvicorn.Config(guard, log_level="critical", lifespan="off", ws="none"))
    (tmp_path / "entrance.html").write_text(opening(guard.address))
    with (
        running(strangers.serve_forever, strangers.shutdown),
        running(lambda: uvicorn_server.run(sockets=listening), lambda: setattr(uvicorn_server, "should_exit", True)),
    ):
        words = [
            f"--user-data-dir={tmp_path / 'browser'}",
            "--remote-debugging-port=0",
            f"file://{tmp_path}/entrance.html",
        ]
        with subprocess.Popen([CHROMIUM, *QUIET, *words], stderr=subprocess.DEVNULL, start_new_session=True) as browser:
            found = strangers.seen_all.wait(60)
            os.killpg(browser.pid, signal.SIGKILL)
    strangers.server_close()
    assert found and asked and asked[0].startswith("gossamer="), "the page itself got its cookie"
    assert strangers.cookies == dict.fromkeys(strangers.hosts)
