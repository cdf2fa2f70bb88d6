"""A model as the judge of replacements, over real HTTP: its requests, replacements and usage."""

from __future__ import annotations

import pytest

from tellback.agent import Agent, OpenAICompatibleProvider, Usage
from tellback.agent.callables import replacement_judge
from tellback.agent.testing import OpenAIServer, RawReply, Reply
from tellback.memory import FunctionEmbedder, LongTermMemory, Memory
from tellback.vectorstore import open_store
from tests.support.command_line import CommandLine

pytestmark = pytest.mark.anyio
HOME = "I live in Lisbon with two cats."
CHANGE = "The boxes are everywhere, the cats hate the new flat."


def judged(server: OpenAIServer) -> LongTermMemory:
    """Return a memory in which all texts are similar, with the model of *server* as the judge."""
    alike = FunctionEmbedder(lambda texts: [[1.0, 0.0]] * len(texts), dimension=2, fingerprint="alike", remote=False)
    judge = replacement_judge(OpenAICompatibleProvider(server.url, "any"))
    return LongTermMemory(open_store("numpy:"), embedder=alike, policies=[judge])


async def test_the_model_decides_what_a_statement_replaces_and_sees_the_notes_as_marked_data() -> None:
    with OpenAIServer(Reply("It is the first.\n1, 7"), Reply("none")) as server:
        memory = judged(server)
        home = await memory.remember(HOME)
        report = await memory.remember(CHANGE)
        plan = await memory.remember("Perhaps we shall move again.")
    asked = server.requests[0].body["messages"]
    assert f"older 1 ({(await memory.list())[0].recorded_at:%Y-%m-%d}): {HOME}" in asked[1]["content"]
    assert asked[1]["content"].count(CHANGE) == 1
    assert (report.replaced, plan.replaced) == ((home.id,), ())
    (old,) = await memory.get([home.id])
    assert old is not None
    assert old.valid_to is not None


async def test_questions_and_answers_of_a_model_are_not_judged_and_sensitive_ones_not_shown() -> None:
    with OpenAIServer() as server:
        memory = judged(server)
        judge = replacement_judge(OpenAICompatibleProvider("https://example.com/v1", "any"))
        far = LongTermMemory(open_store("numpy:"), embedder=memory.embedder, policies=[judge])
        await memory.remember_many(
            [
                Memory("Where is the key?", kind="turn", role="user", session="s", sequence=0),
                Memory("Where is the cat?", kind="turn", role="user", session="s", sequence=1),
                Memory("The cat is in the box.", kind="turn", role="assistant", session="s", sequence=2),
            ]
        )
        assert server.requests == []
        await far.remember(Memory(HOME, sensitive=True))
        assert (await far.remember(CHANGE)).reason == ""  # the unreachable server was not asked


async def test_a_judge_that_fails_replaces_nothing_and_its_tokens_count_for_the_run() -> None:
    used = Usage(input=100, output=3)
    with OpenAIServer(Reply("Noted.", usage=used), Reply("1", usage=used), RawReply([b"{}"], 500)) as server:
        memory = judged(server)
        home = await memory.remember(HOME)
        async with Agent(OpenAICompatibleProvider(server.url, "any"), memory=memory) as agent:
            result = await agent.run(CHANGE)
        failed = await memory.remember("I live in Porto.")
    assert [report.replaced for report in result.stored if report.replaced] == [(home.id,)]
    assert (result.calls, result.usage.input, result.usage.output) == (2, 200, 6)
    assert failed.stored
    assert failed.replaced == ()
    assert "500" in failed.reason


def test_the_command_line_has_the_judge_off_unless_it_is_set(
    tellback: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TELLBACK_REPLACEMENTS", "model")
    assert "needs a model, which judges them" in tellback("remember", HOME).err
    with OpenAIServer(Reply("1")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("TELLBACK_MODEL", "any")
        tellback("remember", "I live in Lisbon.")
        done = tellback("remember", "I live in Porto.")
        monkeypatch.delenv("TELLBACK_REPLACEMENTS")
        tellback("remember", "I live in Rome.")
    assert len(server.requests) == 1
    assert "replaces" in done.out
