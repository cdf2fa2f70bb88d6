"""``tellback serve``: the memory over HTTP on this machine, for programs and MCP clients."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import threading
from collections.abc import Coroutine
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tellback.agent.assistant.cli.command_context import compute_in_one_thread, global_options, run
from tellback.agent.assistant.cli.errors import report_error, with_error_report
from tellback.agent.assistant.cli.output import print_note
from tellback.agent.assistant.upkeep import UpkeepWatch

if TYPE_CHECKING:
    from tellback.agent.assistant.config import Configuration

TOKEN_VARIABLE = "TELLBACK_TOKEN"  # noqa: S105 - the name of the variable
_DEFAULT_PORT = 8930
_LOOPBACK = "127.0.0.1"
_UPLOADS = "/api/v1/documents"
_UPLOAD_BYTES = 50_000_000
_MODELS = "/v1/"
_CHAT_BYTES = 50_000_000
"""A conversation with pictures, as models take it."""


@with_error_report
def serve(
    context: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0: a free one.")] = _DEFAULT_PORT,
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

    The page opens in the browser by a link that signs in once. Each request of a program must bear the token: the API
    is under /api/v1, and MCP under /mcp where its extra is installed.
    """
    if idle and port != _DEFAULT_PORT:
        raise typer.BadParameter("does not go with --idle, which opens no port", param_hint="--port")
    if idle:
        from tellback.agent.assistant.server.process import main

        main()
        return
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="tellback serve: %(levelname)s %(message)s")
    compute_in_one_thread()
    configuration = global_options(context).configuration()
    from tellback.agent.assistant.server.open_memory import ServedMemory
    from tellback.agent.assistant.server.workers import run_workers
    from tellback.agent.assistant.wiring import open_configured_memory
    from tellback.agent.http_listener import RequestGuard, address_of, ending_signals, listen, serve_application
    from tellback.vectorstore import MissingExtra

    try:
        from tellback.agent.assistant.server.app import create_app
        from tellback.agent.assistant.server.page.browser_sessions import (
            PAGE_UPLOADS,
            PAGES,
            SIGN_IN,
            BrowserSessions,
        )
        from tellback.agent.assistant.server.page.routes import install as install_page
    except ImportError as error:
        raise MissingExtra("the HTTP server", "web") from error
    token, place = server_token(configuration, TOKEN_VARIABLE, "server-token")
    settings = configuration.settings

    async def serve(listening: socket.socket, place_of_worker: int = 0) -> None:
        served = ServedMemory(lambda: asyncio.to_thread(open_configured_memory, settings))
        await served.opened()  # what cannot be opened ends the command
        app = create_app(served, host=_LOOPBACK, version=version("tellback"), workers=workers)
        limits, open_paths = {_UPLOADS: _UPLOAD_BYTES, _MODELS: _CHAT_BYTES}, ["/healthz"]
        sessions = BrowserSessions(token) if page else None
        if sessions is not None:
            install_page(app, sessions)
            limits |= dict.fromkeys(PAGE_UPLOADS, _UPLOAD_BYTES)
            open_paths += PAGES
        if place_of_worker == 0:
            address = address_of(listening, _LOOPBACK)
            print_note(f"Serving {settings.shown_memory} at {address}; Ctrl-C ends it.")
            print_note(f'  curl -H "Authorization: Bearer {place}" {address}/api/v1/stats')
            if sessions is not None:
                _show_page(f"{address}{SIGN_IN}?word={sessions.link_word()}", opens=browser)
        guard = RequestGuard(app, _LOOPBACK, token, limits, open=open_paths)
        with ending_signals() as signalled:
            await serve_application(guard, listening, signalled)

    if workers > 1:
        if settings.file is not None or not hasattr(os, "fork"):
            problem = "several need a memory on a PostgreSQL server (--memory postgresql://…), and no Windows"
            raise typer.BadParameter(problem, param_hint="--workers")
        with listen(_LOOPBACK, port) as listening:
            raise typer.Exit(run_workers(workers, lambda number: _run_worker(serve(listening, number))))
    watch = UpkeepWatch(configuration.settings)
    try:
        with listen(_LOOPBACK, port) as listening:
            run(serve(listening))
    finally:
        watch.stop()


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
