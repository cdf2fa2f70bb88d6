"""``tellback mcp``: the memory as an MCP server, for the clients that a person works with."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from agent.assistant.cli.command_context import global_options, run
from agent.assistant.cli.errors import with_error_report


@with_error_report
def mcp(
    context: typer.Context,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer no tool that changes anything.")] = False,
) -> None:
    """Serve the memory to MCP clients, over standard input and output.

    A client starts it; `tellback install CLIENT` writes its configuration.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="tellback mcp: %(levelname)s %(message)s")
    settings = global_options(context).configuration().settings
    from agent.assistant.wiring import make_memory_server_of, open_configured_memory
    from agent.mcp.stdio import serve_stdio

    async def serve() -> None:
        opened = open_configured_memory(settings)
        try:
            await serve_stdio(make_memory_server_of(opened, read_only=read_only), opened.close)
        finally:
            await opened.close()

    run(serve())
