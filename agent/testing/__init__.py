"""For tests of agents and providers: a scripted provider, scripted servers, and the contract of providers."""

from agent.testing.anthropic_server import AnthropicServer
from agent.testing.ollama_server import OllamaServer
from agent.testing.openai_server import OpenAIServer
from agent.testing.provider_contract import ProviderContract
from agent.testing.scripted import Reply, ScriptedProvider, call
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
]
