"""A memory on another machine: commands by its address, what was refused, and hooks; the server is a real one.

Inner parts, on no face: ``tellback.agent.assistant.cli``, ``tellback.agent.assistant.hooks``,
``tellback.agent.assistant.remote_memory``, ``tellback.agent.assistant.resident``,
``tellback.agent.assistant.setting_checks``, ``tellback.agent.desk.desk``.
"""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import httpx
import pytest

pytest.importorskip("fastapi", reason="the extra 'web' is not installed")
pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")

from mcp import Client

from tellback.agent.assistant.cli.app import run_command_line
from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.hooks.hook_call import HookCall, HookReply
from tellback.agent.assistant.hooks.service import serve_hook
from tellback.agent.assistant.remote_memory import RemoteMemory
from tellback.agent.assistant.resident.memory_pool import MemoryPool
from tellback.agent.assistant.setting_checks import Secret
from tellback.agent.desk.desk import MemoryDesk
from tellback.agent.mcp import MemoryServerTools, make_memory_server
from tellback.memory import LongTermMemory, Memory, Message, run_sync
from tests.support.clients import CodingSession
from tests.support.served_memory import BEARER, TOKEN, serving


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Yield the address of a server in a thread of its own."""
    ready, loop = threading.Event(), asyncio.new_event_loop()
    place: list[str] = []
    ended = asyncio.Event()

    async def serve() -> None:
        async with serving(AssistantSettings(memory=tmp_path / "m.db", embedder="none")) as where:
            place.append(where)
            ready.set()
            await ended.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait(60)
    yield place[0]
    loop.call_soon_threadsafe(ended.set)
    thread.join()
    loop.close()


def test_commands_work_over_the_address_of_a_server_as_over_a_file(address: str, monkeypatch, capsys) -> None:
    monkeypatch.setenv("TELLBACK_TOKEN", TOKEN)

    def tellback(*words: str) -> dict:
        code = run_command_line(["--memory", address, "--model", "none", "--json", *words])
        told = capsys.readouterr()
        return {"code": code, "err": told.err, **json.loads(told.out or "{}")}

    kept = tellback("remember", "My sister Ana lives in Porto.")
    found = tellback("recall", "Where does Ana live?")
    asked = tellback("ask", "Where does Ana live?")
    tellback("correct", kept["id"], "My sister Ana lives in Braga.")
    people = tellback("memories", "people")["people"]
    split = tellback("memories", "people", "split", "Ana", "my sister")
    left = tellback("memories", "people")["people"]
    listed = tellback("memories", "list")
    shown = tellback("memories", "show", kept["id"][-5:])
    counted = tellback("memories", "stats")
    forgotten = tellback("forget", kept["id"], "--yes")
    gone = tellback("recall", "Where does Ana live?")
    ingested = tellback("ingest", __file__)
    monkeypatch.setenv("TELLBACK_TOKEN", "another-token-of-nobody")
    refused = tellback("recall", "Where does Ana live?")
    assert kept["outcome"] == "stored"
    assert [hit["text"] for hit in found["hits"]] == ["My sister Ana lives in Porto."]
    assert "Porto" in asked["answer"]
    assert [memory["text"] for memory in listed["memories"]] == ["My sister Ana lives in Braga."]
    assert [(one["name"], one["role"], one["memory"]["id"]) for one in people] == [("Ana", "my sister", kept["id"])]
    assert (split["code"], left) == (0, [])
    assert (shown["id"], shown["revision"], counted["memories"]) == (kept["id"], 3, 1)
    assert forgotten["code"] == 0
    assert gone["hits"] == []
    assert (ingested["code"], "documents: the memory is on a server" in ingested["err"]) == (3, True)
    assert refused["code"] != 0
    assert "token" in refused["err"]


def test_marks_ends_merges_and_reasons_work_over_the_address_of_a_server(address: str, monkeypatch, capsys) -> None:
    monkeypatch.setenv("TELLBACK_TOKEN", TOKEN)

    def tellback(*words: str) -> dict:
        assert run_command_line(["--memory", address, "--model", "none", "--json", *words]) == 0, capsys.readouterr()
        return json.loads(capsys.readouterr().out)

    porto, braga, bike = (
        tellback("remember", text)["id"] for text in ("I live in Porto.", "I live in Braga.", "My bike is red.")
    )
    contradicting = tellback("memories", "conflicts")["conflicts"]
    tellback("memories", "settle", porto, braga, "--keep", porto)
    tellback("memories", "pin", bike)
    tellback("memories", "tag", bike, "--tag", "things")
    tellback("memories", "about", bike, "the user's bike: colour")
    marked = tellback("memories", "show", bike)
    tellback("memories", "disable", bike)
    reason = tellback("why-not", "Which colour has my bike?", bike)
    tellback("memories", "enable", bike)
    tellback("memories", "end", porto, "--at", "2030-01-01")
    merged = tellback("memories", "merge", porto, bike, "--text", "I live in Porto and have a red bike.")
    history = tellback("memories", "history", porto)
    assert {id for conflict in contradicting for id in conflict["ids"]} == {porto, braga}
    assert (marked["pinned"], marked["tags"], marked["about"]) == (True, ["things"], "the user's bike: colour")
    assert reason["stage"] == "disabled"
    assert merged["id"] == porto
    assert history["versions"][0]["text"] == "I live in Porto and have a red bike."
    assert {"merge", "end"} <= {operation["kind"] for operation in history["operations"]}


def test_filters_select_on_a_server_what_is_listed_and_counted(address: str, monkeypatch, capsys) -> None:
    """What is shown of it without what is marked sensitive is selected by a filter, too."""
    monkeypatch.setenv("TELLBACK_TOKEN", TOKEN)

    def listed(*words: str) -> tuple[list[str], int]:
        code = run_command_line(["--memory", address, "--model", "none", "--json", "memories", "list", *words])
        told = capsys.readouterr()
        assert code == 0, told.err
        found = json.loads(told.out)
        return [memory["text"] for memory in found["memories"]], found["total"]

    async def fill() -> list[str]:
        memory = RemoteMemory(address, TOKEN)
        day = datetime(2024, 5, 1, tzinfo=UTC)
        await memory.remember(Memory("My bike is red.", tags=("things",), scopes={"project": "atlas"}, occurred_at=day))
        await memory.remember(Memory("My doctor is Dr Klein.", kind="note", sensitive=True))
        shown = await MemoryDesk(memory=cast("LongTermMemory", memory)).page()
        await memory.close()
        return [found.text for found in shown]

    shown = run_sync(fill())
    bike, doctor = (["My bike is red."], 1), (["My doctor is Dr Klein."], 1)
    assert listed("--tag", "things") == bike
    assert listed("--kind", "note") == doctor
    assert listed("--before", "2024-06-01") == bike
    assert listed("--scope", "project=atlas", "--not-disabled") == bike
    assert listed("--where", '{"sensitive": true}') == doctor
    assert shown == ["My bike is red."]


def test_profile_and_citations_of_a_memory_on_a_server_are_shown_as_of_a_file(
    address: str, monkeypatch, capsys
) -> None:
    """A citation of a document names it without its place, since that is no file of this machine."""
    monkeypatch.setenv("TELLBACK_TOKEN", TOKEN)

    def tellback(*words: str) -> str:
        assert run_command_line(["--memory", address, "--model", "none", *words]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    async def upload() -> None:
        memory = RemoteMemory(address, TOKEN)
        await memory.remember(Memory("I work at the harbour.", sensitive=True))
        known, hidden = await memory.profile(), await memory.profile(where={"sensitive": {"$ne": True}})
        assert ("harbour" in str(known.entries), "harbour" in str(hidden.entries)) == (True, False)
        async with httpx.AsyncClient() as client:
            files = {"files": ("lease.md", b"# Lease\n\nThe lease of the flat ends in May 2030.\n")}
            answer = await client.post(f"{address}/api/v1/documents", files=files, headers=BEARER)
        assert answer.status_code == 200
        await memory.close()

    tellback("remember", "I live in Lisbon.")
    tellback("remember", "My name is Nora.")
    run_sync(upload())
    profile = json.loads(tellback("--json", "memories", "profile"))
    asked = tellback("ask", "Where do I live?")
    of_document = tellback("ask", "When does the lease of the flat end?")
    (found, *_) = json.loads(tellback("--json", "recall", "When does the lease of the flat end?"))["hits"]
    shown = tellback("show", found["id"])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"Where do I live?\n")))
    chatted = tellback("chat")
    told = {entry["topic"]: entry["text"] for entry in profile["entries"]}
    assert (told["home"], told["name"]) == ("I live in Lisbon.", "My name is Nora.")
    assert "[1]" in asked
    assert "May 2030" in of_document
    assert "[1] lease.md" in of_document
    assert "May 2030" in shown
    assert "I live in Lisbon." in chatted


def test_a_turn_of_a_hook_is_kept_on_the_server_and_read_again(address: str) -> None:
    async def exchange() -> tuple[list[str], list[str], str | None]:
        memory = RemoteMemory(address, TOKEN)
        turn = [Message.user("My bicycle has the frame number 4711."), Message.assistant("I keep that in mind.")]
        reports = await memory.remember_turn("s", turn)
        said = await memory.conversations.load("s")
        (hit, *_) = await memory.recall("Which frame number has my bicycle?")
        await memory.close()
        return [report.outcome for report in reports], [one.message.text for one in said], hit.memory.session

    outcomes, said, session = run_sync(exchange())
    assert outcomes[0] == "stored"
    assert said == ["My bicycle has the frame number 4711.", "I keep that in mind."]
    assert session == "s"


def test_a_hook_gives_a_prompt_what_the_server_knows(address: str) -> None:
    async def told() -> str:
        memory = RemoteMemory(address, TOKEN)
        try:
            await memory.remember(Memory("My sister Ana lives in Porto."))
            prompt = {"session_id": "s", "prompt": "Where does my sister Ana live?", "cwd": "/"}
            call = HookCall("claude-code", "UserPromptSubmit", prompt, "/", datetime.now(UTC))
            replies: list[HookReply] = []
            settings = AssistantSettings(hook_keep="nothing")
            await serve_hook(call, replies.append, memory=cast("LongTermMemory", memory), settings=settings)
            return replies[0].stdout
        finally:
            await memory.close()

    assert "My sister Ana lives in Porto." in asyncio.run(told())


def test_hooks_give_a_memory_on_a_server_once_a_session_until_it_was_not_useful_and_what_they_gave_is_listed(
    address: str, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.setenv("TELLBACK_TOKEN", TOKEN)
    first, again, like = "Where does my sister Ana live?", "Does my sister Ana live far off?", "Where does Ana live?"

    def prompt(session: str, *prompts: str) -> list[bool]:
        """Return which of the *prompts* of a *session* were given the memory; each is answered."""

        async def call() -> list[bool]:
            memory = RemoteMemory(address, TOKEN)
            calls = CodingSession(cast("LongTermMemory", memory), tmp_path, session)
            try:
                given = []
                for text in prompts:
                    given.append("Ana lives in Porto" in await calls.prompt(text))
                    await calls.stop("I see.")
                return given
            finally:
                await memory.close()

        return asyncio.run(call())

    def tellback(*words: str) -> str:
        assert run_command_line(["--memory", address, "--model", "none", *words]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    id = json.loads(tellback("--json", "remember", "My sister Ana lives in Porto."))["id"]
    once = prompt("s1", first, again)
    listed = json.loads(tellback("--json", "memories", "given"))["given"]
    tellback("memories", "given", "--not-useful", id[-5:])
    marked = prompt("s2", like)
    shown = tellback("memories", "given")
    tellback("memories", "given", "--useful", id)
    assert (once, marked, prompt("s3", like)) == ([True, False], [False], [True])
    (entry,) = listed
    assert (entry["client"], entry["session"], entry["prompt"]) == ("claude-code", "claude-code:s1", first)
    assert [(given["id"], given["is_useful"]) for given in entry["memories"]] == [(id, True)]
    assert "not useful" in shown


def test_a_hook_does_not_keep_again_what_was_forgotten_on_the_server(address: str, tmp_path: Path) -> None:
    async def said() -> list[str]:
        memory = RemoteMemory(address, TOKEN)
        session = CodingSession(cast("LongTermMemory", memory), tmp_path)
        try:
            await session.prompt("The code of the gate is 4417.")
            session.write_user("The code of the gate is 4417.")
            (found,) = await memory.list()
            await memory.forget([found.id])
            await session.stop("I see.")
            return [stored.message.text for stored in await memory.conversations.load("claude-code:s1")]
        finally:
            await memory.close()

    assert asyncio.run(said()) == ["I see."]


def test_an_mcp_client_keeps_and_recalls_by_a_memory_on_a_server(address: str) -> None:
    async def told() -> list[str]:
        memory = RemoteMemory(address, TOKEN)
        try:
            service = MemoryServerTools(cast("LongTermMemory", memory), "")
            async with Client(make_memory_server(service, version="1.0")) as client:
                kept = await client.call_tool("remember", {"text": "My sister Ana lives in Porto."})
                found = await client.call_tool("recall", {"query": "Where does Ana live?"})
                return [kept.content[0].text, found.content[0].text]
        finally:
            await memory.close()

    kept, found = asyncio.run(told())
    assert kept.startswith("stored")
    assert "My sister Ana lives in Porto." in found


def test_a_resident_has_no_log_to_empty_of_a_memory_on_a_server() -> None:
    pool = MemoryPool()
    settings = AssistantSettings(memory="http://127.0.0.1:9", token=Secret(TOKEN))
    with pool.lend(settings, create=False):
        pass
    pool.empty_logs()
    assert pool.release() == 1


def test_an_address_without_tls_is_refused_but_for_this_machine(capsys) -> None:
    code = run_command_line(["--memory", "http://memory.example.org", "recall", "Where?"])
    assert code == 2
    assert "https" in capsys.readouterr().err
