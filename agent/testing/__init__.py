"""For tests of agents and providers: scripted provider and servers, the contract of providers, what was shown."""

from agent.testing.anthropic_server import AnthropicServer
from agent.testing.ollama_server import OllamaServer
from agent.testing.openai_server import OpenAIServer
from agent.testing.provider_contract import ProviderContract
from agent.testing.scripted import Reply, ScriptedProvider, call
from agent.testing.shown import mark_in, shown_items
from agent.testing.wire_server import RawReply, Seen, WireServer

__all__ = [
    "AnthropicServer",
    "OllamaServer",
    "OpenAIServer",
    "ProviderContract",
    "RawReply",
    "Reply",
    "ScriptedProvider",
    "Seen",
    "WireServer",
    "call",
    "mark_in",
    "shown_items",
]
