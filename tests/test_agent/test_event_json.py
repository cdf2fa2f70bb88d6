"""Events in JSON: each class round-trips; exceptions and open requests keep the fields that can be shown.

Inner parts, on no face: ``tellback.agent.approval``, ``tellback.agent.context_items``, ``tellback.agent.errors``,
``tellback.agent.events``, ``tellback.agent.results``.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from pydantic import BaseModel

from tellback.agent import (
    Agent,
    ApprovalRequest,
    ApprovalRequested,
    ApprovalUnavailable,
    ArgumentError,
    Ending,
    MemoryRecalled,
    MemoryStored,
    ProviderError,
    ProviderFailed,
    RunEnded,
    RunResult,
    StopReason,
    SubAgentEvent,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
    Usage,
    WarningIssued,
    tool,
)
from tellback.agent.approval import ApprovalDecision
from tellback.agent.context_items import ContextItem, cite_item
from tellback.agent.errors import error_for_result
from tellback.agent.events import (
    ApprovalDecided,
    CircuitOpened,
    CircuitRejected,
    EmptyReplyRetried,
    Event,
    MemoryDegraded,
    RoundEnded,
    RoundStarted,
    TextWithdrawn,
    Waiting,
)
from tellback.agent.results import ErrorRecord, MemoryAccess, RunStep, ToolCallRecord
from tellback.agent.testing import Reply, ScriptedProvider, call
from tellback.memory import ImageBlock, Message, TextBlock, ThinkingBlock, ToolResultBlock, open_memory
from tellback.memory.internals import Omitted

pytestmark = pytest.mark.anyio

CALL = call("look", place="Zürich", nested={"a": [1, None, 2.5, "\u2028"]})
ERROR = ErrorRecord("OSError", "gone", "Traceback …\nOSError: gone\n")
ITEM = ContextItem(
    1,
    "m1",
    source="a.md",
    heading=("A", "B"),
    page=2,
    date=datetime(2026, 5, 3, tzinfo=UTC),
    score=0.25,
    text="The shed is green.",
    end=18,
    page_breaks=((4, 3),),
    sequence=7,
)
IMAGE = ImageBlock(media_type="image/png", data=bytes(range(256)), caption="?")
RECORD = ToolCallRecord(
    CALL, ToolResultBlock(call_id=CALL.id, name="look", content=(TextBlock(text="x"), IMAGE)), 0.5, 0.25, ERROR
)
ACCESS = MemoryAccess("recall", 0.1, 0.2, 3, "searched by words alone", ERROR)
STEP = RunStep(1, "m", 0.1, 0.9, 0.2, Usage(1, 2, 3, 4, 5), StopReason.TOOL_CALLS, (RECORD,), None)


class City(BaseModel):
    name: str


def result(ending: Ending = Ending.FINAL, output: BaseModel | None = None) -> RunResult:
    return RunResult(
        ending,
        "It is green. \U0001f7e2",
        "s",
        messages=(Message.user([TextBlock(text="?"), IMAGE]), Message.assistant([ThinkingBlock(text="hm"), CALL])),
        steps=(STEP,),
        tool_runs=(RECORD,),
        memory_accesses=(ACCESS,),
        usage=Usage(10, 5),
        calls=1,
        cost=0.5,
        output=output,
        memories=(ITEM,),
        citations=(cite_item(ITEM, 4, 8),),
        left_out=(Omitted("m2", "over the budget", "m1"),),
        warnings=("w",),
        error=None if ending.is_answer else ERROR,
        trust="tool",
    )


EVENTS: list[Event] = [
    RoundStarted(agent="ada", step=1, elapsed=0.125),
    TextDelta("Grüße\n\x00"),
    TextDelta("\ud83d"),
    ThinkingDelta("hm", step=2),
    RoundEnded(Usage(1, 2), 0.5, None, StopReason.STOP),
    ToolStarted(CALL),
    ToolEnded(RECORD),
    ApprovalDecided(CALL, ApprovalDecision("rejected", "not now")),
    CircuitOpened(CALL, 5, 30.0),
    CircuitRejected(CALL, 5, 12.5),
    EmptyReplyRetried(),
    TextWithdrawn(),
    Waiting(60.0, "overloaded", True, 120.0),
    WarningIssued("careful"),
    MemoryDegraded(ACCESS),
    MemoryRecalled((ITEM,), (Omitted("m2", "over the budget"),), 3, ("a note",), 12, (ACCESS,), 0.25),
    SubAgentEvent("c1", SubAgentEvent("c2", ToolEnded(RECORD, agent="inner"))),
    RunEnded(result()),
]
OPEN_EVENTS = [ApprovalRequested, MemoryStored]
"""Classes whose events come from runs below."""


def event_classes(base: type = Event) -> set[type]:
    below = {kind for kind in base.__subclasses__() if kind.__module__ == Event.__module__}
    return below.union(*map(event_classes, below))


def test_every_event_class_is_covered_here() -> None:
    names = {type(event).__name__ for event in EVENTS} | {kind.__name__ for kind in OPEN_EVENTS}
    assert {kind.__name__ for kind in event_classes()} == names


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.type)
def test_an_event_round_trips_through_json(event: Event) -> None:
    text = event.to_json()
    text.encode()
    assert "\n" not in text
    back = Event.from_json(text)
    assert type(back) is type(event)
    assert back == event
    assert back.to_json() == text
    assert json.loads(text)["type"] == event.type


@pytest.mark.parametrize("ending", [ending for ending in Ending if not ending.is_answer])
def test_a_run_error_round_trips_through_json_with_its_class_problem_and_result(ending: Ending) -> None:
    ended = result(ending)
    cause = ProviderError("overloaded", provider="p", status=529, retry_after=2.0)
    error = error_for_result(ended, "it was too late", cause)
    back = Event.from_json(RunEnded(ended, error).to_json())
    assert isinstance(back, RunEnded)
    assert (type(back.error), str(back.error), back.error.result) == (type(error), "it was too late", ended)
    assert back.result == ended
    if isinstance(back.error, ProviderFailed):
        assert (back.error.provider, back.error.status, back.error.retry_after) == ("p", 529, 2.0)
        assert back.error.transient


def test_a_typed_answer_comes_back_from_json_as_plain_values() -> None:
    back = Event.from_json(RunEnded(result(output=City(name="Lisbon"))).to_json())
    assert isinstance(back, RunEnded)
    assert back.result.output == {"name": "Lisbon"}


async def test_an_approval_request_read_from_json_can_be_shown_and_not_answered() -> None:
    request = ApprovalRequest(CALL, agent="ada", description="Look.")
    back = Event.from_json(ApprovalRequested(request, step=1).to_json())
    assert isinstance(back, ApprovalRequested)
    shown = back.request
    assert (shown.call, shown.agent, shown.description, back.step) == (CALL, "ada", "Look.", 1)
    with pytest.raises(ApprovalUnavailable, match="answer the one in the program"):
        shown.approve()
    with pytest.raises(ApprovalUnavailable):
        await shown.decided()


async def test_every_event_of_a_run_with_memory_tools_and_failures_round_trips_through_json(tmp_path) -> None:
    @tool
    def fail() -> str:
        """Fail."""
        raise OSError("broken")

    replies = (Reply("Hm", thinking="t", calls=(call("fail"),)), Reply(error=OSError("down")))
    async with open_memory(tmp_path / "m.db") as memory:
        await memory.remember("The shed is green.")
        agent = Agent(ScriptedProvider(*replies), tools=[fail], memory=memory)
        failed = [event async for event in agent.stream("Which colour has the shed?")]
        agent = Agent(ScriptedProvider(Reply("Green. [1]")), memory=memory)
        answered = [event async for event in agent.stream("Which colour has the shed?")]
    for event in (*failed, *answered):
        back = Event.from_json(event.to_json())
        assert type(back) is type(event)
        assert back.to_json() == event.to_json()
        assert back == event or getattr(event, "error", None) is not None
    assert any(isinstance(event, MemoryStored) for event in answered)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[]",
        "{}",
        '{"type": "gone"}',
        '{"type": 3}',
        '{"type": "text_delta"}',
        '{"type": "run_ended", "result": {}, "error": {}}',
        '{"type": "approval_requested", "request": []}',
        '{"type": "sub_agent_event", "call_id": "c", "inner": {"type": "gone"}}',
        "[" * 100_000,
    ],
    ids=lambda text: text[:40],
)
def test_json_that_is_no_event_is_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="the JSON of an event is needed"):
        Event.from_json(text)
