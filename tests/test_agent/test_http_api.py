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
from tests.support.served_memory import API, BEARER, TOKEN, served

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
REFUSED = {
    "no token": ("GET", "/stats", {"Authorization": ""}, 401),
    "another token": ("GET", "/stats", {"Authorization": "Bearer a-token-of-the-tesu"}, 401),
    "the token without its scheme": ("GET", "/stats", {"Authorization": TOKEN}, 401),
    "the token in the address": ("GET", f"/stats?token={TOKEN}", {"Authorization": ""}, 401),
    "the token as a cookie": ("GET", "/stats", {"Authorization": "", "Cookie": f"token={TOKEN}"}, 401),
    "an unknown path without the token": ("GET", "/nothing", {"Authorization": ""}, 401),
    "another host": ("GET", "/stats", {"Host": "evil.example"}, 421),
    "a host that begins like ours": ("GET", "/stats", {"Host": "127.0.0.1.evil.example"}, 421),
    "our host as the port of another": ("GET", "/stats", {"Host": "evil.example:127.0.0.1"}, 421),
    "our host with a dot": ("GET", "/stats", {"Host": "localhost."}, 421),
    "our host with a user": ("GET", "/stats", {"Host": "localhost@evil.example"}, 421),
    "a name that leads here": ("GET", "/stats", {"Host": "localtest.me:80"}, 421),
    "a forwarded host": ("GET", "/stats", {"Host": "evil.example", "X-Forwarded-Host": "localhost"}, 421),
    "another origin": ("GET", "/stats", {"Origin": "http://evil.example"}, 403),
    "no origin, as of a sandboxed page": ("POST", "/recall", {"Origin": "null", **JSON}, 403),
    "our origin by another scheme": ("GET", "/stats", {"Origin": "https://localhost"}, 403),
    "an origin that ends like ours": ("GET", "/stats", {"Origin": "http://evil.localhost"}, 403),
    "an origin with ours as its user": ("GET", "/stats", {"Origin": "http://localhost:80@evil.example"}, 403),
    "a file's origin": ("GET", "/stats", {"Origin": "file://"}, 403),
    "a preflight": ("OPTIONS", "/memories", {"Origin": "http://evil.example"}, 403),
    "a preflight of ours": ("OPTIONS", "/memories", {}, 405),
    "a form": ("POST", "/memories", {"Content-Type": "application/x-www-form-urlencoded"}, 422),
    "plain text": ("POST", "/memories", {"Content-Type": "text/plain"}, 422),
    "no type of content": ("POST", "/memories", {}, 422),
    "no JSON": ("POST", "/recall", JSON, 422),
    "a method in a header": ("POST", "/memories/x", {"X-HTTP-Method-Override": "PUT", **JSON}, 405),
    "a change by GET": ("GET", "/forget", {}, 405),
    "a path with dots": ("GET", "/../../../etc/passwd", {}, 404),
    "a path with coded dots": ("GET", "/%2e%2e/%2e%2e/etc/passwd", {}, 404),
    "a memory with a path for an id": ("GET", "/memories/..%2f..%2fetc%2fpasswd", {}, 404),
    "two slashes": ("GET", "//evil.example", {}, 404),
    "a slash at the end": ("GET", "/stats/", {}, 404),
    "a length too large": ("POST", "/memories", {"Content-Length": "99999999999", **JSON}, 413),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_request_that_is_not_a_callers_own_is_refused(tmp_path: Path, name: str) -> None:
    method, path, headers, status = REFUSED[name]
    lines = {"Host": "127.0.0.1", **BEARER, "Connection": "close", **headers}
    async with served(tmp_path / "m.db") as client:
        head = "".join(f"{field}: {value}\r\n" for field, value in lines.items() if value)
        body = "" if "Content-Length" in headers else '{"text": "planted"'
        length = f"Content-Length: {len(body)}\r\n" if body and method == "POST" else ""
        answer = await _raw(client, f"{method} {API}{path} HTTP/1.1\r\n{head}{length}\r\n{body}")
        count = (await client.get(f"{API}/stats")).json()["memories"]
    assert int(answer.split()[1]) == status
    assert b"access-control-" not in answer.lower()
    assert b"planted" not in answer
    assert count == 0


GET_STATS = f"GET {API}/stats HTTP/1.1\r\n"
WITH_TOKEN = f"Authorization: Bearer {TOKEN}\r\n"
TWO_LENGTHS = "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    "head",
    [
        f"{GET_STATS}Host: 127.0.0.1\r\nHost: evil.example\r\n{WITH_TOKEN}\r\n",
        f"{GET_STATS}Host: 127.0.0.1\r\nAuthorization: Bearer x\r\n{WITH_TOKEN}\r\n",
        f"{GET_STATS}{WITH_TOKEN}\r\n",
        f"{GET_STATS}Host: 127.0.0.1\r\n{WITH_TOKEN}X: {'x' * 100_000}\r\n\r\n",
        f"POST {API}/memories HTTP/1.1\r\nHost: 127.0.0.1\r\n{WITH_TOKEN}{TWO_LENGTHS}\r\n0\r\n\r\n",
        f"GET http://evil.example{API}/stats HTTP/1.1\r\nHost: evil.example\r\n{WITH_TOKEN}\r\n",
        f"{GET_STATS}Host: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    ],
    ids=["two hosts", "two tokens", "no host", "a huge header", "two lengths", "a whole address", "a websocket"],
)
async def test_a_request_that_two_servers_could_read_differently_is_refused(tmp_path: Path, head: str) -> None:
    async with served(tmp_path / "m.db") as client:
        answer = await _raw(client, head)
    assert 400 <= int(answer.split()[1]) < 500


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


async def _raw(client: httpx.AsyncClient, request: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", client.base_url.port)
    writer.write(request.encode())
    answer = await asyncio.wait_for(reader.read(65536), 20)
    writer.close()
    return answer


def test_a_taken_port_and_a_missing_memory_are_told_in_one_line(tmp_path: Path, capsys) -> None:
    from tellback.agent.assistant.cli.app import run_command_line

    with socket.create_server(("127.0.0.1", 0)) as taken:
        memory = str(tmp_path / "m.db")
        code = run_command_line(["--memory", memory, "serve", "--port", str(taken.getsockname()[1])])
    assert code != 0
    assert capsys.readouterr().err.count("\n") == 1
