"""``tellback mcp``: the memory as an MCP server, for the clients that a person works with."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tellback.agent.assistant.cli.command_context import compute_in_one_thread, global_options, run
from tellback.agent.assistant.cli.output import print_note
from tellback.agent.assistant.cli.serve import server_token
from tellback.agent.assistant.upkeep import UpkeepWatch

if TYPE_CHECKING:
    from tellback.agent.assistant.config import Configuration
    from tellback.vectorstore import Filter

TOKEN_VARIABLE = "TELLBACK_MCP_TOKEN"  # noqa: S105 - the name of the variable
_DEFAULT_PORT = 8931
_LOOPBACK = "127.0.0.1"
_SECONDS_TO_FAIL = 0.2
"""Time in which most memories that cannot be opened fail, which ends the command; a later failure answers each call."""


def mcp(
    context: typer.Context,
    http: Annotated[bool, typer.Option("--http", help="Listen for clients, with a token.")] = False,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="With --http: where to listen.")] = _LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --http: the port.")] = _DEFAULT_PORT,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer no tool that changes anything.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Only say whether the server can start.")] = False,
) -> None:
    """Serve the memory to MCP clients, by pipes or HTTP.

    A client that is connected with `tellback install` starts it by itself.
    """
    if not http and (host, port) != (_LOOPBACK, _DEFAULT_PORT):
        raise typer.BadParameter("goes with --http", param_hint="--host and --port")
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="tellback mcp: %(levelname)s %(message)s")
    compute_in_one_thread()
    configuration = global_options(context).configuration()
    if check:
        from tellback.agent.mcp.server import import_server_class

        import_server_class()
        print_note("the server can start")
        return
    from tellback.agent.assistant.wiring import make_memory_server_of, open_configured_memory
    from tellback.agent.mcp.transports import serve_http, serve_stdio

    async def serve() -> None:
        # A client waits for the list of tools, which needs no memory; opening one may take seconds the first time.
        opening = asyncio.ensure_future(asyncio.to_thread(open_configured_memory, configuration.settings))

        async def close() -> None:
            await (await opening).close()

        try:
            within = None if http else _project_filter()
            server = make_memory_server_of(lambda _: asyncio.shield(opening), within=within, read_only=read_only)
            await asyncio.wait({opening}, timeout=_SECONDS_TO_FAIL)
            if opening.done() and opening.exception() is not None:
                return
            if not http:
                await serve_stdio(server, close)
                return
            token, place = server_token(configuration, TOKEN_VARIABLE, "mcp-token")

            def announce(address: str) -> None:
                _announce(configuration, address, place)

            await serve_http(server, host=host, port=port, token=token, on_ready=announce)
        finally:
            await close()

    watch = UpkeepWatch(configuration.settings)
    try:
        run(serve())
    finally:
        watch.stop()


def _project_filter() -> Filter | None:
    """Return the filter of the git repository in which a client started this process; None elsewhere."""
    from tellback.agent.assistant.clients.project import project_of
    from tellback.agent.assistant.hooks.answer import project_filter

    project = project_of(Path.cwd())
    root = None if project is None else project.root
    return None if root is None or not (root / ".git").exists() else project_filter(project)


def _announce(configuration: Configuration, address: str, place: str) -> None:
    print_note(f"Serving {configuration.settings.shown_memory} at {address}; Ctrl-C ends it.")
    print_note("A client must send the token, for example:")
    print_note(f'  claude mcp add --transport http tellback {address} --header "Authorization: Bearer {place}"')
    from tellback.memory.internals import is_loopback

    if not is_loopback(address):
        print_note("This address is open to the network, and HTTP is not encrypted: put a proxy with TLS before it.")
