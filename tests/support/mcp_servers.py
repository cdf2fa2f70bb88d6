"""MCP servers for tests of the client: the SDK's own server over HTTP in a thread, whose tools a test may change."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import mcp_types
import uvicorn
from mcp.server.lowlevel import Server


def definition(name: str, *, read_only: bool | None = None, **fields: Any) -> mcp_types.Tool:
    """Return the definition of a tool that takes any arguments."""
    annotations = None if read_only is None else mcp_types.ToolAnnotations(read_only_hint=read_only)
    described = {"description": f"Does {name}.", "input_schema": {"type": "object"}, **fields}
    return mcp_types.Tool(name=name, annotations=annotations, **described)


def bound_socket(port: int = 0) -> socket.socket:
    """Return a socket bound to *port*, or to a free one, that does not listen yet."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    return bound


class ServedTools:
    """An MCP server with *tools*, called by *answer*; both may change while it runs. ``calls`` are those received."""

    def __init__(self, *tools: mcp_types.Tool) -> None:
        self.tools = list(tools)
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []
        self.answer: Callable[[str, dict[str, Any]], Any] = lambda name, arguments: f"{name} was done"

    def result(self, name: str, arguments: dict[str, Any]) -> mcp_types.CallToolResult:
        """Return the server's answer to a call."""
        answer = self.answer(name, arguments)
        if isinstance(answer, mcp_types.CallToolResult):
            return answer
        content = [mcp_types.TextContent(type="text", text=answer)] if isinstance(answer, str) else answer
        return mcp_types.CallToolResult(content=content)

    def server(self) -> Server[Any]:
        """Return the server for one run."""

        async def list_tools(_context: Any, _params: Any) -> mcp_types.ListToolsResult:
            return mcp_types.ListToolsResult(tools=self.tools)

        async def call_tool(context: Any, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
            self.headers.append(dict(context.request.headers))
            self.calls.append((params.name, params.arguments or {}))
            return await asyncio.to_thread(self.result, params.name, params.arguments or {})

        return Server("served", on_list_tools=list_tools, on_call_tool=call_tool)

    @contextmanager
    def listening(self, place: socket.socket | None = None) -> Iterator[str]:
        """Serve in a thread, on a free port or on the bound socket *place*; yield the address."""
        with place or bound_socket() as listener:
            listener.listen()
            config = uvicorn.Config(
                self.server().streamable_http_app(), log_config=None, timeout_graceful_shutdown=1, ws="none"
            )
            running = uvicorn.Server(config)
            thread = threading.Thread(target=lambda: asyncio.run(running.serve(sockets=[listener])))
            thread.start()
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
            finally:
                running.should_exit = True
                thread.join()
