"""Model Context Protocol, of the extra `mcp`: the memory as a server, and the tools of other servers for an agent."""

from __future__ import annotations

from importlib import import_module
from typing import Final

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
_MODULE_OF: Final = {name: module for module, names in _EXPORTS.items() for name in names.split()}
__all__ = tuple(sorted(_MODULE_OF))


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that a program loads only the parts that it needs."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
