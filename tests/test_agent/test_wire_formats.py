"""Anthropic's Messages and Ollama's chat: the shipped contract over real HTTP, and the fields of each format.

Inner parts, on no face: ``tellback.agent.errors``, ``tellback.agent.providers.accumulator``,
``tellback.agent.providers.anthropic``, ``tellback.agent.providers.base``.
"""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tellback.agent import (
    AnthropicProvider,
    ArgumentError,
    ModelSettings,
    OllamaProvider,
    OpenAICompatibleProvider,
    ProviderError,
    Request,
    ServerTool,
    StopReason,
    Unsupported,
    Usage,
)
from tellback.agent.errors import ContextOverflow
from tellback.agent.providers.accumulator import collect_response
from tellback.agent.providers.anthropic import anthropic_payload
from tellback.agent.providers.base import ModelInfo, ToolSpec
from tellback.agent.testing import AnthropicServer, OllamaServer, OpenAIServer, ProviderContract, RawReply, Reply, call
from tellback.memory import DocumentBlock, ImageBlock, Message, TextBlock, ThinkingBlock, ToolCallBlock, ToolResultBlock
from tellback.memory.http import HttpClient
from tellback.memory.internals import OpaqueBlock

KEY = "sk-secret-0123456789abcdef"
PNG = b"\x89PNG\r\n\x1a\nrest"
PICTURE = ImageBlock(media_type="image/png", data=PNG)
BASE64 = base64.b64encode(PNG).decode()
ADD = ToolSpec("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
OLD = "2023-06-01"


class TestAnthropicProvider(ProviderContract):
    reasons = (StopReason.STOP, StopReason.MAX_TOKENS, StopReason.REFUSAL)

    @contextmanager
    def serving(self, *replies):
        with AnthropicServer(*replies) as server:
            client = HttpClient(retries=0)
            yield AnthropicProvider("any-model", api_key=KEY, base_url=server.url, client=client)


class TestOllamaProvider(ProviderContract):
    reasons = (StopReason.STOP, StopReason.MAX_TOKENS)
    counts = ("input", "output")

    @contextmanager
    def serving(self, *replies):
        with OllamaServer(*replies) as server:
            yield OllamaProvider("any-model", base_url=server.url, client=HttpClient(retries=0))


PAPER = DocumentBlock(url="https://a.test/paper.pdf", name="paper.pdf")


def ask(*messages: Message, **options) -> Request:
    return Request(messages or (Message.user("Hello"),), **options)


def to_anthropic(request: Request, **options) -> dict:
    with AnthropicServer(Reply("fine")) as server:
        asyncio.run(collect_response(AnthropicProvider("m", base_url=server.url, **options), request))
        return server.requests[0].body


def to_openai(request: Request, **options) -> dict:
    with OpenAIServer(Reply("fine")) as server:
        provider = OpenAICompatibleProvider(f"{server.url}/v1", "m", **options)
        asyncio.run(collect_response(provider, request))
        return server.requests[0].body


def to_ollama(request: Request) -> dict:
    with OllamaServer(Reply("fine")) as server:
        asyncio.run(collect_response(OllamaProvider("m", base_url=server.url), request))
        return server.requests[0].body


def from_anthropic(*cuts: bytes | float, **raw):
    with AnthropicServer(RawReply(cuts, **raw)) as server:
        provider = AnthropicProvider("m", api_key=KEY, base_url=server.url, client=HttpClient(retries=0))
        return asyncio.run(collect_response(provider, ask()))


def from_ollama(*lines: dict, **raw):
    cuts = [json.dumps(line).encode() + b"\n" for line in lines]
    with OllamaServer(RawReply(cuts, content_type="application/x-ndjson", **raw)) as server:
        provider = OllamaProvider("m", base_url=server.url, client=HttpClient(retries=0))
        return asyncio.run(collect_response(provider, ask()))


def event(kind: str, **fields) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


START = event("message_start", message={"usage": {"input_tokens": 3, "output_tokens": 1}})
TEXT = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
HI = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hi"})
ENDED = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2})
STOP = event("message_stop")


def test_a_request_has_only_the_configured_fields() -> None:
    assert to_anthropic(ask()) == {
        "model": "m",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
        "max_tokens": 8192,
        "stream": True,
    }
    assert to_ollama(ask()) == {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "stream": True}


