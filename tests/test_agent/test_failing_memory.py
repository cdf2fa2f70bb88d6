"""A memory that fails: the run goes on without it and says so, or raises, by setting; and no turn is lost.

Inner parts, on no face: ``tellback.agent.errors``.
"""

from __future__ import annotations

import pytest

from tellback.agent import (
    Agent,
    AgentSettings,
    Ending,
    MemoryRecalled,
    MemoryStored,
    MemoryUnavailable,
    RunEnded,
    TextDelta,
    WarningIssued,
    tool,
)
from tellback.agent.errors import IterationCap
from tellback.agent.testing import Reply, ScriptedProvider, call, shown_items
from tellback.memory import InMemoryHistory, LongTermMemory, Memory, Message
from tellback.vectorstore import BusyError, StorageFull, open_store

pytestmark = pytest.mark.anyio

READS = {
    "recall": ("recall", "it was asked about"),
    "profile": ("pinned", "I am allergic to peanuts."),
    "history": ("load", "We spoke before."),
}


@pytest.fixture
async def memory():
    opened = LongTermMemory(open_store("numpy:"))
    await opened.remember("The shed, it was asked about, is green.")
    await opened.remember(Memory(text="I am allergic to peanuts.", pinned=True))
    await opened.conversations.append("s", [Message.user("We spoke before."), Message.assistant("Indeed.")])
    yield opened
    await opened.close()


class Failing:
    """A memory whose named methods fail while *failing* holds their names; the others are those of *inner*."""

    def __init__(self, inner: object, *names: str, error: Exception | None = None) -> None:
        self._inner, self.failing = inner, set(names)
        self._error = error or BusyError("the file is busy")

    def __getattr__(self, name: str):
        if name == "conversations":
            return Failing(self._inner.conversations, *self.failing, error=self._error)
        if name in self.failing:

            async def fail(*args, **options):
                raise self._error

            return fail
        return getattr(self._inner, name)


async def texts(memory: LongTermMemory, session: str = "s") -> list[str]:
    return [stored.message.text for stored in await memory.conversations.load(session)]


@pytest.mark.parametrize("part", READS)
async def test_a_failing_memory_read_gives_a_warning_and_keeps_the_results_of_the_other_reads(
    memory, part: str
) -> None:
    method, missing = READS[part]
    with ScriptedProvider(Reply("Hello")) as provider:
        agent = Agent(provider, memory=Failing(memory, method))
        events = [event async for event in agent.stream("Which colour has the shed?", session="s")]
    result = events[-1].result
    assert (result.ending, result.text) == (Ending.FINAL, "Hello")
    (warning,) = [event.text for event in events if isinstance(event, WarningIssued)]
    assert result.warnings == (warning,)
    assert "answered without" in warning
    assert "the file is busy" in warning
    request = provider.requests[0]
    shown = "\n".join([*(item.text for item in shown_items(request)), *(message.text for message in request.messages)])
    for words in (words for _, words in READS.values()):
        assert (words in shown) is (words != missing)
    assert any(isinstance(event, MemoryRecalled) for event in events)
    assert (await texts(memory))[-2:] == ["Which colour has the shed?", "Hello"]


@pytest.mark.parametrize("part", READS)
async def test_each_failing_memory_read_raises_with_on_memory_error_raise(memory, part: str) -> None:
    before = await texts(memory)
    with ScriptedProvider() as provider:
        agent = Agent(provider, memory=Failing(memory, READS[part][0]), settings=AgentSettings(on_memory_error="raise"))
        with pytest.raises(MemoryUnavailable, match="the file is busy") as caught:
            await agent.run("Which colour has the shed?", session="s")
    assert caught.value.result.ending is Ending.MEMORY_ERROR
    assert isinstance(caught.value.__cause__, BusyError)
    assert provider.requests == []
    assert await texts(memory) == before


async def test_a_run_is_answered_while_all_memory_calls_fail(memory) -> None:
    broken = Failing(memory, "recall", "pinned", "load", "remember_turn")
    with ScriptedProvider(Reply("Hello")) as provider:
        agent = Agent(provider, memory=broken)
        result = await agent.run("Hello", session="s")
    assert (result.text, len(result.warnings), agent.unsaved) == ("Hello", 4, 1)


@pytest.mark.parametrize("error", [BusyError("the file is busy"), StorageFull("the disk is full"), OSError("gone")])
async def test_a_failing_turn_write_gives_a_warning_and_is_stored_with_the_next_turn(memory, error: Exception) -> None:
    broken = Failing(memory, "remember_turn", error=error)
    with ScriptedProvider(Reply("One"), Reply("Two")) as provider:
        agent = Agent(provider, memory=broken)
        events = [event async for event in agent.stream("First", session="s")]
        assert not any(isinstance(event, MemoryStored) for event in events)
        assert str(error) in events[-1].result.warnings[0]
        assert agent.unsaved == 1
        broken.failing.clear()
        await agent.run("Second", session="s")
    assert agent.unsaved == 0
    assert (await texts(memory))[2:] == ["First", "One", "Second", "Two"]


