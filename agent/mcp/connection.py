"""Connection to an MCP server, a process or an address, in an event loop of its own; reopened after a failure.

An agent's turns may each run in a loop of their own (``run_sync``); the connection outlives them, so it has a thread
with its own loop, and any loop may call.
"""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

from tellback.agent.errors import AgentError, shorten
from tellback.agent.mcp.settings import McpServer
from tellback.memory.internals import redact_secrets
from tellback.vectorstore import MissingExtra

if TYPE_CHECKING:
    import mcp_types
    from mcp import Client
    from pydantic import SecretStr

_MAX_PAGES: Final = 50
_CLOSING_SECONDS: Final = 8.0
"""Time for a server's process to end: the SDK waits 2 s, asks, waits 2 s, and kills."""
_LAST_WORDS_SECONDS: Final = 1.0
_SAID_LENGTH: Final = 300
_STREAM_SECONDS: Final = 300.0
"""Time for which an open stream of events may be silent, the SDK's own."""
_VARIABLE: Final = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
ResultT = TypeVar("ResultT")


class McpUnavailable(AgentError):
    """An MCP server cannot be reached, ended, or refused a request: *server* is its name.

    *transient*: it may do better when it is called again.
    """

    def __init__(self, server: str, problem: str, *, transient: bool = True) -> None:
        self.server, self.transient = server, transient
        super().__init__(f"MCP server {server}: {problem}")


class McpConnection:
    """Connection to *server*, called *name*; ``open``, ``call`` and ``close`` may be awaited in any loop."""

    def __init__(self, name: str, server: McpServer) -> None:
        self.name, self.server = name, server
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._holder: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._stop: asyncio.Event | None = None
        self._opening: asyncio.Lock | None = None
        self.tools_changed = True
        """True where the tools must be listed again: the server announced it, or the connection broke."""

    @property
    def is_open(self) -> bool:
        """Return whether it is connected."""
        return self._client is not None and self._holder is not None and not self._holder.done()

    async def list_tools(self) -> list[mcp_types.Tool]:
        """Return the tools that the server offers now, connecting where it is not connected."""
        return await self._in_its_loop(self._list())

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> mcp_types.CallToolResult:
        """Call *tool*, connecting where it is not connected; raise ``McpUnavailable`` where that fails."""
        return await self._in_its_loop(self._call(tool, dict(arguments)))

    async def close(self) -> None:
        """End the connection, and the process of a server that has one."""
        if self._loop is None:
            return
        loop, thread = self._loop, self._thread
        with suppress(Exception):
            await self._in_its_loop(self._disconnect())
        self._loop = None
        loop.call_soon_threadsafe(loop.stop)
        if thread is not None:
            await asyncio.to_thread(thread.join, _CLOSING_SECONDS)

    async def _in_its_loop(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=_run_loop, args=(self._loop,), name=f"tellback-mcp-{self.name}", daemon=True
            )
            self._thread.start()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _list(self) -> list[mcp_types.Tool]:
        client = await self._connected()
        self.tools_changed = False
        tools: list[mcp_types.Tool] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self._answer(client.list_tools(cursor=cursor, cache_mode="refresh"), "tools/list")
            tools += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        return tools

    async def _call(self, tool: str, arguments: dict[str, Any]) -> mcp_types.CallToolResult:
        client = await self._connected()
        return await self._answer(client.call_tool(tool, arguments), tool)

    async def _answer(self, work: Coroutine[Any, Any, ResultT], what: str) -> ResultT:
        """Return the answer to a request; raise ``McpUnavailable`` where the connection ends, or the server refuses."""
        from mcp.shared.exceptions import MCPError
        from mcp_types import CONNECTION_CLOSED

        holder = self._holder
        asking = asyncio.ensure_future(work)
        try:
            waited: set[asyncio.Future[Any]] = {asking} if holder is None else {asking, holder}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            asking.cancel()
            raise
        ended = not asking.done() or asking.cancelled()
        error = None if ended else asking.exception()
        if error is None and not ended:
            return asking.result()
        asking.cancel()
        if isinstance(error, MCPError) and error.code != CONNECTION_CLOSED:
            raise McpUnavailable(self.name, f"it refused {what}: {_one_line(str(error))}", transient=False) from error
        if ended or isinstance(error, MCPError) or (holder is not None and holder.done()):
            await self._disconnect()
            raise McpUnavailable(self.name, f"it ended during {what}; the next call starts it anew") from error
        assert error is not None
        problem = f"its answer to {what} is unusable: {_one_line(_innermost(error))}"
        raise McpUnavailable(self.name, problem, transient=False) from error

    async def _connected(self) -> Client:
        """Return the connected client; connect where there is none, or it has ended."""
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._client is not None and self.is_open:
                return self._client
            await self._disconnect()
            return await self._connect()

    async def _connect(self) -> Client:
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        output = _ErrorOutput(self.name)
        self._holder = holder = asyncio.ensure_future(self._hold(ready, self._stop, output))
        try:
            async with asyncio.timeout(self.server.connect_timeout):
                waited: set[asyncio.Future[Any]] = {ready, holder}
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            holder.cancel()
            limit = f"{self.server.connect_timeout:g} s"
            raise McpUnavailable(self.name, f"no connection within {limit}{output.end}") from None
        except asyncio.CancelledError:
            holder.cancel()
            raise
        if not ready.done():
            error = None if holder.cancelled() else holder.exception()
            if isinstance(error, MissingExtra):
                raise error
            problem = "it ended" if error is None else _innermost(error)
            output.read_to_end()
            raise McpUnavailable(self.name, f"not connected: {_one_line(problem)}{output.end}") from error
        self._client = ready.result()
        return self._client

    async def _hold(self, ready: asyncio.Future[Client], stop: asyncio.Event, output: _ErrorOutput) -> None:
        """Keep the client open in this one task, which the SDK needs, until *stop*."""
        try:
            import mcp_types
            from mcp import Client
        except ImportError as error:
            raise MissingExtra(f"the MCP server {self.name}", "mcp") from error

        async def notice(message: object) -> None:
            if isinstance(message, mcp_types.ToolListChangedNotification):
                self.tools_changed = True

        async with AsyncExitStack() as stack:
            transport = await self._transport(stack, output)
            client = await stack.enter_async_context(
                Client(
                    transport,
                    client_info=mcp_types.Implementation(name="tellback", version=_version()),
                    message_handler=notice,
                )
            )
            ready.set_result(client)
            await stop.wait()

    async def _transport(self, stack: AsyncExitStack, output: _ErrorOutput) -> Any:
        server = self.server
        if server.command is not None:
            from mcp.client.stdio import StdioServerParameters, stdio_client

            parameters = StdioServerParameters(
                command=server.command, args=list(server.args), env=_expanded(self.name, server.env), cwd=server.cwd
            )
            return stdio_client(parameters, errlog=stack.enter_context(output.opened()))
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        assert server.url is not None
        http = await stack.enter_async_context(
            httpx2.AsyncClient(
                headers=_expanded(self.name, server.headers),
                timeout=httpx2.Timeout(server.connect_timeout, read=max(server.timeout, _STREAM_SECONDS)),
                trust_env=not server.is_local,
            )
        )
        return streamable_http_client(server.url, http_client=http)

    async def _disconnect(self) -> None:
        holder, stop = self._holder, self._stop
        self._client = self._holder = self._stop = None
        self.tools_changed = True
        if holder is None or stop is None:
            return
        stop.set()
        _, late = await asyncio.wait({holder}, timeout=_CLOSING_SECONDS)
        for task in late:
            task.cancel()
        if holder.done() and not holder.cancelled():
            holder.exception()  # the caller has got it already; retrieving it here keeps asyncio from logging it