def test_settings_of_zero_are_sent() -> None:
    zeros = ModelSettings(temperature=0, top_p=0.0, top_k=0)
    body = to_anthropic(ask(settings=zeros), version=OLD)
    assert (body["temperature"], body["top_p"], body["top_k"]) == (0, 0.0, 0)
    settings = ModelSettings(temperature=0, seed=0, min_p=0.0, max_tokens=7, stop=("END",))
    options = {"temperature": 0, "seed": 0, "min_p": 0.0, "num_predict": 7, "stop": ["END"]}
    assert to_ollama(ask(settings=settings))["options"] == options


def test_a_sampling_setting_unsupported_by_the_anthropic_version_raises_unsupported() -> None:
    with AnthropicServer() as server:
        provider = AnthropicProvider("m", base_url=server.url)
        with pytest.raises(Unsupported) as caught:
            asyncio.run(collect_response(provider, ask(settings=ModelSettings(temperature=0))))
        assert server.requests == []
    assert (caught.value.feature, caught.value.provider) == ("temperature", "AnthropicProvider")


@pytest.mark.parametrize(
    ("provider", "request_"),
    [
        (OllamaProvider("m"), ask(tools=(ADD,), tool_choice="required")),
        (OllamaProvider("m"), ask(tools=(ADD,), tool_choice="add")),
        (OllamaProvider("m"), ask(server_tools=(ServerTool({"type": "web_search"}),))),
        (OllamaProvider("m"), ask(Message.user([ImageBlock(url="https://a.test/a.png")]))),
        (OpenAICompatibleProvider("http://127.0.0.1:9/v1", "m"), ask(Message.user([PAPER]))),
        (OllamaProvider("m"), ask(settings=ModelSettings(thinking=2000))),
        (AnthropicProvider("m"), ask(settings=ModelSettings(repetition_penalty=1.1))),
        (AnthropicProvider("m"), ask(settings=ModelSettings(json_mode=True))),
        (OpenAICompatibleProvider("http://127.0.0.1:9/v1", "m"), ask(settings=ModelSettings(thinking="on"))),
        (OpenAICompatibleProvider("https://api.openai.com/v1", "m"), ask(settings=ModelSettings(top_k=3))),
        (OpenAICompatibleProvider("https://api.openai.com/v1", "m"), ask(settings=ModelSettings(min_p=0.0))),
        (OpenAICompatibleProvider("https://api.openai.com/v1", "m"), ask(settings=ModelSettings(thinking=2000))),
        (OpenAICompatibleProvider("http://127.0.0.1:9/v1", "m"), ask(settings=ModelSettings(repetition_penalty=2))),
    ],
)
def test_an_unsupported_request_raises_before_the_http_call(provider, request_) -> None:
    with pytest.raises(Unsupported):
        asyncio.run(collect_response(provider, request_))


def test_thinking_settings_are_sent_in_the_anthropic_and_ollama_formats() -> None:
    body = to_anthropic(ask(settings=ModelSettings(thinking=2000, effort="low")))
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert body["max_tokens"] == 8192 + 2000
    assert body["output_config"] == {"effort": "low"}
    assert to_anthropic(ask(settings=ModelSettings(thinking="on")))["thinking"] == {"type": "adaptive"}
    assert to_anthropic(ask(settings=ModelSettings(thinking="off")))["thinking"] == {"type": "disabled"}
    assert to_ollama(ask(settings=ModelSettings(thinking="off")))["think"] is False
    assert to_ollama(ask(settings=ModelSettings(thinking="on")))["think"] is True
    assert to_ollama(ask(settings=ModelSettings(effort="high")))["think"] == "high"


def test_the_repetition_penalty_and_json_without_a_schema_have_each_formats_fields() -> None:
    settings = ModelSettings(repetition_penalty=1.1, json_mode=True)
    body = to_ollama(ask(settings=settings))
    assert (body["options"], body["format"]) == ({"repeat_penalty": 1.1}, "json")
    schema = {"type": "object"}
    assert to_ollama(ask(settings=ModelSettings(json_mode=True, response_schema=schema)))["format"] == schema


