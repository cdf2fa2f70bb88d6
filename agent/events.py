"""Events of a run, in the order in which they happen. Values only; the last event of a stream is ``RunEnded``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agent.approval import ApprovalDecision, ApprovalRequest
from agent.context_items import ContextItem
from agent.errors import RunError
from agent.results import RunResult, ToolCallRecord, Usage
from memory import Report, ToolCallBlock
from memory.internals import Omitted


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of all events: the agent, the round (*step*, from 1; 0 outside the loop), seconds since the run began."""

    agent: str = ""
    step: int = 0
    elapsed: float = 0.0


@dataclass(frozen=True, slots=True)
class MemoryRecalled(Event):
    """Memory was read: the *items* shown to the model, those *left_out* or shown only in part, the number of *dropped*
    messages of history, and *notes* on the search and the dropped messages."""

    items: tuple[ContextItem, ...]
    left_out: tuple[Omitted, ...] = ()
    dropped: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RoundStarted(Event):
    """The model is about to be asked."""


@dataclass(frozen=True, slots=True)
class TextDelta(Event):
    """A piece of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta(Event):
    """A piece of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class RoundEnded(Event):
    """The reply is complete; *usage* is that of this round."""

    usage: Usage


@dataclass(frozen=True, slots=True)
class ToolStarted(Event):
    """A tool is about to be called."""

    call: ToolCallBlock


@dataclass(frozen=True, slots=True)
class ApprovalRequested(Event):
    """A call waits for approval: ``event.request.approve()`` or ``.reject(reason)`` answers it."""

    request: ApprovalRequest


@dataclass(frozen=True, slots=True)
class ApprovalDecided(Event):
    """A request was answered, or nobody answered it."""

    call: ToolCallBlock
    decision: ApprovalDecision


@dataclass(frozen=True, slots=True)
class ToolEnded(Event):
    """A tool has answered, or failed. They come in the order of the calls, after all have ended."""

    run: ToolCallRecord


@dataclass(frozen=True, slots=True)
class EmptyReplyRetried(Event):
    """The model said nothing and is asked again."""


@dataclass(frozen=True, slots=True)
class SubAgentEvent(Event):
    """Event of an agent that was called as a tool; *call_id* is the call."""

    call_id: str
    inner: Event


@dataclass(frozen=True, slots=True)
class WarningIssued(Event):
    """Warning that the run goes on differently than asked."""

    text: str


@dataclass(frozen=True, slots=True)
class MemoryStored(Event):
    """The turn was stored; a line for each message."""

    reports: tuple[Report, ...]


@dataclass(frozen=True, slots=True)
class RunEnded(Event):
    """Terminal event, exactly one: *result* in any case, *error* where ``run`` would raise."""

    result: RunResult[Any]
    error: RunError | None = None
