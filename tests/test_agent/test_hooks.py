"""Hooks, fingerprints, connectors, approval in a stream, and agents as tools.

Inner parts, on no face: ``tellback.agent.approval``, ``tellback.agent.events``, ``tellback.agent.providers.base``.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tellback.agent import (
    Agent,
    AgentError,
    AgentSettings,
    AgentTool,
    ApprovalRequested,
    ApprovalUnavailable,
    ArgumentError,
    CircuitBreaker,
    Ending,
    Hooks,
    ModelSettings,
    RunEnded,
    RunLimits,
    StopPiece,
    StopReason,
    SubAgentEvent,
    TextDelta,
    TextPiece,
    ToolCallPiece,
    ToolContext,
    ToolEnded,
    ToolPolicy,
    ToolStarted,
    Usage,
    approval_except,
    tool,
)
from tellback.agent.approval import ApprovalDecision
from tellback.agent.events import HOOK_NAMES, ApprovalDecided, CircuitOpened, CircuitRejected, HookEvent
from tellback.agent.providers.base import ToolSpec
from tellback.agent.testing import Reply, ScriptedProvider, call
from tellback.memory import InMemoryHistory, Memory, Message, open_memory
from tests.support.passing_time import DEADLINE, outlasting

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).resolve().parents[2]


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def fail() -> str:
    """Fail."""
    raise OSError("broken")


@tool(needs_approval=True)
def send(text: str) -> str:
    """Send it."""
    return f"sent {text}"


# Hooks


async def test_hooks_receive_every_event_of_a_run_in_order(tmp_path) -> None:
    memory = open_memory(tmp_path / "m.db")
    await memory.remember(Memory(text="Ana lives in Lisbon."))
    seen: list[HookEvent] = []
    hooks = Hooks(**dict.fromkeys(HOOK_NAMES, seen.append))
    replies = (Reply(thinking="hm", calls=(call("fail"),)), Reply("Lisbon."))
    with ScriptedProvider(*replies) as provider:
        policy = ToolPolicy(breaker=CircuitBreaker(1))
        agent = Agent(
            provider, tools=[fail], memory=memory, hooks=[hooks], policy=policy, settings=AgentSettings(name="ada")
        )
        result = await agent.run("Where does Ana live?", session="s")
    await memory.close()
    names = [moment.name for moment in seen]
    assert names == [
        "run_started",
        "memory_loaded",
        "memory_retrieved",
        "context_built",
        "iteration",
        "model_called",
        "thinking",
        "model_answered",
        "tool_called",
        "circuit_opened",
        "tool_ended",
        "iteration",
        "model_called",
        "model_answered",
        "memory_appended",
        "memory_stored",
        "run_ended",
    ]
    assert {(moment.agent, moment.session) for moment in seen} == {("ada", "s")}
    values = {moment.name: moment for moment in seen}
    assert values["run_ended"].value == result
    assert values["circuit_opened"].value == "fail"
    assert values["model_answered"].step == 2
    assert any("Lisbon" in item.text for item in values["memory_retrieved"].value)


async def test_the_failed_hook_receives_the_error_of_a_run() -> None:
    seen: list[HookEvent] = []
    with pytest.raises(AgentError):
        await Agent(ScriptedProvider(Reply(error=OSError("down"))), hooks=[Hooks(failed=seen.append)]).run("?")
    assert "down" in str(seen[0].value)


async def test_hooks_are_called_in_order_and_a_failing_hook_stops_neither_others_nor_the_run(caplog) -> None:
    order: list[str] = []

    async def slow(moment: HookEvent) -> None:
        await asyncio.sleep(0)
        order.append("first")

    def broken(moment: HookEvent) -> None:
        order.append("second")
        raise ValueError("my own mistake")

    hooks = [Hooks(run_started=slow), Hooks(run_started=broken), Hooks(run_started=lambda moment: order.append("3"))]
    result = await Agent(ScriptedProvider(Reply("fine")), hooks=hooks).run("?")
    assert (result.ending, order) == (Ending.FINAL, ["first", "second", "3"])
    assert "a hook for run_started failed" in caplog.text


@pytest.mark.slow
def test_nothing_is_printed_unless_the_program_sets_up_logging() -> None:
    program = """
