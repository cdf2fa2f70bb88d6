"""Agents that remember: a loop over messages and a model provider, with long-term memory around it.

>>> from agent import Agent, QuotingProvider
>>> from memory import open_memory
>>> agent = Agent(QuotingProvider(), memory=open_memory("chat.db"))
>>> agent.run_sync("I moved to Lisbon.").text
'Noted: “I moved to Lisbon.”'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from agent.agent import Agent, new_session
    from agent.approval import (
        Approval,
        ApprovalPolicy,
        ApprovalRequest,
        Approver,
        Decision,
        all_calls,
        as_flagged,
        no_calls,
        unless,
    )
    from agent.context.memory_reader import Knowledge
    from agent.context.summarizer import summariser
    from agent.context_items import Citation, ContextItem
    from agent.errors import (
        AgentClosed,
        AgentError,
        ApprovalUnavailable,
        ArgumentError,
        CallRefused,
        CircuitOpen,
        ConfigurationError,
        ContextOverflow,
        DeadlinePassed,
        EmptyReply,
        InvalidOutput,
        IterationCap,
        LimitReached,
        MemoryUnavailable,
        ProviderError,
        ProviderFailed,
        RateLimited,
        Refused,
        RunError,
        RunStopped,
        StopRun,
        ToolFailed,
        ToolTimedOut,
        Unsupported,
        WindowExceeded,
    )
    from agent.events import (
        ApprovalDecided,
        ApprovalRequested,
        Event,
        MemoryRecalled,
        MemoryStored,
        Nudged,
        RoundEnded,
        RoundStarted,
        RunEnded,
        SubAgentEvent,
        TextDelta,
        ThinkingDelta,
        ToolEnded,
        ToolStarted,
        Warned,
    )
    from agent.hooks import Hooks, Moment
    from agent.middleware.base import Invocation, ModelMiddleware, Proceed, Stream, ToolMiddleware
    from agent.middleware.circuit_breaker import CircuitBreaker
    from agent.middleware.resilience import RateLimit, Retry
    from agent.providers.accumulator import complete
    from agent.providers.anthropic import AnthropicProvider
    from agent.providers.base import (
        Capabilities,
        CitationPiece,
        KeptAs,
        ModelInfo,
        ModelSettings,
        Provider,
        Request,
        Stop,
        TextPiece,
        ThinkingPiece,
        ToolCallPiece,
        ToolSpec,
        UsagePiece,
        capabilities_of,
    )
    from agent.providers.extractive import QuotingProvider
    from agent.providers.ollama import OllamaProvider
    from agent.providers.openai import OpenAICompatibleProvider, list_models
    from agent.providers.retrying import RetryingProvider
    from agent.results import Ending, RunResult, StopReason, ToolRun, Usage
    from agent.subagent import AgentTool
    from agent.tool_executor import ToolPolicy
    from agent.tools.base import Authoriser, Facets, Tool, ToolContext, ToolOutput, Toolset, Verdict
    from agent.tools.builtin import calculator, clock
    from agent.tools.chain import ChainedTool
    from agent.tools.files import file_tools, note_tools
    from agent.tools.function import FunctionTool, tool
    from agent.tools.knowledge import knowledge_tools
    from agent.tools.memory import memory_tools
    from agent.tools.pagination import ResultPages
    from agent.usage import Prices, RunLimits
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
    "AgentTool",
    "AnthropicProvider",
    "Approval",
    "ApprovalDecided",
    "ApprovalPolicy",
    "ApprovalRequest",
    "ApprovalRequested",
    "ApprovalUnavailable",
    "Approver",
    "ArgumentError",
    "Authoriser",
    "CallRefused",
    "Capabilities",
    "ChainedTool",
    "CircuitBreaker",
    "CircuitOpen",
    "Citation",
    "CitationPiece",
    "ConfigurationError",
    "ContextItem",
    "ContextOverflow",
    "DeadlinePassed",
    "Decision",
    "DocumentBlock",
    "EmptyReply",
    "Ending",
    "Event",
    "Facets",
    "FunctionTool",
    "Hooks",
    "ImageBlock",
    "InvalidOutput",
    "Invocation",
    "IterationCap",
    "KeptAs",
    "Knowledge",
    "LimitReached",
    "MemoryRecalled",
    "MemoryStored",
    "MemoryUnavailable",
    "Message",
    "ModelInfo",
    "ModelMiddleware",
    "ModelSettings",
    "Moment",
    "Nudged",
    "OllamaProvider",
    "OpenAICompatibleProvider",
    "Prices",
    "Proceed",
    "Provider",
    "ProviderError",
    "ProviderFailed",
    "QuotingProvider",
    "RateLimit",
    "RateLimited",
    "Refused",
    "Request",
    "ResultPages",
    "Retry",
    "RetryingProvider",
    "RoundEnded",
    "RoundStarted",
    "RunEnded",
    "RunError",
    "RunLimits",
    "RunResult",
    "RunStopped",
    "Stop",
    "StopReason",
    "StopRun",
    "Stream",
    "SubAgentEvent",
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
    "ToolMiddleware",
    "ToolOutput",
    "ToolPolicy",
    "ToolResultBlock",
    "ToolRun",
    "ToolSpec",
    "ToolStarted",
    "ToolTimedOut",
    "Toolset",
    "Unsupported",
    "Usage",
    "UsagePiece",
    "Verdict",
    "Warned",
    "WindowExceeded",
    "all_calls",
    "as_flagged",
    "calculator",
    "capabilities_of",
    "clock",
    "complete",
    "file_tools",
    "knowledge_tools",
    "list_models",
    "memory_tools",
    "new_session",
    "no_calls",
    "note_tools",
    "run_sync",
    "summariser",
    "tool",
    "unless",
]

_NAMES: Final = {
    "agent.agent": "Agent new_session",
    "agent.approval": (
        "Approval ApprovalPolicy ApprovalRequest Approver Decision all_calls as_flagged no_calls unless"
    ),
    "agent.context.memory_reader": "Knowledge",
    "agent.context.summarizer": "summariser",
    "agent.context_items": "Citation ContextItem",
    "agent.errors": (
        "AgentClosed AgentError ApprovalUnavailable ArgumentError CallRefused CircuitOpen ConfigurationError "
        "ContextOverflow DeadlinePassed EmptyReply InvalidOutput IterationCap LimitReached MemoryUnavailable "
        "ProviderError ProviderFailed RateLimited Refused RunError RunStopped StopRun ToolFailed ToolTimedOut "
        "Unsupported WindowExceeded"
    ),
    "agent.events": (
        "ApprovalDecided ApprovalRequested Event MemoryRecalled MemoryStored Nudged RoundEnded RoundStarted "
        "RunEnded SubAgentEvent TextDelta ThinkingDelta ToolEnded ToolStarted Warned"
    ),
    "agent.hooks": "Hooks Moment",
    "agent.middleware.base": "Invocation ModelMiddleware Proceed Stream ToolMiddleware",
    "agent.middleware.circuit_breaker": "CircuitBreaker",
    "agent.middleware.resilience": "RateLimit Retry",
    "agent.providers.accumulator": "complete",
    "agent.providers.anthropic": "AnthropicProvider",
    "agent.providers.base": (
        "Capabilities CitationPiece KeptAs ModelInfo ModelSettings Provider Request Stop TextPiece ThinkingPiece "
        "ToolCallPiece ToolSpec UsagePiece capabilities_of"
    ),
    "agent.providers.extractive": "QuotingProvider",
    "agent.providers.ollama": "OllamaProvider",
    "agent.providers.openai": "OpenAICompatibleProvider list_models",
    "agent.providers.retrying": "RetryingProvider",
    "agent.results": "Ending RunResult StopReason ToolRun Usage",
    "agent.subagent": "AgentTool",
    "agent.tool_executor": "ToolPolicy",
    "agent.tools.base": "Authoriser Facets Tool ToolContext ToolOutput Toolset Verdict",
    "agent.tools.builtin": "calculator clock",
    "agent.tools.chain": "ChainedTool",
    "agent.tools.files": "file_tools note_tools",
    "agent.tools.function": "FunctionTool tool",
    "agent.tools.knowledge": "knowledge_tools",
    "agent.tools.memory": "memory_tools",
    "agent.tools.pagination": "ResultPages",
    "agent.usage": "Prices RunLimits",
    "memory": "DocumentBlock ImageBlock Message TextBlock ThinkingBlock ToolCallBlock ToolResultBlock run_sync",
}
"""The public names, by where they are."""
_WHERE: Final = {name: part for part, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    """Import the parts when one of them is first asked for: the command line needs few, and starts faster so."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value
