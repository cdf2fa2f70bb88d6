"""The HTTP API over real sockets: what a caller with the token does, and requests that are refused.

Inner parts, on no face: ``tellback.agent.assistant.server``, ``tellback.agent.http_listener``.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra 'web' is not installed")

import httpx

from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.server.chat_stream import chat_stream
from tellback.agent.assistant.server.open_memory import ServedMemory
from tellback.agent.assistant.wiring import open_configured_memory
from tellback.memory import Memory, open_memory
from tests.support.served_memory import API, served

pytestmark = pytest.mark.anyio


async def test_a_memory_is_stored_found_corrected_and_forgotten_and_all_of_it_undone(tmp_path: Path) -> None:
    async with served(tmp_path / "m.db") as client:
        stored = (await client.post(f"{API}/memories", json={"text": "I live in Porto.", "key": "home"})).json()
        again = (await client.post(f"{API}/memories", json={"text": "I live in Porto.", "key": "home"})).json()
        assert (stored["outcome"], again["outcome"], again["id"]) == ("stored", "duplicate", stored["id"])
        id = stored["id"]
        (hit,) = (await client.post(f"{API}/recall", json={"question": "Where do I live?"})).json()["hits"]
        assert (hit["id"], hit["trust"], hit["text"]) == (id, "user", "I live in Porto.")
        read = await client.get(f"{API}/memories/{id[-5:]}")
        tag = read.headers["etag"]
        new = {"text": "I live in Braga."}
        assert (await client.put(f"{API}/memories/{id}", json=new, headers={"If-Match": tag})).status_code == 200
        lost = await client.put(f"{API}/memories/{id}", json={"text": "I live in Faro."}, headers={"If-Match": tag})
        assert (lost.status_code, lost.json()["title"]) == (412, "RevisionConflict")
        assert len((await client.get(f"{API}/memories/{id}/history")).json()["versions"]) == 2

        plan = (await client.post(f"{API}/forget", json={"ids": [id], "grace_days": 1})).json()
        assert (plan["done"], [memory["text"] for memory in plan["concerned"]]) == (False, ["I live in Braga."])
        done = (
            await client.post(f"{API}/forget", json={"ids": [id], "grace_days": 1, "confirm": plan["confirm"]})
        ).json()
        assert done["done"]
        assert (await client.get(f"{API}/memories/{id}")).status_code == 404
        (last, *_) = (await client.get(f"{API}/operations")).json()
        assert (await client.post(f"{API}/operations/{last['id']}/undo")).status_code == 200
        page = (await client.get(f"{API}/memories", params={"contains": "braga"})).json()
    assert [memory["text"] for memory in page["memories"]] == ["I live in Braga."]
    memory = open_memory(tmp_path / "m.db", choose_local=False)
    (kept,) = await memory.list()
    await memory.close()
    assert kept.text == "I live in Braga."  # as another process reads it


async def test_relatives_are_named_renamed_merged_and_split(tmp_path: Path) -> None:
    async with served(tmp_path / "m.db") as client:

        async def people() -> list[tuple[str, str]]:
            found = (await client.get(f"{API}/people")).json()
            return sorted((person["name"], person["role"]) for person in found)

        await client.post(f"{API}/people", json={"name": "Ana", "role": "my sister"})
        renamed = {"name": "Hanna", "role": "my sister", "instead_of": "Ana"}
        assert (await client.post(f"{API}/people", json=renamed)).status_code == 200
        await client.post(f"{API}/people", json={"name": "Hanna", "role": "my colleague"})
        assert await people() == [("Hanna", "my colleague"), ("Hanna", "my sister")]
        split = (await client.post(f"{API}/people/split", json={"name": "Hanna", "role": "my sister"})).json()
        assert await people() == [("Hanna", "my colleague")]
        await client.post(f"{API}/operations/{split['id']}/undo")
        assert len(await people()) == 2
        unknown = await client.post(f"{API}/people/split", json={"name": "Nobody", "role": "my aunt"})
    assert unknown.status_code == 422


async def test_documents_are_uploaded_and_a_chat_streams_its_events_and_what_it_kept(tmp_path: Path) -> None:
    async with served(tmp_path / "m.db") as client:
        files = {"files": ("../../bridge.md", b"# The bridge\n\nThe bridge was opened in 1932.\n")}
        (line,) = (await client.post(f"{API}/documents", files=files)).json()["documents"]
        assert line["action"] == "added"
        (document,) = (await client.get(f"{API}/documents")).json()
        assert document["chunks"] == 1
        told = await client.post(f"{API}/chat", json={"text": "My bicycle has the frame number 4711.", "session": "s"})
        asked = await client.post(f"{API}/chat", json={"text": "When was the bridge opened?", "session": "s"})
        wish = await client.post(f"{API}/chat", json={"text": "Forget my bicycle.", "session": "s"})
        openapi = (await client.get(f"{API}/openapi.json")).json()
    assert told.headers["content-type"].startswith("text/event-stream")
    assert _last(told)["kept"]["id"]
    assert "1932" in _last(asked)["text"]
    assert _last(asked)["citations"]
    assert (_last(wish)["kind"], len(_last(wish)["memories"])) == ("forget", 1)
    assert not list(tmp_path.parent.glob("bridge.md"))
    assert {"/api/v1/memories", "/api/v1/recall", "/api/v1/forget", "/api/v1/chat"} <= openapi["paths"].keys()


def _last(stream: httpx.Response) -> dict:
    return json.loads(stream.text.rstrip().rpartition("data: ")[2])


async def test_a_chat_whose_reader_goes_away_keeps_nothing_and_the_next_turn_is_answered(tmp_path: Path) -> None:
    settings = AssistantSettings(memory=tmp_path / "m.db", embedder="none")
    memory = ServedMemory(lambda: asyncio.to_thread(open_configured_memory, settings))
    opened = await memory.opened()
    broken_off = chat_stream(memory, opened, "s", "My bicycle has the frame number 4711.")
    events = [await anext(broken_off) for _ in range(2)]
    await broken_off.aclose()
    kept = await (await memory.opened()).desk.count()
    told = [event async for event in chat_stream(memory, opened, "s", "My bicycle has the frame number 4712.")]
    texts = [memory.text for memory in await (await memory.opened()).desk.page()]
    await memory.close()
    assert (events[0].startswith("event: session"), kept) == (True, 0)
    assert told[-1].startswith("event: turn_ended")
    assert texts == ["My bicycle has the frame number 4712."]


async def test_a_memory_that_cannot_be_opened_is_a_problem_in_each_answer(tmp_path: Path) -> None:
    (tmp_path / "m.db").write_bytes(b"no database" * 1_000)
    async with served(tmp_path / "m.db") as client:
        answers = [await client.get(f"{API}/stats"), await client.post(f"{API}/chat", json={"text": "Hello?"})]
    assert [answer.status_code for answer in answers] == [500, 500]
    assert {answer.headers["content-type"] for answer in answers} == {"application/problem+json"}


JSON = {"Content-Type": "application/json"}


async def test_a_body_without_a_length_is_cut_at_the_limit_and_a_larger_upload_is_refused(tmp_path: Path) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * 50_000

    sent: list[dict] = [
        {"url": f"{API}/recall", "content": endless(), "headers": JSON},
        {"url": f"{API}/documents", "files": {"files": ("a.txt", b"x" * 200_000)}},
    ]
    async with served(tmp_path / "m.db") as client:
        for request in sent:
            with suppress(httpx.TransportError):  # the answer may be lost where the client still sends
                assert (await client.post(**request)).status_code == 413
        assert (await client.get(f"{API}/documents")).json() == []


async def test_no_answer_and_no_log_has_a_secret_that_was_sent(tmp_path: Path, caplog) -> None:
    secret = "sk-proj-4f9sK2mQ8vXw7LzR1tYb3NcD5eGh6JkP"
    async with served(tmp_path / "m.db") as client:
        answers = [
            await client.post(f"{API}/memories", json={"text": 5, "key": secret}),
            await client.post(f"{API}/memories", json={"text": "x", secret: secret}),
            await client.get(f"{API}/memories/{secret}"),
            await client.post(f"{API}/recall", json={"question": "x", "where": {secret: {"$no": secret}}}),
            await client.post(f"{API}/forget", json={"ids": [secret]}),
            await client.post(f"{API}/operations/{secret}/undo"),
        ]
    assert [answer.status_code for answer in answers if answer.status_code < 400] == []
    assert not [answer.text for answer in answers if secret in answer.text]
    assert secret not in caplog.text
    assert all(answer.headers["content-type"] == "application/problem+json" for answer in answers)


async def test_no_call_reaches_what_another_namespace_holds(tmp_path: Path) -> None:
    memory = open_memory(tmp_path / "m.db", choose_local=False)
    other = await memory.remember("The heron is blue.")
    mine = await memory.remember("The heron is green.", namespace="ana")
    await memory.close()
    id, operation = other.id, other.operation
    async with served(tmp_path / "m.db", namespace="ana") as client:
        found = await client.post(f"{API}/recall", json={"question": "What is the colour of the heron?"})
        page = await client.get(f"{API}/memories")
        refused = [
            await client.get(f"{API}/memories/{id}"),
            await client.get(f"{API}/memories/{id[-5:]}"),
            await client.get(f"{API}/memories/{id}/history"),
            await client.put(f"{API}/memories/{id}", json={"text": "x"}),
            await client.post(f"{API}/memories/{id}/end", json={"at": None}),
            await client.post(f"{API}/memories", json={"text": "x", "replaces": [id]}),
            await client.post(f"{API}/memories", json={"text": "x", "namespace": ""}),
            await client.post(f"{API}/recall", json={"question": "heron", "namespace": ""}),
            await client.post(f"{API}/marks", json={"mark": "pin", "ids": [id]}),
            await client.post(f"{API}/merge", json={"ids": [mine.id, id], "text": "x"}),
            await client.post(f"{API}/forget", json={"ids": [id]}),
            await client.post(f"{API}/operations/{operation}/undo"),
        ]
        asked = await client.post(f"{API}/why-not", json={"question": "heron", "id": id})
        done = await client.get(f"{API}/operations")
        stats = (await client.get(f"{API}/stats")).json()
    shown = [hit["text"] for hit in found.json()["hits"]] + [memory["text"] for memory in page.json()["memories"]]
    assert shown == ["The heron is green."] * 2
    assert {answer.status_code for answer in refused} <= {404, 409, 422}
    assert stats["memories"] == 1
    assert operation not in done.text
    assert not [answer for answer in (*refused, asked) if "blue" in answer.text]


async def test_a_token_of_one_forgetting_confirms_no_other(tmp_path: Path) -> None:
    memory = open_memory(tmp_path / "m.db", choose_local=False)
    first = (await memory.remember("I like tea.")).id
    await memory.remember(Memory("I like rum.", pinned=True))
    await memory.close()
    async with served(tmp_path / "m.db") as client:
        token = (await client.post(f"{API}/forget", json={"ids": [first]})).json()["confirm"]
        other = await client.post(f"{API}/forget", json={"everything": True, "confirm": token})
        nothing = await client.post(f"{API}/forget", json={"confirm": token})
        count = (await client.get(f"{API}/stats")).json()["memories"]
    assert (other.json()["done"], nothing.status_code, count) == (False, 422, 2)


def test_a_taken_port_and_a_missing_memory_are_told_in_one_line(tmp_path: Path, capsys) -> None:
    from tellback.agent.assistant.cli.app import run_command_line

    with socket.create_server(("127.0.0.1", 0)) as taken:
        memory = str(tmp_path / "m.db")
        code = run_command_line(["--memory", memory, "serve", "--port", str(taken.getsockname()[1])])
    assert code != 0
    assert capsys.readouterr().err.count("\n") == 1


async def test_an_upload_that_is_not_waited_for_is_a_job_that_only_its_user_sees(tmp_path: Path) -> None:
    later = {"Prefer": "respond-async"}
    async with served(tmp_path / "m.db", namespace="ana/x") as client:
        files = [("files", ("bridge.md", b"# Bridge\n\nBridge 2 was opened in 1931.")), ("files", ("a.zip", b"PK\x03"))]
        answer = await client.post(f"{API}/documents", files=files, headers=later)
        assert answer.status_code == 202
        good, bad = (job["id"] for job in answer.json())

        async def ended(id: str) -> str:
            state = "waiting"
            while state in ("waiting", "running"):
                state = (await client.get(f"{API}/jobs/{id}")).json()["state"]
            return str(state)

        assert await ended(good) == "done"
        assert await ended(bad) == "failed"
        (document,) = (await client.get(f"{API}/documents")).json()
        assert document["source"] == "bridge.md"
        assert {job["id"] for job in (await client.get(f"{API}/jobs")).json()} == {good, bad}
        assert (await client.delete(f"{API}/jobs/{good}")).json()["state"] == "done"
    async with served(tmp_path / "m.db", namespace="ana") as client:
        assert (await client.get(f"{API}/jobs")).json() == []
        assert (await client.get(f"{API}/jobs/{good}")).status_code == 404


async def test_conversations_and_documents_are_read_page_by_page_asked_and_removed(tmp_path: Path) -> None:
    async with served(tmp_path / "m.db") as client:
        for text in ("My bicycle has the frame number 4711.", "The boiler is serviced in May."):
            await client.post(f"{API}/chat", json={"text": text, "session": text.split()[1]})
        (session,) = (await client.get(f"{API}/sessions", params={"about": "bicycle"})).json()
        first = (await client.get(f"{API}/sessions/bicycle/turns", params={"limit": 1})).json()
        second = (await client.get(f"{API}/sessions/bicycle/turns", params={"after": first["next"]})).json()
        half = b'{"messages": [{"role": "user", "blocks": [{"type": "text", "text": "half \\ud83d"}]}]}'
        refused = await client.post(
            f"{API}/sessions/bicycle/turns", content=half, headers={"Content-Type": "application/json"}
        )
        files = [("files", (f"{n}.md", f"# Bridge {n}\n\nBridge {n} was opened in 193{n}.".encode())) for n in range(3)]
        events = await client.post(f"{API}/documents", files=files, headers={"Accept": "text/event-stream"})
        asked = (await client.post(f"{API}/documents/ask", json={"question": "When was bridge 2 opened?"})).json()
        removed = await client.delete(f"{API}/documents", params={"source": "1.md"})
        again = await client.delete(f"{API}/documents", params={"source": "1.md"})
        left = [document["source"] for document in (await client.get(f"{API}/documents")).json()]
    assert session["session"] == "bicycle"
    assert first["turns"][0]["text"] == "My bicycle has the frame number 4711."
    assert (refused.status_code, "messages[0]" in refused.json()["detail"]) == (422, True), refused.text
    assert [turn["role"] for turn in second["turns"]] == ["assistant"]
    assert events.text.count("event: document") == 3
    assert [line["source"] for line in _last(events)["documents"]] == ["0.md", "1.md", "2.md"]
    assert "1932" in asked["citations"][0]["quote"]
    assert (removed.status_code, again.status_code, sorted(left)) == (200, 422, ["0.md", "2.md"])


async def test_an_export_streams_into_another_memory_and_the_owner_sees_to_the_file(tmp_path: Path) -> None:
    async with served(tmp_path / "m.db") as client:
        id = (await client.post(f"{API}/memories", json={"text": "I live in Porto."})).json()["id"]
        described = await client.put(f"{API}/memories/{id}/about", json={"about": "the user: home"})
        exported = await client.get(f"{API}/export")
        made = (await client.post(f"{API}/backup")).json()
        backups = (await client.get(f"{API}/backups")).json()
        ready = await client.get("/readyz", headers={"Authorization": ""})
        metrics = (await client.get("/metrics")).text
        reference = await client.get("/api/docs", headers={"Authorization": ""})
    async with served(tmp_path / "new.db") as client:
        taken = (await client.post(f"{API}/import", files={"file": ("e.jsonl", exported.content)})).json()
        (found,) = (await client.get(f"{API}/memories")).json()["memories"]
        broken = await client.post(f"{API}/import", files={"file": ("e.jsonl", exported.content[:-40])})
    assert (described.json()["outcome"], found["text"], found["id"]) == ("stored", "I live in Porto.", id)
    assert sum(taken["outcomes"].values()) == 1
    assert (broken.status_code, broken.json()["title"]) == (422, "UnreadableExport")
    assert [backup["name"] for backup in backups] == [made["name"]]
    assert ready.json() == {"status": "ready"}
    assert 'tellback_requests_total{route="/export",method="GET",status="200"} 1' in metrics
    assert "tellback_memories 1" in metrics
    assert all(path in reference.text for path in ("/api/v1/recall", "/api/v1/forget"))
    assert "<script" not in reference.text


async def test_a_receipt_is_verified_and_what_prompts_were_given_is_told_and_marked(tmp_path: Path) -> None:
    async with served(tmp_path / "m.db") as client:
        id = (await client.post(f"{API}/memories", json={"text": "My locker has the number 4711."})).json()["id"]
        plan = (await client.post(f"{API}/forget", json={"ids": [id]})).json()
        done = (await client.post(f"{API}/forget", json={"ids": [id], "confirm": plan["confirm"]})).json()
        words = {"receipt": done["receipt"], "texts": ["My locker has the number 4711."]}
        gone = (await client.post(f"{API}/forget/verify", json=words)).json()
        elsewhere = {"path": "/etc/hostname", "kind": "copy", "note": "", "at": None}
        forged = {**done["receipt"], "unreached": [elsewhere]}
        searched = (await client.post(f"{API}/forget/verify", json={"receipt": forged})).json()
        other = {"receipt": {**done["receipt"], "namespace": "ana"}}
        refused = [
            await client.post(f"{API}/forget/verify", json=other),
            await client.post(f"{API}/forget/verify", json={"receipt": {}}),
            await client.get(f"{API}/backups/m.db"),
            await client.get(f"{API}/backups/..%2Fm.db"),
        ]
        kept = (await client.post(f"{API}/memories", json={"text": "The bin is green."})).json()["id"]
        memory = open_memory(tmp_path / "m.db", choose_local=False)
        memory.given.record("", {kept: 0.5}, client="codex", session="s", prompt="Which bin?")
        await memory.close()
        (given,) = (await client.get(f"{API}/given")).json()
        mark = {"giving": given["id"], "memory": kept, "useful": False}
        marked = (await client.post(f"{API}/given/marks", json=mark)).json()
    assert (gone["gone"], gone["left"], searched["files"]) == (True, [], gone["files"])
    assert [answer.status_code for answer in refused] == [404, 422, 404, 404]
    assert (given["client"], given["prompt"], given["memories"][0]["is_useful"]) == ("codex", "Which bin?", True)
    assert marked["memories"] == [{"id": kept, "score": 0.5, "is_useful": False}]


async def test_a_stream_that_the_end_of_the_server_meets_ends_with_an_event(tmp_path: Path, monkeypatch) -> None:
    memory = ServedMemory(lambda: asyncio.to_thread(open_configured_memory, settings))
    settings = AssistantSettings(memory=tmp_path / "m.db", embedder="none")
    opened = await memory.opened()
    stream = chat_stream(memory, opened, "s", "My bicycle has the frame number 4711.")
    events = [await anext(stream)]
    memory.ending.set()
    events += [event async for event in stream]
    kept = await opened.desk.count()
    await memory.close()
    assert "ServerEnds" in events[-1] or events[-1].startswith("event: turn_ended")
    assert kept == events[-1].startswith("event: turn_ended")
