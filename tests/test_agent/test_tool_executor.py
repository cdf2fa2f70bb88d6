"""Dispatch: concurrent calls, results in order, failures as results, nothing left running.

Inner parts, on no face: ``tellback.agent.tool_executor``, ``tellback.agent.tools.base``.
"""

from __future__ import annotations

import asyncio
import threading

import pytest

from tellback.agent import ArgumentError, StopRun, ToolContext, ToolFailed, tool
from tellback.agent.testing import call
from tellback.agent.tool_executor import ToolExecutor
from tellback.agent.tools.base import Toolset
from tellback.memory import ToolCallBlock

pytestmark = pytest.mark.anyio


@tool
async def echo(text: str, pause: float = 0) -> str:
    """Say it back."""
    await asyncio.sleep(pause)
    return text


@tool
async def fail(how: str) -> str:
    """Fail."""
    match how:
        case "told":
            raise ToolFailed("no such city; try Lisbon")
        case "stop":
            raise StopRun("the user has left")
        case "cancelled":
            raise asyncio.CancelledError
        case "timeout":
            raise TimeoutError("upstream")
        case _:
            raise ValueError("broken inside")


async def run(*calls: ToolCallBlock, tools=(echo, fail), **options):
    return await ToolExecutor(Toolset(tools), **options).run(calls, ToolContext())


async def test_calls_run_together_and_answer_in_their_order() -> None:
    barrier = asyncio.Barrier(3)

    @tool
    async def meet(name: str) -> str:
        """Wait for the others."""
        await barrier.wait()
        return name

    names = ["a", "b", "c"]
    async with asyncio.timeout(60):
        dispatched = await run(*(call("meet", name=name) for name in names), tools=[meet])
    assert [item.result.text for item in dispatched.runs] == names


async def test_a_fast_tool_call_does_not_overtake_a_slow_one_in_the_results() -> None:
    calls = (call("echo", text="slow", pause=0.03), call("echo", text="fast"))
    dispatched = await run(*calls)
    assert [item.result.text for item in dispatched.runs] == ["slow", "fast"]
    assert [item.result.call_id for item in dispatched.runs] == [item.id for item in calls]


async def test_no_more_tool_calls_run_concurrently_than_the_parallel_limit() -> None:
    running, most = 0, 0

    @tool
    async def count() -> str:
        """Count."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.005)
        running -= 1
        return "x"

    await run(*(call("count") for _ in range(7)), tools=[count], parallel=3)
    assert most == 3


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("told", "no such city; try Lisbon"),
        ("broken", "the tool failed: ValueError: broken inside"),
        ("cancelled", "the tool cancelled itself"),
        ("timeout", "the tool failed: TimeoutError: upstream"),
    ],
)
async def test_a_failing_tool_call_is_an_error_result_and_its_siblings_go_on(how: str, told: str) -> None:
    dispatched = await run(call("fail", how=how), call("echo", text="fine", pause=0.01))
    assert [(item.result.text, item.result.is_error) for item in dispatched.runs] == [(told, True), ("fine", False)]
    assert dispatched.stop is None


async def test_a_call_of_an_unknown_tool_is_an_error_result_with_the_known_tools() -> None:
    dispatched = await run(call("ehco", text="x"))
    assert dispatched.runs[0].result.text == "there is no tool 'ehco'; there are: echo, fail"
    assert dispatched.runs[0].result.is_error


async def test_a_call_with_invalid_json_arguments_is_an_error_result_that_quotes_them() -> None:
    dispatched = await run(ToolCallBlock(id="c", name="echo", invalid='{"text": '))
    assert '{"text": ' in dispatched.runs[0].result.text
    assert dispatched.runs[0].result.is_error


async def test_a_stop_run_of_one_tool_call_lets_its_siblings_finish() -> None:
    dispatched = await run(call("fail", how="stop"), call("echo", text="fine", pause=0.01))
    assert str(dispatched.stop) == "the user has left"
    assert dispatched.runs[1].result.text == "fine"


async def test_a_tool_call_over_the_timeout_is_an_error_result() -> None:
    dispatched = await run(call("echo", text="x", pause=60), call("echo", text="y"), timeout=0.3)
    assert "no answer within 0.3 s" in dispatched.runs[0].result.text
    assert dispatched.runs[1].result.text == "y"


async def test_the_timeout_of_a_tool_overrides_the_default_timeout() -> None:
    @tool(timeout=0.01)
    async def slow() -> str:
        """Wait."""
        await asyncio.sleep(60)
        return "never"

    dispatched = await run(call("slow"), tools=[slow], timeout=60)
    assert "0.01 s" in dispatched.runs[0].result.text


async def test_a_function_tool_hanging_in_its_thread_is_not_awaited_after_its_timeout() -> None:
    let_go = threading.Event()

    @tool(timeout=0.02)
    def hang() -> str:
        """Hang."""
        let_go.wait(600)
        return "late"

    async with asyncio.timeout(60):
        dispatched = await run(call("hang"), tools=[hang])
    let_go.set()
    assert dispatched.runs[0].result.is_error


async def test_a_system_exit_in_a_tool_thread_is_an_error_result() -> None:
    @tool
    def leave() -> str:
        """Leave."""
        raise SystemExit(3)

    dispatched = await run(call("leave"), tools=[leave])
    assert "SystemExit" in dispatched.runs[0].result.text


async def test_cancelled_dispatch_leaves_no_tool_running() -> None:
    started, ended, before = asyncio.Event(), [], asyncio.all_tasks()

    @tool
    async def wait(name: str) -> str:
        """Wait."""
        try:
            started.set()
            await asyncio.sleep(60)
        finally:
            ended.append(name)
        return "never"

    task = asyncio.create_task(run(call("wait", name="a"), call("wait", name="b"), tools=[wait]))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["a", "b"]
    assert asyncio.all_tasks() == before


async def test_a_tool_can_read_the_call_that_it_serves() -> None:
    @tool
    def which(context: ToolContext) -> str:
        """Tell the call."""
        return context.call_id

    asked = call("which")
    assert (await run(asked, tools=[which])).runs[0].result.text == asked.id


@pytest.mark.parametrize("options", [{"parallel": 0}, {"parallel": True}, {"timeout": 0}, {"timeout": float("nan")}])
async def test_invalid_limits_are_refused(options: dict) -> None:
    with pytest.raises(ArgumentError):
        ToolExecutor(Toolset(), **options)
