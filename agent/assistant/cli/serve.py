"""``tellback serve``: the memory over HTTP on this machine, for programs and MCP clients."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import threading
from collections.abc import Coroutine
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellback.agent.assistant.cli.command_context import compute_in_one_thread, global_options, run
from tellback.agent.assistant.cli.errors import report_error
from tellback.agent.assistant.cli.output import print_note
from tellback.agent.assistant.cli.resident import end_residents
from tellback.agent.assistant.upkeep import UpkeepWatch

if TYPE_CHECKING:
    from tellback.agent.assistant.config import Configuration
    from tellback.agent.assistant.server.exposure import Exposure
    from tellback.agent.assistant.server.page.browser_sessions import BrowserSessions
    from tellback.agent.assistant.server.process import TakenSocket
    from tellback.agent.assistant.server.resident import ResidentServer
    from tellback.agent.assistant.server.restarts import Restarts
    from tellback.agent.assistant.wiring import OpenedMemory
    from tellback.agent.rate_limit import RequestLimit

TOKEN_VARIABLE = "TELLBACK_TOKEN"  # noqa: S105 - the name of the variable
_DEFAULT_PORT = 8930
_ATTEMPTS = 3
_LOOPBACK = "127.0.0.1"
_UPLOADS = ("/api/v1/documents", "/api/v1/import")
_UPLOAD_BYTES = 50_000_000
_MODELS = "/v1/"
_CHAT_BYTES = 50_000_000
"""A conversation with pictures, as models take it."""


def serve(
    context: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0: a free one.")] = _DEFAULT_PORT,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen, for other machines.")] = _LOOPBACK,
    cert: Annotated[Path | None, typer.Option(metavar="FILE", help="Certificate, for HTTPS.")] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="Private key of the certificate.")] = None,
    behind_proxy: Annotated[
        str, typer.Option(metavar="NETS", help="Addresses of a proxy with TLS, with commas; only it is answered.")
    ] = "",
    name: Annotated[
        list[str] | None, typer.Option(metavar="HOST", help="Name in the address; may be given again.")
    ] = None,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Processes that answer; the memory is on a server then.")
    ] = 1,
    page: Annotated[bool, typer.Option("--page/--no-page", help="Serve the page for a browser.")] = True,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    idle: Annotated[
        bool, typer.Option("--idle", help="Serve hooks and commands over a private socket, until nobody asks.")
    ] = False,
) -> None:
    """Serve a page for a browser, and HTTP for programs.

    It is for this machine alone unless told otherwise. The page opens in the browser by a link that signs in once.
    Each request of a program must bear a token: the API is under /api/v1, and MCP under /mcp where its extra is
    installed.
    """
    if idle and (port, host, cert, behind_proxy) != (_DEFAULT_PORT, _LOOPBACK, None, ""):
        raise typer.BadParameter("goes alone: it opens no port", param_hint="--idle")
    if idle:
        from tellback.agent.assistant.server.process import main

        main()
        return
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="tellback serve: %(levelname)s %(message)s")
    compute_in_one_thread()
    configuration = global_options(context).configuration()
    settings = configuration.settings
    import platformdirs

    from tellback.agent.assistant.server.exposure import checked_exposure
    from tellback.agent.assistant.server.restarts import Restarts
    from tellback.agent.assistant.server.running import ServerRuns, sole_server
    from tellback.agent.http_listener import listen
    from tellback.agent.rate_limit import RequestLimit, SharedRequestLimit
    from tellback.vectorstore import MissingExtra

    exposure = checked_exposure(host, names=name or (), certificate=cert, key=key, proxies=behind_proxy)
    try:
        import fastapi as fastapi
    except ImportError as error:
        raise MissingExtra("the HTTP server", "web") from error
    folder, limit = platformdirs.user_state_path("tellback"), SharedRequestLimit() if workers > 1 else RequestLimit()
    serving = _Serving(configuration, exposure, folder, page, browser, workers, limit)
    if workers > 1:
        from tellback.agent.assistant.server.workers import run_workers

        if settings.file is not None or not hasattr(os, "fork"):
            problem = "several need a memory on a PostgreSQL server (--memory postgresql://…), and no Windows"
            raise typer.BadParameter(problem, param_hint="--workers")
        with listen(host, port) as listening:
            raise typer.Exit(run_workers(workers, lambda number: _run_worker(serving.run(listening, number))))
    watch = UpkeepWatch(settings)
    try:
        with sole_server(serving.folder, str(settings.shown_memory)) as running, listen(host, port) as listening:
            running.announce(serving.address(listening))
            restarts = Restarts(configuration, global_options(context).configuration)
            while True:
                run(serving.run(listening.dup(), restarts=restarts))
                if not restarts.perform():
                    break
                serving = replace(serving, configuration=restarts.configuration, is_again=True)
    except ServerRuns as runs:
        print_note(f"{settings.shown_memory} is served at {runs.address} already.")
        if page:
            from tellback.agent.assistant.server.page.browser_sessions import SIGN_IN, BrowserSessions

            token, _ = server_token(configuration, TOKEN_VARIABLE, "server-token")
            _show_page(f"{runs.address}{SIGN_IN}?word={BrowserSessions(token).link_word()}", opens=browser)
    finally:
        watch.stop()


@dataclass(frozen=True, slots=True)
class _Serving:
    """Serving of the memory of *configuration*; *folder* has the access log. All workers have the *limit*.

    It *is_again*: the process has served before, and said where.
    """

    configuration: Configuration
    exposure: Exposure
    folder: Path
    page: bool
    browser: bool
    workers: int
    limit: RequestLimit
    is_again: bool = False

    def address(self, listening: socket.socket) -> str:
        from tellback.agent.http_listener import address_of

        return address_of(listening, self.exposure.host, "http" if self.exposure.certificate is None else "https")

    async def run(self, listening: socket.socket, worker: int = 0, restarts: Restarts | None = None) -> None:
        """Serve until a signal or a restart comes; what streams is told so, and what is being written is stored."""
        from tellback.agent.assistant.server.access_log import AccessLog
        from tellback.agent.assistant.server.accounts import Accounts
        from tellback.agent.assistant.server.app import OPEN_PATHS, create_app
        from tellback.agent.assistant.server.open_memory import ServedMemory
        from tellback.agent.assistant.server.page.browser_sessions import PAGE_UPLOADS, PAGES, BrowserSessions
        from tellback.agent.assistant.server.page.routes import install as install_page
        from tellback.agent.assistant.wiring import open_configured_memory
        from tellback.agent.http_listener import Message, RequestGuard, ending_signals, serve_application

        settings, exposure = self.configuration.settings, self.exposure
        token, place = server_token(self.configuration, TOKEN_VARIABLE, "server-token")
        served = ServedMemory(lambda: asyncio.to_thread(open_configured_memory, settings))
        opened = await served.opened()  # what cannot be opened ends the command
        accounts = Accounts(token, served.opened, namespace=settings.namespace)
        app = create_app(served, accounts, version=version("tellback"), workers=self.workers, restarts=restarts)
        limits, open_paths = {**dict.fromkeys(_UPLOADS, _UPLOAD_BYTES), _MODELS: _CHAT_BYTES}, [*OPEN_PATHS]
        sessions = BrowserSessions(token, limit=self.limit) if self.page else None
        if sessions is not None:
            install_page(app, sessions)
            limits |= dict.fromkeys(PAGE_UPLOADS, _UPLOAD_BYTES)
            open_paths += PAGES
        hooks = _Hooks.beside(opened, self.address(listening)) if self.workers == 1 else None
        if worker == 0 and not self.is_again:
            self._announce(listening, place, sessions)
        with closing(AccessLog(self.folder)) as log, ending_signals() as signalled:

            def on_end(scope: Message, status: int, seconds: float) -> None:
                log(scope, status, seconds)
                app.state.metrics(scope, status, seconds)

            guard = RequestGuard(
                application=app,
                callers=accounts,
                names=exposure.names,
                scheme=exposure.scheme,
                body_limits=limits,
                open=open_paths,
                on_end=on_end,
                limit=self.limit,
            )
            signalled.add_done_callback(lambda _: served.ending.set())
            if restarts is not None:
                restarts.serves(partial(_end, signalled))
            await serve_application(
                guard,
                listening,
                signalled if hooks is None else asyncio.ensure_future(hooks.serve_until(signalled)),
                admits=exposure.admits(),
                certificate=exposure.certificate,
                proxies=exposure.proxies,
            )

    def _announce(self, listening: socket.socket, place: str, sessions: BrowserSessions | None) -> None:
        from tellback.agent.assistant.server.page.browser_sessions import SIGN_IN

        memory, address = str(self.configuration.settings.shown_memory), self.address(listening)
        print_note(f"Serving {memory} at {address}; Ctrl-C ends it.")
        if not self.exposure.is_local:
            print_note(self.exposure.sentence(memory))
        print_note(f'  curl -H "Authorization: Bearer {place}" {address}/api/v1/stats')
        if sessions is not None:
            _show_page(f"{address}{SIGN_IN}?word={sessions.link_word()}", opens=self.browser)


@dataclass(frozen=True, slots=True)
class _Hooks:
    """Hooks and commands of this user, answered by *server* at the socket *taken*: no other process has the memory."""

    server: ResidentServer
    taken: TakenSocket

    @classmethod
    def beside(cls, opened: OpenedMemory, address: str) -> _Hooks | None:
        """Return those of the memory *opened*, which is served at *address*; a resident that answers them is ended.

        None where another server of this user answers them.
        """
        from tellback.agent.assistant.server.process import take_socket
        from tellback.agent.assistant.server.resident import ResidentServer

        for _attempt in range(_ATTEMPTS):  # a hook may start another one meanwhile
            end_residents()
            if (taken := take_socket()) is not None:
                server = ResidentServer(taken.path, on_withdrawn=partial(os.close, taken.lock), address=address)
                server.pool.lend_always(opened)
                return cls(server, taken)
        return None

    async def serve_until(self, signalled: asyncio.Future[int]) -> None:
        """Answer them until a signal comes, and those that have begun; then close what other memories they opened."""
        from tellback.agent.assistant.server.process import serve_socket

        signalled.add_done_callback(lambda _: self.server.stop("the server ends"))
        await serve_socket(self.server, self.taken)
        await signalled
        await asyncio.to_thread(self.server.pool.release)


def _end(signalled: asyncio.Future[int]) -> None:
    if not signalled.done():
        signalled.set_result(0)


def _show_page(link: str, *, opens: bool) -> None:
    """Print the *link* that signs a browser in, and open it where there is a screen."""
    print_note(f"  the page, by a link that works once: {link}")
    has_screen = sys.platform in ("win32", "darwin") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    if opens and has_screen and sys.stderr.isatty():
        import webbrowser

        threading.Thread(target=webbrowser.open, args=(link,), daemon=True).start()


def _run_worker(serving: Coroutine[Any, Any, None]) -> int:
    try:
        run(serving)
    except Exception as error:  # a worker has no caller that would report it
        return report_error(error)
    return 0


def server_token(configuration: Configuration, variable: str, name: str) -> tuple[str, str]:
    """Return the token, of a *variable* or the file *name* beside the configuration, and the shell word that has it."""
    from tellback.agent.http_listener import read_or_make_token

    if token := os.environ.get(variable):
        return token, f"${variable}"
    path = configuration.path.with_name(name)
    return read_or_make_token(path), f"$(cat '{path}')"