@pytest.mark.parametrize("settings", [ModelSettings(thinking=10), ModelSettings(thinking=2000, max_tokens=2000)])
def test_a_budget_of_thinking_that_the_server_would_refuse_raises(settings: ModelSettings) -> None:
    with pytest.raises(ArgumentError, match="thinking"):
        to_anthropic(ask(settings=settings))


@pytest.mark.parametrize("value", ["adaptive", 0, -1, True, 1.5])
def test_an_invalid_thinking_setting_is_refused(value) -> None:
    with pytest.raises(ArgumentError, match="thinking"):
        ModelSettings(thinking=value)


def test_the_response_schema_is_sent_in_the_anthropic_and_ollama_formats() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
    settings = ModelSettings(response_schema=schema)
    body = to_anthropic(ask(settings=settings))
    assert body["output_config"]["format"] == {"type": "json_schema", "schema": schema}
    assert to_ollama(ask(settings=settings))["format"] == schema


def test_anthropic_cache_control_is_sent_with_the_cache_option() -> None:
    assert to_anthropic(ask(), cache=True)["cache_control"] == {"type": "ephemeral"}


def test_tools_and_tool_choice_are_sent_in_each_format() -> None:
    body = to_anthropic(ask(tools=(ADD,), tool_choice="required", system="Be brief."))
    assert body["tools"] == [{"name": "add", "description": "Add.", "input_schema": dict(ADD.parameters)}]
    assert body["tool_choice"] == {"type": "any"}
    assert body["system"] == "Be brief."
    assert to_anthropic(ask(tools=(ADD,), tool_choice="none"))["tool_choice"] == {"type": "none"}
    body = to_ollama(ask(tools=(ADD,), system="Be brief."))
    function = {"name": "add", "description": "Add.", "parameters": dict(ADD.parameters)}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    assert "tools" not in to_ollama(ask(tools=(ADD,), tool_choice="none"))


def test_one_forced_tool_and_tools_of_the_server_are_sent_in_each_format() -> None:
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}
    body = to_anthropic(ask(tools=(ADD,), server_tools=(ServerTool(search),), tool_choice="add"))
    assert [tool["name"] for tool in body["tools"]] == ["add", "web_search"]
    assert body["tools"][1] == search
    assert body["tool_choice"] == {"type": "tool", "name": "add"}
    body = to_openai(ask(tools=(ADD,), server_tools=(ServerTool({"type": "browser_search"}),), tool_choice="add"))
    assert body["tools"][1] == {"type": "browser_search"}
    assert body["tool_choice"] == {"type": "function", "function": {"name": "add"}}
    with pytest.raises(ArgumentError, match="tool_choice: auto, none, required or the name of a tool is needed"):
        to_anthropic(ask(tools=(ADD,), tool_choice="subtract"))
    with pytest.raises(ArgumentError, match="data: the tool as the server wants it is needed"):
        ServerTool({})


@pytest.mark.parametrize(("title", "name"), [("City", "City"), ("a b", "answer"), (None, "answer")])
def test_the_wanted_schema_is_named_by_its_title(title: str | None, name: str) -> None:
    schema = {"type": "object", "properties": {}} | ({"title": title} if title else {})
    body = to_openai(ask(settings=ModelSettings(response_schema=schema)))
    assert body["response_format"]["json_schema"]["name"] == name


def test_images_and_documents_by_address_are_sent_as_their_address() -> None:
    prompt = Message.user([ImageBlock(url="https://a.test/a.png"), PAPER])
    blocks = to_anthropic(ask(prompt), reads_documents=True)["messages"][0]["content"]
    assert [block["source"] for block in blocks] == [
        {"type": "url", "url": "https://a.test/a.png"},
        {"type": "url", "url": "https://a.test/paper.pdf"},
    ]
    image, file = to_openai(ask(prompt), server="openrouter")["messages"][0]["content"]
    assert image["image_url"] == {"url": "https://a.test/a.png"}
    assert file["file"] == {"filename": "paper.pdf", "file_data": "https://a.test/paper.pdf"}


@pytest.mark.parametrize("fields", [{}, {"url": "file:///etc/passwd"}, {"url": "https://"}, {"data": b"x"}])
@pytest.mark.parametrize("block", [ImageBlock, DocumentBlock])
def test_a_block_needs_bytes_with_their_type_or_an_http_address(block: type, fields: dict) -> None:
    with pytest.raises(ValueError, match="is needed"):
        block(**fields)


