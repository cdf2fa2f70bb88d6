"""The official clients as oracles: the same call makes the same request, and the same bytes give the same result.

They are development dependencies; each speaks to our scripted server over real HTTP, as our provider does.

Inner parts, on no face: ``tellback.agent.providers.accumulator``, ``tellback.agent.providers.base``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from tellback.agent import (
    AnthropicProvider,
    ModelSettings,
    OllamaProvider,
    OpenAICompatibleProvider,
    Request,
    StopReason,
    Usage,
)
from tellback.agent.providers.accumulator import Response, collect_response
from tellback.agent.providers.base import ToolSpec
from tellback.agent.testing import AnthropicServer, OllamaServer, OpenAIServer, Reply, ScriptedServer, call
from tellback.memory import ImageBlock, Message, TextBlock, ThinkingBlock, ToolCallBlock, ToolResultBlock
from tellback.memory.http import HttpClient

pytestmark = pytest.mark.slow

openai: Any = None
anthropic: Any = None
ollama: Any = None

KEY = "sk-test-0123456789"
PNG = b"\x89PNG\r\n\x1a\nrest"
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
SCHEMA = {**PARAMETERS, "additionalProperties": False}
ADD = ToolSpec("add", "Add.", PARAMETERS)
CALL = ToolCallBlock(id="c1", name="add", arguments={"a": 1})
CONVERSATION = (
    Message.user([TextBlock(text="What is this?"), ImageBlock(media_type="image/png", data=PNG)]),
    Message.assistant([ThinkingBlock(text="hm", signature="sig"), ThinkingBlock(redacted="opaque"), CALL]),
    Message.tool([ToolResultBlock(call_id="c1", name="add", content=(TextBlock(text="2"),))]),
)
USAGE = Usage(input=100, output=50, cache_read=60, cache_write=20, reasoning=30)
REPLIES = {
    "text": Reply("Zürich 🚀 東京", usage=USAGE, piece=1),
    "calls": Reply("Let me see.", calls=(call("add", a=1, b="ü\n"), call("now")), usage=USAGE),
    "thinking": Reply("4", thinking="two and two", signature="sig==", usage=USAGE),
    "redacted": Reply("4", redacted=("opaque",), usage=USAGE),
    "cut": Reply("Hal", stop=StopReason.MAX_TOKENS, usage=USAGE),
}


@pytest.fixture(scope="module", autouse=True)
def oracles() -> None:
    """Import the official clients: not with this file, since each worker collects it, and they take seconds."""
    for name in ("openai", "anthropic", "ollama"):
        globals()[name] = pytest.importorskip(name, reason="the oracle is in the extra dev")


def ours(kind: type[ScriptedServer], make: Callable[[str], Any], request: Request) -> tuple[dict, dict]:
    """Return the body and the headers of our request."""
    with kind(Reply("fine")) as server:
        asyncio.run(collect_response(make(server.url), request))
        return server.requests[0].body, server.requests[0].headers


def replied(kind: type[ScriptedServer], make: Callable[[str], Any], reply: Reply) -> Response:
    with kind(reply) as server:
        return asyncio.run(collect_response(make(server.url), Request((Message.user("Hello"),))))


def shared(headers: dict[str, str], *names: str) -> dict[str, str | None]:
    return {name: headers.get(name) for name in ("content-type", *names)}


def openai_provider(url: str) -> OpenAICompatibleProvider:
    return OpenAICompatibleProvider(url, "m", api_key=KEY, limit_field="max_completion_tokens")


def anthropic_provider(url: str) -> AnthropicProvider:
    return AnthropicProvider("m", api_key=KEY, base_url=url, client=HttpClient(retries=0))


def ollama_provider(url: str) -> OllamaProvider:
    return OllamaProvider("m", base_url=url)


def test_the_openai_request_equals_that_of_the_official_client() -> None:
    settings = ModelSettings(
        temperature=0, top_p=0.5, seed=0, max_tokens=9, stop=("END",), effort="low", response_schema=SCHEMA
    )
    request = Request(CONVERSATION, system="Be brief.", tools=(ADD,), tool_choice="required", settings=settings)
    body, headers = ours(OpenAIServer, openai_provider, request)
    with OpenAIServer(Reply("fine")) as server, openai.OpenAI(base_url=server.url, api_key=KEY) as client:
        function = {"name": "add", "arguments": '{"a":1}'}
        stream = client.chat.completions.create(
            model="m",
            messages=[
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": body["messages"][1]["content"]},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "c1", "type": "function", "function": function}],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "2"},
            ],
            tools=[{"type": "function", "function": {"name": "add", "description": "Add.", "parameters": PARAMETERS}}],
            tool_choice="required",
            temperature=0,
            top_p=0.5,
            seed=0,
            max_completion_tokens=9,
            stop=["END"],
            reasoning_effort="low",
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
            },
            stream=True,
            stream_options={"include_usage": True},
        )
        list(stream)
        seen = server.requests[0]
    assert body == seen.body
    assert shared(headers, "authorization") == shared(seen.headers, "authorization")
    assert seen.path == "/v1/chat/completions"


def test_the_anthropic_request_equals_that_of_the_official_client() -> None:
    settings = ModelSettings(max_tokens=4000, stop=("END",), thinking=2000, effort="low", response_schema=SCHEMA)
    request = Request(CONVERSATION, system="Be brief.", tools=(ADD,), tool_choice="none", settings=settings)
    body, headers = ours(AnthropicServer, anthropic_provider, request)
    with AnthropicServer(Reply("fine")) as server, anthropic.Anthropic(base_url=server.url, api_key=KEY) as client:
        stream = client.messages.create(
            model="m",
            max_tokens=4000,
            system="Be brief.",
            messages=body["messages"],
            tools=[{"name": "add", "description": "Add.", "input_schema": PARAMETERS}],
            tool_choice={"type": "none"},
            stop_sequences=["END"],
            thinking={"type": "enabled", "budget_tokens": 2000},
            output_config={"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}},
            stream=True,
        )
        list(stream)
        seen = server.requests[0]
    assert body == seen.body
    names = ("authorization", "anthropic-version", "x-api-key")
    assert shared(headers, *names) == shared(seen.headers, *names)
    assert seen.path == "/v1/messages"


def test_the_ollama_request_equals_that_of_the_official_client() -> None:
    settings = ModelSettings(temperature=0, top_k=0, seed=0, max_tokens=9, stop=("END",), thinking="on")
    messages = (CONVERSATION[0], Message.assistant([ThinkingBlock(text="hm"), CALL]), CONVERSATION[2])
    request = Request(messages, system="Be brief.", tools=(ADD,), settings=settings)
    body, headers = ours(OllamaServer, ollama_provider, request)
    with OllamaServer(Reply("fine")) as server:
        stream = ollama.Client(host=server.url).chat(
            model="m",
            messages=[
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "What is this?", "images": [PNG]},
                {
                    "role": "assistant",
                    "content": "",
                    "thinking": "hm",
                    "tool_calls": [{"function": {"name": "add", "arguments": {"a": 1}}}],
                },
                {"role": "tool", "content": "2", "tool_name": "add"},
            ],
            tools=[{"type": "function", "function": {"name": "add", "description": "Add.", "parameters": PARAMETERS}}],
            options={"temperature": 0, "top_k": 0, "seed": 0, "num_predict": 9, "stop": ["END"]},
            think=True,
            stream=True,
        )
        list(stream)
        seen = server.requests[0]
    # The official client leaves an empty content out; the format takes both.
    items = [{name: value for name, value in item.items() if value != ""} for item in body["messages"]]
    assert {**body, "messages": items} == seen.body
    assert shared(headers) == shared(seen.headers)
    assert seen.path == "/api/chat"


@pytest.mark.parametrize("name", ["text", "calls", "cut"])
def test_an_openai_stream_gives_the_same_result_as_the_official_client(name: str) -> None:
    mine = replied(OpenAIServer, openai_provider, REPLIES[name])
    with OpenAIServer(REPLIES[name]) as server, openai.OpenAI(base_url=server.url, api_key=KEY) as client:
        options = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
        with client.chat.completions.stream(**options, stream_options={"include_usage": True}) as stream:
            try:
                for _ in stream:
                    pass
                theirs = stream.get_final_completion()
            except openai.LengthFinishReasonError as error:
                theirs = error.completion
    choice = theirs.choices[0]
    assert (choice.message.content or "") == mine.text
    asked = [
        (tool_call.id, tool_call.function.name, json.loads(tool_call.function.arguments))
        for tool_call in choice.message.tool_calls or ()
    ]
    assert asked == [(tool_call.id, tool_call.name, tool_call.arguments) for tool_call in mine.message.tool_calls]
    words = {"stop": StopReason.STOP, "tool_calls": StopReason.TOOL_CALLS, "length": StopReason.MAX_TOKENS}
    assert words[choice.finish_reason] is mine.stop
    counts = theirs.usage
    assert (counts.prompt_tokens, counts.completion_tokens) == (mine.usage.input, mine.usage.output)
    assert counts.prompt_tokens_details.cached_tokens == mine.usage.cache_read
    assert counts.completion_tokens_details.reasoning_tokens == mine.usage.reasoning


@pytest.mark.parametrize("name", REPLIES)
def test_an_anthropic_stream_gives_the_same_result_as_the_official_client(name: str) -> None:
    mine = replied(AnthropicServer, anthropic_provider, REPLIES[name])
    with AnthropicServer(REPLIES[name]) as server, anthropic.Anthropic(base_url=server.url, api_key=KEY) as client:
        options = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]}
        with client.messages.stream(**options) as stream:
            theirs = stream.get_final_message()
    assert [seen(block) for block in theirs.content] == [kept(block) for block in mine.message.blocks]
    words = {"end_turn": StopReason.STOP, "tool_use": StopReason.TOOL_CALLS, "max_tokens": StopReason.MAX_TOKENS}
    assert words[theirs.stop_reason] is mine.stop
    counts = theirs.usage
    cached = (counts.cache_read_input_tokens, counts.cache_creation_input_tokens)
    assert cached == (mine.usage.cache_read, mine.usage.cache_write)
    assert counts.input_tokens + sum(cached) == mine.usage.input
    assert counts.output_tokens == mine.usage.output


@pytest.mark.parametrize("name", ["text", "calls", "thinking", "cut"])
def test_an_ollama_stream_gives_the_same_result_as_the_official_client(name: str) -> None:
    mine = replied(OllamaServer, ollama_provider, REPLIES[name])
    with OllamaServer(REPLIES[name]) as server:
        options = {"model": "m", "messages": [{"role": "user", "content": "Hello"}]}
        parts = list(ollama.Client(host=server.url).chat(**options, stream=True))
    assert "".join(part.message.content or "" for part in parts) == mine.text
    thoughts = [block.text for block in mine.message.blocks if isinstance(block, ThinkingBlock)]
    assert "".join(part.message.thinking or "" for part in parts) == "".join(thoughts)
    asked = [tool_call.function for part in parts for tool_call in part.message.tool_calls or ()]
    assert [(tool_call.name, tool_call.arguments) for tool_call in asked] == [
        (tool_call.name, tool_call.arguments) for tool_call in mine.message.tool_calls
    ]
    assert (parts[-1].prompt_eval_count, parts[-1].eval_count) == (mine.usage.input, mine.usage.output)


def seen(block: Any) -> tuple:
    """Return a block of Anthropic's client as plain values."""
    if block.type == "text":
        return ("text", block.text)
    if block.type == "thinking":
        return ("thinking", block.thinking, block.signature)
    if block.type == "redacted_thinking":
        return ("redacted", block.data)
    return ("call", block.id, block.name, block.input)


def kept(block: Any) -> tuple:
    """Return a block of ours as plain values."""
    if isinstance(block, TextBlock):
        return ("text", block.text)
    if isinstance(block, ThinkingBlock):
        return ("redacted", block.redacted) if block.redacted else ("thinking", block.text, block.signature)
    return ("call", block.id, block.name, block.arguments)
