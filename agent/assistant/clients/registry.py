"""Registry of the clients whose hooks are answered, by name."""

from __future__ import annotations

from typing import Final

from agent.assistant.clients.claude_code import ClaudeCode
from agent.assistant.clients.client import HookClient
from memory import ArgumentError

HOOK_CLIENTS: Final[tuple[HookClient, ...]] = (ClaudeCode(),)


def hook_client(name: str) -> HookClient:
    """Return the client of that *name*; an unknown one raises ``ArgumentError``."""
    for client in HOOK_CLIENTS:
        if client.name == name:
            return client
    raise ArgumentError("client", name, f"one of {', '.join(client.name for client in HOOK_CLIENTS)} is needed")
