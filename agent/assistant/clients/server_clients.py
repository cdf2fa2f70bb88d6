"""Clients that get the memory server alone: they have no hooks that could add memories to a prompt.

Sources, as read in November 2026: vscode-docs ``mcp-configuration.md``, zed.dev/docs/ai/mcp, docs.cline.bot,
jetbrains.com/help/junie, lmstudio.ai/mcp, `@opencode-ai/sdk` 1.19.3; for Claude Desktop and Windsurf, which are
documented in part, what several users' files agree on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from agent.assistant.clients.client import Client
from agent.assistant.clients.registration import ServerFile


@dataclass(frozen=True, slots=True)
class ServerClient(Client):
    """Client without hooks: *path* gives the file of its servers, which stand under *key*."""

    name: str
    title: str
    documented: str
    path: Callable[[], Path]
    key: str = "mcpServers"
    fields: Mapping[str, Any] = field(default_factory=dict)
    merged_command: bool = False
    notes: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Folder of its settings."""
        return self.path().parent

    @property
    def server_file(self) -> ServerFile:
        """Configuration of its MCP servers."""
        return ServerFile(self.path(), self.key, fields=self.fields, merged_command=self.merged_command)


def _application_folder(name: str, *, linux: str = "") -> Path:
    """Return the folder of an application called *name* among those of the platform's applications."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / name
    if os.name == "nt":
        return Path(os.environ.get("APPDATA") or Path.home() / "AppData" / "Roaming") / name
    return _config_folder() / (linux or name)


def _config_folder() -> Path:
    named = os.environ.get("XDG_CONFIG_HOME")
    return Path(named) if named else Path.home() / ".config"


def _named_or(variable: str, *parts: str) -> Path:
    """Return the path in the environment's *variable*, else the one of *parts* in the home folder."""
    named = os.environ.get(variable)
    return Path(named).expanduser() if named else Path.home().joinpath(*parts)


def _zed_settings() -> Path:
    folder = _application_folder("Zed") if os.name == "nt" else _config_folder() / "zed"
    return folder / "settings.json"


def _opencode_settings() -> Path:
    if named := os.environ.get("OPENCODE_CONFIG"):
        return Path(named).expanduser()
    folder = _config_folder() / "opencode"
    with_comments = folder / "opencode.jsonc"
    return with_comments if with_comments.exists() else folder / "opencode.json"


SERVER_CLIENTS: Final[tuple[Client, ...]] = (
    ServerClient(
        "claude-desktop",
        "Claude Desktop",
        "claude_desktop_config.json of 2026",
        lambda: _application_folder("Claude") / "claude_desktop_config.json",
        notes=("quit Claude Desktop and start it anew",),
    ),
    ServerClient(
        "vscode",
        "VS Code",
        "mcp.json of the user's profile, vscode-docs of 2026-07-29",
        lambda: _application_folder("Code") / "User" / "mcp.json",
        key="servers",
        fields={"type": "stdio"},
    ),
    ServerClient(
        "windsurf",
        "Windsurf",
        "mcp_config.json as of 2026-10-29",
        lambda: Path.home() / ".codeium" / "windsurf" / "mcp_config.json",
    ),
    ServerClient("zed", "Zed", "context_servers, zed.dev/docs/ai/mcp of 2026", _zed_settings, key="context_servers"),
    ServerClient(
        "copilot-cli",
        "GitHub Copilot CLI",
        "mcp-config.json, code.visualstudio.com of 2026",
        lambda: _named_or("COPILOT_HOME", ".copilot") / "mcp-config.json",
    ),
    ServerClient(
        "cline",
        "Cline (command line)",
        "cline_mcp_settings.json, docs.cline.bot of 2026",
        lambda: _named_or("CLINE_MCP_SETTINGS_PATH", ".cline", "data", "settings", "cline_mcp_settings.json"),
    ),
    ServerClient(
        "junie",
        "JetBrains Junie",
        "mcp.json, jetbrains.com/help/junie of 2026",
        lambda: Path.home() / ".junie" / "mcp" / "mcp.json",
    ),
    ServerClient(
        "lm-studio",
        "LM Studio",
        "mcp.json of LM Studio 0.3.17 and later",
        lambda: Path.home() / ".lmstudio" / "mcp.json",
    ),
    ServerClient(
        "opencode",
        "opencode",
        "opencode.json of @opencode-ai/sdk 1.19.3",
        _opencode_settings,
        key="mcp",
        fields={"type": "local", "enabled": True},
        merged_command=True,
    ),
)