def test_an_effort_that_is_no_word_is_refused() -> None:
    with pytest.raises(ArgumentError, match="effort: a word"):
        ModelSettings(effort=3)


def test_anthropic_thinking_and_redacted_thinking_are_sent_back_during_tool_use() -> None:
    calls = (call("add", a=1), call("add", a=2))
    items = [
        ThinkingBlock(text="hm ", signature="sig"),
        ThinkingBlock(redacted="opaque"),
        TextBlock(text="So:"),
        *calls,
    ]
    results = [
        ToolResultBlock(call_id=calls[0].id, content=(TextBlock(text="one"), PICTURE)),
        ToolResultBlock(call_id=calls[1].id, content=(TextBlock(text="no"),), is_error=True),
    ]
    body = to_anthropic(ask(Message.user("?"), Message.assistant(items), Message.tool(results)))
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm ", "signature": "sig"},
                {"type": "redacted_thinking", "data": "opaque"},
                {"type": "text", "text": "So:"},
                {"type": "tool_use", "id": calls[0].id, "name": "add", "input": {"a": 1}},
                {"type": "tool_use", "id": calls[1].id, "name": "add", "input": {"a": 2}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": calls[0].id,
                    "content": [
                        {"type": "text", "text": "one"},
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BASE64}},
                    ],
                },
                {
                    "type": "tool_result",
                    "tool_use_id": calls[1].id,
                    "content": [{"type": "text", "text": "no"}],
                    "is_error": True,
                },
            ],
        },
    ]


def test_signatures_and_redacted_blocks_are_read_unchanged_from_an_anthropic_stream() -> None:
    reply = Reply("4", thinking="two and two", signature="sig/==", redacted=("opaque1", "opaque2"))
    with AnthropicServer(reply) as server:
        response = asyncio.run(collect_response(AnthropicProvider("m", base_url=server.url), ask()))
    assert response.message.blocks == (
        ThinkingBlock(text="two and two", signature="sig/=="),
        ThinkingBlock(redacted="opaque1"),
        ThinkingBlock(redacted="opaque2"),
        TextBlock(text="4"),
    )


def test_unsigned_thinking_of_another_provider_is_not_sent_to_anthropic() -> None:
    assistant = Message.assistant([ThinkingBlock(text="unsigned"), TextBlock(text="4")])
    body = to_anthropic(ask(Message.user("?"), assistant, Message.user("Why?")))
    assert body["messages"][1]["content"] == [{"type": "text", "text": "4"}]


SAID = st.text(alphabet=" a\n", max_size=3)
ROUND = st.builds(
    lambda count, thought: (
        Message.assistant(
            [
                *([ThinkingBlock(text="hm", signature="s")] if thought else []),
                *(ToolCallBlock(id=f"c{number}", name="add") for number in range(count)),
            ]
        ),
        Message.tool([ToolResultBlock(call_id=f"c{number}") for number in range(count)]),
    ),
    st.integers(1, 3),
    st.booleans(),
)
PART = st.one_of(
    st.builds(lambda text: (Message.user([TextBlock(text=text)]),), SAID),
    st.builds(lambda text: (Message.assistant([TextBlock(text=text)]),), SAID),
    st.builds(lambda text: (Message.system(text),), SAID),
    ROUND,
)


@given(st.lists(PART, max_size=8))
def test_anthropic_roles_alternate_and_results_follow_their_calls_for_any_history(parts: list) -> None:
    messages = (Message.user("first"), *(message for part in parts for message in part), Message.user("last"))
    body = anthropic_payload(Request(messages), "m", max_tokens=9, cache=False)
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"] * (len(roles) % 2)
    assert roles[-1] == "user"
    for message, after in zip(body["messages"], [*body["messages"][1:], {"content": []}], strict=True):
        assert message["content"]
        assert all(part["type"] != "text" or part["text"].strip() for part in message["content"])
        asked = [part["id"] for part in message["content"] if part["type"] == "tool_use"]
        answered = [part["tool_use_id"] for part in after["content"] if part["type"] == "tool_result"]
        assert sorted(asked) == sorted(answered) or message["role"] == "user"
        kinds = [part["type"] for part in message["content"]]
        assert kinds == sorted(kinds, key=lambda kind: kind != "tool_result") or message["role"] == "assistant"


