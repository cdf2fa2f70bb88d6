"""Providers against aimock, an independent fake server from npm, in three wire formats.

The tests start it where node and the package are installed, and are skipped elsewhere:

    npm install --no-save @copilotkit/aimock

Inner parts, on no face: ``tellback.agent.providers.accumulator``.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tellback.agent import (
    Agent,
    AnthropicProvider,
    OllamaProvider,
    OpenAICompatibleProvider,
    ProviderError,
    Request,
    RetryingProvider,
    tool,
)
from tellback.agent.providers.accumulator import collect_response
from tellback.memory import Message
from tellback.memory.http import HttpClient

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = {
    "fixtures": [
        {"match": {"userMessage": "hello"}, "response": {"content": "Hi, Zürich 🚀 and 東京!"}},
        {
            "match": {"userMessage": "think"},
            "response": {"content": "4", "reasoning": "two and two", "usage": {"input_tokens": 5, "output_tokens": 7}},
        },
        {
            "match": {"userMessage": "remember", "hasToolResult": False},
            "response": {"toolCalls": [{"name": "save", "arguments": {"text": "likes tea"}}]},
        },
        {"match": {"userMessage": "remember", "hasToolResult": True}, "response": {"content": "Saved."}},
        {
            "match": {"userMessage": "busy"},
            "response": {"error": {"message": "Rate limited", "type": "rate_limit_error"}, "status": 429},
        },
    ]
}
PROVIDERS = {
    "openai": lambda url, client: OpenAICompatibleProvider(f"{url}/v1", "any-model", client=client),
    "anthropic": lambda url, client: AnthropicProvider("any-model", api_key="k", base_url=url, client=client),
    "ollama": lambda url, client: OllamaProvider("any-model", base_url=url, client=client),
}


def command() -> list[str] | None:
    """Return the command that starts aimock; None where it is not installed."""
    node = shutil.which("node")
    given = os.environ.get("AIMOCK_CLI")
    places = [Path(given)] if given else [ROOT / "node_modules" / "@copilotkit" / "aimock" / "dist" / "cli.js"]
    found = next((place for place in places if place.is_file()), None)
    return [node, str(found)] if node and found else None


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    started = command()
    if started is None:
        pytest.skip("aimock is not installed (npm install --no-save @copilotkit/aimock, or AIMOCK_CLI)")
    folder = tmp_path_factory.mktemp("fixtures")
    (folder / "fixtures.json").write_text(json.dumps(FIXTURES))
    process, port = next(filter(None, (listening(started, folder) for _ in range(5))), (None, 0))
    assert process is not None, "aimock ended"
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def listening(command: list[str], folder: Path) -> tuple[subprocess.Popen, int] | None:
    """Start aimock on a free port; return None if it ended, as when another process took the port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["-p", str(port), "-h", "127.0.0.1", "-f", str(folder), "--log-level", "warn", "-c", "5"]
    process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(2400):
        with socket.socket() as probe:
            heard = probe.connect_ex(("127.0.0.1", port)) == 0
        if process.poll() is not None:
            return None
        if heard:
            return process, port
        time.sleep(0.05)
    process.kill()
    raise AssertionError("aimock did not begin to listen")


def asked(name: str, url: str, prompt: str):
    async def ask():
        async with HttpClient(retries=0) as client:
            return await collect_response(PROVIDERS[name](url, client), Request((Message.user(prompt),)))

    return asyncio.run(ask())


@pytest.mark.parametrize("name", PROVIDERS)
def test_text_is_streamed(name: str, url: str) -> None:
    assert asked(name, url, "hello").text == "Hi, Zürich 🚀 and 東京!"


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_thinking_and_counts_are_read(name: str, url: str) -> None:
    response = asked(name, url, "think")
    assert response.text == "4"
    assert "two and two" in response.message.blocks[0].text
    assert (response.usage.input, response.usage.output) == (5, 7)


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_tool_call_is_executed_and_its_result_answered_in_each_wire_format(name: str, url: str) -> None:
    saved: list[str] = []

    @tool
    def save(text: str) -> str:
        """Save it."""
        saved.append(text)
        return "fine"

    async def run() -> str:
        async with HttpClient(retries=0) as client:
            return (await Agent(PROVIDERS[name](url, client), tools=[save]).run("remember")).text

    assert asyncio.run(run()) == "Saved."
    assert saved == ["likes tea"]


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_429_status_is_a_transient_provider_error(name: str, url: str) -> None:
    with pytest.raises(ProviderError) as caught:
        asked(name, url, "busy")
    assert (caught.value.status, caught.value.transient) == (429, True)


def test_a_429_status_is_retried_and_the_last_error_raised(url: str) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def run() -> None:
        async with HttpClient(retries=0) as client:
            provider = RetryingProvider(PROVIDERS["openai"](url, client), attempts=3, sleep=sleep)
            await collect_response(provider, Request((Message.user("busy"),)))

    with pytest.raises(ProviderError):
        asyncio.run(run())
    assert len(waits) == 2


@pytest.mark.parametrize("streams", [False, True])
def test_official_clients_are_answered_through_the_endpoints_with_a_memory(
    streams: bool, url: str, tmp_path: Path
) -> None:
    openai, anthropic = pytest.importorskip("openai"), pytest.importorskip("anthropic")
    pytest.importorskip("fastapi", reason="the extra 'web' is not installed")
    from tellback.agent.assistant.config import AssistantSettings
    from tests.support.served_memory import TOKEN, serving

    settings = AssistantSettings(memory=tmp_path / "m.db", embedder="none", model="ollama:any-model", ollama_host=url)
    said = [{"role": "user", "content": "hello"}]
    tools = [{"type": "function", "function": {"name": "save", "parameters": {"type": "object", "properties": {}}}}]

    async def ask() -> list[str]:
        texts = []
        async with serving(settings) as address:
            async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=TOKEN, max_retries=0) as client:
                chat = client.chat.completions
                answer = await chat.create(model="tellback", messages=said, stream=streams)
                if streams:
                    texts.append("".join([piece.choices[0].delta.content or "" async for piece in answer]))
                else:
                    texts.append(answer.choices[0].message.content)
                called = await chat.create(model="m", messages=[{"role": "user", "content": "remember"}], tools=tools)
                texts.append(called.choices[0].message.tool_calls[0].function.name)
                with pytest.raises(openai.RateLimitError, match="Rate limited"):
                    await chat.create(model="m", messages=[{"role": "user", "content": "busy"}], stream=streams)
            async with anthropic.AsyncAnthropic(base_url=address, api_key=TOKEN, max_retries=0) as client:
                fields = {"model": "tellback", "max_tokens": 50, "messages": said}
                if streams:
                    async with client.messages.stream(**fields) as stream:
                        texts.append(await stream.get_final_text())
                else:
                    texts.append((await client.messages.create(**fields)).content[0].text)
        return texts

    hello = "Hi, Zürich 🚀 and 東京!"
    assert asyncio.run(ask()) == [hello, "save", hello]
