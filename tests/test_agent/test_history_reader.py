"""History in the context: window policies, summaries, and quotes with the current text of memories.

Inner parts, on no face: ``tellback.agent.context.memory_reader``.
"""

from __future__ import annotations

import pytest

from tellback.agent import Agent, AgentSettings, MemoryRecalled, QuotingProvider, WarningIssued
from tellback.agent.context.memory_reader import NO_SEQUENCE, HistoryReader
from tellback.agent.testing import Reply, ScriptedProvider
from tellback.memory import (
    EstimatingCounter,
    FixedWindow,
    InMemoryHistory,
    Message,
    SummaryWindow,
    TokenWindow,
    Trust,
)
from tellback.memory.internals import FullWindow

pytestmark = pytest.mark.anyio


def said(count: int) -> list[Message]:
    return [item for n in range(count) for item in (Message.user(f"Question {n}"), Message.assistant(f"Answer {n}"))]


async def summed_up(so_far: str, messages) -> str:
    return f"{so_far} {len(messages)} more".strip()


def summing(turns: int = 2) -> SummaryWindow:
    return SummaryWindow(FixedWindow(turns=turns), summed_up)


@pytest.mark.parametrize("kind", ["memory", "history"])
async def test_a_summary_of_dropped_messages_precedes_the_messages_of_the_window(memory, kind: str) -> None:
    history = InMemoryHistory()
    await (memory.conversations if kind == "memory" else history).append("s", said(5))
    place = {"memory": memory} if kind == "memory" else {"history": history}
    with ScriptedProvider(Reply("Hello")) as provider:
        result = await Agent(provider, **place, settings=AgentSettings(window=summing())).run(
            "Go on", session="s", store=False
        )
    first, *rest = provider.requests[0].messages
    assert "6 more" in first.text
    assert "Question 3" in first.text
    assert [message.role for message in rest] == ["assistant", "user", "assistant", "user"]
    assert "Question 2" not in "".join(message.text for message in provider.requests[0].messages)
    assert result.dropped == 6
    assert any("6 outside the window" in note for note in result.notes)


async def test_a_run_with_a_summary_in_its_window_has_document_trust(memory) -> None:
    await memory.conversations.append("s", said(5))
    with ScriptedProvider(Reply("Hello"), Reply("Hello")) as provider:
        summed = await Agent(provider, memory=memory, settings=AgentSettings(window=summing())).run(
            "Go on", session="s", store=False
        )
        whole = await Agent(provider, memory=memory).run("Go on", session="s", store=False)
    assert (summed.trust, whole.trust) == (Trust.DOCUMENT, Trust.ASSISTANT)


async def test_a_failing_summary_gives_a_note_and_no_warning(memory) -> None:
    async def fails(so_far: str, messages) -> str:
        raise OSError("the model is down")

    await memory.conversations.append("s", said(5))
    window = SummaryWindow(FixedWindow(turns=2), fails)
    with ScriptedProvider(Reply("Hello")) as provider:
        events = [
            event
            async for event in Agent(provider, memory=memory, settings=AgentSettings(window=window)).stream(
                "Go on", session="s"
            )
        ]
    recalled = next(event for event in events if isinstance(event, MemoryRecalled))
    assert any("could not be made" in note for note in recalled.notes)
    assert not any(isinstance(event, WarningIssued) for event in events)
    assert "Question 4" in "".join(message.text for message in provider.requests[0].messages)


async def test_read_messages_have_their_session_sequences_and_a_summary_has_none(memory) -> None:
    await memory.conversations.append("s", said(4))
    read = await HistoryReader(memory, None, summing(1)).read("s")
    assert read.sequences == (NO_SEQUENCE, 7, 8)
    assert [message.text for message in read.messages[1:]] == ["Question 3", "Answer 3"]
    assert read.last_user_texts(3) == ["Question 3"]
    assert (await HistoryReader(memory, None, None, limit=3).read("s")).sequences == (6, 7, 8)
    assert (await HistoryReader(None, None, None).read("s")).messages == ()


@pytest.mark.parametrize("window", [FullWindow(), FixedWindow(messages=500), None], ids=repr)
async def test_a_large_window_reads_all_of_a_long_conversation(window) -> None:
    history = InMemoryHistory()
    await history.append("s", said(250))
    with ScriptedProvider(Reply("Hello")) as provider:
        agent = Agent(provider, history=history, settings=AgentSettings(window=window, token_budget=None))
        result = await agent.run("Go on", session="s")
    assert [message.text for message in provider.requests[0].messages] == [
        *(message.text for message in said(250)),
        "Go on",
    ]
    assert (result.dropped, result.notes) == (0, ())


async def test_without_a_window_history_fills_the_token_budget(memory) -> None:
    await memory.conversations.append("s", said(250))
    with ScriptedProvider(Reply("Hello")) as provider:
        agent = Agent(provider, memory=memory, settings=AgentSettings(token_budget=100_000, recall=0))
        await agent.run("Go on", session="s", store=False)
    assert len(provider.requests[0].messages) == 501


async def test_a_result_notes_from_which_message_on_history_was_read(memory) -> None:
    await memory.conversations.append("s", said(250))
    with ScriptedProvider(Reply("Hello")) as provider:
        agent = Agent(provider, memory=memory, settings=AgentSettings(window=FixedWindow(messages=20), recall=0))
        result = await agent.run("Go on", session="s", store=False)
    assert len(provider.requests[0].messages) == 21
    assert "of this conversation, nothing before its message 301 was looked at" in result.notes


@pytest.mark.parametrize("sums_up", [False, True])
async def test_newest_messages_over_the_limit_of_a_token_window_are_noted(memory, sums_up: bool) -> None:
    await memory.conversations.append("s", [*said(2), Message.user("word " * 200)])
    window = TokenWindow(50, EstimatingCounter())
    with ScriptedProvider(Reply("Hello"), Reply("Hello")) as provider:
        agent = Agent(
            provider,
            memory=memory,
            settings=AgentSettings(window=SummaryWindow(window, summed_up) if sums_up else window),
        )
        long = await agent.run("Go on", session="s", store=False)
        short = await agent.run("Go on", session="t", store=False)
    assert "word word" in "".join(message.text for message in provider.requests[0].messages)
    over = "the newest messages of the conversation alone are over the window's limit"
    assert (long.notes.count(over), short.notes.count(over)) == (1, 0)


async def test_a_system_message_is_shown_however_old(memory) -> None:
    await memory.conversations.append("s", [Message.system("Speak of ships alone."), *said(250)])
    read = await HistoryReader(memory, None, None, limit=4, bound=FixedWindow(messages=2)).read("s")
    assert (read.messages[0].text, read.sequences) == ("Speak of ships alone.", (1, 498, 499, 500, 501))
    with ScriptedProvider(Reply("Hello")) as provider:
        agent = Agent(provider, memory=memory, settings=AgentSettings(window=FixedWindow(messages=2), recall=0))
        await agent.run("Go on", session="s", store=False)
    sent = provider.requests[0]
    assert "Speak of ships alone." in sent.system + "".join(message.text for message in sent.messages)


async def test_a_quoting_answer_in_a_summary_window_shows_the_corrected_memory_text(memory) -> None:
    agent = Agent(QuotingProvider(), memory=memory)
    run = await agent.run("The shed has the code 2580.", session="s")
    await agent.run("What is the code of the shed?", session="s")
    await memory.correct(run.stored[0].id, "The shed has the code 1234.")
    read = await HistoryReader(memory, None, summing(1)).read("s")
    assert read.messages[-1].text == "“The shed has the code 1234.”"
