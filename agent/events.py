"""Events of a run, in the order in which they happen; the last event of a stream is ``RunEnded``. Hooks: functions that
observe what happens in a run. What they return or raise changes nothing.

Agent(provider, hooks=[Hooks(model_called=lambda event: print(event.elapsed, len(event.value.messages)))])
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from agent.approval import ApprovalDecision, ApprovalRequest
from agent.context_items import ContextItem
from agent.errors import RunError
from agent.results import RunResult, ToolCallRecord, Usage
from memory import Report, ToolCallBlock
from memory.internals import Omitted

_log = logging.getLogger(__name__)
_log.addHandler(logging.NullHandler())  # quiet, unless the program sets up logging


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
class TextWithdrawn(Event):
    """The text of this round so far was reasoning, as the model has told only at its end; the answer follows."""


@dataclass(frozen=True, slots=True)
class Waiting(Event):
    """Nothing comes from the model for a while: for *seconds* from now, before it is asked again after *problem*
    (*named*: the server asked for this wait), or, without a problem, since *seconds*, at most until *limit*."""

    seconds: float
    problem: str = ""
    named: bool = False
    limit: float | None = None

    @property
    def text(self) -> str:
        """The wait in a sentence."""
        if not self.problem:
            limit = f" (until {self.limit:g} s)" if self.limit else ""
            return f"nothing has come from the model for {self.seconds:g} s{limit}"
        return f"waiting {self.seconds:.2g} s{', as the server asked' if self.named else ''}: {self.problem}"


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


@dataclass(frozen=True, slots=True)
class HookEvent:
    """An event of a run as a hook sees it: its *name*, the *agent* and *session*, the round (*step*), the seconds since
    the run began, and *value*, its subject."""

    name: str
    agent: str
    session: str
    step: int
    elapsed: float
    value: Any


Hook: TypeAlias = Callable[[HookEvent], object]
"""Function that observes an event; an asynchronous one is awaited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """One observer: a function for each event that it wants to see. The event's value is, by event:

    *run_started*: the prompt; *run_ended*: the result; *iteration*: the request without middleware; *model_called*:
    the request as it is sent; *model_answered*: the response; *thinking*: a thinking block; *tool_called*: the call;
    *tool_ended*: the tool run; *circuit_opened*: the tool's name; *memory_loaded*: the history's messages;
    *memory_retrieved*: the items found; *context_built*: the assembled context; *memory_appended*: the messages
    to be kept; *memory_stored*: the reports; *failed*: the error.
    """

    run_started: Hook | None = None
    run_ended: Hook | None = None
    iteration: Hook | None = None
    model_called: Hook | None = None
    model_answered: Hook | None = None
    thinking: Hook | None = None
    tool_called: Hook | None = None
    tool_ended: Hook | None = None
    circuit_opened: Hook | None = None
    memory_loaded: Hook | None = None
    memory_retrieved: Hook | None = None
    context_built: Hook | None = None
    memory_appended: Hook | None = None
    memory_stored: Hook | None = None
    failed: Hook | None = None


HOOK_NAMES = tuple(field.name for field in fields(Hooks))


class HookDispatcher:
    """The hooks of one run, called in the order in which they were given; one that fails is logged."""

    def __init__(
        self, hooks: Sequence[Hooks] = (), *, agent: str = "", session: str = "", timer: Callable[[], float] = float
    ) -> None:
        self._agent, self._session, self._timer = agent, session, timer
        self._hooks: dict[str, list[Hook]] = {}
        for name in HOOK_NAMES if hooks else ():
            wanted = [hook for observer in hooks if (hook := getattr(observer, name)) is not None]
            if wanted:
                self._hooks[name] = wanted

    async def dispatch(self, name: str, value: Any, *, step: int = 0) -> None:
        """Call the hooks for the event *name*, which is about *value*."""
        hooks = self._hooks.get(name)
        if not hooks:
            return
        event = HookEvent(name, self._agent, self._session, step, self._timer(), value)
        for hook in hooks:
            try:
                returned = hook(event)
                if inspect.isawaitable(returned):
                    await returned
            except Exception:  # a hook observes; what it raises is logged and stops nothing
                _log.warning("a hook for %s failed", name, exc_info=True)