def test_tool_call_ids_of_another_provider_are_made_valid_for_anthropic() -> None:
    asked = ToolCallBlock(id="functions.add:0", name="add", arguments={"a": 1})
    result = ToolResultBlock(call_id="functions.add:0")
    body = to_anthropic(ask(Message.user("?"), Message.assistant([asked]), Message.tool([result])))
    assert body["messages"][1]["content"][0]["id"] == "functions_add_0"
    assert body["messages"][2]["content"][0]["tool_use_id"] == "functions_add_0"


def test_consecutive_user_and_tool_messages_are_joined_for_anthropic() -> None:
    asked = call("add", a=1)
    history = (
        Message.user("a"),
        Message.user("b"),
        Message.assistant([asked]),
        Message.tool([ToolResultBlock(call_id=asked.id)]),
        Message.user("c"),
        Message.assistant(""),
        Message.user("d"),
    )
    body = to_anthropic(ask(*history))
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    assert [part["type"] for part in body["messages"][2]["content"]] == ["tool_result", "text", "text"]


def test_system_messages_in_the_history_join_the_anthropic_system_prompt() -> None:
    body = to_anthropic(ask(Message.system("Be kind."), Message.user("?"), system="Be brief."))
    assert body["system"] == "Be brief.\n\nBe kind."
    assert [message["role"] for message in body["messages"]] == ["user"]


def test_documents_are_sent_as_blocks_to_anthropic_and_as_text_to_ollama() -> None:
    pdf = DocumentBlock(media_type="application/pdf", data=b"%PDF", name="a.pdf")
    text = DocumentBlock(media_type="text/plain", data="Grüße".encode(), name="a.txt")
    parts = to_anthropic(ask(Message.user([pdf, text])), reads_documents=True)["messages"][0]["content"]
    assert parts[0]["source"]["media_type"] == "application/pdf"
    assert parts[1] == {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "Grüße"},
        "title": "a.txt",
    }
    asked, scanned = (
        ToolCallBlock(id="c1", name="scan"),
        ToolResultBlock(call_id="c1", name="scan", content=(pdf, text)),
    )
    conversation = ask(Message.user("Scan."), Message.assistant([asked]), Message.tool([scanned]))
    (result,) = to_anthropic(conversation, reads_documents=True)["messages"][2]["content"]
    assert result["content"] == parts
    body = to_ollama(ask(Message.user([TextBlock(text="Read:"), text, PICTURE])))
    assert body["messages"] == [{"role": "user", "content": "Read:\n\na.txt:\nGrüße", "images": [BASE64]}]


def test_parts_for_the_server_are_sent_as_they_are_in_their_own_format_alone() -> None:
    upload, reference = ({"type": "container_upload", "file_id": "f1"}, {"type": "tool_reference", "tool_name": "add"})
    file, found = (OpaqueBlock(format="anthropic", data=data) for data in (upload, reference))
    result = Message.tool([ToolResultBlock(call_id="t1", content=(TextBlock(text="one tool"), found))])
    asked = Message.assistant([ToolCallBlock(id="t1", name="search", arguments={})])
    request = ask(Message.user([TextBlock(text="Read it."), file]), asked, result)
    first, _, last = to_anthropic(request)["messages"]
    assert first["content"] == [{"type": "text", "text": "Read it."}, upload]
    assert last["content"][0]["content"] == [{"type": "text", "text": "one tool"}, reference]
    for body in (to_openai(request), to_ollama(request)):
        assert "f1" not in json.dumps(body)
        assert "tool_reference" not in json.dumps(body)
    assert found not in result.without_thinking().tool_results[0].content


def test_tool_calls_and_results_are_sent_in_the_ollama_format() -> None:
    asked = ToolCallBlock(id="c1", name="add", arguments={"a": 1})
    failed = ToolResultBlock(call_id="c1", name="add", content=(TextBlock(text="no"),), is_error=True)
    assistant = Message.assistant([ThinkingBlock(text="hm"), asked])
    body = to_ollama(ask(Message.user("?"), assistant, Message.tool([failed])))
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": "",
            "thinking": "hm",
            "tool_calls": [{"function": {"name": "add", "arguments": {"a": 1}}}],
        },
        {"role": "tool", "content": "Error: no", "tool_name": "add"},
    ]


