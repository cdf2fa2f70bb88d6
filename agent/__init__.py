"""The agent of Mneme: a loop over messages and a provider, with memory around it.

>>> from agent import Agent, QuotingProvider
>>> from memory import open_memory
>>> agent = Agent(QuotingProvider(), memory=open_memory("chat.db"))
>>> agent.run_sync("I moved to Lisbon.").text
'Noted: “I moved to Lisbon.”'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.agent import Agent, new_session
    from agent.errors import (
        AgentClosed,
        AgentError,
        ArgumentError,
        ConfigurationError,
        ContextOverflow,
        DeadlinePassed,
        EmptyReply,
        IterationCap,
        MemoryUnavailable,
        ProviderError,
        ProviderFailed,
        RunError,
        RunStopped,
        StopRun,
        ToolFailed,
        Unsupported,
    )
    from agent.events import (
        Event,
        MemoryRecalled,
        MemoryStored,
        Nudged,
        RoundEnded,
        RoundStarted,
        RunEnded,
        TextDelta,
        ThinkingDelta,
        ToolEnded,
        ToolStarted,
        Warned,
    )
    from agent.items import Citation, ContextItem
    from agent.providers.anthropic import AnthropicProvider
    from agent.providers.capabilities import Capabilities, ModelInfo, capabilities_of
    from agent.providers.collecting import complete
    from agent.providers.ollama import OllamaProvider
    from agent.providers.openai_compatible import OpenAICompatibleProvider, list_models
    from agent.providers.protocol import (
        CitationPiece,
        KeptAs,
        Provider,
        Request,
        Stop,
        TextPiece,
        ThinkingPiece,
        ToolCallPiece,
        ToolSpec,
        UsagePiece,
    )
    from agent.providers.quoting import QuotingProvider
    from agent.providers.retrying import RetryingProvider
    from agent.providers.settings import ModelSettings
    from agent.recalling import Knowledge
    from agent.results import Ending, RunResult, StopReason, ToolRun, Usage
    from agent.tools.function import FunctionTool, tool
    from agent.tools.knowledge import knowledge_tools
    from agent.tools.memory import memory_tools
    from agent.tools.protocol import Tool, ToolContext
    from agent.tools.toolset import Toolset
    from memory import (
        DocumentBlock,
        ImageBlock,
        Message,
        TextBlock,
        ThinkingBlock,
        ToolCallBlock,
        ToolResultBlock,
        run_sync,
    )

__all__ = [
    "Agent",
    "AgentClosed",
    "AgentError",
    "AnthropicProvider",
    "ArgumentError",
    "Capabilities",
    "Citation",
    "CitationPiece",
    "ConfigurationError",
    "ContextItem",
    "ContextOverflow",
    "DeadlinePassed",
    "DocumentBlock",
    "EmptyReply",
    "Ending",
    "Event",
    "FunctionTool",
    "ImageBlock",
    "IterationCap",
    "KeptAs",
    "Knowledge",
    "MemoryRecalled",
    "MemoryStored",
    "MemoryUnavailable",
    "Message",
    "ModelInfo",
    "ModelSettings",
    "Nudged",
    "OllamaProvider",
    "OpenAICompatibleProvider",
    "Provider",
    "ProviderError",
    "ProviderFailed",
    "QuotingProvider",
    "Request",
    "RetryingProvider",
    "RoundEnded",
    "RoundStarted",
    "RunEnded",
    "RunError",
    "RunResult",
    "RunStopped",
    "Stop",
    "StopReason",
    "StopRun",
    "TextBlock",
    "TextDelta",
    "TextPiece",
    "ThinkingBlock",
    "ThinkingDelta",
    "ThinkingPiece",
    "Tool",
    "ToolCallBlock",
    "ToolCallPiece",
    "ToolContext",
    "ToolEnded",
    "ToolFailed",
    "ToolResultBlock",
    "ToolRun",
    "ToolSpec",
    "ToolStarted",
    "Toolset",
    "Unsupported",
    "Usage",
    "UsagePiece",
    "Warned",
    "capabilities_of",
    "complete",
    "knowledge_tools",
    "list_models",
    "memory_tools",
    "new_session",
    "run_sync",
    "tool",
]

_PARTS = (
    "agent.agent",
    "agent.errors",
    "agent.events",
    "agent.items",
    "agent.providers.anthropic",
    "agent.providers.capabilities",
    "agent.providers.collecting",
    "agent.providers.ollama",
    "agent.providers.openai_compatible",
    "agent.providers.protocol",
    "agent.providers.quoting",
    "agent.providers.retrying",
    "agent.providers.settings",
    "agent.recalling",
    "agent.results",
    "agent.tools.function",
    "agent.tools.knowledge",
    "agent.tools.memory",
    "agent.tools.protocol",
    "agent.tools.toolset",
    "memory",
)


def __getattr__(name: str) -> object:
    """Import the parts when one of them is first asked for: the command line needs few, and starts faster so."""
    if name in __all__:
        for part in map(import_module, _PARTS):
            if hasattr(part, name):
                value: object = getattr(part, name)
                globals()[name] = value
                return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
