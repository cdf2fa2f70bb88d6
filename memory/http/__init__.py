"""The HTTP client of embedders and model providers: JSON and event streams, limits, retries, one error tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from memory.http.client import HttpClient, ServerEvent, Timeouts

__all__ = ["HttpClient", "ServerEvent", "Timeouts"]


def __getattr__(name: str) -> object:
    """Import the client when it is first used: checks and redaction do without httpx."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from memory.http import client

    value: object = getattr(client, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
