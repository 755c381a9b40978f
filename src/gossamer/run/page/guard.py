"""Who may speak to the page: the browser that opened it, on this machine, from the page itself. All others get status 403.

The address that is printed holds a token that works once. The browser gets a cookie for it. Each request needs the cookie, the
page's own name as Host, and no other Origin; one that changes something needs the page as Origin.

Browsers send a cookie to each port of its host. So each page has a host of its own: a random name below `localhost`, which
browsers look for on this machine alone. Nobody else knows the name, so no other server here gets the cookie.

The token is in no argument of a process, because other users of this machine can read those. The browser gets it from a private
file (`opening`).
"""

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 2_000_000
"""Of a form."""
REFUSED = "This request was refused. Open the address that `gossamer page` printed, or start `gossamer page` again.\n"
_START = "/start"
_COOKIE = "gossamer"
_READS = ("GET", "HEAD")
_POLICY = "; ".join([
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:", "connect-src 'self'",
    "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
])  # fmt: skip
_HEADERS = {
    "content-security-policy": _POLICY,
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
}
"""Of every answer. An answer may replace the policy by one of its own, as that with a report does."""


class Guard:
    """Passes requests of the browser that opened the page on to `app`.

    Args:
        app: what answers them.
        port: the port of this machine on which the page listens.
        first: the path of the page that the browser sees first.
    """

    def __init__(self, app: ASGIApp, port: int, first: str = "/") -> None:
        self._first = first
        self._app, self._place = app, f"gossamer-{secrets.token_hex(8)}.localhost:{port}"
        self._cookie, self._token = secrets.token_urlsafe(32), secrets.token_urlsafe(32)

    @property
    def address(self) -> str:
        """The address to open. Its token works once."""
        return f"http://{self._place}{_START}?token={self._token}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    own.setdefault(name, value)
            await send(message)

        if not self._is_from_here(scope, headers):
            answer: ASGIApp = _refusal()
        elif self._is_start(scope):
            answer = self._begin(scope)
        elif not self._has_cookie(headers):
            answer = _refusal()
        elif _size(headers) > MOST_BYTES or "transfer-encoding" in headers:
            answer = PlainTextResponse("This form is too large.\n", status_code=413)
        else:
            answer = self._app
        await answer(scope, receive, send_guarded)

    def _is_from_here(self, scope: Scope, headers: Headers) -> bool:
        """Whether the address is the page's own, and the request no other page's."""
        origins, site = headers.getlist("origin"), headers.get("sec-fetch-site", "none")
        allowed = [f"http://{self._place}"]
        changes = scope["method"] not in _READS
        return (
            headers.getlist("host") == [self._place]
            and (origins == allowed if changes or origins else True)
            and (site in ("same-origin", "none") or self._is_start(scope))
        )

    def _is_start(self, scope: Scope) -> bool:
        """Whether this asks for the cookie. It comes from a file, or from an address that the user has typed."""
        return scope["path"] == _START and scope["method"] in _READS

    def _begin(self, scope: Scope) -> Response:
        """Exchange the token for the cookie, once."""
        given = QueryParams(scope["query_string"]).get("token", "")
        if scope["method"] != "GET" or not self._token or not hmac.compare_digest(given.encode(), self._token.encode()):
            return _refusal()
        self._token = ""
        answer = HTMLResponse(opening(self._first))  # a redirect would be the file's, and get no strict cookie
        answer.set_cookie(_COOKIE, self._cookie, httponly=True, samesite="strict")
        return answer

    def _has_cookie(self, headers: Headers) -> bool:
        try:
            cookies = SimpleCookie("; ".join(headers.getlist("cookie")))
        except CookieError:
            return False
        given = cookies[_COOKIE].value if _COOKIE in cookies else ""
        return hmac.compare_digest(given.encode(), self._cookie.encode())


def opening(address: str) -> str:
    """A page that leads to an address at once. Its icon is empty: a browser asks for none."""
    head = f'<!doctype html><link rel="icon" href="data:,"><meta http-equiv="refresh" content="0; url={address}">'
    return f'{head}<p>Gossamer opens the page. <a href="{address}">Open it now</a></p>'


def _refusal() -> Response:
    return PlainTextResponse(REFUSED, status_code=403)


def _size(headers: Headers) -> int:
    """The declared size of a body; too large where it is no number."""
    declared = headers.get("content-length", "0")
    return int(declared) if declared.isdecimal() and len(declared) < 12 else MOST_BYTES + 1
