"""The memory server over HTTP: the SDK's client with the token is served; others and other origins are refused.

Inner parts, on no face: ``tellback.agent.http_listener``, ``tellback.agent.mcp.transports``.
"""

from __future__ import annotations

import asyncio
import signal
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")

import httpx
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tellback.agent import ArgumentError
from tellback.agent.http_listener import read_or_make_token
from tellback.agent.mcp import MemoryServerTools, make_memory_server, serve_http
from tellback.agent.mcp.transports import http_application
from tests.support.mcp_calls import call_every_tool

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="ended by a signal"),
    pytest.mark.slow,
]
TOKEN = "a-token-of-the-test"


@asynccontextmanager
async def listening(memory) -> AsyncIterator[str]:
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = make_memory_server(MemoryServerTools(memory))
    serving = asyncio.create_task(serve_http(server, host="127.0.0.1", port=0, token=TOKEN, on_ready=ready.set_result))
    try:
        yield await ready
    finally:
        signal.raise_signal(signal.SIGHUP)
        await serving


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_with_the_token_calls_every_tool(memory, mode) -> None:
    async with (
        listening(memory) as address,
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http,
        Client(streamable_http_client(address, http_client=http), mode=mode) as client,
    ):
        await call_every_tool(client, client)


async def test_requests_without_the_token_or_from_elsewhere_are_refused(memory) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    bearer = {"Authorization": f"Bearer {TOKEN}", "Accept": "application/json, text/event-stream"}
    cases = {
        "no token": ({}, 401),
        "another token": ({"Authorization": "Bearer a-token-of-the-tesu"}, 401),
        "the token alone": ({"Authorization": TOKEN}, 401),
        "another host": ({**bearer, "Host": "evil.example:80"}, 421),
        "a host that begins like ours": ({**bearer, "Host": "127.0.0.1.evil.example"}, 421),
        "another origin": ({**bearer, "Origin": "http://evil.example"}, 403),
        "another origin in the place of a port": ({**bearer, "Origin": "http://localhost:80@evil.example"}, 403),
        "a form": ({**bearer, "Content-Type": "text/plain"}, 400),
    }
    async with listening(memory) as address, httpx.AsyncClient(trust_env=False, verify=False) as client:
        statuses = {
            name: (await client.post(address, headers=given, json=body)).status_code
            for name, (given, _) in cases.items()
        }
        big = await client.post(address, headers=bearer, content=b"x" * 2_000_000)
        elsewhere = await client.get(address.replace("/mcp", "/"), headers=bearer)
        with pytest.raises(ArgumentError, match="port"):
            await serve_http(None, host="127.0.0.1", port=int(address.split(":")[2].split("/")[0]), token=TOKEN)
    assert statuses == {name: status for name, (_, status) in cases.items()}
    assert (big.status_code, elsewhere.status_code) == (413, 404)


@pytest.mark.parametrize("part", ["", "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n", "head"])
async def test_a_client_that_sends_no_whole_request_is_disconnected(memory, part: str, monkeypatch) -> None:
    monkeypatch.setattr("tellback.agent.http_listener._SECONDS_FOR_HEAD", 0.05)
    monkeypatch.setattr("tellback.agent.http_listener._SECONDS_FOR_BODY", 0.05)
    lines = ("POST /mcp HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {TOKEN}")
    lines += ("Content-Type: application/json", "Accept: application/json, text/event-stream", "Content-Length: 99")
    head = "\r\n".join((*lines, "", '{"jsonrpc":'))
    async with listening(memory) as address:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(address.split(":")[2].split("/")[0]))
        writer.write((head if part == "head" else part).encode())
        assert b" 200 " not in await reader.read()  # to its end
        writer.close()
        await writer.wait_closed()


def test_the_token_is_made_once_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "config" / "mcp-token"
    token = read_or_make_token(path)
    path.chmod(0o644)
    assert read_or_make_token(path) == token
    assert len(token) > 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_token_that_can_be_guessed_is_refused() -> None:
    for token in ("", "short", "with spaces in it, many"):
        with pytest.raises(ArgumentError, match="token"):
            http_application(None, host="127.0.0.1", token=token)
