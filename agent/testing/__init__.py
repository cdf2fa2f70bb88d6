"""For tests of agents and providers: a scripted provider, a scripted server, and the contract of providers."""

from agent.testing.openai_server import OpenAIServer, RawReply, Seen
from agent.testing.provider_contract import ProviderContract
from agent.testing.scripted import Reply, ScriptedProvider, call

__all__ = ["OpenAIServer", "ProviderContract", "RawReply", "Reply", "ScriptedProvider", "Seen", "call"]