def test_ollama_tool_calls_without_ids_or_with_equal_indexes_stay_distinct() -> None:
    calls = [{"function": {"index": 0, "name": name, "arguments": {"a": 1}}} for name in ("one", "two")]
    response = from_ollama(
        {"message": {"content": "", "tool_calls": [calls[0]]}, "done": False},
        {"message": {"content": "", "tool_calls": [calls[1]]}, "done": False},
        {"message": {"content": ""}, "done": True, "done_reason": "stop"},
    )
    assert [tool_call.name for tool_call in response.message.tool_calls] == ["one", "two"]
    assert len({tool_call.id for tool_call in response.message.tool_calls}) == 2
    assert response.stop is StopReason.TOOL_CALLS


def test_the_anthropic_key_is_sent_in_the_header_of_its_version_and_hidden_in_errors() -> None:
    leak = json.dumps({"type": "error", "error": {"type": "authentication_error", "message": f"bad {KEY}"}}).encode()
    for version, header, value in ((OLD, "x-api-key", KEY), ("2026-10-21", "authorization", f"Bearer {KEY}")):
        with AnthropicServer(RawReply([leak], 401, "application/json")) as server:
            provider = AnthropicProvider("m", api_key=KEY, base_url=server.url, version=version)
            with pytest.raises(ProviderError) as caught:
                asyncio.run(collect_response(provider, ask()))
            seen = server.requests[0]
            assert len(server.requests) == 1
        assert seen.headers[header] == value
        assert seen.headers["anthropic-version"] == version
        assert seen.path == "/v1/messages"
        for shown in (str(caught.value), repr(caught.value), repr(provider), repr(caught.value.__cause__)):
            assert KEY not in shown


def test_an_error_inside_a_stream_is_raised_without_the_key_and_with_its_transience() -> None:
    for kind, passes in (("overloaded_error", True), ("invalid_request_error", False)):
        with pytest.raises(ProviderError, match="busy") as caught:
            from_anthropic(START, event("error", error={"type": kind, "message": f"busy {KEY}"}))
        assert KEY not in str(caught.value)
        assert caught.value.transient is passes
    with pytest.raises(ProviderError, match="busy"):
        from_ollama({"message": {"content": "Ha"}, "done": False}, {"error": "busy"})


@pytest.mark.parametrize(
    "text",
    [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "This model's maximum context length is 8192 tokens",
        "the request exceeds the available context size (exceed_context_size_error)",
    ],
)
def test_a_too_long_request_to_anthropic_or_ollama_is_a_context_overflow(text: str) -> None:
    body = json.dumps({"error": {"type": "invalid_request_error", "message": text}}).encode()
    for server_type, provider_type in ((AnthropicServer, AnthropicProvider), (OllamaServer, OllamaProvider)):
        with server_type(RawReply([body], 400, "application/json")) as server, pytest.raises(ContextOverflow):
            asyncio.run(collect_response(provider_type("m", base_url=server.url), ask()))


def test_anthropic_usage_counts_are_cumulative_and_include_cached_input() -> None:
    start = {"input_tokens": 3, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 20, "output_tokens": 1}
    written = {"output_tokens": 9, "input_tokens": None, "output_tokens_details": {"thinking_tokens": 4}}
    response = from_anthropic(
        event("message_start", message={"usage": start}),
        TEXT,
        HI,
        event("message_delta", delta={"stop_reason": "end_turn"}, usage=written),
        STOP,
    )
    assert response.usage == Usage(input=33, output=9, cache_read=10, cache_write=20, reasoning=4)


def test_unknown_events_deltas_and_fields_are_passed_over() -> None:
    response = from_anthropic(
        START,
        event("from_the_future", index=0, a=1),
        event("content_block_start", index=1, content_block={"type": "text", "text": "Hi", "future": 1}),
        event("content_block_delta", index=1, delta={"type": "novel_delta", "x": 1}),
        ENDED,
        STOP,
    )
    assert response.message.blocks == (TextBlock(text="Hi"),)


