"""Hostile requests over real sockets: each is refused with what the table says, and nothing comes of any of them.

Inner parts, on no face: ``tellback.agent.http_listener``.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra 'web' is not installed")

from tellback.memory import Memory, open_memory
from tellback.memory.internals import User, Users
from tests.support.hostile_requests import HOSTILE_REQUESTS, NO_ANSWER, OWNER, READER, HostileRequest, table
from tests.support.served_memory import API, TOKEN, served

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]


async def exchange(port: int, raw: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(raw)
        return await asyncio.wait_for(reader.read(1_000_000), 15)
    except ConnectionError:
        return b""
    except TimeoutError:
        return b"nothing in time"
    finally:
        writer.close()


async def test_each_hostile_request_is_refused_and_nothing_is_told_or_changed(tmp_path: Path) -> None:
    assert OWNER == TOKEN
    memory = open_memory(tmp_path / "m.db", choose_local=False)
    tokens = iter(("the-token-of-ana", READER))
    users = Users(memory.database, token=lambda: next(tokens))
    users.add(User("ana", "ana"))
    users.add(User("ben", "ben", "reader"))
    await memory.remember(Memory("The heron is blue.", id="m1"), namespace="ana")
    before = await memory.namespaces()
    await memory.close()
    wrong: dict[str, bytes] = {}
    async with served(tmp_path / "m.db") as client:
        port = client.base_url.port
        assert port is not None
        for case in HOSTILE_REQUESTS:
            answer = await exchange(port, case.raw)
            if problem := told_too_much(case, answer):
                wrong[f"{case.kind}: {case.name}"] = problem.encode() + b" " + answer[:200]
        assert (await client.get(f"{API}/stats")).json()["memories"] == 0  # it still answers
    assert not wrong, "\n".join(f"{name}: {problem!r}" for name, problem in wrong.items())
    memory = open_memory(tmp_path / "m.db", choose_local=False)
    assert await memory.namespaces() == before
    await memory.close()


def told_too_much(case: HostileRequest, answer: bytes) -> str:
    """Return what is wrong with *answer* to the request of *case*; "" where it is refused as it should be."""
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split()
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else NO_ANSWER
    if status not in case.statuses:
        return f"{status}, not {case.statuses}"
    lines = head.lower().split(b"\r\n")[1:]
    if any(line.startswith((b"access-control-", b"location:", b"server:", b"set-cookie:")) for line in lines):
        return "a header too much"
    if any(word in body for word in (b"planted", b"heron", b"Traceback", b"evil.example", b"the-token")):
        return "a word too much"
    return ""


def test_the_page_about_security_names_every_request_that_was_tried() -> None:
    assert len(HOSTILE_REQUESTS) >= 120
    assert len({(case.kind, case.name) for case in HOSTILE_REQUESTS}) == len(HOSTILE_REQUESTS)
    page = (ROOT / "docs/appendix/hostile-requests.md").read_text(encoding="utf-8")
    assert page.endswith(table())


async def test_a_client_that_does_not_read_or_sends_for_ever_is_disconnected(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tellback.agent.http_listener._SECONDS_FOR_READER", 0.2)
    monkeypatch.setattr("tellback.agent.http_listener._SECONDS_FOR_BODY", 0.2)
    memory = open_memory(tmp_path / "m.db", choose_local=False)
    await memory.remember_many([f"{number} {'x' * 90_000}" for number in range(100)])
    await memory.close()
    head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
    async with served(tmp_path / "m.db") as client:
        port = client.base_url.port
        assert port is not None
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(f"GET {API}/export HTTP/1.1\r\n{head}\r\n".encode())
        transport = writer.transport
        transport.pause_reading()
        await asyncio.sleep(2)
        transport.resume_reading()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(9_000_000)
        writer.close()
        fields = f"{head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
        slow = f"POST {API}/memories HTTP/1.1\r\n{fields}\r\n"
        answer = await exchange(port, slow.encode() + b"1\r\n{\r\n")
        assert b" 200 " not in answer[:20]
        assert (await client.get(f"{API}/stats")).json()["memories"] == 100


async def test_wrong_tokens_are_answered_so_often_a_minute_and_the_right_one_still_is(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("tellback.agent.http_listener._WRONG_TOKENS_PER_MINUTE", 3)
    async with served(tmp_path / "m.db") as client:
        wrong = [
            await client.get(f"{API}/stats", headers={"Authorization": f"Bearer wrong-token-{n}"}) for n in range(5)
        ]
        right = await client.get(f"{API}/stats")
    assert [answer.status_code for answer in wrong] == [401] * 3 + [429] * 2
    assert right.status_code == 200
