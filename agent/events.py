"""Events of a run, in the order in which they happen; the last event of a stream is ``RunEnded``. Hooks: functions that
observe what happens in a run. What they return or raise changes nothing.

Each event has a form in JSON: ``event.to_json()``, and back with ``Event.from_json(text)``.

Agent(provider, hooks=[Hooks(model_called=lambda event: print(event.elapsed, len(event.value.messages)))])
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, ClassVar, TypeAlias

from pydantic import PlainSerializer, PlainValidator, TypeAdapter, ValidationError, ValidationInfo

from tellback.agent.approval import ApprovalDecision, ApprovalRequest
from tellback.agent.context_items import ContextItem
from tellback.agent.errors import ArgumentError, ProviderError, RunError, error_for_result
from tellback.agent.results import ErrorRecord, MemoryAccess, RunResult, StopReason, ToolCallRecord, Usage
from tellback.memory import Report, ToolCallBlock
from tellback.memory.internals import Omitted

_log = logging.getLogger(__name__)
logging.getLogger("tellback.agent").addHandler(logging.NullHandler())  # quiet, unless the program sets up logging

_TYPE_KEY = "type"
_EVENT_CLASSES: dict[str, type[Event]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of all events: the agent, the round (*step*, from 1; 0 outside the loop), seconds since the run began.

    *type* is the name of its class in JSON, such as "text_delta".
    """

    type: ClassVar[str] = "event"

    agent: str = ""
    step: int = 0
    elapsed: float = 0.0

    def __init_subclass__(cls) -> None:
        cls.type = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
        _EVENT_CLASSES[cls.type] = cls

    def to_json(self) -> str:
        """Return the event as one line of JSON, an object with its *type* and its fields."""
        return json.dumps(_event_to_object(self), ensure_ascii=True)

    @staticmethod
    def from_json(text: str | bytes) -> Event:
        """Return the event of *text*; what is no event raises ``ArgumentError``.

        Exceptions and requests for approval come back as what can be shown of them: a ``RunError`` without its cause
        (``result.error`` has its type, message and traceback), a request that only its own program can answer. An
        answer of a wanted type comes back as plain values.
        """
        try:
            return _event_from_object(json.loads(text))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
            raise ArgumentError("text", text, f"the JSON of an event is needed ({problem})") from error
        except (ValueError, RecursionError) as error:
            raise ArgumentError("text", text, f"the JSON of an event is needed ({error})") from error


def _event_to_object(event: Event) -> dict[str, Any]:
    return {_TYPE_KEY: event.type, **_adapter(event.type).dump_python(event, mode="json")}


def _event_from_object(value: Any) -> Event:
    kind = value.get(_TYPE_KEY) if isinstance(value, Mapping) else None
    if not isinstance(kind, str) or kind not in _EVENT_CLASSES:
        raise ValueError(f"{_TYPE_KEY} is {kind!r}; one of {', '.join(sorted(_EVENT_CLASSES))} is needed")
    data = {name: item for name, item in value.items() if name != _TYPE_KEY}
    return _adapter(kind).validate_python(data)


@cache
def _adapter(kind: str) -> TypeAdapter[Event]:
    return TypeAdapter(_EVENT_CLASSES[kind])


def _run_error_to_object(error: RunError | None) -> dict[str, Any] | None:
    if error is None:
        return None
    shown: dict[str, Any] = {"type": type(error).__name__, "problem": error.problem}
    if isinstance(error, ProviderError):
        names = ("provider", "status", "retry_after", "transient")
        shown |= {name: getattr(error, name) for name in names}
    return shown


def _run_error_from_object(value: Any, info: ValidationInfo) -> RunError | None:
    if value is None:
        return None
    if not isinstance(value, Mapping) or "problem" not in value or "result" not in info.data:
        raise ValueError("an object with a problem is needed, beside a result")
    cause = None
    if "status" in value:
        cause = ProviderError("", provider=value.get("provider", ""), status=value["status"])
        cause.retry_after, cause.transient = value.get("retry_after"), bool(value.get("transient"))
    error = error_for_result(info.data["result"], value["problem"], cause)
    if error is not None:
        error.__cause__ = None  # the result has it as text
    return error


