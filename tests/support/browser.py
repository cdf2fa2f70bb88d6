"""Browser of the tests of the page: Debian's Chromium without a screen, and a server of the page in a thread.

Inner parts, on no face: ``tellback.agent.http_listener``.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Any

from tellback.agent.assistant.config import (
    CONFIG_VARIABLE,
    ENVIRONMENT_VARIABLES,
    Configuration,
    load_configuration,
)
from tellback.agent.assistant.server.accounts import Accounts
from tellback.agent.assistant.server.app import create_app
from tellback.agent.assistant.server.open_memory import ServedMemory
from tellback.agent.assistant.server.page.browser_sessions import PAGE_UPLOADS, PAGES, SIGN_IN, BrowserSessions
from tellback.agent.assistant.server.page.routes import install
from tellback.agent.assistant.server.restarts import Restarts
from tellback.agent.assistant.wiring import OpenedMemory, open_configured_memory
from tellback.agent.http_listener import RequestGuard, address_of, host_names, listen, serve_application

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
OPTIONS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
TOKEN = "a-token-of-the-page"
PHONE = {"width": 360, "height": 740}
DESK = {"width": 1200, "height": 800}


@dataclass
class PageServer:
    """Server of the page over the memory file *path*, on one port through all restarts."""

    path: Path
    settings: dict[str, Any] = field(default_factory=dict)
    port: int = 0
    clock: Callable[[], float] | None = None

    def start(self) -> None:
        """Serve until ``stop``."""
        self._ready: threading.Event = threading.Event()
        self._thread = threading.Thread(target=self._serve_again, daemon=True)
        self._thread.start()
        assert self._ready.wait(30)

    @property
    def config(self) -> Path:
        """File of the settings that *settings* do not name."""
        return self.path.with_name("config.toml")

    def _configuration(self) -> Configuration:
        base = {"memory": str(self.path), "embedder": "none", "automatic_backups": "no", **self.settings}
        return load_configuration(
            flags={}, environ={CONFIG_VARIABLE: str(self.config), **_variables(base)}, may_be_missing=True
        )

    def _serve_again(self) -> None:
        """Serve, and again after each restart, as ``tellback serve`` does."""
        self._restarts = Restarts(self._configuration(), self._configuration)
        with listen("127.0.0.1", self.port) as listening:
            while True:
                asyncio.run(self._serve(listening.dup()))
                if not self._restarts.perform():
                    return

    def stop(self) -> None:
        """End, and close the memory."""
        self._loop.call_soon_threadsafe(lambda: self._ended.done() or self._ended.set_result(None))
        self._thread.join(30)
        assert not self._thread.is_alive()

    def run(self, work: Callable[[OpenedMemory], Any]) -> Any:
        """Return what *work* makes of the open memory, in the server's own loop."""

        async def working() -> Any:
            return await work(await self.served.opened())

        return asyncio.run_coroutine_threadsafe(working(), self._loop).result(60)

    def link(self) -> str:
        """Return a link that signs in once."""
        return f"{self.address}{SIGN_IN}?word={self.sessions.link_word()}"

    def add_user(self, name: str, role: str = "member", **shares: str) -> str:
        """Add a user with a namespace of that name, to whom *shares* are given ("read" or "write"); their token."""
        from tellback.memory.internals import User, Users

        async def work(opened: OpenedMemory) -> str:
            users = Users(opened.memory.database)
            token = users.add(User(name, name, role))  # type: ignore[arg-type]  # one of the roles
            for namespace, access in shares.items():
                users.share(namespace, name, access)  # type: ignore[arg-type]
            return token

        return str(self.run(work))

    async def _serve(self, listening: socket) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended = ended = self._loop.create_future()
        settings = self._restarts.configuration.settings
        self.served = ServedMemory(lambda: asyncio.to_thread(open_configured_memory, settings))
        self.sessions = BrowserSessions(TOKEN, **({} if self.clock is None else {"clock": self.clock}))
        self.address = address_of(listening, "127.0.0.1")
        self.port = int(self.address.rpartition(":")[2])
        limits = dict.fromkeys(PAGE_UPLOADS, 50_000_000)
        accounts = Accounts(TOKEN, self.served.opened, namespace=settings.namespace)
        app = create_app(self.served, accounts, restarts=self._restarts)
        install(app, self.sessions)
        guard = RequestGuard(
            application=app,
            callers=accounts,
            names=host_names("127.0.0.1"),
            body_limits=limits,
            open=("/healthz", *PAGES),
        )
        self._restarts.serves(lambda: None if ended.done() else ended.set_result(None))
        self._loop.call_soon(self._ready.set)
        await serve_application(guard, listening, ended)


def _variables(settings: dict[str, Any]) -> dict[str, str]:
    return {ENVIRONMENT_VARIABLES[name]: str(value) for name, value in settings.items()}


@dataclass
class Watched:
    """What pages of a context did that they must not: *problems*, in words."""

    problems: list[str] = field(default_factory=list)

    def watch(self, page: Page, address: str) -> None:
        """Note refusals of the policy of content, errors of scripts, dialogs, and requests to other places."""
        page.on("console", lambda message: self._console(message.text))
        page.on("pageerror", lambda error: self.problems.append(f"a script failed: {error}"))
        page.on("dialog", lambda dialog: (self.problems.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self._request(request.url, address))
        page.on("popup", lambda popup: self.problems.append(f"a window: {popup.url}"))

    def _console(self, text: str) -> None:
        if "Content Security Policy" in text or "Content-Security-Policy" in text:
            self.problems.append(text)

    def _request(self, url: str, address: str) -> None:
        if not url.startswith((f"{address}/", "about:", "blob:")):
            self.problems.append(f"a request to {url[:200]}")


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Yield Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(OPTIONS))
        yield browser
        browser.close()


@contextmanager
def signed_in(
    browser: Browser, server: PageServer, token: str | None = None, **options: Any
) -> Iterator[tuple[Page, Watched]]:
    """Yield a page of a browser that has signed in to *server*, by the *token* of a user, or as its owner by a link.

    *options* are those of a context.
    """
    given = {"viewport": DESK, "timezone_id": "Europe/Lisbon", "locale": "en-GB", **options}
    context: BrowserContext = browser.new_context(**given)
    context.set_default_timeout(15_000)
    watched = Watched()
    context.on("page", lambda page: watched.watch(page, server.address))
    page = context.new_page()
    if token is None:
        page.goto(server.link())
    else:
        page.goto(server.address)
        page.get_by_label("Token or link").fill(token)
        page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: SIGN_IN not in url)
    yield page, watched
    context.close()


def accessibility_problems(page: Page) -> list[str]:
    """Return what axe-core finds on *page*, in words."""
    import axe_playwright_python

    source = next(Path(axe_playwright_python.__file__).parent.rglob("axe.min.js")).read_text(encoding="utf-8")
    page.evaluate(f"() => {{ {source} }}")
    found = page.evaluate("async () => (await axe.run(document)).violations")
    return [
        f"{rule['id']}: {node['html'][:200]} {node['failureSummary'][:300]}" for rule in found for node in rule["nodes"]
    ]