def test_an_anthropic_tool_call_with_arguments_in_its_start_event_keeps_them() -> None:
    block = {"type": "tool_use", "id": "c", "name": "add", "input": {"a": 1}}
    response = from_anthropic(
        START,
        event("content_block_start", index=0, content_block=block),
        event("content_block_stop", index=0),
        event("message_delta", delta={"stop_reason": "tool_use"}, usage={}),
        STOP,
    )
    assert response.message.tool_calls[0].arguments == {"a": 1}


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop_sequence", StopReason.STOP),
        ("pause_turn", StopReason.PAUSED),
        ("model_context_window_exceeded", StopReason.MAX_TOKENS),
        ("refusal", StopReason.REFUSAL),
        ("of_the_future", StopReason.STOP),
    ],
)
def test_every_anthropic_stop_reason_is_mapped(word: str, reason: StopReason) -> None:
    ended = event("message_delta", delta={"stop_reason": word}, usage={})
    assert from_anthropic(START, TEXT, HI, ended, STOP).stop is reason


def test_an_anthropic_or_ollama_stream_that_breaks_off_is_a_provider_error() -> None:
    for cuts in ((START, TEXT, HI), (START, TEXT, HI, ENDED)):
        with pytest.raises(ProviderError, match="broke off") as caught:
            from_anthropic(*cuts)
        assert caught.value.transient
    with pytest.raises(ProviderError, match="broke off"):
        from_ollama({"message": {"content": "Hi"}, "done": False})


def test_each_provider_lists_its_models() -> None:
    with AnthropicServer(models=("small", "large")) as server:
        listed = asyncio.run(AnthropicProvider("m", base_url=server.url).models())
    assert listed == [ModelInfo("large", "Large"), ModelInfo("small", "Small")]
    with OllamaServer(models=("b", "a")) as server:
        assert asyncio.run(OllamaProvider("m", base_url=server.url).models()) == [ModelInfo("a"), ModelInfo("b")]
    with OpenAIServer(models=("b", "a")) as server:
        assert asyncio.run(OpenAICompatibleProvider(server.url, "m").models()) == [ModelInfo("a"), ModelInfo("b")]


def test_models_are_listed_page_by_page() -> None:
    class Paged(AnthropicServer):
        listing = "/never"

    pages = [
        {"data": [{"id": "b", "max_input_tokens": 9}], "has_more": True, "last_id": "b"},
        {"data": [{"id": "a"}], "has_more": False, "last_id": "a"},
    ]
    replies = [RawReply([json.dumps(page).encode()], content_type="application/json") for page in pages]
    with Paged(*replies) as server:
        listed = asyncio.run(AnthropicProvider("m", base_url=server.url).models())
        assert "after_id=b" in server.requests[1].path
    assert listed == [ModelInfo("a"), ModelInfo("b", context=9)]


@pytest.mark.parametrize("server_type", [AnthropicServer, OllamaServer, OpenAIServer])
def test_a_list_of_models_of_an_unknown_shape_is_a_typed_error(server_type) -> None:
    class Odd(server_type):
        def listed(self, models):
            return {"data": 7}

    make = {
        AnthropicServer: lambda url: AnthropicProvider("m", base_url=url),
        OllamaServer: lambda url: OllamaProvider("m", base_url=url),
        OpenAIServer: lambda url: OpenAICompatibleProvider(url, "m"),
    }[server_type]
    with Odd() as server, pytest.raises(ProviderError, match="unknown shape"):
        asyncio.run(make(server.url).models())


@pytest.mark.parametrize("make", [AnthropicProvider, OllamaProvider])
def test_a_missing_model_name_or_invalid_address_is_refused(make) -> None:
    with pytest.raises(ArgumentError) as caught:
        make(" ")
    assert caught.value.argument == "model"
    with pytest.raises(ArgumentError) as caught:
        make("m", base_url="ftp://host")
    assert caught.value.argument == "base_url"
    assert "hunter2" not in repr(make("m", base_url="http://user:hunter2@localhost"))


@pytest.mark.parametrize("options", [{"max_tokens": 0}, {"version": "latest"}, {"api_key": "ключ"}])
def test_bad_options_are_refused(options: dict) -> None:
    with pytest.raises(ArgumentError) as caught:
        AnthropicProvider("m", **options)
    assert caught.value.argument == next(iter(options))