def _request_to_object(request: ApprovalRequest) -> dict[str, Any]:
    call = request.call.model_dump(mode="json")
    return {"call": call, "agent": request.agent, "description": request.description}


def _request_from_object(value: Any) -> ApprovalRequest:
    if not isinstance(value, Mapping):
        raise ValueError("an object with a call is needed")
    call = ToolCallBlock.model_validate(value.get("call"))
    return ApprovalRequest(
        call, agent=str(value.get("agent", "")), description=str(value.get("description", "")), copy=True
    )


@dataclass(frozen=True, slots=True)
class MemoryDegraded(Event):
    """Memory could not be read or written, or not in full: *access* has the part, the reason and the exception."""

    access: MemoryAccess

    async def announce(self, hooks: HookDispatcher) -> None:
        """Log it, and tell *hooks*."""
        access = self.access
        trace = f"\n{access.error.traceback}" if access.error is not None else ""
        _log.warning("memory degraded (%s, after %.3f s): %s%s", access.part, access.elapsed, access.problem, trace)
        await hooks.dispatch("memory_degraded", access, step=self.step, duration=access.elapsed)


@dataclass(frozen=True, slots=True)
class MemoryRecalled(Event):
    """Memory was read: the *items* shown to the model, those *left_out* or shown only in part, the number of *dropped*
    messages of history, and *notes* on the search and the dropped messages.

    *searched* is the number of memories and passages that there were to find (None: not known), *accesses* are the
    reads with their times, *duration* is that of all of them in seconds.
    """

    items: tuple[ContextItem, ...]
    left_out: tuple[Omitted, ...] = ()
    dropped: int = 0
    notes: tuple[str, ...] = ()
    searched: int | None = None
    accesses: tuple[MemoryAccess, ...] = ()
    duration: float = 0.0


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
    """The text so far does not stand, and the answer follows: it was reasoning, as a closing tag shows only at its end,
    or ``RunMiddleware`` changed it."""


@dataclass(frozen=True, slots=True)
class Waiting(Event):
    """Wait for the model. After a *problem* it is asked again in *seconds* (*named*: the server asked for this wait);
    without one, nothing has come for *seconds*, and *limit* is the longest silence in seconds."""

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
        return f"waiting {self.seconds:.3g} s{', as the server asked' if self.named else ''}: {self.problem}"


@dataclass(frozen=True, slots=True)
class RoundEnded(Event):
    """The reply is complete; *usage* is that of this round, *stop* the reason why it ended.

    *duration* is that of the model's call in seconds, *first_token* the part of it until the first piece came.
    """

    usage: Usage
    duration: float = 0.0
    first_token: float | None = None
    stop: StopReason | None = None


@dataclass(frozen=True, slots=True)
class ToolStarted(Event):
    """A tool is about to be called."""

    call: ToolCallBlock


@dataclass(frozen=True, slots=True)
class ApprovalRequested(Event):
    """A call waits for approval: ``event.request.approve()`` or ``.reject(reason)`` answers it."""

    request: Annotated[ApprovalRequest, PlainValidator(_request_from_object), PlainSerializer(_request_to_object)]


@dataclass(frozen=True, slots=True)
class ApprovalDecided(Event):
    """A request was answered, or nobody answered it."""

    call: ToolCallBlock
    decision: ApprovalDecision


@dataclass(frozen=True, slots=True)
class CircuitOpened(Event):
    """The circuit of a tool opened with this *call*, after so many *failures* in a row: it is not called for *duration*
    seconds."""

    call: ToolCallBlock
    failures: int
    duration: float


@dataclass(frozen=True, slots=True)
class CircuitRejected(Event):
    """A *call* was not made, since the circuit of its tool is open for *retry_after* seconds more (0: another call is
    trying the tool)."""

    call: ToolCallBlock
    failures: int
    retry_after: float


