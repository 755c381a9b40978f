"""Who may speak to the page: a test for each refusal, and the headers of each answer."""

import re

import pytest
from page_client import send
from starlette.responses import PlainTextResponse

from gossamer.run.page.guard import MOST_BYTES, Guard

PORT = 8765
OWN = "<own>"
"""Stands for the page's own address in a header."""


class Client:
    """Sends single requests to a guarded page, as a browser with a cookie or without."""

    def __init__(self):
        self.guard = Guard(PlainTextResponse("inside"), PORT)
        self.own = self.guard.address.partition("/start")[0]
        self.cookie = ""

    def send(self, path="/", *, method="GET", query=b"", host="<host>", **headers):
        """Return status, headers and text. `None` leaves a header out; `_` in its name stands for `-`."""
        named = {"host": host, "cookie": self.cookie or None, **headers}
        raw = [
            (name.replace("_", "-").encode(), value.replace(OWN, self.own).replace("<host>", self.own[7:]).encode())
            for name, value in named.items()
            if value is not None
        ]
        answer = send(self.guard, path, method=method, query=query, headers=raw)
        return answer.status_code, answer.headers, answer.text

    def begin(self):
        token = self.guard.address.partition("?")[2]
        status, headers, text = self.send("/start", query=token.encode(), sec_fetch_site="cross-site")
        self.cookie = headers.get("set-cookie", "").partition(";")[0]
        return status, headers, text


@pytest.fixture
def client():
    opened = Client()
    opened.begin()
    return opened


def test_the_token_is_exchanged_for_a_strict_cookie_once():
    client = Client()
    assert client.send()[0] == 403, "without the cookie"
    token = client.guard.address.partition("?")[2].encode()
    status, headers, text = client.begin()
    assert status == 200 and 'content="0; url=/"' in text, "no redirect: it would have no strict cookie"
    assert re.search(r"HttpOnly.*SameSite=strict", headers["set-cookie"], re.IGNORECASE)
    assert client.send()[2] == "inside"
    stale = client.send("/start", query=token, cookie=None)
    assert stale[0] == 403 and "set-cookie" not in stale[1]


def test_an_empty_token_never_works(client):
    """The token is empty once it was used."""
    for query in (b"", b"token=", b"token=x"):
        assert client.send("/start", query=query, cookie=None)[0] == 403


@pytest.mark.parametrize("cookie", [None, "", "gossamer=", "gossamer=x", "gossamer-8765={}", "x; =;;"])
def test_another_cookie_is_refused(client, cookie):
    value = client.cookie.partition("=")[2]
    assert client.send(cookie=None if cookie is None else cookie.format(value))[0] == 403


@pytest.mark.parametrize("part", [slice(1), slice(8), slice(-1), slice(1, None), slice(None, None, -1)])
def test_a_part_of_the_cookie_is_not_enough(client, part):
    name, _, value = client.cookie.partition("=")
    assert client.send(cookie=f"{name}={value}")[0] == 200
    assert client.send(cookie=f"{name}={value[part]}")[0] == 403
    assert client.send(cookie=f"{name}={value}{value[part]}")[0] == 403


@pytest.mark.parametrize(
    "host",
    [None, "", "localhost:8765", "127.0.0.1:8765", "[::1]:8765", "127.0.0.1", "evil.example:8765", "192.168.0.2:8765",
     "x<host>", "<host>.", "<host>.evil.example", "<host>0", "<host>,<host>", "gossamer-0123456789abcdef.localhost:8765"],
)  # fmt: skip
def test_another_host_is_refused(client, host):
    """A name that an attacker points at this machine (DNS rebinding) has the attacker's Host."""
    assert client.send(host="<host>")[0] == 200
    assert client.send(host=host)[0] == 403


def test_each_page_has_a_host_that_nobody_can_guess():
    """A browser sends a cookie to each port of its host, and other users know every address of this machine."""
    names = {Client().own.removeprefix("http://").removesuffix(f":{PORT}") for _ in range(20)}
    assert len(names) == 20
    assert all(re.fullmatch(r"gossamer-[0-9a-f]{16}\.localhost", name) for name in names)
    _, headers, _ = Client().begin()
    assert "domain" not in headers["set-cookie"].lower(), "for this host alone"


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://localhost:8765", "http://127.0.0.1:8765", "https://<host>", OWN + ".x"],
)
def test_another_origin_is_refused(client, origin):
    assert client.send(origin=origin)[0] == 403
    assert client.send(method="POST", origin=origin)[0] == 403


def test_a_form_needs_the_page_as_origin(client):
    assert client.send(method="POST")[0] == 403, "no Origin"
    assert client.send(method="POST", origin=OWN)[2] == "inside"
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        assert client.send(method=method)[0] == 403


@pytest.mark.parametrize("site, status", [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)])
def test_a_request_that_another_site_caused_is_refused(client, site, status):
    """Another port of this machine is the same site, and no part of the page."""
    assert client.send(sec_fetch_site=site)[0] == status


def test_a_token_opens_the_start_alone_and_under_the_own_address():
    """It may come from a file. A refused request does not use it up."""
    client = Client()
    token = client.guard.address.partition("?")[2].encode()
    for path, headers in (
        ("/start", {"host": "evil.example:8765"}),
        ("/start", {"origin": "null"}),
        ("/start", {"method": "POST", "origin": OWN}),
        ("/", {"sec_fetch_site": "cross-site"}),
        ("/start/", {"sec_fetch_site": "cross-site"}),
    ):
        assert client.send(path, query=token, **headers)[0] == 403
    assert client.begin()[0] == 200


@pytest.mark.parametrize(
    "headers", [{"content_length": str(MOST_BYTES + 1)}, {"content_length": "x"}, {"transfer_encoding": "chunked"}]
)
def test_a_large_form_is_refused(client, headers):
    assert client.send(method="POST", origin=OWN, **headers)[0] == 413


def test_each_answer_has_a_strict_policy(client):
    for _, headers, _ in (client.send(), client.send(host="evil.example")):
        policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["form-action"] == "'self'"
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"


def test_two_pages_have_different_secrets():
    assert Client().guard.address != Client().guard.address
