"""Sessions of browsers: links that sign in once, cookies, and the tokens of forms.

Only which links were used, and which sessions were ended, is stored, as hashes, for every process of the server. All of
it is signed with a key that is derived from the server's token, so a session outlives a restart, another process of the
owner can make a link, and a new token ends every session. A user's are signed with the hash of their own token, too:
they end with it, or with the user.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import RedirectResponse, Response

from tellback.agent.assistant.server.accounts import OWNER, Account, Accounts
from tellback.agent.http_listener import Application, Message, Receive, Send
from tellback.agent.rate_limit import RequestLimit

LINK_SECONDS: Final = 600
"""Lifetime of a link: long enough for a browser to start."""
SESSION_SECONDS: Final = 30 * 86_400
_ATTEMPTS_PER_MINUTE: Final = 20
"""Attempts to sign in from one address that are looked at: a person makes one, or mistypes a few."""
SIGN_IN: Final = "/login"
STATIC: Final = "/static"
PAGES: Final = (
    "/", SIGN_IN, STATIC, "/logout", "/chat", "/memories", "/documents", "/profile", "/conversations", "/health",
    "/settings", "/given",
)  # fmt: skip
"""Beginnings of the paths of the page, which a browser may ask for without the server's token."""

PAGE_UPLOADS: Final = ("/documents", "/chat", "/conversations")
"""Beginnings of the paths that take files."""


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """Session of a browser that *account* has signed in with; *form_token* is that of its forms."""

    id: str
    form_token: str
    account: Account


class BrowserSessions:
    """Sessions of browsers whose users have shown a token of the server's or their own, or a link that was made of it.

    *token* is the server's; *limit* bounds attempts to sign in, and the requests of each account.
    """

    def __init__(
        self, token: str, *, clock: Callable[[], float] = time.time, limit: RequestLimit | None = None
    ) -> None:
        self.limit: Final = limit or RequestLimit()
        self._clock = clock
        self._key = hmac.new(token.encode(), b"tellback browser session", hashlib.sha256).digest()

    def link_word(self, name: str = OWNER, mark: str = "") -> str:
        """Return the word of a link that signs the user *name*, of that *mark*, in once, within ten minutes."""
        return self._signed("link", LINK_SECONDS, name, mark)

    def seconds_to_wait(self, client: str) -> float:
        """Return 0, and count an attempt to sign in from the address *client*; else the seconds until the next one."""
        return self.limit.wait(f"sign-in {client}", _ATTEMPTS_PER_MINUTE)

    async def sign_in(self, accounts: Accounts, word: str) -> str | None:
        """Return the cookie of a new session for a token or a link, whole or its *word*; None for any other."""
        word = word.strip().rpartition(f"{SIGN_IN}?word=")[2]
        account = await accounts.caller(word)
        if account is None:
            found = await self._of("link", word, accounts)
            if found is None or not await accounts.spend(word, found[1], int(self._clock())):
                return None
            account = found[0]
        known = await accounts.account_of(account.name)
        return None if known is None else self._signed("session", SESSION_SECONDS, account.name, known[1])

    async def session(self, accounts: Accounts, cookie: str) -> BrowserSession | None:
        """Return the session of *cookie*; None for one that has expired, was ended, or is none of ours."""
        found = await self._of("session", cookie, accounts) if cookie else None
        if found is None or await accounts.is_spent(cookie):
            return None
        return BrowserSession(cookie, self._mac("form", cookie), found[0])

    async def end(self, accounts: Accounts, session: BrowserSession) -> None:
        """Sign the browser of *session* out."""
        await accounts.spend(session.id, _end_in(session.id), int(self._clock()))

    def _signed(self, purpose: str, seconds: int, name: str, mark: str) -> str:
        who = urlsafe_b64encode(name.encode()).decode().rstrip("=")
        value = f"{int(self._clock()) + seconds}.{secrets.token_urlsafe(18)}.{who}"
        return f"{value}.{self._mac(purpose, value, mark)}"

    async def _of(self, purpose: str, word: str, accounts: Accounts) -> tuple[Account, int] | None:
        """Return the account for which *word* was signed, and its end; None for one that is no such word any more."""
        value, _, mac = word.rpartition(".")
        end, who = _end_in(word), value.rpartition(".")[2]
        if end < self._clock() or value.count(".") != 2:
            return None
        try:
            name = urlsafe_b64decode(who + "=" * (-len(who) % 4)).decode()
        except ValueError:
            return None
        known = await accounts.account_of(name)
        right = self._mac(purpose, value, "" if known is None else known[1])
        is_right = hmac.compare_digest(mac.encode(), right.encode())
        return (known[0], end) if is_right and known is not None else None

    def _mac(self, purpose: str, value: str, mark: str = "") -> str:
        return hmac.new(self._key, f"{purpose}\0{value}\0{mark}".encode(), hashlib.sha256).hexdigest()[:32]


def _end_in(word: str) -> int:
    end = word.partition(".")[0]
    return int(end) if end.isascii() and end.isdigit() and len(end) <= 12 else 0


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
        browser = HTTPConnection(scope)
        session = await self.sessions.session(scope["app"].state.accounts, browser.cookies.get(cookie_name(scope), ""))
        browser.state.browser_session = session
        if session is not None:
            browser.state.caller = session.account
        if session is not None or first_segment(scope["path"]) in (SIGN_IN, STATIC):
            await self.application(scope, receive, send)
            return
        answer: Response
        expired, headers = f"{SIGN_IN}?expired=1", {"connection": "close"}
        if "hx-request" in browser.headers or browser.headers.get("x-requested-with") == "page":
            answer = Response(status_code=401, headers={"hx-redirect": expired, **headers})  # a script follows no 303
        else:
            answer = RedirectResponse(SIGN_IN if scope["method"] in ("GET", "HEAD") else expired, 303, headers)
        await answer(scope, receive, send)
