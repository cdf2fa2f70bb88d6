"""Lines that a model writes for memories that have none, over real HTTP: what is sent, kept, skipped and limited.

Inner parts, on no face: ``tellback.agent.assistant.conversation.background_worker``.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tellback.agent import OpenAICompatibleProvider, ProviderError, Usage
from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.conversation.background_worker import Announcement, BackgroundWorker, LinesFailed
from tellback.agent.assistant.wiring import open_configured_memory, writes_lines
from tellback.agent.callables import LineWriter
from tellback.agent.testing import OpenAIServer, RawReply, RecordedRequest, Reply
from tellback.memory import LongTermMemory, Memory, Trust, run_sync
from tests.support.command_line import CommandLine
from tests.support.waiting import wait_until

pytestmark = pytest.mark.anyio
FAILURE = RawReply([b'{"error": {"message": "no"}}'], 400, "application/json")


def reply(*lines: str, first: int = 1, tokens: int = 200) -> Reply:
    numbered = [{"n": number, "about": line} for number, line in enumerate(lines, start=first)]
    return Reply(json.dumps({"lines": numbered}), usage=Usage(tokens, 20))


def writer(server: OpenAIServer, **options: bool) -> LineWriter:
    return LineWriter(OpenAICompatibleProvider(server.url, "any"), **options)


def prompts(server: OpenAIServer) -> list[str]:
    return [request.body["messages"][1]["content"] for request in server.requests]


async def lines_of(memory: LongTermMemory) -> list[tuple[str, str]]:
    return [(found.about, found.about_by) for found in await memory.list()]


async def test_lines_are_written_in_one_operation_and_what_states_nothing_is_not_asked_about_again(
    memory: LongTermMemory,
) -> None:
    await memory.remember_many(["Anna has our spare key.", "Hm, Tuesday."])
    with OpenAIServer(reply("spare house key: who keeps it", "")) as server:
        (done,) = [step async for step in writer(server).write(memory)]
        assert [step async for step in writer(server).write(memory)] == []
    assert (done.written, done.silent, done.skipped, done.usage, done.tokens) == (1, 1, 0, Usage(200, 20), 220)
    assert await lines_of(memory) == [("spare house key: who keeps it", "model"), ("", "model")]
    operation = (await memory.operations())[0]
    assert (operation.kind, operation.actor, len(operation.changes)) == ("describe", "system", 2)


@pytest.mark.parametrize(
    "first", ["I would rather not.", '{"lines": [{"n": "1", "about": "x"}, {"n": 2}]}', "[]", "{}"]
)
async def test_an_unusable_answer_is_asked_for_again_once_and_then_skipped(memory: LongTermMemory, first: str) -> None:
    await memory.remember_many(["Anna has our spare key.", "Our car is blue."])
    with OpenAIServer(Reply(first), Reply("```json\n" + reply("spare key: keeper").text + "\n```")) as server:
        (done,) = [step async for step in writer(server).write(memory)]
    assert (done.written, done.skipped, len(server.requests)) == (1, 1, 2)
    assert await lines_of(memory) == [("spare key: keeper", "model"), ("", "")]


async def test_only_the_missing_ones_are_asked_for_again_with_the_lines_that_came(memory: LongTermMemory) -> None:
    await memory.remember_many(["Anna has our spare key.", "Our car is blue."])
    with OpenAIServer(reply("our car: colour", first=2), reply("spare key: keeper")) as server:
        (done,) = [step async for step in writer(server).write(memory)]
    assert done.written == 2
    again = prompts(server)[1]
    assert "- our car: colour" in again
    assert "1 (" in again
    assert "car is blue" not in again


async def test_sensitive_memories_are_shown_to_a_model_elsewhere_only_if_that_is_allowed(
    memory: LongTermMemory,
) -> None:
    await memory.remember(Memory("My PIN is 4471.", sensitive=True))
    away = OpenAICompatibleProvider("https://example.com/v1", "any")
    assert (await LineWriter(away).estimate(memory)).memories == 0
    assert (await LineWriter(away, share_sensitive=True).estimate(memory)).memories == 1
    with OpenAIServer(reply("my PIN")) as server:
        assert [step.written async for step in writer(server).write(memory)] == [1]


async def test_writing_ends_before_the_limit_of_tokens_is_passed_and_goes_on_later(memory: LongTermMemory) -> None:
    texts = [f"The shelf {number} holds jam." for number in range(25)]
    await memory.remember_many(texts)
    with OpenAIServer(reply(*texts[:20], tokens=2000), reply(*texts[20:])) as server:
        estimate = await writer(server).estimate(memory)
        assert (estimate.memories, estimate.calls) == (25, 2)
        steps = [step async for step in writer(server).write(memory, most_tokens=2100)]
        assert [(step.written, step.stopped) for step in steps] == [(20, False), (20, True)]
        assert [step.written async for step in writer(server).write(memory)] == [5]
    assert 1000 < estimate.tokens < 4000


async def test_a_batch_for_which_the_model_fails_is_skipped_and_the_last_failure_is_raised(
    memory: LongTermMemory,
) -> None:
    await memory.remember_many([f"The shelf {number} holds jam." for number in range(21)])
    with OpenAIServer(FAILURE, reply("shelf 20: contents"), FAILURE, FAILURE) as server:
        steps = [step async for step in writer(server).write(memory)]
        assert [(step.written, step.skipped) for step in steps] == [(0, 20), (1, 20)]
        with pytest.raises(ProviderError):
            [step async for step in writer(server).write(memory)]
    assert len(server.requests) == 3


async def test_a_memory_that_was_corrected_meanwhile_keeps_no_line_of_its_former_text(memory: LongTermMemory) -> None:
    id = (await memory.remember("Anna has our spare key.")).id

    class Slow(OpenAIServer):
        def answer(self, request: RecordedRequest) -> RawReply:
            run_sync(memory.correct(id, "Our car is blue."))
            return super().answer(request)

    with Slow(reply("spare key: keeper")) as server:
        (done,) = [step async for step in writer(server).write(memory)]
    assert (done.written, done.skipped) == (0, 1)
    assert await lines_of(memory) == [("", "")]


async def test_words_of_documents_and_tools_are_in_no_batch_with_what_was_said(memory: LongTermMemory) -> None:
    await memory.remember_many(
        [
            "Anna has our spare key.",
            Memory("All notes are about the landlord.", trust=Trust.TOOL, actor="tool"),
            "Our car is blue.",
        ]
    )
    with OpenAIServer(reply("spare key: keeper"), reply("landlord"), reply("our car: colour")) as server:
        steps = [step async for step in writer(server).write(memory)]
    assert steps[-1].written == 3
    assert ["landlord" in prompt for prompt in prompts(server)] == [False, True, False]


def test_the_command_says_what_is_sent_to_whom_asks_and_writes(
    tellback: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tellback("remember", "Anna has our spare key.")
    without = tellback("memories", "about", "--write", "--yes")
    assert (without.code, "no model is set" in without.err, "TELLBACK_MODEL" in without.err) == (2, True, True)
    monkeypatch.setenv("TELLBACK_MODEL", "any")
    with OpenAIServer(reply("spare house key: who keeps it")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert "--yes" in tellback("memories", "about", "--write").err
        refused = tellback("memories", "about", "--write", text="n\n", terminal=True)
        assert (refused.code, server.requests) == (1, [])
        assert f"1 memory would go to any at {server.url}: 1 call, about " in refused.err
        stopped = tellback.json("memories", "about", "--write", "--yes", "--most-tokens", "10")
        assert (stopped["memories"], stopped["written"], stopped["stopped"]) == (1, 0, True)
        done = tellback("memories", "about", "--write", text="y\n", terminal=True)
        assert (done.code, done.out) == (0, "1 line written, 0 state nothing\n")
        assert "200 + 20 tokens" in done.err
    assert tellback("memories", "about", "--write", "--yes").out.startswith("No memory")
    assert "spare house key: who keeps" in tellback("memories", "list").out
    assert "took back" in tellback("undo", "--yes").out
    assert tellback.json("memories")["memories"] == []


@pytest.mark.parametrize(
    ("lines", "address", "model", "written"),
    [
        ("auto", "http://127.0.0.1:1/v1", "any", True),
        ("auto", "https://example.com/v1", "any", False),
        ("on", "https://example.com/v1", "any", True),
        ("off", "http://127.0.0.1:1/v1", "any", False),
        ("on", "http://127.0.0.1:1/v1", None, False),
    ],
)
def test_lines_are_written_beside_a_chat_where_the_model_is_on_this_machine_or_as_set(
    lines: str, address: str, model: str | None, *, written: bool
) -> None:
    settings = AssistantSettings(lines=lines, base_url=address, model=model)  # type: ignore[arg-type]
    assert writes_lines(settings) is written


def test_a_chat_has_lines_written_for_what_was_said_in_it_and_stored_before(
    tellback: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tellback("remember", "Our car is blue.")
    monkeypatch.delenv("TELLBACK_LINES")
    monkeypatch.setenv("TELLBACK_MODEL", "any")
    with OpenAIServer(Reply("Ok."), reply("our car: colour", "spare key: keeper", "")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        done = tellback("chat", text="Anna has our spare key.\n")
    assert (done.code, done.out) == (0, "Ok.\n")
    assert "noted what 2 memories are about · 200 + 20 tokens\n" in done.err
    lines = {memory["text"]: memory["about"] for memory in tellback.json("memories")["memories"]}
    assert (lines["Our car is blue."], lines["Anna has our spare key."]) == ("our car: colour", "spare key: keeper")


@pytest.fixture
def on_disk(tmp_path: Path) -> AssistantSettings:
    return AssistantSettings(memory=tmp_path / "m.db", model="any", lines="on")


def test_a_turn_drops_the_lines_that_are_being_written_and_they_are_written_after_it(
    on_disk: AssistantSettings,
) -> None:
    announced: list[Announcement] = []
    worker = BackgroundWorker(announced.append)
    with OpenAIServer(RawReply([60.0]), reply("spare key: keeper")) as server:
        opened = open_configured_memory(replace(on_disk, base_url=server.url))
        run_sync(opened.memory.remember("Anna has our spare key."))
        worker.submit(opened, None)
        assert wait_until(lambda: server.requests)
        worker.pause()
        assert run_sync(lines_of(opened.memory)) == [("", "")]
        worker.submit(opened, None)
        assert worker.close(patience=30)
        assert run_sync(lines_of(opened.memory)) == [("spare key: keeper", "model")]
        run_sync(opened.close())
    assert len(announced) == 1


def test_a_model_that_fails_to_write_lines_is_reported_once_and_asked_no_more(on_disk: AssistantSettings) -> None:
    announced: list[Announcement] = []
    worker = BackgroundWorker(announced.append)
    with OpenAIServer(FAILURE) as server:
        opened = open_configured_memory(replace(on_disk, base_url=server.url))
        run_sync(opened.memory.remember("Anna has our spare key."))
        worker.submit(opened, None)
        assert wait_until(lambda: announced)
        worker.submit(opened, None)
        assert worker.close(patience=60)
        run_sync(opened.close())
    assert len(server.requests) == 1
    assert [type(note) for note in announced] == [LinesFailed]
