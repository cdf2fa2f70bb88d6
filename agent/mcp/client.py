"""Tools of MCP servers for an agent: listed, filtered, named and called with approval; results have a tool's trust.

agent = Agent(provider, tools=[McpTools("files", McpServer(command="npx", args=("-y", "some-files-server")))])
async with agent: ...
"""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, get_args

from tellback.agent.errors import ArgumentError, ToolFailed
from tellback.agent.mcp.connection import McpConnection, McpUnavailable
from tellback.agent.mcp.definitions import DefinitionRegister, fingerprint, shown_description, shown_name
from tellback.agent.mcp.settings import McpServer
from tellback.agent.tools.base import Tool, ToolContext, ToolOutput
from tellback.agent.tools.function import FunctionTool
from tellback.memory import DocumentBlock, ImageBlock, TextBlock

if TYPE_CHECKING:
    import mcp_types

_MAX_TOOLS: Final = 128
_MAX_SCHEMA_LENGTH: Final = 20_000
_MAX_MEDIA_BYTES: Final = 5_000_000
_SECONDS_BETWEEN_LISTS: Final = 60.0
_IMAGE_TYPES: Final = frozenset(get_args(ImageBlock.model_fields["media_type"].annotation)) - {""}
_DOCUMENT_TYPES: Final = frozenset(get_args(DocumentBlock.model_fields["media_type"].annotation)) - {""}


@dataclass(slots=True, eq=False)
class _ServedDefinition:
    """Tool of the server: its own *name*, its *fingerprint* now, and the *tool* for the agent."""

    name: str
    fingerprint: str
    read_only: bool
    repeatable: bool
    tool: FunctionTool | None = None


