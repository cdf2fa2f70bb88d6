"""The names of ``tellback.agent.mcp``; the package imports each when it is first used."""

from .client import McpTools as McpTools
from .connection import McpUnavailable as McpUnavailable
from .definitions import DefinitionRegister as DefinitionRegister
from .memory_tools import MemoryServerTools as MemoryServerTools
from .server import make_memory_server as make_memory_server
from .settings import McpServer as McpServer
from .transports import serve_http as serve_http
from .transports import serve_stdio as serve_stdio
