"""Sessions of browsers: links that sign in once, cookies, and the tokens of forms. Nothing of it is stored.

All of it is signed with a key that is derived from the server's token, so a session outlives a restart, another process
of the same user can make a link, and a new token ends every session.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Final

from tellback.agent.http_listener import Application, Message, Receive, Send

LINK_SECONDS: Final = 600
"""Lifetime of a link: long enough for a browser to start."""
SESSION_SECONDS: Final = 30 * 86_400
SIGN_IN: Final = "/login"
STATIC: Final = "/static"
PAGES: Final = (
    "/", SIGN_IN, STATIC, "/logout", "/chat", "/memories", "/documents", "/profile", "/conversations", "/health",
    "/settings",
)  # fmt: skip
"""Beginnings of the paths of the page, which a browser may ask for without the server's token."""

PAGE_UPLOADS: Final = ("/documents", "/chat", "/conversations")
"""Beginnings of the paths that take files."""


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """Session of a browser that has signed in; *form_token* is that of its forms."""

    id: str
    form_token: str


class BrowserSessions:
    """Sessions of the browsers that were shown to be the user's, by the server's *token* or by a link that bears it."""

    def __init__(self, token: str, *, clock: Callable[[], float] = time.time) -> None:
        self._token, self._clock = token, clock
        self._key = hmac.new(token.encode(), b"tellback browser session", hashlib.sha256).digest()
        self._used: dict[str, int] = {}
        self._ended: dict[str, int] = {}

    def link_word(self) -> str:
        """Return the word of a link that signs in once, within ten minutes."""
        return self._signed("link", LINK_SECONDS)

    def sign_in(self, word: str) -> str | None:
        """Return the cookie of a new session for the *word* of a link, or the server's token; None for any other."""
        word = word.strip()
        if not hmac.compare_digest(word.encode(), self._token.encode()):
            end = self._end_of("link", word)
            if end is None or word in self._used:
                return None
            self._used = {old: until for old, until in self._used.items() if until > self._clock()} | {word: end}
        return self._signed("session", SESSION_SECONDS)

    def session(self, cookie: str) -> BrowserSession | None:
        """Return the session of *cookie*; None for one that has expired, was ended, or is none of ours."""
        if self._end_of("session", cookie) is None or cookie in self._ended:
            return None
        return BrowserSession(cookie, self._mac("form", cookie))

    def end(self, session: BrowserSession) -> None:
        """Sign the browser of *session* out."""
        end = self._end_of("session", session.id)
        if end is not None:
            self._ended = {old: until for old, until in self._ended.items() if until > self._clock()}
            self._ended[session.id] = end

    def _signed(self, purpose: str, seconds: int) -> str:
        value = f"{int(self._clock()) + seconds}.{secrets.token_urlsafe(18)}"
        return f"{value}.{self._mac(purpose, value)}"

    def _end_of(self, purpose: str, word: str) -> int | None:
        value, _, mac = word.rpartition(".")
        end = value.partition(".")[0]
        if not (end.isascii() and end.isdigit() and len(end) <= 12) or int(end) < self._clock():
            return None
        return int(end) if hmac.compare_digest(mac.encode(), self._mac(purpose, value).encode()) else None

    def _mac(self, purpose: str, value: str) -> str:
        return hmac.new(self._key, f"{purpose}\0{value}".encode(), hashlib.sha256).hexdigest()[:32]


def cookie_name(scope: Message) -> str:
    """Return the name of the session's cookie: cookies are shared by all ports of a host, sessions are not."""
    return f"tellback-{(scope.get('server') or ('', 0))[1]}"


def first_segment(path: str) -> str:
    """Return the first segment of *path*, with its slash."""
    return "/" + path[1:].partition("/")[0]


@dataclass(frozen=True, slots=True)
class SignedInBrowsers:
    """Application that lets browsers to the page of *application* only after they have signed in.

    What is no path of the page is passed on as it is: the server's token guards it.
    """

    application: Application
    sessions: BrowserSessions

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or first_segment(scope["path"]) not in PAGES:
            await self.application(scope, receive, send)
            return
        session = self.sessions.session(_cookie_of(scope))
        state = scope.setdefault("state", {})
        state["browser_session"] = session
        if session is not None:
            state["caller"] = scope["app"].state.accounts.owner
        if session is not None or first_segment(scope["path"]) in (SIGN_IN, STATIC):
            await self.application(scope, receive, send)
            return
        headers = dict(scope["headers"])
        place = SIGN_IN if scope["method"] in ("GET", "HEAD") else f"{SIGN_IN}?expired=1"
        sent = [(b"content-length", b"0"), (b"connection", b"close")]
        if b"hx-request" in headers or headers.get(b"x-requested-with") == b"page":  # a script follows no redirect
            status = 401
            sent.append((b"hx-redirect", f"{SIGN_IN}?expired=1".encode()))
        else:
            status = 303
            sent.append((b"location", place.encode()))
        await send({"type": "http.response.start", "status": status, "headers": sent})
        await send({"type": "http.response.body", "body": b""})


def _cookie_of(scope: Message) -> str:
    cookies = SimpleCookie()
    for name, value in scope["headers"]:
        if name == b"cookie":
            try:
                cookies.load(value.decode("latin-1"))
            except CookieError:
                return ""
    morsel = cookies.get(cookie_name(scope))
    return "" if morsel is None else morsel.value
