"""Registry of clients by name: those whose hooks are answered, and those that only get the memory server."""

from __future__ import annotations

from typing import Final

from agent.assistant.clients.claude_code import ClaudeCode
from agent.assistant.clients.client import Client, HookClient
from agent.assistant.clients.codex import Codex
from agent.assistant.clients.cursor import CursorEditor
from agent.assistant.clients.gemini_cli import GeminiCli
from agent.assistant.clients.server_clients import SERVER_CLIENTS
from memory import ArgumentError

HOOK_CLIENTS: Final[tuple[HookClient, ...]] = (ClaudeCode(), Codex(), GeminiCli(), CursorEditor())

CLIENTS: Final[tuple[Client, ...]] = (*HOOK_CLIENTS, *SERVER_CLIENTS)


def client_named(name: str) -> Client:
    """Return the client of that *name*; an unknown one raises ``ArgumentError``."""
    for client in CLIENTS:
        if client.name == name:
            return client
    raise ArgumentError("client", name, f"one of {', '.join(client.name for client in CLIENTS)} is needed")


def hook_client(name: str) -> HookClient:
    """Return the client with hooks of that *name*; an unknown one raises ``ArgumentError``."""
    for client in HOOK_CLIENTS:
        if client.name == name:
            return client
    raise ArgumentError("client", name, f"one of {', '.join(client.name for client in HOOK_CLIENTS)} is needed")
