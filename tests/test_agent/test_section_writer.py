"""Lines that a model writes at ingest for passages, over real HTTP: kept while the words stay, erased with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tellback.agent import OpenAICompatibleProvider, Usage
from tellback.agent.callables import SectionWriter
from tellback.agent.testing import OpenAIServer, Reply
from tellback.memory import KnowledgeBase, LongTermMemory
from tests.support.command_line import CommandLine

pytestmark = pytest.mark.anyio
BOILER = "# Heating\n\nPress the red knob for three seconds, then wait for the second click before you let go of it."
SINK = "# Water\n\nThe valve under the basin turns clockwise, and closes the line to the whole kitchen at once."


def reply(*lines: str) -> Reply:
    return Reply(
        json.dumps({"lines": [{"n": n, "about": line} for n, line in enumerate(lines, 1)]}), usage=Usage(300, 30)
    )


async def test_a_passage_is_found_by_its_line_which_stays_while_its_words_do(memory: LongTermMemory) -> None:
    knowledge = KnowledgeBase(memory)
    await knowledge.ingest_text(BOILER, source="boiler.md")
    await knowledge.ingest_text(SINK, source="sink.md")
    with OpenAIServer(reply("How do I light the furnace?", "")) as server:
        writer = SectionWriter(OpenAICompatibleProvider(server.url, "any"))
        estimate = await writer.estimate(knowledge)
        (done,) = [step async for step in writer.write(knowledge)]
        assert [step async for step in writer.write(knowledge)] == []
    assert (estimate.memories, estimate.calls, done.written, done.silent, done.tokens) == (2, 1, 1, 1, 330)
    assert "1 (Heating): # Heating Press the red knob" in server.requests[0].body["messages"][1]["content"]
    (found,) = await knowledge.retrieve("light the furnace", 1)
    assert (found.document, "furnace" in found.text) == ("boiler.md", False)
    await knowledge.ingest_text(BOILER + "\n\n## Filters\n\nRinse them in spring.", source="boiler.md")
    (found,) = await knowledge.retrieve("light the furnace", 1)
    assert found.document == "boiler.md"
    assert await knowledge.remove("boiler.md")
    assert not [passage for passage in await knowledge.retrieve("furnace", 3) if passage.document == "boiler.md"]


def test_ingest_lets_the_model_write_lines_within_the_limit_of_tokens(
    tellback: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "manuals"
    folder.mkdir()
    (folder / "boiler.md").write_text(BOILER, "utf-8")
    assert "no model is set" in tellback("ingest", folder, "--lines").err
    monkeypatch.setenv("TELLBACK_MODEL", "any")
    with OpenAIServer(reply("How do I light the furnace?")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        stopped = tellback("ingest", folder, "--lines", "--most-tokens", "10")
        assert (stopped.code, server.requests) == (0, [])
        assert "the same command goes on" in stopped.err
        done = tellback("ingest", folder, "--lines")
    assert (done.code, "1 line written, 330 tokens" in done.err) == (0, True)
    monkeypatch.delenv("TELLBACK_MODEL")
    assert "red knob" in tellback("recall", "light the furnace").out
