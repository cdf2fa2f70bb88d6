"""The agent of Mneme: a loop over messages and a provider, with memory around it.

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
    from agent.agent import Agent
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
    from agent.items import Citation, ContextItem
    from agent.ledger import Prices, RunLimits
    from agent.middleware.circuit_breaker import CircuitBreaker
    from agent.middleware.protocol import Invocation, ModelMiddleware, Proceed, Stream, ToolMiddleware
    from agent.middleware.rate_limit import RateLimit
    from agent.middleware.retry import Retry
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
    from agent.subagent import AgentTool
    from agent.summarising import summariser
    from agent.tool_policy import ToolPolicy
    from agent.tools.calculator import calculator
    from agent.tools.chain import ChainedTool
    from agent.tools.clock import clock
    from agent.tools.facets import Authoriser, Facets, Verdict
    from agent.tools.files import file_tools, note_tools
    from agent.tools.function import FunctionTool, tool
    from agent.tools.knowledge import knowledge_tools
    from agent.tools.memory import memory_tools
    from agent.tools.pages import ResultPages
    from agent.tools.protocol import Tool, ToolContext, ToolOutput
    from agent.tools.toolset import Toolset
    from agent.turn import new_session
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
    "agent.agent": "Agent",
    "agent.approval": "Approval ApprovalPolicy ApprovalRequest Approver Decision all_calls as_flagged no_calls unless",
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
    "agent.items": "Citation ContextItem",
    "agent.ledger": "Prices RunLimits",
    "agent.middleware.circuit_breaker": "CircuitBreaker",
    "agent.middleware.protocol": "Invocation ModelMiddleware Proceed Stream ToolMiddleware",
    "agent.middleware.rate_limit": "RateLimit",
    "agent.middleware.retry": "Retry",
    "agent.providers.anthropic": "AnthropicProvider",
    "agent.providers.capabilities": "Capabilities ModelInfo capabilities_of",
    "agent.providers.collecting": "complete",
    "agent.providers.ollama": "OllamaProvider",
    "agent.providers.openai_compatible": "OpenAICompatibleProvider list_models",
    "agent.providers.protocol": (
        "CitationPiece KeptAs Provider Request Stop TextPiece ThinkingPiece ToolCallPiece ToolSpec UsagePiece"
    ),
    "agent.providers.quoting": "QuotingProvider",
    "agent.providers.retrying": "RetryingProvider",
    "agent.providers.settings": "ModelSettings",
    "agent.recalling": "Knowledge",
    "agent.results": "Ending RunResult StopReason ToolRun Usage",
    "agent.subagent": "AgentTool",
    "agent.summarising": "summariser",
    "agent.tool_policy": "ToolPolicy",
    "agent.tools.calculator": "calculator",
    "agent.tools.chain": "ChainedTool",
    "agent.tools.clock": "clock",
    "agent.tools.facets": "Authoriser Facets Verdict",
    "agent.tools.files": "file_tools note_tools",
    "agent.tools.function": "FunctionTool tool",
    "agent.tools.knowledge": "knowledge_tools",
    "agent.tools.memory": "memory_tools",
    "agent.tools.pages": "ResultPages",
    "agent.tools.protocol": "Tool ToolContext ToolOutput",
    "agent.tools.toolset": "Toolset",
    "agent.turn": "new_session",
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