async def test_with_on_memory_error_raise_a_failing_turn_write_raises_and_is_retried_later(
    memory,
) -> None:
    broken = Failing(memory, "remember_turn")
    with ScriptedProvider(Reply("One"), Reply("Two")) as provider:
        agent = Agent(provider, memory=broken, settings=AgentSettings(on_memory_error="raise"))
        with pytest.raises(MemoryUnavailable, match="not stored yet: the file is busy") as caught:
            await agent.run("First", session="s")
        result = caught.value.result
        assert (result.text, result.ending, result.stored) == ("One", Ending.MEMORY_ERROR, ())
        assert agent.unsaved == 1
        broken.failing.clear()
        assert (await agent.run("Second", session="s")).text == "Two"
    assert (await texts(memory))[2:] == ["First", "One", "Second", "Two"]


async def test_a_failing_turn_write_is_the_error_of_the_one_terminal_stream_event(memory) -> None:
    with ScriptedProvider(Reply("One")) as provider:
        agent = Agent(
            provider, memory=Failing(memory, "remember_turn"), settings=AgentSettings(on_memory_error="raise")
        )
        events = [event async for event in agent.stream("First")]
    assert [type(event) for event in events].count(RunEnded) == 1
    assert isinstance(events[-1].error, MemoryUnavailable)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "One"


async def test_a_run_error_is_not_replaced_by_a_failing_turn_write(memory) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    with ScriptedProvider(Reply("Hm", calls=(call("look"),))) as provider:
        broken = Failing(memory, "remember_turn")
        agent = Agent(
            provider, memory=broken, tools=[look], settings=AgentSettings(max_rounds=1, on_memory_error="raise")
        )
        with pytest.raises(IterationCap) as caught:
            await agent.run("First")
    assert "not stored yet" in caught.value.result.warnings[0]
    assert agent.unsaved == 1


async def test_unsaved_turns_survive_a_failed_close_and_are_stored_in_order_by_the_next(memory) -> None:
    broken = Failing(memory, "remember_turn")
    with ScriptedProvider(*(Reply(f"A{n}") for n in range(4))) as provider:
        agent = Agent(provider, memory=broken, settings=AgentSettings(close_provider=False))
        for number in range(4):
            await agent.run(f"Q{number}", session="s")
        assert agent.unsaved == 4
        with pytest.raises(BusyError):
            await agent.aclose()
        assert (agent.unsaved, len(await texts(memory))) == (4, 2)
        broken.failing.clear()
        await agent.aclose()
    assert (await texts(memory))[2:] == ["Q0", "A0", "Q1", "A1", "Q2", "A2", "Q3", "A3"]


async def test_unsaved_turns_are_stored_in_order_on_closing(memory) -> None:
    broken = Failing(memory, "remember_turn")
    with ScriptedProvider(*(Reply(f"A{n}") for n in range(3))) as provider:
        agent = Agent(provider, memory=broken)
        for number in range(3):
            await agent.run(f"Q{number}", session="s")
        broken.failing.clear()
        await agent.aclose()
    assert (await texts(memory))[2:] == ["Q0", "A0", "Q1", "A1", "Q2", "A2"]


async def test_a_turn_that_can_never_be_stored_gives_a_warning_and_does_not_block_others(memory) -> None:
    with ScriptedProvider(Reply("One"), Reply("Two")) as provider:
        agent = Agent(provider, memory=memory)
        first = await agent.run("First", session="x" * 2000)
        assert "cannot be stored" in first.warnings[-1]
        assert agent.unsaved == 0
        assert (await agent.run("Second", session="s")).warnings == ()
    assert (await texts(memory))[2:] == ["Second", "Two"]


async def test_a_failing_history_without_memory_gives_a_warning_or_raises_by_setting() -> None:
    history = InMemoryHistory()
    for method in ("load", "append"):
        with ScriptedProvider(Reply("One")) as provider:
            result = await Agent(provider, history=Failing(history, method)).run("First", session="s")
        assert len(result.warnings) == 1
        with ScriptedProvider(*([Reply("One")] if method == "append" else [])) as provider:
            agent = Agent(provider, history=Failing(history, method), settings=AgentSettings(on_memory_error="raise"))
            with pytest.raises(MemoryUnavailable):
                await agent.run("First", session="s")