class McpTools(AbstractAsyncContextManager[Iterable[Tool]]):
    """Tools of the MCP *server* called *name*, for ``Agent(tools=[…])``: a connector that the agent opens and closes.

    A call needs approval, unless the tool calls itself read-only and the server's annotations are trusted. A tool whose
    description, parameters or annotations changed since the user agreed to it (*register*) needs approval again.
    Results are trusted as a tool's words. A server that ended is started again by the next call; the call during which
    it ended fails with a message. With *optional*, a server that cannot be reached gives no tools and a note in
    ``notes``; else ``McpUnavailable`` is raised. ``notes`` also name the tools that were left out.
    """

    def __init__(
        self,
        name: str,
        server: McpServer,
        *,
        register: DefinitionRegister | None = None,
        optional: bool = False,
    ) -> None:
        if not shown_name("", name).strip("_") or shown_name("", name) != name:
            raise ArgumentError("name", name, "1 to 64 letters, digits, _ or - are needed")
        if not isinstance(server, McpServer):
            raise ArgumentError("server", server, "an McpServer is needed")
        self.name, self.server = name, server
        self.notes: list[str] = []
        self._register = register or DefinitionRegister()
        self._optional = optional
        self._connection = McpConnection(name, server)
        self._served: dict[str, _ServedDefinition] = {}
        self._listed_at = 0.0

    async def __aenter__(self) -> list[Tool]:
        """Connect, and return the tools."""
        try:
            listed = await self._connection.list_tools()
        except McpUnavailable as error:
            await self._connection.close()
            if not self._optional:
                raise
            self.notes.append(f"{error}; its tools are left out")
            return []
        self._listed_at = time.monotonic()
        try:
            return self._agree(self._tools(listed))
        except BaseException:
            await self._connection.close()
            raise

    async def __aexit__(self, *_: object) -> None:
        await self._connection.close()

    def _tools(self, listed: Iterable[mcp_types.Tool]) -> list[Tool]:
        """Return the tools that are allowed and usable; notes say which are not."""
        tools: list[Tool] = []
        names: dict[str, str] = {}
        prefix = self.name if self.server.prefix is None else self.server.prefix
        for definition in listed:
            if not self._is_allowed(definition.name):
                continue
            name = shown_name(prefix, definition.name)
            if name in names:
                problem = f"{definition.name!r} and {names[name]!r} would both be called {name}; block one of them"
                raise ArgumentError("tools", self.name, problem)
            if len(tools) == _MAX_TOOLS:
                self.notes.append(f"{self.name}: only the first {_MAX_TOOLS} tools are taken; allow fewer")
                break
            try:
                tools.append(self._tool(name, definition))
                names[name] = definition.name
            except ArgumentError as error:
                self.notes.append(f"{self.name}: the tool {name} is left out: {error.expected}")
        return tools

    def _is_allowed(self, name: str) -> bool:
        allowed = any(fnmatchcase(name, pattern) for pattern in self.server.allow)
        return allowed and not any(fnmatchcase(name, pattern) for pattern in self.server.block)

    def _tool(self, name: str, definition: mcp_types.Tool) -> FunctionTool:
        if len(json.dumps(definition.input_schema)) > _MAX_SCHEMA_LENGTH:
            raise ArgumentError("schema", name, f"its schema is longer than {_MAX_SCHEMA_LENGTH} characters")
        hints = definition.annotations if self.server.trust_annotations else None
        read_only = hints is not None and hints.read_only_hint is True
        repeatable = read_only or (hints is not None and hints.idempotent_hint is True)
        served = _ServedDefinition(definition.name, fingerprint(definition), read_only, repeatable)

        async def call(arguments: dict[str, Any], context: ToolContext) -> ToolOutput:
            return await self._call(served, arguments, context)

        served.tool = FunctionTool(
            call,
            name=name,
            description=shown_description(definition.description or definition.title or ""),
            schema=definition.input_schema,
            timeout=self.server.timeout,
            needs_approval=not read_only,
            idempotent=repeatable,
        )
        self._served[definition.name] = served
        return served.tool

    def _agree(self, tools: list[Tool]) -> list[Tool]:
        """Record a server's tools as agreed at the first connection; later a new or changed one needs approval."""
        agreed = self._register.agreed(self.name)
        if not agreed:
            self._register.record(self.name, {name: served.fingerprint for name, served in self._served.items()})
            return tools
        for name, served in self._served.items():
            if agreed.get(name) != served.fingerprint:
                self._distrust(served)
                what = "changed since it was agreed to" if name in agreed else "is new"
                shown = served.name if served.tool is None else served.tool.spec.name
                self.notes.append(f"{self.name}: the tool {shown} {what}, so you are asked before it is called")
        return tools

    def _distrust(self, served: _ServedDefinition) -> None:
        if served.tool is not None:
            served.tool.annotations = replace(served.tool.annotations, needs_approval=True)

    async def _call(self, served: _ServedDefinition, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        try:
            result = await self._checked_call(served, arguments, context)
        except McpUnavailable as error:
            if self._connection.is_open or not served.repeatable:
                raise ToolFailed(str(error), transient=error.transient) from error
            try:
                result = await self._checked_call(served, arguments, context)
            except McpUnavailable as again:
                raise ToolFailed(str(again), transient=again.transient) from again
        output = tool_output(result)
        if result.is_error:
            text = "\n".join(block.text for block in output if isinstance(block, TextBlock))
            raise ToolFailed(text or "the tool failed, and did not say why")
        return output

    async def _checked_call(
        self, served: _ServedDefinition, arguments: Mapping[str, Any], context: ToolContext
    ) -> mcp_types.CallToolResult:
        """Call the tool, unless its definition has just changed, or it lacks the approval that it needs."""
        if served in await self._notice_changes():
            raise ToolFailed("its server changed this tool just now; call it again, and the user will be asked")
        if context.approved:
            self._approve(served)
        elif served.tool is not None and served.tool.annotations.needs_approval:
            raise ToolFailed("this call needs the user's approval")
        return await self._connection.call(served.name, arguments)

    def _approve(self, served: _ServedDefinition) -> None:
        if self._register.agreed(self.name).get(served.name) != served.fingerprint:
            self._register.record(self.name, {served.name: served.fingerprint})
        if served.tool is not None:
            served.tool.annotations = replace(served.tool.annotations, needs_approval=not served.read_only)

    async def _notice_changes(self) -> list[_ServedDefinition]:
        """List the tools again after a minute, or where the server announced it; distrust and return changed ones."""
        now = time.monotonic()
        if not self._connection.tools_changed and now - self._listed_at < _SECONDS_BETWEEN_LISTS:
            return []
        current = {tool.name: fingerprint(tool) for tool in await self._connection.list_tools()}
        self._listed_at = now
        changed = [
            served
            for name, served in self._served.items()
            if current.get(name, served.fingerprint) != served.fingerprint
        ]
        for served in changed:
            served.fingerprint = current[served.name]
            self._distrust(served)
        return changed


def tool_output(result: mcp_types.CallToolResult) -> tuple[TextBlock | ImageBlock | DocumentBlock, ...]:
    """Return the content of *result* as blocks; content that no model can be shown is described in words."""
    blocks = [_block(part) for part in result.content]
    if not blocks and result.structured_content is not None:
        blocks = [TextBlock(text=json.dumps(result.structured_content, ensure_ascii=False))]
    return tuple(blocks) or (TextBlock(text="done"),)


def _block(part: mcp_types.ContentBlock) -> TextBlock | ImageBlock | DocumentBlock:
    import mcp_types

    if isinstance(part, mcp_types.TextContent):
        return TextBlock(text=part.text)
    if isinstance(part, mcp_types.ImageContent):
        return _media(part.data, part.mime_type, "image")
    if isinstance(part, mcp_types.AudioContent):
        return TextBlock(text=f"(audio, {part.mime_type}, which is not shown)")
    if isinstance(part, mcp_types.ResourceLink):
        return TextBlock(text=f"(resource {part.name}: {part.uri})")
    resource = part.resource
    if isinstance(resource, mcp_types.TextResourceContents):
        return TextBlock(text=f"(resource {resource.uri})\n{resource.text}")
    return _media(resource.blob, resource.mime_type or "application/octet-stream", str(resource.uri))


def _media(encoded: str, media_type: Any, name: str) -> TextBlock | ImageBlock | DocumentBlock:
    try:
        data = base64.b64decode(encoded, validate=True) if len(encoded) <= _MAX_MEDIA_BYTES * 4 // 3 + 4 else b""
    except binascii.Error:
        data = b""
    if data and media_type in _IMAGE_TYPES:
        return ImageBlock(media_type=media_type, data=data, name=name)
    if data and media_type in _DOCUMENT_TYPES:
        return DocumentBlock(media_type=media_type, data=data, name=name)
    return TextBlock(text=f"({name}, {media_type}, {len(encoded) * 3 // 4:,} bytes, which is not shown)")
