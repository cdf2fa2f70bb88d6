"""Providers: the shipped contract over scripted and real HTTP, and the fields of the Chat Completions format.

Inner parts, on no face: ``tellback.agent.providers.accumulator``, ``tellback.agent.providers.base``,
``tellback.agent.providers.openai``.
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
    Agent,
    ArgumentError,
    ModelSettings,
    OpenAICompatibleProvider,
    Provider,
    ProviderError,
    Request,
    StopReason,
    TextPiece,
    ThinkingPiece,
    ToolCallPiece,
    Unsupported,
    Usage,
)
from tellback.agent.providers.accumulator import ResponseAccumulator, collect_response
from tellback.agent.providers.base import ToolSpec
from tellback.agent.testing import OpenAIServer, ProviderContract, RawReply, Reply, ScriptedProvider, call
from tellback.memory import (
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
    ToolResultBlock,
)
from tellback.memory.http import HttpClient
from tellback.vectorstore import MissingExtra
from tests.support.pdf import make_pdf

KEY = "sk-secret-0123456789abcdef"
PNG = b"\x89PNG\r\n\x1a\nrest"


class TestScriptedProvider(ProviderContract):
    @contextmanager
    def serving(self, *replies):
        yield ScriptedProvider(*replies)


class TestOpenAICompatibleProvider(ProviderContract):
    @contextmanager
    def serving(self, *replies):
        with OpenAIServer(*replies) as server:
            yield OpenAICompatibleProvider(server.url, "any-model", api_key=KEY, client=HttpClient(retries=0))


def ask(*messages: Message, **options) -> Request:
    return Request(messages or (Message.user("Hello"),), **options)


def sent(request: Request, **options) -> dict:
    """Send *request* to a scripted server and return the body that it received."""
    with OpenAIServer(Reply("fine")) as server:
        provider = OpenAICompatibleProvider(server.url, "any-model", **options)
        asyncio.run(collect_response(provider, request))
        return server.requests[0].body


def answered(*cuts: bytes, **raw):
    with OpenAIServer(RawReply(cuts, **raw)) as server:
        provider = OpenAICompatibleProvider(server.url, "any-model", api_key=KEY, client=HttpClient(retries=0))
        return asyncio.run(collect_response(provider, ask()))


def chunk(delta: dict, reason: str | None = None, **more) -> bytes:
    body = {"choices": [{"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}], **more}
    return f"data: {json.dumps(body)}\n\n".encode()


DONE = b"data: [DONE]\n\n"


def test_the_scripted_and_the_openai_compatible_provider_are_providers() -> None:
    assert isinstance(ScriptedProvider(), Provider)
    assert isinstance(OpenAICompatibleProvider("http://localhost/v1", "m"), Provider)


def test_a_request_has_only_the_configured_fields() -> None:
    body = sent(ask())
    assert body == {
        "model": "any-model",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_settings_of_zero_are_sent() -> None:
    given_settings = ModelSettings(temperature=0, top_p=0.0, top_k=0, seed=0, presence_penalty=0.0, stop=("END",))
    body = sent(ask(settings=given_settings))
    assert {name: body[name] for name in ("temperature", "top_p", "top_k", "seed", "presence_penalty", "stop")} == {
        "temperature": 0,
        "top_p": 0.0,
        "top_k": 0,
        "seed": 0,
        "presence_penalty": 0.0,
        "stop": ["END"],
    }


def test_max_tokens_is_sent_under_the_configured_limit_field() -> None:
    assert sent(ask(settings=ModelSettings(max_tokens=7)))["max_tokens"] == 7
    named = sent(ask(settings=ModelSettings(max_tokens=7)), limit_field="max_completion_tokens")
    assert named["max_completion_tokens"] == 7
    assert "max_tokens" not in named


def test_effort_schema_and_extra_fields_are_sent() -> None:
    body = sent(ask(settings=ModelSettings(effort="low", response_schema={"type": "object"}, extra={"cache": True})))
    assert body["reasoning_effort"] == "low"
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object", "additionalProperties": False}
    assert body["cache"] is True


SWITCH = "chat_template_kwargs"


@pytest.mark.parametrize(
    ("server", "thinking", "fields"),
    [
        (None, "off", {"reasoning_effort": "none"}),
        ("openai", "on", {"reasoning_effort": "medium"}),
        ("lmstudio", "off", {"reasoning_effort": "none"}),
        ("ollama", "on", {"reasoning_effort": "medium"}),
        ("llama.cpp", "off", {SWITCH: {"enable_thinking": False}}),
        ("llama.cpp", "on", {SWITCH: {"enable_thinking": True}}),
        ("llama.cpp", 512, {SWITCH: {"enable_thinking": True}, "thinking_budget_tokens": 512}),
        ("vllm", "off", {SWITCH: {"enable_thinking": False}}),
        ("vllm", 512, {SWITCH: {"enable_thinking": True}, "thinking_token_budget": 512}),
        ("openrouter", "off", {"reasoning": {"enabled": False}}),
        ("openrouter", 512, {"reasoning": {"max_tokens": 512}}),
    ],
)
def test_thinking_is_switched_by_the_parameters_of_each_server(server, thinking, fields: dict) -> None:
    body = sent(ask(settings=ModelSettings(thinking=thinking)), server=server)
    assert {name: body[name] for name in body if name not in sent(ask())} == fields


def test_a_setting_that_servers_name_differently_raises_where_the_server_is_unknown() -> None:
    for server, field in (("llama.cpp", "repeat_penalty"), ("vllm", "repetition_penalty")):
        assert sent(ask(settings=ModelSettings(repetition_penalty=1.1)), server=server)[field] == 1.1
    with pytest.raises(Unsupported, match=r"llama\.cpp"):
        sent(ask(settings=ModelSettings(repetition_penalty=1.1)))
    with pytest.raises(ArgumentError, match=r"llama\.cpp"):
        OpenAICompatibleProvider("http://localhost/v1", "m", server="llama")


def test_json_without_a_schema_is_asked_for_as_a_json_object() -> None:
    assert sent(ask(settings=ModelSettings(json_mode=True)))["response_format"] == {"type": "json_object"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", float("nan")),
        ("temperature", True),
        ("max_tokens", 0),
        ("max_tokens", 1.5),
        ("max_characters", 0),
        ("repetition_penalty", 0),
        ("json_mode", "yes"),
        ("stop", "END"),
    ],
)
def test_invalid_model_settings_are_refused(name: str, value: object) -> None:
    with pytest.raises(ArgumentError) as caught:
        ModelSettings(**{name: value})
    assert caught.value.argument == name


def test_system_prompt_and_tools_are_sent_in_the_openai_format() -> None:
    spec = ToolSpec("add", "Add.", {"type": "object"})
    body = sent(ask(system="Be brief.", tools=(spec,), tool_choice="none"))
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}
    function = {"name": "add", "description": "Add.", "parameters": {"type": "object"}}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert body["tool_choice"] == "none"


def test_tool_calls_and_their_results_are_sent_in_the_openai_format() -> None:
    asked = ToolCallBlock(id="c1", name="add", arguments={"a": 1, "b": "ü"})
    failed = ToolResultBlock(call_id="c1", name="add", content=(TextBlock(text="no such number"),), is_error=True)
    body = sent(ask(Message.user("1+1?"), Message.assistant([asked]), Message.tool([failed])))
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a":1,"b":"ü"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "Error: no such number"},
    ]


def test_invalid_json_arguments_of_a_tool_call_are_sent_back_as_an_empty_object() -> None:
    asked = ToolCallBlock(id="c1", name="add", invalid='{"a":')
    body = sent(ask(Message.user("?"), Message.assistant([asked]), Message.tool([ToolResultBlock(call_id="c1")])))
    assert body["messages"][1]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_images_go_as_data_urls_and_text_alone_as_text() -> None:
    picture = ImageBlock(media_type="image/png", data=PNG)
    body = sent(ask(Message.user([TextBlock(text="What is this?"), picture])))
    parts = body["messages"][0]["content"]
    assert parts[0] == {"type": "text", "text": "What is this?"}
    assert parts[1]["image_url"]["url"] == "data:image/png;base64," + base64.b64encode(PNG).decode()


def test_documents_go_as_a_file_or_as_their_text() -> None:
    pdf = DocumentBlock(media_type="application/pdf", data=b"%PDF", name="a.pdf")
    text = DocumentBlock(media_type="text/plain", data="Grüße".encode(), name="a.txt")
    parts = sent(ask(Message.user([pdf, text])), server="openai")["messages"][0]["content"]
    assert parts[0]["file"]["filename"] == "a.pdf"
    assert parts[1] == {"type": "text", "text": "a.txt:\nGrüße"}


def test_a_pdf_is_sent_as_its_text_where_the_server_reads_no_documents() -> None:
    pdf = DocumentBlock(media_type="application/pdf", data=make_pdf("The boiler is\nin the cellar."), name="house.pdf")
    text = DocumentBlock(media_type="text/plain", data=b"Mind the step.", name="a.txt")
    broken = DocumentBlock(media_type="application/pdf", data=b"%PDF-1.4", name="b.pdf")
    asked = ToolCallBlock(id="c1", name="scan")
    result = ToolResultBlock(call_id="c1", name="scan", content=(pdf, text))
    conversation = (Message.user([pdf, broken]), Message.assistant([asked]), Message.tool([result]))
    prompt, _, answer = sent(ask(*conversation))["messages"]
    assert "house.pdf:\nThe boiler is" in prompt["content"]
    assert "b.pdf cannot be read as text: not a readable PDF" in prompt["content"]
    assert "house.pdf:\nThe boiler is" in answer["content"]
    assert answer["content"].endswith("a.txt:\nMind the step.")


@pytest.mark.parametrize("options", [{"server": "openai"}, {"reads_documents": True}], ids=str)
def test_a_pdf_that_a_tool_returns_follows_all_tool_results_where_the_server_reads_it(options: dict) -> None:
    pdf = DocumentBlock(media_type="application/pdf", data=b"%PDF", name="house.pdf")
    result = ToolResultBlock(call_id="c1", name="scan", content=(pdf,))
    asked = Message.assistant([ToolCallBlock(id="c1", name="scan")])
    messages = sent(ask(Message.user("Scan."), asked, Message.tool([result])), **options)["messages"]
    assert messages[2]["content"] == "(1 document, shown below)"
    assert messages[3]["content"][1]["file"]["filename"] == "house.pdf"


def test_a_pdf_without_the_package_that_reads_it_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tellback.memory.documents.loaders.registry.find_spec", lambda name: None)
    pdf = DocumentBlock(media_type="application/pdf", data=b"%PDF-never read before", name="house.pdf")
    with pytest.raises(MissingExtra, match="docs"):
        sent(ask(Message.user([pdf])))


def test_the_model_that_answered_is_kept_with_its_version() -> None:
    response = answered(chunk({"content": "Hi"}, "stop", model="any-model-2026-11-01"), DONE)
    assert response.model == "any-model-2026-11-01"
    with OpenAIServer(Reply("Hi")) as server:
        result = Agent(OpenAICompatibleProvider(server.url, "any-model")).run_sync("Hello")
    assert (result.model, result.messages[-1].metadata["model"]) == ("scripted", "scripted")


def test_an_image_of_a_tool_result_follows_all_tool_results() -> None:
    calls = [ToolCallBlock(id=id, name="draw") for id in ("c1", "c2")]
    results = [
        ToolResultBlock(call_id="c1", name="draw", content=(ImageBlock(media_type="image/png", data=PNG),)),
        ToolResultBlock(call_id="c2", name="draw", content=(TextBlock(text="nothing"),)),
    ]
    messages = sent(ask(Message.user("Draw."), Message.assistant(calls), Message.tool(results)))["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "user"]
    assert messages[4]["content"][1]["type"] == "image_url"


def test_reasoning_goes_back_only_in_the_field_that_the_server_wants() -> None:
    conversation = (Message.user("?"), Message.assistant([ThinkingBlock(text="hm"), call("add")]))
    assert "reasoning_content" not in sent(ask(*conversation))["messages"][1]
    assert sent(ask(*conversation), reasoning_field="reasoning_content")["messages"][1]["reasoning_content"] == "hm"


def test_the_api_key_is_sent_and_never_shown() -> None:
    leak = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}"}}).encode()
    with OpenAIServer(RawReply([leak], 401, "application/json")) as server:
        provider = OpenAICompatibleProvider(server.url, "any-model", api_key=KEY)
        with pytest.raises(ProviderError) as caught:
            asyncio.run(collect_response(provider, ask()))
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert caught.value.status == 401
    for shown in (str(caught.value), repr(caught.value), repr(provider), repr(caught.value.__cause__)):
        assert KEY not in shown
    assert "key" in str(caught.value)


def test_a_placeholder_api_key_is_not_redacted_inside_error_words() -> None:
    leak = json.dumps({"error": {"message": "the context is exceeded"}}).encode()
    refused = pytest.raises(ProviderError, match="the context is exceeded")
    with OpenAIServer(RawReply([leak], 400, "application/json")) as server, refused:
        asyncio.run(collect_response(OpenAICompatibleProvider(server.url, "any-model", api_key="x"), ask()))


def test_an_error_inside_the_stream_is_raised_without_the_key() -> None:
    event = json.dumps({"error": {"message": f"bad key {KEY}", "code": 502}})
    with pytest.raises(ProviderError) as caught:
        answered(chunk({"content": "Hal"}), f"data: {event}\n\n".encode())
    assert "bad key" in str(caught.value)
    assert KEY not in str(caught.value)


def test_no_key_sends_no_authorisation() -> None:
    with OpenAIServer(Reply("fine")) as server:
        asyncio.run(collect_response(OpenAICompatibleProvider(server.url, "m"), ask()))
        assert "authorization" not in server.requests[0].headers


def test_a_model_must_be_named() -> None:
    with pytest.raises(ArgumentError) as caught:
        OpenAICompatibleProvider("http://localhost:8080/v1", "")
    assert caught.value.argument == "model"


@pytest.mark.parametrize("url", ["", "localhost:8080", "ftp://host/v1", "http://", "http://host/v1?key=x", None])
def test_an_invalid_base_url_is_refused(url: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        OpenAICompatibleProvider(url, "m")
    assert caught.value.argument == "base_url"


def test_a_key_in_the_address_is_not_shown() -> None:
    assert "hunter2" not in repr(OpenAICompatibleProvider("http://user:hunter2@localhost/v1", "m"))


def test_a_refused_connection_is_a_provider_error_with_a_hint() -> None:
    with OpenAIServer() as server:
        url = server.url
    provider = OpenAICompatibleProvider(url, "m", client=HttpClient(retries=0))
    with pytest.raises(ProviderError, match="is the server running"):
        asyncio.run(collect_response(provider, ask()))


def test_models_are_listed() -> None:
    with OpenAIServer(models=("small", "large")) as server:
        listed = asyncio.run(OpenAICompatibleProvider(server.url, "m", api_key=KEY).models())
    assert [model.name for model in listed] == ["large", "small"]


def test_a_stream_without_done_is_complete_with_a_finish_reason() -> None:
    assert answered(chunk({"content": "Hi"}), chunk({}, "stop")).text == "Hi"


def test_a_stream_without_a_finish_reason_is_complete_with_done() -> None:
    assert answered(chunk({"content": "Hi"}), DONE).stop is StopReason.STOP


def test_a_stream_that_breaks_off_raises() -> None:
    with pytest.raises(ProviderError, match="broke off"):
        answered(chunk({"content": "Hi"}))


@pytest.mark.parametrize("data", [b"data: {oops\n\n", b"data: 7\n\n", b"data: [1]\n\n"])
def test_a_chunk_that_is_no_json_object_raises(data: bytes) -> None:
    with pytest.raises(ProviderError):
        answered(chunk({"content": "Hi"}), data, DONE)


def test_comments_pings_unknown_fields_and_crlf_are_passed_over() -> None:
    text = chunk({"content": "Hi", "future": [1]}, surprise={"a": 1}).replace(b"\n", b"\r\n")
    assert answered(b": ping\n\n", b"event: ping\ndata: {}\n\n", text, chunk({}, "stop"), DONE).text == "Hi"


def test_reasoning_is_read_from_either_field() -> None:
    for name in ("reasoning_content", "reasoning"):
        response = answered(chunk({name: "hm", "content": None}), chunk({"content": "4"}, "stop"), DONE)
        assert [type(block) for block in response.message.blocks] == [ThinkingBlock, TextBlock]


def test_calls_without_an_index_are_distinguished_by_their_ids() -> None:
    calls = [{"id": id, "function": {"name": name, "arguments": {"a": 1}}} for id, name in (("x", "one"), ("y", "two"))]
    response = answered(chunk({"tool_calls": [calls[0]]}), chunk({"tool_calls": [calls[1]]}, "stop"), DONE)
    assert [(tool_call.id, tool_call.name, tool_call.arguments) for tool_call in response.message.tool_calls] == [
        ("x", "one", {"a": 1}),
        ("y", "two", {"a": 1}),
    ]
    assert response.stop is StopReason.TOOL_CALLS


def test_a_call_without_an_id_gets_one() -> None:
    piece = {"index": 0, "function": {"name": "now", "arguments": "{}"}}
    response = answered(chunk({"tool_calls": [piece]}, "tool_calls"), DONE)
    assert response.message.tool_calls[0].id


def test_usage_that_comes_with_every_chunk_is_not_added_up() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    response = answered(chunk({"content": "a"}, usage=usage), chunk({}, "stop", usage=usage), DONE)
    assert response.usage == Usage(input=5, output=2)


@pytest.mark.slow
@given(st.data())
def test_a_stream_cut_anywhere_gives_the_same_reply(data: st.DataObject) -> None:
    stream = chunk({"content": "Zürich 🚀 "}) + chunk({"content": "\u2028x"}, "stop") + DONE
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=6)))
    parts = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert answered(*parts).text == "Zürich 🚀 \u2028x"


def test_surrogate_halves_in_separate_pieces_are_joined() -> None:
    collector = ResponseAccumulator()
    collector.add(TextPiece("\ud83d"))
    collector.add(TextPiece("\ude80 and \ud800"))
    assert collector.response().text == "🚀 and \ufffd"


def test_tool_arguments_with_a_lone_surrogate_are_kept_as_invalid() -> None:
    collector = ResponseAccumulator()
    collector.add(ToolCallPiece(0, "c", "note", '{"text": "\\ud800"}'))
    assert collector.response().message.tool_calls[0].invalid == '{"text": "\\ud800"}'


def test_a_signature_ends_a_block_of_thinking() -> None:
    collector = ResponseAccumulator()
    for piece in (ThinkingPiece("a"), ThinkingPiece(signature="s"), ThinkingPiece("b"), ThinkingPiece(redacted="r")):
        collector.add(piece)
    assert collector.response().message.blocks == (
        ThinkingBlock(text="a", signature="s"),
        ThinkingBlock(text="b"),
        ThinkingBlock(redacted="r"),
    )


def test_a_provider_stream_without_a_stop_piece_is_a_provider_error() -> None:
    class Silent:
        async def stream(self, request: Request):
            yield TextPiece("and then")

    with pytest.raises(ProviderError, match="broke off"):
        asyncio.run(collect_response(Silent(), ask()))


def test_a_scripted_provider_raises_at_a_request_without_a_reply() -> None:
    provider = ScriptedProvider()
    with pytest.raises(AssertionError, match="only 0 replies"):
        asyncio.run(collect_response(provider, ask()))
    with pytest.raises(AssertionError), provider:
        pass


def test_a_scripted_provider_raises_for_an_unused_reply() -> None:
    with pytest.raises(AssertionError, match="never asked for"), ScriptedProvider(Reply("never")):
        pass


def test_a_scripted_provider_raises_at_an_unexpected_request() -> None:
    provider = ScriptedProvider(Reply("x", expect="weather"))
    with pytest.raises(AssertionError, match="weather"):
        asyncio.run(collect_response(provider, ask(Message.user("time?"))))
