"""A story: what memories are about is said by a client over MCP, or by a model after a conversation over HTTP.

The client is a double without a model: it answers what the protocol asks of it. The model is a server on loopback.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tellback.agent import OpenAICompatibleProvider
from tellback.agent.callables import LineWriter
from tellback.agent.testing import OpenAIServer, RawReply, RecordedRequest, Reply
from tellback.memory import open_memory
from tests.support.served_memory import API, served

pytestmark = pytest.mark.anyio

TOLD: Final = {
    "Anna has our spare key.": "spare house key: who keeps it",
    "We drive a grey Skoda Octavia.": "our car: model",
    "My doctor is Dr Lindqvist in Kungsgatan.": "my doctor: name",
    "Rex gets half a tablet every morning.": "Rex the dog: medicine",
    "The wifi password is under the router.": "wifi password: where it is",
    "Mum was born on 3 March 1951.": "mother: birthday",
    "The bins go out on Tuesday evening.": "bins: day",
    "I work at the harbour office.": "my work: place",
    "Bruno has the spare key since May.": "spare house key: who keeps it",
    "We sold the Skoda and drive a Volvo.": "our car: model",
}
"""Ten notes of a household, the last two of which change one, with the lines that they are to have."""
CHANGED: Final = tuple(TOLD)[-2:]
ASIDE: Final = ("Thanks, that is all!", "How far is it to Faro?")


@pytest.mark.slow
async def test_a_client_without_a_model_leaves_sensible_lines_over_mcp(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    path = tmp_path / "m.db"
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tellback", "--memory", str(path), "--offline", "mcp"],
        env={"HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TELLBACK_EMBEDDER": "none"},
    )

    async def remember(client: Any, **arguments: str) -> str:
        return "\n".join(part.text for part in (await client.call_tool("remember", arguments)).content)

    async with Client(server) as client:
        for text, line in TOLD.items():
            if text not in CHANGED:
                assert "no line yet" not in await remember(client, text=text, about=line)
                continue
            asked = await remember(client, text=text)
            assert "no line yet" in asked
            (offered,) = [known for known in dict.fromkeys(TOLD.values()) if known in asked and known == line]
            assert "no line yet" not in await remember(client, text=text, about=offered)
    assert await _lines(path) == TOLD


class _ModelServer(OpenAIServer):
    """Answers a prompt with "Noted.", and a request for lines with those of ``TOLD`` for the notes that it shows."""

    def answer(self, request: RecordedRequest) -> RawReply:
        sent = "\n".join(str(message["content"]) for message in (request.body or {}).get("messages", ()))
        notes = re.findall(r"^(\d+) \([^)]*\): (.+)$", sent.partition("«new notes")[2], re.MULTILINE)
        lines = [{"n": int(number), "about": TOLD.get(text, "")} for number, text in notes]
        with self._lock:
            self._replies[:] = [Reply(json.dumps({"lines": lines}) if notes else "Noted.")]
        return super().answer(request)


async def test_a_conversation_over_http_leaves_sensible_lines(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    with _ModelServer() as model:
        async with served(path, model="any", base_url=model.url, api_key="sk-test") as client:
            for text in (*TOLD, *ASIDE):
                answered = await client.post(f"{API}/chat", json={"text": text, "session": "kitchen"})
                assert "Noted." in answered.text
        memory = open_memory(path, choose_local=False)
        async for _ in LineWriter(OpenAICompatibleProvider(model.url, "any")).write(memory):
            pass
        await memory.close()
    assert {text: line for text, line in (await _lines(path)).items() if line} == TOLD


async def _lines(path: Path) -> dict[str, str]:
    """Return the line of each memory at *path*, by its text."""
    memory = open_memory(path, choose_local=False)
    lines = {kept.text: kept.about for kept in await memory.list()}
    await memory.close()
    return lines
