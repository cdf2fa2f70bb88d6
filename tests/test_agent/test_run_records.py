"""Records of a run for its developer: steps, durations, exceptions with tracebacks, and the log of model calls.

Inner parts, on no face: ``tellback.agent.events``, ``tellback.agent.results``.
"""

from __future__ import annotations

import itertools
import logging

import pytest

from tellback.agent import (
    Agent,
    AgentSettings,
    DeadlinePassed,
    Ending,
    Hooks,
    ProviderFailed,
    StopReason,
    ToolEnded,
    ToolFailed,
    Usage,
    knowledge_tools,
    memory_tools,
    tool,
)
from tellback.agent.callables import summarizer
from tellback.agent.events import HOOK_NAMES, HookEvent, MemoryDegraded, RoundEnded
from tellback.agent.results import ErrorRecord
from tellback.agent.testing import Reply, ScriptedProvider, call
from tellback.memory import (
    EmbedderError,
    EstimatingCounter,
    FunctionEmbedder,
    InMemoryHistory,
    KnowledgeBase,
    LongTermMemory,
    Memory,
    Message,
    SummaryWindow,
    TokenWindow,
)
from tellback.vectorstore import open_store
from tests.support.passing_time import DEADLINE, outlasting

pytestmark = pytest.mark.anyio
SECRET = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def broken() -> str:
    """Fail, with a secret in the words."""
    try:
        return {}["key"]
    except KeyError as error:
        raise OSError(f"no answer with {SECRET}") from error


@tool
def refusing() -> str:
    """Refuse."""
    raise ToolFailed("ask for a town")


def ticking() -> AgentSettings:
    """Return settings with a clock that moves a second at each reading."""
    seconds = itertools.count()
    return AgentSettings(timer=lambda: float(next(seconds)))


# Exceptions of tools


