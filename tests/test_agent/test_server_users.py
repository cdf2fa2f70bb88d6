"""Users of one server: each sees their own and what is shared with them, over HTTP and MCP; roles, quotas, removal.

Inner parts, on no face: ``tellback.agent.assistant.cli``, ``tellback.agent.assistant.server``.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra 'web' is not installed")

import httpx

from tellback.agent.assistant.cli.app import run_command_line
from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.server.accounts import Accounts, QuotaExceeded
from tellback.agent.assistant.server.page.browser_sessions import BrowserSessions
from tellback.agent.assistant.wiring import OpenedMemory, open_configured_memory
from tellback.memory import open_memory
from tellback.memory.internals import Quota, User, Users
from tests.support.served_memory import API, served

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
ANA, BEN = "the token of ana", "the token of ben"


def by(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def household(tmp_path: Path) -> Path:
    """Return a memory file with two users, whose tokens are known."""
    memory = open_memory(tmp_path / "m.db", choose_local=False)
    tokens = iter((ANA.replace(" ", "-"), BEN.replace(" ", "-")))
    users = Users(memory.database, token=lambda: next(tokens))
    users.add(User("ana", "ana"))
    users.add(User("ben", "ben", "reader"))
    memory.store.close()
    return tmp_path / "m.db"


@contextmanager
def known_users(path: Path) -> Iterator[Users]:
    memory = open_memory(path, choose_local=False)
    yield Users(memory.database)
    memory.store.close()


async def kept(client: httpx.AsyncClient, text: str, token: str | None = None, **params: str) -> dict:
    headers = {} if token is None else by(token.replace(" ", "-"))
    answer = await client.post(f"{API}/memories", json={"text": text}, headers=headers, params=params)
    return {"status": answer.status_code, **answer.json()}


READS = {
    "recall": ("POST", "/recall", {"question": "Where is the key of the shed?", "explain": True}),
    "why not": ("POST", "/why-not", {"question": "Where is the key?", "id": "m1"}),
    "list": ("GET", "/memories", None),
    "operations": ("GET", "/operations", None),
    "profile": ("GET", "/profile", None),
    "profile by topic": ("POST", "/profile", {}),
    "conflicts": ("GET", "/conflicts", None),
    "stats": ("GET", "/stats", None),
    "sessions": ("GET", "/sessions", None),
    "documents": ("GET", "/documents", None),
    "one of another": ("GET", "/memories/m2", None),
    "history of another": ("GET", "/memories/m2/history", None),
    "a namespace that there may be": ("GET", "/memories?namespace=ben", None),
    "statistics of such a namespace": ("GET", "/stats?namespace=ben", None),
    "recall in such a namespace": ("POST", "/recall?namespace=ben", {"question": "Where is the key?"}),
    "the owner's namespace": ("GET", "/stats?namespace=", None),
    "users": ("GET", "/users", None),
    "a backup": ("POST", "/backup", {}),
    "a file of a backup": ("GET", "/backups/m.db", None),
    "a restore": ("POST", "/backups/m.db/restore", {}),
    "metrics": ("GET", "/metrics", None),
}


async def test_every_answer_is_the_same_whether_others_have_nothing_or_the_same_words(household: Path) -> None:
    from tellback.memory import KnowledgeBase, Memory, Message

    memory = open_memory(household, choose_local=False)
    ana = [Memory("The key of the shed is in the jar.", id="m1"), Memory("I live in Porto.", key="home")]
    await memory.remember_many(ana, namespace="ana")
    await memory.close()
    full = shutil.copy(household, household.with_name("full.db"))
    memory = open_memory(full, choose_local=False)
    for namespace in ("ben", "", "family"):
        other = [Memory("The key of the shed is in the tin.", id="m2"), Memory("I live in Faro.", key="home")]
        await memory.remember_many(other, namespace=namespace)
        await memory.remember_turn("monday", [Message.user("Where is the key of the shed?")], namespace=namespace)
        await KnowledgeBase(memory, namespace=namespace).ingest_text(b"The key of the shed.", source="shed.txt")
    await memory.close()
    answers = []
    for path in (household, full):
        async with served(path) as client:
            answers.append(
                {
                    name: (
                        answer := await client.request(method, API + call, json=body, headers=by("the-token-of-ana"))
                    )
                    and (answer.status_code, answer.content)
                    for name, (method, call, body) in READS.items()
                }
            )
    assert answers[0] == answers[1]
    statuses = {name: status for name, (status, _) in answers[0].items()}
    assert [name for name, status in statuses.items() if status == 200] == list(READS)[:10]
    assert {statuses[name] for name in list(READS)[10:]} <= {403, 404}


async def test_what_is_shared_is_found_with_its_namespace_and_changed_where_that_is_allowed(household: Path) -> None:
    with known_users(household) as users:
        users.share("family", "ana", "write")
        users.share("family", "ben", "read")
    async with served(household) as client:
        private = await kept(client, "The key of the safe is in the piano.", ANA)
        common = await kept(client, "The key of the shed is in the jar.", ANA, namespace="family")
        refused = [
            await kept(client, "The key is lost.", BEN, namespace="family"),
            await kept(client, "The key is lost.", BEN),
        ]
        questions = {"question": "Where is the key?"}
        found = {
            token: (await client.post(f"{API}/recall", json=questions, headers=by(token.replace(" ", "-")))).json()
            for token in (ANA, BEN)
        }
        mine = (await client.post(f"{API}/recall", json=questions)).json()
        read = await client.get(
            f"{API}/memories/{common['id']}", params={"namespace": "family"}, headers=by("the-token-of-ben")
        )
        done = (
            await client.get(f"{API}/operations", params={"namespace": "family"}, headers=by("the-token-of-ben"))
        ).json()
    assert [answer["status"] for answer in refused] == [403, 403]
    assert {hit["id"]: hit["namespace"] for hit in found[ANA]["hits"]} == {private["id"]: "ana", common["id"]: "family"}
    assert [(hit["id"], hit["namespace"]) for hit in found[BEN]["hits"]] == [(common["id"], "family")]
    assert mine["hits"] == []
    assert read.json()["text"] == "The key of the shed is in the jar."
    assert [(one["kind"], one["actor"], one["user"]) for one in done] == [("remember", "user", "ana")]


async def test_what_prompts_were_given_is_told_logged_and_marked_in_a_namespace_of_ones_own_alone(
    household: Path,
) -> None:
    with known_users(household) as users:
        users.share("ana", "ben", "write")
        users.share("family", "ana", "write")
    given = {"scores": {"m1": 0.5}, "client": "codex", "session": "s", "prompt": "Where is the key?"}
    mark, question = {"memory": "m1", "useful": False}, {"prompt": "Where is the key?", "memories": ["m1", "m2"]}
    async with served(household) as client:

        async def ask(token: str, path: str, body: object = None, namespace: str | None = None) -> tuple[int, object]:
            params = {} if namespace is None else {"namespace": namespace}
            method, headers = "GET" if body is None else "POST", by(token.replace(" ", "-"))
            answer = await client.request(method, f"{API}/{path}", json=body, params=params, headers=headers)
            return answer.status_code, answer.json()

        logged, marked = await ask(ANA, "given", given), await ask(ANA, "given/marks", mark)
        unwanted, none = await ask(ANA, "given/not-useful", question), await ask(BEN, "given/not-useful", question)
        (_, seen), other = await ask(ANA, "given"), await ask(BEN, "given")
        bodies = {"given": given, "given/marks": mark, "given/not-useful": question, "forgotten": {"text": "words"}}
        refused = [await ask(ANA, path, body, "family") for path, body in bodies.items()]
        refused += [await ask(BEN, path, body, "ana") for path, body in bodies.items()]
        refused += [await ask(BEN, path, bodies[path]) for path in ("given", "given/marks")]
        bad = [
            {"scores": {}},
            {"scores": {"m1": "x"}},
            {"scores": {"m\0": 0.5}},
            {"prompt": "x" * 8_001},
            {"session": "x" * 1_025},
        ]
        outside = [await ask(ANA, "given", given | one) for one in bad]
    assert (logged, marked[0], unwanted, none, other) == ((200, None), 200, (200, ["m1"]), (200, []), (200, []))
    assert [(one["client"], one["prompt"]) for one in seen] == [("codex", "Where is the key?")]
    assert {status for status, _ in refused} == {403}
    assert {status for status, _ in outside} == {422}


async def test_a_quota_bounds_what_is_kept_and_asked_until_something_is_forgotten(household: Path) -> None:
    with known_users(household) as users:
        users.set_quota("ana", Quota(memories=2, documents=1, bytes=200))
        users.set_quota("ben", Quota(requests=3))
    async with served(household) as client:
        kept_ones = await asyncio.gather(*(kept(client, f"The bin number {n} is green.", ANA) for n in range(5)))
        files = [("files", (f"{n}.txt", f"The bridge {n} is old.".encode())) for n in range(2)]
        uploaded = await client.post(f"{API}/documents", files=files, headers=by("the-token-of-ana"))
        large = await kept(client, "x " * 200, ANA)
        (first, _) = [one["id"] for one in kept_ones if one["status"] == 200]
        plan = {"ids": [first]}
        token = (await client.post(f"{API}/forget", json=plan, headers=by("the-token-of-ana"))).json()["confirm"]
        await client.post(f"{API}/forget", json={**plan, "confirm": token}, headers=by("the-token-of-ana"))
        again = await kept(client, "The bin is black.", ANA)
        asked = [await client.get(f"{API}/stats", headers=by("the-token-of-ben")) for _ in range(5)]
    assert sorted(one["status"] for one in kept_ones) == [200, 200, 507, 507, 507]
    assert {one["title"] for one in kept_ones if one["status"] == 507} == {"QuotaExceeded"}
    assert (uploaded.status_code, large["status"], again["status"]) == (507, 507, 200)
    assert [answer.status_code for answer in asked] == [200, 200, 200, 429, 429]
    assert int(asked[-1].headers["retry-after"]) > 0


async def test_room_links_and_sessions_end_for_every_process_of_the_server(household: Path) -> None:
    settings = AssistantSettings(memory=household, embedder="none")
    async with AsyncExitStack() as stack:
        processes = []
        for _process in range(2):
            opened = open_configured_memory(settings)
            stack.push_async_callback(opened.close)
            processes.append((Accounts("token-of-the-server", partial(_given, opened)), BrowserSessions("t" * 16)))
        (first, pages), (second, other_pages) = processes
        word = pages.link_word()
        cookie = await pages.sign_in(first, word)
        again = await other_pages.sign_in(second, word)
        session = await other_pages.session(second, cookie or "")
        assert session is not None
        await other_pages.end(second, session)
        after = await pages.session(first, cookie or "")
        with known_users(household) as users:
            users.set_quota("ana", Quota(memories=1))
        rooms = []
        for accounts in (first, second):
            account, _ = await accounts.account_of("ana") or pytest.fail("no account")
            rooms.append((await accounts.memory_of(account, writes=True)).desk)
        async with rooms[0].taking(memories=1):
            with pytest.raises(QuotaExceeded):
                async with rooms[1].taking(memories=1):
                    pass
        async with rooms[1].taking(memories=1):
            pass
    assert (again, after) == (None, None)


async def _given(opened: OpenedMemory) -> OpenedMemory:
    return opened


async def test_two_users_of_the_mcp_server_have_a_memory_each_and_no_session_of_the_other(household: Path) -> None:
    pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")
    import httpx2
    from mcp.client import Client
    from mcp.client.streamable_http import streamable_http_client

    async with served(household) as client:
        await kept(client, "The key of the owner is in the safe.")
        address = f"{client.base_url}/mcp".replace("//mcp", "/mcp")
        said = {}
        for token, text in (("the-token-of-ana", "The key is in the jar."), ("the-token-of-ben", "The key is lost.")):
            async with (
                httpx2.AsyncClient(headers=by(token)) as http,
                Client(streamable_http_client(address, http_client=http), mode="auto") as caller,
            ):
                stored = await caller.call_tool("remember", {"text": text})
                found = await caller.call_tool("recall", {"query": "Where is the key?"})
                said[token] = (stored.is_error, found.content[0].text)
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        accepting = {"Accept": "application/json, text/event-stream"}
        begun = await client.post(address, json=body, headers={**accepting, **by("the-token-of-ana")})
        session = {**accepting, "Mcp-Session-Id": begun.headers["mcp-session-id"]}
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        taken = await client.post(address, json=listing, headers={**session, **by("the-token-of-ben")})
    assert said["the-token-of-ana"][0] is False
    assert "in the jar" in said["the-token-of-ana"][1]
    assert "safe" not in said["the-token-of-ana"][1]
    assert said["the-token-of-ben"][0] is True
    assert not [word for word in ("jar", "safe", "lost") if word in said["the-token-of-ben"][1]]
    assert taken.status_code == 404


def test_users_are_added_shown_and_removed_with_a_receipt_at_the_command_line(tmp_path: Path, capsys) -> None:
    def tellback(*words: str) -> dict:
        code = run_command_line(["--memory", str(tmp_path / "m.db"), "--json", *words])
        told = capsys.readouterr()
        return {"code": code, **json.loads(told.out or "{}")}

    token = tellback("config", "users", "add", "ana")["token"]
    newer = tellback("config", "users", "token", "ana")["token"]
    tellback("remember", "The key is in the jar.", "--namespace", "ana")
    tellback("config", "users", "share", "family", "ana", "--write")
    tellback("config", "users", "quota", "ana", "--memories", "5")
    (ana,) = tellback("config", "users")["users"]
    held = tellback("config", "users", "add", "ben", "--own", "ana")
    own = tellback("config", "users", "add", "ben", "--own", "")
    removed = tellback("config", "users", "remove", "ana", "--yes")
    assert token != newer
    assert ana == {
        "name": "ana",
        "role": "member",
        "namespace": "ana",
        "shares": {"family": "write"},
        "quota": {"memories": 5},
    }
    assert (held["code"], own["code"], removed["code"]) == (2, 2, 0)
    assert len(removed["receipt"]["memories"]) == 1
    assert tellback("config", "users")["users"] == []
    assert tellback("recall", "Where is the key?", "--namespace", "ana")["hits"] == []
