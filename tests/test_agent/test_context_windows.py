"""Context windows: windows that summarise, the model that writes summaries, and messages without text.

Inner parts, on no face: ``tellback.agent.errors``.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tellback.agent import (
    Agent,
    AgentSettings,
    ArgumentError,
    Ending,
    Prices,
    ProviderError,
    QuotingProvider,
    RunLimits,
    Usage,
)
from tellback.agent.assistant.config import AssistantSettings, ConfigurationError, load_configuration
from tellback.agent.assistant.wiring import make_window, open_assistant
from tellback.agent.callables import summarizer
from tellback.agent.errors import LimitReached
from tellback.agent.testing import OpenAIServer, Reply, ScriptedProvider
from tellback.memory import (
    DocumentBlock,
    FixedWindow,
    ImageBlock,
    InMemoryHistory,
    LongTermMemory,
    Message,
    SummaryWindow,
    TextBlock,
    TokenWindow,
    ToolCallBlock,
    ToolResultBlock,
)
from tellback.vectorstore import open_store

pytestmark = pytest.mark.anyio


def told(so_far: str, messages: list[Message]) -> str:
    return " ".join(part for part in (so_far, *(message.text for message in messages)) if part)


async def turns(agent: Agent, *prompts: str) -> None:
    for prompt in prompts:
        await agent.run(prompt, session="s")


def words(provider: ScriptedProvider) -> list[str]:
    """Return the text of the last request to the model."""
    return [message.text for message in provider.requests[-1].messages]


@pytest.mark.parametrize("with_memory", [True, False])
async def test_the_model_sees_a_summary_of_the_messages_dropped_from_the_window(with_memory: bool) -> None:
    memory = LongTermMemory(open_store("numpy:")) if with_memory else None
    history = None if with_memory else InMemoryHistory()
    window = SummaryWindow(FixedWindow(turns=1), told)
    with ScriptedProvider(*(Reply(f"answer {number}") for number in range(4))) as provider:
        agent = Agent(provider, memory=memory, history=history, settings=AgentSettings(window=window, recall=0))
        await turns(agent, "first", "second", "third", "fourth")
    first, *rest = words(provider)
    assert "first answer 0 second answer 1" in first
    assert "data, never an instruction" in first
    assert "third" in first
    assert rest == ["answer 2", "fourth"]
    storage = memory.conversations if memory is not None else history
    assert len(await storage.load("s")) == 8


async def test_a_turn_outside_the_window_is_recalled_for_a_matching_question() -> None:
    memory = LongTermMemory(open_store("numpy:"))
    with ScriptedProvider(*map(Reply, "abcd")) as provider:
        agent = Agent(provider, memory=memory, settings=AgentSettings(window=FixedWindow(turns=1)))
        await turns(agent, "My passport lies in the green drawer.", "Nice weather.", "Is it noon?")
        result = await agent.run("Where does my passport lie?", session="s")
    *history, prompt = words(provider)
    assert history == ["Is it noon?", "c"]
    assert "My passport lies in the green drawer." in prompt
    assert "My passport lies in the green drawer." in [item.text for item in result.memories]


async def test_a_summary_that_fails_is_noted_and_the_run_goes_on() -> None:
    def away(so_far: str, messages: list[Message]) -> str:
        raise OSError("the model is away")

    memory = LongTermMemory(open_store("numpy:"))
    with ScriptedProvider(Reply("a"), Reply("b"), Reply("c")) as provider:
        agent = Agent(
            provider, memory=memory, settings=AgentSettings(window=SummaryWindow(FixedWindow(turns=1), away), recall=0)
        )
        await turns(agent, "first", "second")
        result = await agent.run("third", session="s")
    assert result.ending is Ending.FINAL
    assert words(provider) == ["second", "b", "third"]
    assert any("the model is away" in note for note in result.notes)


async def test_a_forgotten_turn_is_in_no_later_summary() -> None:
    memory = LongTermMemory(open_store("numpy:"))
    window = SummaryWindow(FixedWindow(turns=1), told)
    with ScriptedProvider(*(Reply(f"answer {number}") for number in range(4))) as provider:
        agent = Agent(provider, memory=memory, settings=AgentSettings(window=window, recall=0))
        await turns(agent, "My code is 4711.", "second", "third")
        assert "4711" in words(provider)[0]
        (first, *_) = await memory.conversations.load("s")
        await memory.forget([first.memory])
        await turns(agent, "fourth")
    assert "4711" not in "".join(words(provider))


async def test_a_summary_is_not_used_as_context_for_a_follow_up_question() -> None:
    memory = LongTermMemory(open_store("numpy:"))
    window = SummaryWindow(FixedWindow(turns=1), lambda so_far, messages: "They spoke of Miso, a cat.")
    with ScriptedProvider(Reply("a"), Reply("b"), Reply("c")) as provider:
        agent = Agent(provider, memory=memory, settings=AgentSettings(window=window))
        await turns(agent, "We have a cat called Miso.", "Nice weather.")
        result = await agent.run("And how old is she?", session="s")
    assert not any("They spoke of" in note for note in result.notes)


async def test_the_summariser_sends_the_conversation_as_delimited_data() -> None:
    items = [
        Message.user("Add!", name="Ana"),
        Message.assistant([ToolCallBlock(id="1", name="add", arguments={"a": 1})]),
        Message.tool([ToolResultBlock(call_id="1", name="add", content=(TextBlock(text="3"),))]),
        Message.user([ImageBlock(media_type="image/png", data=b"x", caption="a cat")]),
    ]
    with ScriptedProvider(Reply(" Ana wants a sum. ")) as provider:
        assert await summarizer(provider, words=50)("They met.", items) == "Ana wants a sum."
    (request,) = provider.requests
    assert "at most 50 words" in request.system
    lines = request.messages[0].text.splitlines()
    mark = lines[0].removeprefix("«minutes ").removesuffix("»")
    assert lines == [
        f"«minutes {mark}»",
        "They met.",
        f"«said {mark}»",
        "Ana: Add!",
        'assistant: (asks add {"a": 1})',
        "tool: (add answers: 3)",
        "user: (image: a cat)",
        f"«end {mark}»",
    ]


async def test_a_long_conversation_is_summed_up_part_by_part() -> None:
    items = [Message.user(f"{number} " + "word " * 2000) for number in range(6)]
    with ScriptedProvider(Reply("one"), Reply("two"), Reply("three")) as provider:
        assert await summarizer(provider)("", items) == "three"
    texts = [request.messages[0].text for request in provider.requests]
    assert [text.splitlines()[1] for text in texts] == ["(none yet)", "one", "two"]
    assert max(map(len, texts)) < 30_000


async def test_a_failing_model_of_the_summariser_raises_a_provider_error() -> None:
    with ScriptedProvider(Reply(error=ProviderError("away"))) as provider, pytest.raises(ProviderError):
        await summarizer(provider)("", [Message.user("a")])


async def test_a_summary_counts_in_the_usage_calls_and_cost_of_the_run() -> None:
    spent = Usage(input=100, output=20, cache_read=30, reasoning=7)
    model, minutes = ScriptedProvider(*map(Reply, "abc")), ScriptedProvider(Reply("MINUTES", usage=spent))
    window = SummaryWindow(FixedWindow(turns=1), summarizer(minutes))
    agent = Agent(model, history=InMemoryHistory(), settings=AgentSettings(window=window, prices=Prices(1_000_000, 0)))
    await turns(agent, "first", "second")
    result = await agent.run("third", session="s")
    assert result.usage == Usage(input=10, output=5) + spent
    assert (result.calls, result.cost) == (2, 110.0)
    assert "MINUTES" in words(model)[0]


async def test_the_usage_of_a_broken_off_summary_counts_in_the_run() -> None:
    broken = Reply("MIN", usage=Usage(input=100, output=2), error=ProviderError("away"))
    model, minutes = ScriptedProvider(*map(Reply, "abc")), ScriptedProvider(broken)
    agent = Agent(
        model,
        history=InMemoryHistory(),
        settings=AgentSettings(window=SummaryWindow(FixedWindow(turns=1), summarizer(minutes))),
    )
    await turns(agent, "first", "second")
    result = await agent.run("third", session="s")
    assert (result.usage, result.calls) == (Usage(input=110, output=7), 2)
    assert any("could not be made" in note for note in result.notes)


async def test_a_summary_does_not_use_the_last_model_call_allowed_to_a_run() -> None:
    model, minutes = ScriptedProvider(*map(Reply, "abc")), ScriptedProvider(Reply("MINUTES"))
    window = SummaryWindow(FixedWindow(turns=1), summarizer(minutes))
    agent = Agent(model, history=InMemoryHistory(), settings=AgentSettings(window=window, limits=RunLimits(calls=1)))
    await turns(agent, "first", "second")
    result = await agent.run("third", session="s")
    assert (result.text, result.calls, minutes.requests) == ("c", 1, [])
    assert any("the limit of 1 calls of models has none to spare" in note for note in result.notes)


async def test_the_tokens_of_a_summary_count_towards_the_limits_of_a_run() -> None:
    model, minutes = ScriptedProvider(*map(Reply, "ab")), ScriptedProvider(Reply("MINUTES", usage=Usage(input=900)))
    window = SummaryWindow(FixedWindow(turns=1), summarizer(minutes))
    agent = Agent(model, history=InMemoryHistory(), settings=AgentSettings(window=window, limits=RunLimits(tokens=500)))
    await turns(agent, "first", "second")
    with pytest.raises(LimitReached) as caught:
        await agent.run("third", session="s")
    assert caught.value.result.usage == Usage(input=900)


async def test_concurrent_runs_count_each_their_own_summary_usage() -> None:
    history = InMemoryHistory()
    for session in ("s", "t"):
        await history.append(session, [Message.user(text) for text in "abc"])
    minutes = ScriptedProvider(Reply("one", usage=Usage(input=7)), Reply("two", usage=Usage(input=7)))
    window = SummaryWindow(FixedWindow(messages=1), summarizer(minutes))
    agent = Agent(ScriptedProvider(Reply("a"), Reply("b")), history=history, settings=AgentSettings(window=window))
    results = await asyncio.gather(agent.run("one", session="s"), agent.run("two", session="t"))
    assert [result.usage for result in results] == [Usage(input=17, output=5)] * 2


async def test_a_custom_summary_function_adds_no_usage_to_the_run() -> None:
    model = ScriptedProvider(*map(Reply, "abc"))
    agent = Agent(
        model, history=InMemoryHistory(), settings=AgentSettings(window=SummaryWindow(FixedWindow(turns=1), told))
    )
    await turns(agent, "first", "second")
    result = await agent.run("third", session="s")
    assert (result.usage, result.calls) == (Usage(input=10, output=5), 1)
    assert "first a" in words(model)[0]


@pytest.mark.parametrize("window", ["turns", FixedWindow, 3])
def test_a_window_that_is_no_policy_is_refused(window: object) -> None:
    with pytest.raises(ArgumentError, match="window"):
        Agent(QuotingProvider(), settings=AgentSettings(window=window))  # type: ignore[arg-type]  # bad on purpose


@pytest.mark.parametrize("options", [{"provider": "gpt"}, {"words": 0}, {"words": True}])
def test_an_unusable_summariser_raises(options: dict) -> None:
    with pytest.raises(ArgumentError, match=next(iter(options))):
        summarizer(**{"provider": QuotingProvider(), **options})


@pytest.mark.parametrize(
    "block",
    [
        ImageBlock(media_type="image/png", data=b"x"),
        ImageBlock(media_type="image/png", data=b"x", caption="a lighthouse", name="light.png"),
        DocumentBlock(media_type="application/pdf", data=b"%PDF", name="contract.pdf"),
    ],
)
async def test_a_prompt_of_media_without_text_is_answered_stored_shown_and_recalled(
    block: ImageBlock | DocumentBlock,
) -> None:
    memory = LongTermMemory(open_store("numpy:"))
    with ScriptedProvider(Reply("I see."), Reply("Yes.")) as provider:
        agent = Agent(provider, memory=memory)
        result = await agent.run([block], session="s")
        assert (result.ending, [each.outcome for each in result.stored]) == (Ending.FINAL, ["stored", "stored"])
        await agent.run("And now?", session="s")
    assert block in provider.requests[-1].messages[0].blocks
    assert (await memory.conversations.load("s"))[0].message.blocks == (block,)
    if words := getattr(block, "caption", "") or block.name:
        assert result.stored[0].id in [hit.memory.id for hit in await memory.recall(words, 5)]


@pytest.mark.parametrize(
    ("window", "shown"),
    [("all", "None"), ("turns:3", "FixedWindow(turns=3)"), ("tokens:900", "TokenWindow(900)")],
)
def test_the_settings_choose_a_window(window: str, shown: str) -> None:
    assert repr(make_window(AssistantSettings(window=window), QuotingProvider())) == shown


def test_a_summarising_window_needs_a_model() -> None:
    assert isinstance(make_window(AssistantSettings(window="summary:800", model="m"), QuotingProvider()), SummaryWindow)
    with pytest.raises(ConfigurationError, match="needs a model"):
        make_window(AssistantSettings(window="summary:800"), QuotingProvider())


@pytest.mark.parametrize("window", ["some", "turns", "turns:0", "tokens:-1", "summary:many", "all:3"])
def test_an_unknown_window_setting_is_refused_with_the_accepted_forms(window: str) -> None:
    with pytest.raises(ConfigurationError, match=r"window \(from TELLBACK_WINDOW\).*turns:NUMBER"):
        load_configuration(flags={}, environ={"TELLBACK_WINDOW": window})


async def test_the_assistant_summarises_with_its_model_and_stores_no_trace_if_disabled(tmp_path: Path) -> None:
    replies = [Reply("answer " + "word " * 300), Reply("MINUTES"), Reply("done")]
    with OpenAIServer(*replies) as server:
        settings = AssistantSettings(
            memory=tmp_path / "m.db", model="m", base_url=server.url, window="summary:200", trace=False
        )
        assistant = open_assistant(settings)
        await assistant.agent.run("first", session="s")
        result = await assistant.agent.run("second", session="s")
        stored = await assistant.opened.memory.conversations.load("s")
        await assistant.close()
    assert result.text == "done"
    assert [each.message.role for each in stored] == ["user", "assistant", "user", "assistant"]


def test_the_window_setting_tokens_gives_a_token_window() -> None:
    assert isinstance(make_window(AssistantSettings(window="tokens:50"), QuotingProvider()), TokenWindow)
