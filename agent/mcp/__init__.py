"""Model Context Protocol (extra `mcp`): the memory as a server, and the tools of other servers for an agent."""

from __future__ import annotations

from typing import Final

from vectorstore.lazy_face import LazyFace as _LazyFace

_EXPORTS: Final = {
    "agent.mcp.client": "McpTools",
    "agent.mcp.connection": "McpUnavailable",
    "agent.mcp.definitions": "DefinitionRegister",
    "agent.mcp.memory_tools": "MemoryServerTools",
    "agent.mcp.server": "make_memory_server",
    "agent.mcp.settings": "McpServer",
    "agent.mcp.transports": "serve_http serve_stdio",
}
"""The public names by the module that defines them; the stub beside this file lists the same for type checkers."""
_FACE: Final = _LazyFace(__name__, _EXPORTS)
__all__ = _FACE.names
__getattr__ = _FACE.load
__dir__ = _FACE.list
