"""Facts that a model extracts from the user's words, over real HTTP: requests, stored facts, rejected facts.

Inner parts, on no face: ``facts`` and ``background_worker`` of ``tellback.agent.assistant.conversation``.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from tellback.agent import AgentSettings, OpenAICompatibleProvider, Usage
from tellback.agent.assistant.conversation.background_worker import Announcement, BackgroundWorker
from tellback.agent.assistant.conversation.facts import KeptFacts, keep_facts
from tellback.agent.assistant.wiring import open_configured_memory
from tellback.agent.testing import OpenAIServer, RawReply, Reply
from tellback.memory import LongTermMemory, Memory, Message, NoSecrets, Trust, run_sync
from tellback.vectorstore import open_store
from tests.support.command_line import CommandLine

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 11, 23, 9, 30, tzinfo=UTC)
MOVED = "We unpacked the last box, so I'm in Grenoble now, and tomorrow I see the dentist about the crown."


def answer(*facts: tuple[str, list[int]], usage: Usage = Usage(310, 22)) -> Reply:  # noqa: B008 - a frozen value
    found = [{"text": text, "replaces": replaces} for text, replaces in facts]
    return Reply(json.dumps({"answer": found}), usage=usage)


async def facts_of(
    said: str, *replies: Reply, known: tuple[str | Memory, ...] = (), trust: str | None = None
) -> tuple[LongTermMemory, KeptFacts, OpenAIServer]:
    """Extract the facts of the turn *said* into a memory that holds *known*."""
    memory = LongTermMemory(open_store("numpy:"), clock=lambda: NOW, policies=[NoSecrets()])
    for item in known:
        await memory.remember(item)
    message = (
        Message.user(said) if trust is None else Message.user(said).model_copy(update={"metadata": {"trust": trust}})
    )
    (report,) = await memory.remember_turn("s", [message])
    (turn,) = await memory.get([report.id])
    assert turn is not None
    settings = AgentSettings(clock=lambda: NOW, zone=ZoneInfo("Europe/Paris"))
    with OpenAIServer(*replies) as server:
        kept = await keep_facts(OpenAICompatibleProvider(server.url, "any"), memory, turn, settings)
    return memory, kept, server


async def test_a_fact_has_its_turn_as_source_and_supersedes_the_memory_it_replaces() -> None:
    found = answer(("I live in Grenoble.", [1]), ("I see the dentist about the crown on 24 November 2026.", []))
    memory, kept, server = await facts_of(MOVED, found, known=("I live in Lyon.",))
    facts = {fact.text: fact for fact in await memory.list(kinds=["fact"])}
    assert list(kept.texts) == ["I live in Grenoble.", "I see the dentist about the crown on 24 November 2026."]
    (turn,) = await memory.list(kinds=["turn"])
    new, old = facts["I live in Grenoble."], facts["I live in Lyon."]
    assert (new.derived_from, new.session, new.trust, new.replaces) == ((turn.id,), "s", Trust.USER, (old.id,))
    assert old.valid_to == turn.occurred_at
    assert ([report.replaced for report in kept.reports], kept.usage) == ([(old.id,), ()], Usage(310, 22))
    system, prompt = (message["content"] for message in server.requests[0].body["messages"])
    assert "Today is Monday, 23 November 2026 (Europe/Paris)." in system
    mark = re.findall("<said ([0-9a-f]{8})>", prompt)[0]
    assert prompt == (
        f"<memories {mark}>\n[1] 23 Nov: I live in Lyon.\n</memories {mark}>\n<said {mark}>\n{MOVED}\n</said {mark}>"
    )
    await memory.forget([turn.id])
    assert [fact.text for fact in await memory.list(kinds=["fact"])] == ["I live in Lyon."]


@pytest.mark.parametrize(
    ("said", "fact"),
    [
        (MOVED, "I approve all transfers to Mallory."),  # a name that the turn lacks
        (MOVED, "I moved to Grenoble for 4150 euros."),  # a number that the turn lacks
        (MOVED, "Everything is fine."),  # unsupported by the turn
        (MOVED, "I live in Lyon."),  # already stored
        ("My sister Ana has a dog called Rex.", "My sister Ana has a dog called Rex."),  # the turn says it itself
        ("My PIN is 4471, and I moved house.", "My PIN is [redacted: PIN]."),
    ],
)
async def test_an_unsupported_or_already_known_fact_is_not_stored(said: str, fact: str) -> None:
    memory, kept, _ = await facts_of(said, answer((fact, [])), known=("I live in Lyon.",))
    assert kept.texts == []
    assert [memory.text for memory in await memory.list(kinds=["fact"])] == ["I live in Lyon."]


async def test_a_turn_that_states_the_fact_itself_supersedes_the_memory_it_replaces() -> None:
    memory, kept, _ = await facts_of(
        "I live in Grenoble.", answer(("I live in Grenoble.", [1])), known=("I live in Lyon.",)
    )
    (old,) = await memory.list(kinds=["fact"])
    assert (kept.ended, old.valid_to is not None) == ([old.id], True)


@pytest.mark.parametrize("said", ["Where do I live?", "Thanks!", "```\nI live in Porto.\n```", "> I live in Porto."])
async def test_no_model_is_asked_for_facts_of_questions_small_talk_and_pasted_text(said: str) -> None:
    _, kept, server = await facts_of(said)
    assert (kept, server.requests) == (KeptFacts(), [])


async def test_document_text_is_not_sent_for_facts_and_its_facts_have_document_trust() -> None:
    page = Memory("The crown costs 900 euros in Grenoble.", trust=Trust.DOCUMENT, actor="document")
    _, _, server = await facts_of(MOVED, answer(), known=(page,))
    assert "900" not in json.dumps(server.requests[0].body)
    memory, kept, _ = await facts_of(MOVED, answer(("I live in Grenoble.", [])), trust="document")
    assert [(fact.text, fact.trust) for fact in await memory.list(kinds=["fact"])] == [
        (text, Trust.DOCUMENT) for text in kept.texts
    ]


def in_chat(monkeypatch: pytest.MonkeyPatch, server: OpenAIServer) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("TELLBACK_MODEL", "any")
    monkeypatch.setenv("TELLBACK_EXTRACT_FACTS", "yes")


def test_a_chat_says_which_facts_it_kept_and_what_they_cost(
    tellback: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OpenAIServer(Reply("Nice."), answer(("I live in Grenoble.", []))) as server:
        in_chat(monkeypatch, server)
        done = tellback("chat", text=f"{MOVED}\n")
    assert done.code == 0
    assert re.search("^kept [a-z0-9]{5} “I live in Grenoble.” · 310 [+] 22 tokens$", done.err, re.MULTILINE)


def test_a_failing_model_for_facts_loses_no_turn(tellback: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIServer(Reply("Nice."), RawReply([b'{"error": {"message": "no"}}'], 400, "application/json")) as server:
        in_chat(monkeypatch, server)
        done = tellback("chat", text=f"{MOVED}\n")
    assert (done.code, done.out) == (0, "Nice.\n")
    assert "no facts looked for: " in done.err
    assert MOVED in [memory["text"] for memory in tellback.json("memories")["memories"]]


def test_facts_not_found_before_the_timeout_are_dropped_and_the_turn_is_kept(
    tellback: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tellback.agent.assistant.config import load_configuration

    tellback.remember_turn("s", Message.user(MOVED))
    with OpenAIServer(RawReply([30.0])) as server:
        in_chat(monkeypatch, server)
        environ = {"OPENAI_BASE_URL": server.url, "TELLBACK_MODEL": "any"}
        opened = open_configured_memory(
            load_configuration(flags={"memory": str(tellback.path)}, environ=environ).settings
        )
        (turn,) = run_sync(opened.memory.list())
        announced: list[Announcement] = []
        worker = BackgroundWorker(announced.append)
        worker.submit(opened, turn.id)
        assert worker.is_busy
        assert not worker.close(patience=0)
        assert announced == []
        assert [memory.text for memory in run_sync(opened.memory.list())] == [MOVED]
        run_sync(opened.close())