@dataclass(frozen=True, slots=True)
class ToolEnded(Event):
    """A tool has answered, or failed: *run* has its duration and its exception. They come in the order of the calls,
    after all have ended."""

    run: ToolCallRecord


@dataclass(frozen=True, slots=True)
class EmptyReplyRetried(Event):
    """The model said nothing and is asked again."""


@dataclass(frozen=True, slots=True)
class SubAgentEvent(Event):
    """Event of an agent that was called as a tool; *call_id* is the call."""

    call_id: str
    inner: Annotated[Event, PlainValidator(_event_from_object), PlainSerializer(_event_to_object)]


@dataclass(frozen=True, slots=True)
class WarningIssued(Event):
    """Warning: the run continues, but not as it was asked."""

    text: str


@dataclass(frozen=True, slots=True)
class MemoryStored(Event):
    """The turn was stored; a line for each message. *duration* is that of the writing in seconds."""

    reports: tuple[Report, ...]
    duration: float = 0.0


@dataclass(frozen=True, slots=True)
class RunEnded(Event):
    """Terminal event, exactly one: *result* in any case, *error* where ``run`` would raise."""

    result: RunResult[Any]
    error: Annotated[RunError | None, PlainValidator(_run_error_from_object), PlainSerializer(_run_error_to_object)] = (
        None
    )


@dataclass(frozen=True, slots=True)
class HookEvent:
    """An event of a run as a hook sees it: its *name*, the *agent* and *session*, the round (*step*), the seconds since
    the run began, and *value*, its subject. *duration* is that of what has ended, in seconds (None: a beginning)."""

    name: str
    agent: str
    session: str
    step: int
    elapsed: float
    value: Any
    duration: float | None = None


Hook: TypeAlias = Callable[[HookEvent], object]
"""Function that observes an event; an asynchronous one is awaited."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Observer: a function for each event that it wants to see. The event's value is, by event:

    *run_started*: the prompt; *run_ended*: the result; *iteration*: the request without middleware; *model_called*:
    the request as it is sent; *model_answered*: the response; *model_failed*: the error of the model's call;
    *thinking*: a thinking block; *tool_called*: the call; *tool_ended*: the tool run; *circuit_opened*: the tool's
    name; *circuit_rejected*: the event ``CircuitRejected``; *memory_loaded*: the history's messages;
    *memory_retrieved*: the items found; *memory_degraded*: the ``MemoryAccess``; *context_built*: the assembled
    context; *memory_appended*: the messages to be kept; *memory_stored*: the reports; *failed*: the error.

    Each run that called *run_started* calls *run_ended* once, however it ends: also where it is cancelled or its reader
    leaves the stream, with what there is of the result (its ending is "cancelled").
    """

    run_started: Hook | None = None
    run_ended: Hook | None = None
    iteration: Hook | None = None
    model_called: Hook | None = None
    model_answered: Hook | None = None
    model_failed: Hook | None = None
    thinking: Hook | None = None
    tool_called: Hook | None = None
    tool_ended: Hook | None = None
    circuit_opened: Hook | None = None
    circuit_rejected: Hook | None = None
    memory_loaded: Hook | None = None
    memory_retrieved: Hook | None = None
    memory_degraded: Hook | None = None
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

    async def dispatch(self, name: str, value: Any, *, step: int = 0, duration: float | None = None) -> None:
        """Call the hooks for the event *name*, which is about *value*.

        All of them are told the end of a run, even if it is cancelled meanwhile.
        """
        hooks = self._hooks.get(name)
        if not hooks:
            return
        event = HookEvent(name, self._agent, self._session, step, self._timer(), value, duration)
        cancellation: asyncio.CancelledError | None = None
        for hook in hooks:
            try:
                returned = hook(event)
                if inspect.isawaitable(returned):
                    await returned
            except asyncio.CancelledError as error:
                if name != "run_ended":
                    raise
                cancellation = error
            except Exception as error:  # a hook observes; what it raises is logged and stops nothing
                _log.warning("a hook for %s failed\n%s", name, ErrorRecord.of(error).traceback)
        if cancellation is not None:
            raise cancellation
