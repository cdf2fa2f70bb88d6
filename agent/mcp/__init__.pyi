"""The names of ``agent.mcp`` for type checkers; __init__.py imports each when it is first used."""

from agent.mcp.client import McpTools as McpTools
from agent.mcp.connection import McpUnavailable as McpUnavailable
from agent.mcp.definitions import DefinitionRegister as DefinitionRegister
from agent.mcp.memory_tools import MemoryServerTools as MemoryServerTools
from agent.mcp.server import make_memory_server as make_memory_server
from agent.mcp.settings import McpServer as McpServer
from agent.mcp.transports import serve_http as serve_http
from agent.mcp.transports import serve_stdio as serve_stdio
