"""Settings of an MCP server whose tools an agent may use. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, SecretStr, model_validator


class McpServer(BaseModel):
    """MCP server whose tools an agent may use: a *command* with its *args*, or the *url* of a streamable HTTP server.

    - *env* are further variables of the process, which inherits few of ours; *cwd* is its folder. *headers* go with
      each request. In their values ``${NAME}`` and ``${NAME:-default}`` stand for variables of the environment.
    - *allow* and *block* are patterns of the server's own names of tools, such as ``search_*``; a tool that is not
      allowed, or is blocked, is left out.
    - *timeout* is the time of a call in seconds, *connect_timeout* that of starting and listing.
    - *prefix* stands before the names of the tools, with an underscore (None: the name of the server; "": nothing).
    - *trust_annotations*: tools that call themselves read-only need no approval. What a server says of itself is a
      claim; without it every call needs approval.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    command: str | None = Field(default=None, min_length=1)
    args: tuple[str, ...] = ()
    env: Mapping[str, SecretStr] = Field(default_factory=dict)
    cwd: Path | None = None
    url: str | None = None
    headers: Mapping[str, SecretStr] = Field(default_factory=dict)
    allow: tuple[str, ...] = ("*",)
    block: tuple[str, ...] = ()
    timeout: PositiveFloat = 60.0
    connect_timeout: PositiveFloat = 30.0
    prefix: str | None = None
    trust_annotations: bool = True

    @model_validator(mode="after")
    def _one_transport(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("a command or a url is needed, and not both")
        if self.url is not None:
            parts = urlsplit(self.url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError("url: an address such as http://localhost:8931/mcp is needed")
        return self

    @property
    def is_local(self) -> bool:
        """Return whether it is a process of this machine, or listens on it."""
        from tellback.memory.internals import is_loopback

        return self.url is None or is_loopback(self.url)
