"""Cancelled at every single await of a run, over real HTTP: nothing half-stored, nothing left running or open.

A run is driven by hand: at its n-th suspension its own task is cancelled, for each n until it comes to its end.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Generator
from typing import Any

import pytest

from tellback.agent import (
    Agent,
    AgentSettings,
    AgentTool,
    AnthropicProvider,
    OpenAICompatibleProvider,
    ToolPolicy,
    tool,
)
from tellback.agent.testing import AnthropicServer, OpenAIServer, Reply, ScriptedProvider, ScriptedServer, call
from tellback.memory import open_memory
from tellback.memory.http import HttpClient
from tests.support.slow import first_fast

pytestmark = pytest.mark.anyio
WHOLE = ["user", "assistant", "tool", "assistant"]


class CancelledAt:
    """Drives a coroutine and cancels the task that awaits it at its *place*-th suspension."""

    def __init__(self, work: Coroutine[Any, Any, object], place: int) -> None:
        self._work, self._place = work, place
        self.suspensions = 0

    def __await__(self) -> Generator[Any, Any, object]:
        driven = self._work.__await__()
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                waited = driven.throw(error) if error is not None else driven.send(value)
            except StopIteration as end:
                return end.value
            value, error = None, None
            self.suspensions += 1
            if self.suspensions == self._place:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                value = yield waited
            except BaseException as raised:
                error = raised


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(needs_approval=True)
async def send(text: str) -> str:
    """Send it."""
    await asyncio.sleep(0)
    return f"sent {text}"


async def approver(request) -> bool:
    await asyncio.sleep(0)
    return True


FORMATS = {
    "openai": (OpenAIServer, lambda url, client: OpenAICompatibleProvider(url, "m", client=client)),
    "anthropic": (AnthropicServer, lambda url, client: AnthropicProvider("m", base_url=url, client=client)),
}


def replies() -> tuple[Reply, ...]:
    calls = (call("add", a=1, b=2), call("send", text="x"), call("ask_helper", task="help"))
    return Reply("Hm", calls=calls, piece=1), Reply("Three.", piece=2)


@pytest.mark.slow
@pytest.mark.parametrize("name", first_fast(FORMATS))
async def test_a_run_cancelled_at_every_await_stores_no_partial_turn_and_leaks_nothing(name: str, tmp_path) -> None:
    server_type, make = FORMATS[name]
    outcomes: set[tuple[bool, int]] = set()
    async with open_memory(tmp_path / "m.db") as memory:
        before = asyncio.all_tasks()
        for place in range(1, 2000):
            with server_type(*replies()) as server:
                async with HttpClient(retries=0) as client:
                    helper = Agent(ScriptedProvider(Reply("helped")), settings=AgentSettings(name="helper"))
                    agent = Agent(
                        make(server.url, client),
                        tools=[add, send, AgentTool(helper, description="")],
                        memory=memory,
                        policy=ToolPolicy(approver=approver),
                    )
                    session = f"s{place}"
                    driven = CancelledAt(agent.run("1+2?", session=session), place)
                    task = asyncio.ensure_future(awaited(driven))
                    await asyncio.wait([task])
                    assert await still_running(before) == set(), place
                    assert agent.unsaved == 0
                    kept = [item.message.role for item in await memory.conversations.load(session)]
                    assert kept in ([], WHOLE), place
                await connections_gone(server)
            outcomes.add((task.cancelled(), len(kept)))
            if driven.suspensions < place:
                break
            assert task.cancelled(), place
        else:
            raise AssertionError("the run never came to its end")
    assert (True, 0) in outcomes
    assert (False, 4) in outcomes
    assert place > 20
    left = [thread for thread in threading.enumerate() if thread.name == "tellback-tool"]
    for thread in left:  # a cancelled run does not await its tool threads; they end by themselves
        thread.join(60)
    assert not any(thread.is_alive() for thread in left)


async def awaited(driven: CancelledAt) -> object:
    return await driven


async def still_running(before: set[asyncio.Task]) -> set[asyncio.Task]:
    """Return the tasks that are left. httpx leaves the closing of its inner generators to the loop's next turns."""
    for _ in range(30):
        await asyncio.sleep(0)
    return asyncio.all_tasks() - before


async def connections_gone(server: ScriptedServer) -> None:
    """Wait until the server sees that no connection is open any more."""
    async with asyncio.timeout(60):
        await asyncio.to_thread(server.left.wait)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
async def test_a_stream_closed_at_any_event_frees_its_connection_and_stores_no_partial_turn(
    name: str, tmp_path
) -> None:
    server_type, make = FORMATS[name]
    async with open_memory(tmp_path / "m.db") as memory, HttpClient(retries=0) as client:
        before = asyncio.all_tasks()
        for place in range(1, 60):
            with server_type(*replies()) as server:
                helper = Agent(ScriptedProvider(Reply("helped")), settings=AgentSettings(name="helper"))
                tools = [add, send, AgentTool(helper, description="")]
                policy = ToolPolicy(approver=approver)
                agent = Agent(make(server.url, client), tools=tools, memory=memory, policy=policy)
                events = agent.stream("1+2?", session=f"s{place}")
                seen = 0
                async for _ in events:
                    seen += 1
                    if seen == place:
                        break
                await events.aclose()
                assert await still_running(before) == set(), place
                kept = [item.message.role for item in await memory.conversations.load(f"s{place}")]
                assert kept in ([], WHOLE), place
                await connections_gone(server)
            if seen < place:
                break
        else:
            raise AssertionError("the run never came to its end")
    assert place > 10
