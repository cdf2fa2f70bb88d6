"""Tests of agents and providers: a scripted provider, scripted servers, the contract of providers, items shown.

Only the contract needs pytest, which ``pip install '.[dev]'`` brings.
"""

from typing import TYPE_CHECKING

from tellback.agent.testing.scripted import Reply, ScriptedProvider, call, mark_in, shown_items
from tellback.agent.testing.servers import (
    AnthropicServer,
    OllamaServer,
    OpenAIServer,
    RawReply,
    RecordedRequest,
    ScriptedServer,
)

if TYPE_CHECKING:
    from tellback.agent.testing.provider_contract import ProviderContract

__all__ = [
    "AnthropicServer",
    "OllamaServer",
    "OpenAIServer",
    "ProviderContract",
    "RawReply",
    "RecordedRequest",
    "Reply",
    "ScriptedProvider",
    "ScriptedServer",
    "call",
    "mark_in",
    "shown_items",
]


def __getattr__(name: str) -> object:
    if name != "ProviderContract":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from tellback.agent.testing.provider_contract import ProviderContract
    except ModuleNotFoundError as error:
        from tellback.vectorstore import MissingExtra

        raise MissingExtra(f"{__name__}.{name}", "dev") from error
    return ProviderContract
