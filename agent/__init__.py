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
    from agent.agent import Agent, new_session_id
    from agent.approval import (
        ApprovalDecision,
        ApprovalPolicy,
        ApprovalRequest,
        ApprovalStatus,
        Approver,
        approval_always,
        approval_as_annotated,
        approval_except,
        approval_never,
    )
    from agent.context.memory_reader import PassageRetriever
    from agent.context.summarizer import summarizer
    from agent.context_items import AnswerCitation, ContextItem
    from agent.errors import (
        AgentClosed,
        AgentError,
        ApprovalUnavailable,
        ArgumentError,
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
        RequestRefused,
        RunAborted,
        RunError,
        StopRun,
        ToolCallRefused,
        ToolFailed,
        ToolTimedOut,
        Unsupported,
        WindowExceeded,
    )
    from agent.events import (
        ApprovalDecided,
        ApprovalRequested,
        EmptyReplyRetried,
        Event,
        MemoryRecalled,
        MemoryStored,
        RoundEnded,
        RoundStarted,
        RunEnded,
        SubAgentEvent,
        TextDelta,
        ThinkingDelta,
        ToolEnded,
        ToolStarted,
        WarningIssued,
    )
    from agent.hooks import HookEvent, Hooks
    from agent.middleware.base import ModelHandler, ModelMiddleware, ToolHandler, ToolInvocation, ToolMiddleware
    from agent.middleware.circuit_breaker import CircuitBreaker
    from agent.middleware.resilience import RateLimit, Retry
    from agent.providers.accumulator import collect_response
    from agent.providers.anthropic import AnthropicProvider
    from agent.providers.base import (
        Capabilities,
        CitationPiece,
        ModelInfo,
        ModelSettings,
        Provider,
        Request,
        StopPiece,
        StoredReply,
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
    from agent.results import Ending, RunResult, StopReason, ToolCallRecord, Usage
    from agent.subagent import AgentTool
    from agent.tool_executor import ToolPolicy
    from agent.tools.base import (
        AuthorizationDecision,
        Authorizer,
        Tool,
        ToolAnnotations,
        ToolContext,
        ToolOutput,
        Toolset,
    )
    from agent.tools.builtin import calculator, clock
    from agent.tools.chain import ChainedTool
    from agent.tools.files import file_tools, note_tools
    from agent.tools.function import FunctionTool, tool
    from agent.tools.knowledge import knowledge_tools
    from agent.tools.memory import memory_tools
    from agent.tools.pagination import ResultPagination
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
    "AnswerCitation",
    "AnthropicProvider",
    "ApprovalDecided",
    "ApprovalDecision",
    "ApprovalPolicy",
    "ApprovalRequest",
    "ApprovalRequested",
    "ApprovalStatus",
    "ApprovalUnavailable",
    "Approver",
    "ArgumentError",
    "AuthorizationDecision",
    "Authorizer",
    "Capabilities",
    "ChainedTool",
    "CircuitBreaker",
    "CircuitOpen",
    "CitationPiece",
    "ConfigurationError",
    "ContextItem",
    "ContextOverflow",
    "DeadlinePassed",
    "DocumentBlock",
    "EmptyReply",
    "EmptyReplyRetried",
    "Ending",
    "Event",
    "FunctionTool",
    "HookEvent",
    "Hooks",
    "ImageBlock",
    "InvalidOutput",
    "IterationCap",
    "LimitReached",
    "MemoryRecalled",
    "MemoryStored",
    "MemoryUnavailable",
    "Message",
    "ModelHandler",
    "ModelInfo",
    "ModelMiddleware",
    "ModelSettings",
    "OllamaProvider",
    "OpenAICompatibleProvider",
    "PassageRetriever",
    "Prices",
    "Provider",
    "ProviderError",
    "ProviderFailed",
    "QuotingProvider",
    "RateLimit",
    "RateLimited",
    "Request",
    "RequestRefused",
    "ResultPagination",
    "Retry",
    "RetryingProvider",
    "RoundEnded",
    "RoundStarted",
    "RunAborted",
    "RunEnded",
    "RunError",
    "RunLimits",
    "RunResult",
    "StopPiece",
    "StopReason",
    "StopRun",
    "StoredReply",
    "SubAgentEvent",
    "TextBlock",
    "TextDelta",
    "TextPiece",
    "ThinkingBlock",
    "ThinkingDelta",
    "ThinkingPiece",
    "Tool",
    "ToolAnnotations",
    "ToolCallBlock",
    "ToolCallPiece",
    "ToolCallRecord",
    "ToolCallRefused",
    "ToolContext",
    "ToolEnded",
    "ToolFailed",
    "ToolHandler",
    "ToolInvocation",
    "ToolMiddleware",
    "ToolOutput",
    "ToolPolicy",
    "ToolResultBlock",
    "ToolSpec",
    "ToolStarted",
    "ToolTimedOut",
    "Toolset",
    "Unsupported",
    "Usage",
    "UsagePiece",
    "WarningIssued",
    "WindowExceeded",
    "approval_always",
    "approval_as_annotated",
    "approval_except",
    "approval_never",
    "calculator",
    "capabilities_of",
    "clock",
    "collect_response",
    "file_tools",
    "knowledge_tools",
    "list_models",
    "memory_tools",
    "new_session_id",
    "note_tools",
    "run_sync",
    "summarizer",
    "tool",
]

