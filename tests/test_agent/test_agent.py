"""The agent: memory read before the loop and written after it, and endings that keep or leave the turn.

Inner parts, on no face: ``tellback.agent.configuration``, ``tellback.agent.errors``.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import UTC, datetime

import pytest

from tellback.agent import (
    Agent,
    AgentError,
    AgentSettings,
    ArgumentError,
    DeadlinePassed,
    Ending,
    MemoryRecalled,
    MemoryStored,
    MemoryUnavailable,
    ProviderError,
    ProviderFailed,
    QuotingProvider,
    RunEnded,
    StopReason,
    StopRun,
    TextDelta,
    Usage,
    WarningIssued,
    tool,
)
from tellback.agent.configuration import new_session_id
from tellback.agent.errors import EmptyReply, IterationCap, RunAborted
from tellback.agent.testing import Reply, ScriptedProvider, call
from tellback.memory import (
    DocumentBlock,
    ImageBlock,
    InMemoryHistory,
    KnowledgeBase,
    LongTermMemory,
    Memory,
    Passage,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from tellback.vectorstore import BusyError
from tests.support.documents import FixedDocuments
from tests.support.passing_time import DEADLINE, outlasting

pytestmark = pytest.mark.anyio

NOW = datetime(2026, 5, 3, 10, 30, tzinfo=UTC)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def leave() -> str:
    """End the run."""
    raise StopRun("enough")


async def texts(memory: LongTermMemory, session: str) -> list[tuple[str, str]]:
    return [(item.message.role, item.message.text) for item in await memory.conversations.load(session)]


async def remembered(memory: LongTermMemory) -> list[str]:
    return [item.text for item in await memory.list()]


class Failing:
    """A memory whose named methods fail; the others are those of *memory*."""

    def __init__(self, memory: LongTermMemory, *names: str) -> None:
        self._memory = memory
        self.failing = set(names)

    def __getattr__(self, name: str):
        if name in self.failing:

            async def fail(*args, **options):
                raise BusyError("the file is busy")

            return fail
        return getattr(self._memory, name)


async def test_a_turn_is_stored_and_recalled_by_the_next_run(memory) -> None:
    async with Agent(QuotingProvider(), memory=memory) as agent:
        run = await agent.run("The spare key of the shed lies under the blue pot.")
        found = await agent.run("Where is the spare key of the shed?")
    assert "blue pot" in run.text
    assert found.text == "“The spare key of the shed lies under the blue pot.” [1]"
    assert found.citations[0].id == run.stored[0].id


async def test_a_repeated_question_is_answered_from_the_statement_and_never_quotes_itself(memory) -> None:
    async with Agent(QuotingProvider(), memory=memory) as agent:
        await agent.run("The spare key of the shed lies under the blue pot.")
        for _ in range(3):
            result = await agent.run("Where is the spare key of the shed?")
            assert [citation.quote for citation in result.citations] == [
                "The spare key of the shed lies under the blue pot."
            ]


async def test_a_quoting_answer_is_stored_as_memory_ids_and_spans_and_rendered_from_them(memory) -> None:
    async with Agent(QuotingProvider(), memory=memory) as agent:
        run = await agent.run("The spare key of the shed lies under the blue pot.", session="s")
        await agent.run("Where is the spare key of the shed?", session="s")
    stored = await memory.conversations.load("s")
    assert stored[3].message.blocks == ()
    assert stored[3].message.metadata["quotes"] == [{"id": run.stored[0].id, "start": 0, "end": 50}]
    assert len(await remembered(memory)) == 2
    with ScriptedProvider(Reply("fine")) as provider:
        await Agent(provider, memory=memory).run("And the house?", session="s")
    window = provider.requests[0].messages
    assert [message.role for message in window] == ["user", "assistant", "user", "assistant", "user"]
    assert window[1].text == "(noted)"
    assert window[3].text == "“The spare key of the shed lies under the blue pot.”"


async def test_a_forgotten_memory_also_leaves_the_context_window(memory) -> None:
    async with Agent(QuotingProvider(), memory=memory) as agent:
        run = await agent.run("The spare key of the shed lies under the blue pot.", session="s")
        await agent.run("Where is the spare key of the shed?", session="s")
    await memory.forget([run.stored[0].id])
    with ScriptedProvider(Reply("fine")) as provider:
        await Agent(provider, memory=memory).run("And now?", session="s")
    shown = "\n".join(message.text for message in provider.requests[0].messages)
    assert "pot" not in shown


async def test_recalled_memories_are_sent_with_the_prompt_and_the_prompt_is_stored_without_them(memory) -> None:
    await memory.remember(Memory(text="The garden party begins at seven.", speaker="Ana"))
    with ScriptedProvider(Reply("At seven [1].", expect="The garden party begins at seven.")) as provider:
        result = await Agent(provider, memory=memory).run("When does the garden party begin?", session="s")
    assert await texts(memory, "s") == [("user", "When does the garden party begin?"), ("assistant", "At seven [1].")]
    assert [citation.quote for citation in result.citations] == ["The garden party begins at seven."]
    assert provider.requests[0].grounding.items[0].speaker == "Ana"
    assert provider.requests[0].grounding.question == "When does the garden party begin?"


async def test_pinned_memories_precede_the_prompt_and_expired_ones_are_left_out(memory) -> None:
    await memory.remember(Memory(text="My name is Ana.", pinned=True))
    await memory.remember(Memory(text="Old address", pinned=True, expires_at=datetime(2020, 1, 1, tzinfo=UTC)))
    with ScriptedProvider(Reply("Hello")) as provider:
        await Agent(provider, memory=memory).run("xyzzy")
    first = provider.requests[0].messages[0].blocks[0]
    assert "My name is Ana." in first.text
    assert "Old address" not in first.text


async def test_a_run_in_an_existing_session_sees_its_history(memory) -> None:
    with ScriptedProvider(Reply("Hello Ana"), Reply("Ana")) as provider:
        agent = Agent(provider, memory=memory)
        first = await agent.run("I am Ana.")
        await agent.run("Who am I?", session=first.session)
    shown = provider.requests[1].messages
    assert [message.role for message in shown] == ["user", "assistant", "user"]
    assert shown[0].text == "I am Ana."


async def test_another_session_shows_no_history_but_recalls(memory) -> None:
    with ScriptedProvider(Reply("Noted"), Reply("Rex")) as provider:
        agent = Agent(provider, memory=memory)
        await agent.run("My dog is called Rex.")
        await agent.run("How is my dog called?")
    assert len(provider.requests[1].messages) == 1
    assert any("Rex" in item.text for item in provider.requests[1].grounding.items)


async def test_namespaces_do_not_see_each_other(memory) -> None:
    await Agent(QuotingProvider(), memory=memory, namespace="ana").run("My dog is called Rex.")
    other = await Agent(QuotingProvider(), memory=memory, namespace="ben").run("How is my dog called?")
    assert other.citations == ()


async def test_a_run_with_store_false_stores_neither_messages_nor_memories(memory) -> None:
    result = await Agent(QuotingProvider(), memory=memory).run("My dog is called Rex.", session="s", store=False)
    assert (await texts(memory, "s"), await remembered(memory), result.stored) == ([], [], ())
    assert "Noted" not in result.text


async def test_thinking_is_not_kept(memory) -> None:
    with ScriptedProvider(Reply("Four.", thinking="two and two", signature="x")) as provider:
        result = await Agent(provider, memory=memory).run("2+2", session="s")
    stored = await memory.conversations.load("s")
    assert [type(block) for block in stored[1].message.blocks] == [TextBlock]
    assert isinstance(result.messages[1].blocks[0], ThinkingBlock)


@pytest.mark.parametrize(
    ("trace", "roles"),
    [(True, ["user", "assistant", "tool", "assistant"]), (False, ["user", "assistant"])],
)
async def test_tool_calls_and_results_are_stored_only_with_the_trace_setting(
    memory, trace: bool, roles: list[str]
) -> None:
    with ScriptedProvider(Reply("Let me add.", calls=(call("add", a=1, b=2),)), Reply("3")) as provider:
        await Agent(provider, tools=[add], memory=memory, settings=AgentSettings(trace=trace)).run("1+2?", session="s")
    stored = await memory.conversations.load("s")
    assert [item.message.role for item in stored] == roles
    assert stored[-1].message.text == "3"


@pytest.mark.parametrize("trace", [True, False])
async def test_a_turn_that_reached_the_round_cap_is_stored_without_dangling_calls(memory, trace: bool) -> None:
    with ScriptedProvider(Reply("Still adding.", calls=(call("add", a=1, b=2),))) as provider:
        agent = Agent(provider, tools=[add], memory=memory, settings=AgentSettings(max_rounds=1, trace=trace))
        with pytest.raises(IterationCap) as caught:
            await agent.run("1+2?", session="s")
    assert caught.value.result.text == "Still adding."
    stored = await memory.conversations.load("s")
    assert stored[0].message.text == "1+2?"
    assert stored[1].message.text == "Still adding."
    assert [item.message.role for item in stored] == (["user", "assistant", "tool"] if trace else ["user", "assistant"])
    assert bool(stored[1].message.tool_calls) is trace, "without the trace no call may stand there without its result"


ENDINGS = [
    (Reply("x", stop=StopReason.MAX_TOKENS), Ending.TOKEN_LIMIT, None),
    (Reply("x", stop=StopReason.REFUSAL), Ending.REFUSAL, None),
    (Reply("x", stop=StopReason.CONTENT_FILTER), Ending.CONTENT_FILTER, None),
    (Reply(""), Ending.EMPTY_REPLY, EmptyReply),
    (Reply("x", error=ProviderError("overloaded", status=529, retry_after=3)), Ending.PROVIDER_ERROR, ProviderFailed),
    (Reply("x", calls=(ToolCallBlock(id="c", name="leave"),)), Ending.STOPPED, RunAborted),
    (Reply("x", before=outlasting), Ending.DEADLINE, DeadlinePassed),
]


@pytest.mark.parametrize(("reply", "ending", "error"), ENDINGS)
async def test_each_ending_is_returned_or_raised_with_the_same_result(memory, reply, ending, error) -> None:
    agent = Agent(
        ScriptedProvider(reply), tools=[leave], memory=memory, settings=AgentSettings(nudges=0, deadline=DEADLINE)
    )
    if error is None:
        result = await agent.run("Go on", session="s")
    else:
        with pytest.raises(error) as caught:
            await agent.run("Go on", session="s")
        result = caught.value.result
    assert result.ending is ending
    assert bool(await texts(memory, "s")) is ending.is_stored


@pytest.mark.parametrize(("reply", "ending", "error"), ENDINGS)
async def test_a_stream_ends_in_one_terminal_event_and_raises_nothing(memory, reply, ending, error) -> None:
    agent = Agent(
        ScriptedProvider(reply), tools=[leave], memory=memory, settings=AgentSettings(nudges=0, deadline=DEADLINE)
    )
    events = [event async for event in agent.stream("Go on")]
    assert [isinstance(event, RunEnded) for event in events] == [False] * (len(events) - 1) + [True]
    assert events[-1].result.ending is ending
    assert type(events[-1].error) is (error or type(None))


async def test_a_failed_provider_is_a_provider_error_with_its_data() -> None:
    agent = Agent(ScriptedProvider(Reply(error=ProviderError("overloaded", status=529, retry_after=3))))
    with pytest.raises(ProviderError) as caught:
        await agent.run("Hello")
    assert (caught.value.status, caught.value.retry_after) == (529, 3)
    assert "overloaded" in str(caught.value)


async def test_a_failing_recall_gives_a_warning_and_the_run_answers_without_memory(memory) -> None:
    broken = Failing(memory, "recall", "list")
    with ScriptedProvider(Reply("Hello")) as provider:
        events = [event async for event in Agent(provider, memory=broken).stream("Hello", session="s")]
    result = events[-1].result
    assert (result.ending, result.text) == (Ending.FINAL, "Hello")
    assert any("the file is busy" in event.text for event in events if isinstance(event, WarningIssued))
    assert "answered without" in result.warnings[0]
    assert await texts(memory, "s") == [("user", "Hello"), ("assistant", "Hello")]


async def test_a_failing_recall_raises_with_on_memory_error_raise(memory) -> None:
    with ScriptedProvider() as provider:
        agent = Agent(provider, memory=Failing(memory, "recall"), settings=AgentSettings(on_memory_error="raise"))
        with pytest.raises(MemoryUnavailable, match="busy"):
            await agent.run("Hello")


async def test_a_turn_that_cannot_be_stored_is_stored_with_the_next_turn(memory) -> None:
    broken = Failing(memory, "remember_turn")
    with ScriptedProvider(Reply("One"), Reply("Two")) as provider:
        agent = Agent(provider, memory=broken)
        first = await agent.run("First", session="s")
        assert (first.text, first.stored, agent.unsaved) == ("One", (), 1)
        assert "not stored yet" in first.warnings[0]
        broken.failing.clear()
        second = await agent.run("Second", session="s")
    assert (agent.unsaved, len(second.stored), second.warnings) == (0, 2, ())
    assert [text for _, text in await texts(memory, "s")] == ["First", "One", "Second", "Two"]


async def test_closing_the_agent_stores_unsaved_turns_and_closes_the_provider_once(memory) -> None:
    class Closing(ScriptedProvider):
        closed = 0

        async def aclose(self) -> None:
            self.closed += 1

    broken = Failing(memory, "remember_turn")
    provider = Closing(Reply("One"))
    agent = Agent(provider, memory=broken, settings=AgentSettings(close_provider=True))
    await agent.run("First", session="s")
    broken.failing.clear()
    await agent.aclose()
    await agent.aclose()
    assert provider.closed == 1
    assert len(await texts(memory, "s")) == 2
    with pytest.raises(AgentError, match="closed"):
        await agent.run("Again")


async def test_the_stream_has_events_of_recalled_items_and_stored_reports(memory) -> None:
    await memory.remember("The garden party begins at seven.")
    agent = Agent(QuotingProvider(), memory=memory, settings=AgentSettings(name="tellback"))
    events = [event async for event in agent.stream("When does the garden party begin?")]
    recalled = next(event for event in events if isinstance(event, MemoryRecalled))
    stored = next(event for event in events if isinstance(event, MemoryStored))
    assert [item.text for item in recalled.items] == ["The garden party begins at seven."]
    assert len(stored.reports) == 2
    assert {event.agent for event in events} == {"tellback"}
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == events[-1].result.text


async def test_a_stream_cancelled_at_any_event_stores_nothing_or_the_whole_turn(memory) -> None:
    replies = (Reply("Hm", calls=(call("add", a=1, b=2),), piece=1), Reply("Three.", piece=1))
    total = len([event async for event in Agent(ScriptedProvider(*replies), tools=[add]).stream("1+2?")])
    before, outcomes = asyncio.all_tasks(), set()
    for place in range(total + 2):
        for ticks in (0, 1, 2, 5):
            session, reached = f"s{place}-{ticks}", asyncio.Event()
            agent = Agent(ScriptedProvider(*replies), tools=[add], memory=memory)

            async def read(agent=agent, session=session, place=place, reached=reached) -> None:
                async with aclosing(agent.stream("1+2?", session=session)) as events:
                    number = 0
                    async for _ in events:
                        number += 1
                        if number == place:
                            reached.set()
                reached.set()

            task = asyncio.create_task(read())
            if place:
                await reached.wait()
            for _ in range(ticks):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            assert asyncio.all_tasks() == before
            assert agent.unsaved == 0
            kept = [role for role, _ in await texts(memory, session)]
            assert kept in ([], ["user", "assistant", "tool", "assistant"])
            outcomes.add((task.cancelled(), len(kept)))
    assert {(True, 0), (False, 4)} <= outcomes


async def test_a_stream_closed_by_its_reader_stores_nothing(memory) -> None:
    with ScriptedProvider(Reply("A long answer")) as provider:
        async with aclosing(Agent(provider, memory=memory).stream("Hello", session="s")) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
    assert await texts(memory, "s") == []


BRIDGE = Passage(id="c1", text="The bridge was opened in 1932.", document="bridge.md", start=40, end=70, score=0.9)


async def test_passages_of_a_separate_knowledge_base_are_quoted_beside_memories(memory) -> None:
    await memory.remember("My dog is called Rex.")
    agent = Agent(QuotingProvider(), memory=memory, knowledge=FixedDocuments(BRIDGE))
    result = await agent.run("When was the bridge opened?")
    assert [(citation.source, citation.start) for citation in result.citations] == [("bridge.md", 40)]
    assert len({citation.number for citation in result.memories}) == len(result.memories)


async def test_passages_of_an_abstaining_knowledge_base_are_not_shown_beside_found_memories(memory) -> None:
    await memory.remember("The spare key of the shed lies under the blue pot.")
    shelf = FixedDocuments(BRIDGE, abstain="nothing")
    result = await Agent(QuotingProvider(), memory=memory, knowledge=shelf).run("Where is the spare key of the shed?")
    assert [item.lane for item in result.memories] == ["conversation"]
    assert "blue pot" in result.text


@pytest.mark.parametrize(("passages", "doubt"), [((BRIDGE,), "nothing"), ((), "other")])
async def test_where_both_sources_doubt_the_doubt_is_one_that_holds_for_all_items(memory, passages, doubt) -> None:
    lines = [("Ana", "I bought a red bicycle in May."), ("Karl", "Hello.")]  # found, and by somebody else
    await memory.remember_many([Memory(text, speaker=speaker, session="talk") for speaker, text in lines])
    shelf = FixedDocuments(*passages, abstain="nothing")
    agent = Agent(QuotingProvider(), memory=memory, knowledge=shelf, settings=AgentSettings(relevance_floor=0))
    result = await agent.run("When did Karl buy a bicycle?")
    assert len(result.memories) >= 1 + len(passages)
    assert result.abstain == doubt


async def test_an_abstaining_knowledge_base_without_memory_gives_no_citations() -> None:
    result = await Agent(QuotingProvider(), knowledge=FixedDocuments(BRIDGE, abstain="nothing")).run("Who am I?")
    assert result.citations == ()


async def test_a_passage_found_by_memory_and_knowledge_base_is_shown_once(memory, tmp_path) -> None:
    (tmp_path / "bridge.md").write_text("# The bridge\n\nThe bridge was opened in 1932 by the mayor.\n")
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest(tmp_path)
    result = await Agent(QuotingProvider(), memory=memory, knowledge=knowledge).run("When was the bridge opened?")
    assert [item.source for item in result.memories] == ["bridge.md"]


async def test_concurrent_runs_of_one_agent_keep_their_sessions_apart(memory) -> None:
    with ScriptedProvider(*(Reply("ok") for _ in range(20))) as provider:
        agent = Agent(provider, memory=memory)
        results = await asyncio.gather(*(agent.run(f"Number {place}", session=f"s{place}") for place in range(20)))
    for place, result in enumerate(results):
        assert result.session == f"s{place}"
        assert await texts(memory, f"s{place}") == [("user", f"Number {place}"), ("assistant", "ok")]


async def test_without_memory_a_history_keeps_the_conversation() -> None:
    history = InMemoryHistory()
    with ScriptedProvider(
        Reply("Hello Ana"), Reply("Ana", expect=lambda request: len(request.messages) == 3)
    ) as provider:
        agent = Agent(provider, history=history)
        first = await agent.run("I am Ana.")
        await agent.run("Who am I?", session=first.session)
    assert len(await history.load(first.session)) == 4


async def test_without_memory_and_history_each_run_starts_with_an_empty_window() -> None:
    with ScriptedProvider(Reply("One"), Reply("Two")) as provider:
        agent = Agent(provider, settings=AgentSettings(system="Be brief."))
        await agent.run("1", session="s")
        await agent.run("2", session="s")
    assert provider.requests[1].messages[0].text == "2"
    assert provider.requests[0].system == "Be brief."
    assert not provider.requests[0].grounding.remembers


async def test_a_prompt_may_hold_images_and_documents(memory) -> None:
    picture = ImageBlock(media_type="image/png", data=b"png")
    paper = DocumentBlock(media_type="text/plain", data=b"text", name="a.txt")
    with ScriptedProvider(Reply("A cat.")) as provider:
        await Agent(provider, memory=memory).run([TextBlock(text="What is this?"), picture, paper], session="s")
    assert provider.requests[0].messages[-1].blocks[-2:] == (picture, paper)
    assert (await memory.conversations.load("s"))[0].message.blocks == (TextBlock(text="What is this?"), picture, paper)


async def test_usage_steps_and_tools_are_in_the_result(memory) -> None:
    with ScriptedProvider(Reply(calls=(call("add", a=1, b=2),)), Reply("3")) as provider:
        result = await Agent(provider, tools=[add]).run("1+2?")
    assert (len(result.steps), result.usage, len(result.tool_runs)) == (2, Usage(20, 10), 1)
    assert [message.role for message in result.messages] == ["user", "assistant", "tool", "assistant"]


async def test_messages_are_dated_by_the_clock(memory) -> None:
    with ScriptedProvider(Reply("Hello")) as provider:
        await Agent(provider, memory=memory, settings=AgentSettings(clock=lambda: NOW)).run("Hello", session="s")
    assert [item.message.at for item in await memory.conversations.load("s")] == [NOW, NOW]


def test_run_sync_works_repeatedly_outside_an_event_loop() -> None:
    agent = Agent(ScriptedProvider(Reply("One"), Reply("Two")))
    assert [agent.run_sync("Hello").text for _ in range(2)] == ["One", "Two"]


@pytest.mark.parametrize("prompt", ["", "  \n", [], "\ud800", [ToolCallBlock(id="c", name="x")]])
async def test_an_invalid_prompt_is_refused_before_any_provider_call(memory, prompt) -> None:
    with ScriptedProvider() as provider, pytest.raises(ArgumentError):
        Agent(provider, memory=memory).stream(prompt)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Agent("gpt"),
        lambda: Agent(ScriptedProvider(), tools=[add, add]),
        lambda: Agent(ScriptedProvider(), tools=["add"]),
        lambda: Agent(ScriptedProvider(), settings={"recall": 3}),
        lambda: AgentSettings(token_budget=0),
        lambda: AgentSettings(recall=-1),
        lambda: AgentSettings(max_rounds=0),
        lambda: AgentSettings(parallel_tools=0),
        lambda: AgentSettings(deadline=0),
        lambda: AgentSettings(tool_timeout=-1),
        lambda: AgentSettings(on_memory_error="ignore"),
    ],
)
def test_invalid_options_are_refused(make) -> None:
    with pytest.raises(ArgumentError):
        make()


def test_sessions_have_ids_of_their_own() -> None:
    assert new_session_id() != new_session_id()