class _ErrorOutput:
    """Standard error of a server's process: read, so that it never blocks; only its *end* is kept."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._last = ""
        self._reader: threading.Thread | None = None

    def read_to_end(self) -> None:
        """Wait up to a second for the last words of a process that has ended; its children may still hold the pipe."""
        if self._reader is not None:
            self._reader.join(_LAST_WORDS_SECONDS)

    @property
    def end(self) -> str:
        """Last words of the process, for an error."""
        return f" (it said: {_one_line(self._last[-_SAID_LENGTH:])})" if self._last.strip() else ""

    @contextmanager
    def opened(self) -> Iterator[TextIO]:
        """Yield a file for the process to write to."""
        reading, writing = os.pipe()
        name = f"tellback-mcp-{self._name}-err"
        self._reader = threading.Thread(target=self._read, args=(reading,), name=name, daemon=True)
        self._reader.start()
        with os.fdopen(writing, "w", encoding="utf-8") as file:
            yield file

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor, encoding="utf-8", errors="replace") as file:
            for line in file:
                self._last = (self._last + line)[-2 * _SAID_LENGTH :]


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()


def _expanded(name: str, values: Mapping[str, SecretStr]) -> dict[str, str]:
    """Return *values* with the environment variables that they name; an unset one raises ``McpUnavailable``."""

    def value_of(match: re.Match[str]) -> str:
        value = os.environ.get(match[1], match[2])
        if value is None:
            raise McpUnavailable(name, f"the environment has no variable {match[1]}, which its settings name")
        return value

    return {key: _VARIABLE.sub(value_of, value.get_secret_value()) for key, value in values.items()}


def _innermost(error: BaseException) -> str:
    """Return the message of *error*; of a group, that of its first exception."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


def _one_line(text: str) -> str:
    words, _ = redact_secrets(" ".join(text.split()))
    return shorten(words, _SAID_LENGTH)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("tellback")
    except PackageNotFoundError:  # a bare checkout on Python's path
        return ""