_NAMES: Final = {
    "agent.agent": "Agent new_session_id",
    "agent.approval": (
        "ApprovalDecision ApprovalPolicy ApprovalRequest ApprovalStatus Approver approval_always "
        "approval_as_annotated approval_except approval_never"
    ),
    "agent.context.memory_reader": "PassageRetriever",
    "agent.context.summarizer": "summarizer",
    "agent.context_items": "AnswerCitation ContextItem",
    "agent.errors": (
        "AgentClosed AgentError ApprovalUnavailable ArgumentError CircuitOpen ConfigurationError ContextOverflow "
        "DeadlinePassed EmptyReply InvalidOutput IterationCap LimitReached MemoryUnavailable ProviderError "
        "ProviderFailed RateLimited RequestRefused RunAborted RunError StopRun ToolCallRefused ToolFailed "
        "ToolTimedOut Unsupported WindowExceeded"
    ),
    "agent.events": (
        "ApprovalDecided ApprovalRequested EmptyReplyRetried Event MemoryRecalled MemoryStored RoundEnded "
        "RoundStarted RunEnded SubAgentEvent TextDelta ThinkingDelta ToolEnded ToolStarted WarningIssued"
    ),
    "agent.hooks": "HookEvent Hooks",
    "agent.middleware.base": "ModelHandler ModelMiddleware ToolHandler ToolInvocation ToolMiddleware",
    "agent.middleware.circuit_breaker": "CircuitBreaker",
    "agent.middleware.resilience": "RateLimit Retry",
    "agent.providers.accumulator": "collect_response",
    "agent.providers.anthropic": "AnthropicProvider",
    "agent.providers.base": (
        "Capabilities CitationPiece ModelInfo ModelSettings Provider Request StopPiece StoredReply TextPiece "
        "ThinkingPiece ToolCallPiece ToolSpec UsagePiece capabilities_of"
    ),
    "agent.providers.extractive": "QuotingProvider",
    "agent.providers.ollama": "OllamaProvider",
    "agent.providers.openai": "OpenAICompatibleProvider list_models",
    "agent.providers.retrying": "RetryingProvider",
    "agent.results": "Ending RunResult StopReason ToolCallRecord Usage",
    "agent.subagent": "AgentTool",
    "agent.tool_executor": "ToolPolicy",
    "agent.tools.base": "AuthorizationDecision Authorizer Tool ToolAnnotations ToolContext ToolOutput Toolset",
    "agent.tools.builtin": "calculator clock",
    "agent.tools.chain": "ChainedTool",
    "agent.tools.files": "file_tools note_tools",
    "agent.tools.function": "FunctionTool tool",
    "agent.tools.knowledge": "knowledge_tools",
    "agent.tools.memory": "memory_tools",
    "agent.tools.pagination": "ResultPagination",
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
