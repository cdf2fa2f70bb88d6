"""Tests of agents and providers: a scripted provider, scripted servers, the contract of providers, items shown."""

from agent.testing.provider_contract import ProviderContract
from agent.testing.scripted import Reply, ScriptedProvider, call, mark_in, shown_items
from agent.testing.servers import AnthropicServer, OllamaServer, OpenAIServer, RawReply, RecordedRequest, ScriptedServer

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