async def test_an_exception_of_a_tool_is_recorded_with_its_traceback_and_without_secrets(caplog) -> None:
    seen: list[HookEvent] = []
    replies = (Reply(calls=(call("broken"), call("add", a=1, b=2), call("refusing"))), Reply("Sorry."))
    with ScriptedProvider(*replies) as provider, caplog.at_level(logging.DEBUG, "tellback.agent"):
        agent = Agent(provider, tools=[add, broken, refusing], hooks=[Hooks(tool_ended=seen.append)])
        events = [event async for event in agent.stream("?")]
    result = events[-1].result
    failed, worked, refused = (run.error for run in result.tool_runs)
    assert worked is None
    assert failed is not None
    assert (failed.type, failed.message) == ("OSError", "no answer with [redacted: OpenAI key]")
    assert "KeyError: 'key'" in failed.traceback
    assert "in broken" in failed.traceback
    assert refused is not None
    assert (refused.type, refused.message) == ("ToolFailed", "ask for a town")
    assert [event.run for event in events if isinstance(event, ToolEnded)] == list(result.tool_runs)
    assert [event.value for event in seen] == list(result.tool_runs)
    (line,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "tool broken" in line.getMessage()
    assert "KeyError: 'key'" in line.getMessage()
    assert SECRET not in caplog.text + "".join(event.to_json() for event in events)
    items = [block.text for block in provider.requests[1].messages[-1].tool_results]
    assert items[0].startswith("the tool failed: OSError: no answer")
    assert not any("Traceback" in text or "KeyError" in text for text in items)


async def test_an_exception_whose_words_fail_is_recorded_all_the_same() -> None:
    class Wordless(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    @tool
    def wordless() -> str:
        """Fail."""
        raise Wordless

    with ScriptedProvider(Reply(calls=(call("wordless"),)), Reply("Sorry.")) as provider:
        result = await Agent(provider, tools=[wordless]).run("?")
    error = result.tool_runs[0].error
    assert error is not None
    assert error.type == "Wordless"
    assert "in wordless" in error.traceback


def test_the_end_of_a_too_long_traceback_is_kept() -> None:
    def deep(depth: int) -> None:
        deep_other(depth) if depth else [][0]

    def deep_other(depth: int) -> None:
        deep(depth - 1)

    try:
        deep(300)
    except IndexError as error:
        record = ErrorRecord.of(error)
    assert len(record.traceback) == 20_001
    assert record.traceback.startswith("…")
    assert record.traceback.endswith("IndexError: list index out of range\n")


# Steps and durations


async def test_each_step_has_its_model_call_and_its_tool_calls_with_times_and_usage() -> None:
    first, second = Usage(10, 5, 4, 3, 2), Usage(20, 6)
    asked = (call("add", a=1, b=2), call("broken"))
    replies = (Reply("Hm", calls=asked, usage=first), Reply("3", usage=second))
    provider = ScriptedProvider(*replies)
    provider.model = "small-1"  # type: ignore[attr-defined]
    events = [event async for event in Agent(provider, tools=[add, broken], settings=ticking()).stream("?")]
    result = events[-1].result
    item, two = result.steps
    assert (item.number, two.number, item.model) == (1, 2, "small-1")
    assert (item.usage, two.usage, item.stop, two.stop) == (first, second, StopReason.TOOL_CALLS, StopReason.STOP)
    assert [run.call for run in item.tool_runs] == list(asked)
    assert [run.error is not None for run in item.tool_runs] == [False, True]
    assert (two.tool_runs, item.error) == ((), None)
    assert result.tool_runs == item.tool_runs
    assert item.first_token is not None
    assert 0 < item.first_token < item.elapsed
    assert item.began < item.began + item.elapsed < two.began
    rounds = [event for event in events if isinstance(event, RoundEnded)]
    assert [(event.duration, event.first_token, event.stop) for event in rounds] == [
        (step.elapsed, step.first_token, step.stop) for step in result.steps
    ]


async def test_a_step_whose_model_call_failed_has_the_error_and_the_run_has_it_too() -> None:
    seen: list[HookEvent] = []
    provider = ScriptedProvider(Reply(calls=(call("add", a=1, b=2),)), Reply("Half", error=OSError("down")))
    agent = Agent(provider, tools=[add], hooks=[Hooks(model_failed=seen.append)])
    with pytest.raises(ProviderFailed) as caught:
        await agent.run("?")
    result = caught.value.result
    assert [step.error is None for step in result.steps] == [True, False]
    assert result.steps[1].stop is None
    assert result.error == result.steps[1].error
    assert result.error is not None
    assert str(result.error) == "OSError: down"
    assert "OSError: down" in result.error.traceback
    assert [(event.step, str(event.value)) for event in seen] == [(2, "down")]
    assert seen[0].duration is not None


async def test_a_deadline_during_tools_records_which_calls_had_ended() -> None:
    @tool
    async def slow() -> str:
        """Take too long."""
        await outlasting()
        return "late"

    provider = ScriptedProvider(Reply(calls=(call("add", a=1, b=2), call("slow"))))
    agent = Agent(provider, tools=[add, slow], settings=AgentSettings(deadline=DEADLINE))
    with pytest.raises(DeadlinePassed) as caught:
        await agent.run("?")
    quick, late = caught.value.result.steps[0].tool_runs
    assert (quick.error, quick.result.text) == (None, "3")
    assert late.error is not None
    assert late.error.type == "CancelledError"


async def test_memory_reads_and_writes_have_their_durations_in_result_events_and_hooks(memory) -> None:
    seen: list[HookEvent] = []
    await memory.remember(Memory(text="The shed is green.", pinned=True))
    hooks = Hooks(**dict.fromkeys(HOOK_NAMES, seen.append))
    agent = Agent(ScriptedProvider(Reply("Green.")), memory=memory, hooks=[hooks], settings=ticking())
    events = [event async for event in agent.stream("Which colour has the shed?", session="s")]
    result = events[-1].result
    parts = {access.part: access for access in result.memory_accesses}
    assert [*parts] == ["history", "profile", "recall", "turn"]
    assert (parts["history"].count, parts["profile"].count, parts["recall"].count, parts["turn"].count) == (0, 1, 1, 2)
    assert all(access.elapsed > 0 and not access.problem for access in parts.values())
    durations = {event.type: event.duration for event in events if hasattr(event, "duration")}
    assert durations["memory_stored"] == parts["turn"].elapsed
    assert durations["memory_recalled"] >= parts["recall"].elapsed
    by_hook = {event.name: event.duration for event in seen}
    ends = ["memory_loaded", "memory_retrieved", "context_built", "model_answered", "memory_stored", "run_ended"]
    assert all(by_hook[name] for name in ends)
    assert by_hook["run_started"] is by_hook["model_called"] is None
    assert by_hook["run_ended"] == result.elapsed


# A degraded memory


class Embedder:
    """An embedder that raises *broken* once it is set."""

    def __init__(self) -> None:
        self.broken: Exception | None = None

    async def __call__(self, texts) -> list[list[float]]:
        if isinstance(self.broken, TimeoutError):
            await outlasting()
        if self.broken is not None:
            raise self.broken
        return [[1.0, len(text) % 7 + 1.0] for text in texts]


@pytest.mark.parametrize("error", [EmbedderError("the server is down"), TimeoutError()], ids=["fails", "hangs"])
async def test_a_recall_with_a_failing_embedder_is_reported_as_degraded_not_as_empty(error, caplog) -> None:
    embedder, seen = Embedder(), []
    model = FunctionEmbedder(embedder, fingerprint="test/1", dimension=2)
    memory = LongTermMemory(open_store("numpy:"), embedder=model)
    await memory.remember("The shed is green.")
    embedder.broken = error
    agent = Agent(ScriptedProvider(Reply("No idea.")), memory=memory, hooks=[Hooks(memory_degraded=seen.append)])
    with caplog.at_level(logging.WARNING, "tellback.agent"):
        events = [event async for event in agent.stream("Quelle couleur a la cabane?")]
    result = events[-1].result
    (degraded,) = [event for event in events if isinstance(event, MemoryDegraded)]
    reason = "the server is down" if isinstance(error, EmbedderError) else "no answer within"
    assert degraded.access.part == "recall"
    assert degraded.access.problem.startswith("searched by words alone: ")
    assert reason in degraded.access.problem
    assert degraded.access in result.memory_accesses
    assert [event.value for event in seen] == [degraded.access]
    assert degraded.access.problem in result.notes
    assert degraded.access.problem in caplog.text
    embedder.broken = None
    await memory.close()


async def test_a_deadline_during_a_memory_read_says_which_read_had_no_answer(memory) -> None:
    class Slow:
        def __getattr__(self, name: str):
            return getattr(memory, name)

        async def recall(self, *given, **options) -> None:
            await outlasting()

    agent = Agent(ScriptedProvider(), memory=Slow(), settings=AgentSettings(deadline=DEADLINE))
    events = [event async for event in agent.stream("Which colour has the shed?")]
    assert events[-1].result.ending is Ending.DEADLINE
    items = [event.access for event in events if isinstance(event, MemoryDegraded)]
    (access,) = [access for access in items if access.part == "recall"]
    assert access.problem == "it had no answer yet when the run ended"
    assert access in events[-1].result.memory_accesses


async def test_a_degraded_search_by_a_tool_is_reported_to_the_model_and_in_the_stream() -> None:
    embedder, seen = Embedder(), []
    model = FunctionEmbedder(embedder, fingerprint="test/1", dimension=2)
    memory = LongTermMemory(open_store("numpy:"), embedder=model)
    await memory.remember("The shed is green.")
    embedder.broken = EmbedderError("the server is down")
    tools = [*memory_tools(memory), *knowledge_tools(KnowledgeBase(memory))]
    asked = (call("search_memory", query="cabane"), call("search_documents", query="cabane"))
    answer = Reply("I could not look everywhere.", expect="a part of the search failed")
    with ScriptedProvider(Reply(calls=asked), answer) as provider:
        agent = Agent(provider, tools=tools, hooks=[Hooks(memory_degraded=seen.append)])
        events = [event async for event in agent.stream("Quelle couleur a la cabane?")]
    degraded = [event.access for event in events if isinstance(event, MemoryDegraded)]
    assert sorted(access.part for access in degraded) == ["knowledge", "recall"]
    assert all("the server is down" in access.problem for access in degraded)
    assert [event.value for event in seen] == degraded
    items = [result.text for result in provider.requests[1].messages[-1].tool_results]
    assert all(text.startswith("No ") and "the server is down" not in text for text in items)
    await memory.close()


async def test_a_memory_without_an_embedder_is_not_degraded(memory) -> None:
    await memory.remember("The shed is green.")
    result = await Agent(ScriptedProvider(Reply("Green.")), memory=memory).run("Which colour has the shed?")
    assert any("no embedder" in note for note in result.notes)
    assert result.warnings == ()
    assert not any(access.problem for access in result.memory_accesses)


# The log of model calls


async def test_the_log_of_model_calls_has_sizes_times_and_usage_and_no_contents(caplog) -> None:
    replies = (Reply("Hm", calls=(call("add", a=1, b=2),), usage=Usage(10, 5, 4)), Reply(error=OSError("down")))
    provider = ScriptedProvider(*replies)
    provider.model = "small-1"  # type: ignore[attr-defined]
    agent = Agent(provider, tools=[add], settings=AgentSettings(name="ada", system="Be kind."))
    with caplog.at_level(logging.INFO, "tellback.agent.model_calls"), pytest.raises(ProviderFailed):
        await agent.run("My garden shed is green", session="s1")
    first, second = (record for record in caplog.records if record.name == "tellback.agent.model_calls")
    fields = first.model_call
    assert {name: fields[name] for name in ("model", "agent", "session", "step", "messages", "tools", "finish")} == {
        "model": "small-1",
        "agent": "ada",
        "session": "s1",
        "step": 1,
        "messages": 1,
        "tools": 1,
        "finish": "tool_calls",
    }
    assert fields["characters"] == len("Be kind.My garden shed is green")
    assert (fields["calls"], fields["usage"]["input"], fields["usage"]["cache_read"]) == (["add"], 10, 4)
    assert fields["elapsed"] >= fields["first_token"] >= 0
    assert "small-1" in first.getMessage()
    assert "10 + 5 tokens" in first.getMessage()
    assert (first.levelno, second.levelno) == (logging.INFO, logging.WARNING)
    assert (second.model_call["error"], second.model_call["finish"]) == ("OSError: down", None)
    assert "shed" not in caplog.text
    assert "request" not in fields


async def test_the_log_of_model_calls_has_contents_without_secrets_where_they_are_asked_for(caplog) -> None:
    replies = (Reply("Let me see", calls=(call("add", a=17, b=2),)), Reply("It is nineteen."))
    agent = Agent(ScriptedProvider(*replies), tools=[add], settings=AgentSettings(log_contents=True))
    with caplog.at_level(logging.INFO, "tellback.agent.model_calls"):
        await agent.run(f"The shed has the key {SECRET}, what is 17 + 2?")
    text = caplog.text
    for words in ("The shed has the key [redacted: OpenAI key]", "Let me see", '"a": 17', '"text": "19"', "nineteen"):
        assert words in text
    assert SECRET not in text


async def test_the_log_of_model_calls_has_the_calls_of_a_summarizer(caplog) -> None:
    history = InMemoryHistory()
    for number in range(20):
        await history.append("s", [Message.user(f"Question {number} " * 20), Message.assistant("Answer " * 20)])
    model = ScriptedProvider(Reply("They talked."))
    window = SummaryWindow(TokenWindow(200, EstimatingCounter()), summarizer(model))
    agent = Agent(ScriptedProvider(Reply("Fine.")), history=history, settings=AgentSettings(window=window))
    with caplog.at_level(logging.INFO, "tellback.agent.model_calls"):
        await agent.run("And now?", session="s")
    records = [record for record in caplog.records if record.name == "tellback.agent.model_calls"]
    assert [record.model_call["purpose"] for record in records] == ["summary", "answer"]
