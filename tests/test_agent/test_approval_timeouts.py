"""Pending approvals: their timeout, and their end when the stream, its task or its run ends.

Inner parts, on no face: ``tellback.agent.approval``, ``tellback.agent.events``.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest

from tellback.agent import Agent, AgentSettings, AgentTool, ApprovalRequested, Ending, RunEnded, ToolPolicy, tool
from tellback.agent.approval import ApprovalStatus
from tellback.agent.events import ApprovalDecided
from tellback.agent.testing import Reply, ScriptedProvider, call
from tests.support.passing_time import DEADLINE, HOURS, time_passes

pytestmark = pytest.mark.anyio


class Door:
    """A tool that needs approval; ``opened`` counts its calls."""

    def __init__(self) -> None:
        self.opened = 0

        @tool(needs_approval=True)
        def open_door() -> str:
            """Open the door."""
            self.opened += 1
            return "open"

        self.tool = open_door


def waiting(door: Door, memory=None, *, timeout: float | None = 60, **settings) -> Agent:
    provider = ScriptedProvider(Reply(calls=(call("open_door"),)), Reply("Done."))
    policy = ToolPolicy(approval_timeout=timeout)
    return Agent(provider, tools=[door.tool], memory=memory, policy=policy, settings=AgentSettings(**settings))


def test_the_default_approval_timeout_is_300_seconds() -> None:
    assert ToolPolicy().approval_timeout == 300


async def test_an_ignored_approval_request_times_out_and_the_run_goes_on() -> None:
    door = Door()
    async with asyncio.timeout(60):
        events = [event async for event in waiting(door, timeout=0.05).stream("Open it")]
    decided = next(event for event in events if isinstance(event, ApprovalDecided))
    assert decided.decision.status is ApprovalStatus.TIMED_OUT
    assert (events[-1].result.ending, door.opened) == (Ending.FINAL, 0)
    assert "nobody answered in time" in events[-1].result.tool_runs[0].result.text


async def test_closing_the_stream_ends_a_pending_approval_and_stores_nothing(memory) -> None:
    door, before = Door(), asyncio.all_tasks()
    async with (
        asyncio.timeout(60),
        aclosing(waiting(door, memory, timeout=None).stream("Open it", session="s")) as all_,
    ):
        async for event in all_:
            if isinstance(event, ApprovalRequested):
                break
    assert asyncio.all_tasks() == before
    event.request.approve()  # too late: the request has ended
    await asyncio.sleep(0)
    assert door.opened == 0
    assert await memory.conversations.load("s") == []


async def test_cancelling_the_task_ends_a_pending_approval_and_stores_nothing(memory) -> None:
    door, before, asked = Door(), asyncio.all_tasks(), asyncio.Event()

    async def read() -> None:
        async for event in waiting(door, memory, timeout=None).stream("Open it", session="s"):
            if isinstance(event, ApprovalRequested):
                asked.set()

    task = asyncio.create_task(read())
    async with asyncio.timeout(60):
        await asked.wait()
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()
    assert asyncio.all_tasks() == before
    assert (door.opened, await memory.conversations.load("s")) == (0, [])


async def test_the_deadline_of_the_run_ends_a_pending_approval() -> None:
    door = Door()
    async with asyncio.timeout(HOURS + 60):
        events = []
        async for event in waiting(door, timeout=None, deadline=DEADLINE).stream("Open it"):
            events.append(event)
            if isinstance(event, ApprovalRequested):
                time_passes()
    assert isinstance(events[-1], RunEnded)
    assert (events[-1].result.ending, door.opened) == (Ending.DEADLINE, 0)


async def test_closing_the_callers_stream_ends_a_pending_approval_of_a_sub_agent() -> None:
    door, before = Door(), asyncio.all_tasks()
    inner = ScriptedProvider(Reply(calls=(call("open_door"),)))
    helper = AgentTool(
        Agent(inner, tools=[door.tool], settings=AgentSettings(name="helper")), description="Open doors."
    )
    outer = Agent(ScriptedProvider(Reply(calls=(call("ask_helper", task="Open it"),))), tools=[helper])
    async with asyncio.timeout(60), aclosing(outer.stream("Open it")) as events:
        async for event in events:
            if isinstance(event, ApprovalRequested):
                break
    assert asyncio.all_tasks() == before
    assert door.opened == 0