from tellback.agent import Agent, Hooks, tool
from tellback.agent.testing import Reply, ScriptedProvider, call

@tool
def fail() -> str:
    raise OSError("broken")

script = (Reply(calls=(call("fail"),)), Reply("fine"))
Agent(ScriptedProvider(*script), tools=[fail], hooks=[Hooks(run_started=lambda moment: 1 / 0)]).run_sync("?")
"""
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("", "")


async def test_the_return_value_of_a_hook_is_ignored() -> None:
    with ScriptedProvider(Reply("fine")) as provider:
        await Agent(provider, hooks=[Hooks(model_called=lambda moment: None)]).run("as it is")
    assert provider.requests[0].messages[-1].text == "as it is"


async def test_run_ended_is_called_once_with_every_ending_of_a_stream(memory) -> None:
    scripts = {
        Ending.FINAL: [Reply("fine")],
        Ending.PROVIDER_ERROR: [Reply("ha", error=OSError("down"))],
        Ending.EMPTY_REPLY: [Reply(""), Reply("")],
        Ending.DEADLINE: [Reply("late", before=outlasting)],
    }
    for ending, replies in scripts.items():
        seen: list[HookEvent] = []
        settings = AgentSettings(deadline=DEADLINE if ending is Ending.DEADLINE else None)
        hooks = [Hooks(run_ended=seen.append)]
        events = [
            event
            async for event in Agent(ScriptedProvider(*replies), memory=memory, hooks=hooks, settings=settings).stream(
                "?"
            )
        ]
        assert [event.value for event in seen] == [events[-1].result]
        assert seen[0].value.ending is ending


async def cancelled_at(agent: Agent, reached: asyncio.Event) -> None:
    """Run *agent*, and cancel the run once *reached* is set."""
    task = asyncio.create_task(agent.run("?"))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("moment", ["run_started", "memory_retrieved", "model", "tool", "memory_appended", "run_ended"])
async def test_run_ended_is_called_once_when_a_run_is_cancelled(memory, moment: str) -> None:
    reached = asyncio.Event()

    async def hang(*given: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    @tool
    async def wait() -> str:
        """Wait."""
        await hang()
        return ""

    seen: list[HookEvent] = []
    hooks = [Hooks(run_ended=seen.append)]
    if moment in HOOK_NAMES:
        hooks.insert(0, Hooks(**{moment: hang}))
    first = Reply("Hm", calls=(call("wait"),) if moment == "tool" else (), before=hang if moment == "model" else None)
    agent = Agent(ScriptedProvider(first, Reply("done")), tools=[wait], memory=memory, hooks=hooks)
    await cancelled_at(agent, reached)
    (ended,) = seen
    if moment == "run_ended":
        assert ended.value.ending is Ending.FINAL
        return
    assert ended.value.ending is Ending.CANCELLED
    assert ended.value.error.type == "CancelledError"
    if moment == "tool":
        (step,) = ended.value.steps
        assert (ended.value.text, step.tool_runs[0].error.type) == ("Hm", "CancelledError")


@pytest.mark.parametrize("places", range(1, 9))
async def test_run_ended_is_called_once_when_the_reader_leaves_the_stream(memory, places: int) -> None:
    seen: list[HookEvent] = []
    replies = (Reply("Hm", calls=(call("add", a=1, b=2),)), Reply("3"))
    agent = Agent(ScriptedProvider(*replies), tools=[add], memory=memory, hooks=[Hooks(run_ended=seen.append)])
    events = agent.stream("?")
    for _ in range(places):
        await anext(events)
    assert seen == []
    await events.aclose()
    (ended,) = seen
    assert (ended.value.ending, ended.value.error.type) == (Ending.CANCELLED, "GeneratorExit")


async def test_a_stream_dropped_without_being_closed_ends_its_run() -> None:
    ended = asyncio.Event()
    agent = Agent(ScriptedProvider(Reply("A long answer")), hooks=[Hooks(run_ended=lambda event: ended.set())])
    async for _ in agent.stream("?"):
        break
    async with asyncio.timeout(60):
        await ended.wait()


async def test_an_unread_stream_starts_and_ends_no_run() -> None:
    seen: list[HookEvent] = []
    agent = Agent(ScriptedProvider(), hooks=[Hooks(run_started=seen.append, run_ended=seen.append)])
    await agent.stream("?").aclose()
    assert seen == []


async def test_an_error_of_a_custom_window_policy_is_raised_and_passed_to_the_hooks(memory) -> None:
    class Broken:
        def apply(self, messages):
            raise ZeroDivisionError("my own mistake")

    seen: list[HookEvent] = []
    hooks = [Hooks(run_ended=seen.append, failed=seen.append)]
    agent = Agent(ScriptedProvider(), memory=memory, hooks=hooks, settings=AgentSettings(window=Broken()))
    await memory.conversations.append("s", [Message.user("Hello")])
    with pytest.raises(ZeroDivisionError):
        await agent.run("?", session="s")
    failed, ended = seen
    assert isinstance(failed.value, ZeroDivisionError)
    assert (ended.name, ended.value.ending) == ("run_ended", Ending.ERROR)
    assert "my own mistake" in ended.value.error.traceback


async def test_a_sub_agent_that_is_cancelled_with_its_caller_ends_its_run() -> None:
    reached, seen = asyncio.Event(), []

    async def hang() -> None:
        reached.set()
        await asyncio.Event().wait()

    inner = Agent(
        ScriptedProvider(Reply("x", before=hang)),
        settings=AgentSettings(name="Helper"),
        hooks=[Hooks(run_ended=seen.append)],
    )
    outer = Agent(
        ScriptedProvider(ask()), tools=[AgentTool(inner, description="")], hooks=[Hooks(run_ended=seen.append)]
    )
    await cancelled_at(outer, reached)
    assert [(event.agent, event.value.ending) for event in seen] == [("Helper", "cancelled"), ("", "cancelled")]


async def test_each_call_rejected_by_an_open_circuit_is_reported_with_the_time_left() -> None:
    class Clock:
        now = 0.0

        def __call__(self) -> float:
            return self.now

    clock, seen = Clock(), []
    policy = ToolPolicy(breaker=CircuitBreaker(1, reset_timeout=30, timer=clock))
    asked = Reply(calls=(call("fail"), call("fail")))
    replies = (Reply(calls=(call("fail"),)), asked, Reply("Sorry."))
    provider = ScriptedProvider(*replies)
    agent = Agent(provider, tools=[fail], policy=policy, hooks=[Hooks(circuit_rejected=seen.append)])
    events = []
    async for event in agent.stream("?"):
        events.append(event)
        if isinstance(event, ToolEnded):
            clock.now = 10.0
    (opened,) = [event for event in events if isinstance(event, CircuitOpened)]
    assert (opened.call.name, opened.failures, opened.duration) == ("fail", 1, 30.0)
    rejected = [event for event in events if isinstance(event, CircuitRejected)]
    assert [(event.call, event.retry_after, event.step) for event in rejected] == [
        (block, 20.0, 2) for block in asked.calls
    ]
    assert [event.value for event in seen] == rejected


# Fingerprints


def test_a_fingerprint_tells_configurations_apart_and_is_stable_under_the_order_of_tools() -> None:
    def made(*, tools=(add, fail), policy: ToolPolicy | None = None, name: str = "ada", **settings) -> str:
        named = AgentSettings(name=name, **settings)
        return Agent(ScriptedProvider(), tools=tools, policy=policy, settings=named).fingerprint

    mark = made()
    assert mark == made() == made(tools=[fail, add])
    changed = [
        {"name": "bob"},
        {"system": "Be kind."},
        {"tools": [add]},
        {"model_settings": ModelSettings(temperature=0)},
        {"max_rounds": 3},
        {"limits": RunLimits(calls=3)},
        {"policy": ToolPolicy(approval=approval_except())},
        {"token_budget": 100},
    ]
    assert len({mark, *(made(**options) for options in changed)}) == len(changed) + 1


async def test_a_result_carries_its_agents_fingerprint() -> None:
    agent = Agent(ScriptedProvider(Reply("fine")))
    assert (await agent.run("?")).fingerprint == agent.fingerprint


# Connectors


def connector(log: list[str], name: str, *tools, fails: bool = False):
    @asynccontextmanager
    async def opened():
        if fails:
            raise OSError(f"{name} is down")
        log.append(f"open {name}")
        try:
            yield tools
        finally:
            log.append(f"close {name}")

    return opened()


async def test_connectors_give_tools_and_are_closed_once_with_the_agent() -> None:
    log: list[str] = []
    replies = (Reply(calls=(call("add", a=1, b=2),)), Reply("3", expect="3"))
    agent = Agent(ScriptedProvider(*replies), tools=[connector(log, "a", add), connector(log, "b")])
    async with agent:
        assert (await agent.run("?")).text == "3"
        await agent.start()
        assert log == ["open a", "open b"]
    await agent.aclose()
    assert log == ["open a", "open b", "close b", "close a"]
    with pytest.raises(AgentError, match="closed"):
        await agent.start()


async def test_a_connector_that_fails_closes_those_that_were_opened() -> None:
    log: list[str] = []
    connectors = [connector(log, "a"), connector(log, "b", fails=True), connector(log, "c")]
    agent = Agent(ScriptedProvider(), tools=connectors)
    with pytest.raises(OSError, match="b is down"):
        await agent.start()
    assert log == ["open a", "close a"]
    with pytest.raises(AgentError, match="start it first"):
        agent.stream("?")


async def test_two_connectors_with_one_name_are_refused_and_closed() -> None:
    log: list[str] = []
    agent = Agent(ScriptedProvider(), tools=[connector(log, "a", add), connector(log, "b", add)])
    with pytest.raises(ArgumentError, match="name of its own"):
        await agent.start()
    assert log == ["open a", "open b", "close b", "close a"]


# Approval


async def test_a_run_with_an_approval_tool_and_no_approver_is_refused_before_it_starts() -> None:
    history = InMemoryHistory()
    with ScriptedProvider() as provider, pytest.raises(ApprovalUnavailable, match="send"):
        await Agent(provider, tools=[send], history=history).run("?", session="s")
    assert await history.load("s") == []


async def test_an_approval_request_in_a_stream_is_an_event_answered_by_its_reader() -> None:
    replies = (Reply(calls=(call("send", text="a"), call("send", text="b"))), Reply("done", expect="sent a"))
    with ScriptedProvider(*replies) as provider:
        events = []
        async for event in Agent(provider, tools=[send]).stream("?"):
            events.append(event)
            if isinstance(event, ApprovalRequested):
                if event.request.call.arguments["text"] == "a":
                    event.request.approve()
                else:
                    event.request.reject("not b")
    kinds = [type(event) for event in events if isinstance(event, (ApprovalRequested, ApprovalDecided, ToolEnded))]
    assert kinds[-2:] == [ToolEnded, ToolEnded]
    assert kinds.count(ApprovalRequested) == kinds.count(ApprovalDecided) == 2
    items = [event.run.result for event in events if isinstance(event, ToolEnded)]
    assert [each.is_error for each in items] == [False, True]
    assert "not b" in items[1].text


async def test_the_approver_of_the_policy_decides_an_approval_request() -> None:
    async def approver(request) -> bool:
        return request.call.arguments["text"] == "a"

    replies = (Reply(calls=(call("send", text="a"),)), Reply("done", expect="sent a"))
    with ScriptedProvider(*replies) as provider:
        await Agent(provider, tools=[send], policy=ToolPolicy(approver=approver)).run("?")


async def test_a_stream_closed_during_a_pending_approval_leaves_no_task_running() -> None:
    before = asyncio.all_tasks()
    events = Agent(ScriptedProvider(Reply(calls=(call("send", text="a"),))), tools=[send]).stream("?")
    async for event in events:
        if isinstance(event, ApprovalRequested):
            break
    await events.aclose()
    assert asyncio.all_tasks() == before


# Agents as tools


def helper(*replies: Reply, tools=(), model_middleware=(), **settings) -> Agent:
    named = AgentSettings(name="Helper", **settings)
    return Agent(ScriptedProvider(*replies), tools=tools, model_middleware=model_middleware, settings=named)


def ask(task: str = "What is it?", name: str = "ask_helper") -> Reply:
    return Reply(calls=(call(name, task=task),))


async def test_an_agent_is_a_tool_of_another_and_inherits_nothing_but_the_task() -> None:
    inner = helper(Reply("Forty-two."), system="You help.")
    with ScriptedProvider(ask("What is 6 * 7?"), Reply("It is 42.", expect="Forty-two")) as provider:
        history = InMemoryHistory()
        outer = Agent(provider, tools=[AgentTool(inner, description="Ask the helper.")], history=history)
        result = await outer.run("My secret is 7.", session="mine")
    request = inner._components.provider.requests[0]
    assert [message.text for message in request.messages] == ["What is 6 * 7?"]
    assert request.system == "You help."
    assert result.text == "It is 42."


async def test_sub_agent_tokens_and_calls_count_once_in_the_callers_usage_and_limits() -> None:
    inner = helper(Reply("x", usage=Usage(input=100, output=1)))
    outer = Agent(
        ScriptedProvider(ask(), Reply("done")),
        tools=[AgentTool(inner, description="")],
        settings=AgentSettings(limits=RunLimits(calls=3)),
    )
    result = await outer.run("?")
    assert (result.usage, result.calls) == (Usage(input=120, output=11), 3)
    below = helper(ask(name="add"), Reply("never"))
    above = Agent(
        ScriptedProvider(ask()),
        tools=[AgentTool(below, description="")],
        settings=AgentSettings(limits=RunLimits(calls=2)),
    )
    with pytest.raises(AgentError, match="2 calls"):
        await above.run("?")


async def test_sub_agent_events_are_nested_in_the_callers_stream_which_ends_once() -> None:
    inner = helper(Reply(calls=(call("add", a=1, b=2),)), Reply("three"), tools=[add])
    outer = Agent(
        ScriptedProvider(ask(), Reply("3")),
        tools=[AgentTool(inner, description="")],
        settings=AgentSettings(name="Boss"),
    )
    events = [event async for event in outer.stream("?")]
    inside = [event.inner for event in events if isinstance(event, SubAgentEvent)]
    assert any(isinstance(event, ToolStarted) for event in inside)
    assert "".join(event.text for event in inside if isinstance(event, TextDelta)) == "three"
    assert {event.agent for event in inside} == {"Helper"}
    assert [isinstance(event, RunEnded) for event in events].count(True) == 1
    assert not any(isinstance(event, RunEnded) for event in inside)


async def test_sub_agent_approval_requests_reach_the_callers_reader_or_approver() -> None:
    def agents(**options) -> Agent:
        inner = helper(Reply(calls=(call("send", text="a"),)), Reply("ok", expect="sent a"), tools=[send])
        return Agent(ScriptedProvider(ask(), Reply("done")), tools=[AgentTool(inner, description="")], **options)

    async for event in agents().stream("?"):
        if isinstance(event, ApprovalRequested):
            assert event.request.agent == "Helper"
            event.request.approve()
    with pytest.raises(ApprovalUnavailable, match=r"ask_helper\.send"):
        await agents().run("?")

    async def approver(request) -> ApprovalDecision | bool:
        return True

    await agents(policy=ToolPolicy(approver=approver)).run("?")


async def test_agents_do_not_call_each_other_in_a_circle_nor_too_deep() -> None:
    items: list[str] = []

    class Chatty:
        """Calls the first tool that it is given, and repeats what it heard."""

        async def stream(self, request):
            results = request.messages[-1].tool_results
            if results or not request.tools:
                items.append(results[0].text if results else "")
                yield TextPiece(results[0].text if results else "deep enough")
                yield StopPiece(StopReason.STOP)
            else:
                yield ToolCallPiece(0, "c", request.tools[0].name, '{"task": "go on"}')
                yield StopPiece(StopReason.TOOL_CALLS)

    back = Later()
    first = Agent(
        Chatty(),
        tools=[AgentTool(Agent(Chatty(), tools=[back], settings=AgentSettings(name="b")), description="")],
        settings=AgentSettings(name="a"),
    )
    back.inner = AgentTool(first, description="")
    async with asyncio.timeout(60):
        await first.run("go")
    assert any("already at work" in each for each in items)

    items.clear()
    last = Agent(Chatty(), settings=AgentSettings(name="d4"))
    for name in ("d3", "d2", "d1", "d0"):
        last = Agent(Chatty(), tools=[AgentTool(last, description="")], settings=AgentSettings(name=name))
    async with asyncio.timeout(60):
        await last.run("go")
    assert any("2 levels deep" in each for each in items)


class Later:
    """A tool that is known only later, so that a circle can be closed."""

    timeout = None
    inner: AgentTool
    spec = ToolSpec("ask_a", "", {"type": "object", "properties": {"task": {"type": "string"}}})

    async def call(self, arguments, context: ToolContext):
        return await self.inner.call(arguments, context)


async def test_the_callers_deadline_ends_a_sub_agent_run() -> None:
    inner = helper(Reply("late", before=outlasting))
    outer = Agent(
        ScriptedProvider(ask()), tools=[AgentTool(inner, description="")], settings=AgentSettings(deadline=DEADLINE)
    )
    with pytest.raises(AgentError) as caught:
        await outer.run("?")
    assert caught.value.result.ending is Ending.DEADLINE


@pytest.mark.parametrize(("own", "at_most"), [(None, 900), (9000, 900), (300, 300)])
async def test_a_sub_agent_deadline_is_the_earlier_of_its_own_and_the_callers(own, at_most: float) -> None:
    ends: list[float | None] = []

    async def noting(request, context: ToolContext, proceed):
        ends.append(context.deadline)
        async for delta in proceed(request):
            yield delta

    inner = helper(Reply("here"), deadline=own, model_middleware=[noting])
    outer = Agent(
        ScriptedProvider(ask(), Reply("done")),
        tools=[AgentTool(inner, description="")],
        settings=AgentSettings(deadline=900),
    )
    began = asyncio.get_running_loop().time()
    await outer.run("?")
    assert ends[0] is not None
    assert at_most <= ends[0] - began < at_most + 300


async def test_a_call_of_a_closed_sub_agent_is_reported_to_the_callers_model() -> None:
    inner = helper()
    await inner.aclose()
    with ScriptedProvider(ask(), Reply("Alone, then.", expect="closed")) as provider:
        await Agent(provider, tools=[AgentTool(inner, description="")]).run("?")


async def test_a_sub_agent_failure_is_reported_to_the_callers_model() -> None:
    inner = helper(Reply(error=OSError("down")))
    with ScriptedProvider(ask(), Reply("Without help, then.", expect="it found no answer")) as provider:
        assert (await Agent(provider, tools=[AgentTool(inner, description="")]).run("?")).ending is Ending.FINAL


def test_names_given_twice_and_agents_without_a_name_are_refused() -> None:
    each = AgentTool(helper(), description="")
    with pytest.raises(ArgumentError):
        Agent(ScriptedProvider(), tools=[each, AgentTool(helper(), description="")])
    with pytest.raises(ArgumentError, match="name"):
        AgentTool(Agent(ScriptedProvider()), description="")
    with pytest.raises(ArgumentError, match="agent"):
        AgentTool(ScriptedProvider(), description="")
    with pytest.raises(ArgumentError, match="max_depth"):
        AgentTool(helper(), description="", max_depth=0)
