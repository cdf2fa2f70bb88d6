"""Parts of replies beyond text and calls: kept as they came, sent back, cited; and turns that a server pauses.

The streams are written here in the documented shapes, cut every few bytes, and read by the official clients too.
Inner parts, on no face: ``tellback.agent.providers.accumulator``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from tellback.agent import (
    Agent,
    AgentSettings,
    AnthropicProvider,
    Ending,
    OpenAICompatibleProvider,
    ProviderError,
    Request,
    RunError,
    StopReason,
    tool,
)
from tellback.agent.providers.accumulator import Response, collect_response
from tellback.agent.testing import AnthropicServer, OpenAIServer, RawReply, Reply
from tellback.memory import DocumentBlock, Message, TextBlock, ThinkingBlock, ToolCallBlock
from tellback.memory.internals import OpaqueBlock

pytestmark = pytest.mark.anyio
KEY = "sk-test-0123456789"
QUESTION = Request((Message.user("Who won?"),))


def cut(stream: str, size: int = 7) -> RawReply:
    data = stream.encode()
    return RawReply([data[start : start + size] for start in range(0, len(data), size)])


def anthropic_events(blocks: Iterable[tuple[dict, list[dict]]], reason: str = "end_turn") -> str:
    message = {"id": "m1", "type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
    events = [{"type": "message_start", "message": {**message, "usage": {"input_tokens": 9, "output_tokens": 1}}}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 20}})
    events.append({"type": "message_stop"})
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def openai_chunks(*deltas: dict, reason: str = "stop", late_usage: bool = True) -> str:
    def chunk(delta: dict, ended: str | None = None) -> dict:
        choice = {"index": 0, "delta": delta, "finish_reason": ended}
        return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

    chunks = [*map(chunk, deltas), chunk({}, reason)]
    usage = {"prompt_tokens": 9, "completion_tokens": 20, "total_tokens": 29}
    if late_usage:
        chunks.append({**chunk({}), "choices": [], "usage": usage})
    return "".join(f"data: {json.dumps(item)}\n\n" for item in chunks) + "data: [DONE]\n\n"


CITATION = {
    "type": "web_search_result_location",
    "url": "https://results.example/cup",
    "title": "Cup final",
    "cited_text": "Ana won in straight sets.",
    "encrypted_index": "e1",
}
SEARCH = {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {"query": "who won ü"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srv1",
    "content": [{"type": "web_search_result", "url": CITATION["url"], "title": "Cup final", "encrypted_content": "x"}],
}
SEARCHED = [
    ({"type": "thinking", "thinking": "", "signature": ""}, [{"type": "thinking_delta", "thinking": "hm"}]),
    ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Let me "}, {"type": "text_delta", "text": "see."}]),
    (
        {**SEARCH, "input": {}},
        [{"type": "input_json_delta", "partial_json": part} for part in ('{"query": ', '"who won ü"}')],
    ),
    (FOUND, []),
    (
        {"type": "text", "text": "", "citations": []},
        [{"type": "text_delta", "text": "Ana won."}, {"type": "citations_delta", "citation": CITATION}],
    ),
]


async def anthropic_reply(reply: RawReply) -> Response:
    with AnthropicServer(reply) as server:
        return await collect_response(AnthropicProvider("m", api_key=KEY, base_url=server.url), QUESTION)


async def openai_reply(reply: RawReply) -> Response:
    with OpenAIServer(reply) as server:
        return await collect_response(OpenAICompatibleProvider(server.url, "m", api_key=KEY), QUESTION)


@pytest.mark.slow
async def test_server_tools_and_citations_of_anthropic_are_kept_as_the_official_client_reads_them() -> None:
    anthropic = pytest.importorskip("anthropic")
    reply = cut(anthropic_events(SEARCHED))
    response = await anthropic_reply(reply)
    options = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "?"}]}
    with (
        AnthropicServer(reply) as server,
        anthropic.Anthropic(base_url=server.url, api_key=KEY) as client,
        client.messages.stream(**options) as stream,
    ):
        theirs = stream.get_final_message()
    assert [block.type for block in theirs.content] == [
        *("thinking", "text", "server_tool_use", "web_search_tool_result", "text")
    ]
    assert [block.type for block in response.message.blocks] == [
        *("thinking", "text", "opaque", "opaque", "text", "opaque")
    ]
    search, found, _ = (block for block in response.message.blocks if isinstance(block, OpaqueBlock))
    assert search.data["input"] == theirs.content[2].input == SEARCH["input"]
    assert found.data == FOUND
    (citation,) = response.citations
    (their_citation,) = theirs.content[4].citations
    assert (citation.source, citation.title, citation.quote) == (
        their_citation.url,
        their_citation.title,
        their_citation.cited_text,
    )
    assert response.text == "Let me see.\nAna won."


async def test_a_paused_turn_continues_with_the_blocks_that_the_server_requires() -> None:
    paused = cut(anthropic_events(SEARCHED[:4], "pause_turn"))
    with AnthropicServer(paused, cut(anthropic_events(SEARCHED[4:]))) as server:
        result = await Agent(AnthropicProvider("m", base_url=server.url)).run("Who won?")
        sent = server.requests[1].body["messages"]
    assert (result.ending, result.text) == (Ending.FINAL, "Let me see.\nAna won.")
    assert [citation.source for citation in result.citations] == [CITATION["url"]]
    assert [message["role"] for message in sent] == ["user", "assistant"]
    assert sent[1]["content"] == [{"type": "text", "text": "Let me see."}, SEARCH, FOUND]
    assert [len(message.blocks) for message in result.messages] == [1, 6]
    assert [step.stop for step in result.steps] == [StopReason.PAUSED, StopReason.STOP]


async def test_a_turn_that_always_pauses_ends_at_the_limit_of_rounds() -> None:
    paused = cut(anthropic_events(SEARCHED[:4], "pause_turn"))
    with AnthropicServer(*[paused] * 3) as server, pytest.raises(RunError, match="paused"):
        await Agent(AnthropicProvider("m", base_url=server.url), settings=AgentSettings(max_rounds=3)).run("Who won?")


async def test_parts_of_one_format_are_not_sent_to_another_nor_stored() -> None:
    message = (await anthropic_reply(cut(anthropic_events(SEARCHED)))).message
    with OpenAIServer(Reply("ok")) as server:
        await collect_response(OpenAICompatibleProvider(server.url, "m"), Request((*QUESTION.messages, message)))
        (sent,) = server.requests[0].body["messages"][1:]
    assert sent == {"role": "assistant", "content": "Let me see.\nAna won."}
    call_block = ToolCallBlock(id="c", name="n", opaque={"extra_content": {}})
    stored = Message.assistant([*message.blocks, call_block]).without_thinking()
    assert {block.type for block in stored.blocks} == {"text", "tool_call"}
    assert stored.tool_calls[0].opaque is None


DETAILS = [
    {"type": "reasoning.text", "index": 0, "text": "two and ", "format": "f", "signature": None},
    {"type": "reasoning.text", "index": 0, "text": "two", "signature": "sig"},
    {"type": "reasoning.encrypted", "index": 1, "data": "abc"},
]
WHOLE_DETAILS = [
    {"type": "reasoning.text", "index": 0, "text": "two and two", "format": "f", "signature": "sig"},
    DETAILS[2],
]
FUNCTION = {"name": "clock_now", "arguments": ""}
SIGNATURE = {"google": {"thought_signature": "s=="}}


@tool
def clock_now() -> str:
    """Tell the time."""
    return "noon"


@pytest.mark.parametrize(
    ("deltas", "sent_back"),
    [
        ([{"reasoning_content": "two and "}, {"reasoning_content": "two"}], {"reasoning_content": "two and two"}),
        ([{"reasoning": "two and two"}], {"reasoning": "two and two"}),
        (
            [{"reasoning": "two", "reasoning_details": [detail]} for detail in DETAILS],
            {"reasoning_details": WHOLE_DETAILS},
        ),
        (
            [{"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "two and two"}]}]}],
            {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "two and two"}]}]},
        ),
    ],
    ids=["reasoning_content", "reasoning", "details", "typed parts"],
)
async def test_reasoning_goes_back_in_the_field_in_which_it_came(deltas: list[dict], sent_back: dict[str, Any]) -> None:
    asked = {"tool_calls": [{"index": 0, "id": "c1", "function": FUNCTION, "extra_content": SIGNATURE}]}
    first = cut(openai_chunks(*deltas, asked, reason="tool_calls"))
    with OpenAIServer(first, Reply("It is noon.")) as server:
        result = await Agent(OpenAICompatibleProvider(server.url, "m"), tools=[clock_now]).run("What time is it?")
        sent = server.requests[1].body["messages"][-2]
    assert result.text == "It is noon."
    assert {name: sent.get(name) for name in sent_back} == sent_back
    assert sent["tool_calls"][0]["extra_content"] == SIGNATURE
    assert {"reasoning", "reasoning_content", "reasoning_details"} & sent.keys() == sent_back.keys() - {"content"}
    assert not any(isinstance(block, ThinkingBlock) for message in result.messages[-1:] for block in message.blocks)


@pytest.mark.slow
async def test_interleaved_calls_late_usage_and_annotations_are_read_as_the_official_client_reads_them() -> None:
    openai = pytest.importorskip("openai")
    page = {"url": "https://results.example/cup", "title": "Cup final", "start_index": 0, "end_index": 8}

    def piece(index: int, **fields: Any) -> dict:
        return {"tool_calls": [{"index": index, "type": "function", **fields}]}

    reply = cut(
        openai_chunks(
            {"role": "assistant", "content": "Ana "},
            {"content": "won. 🚀"},
            piece(0, id="a", function={"name": "add", "arguments": '{"a"'}),
            piece(1, id="b", function={"name": "now", "arguments": ""}),
            piece(0, function={"arguments": ": 1}"}),
            piece(1, function={"arguments": '{"zone": "ü"}'}),
            {"annotations": [{"type": "url_citation", "url_citation": page}]},
            reason="tool_calls",
        )
    )
    response = await openai_reply(reply)
    with OpenAIServer(reply) as server, openai.OpenAI(base_url=server.url, api_key=KEY) as client:
        options = {"model": "m", "messages": [{"role": "user", "content": "?"}]}
        with client.chat.completions.stream(**options, stream_options={"include_usage": True}) as stream:
            theirs = stream.get_final_completion()
    message = theirs.choices[0].message
    assert response.text == message.content
    assert [(tool_call.id, tool_call.name, tool_call.arguments) for tool_call in response.message.tool_calls] == [
        (tool_call.id, tool_call.function.name, json.loads(tool_call.function.arguments))
        for tool_call in message.tool_calls
    ]
    assert (response.usage.input, response.usage.output) == (theirs.usage.prompt_tokens, theirs.usage.completion_tokens)
    assert [(citation.source, citation.title) for citation in response.citations] == [(page["url"], page["title"])]


def whole(body: dict) -> RawReply:
    return RawReply([json.dumps(body).encode()], content_type="application/json")


async def test_a_reply_that_is_not_streamed_is_read() -> None:
    completion = {
        "model": "m",
        "choices": [{"message": {"content": "Ana won."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3},
    }
    message = {
        "type": "message",
        "model": "m",
        "content": [{"type": "text", "text": "Ana won.", "citations": [CITATION]}, call_block()],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 9, "output_tokens": 3},
    }
    first, second = await openai_reply(whole(completion)), await anthropic_reply(whole(message))
    assert first.text == second.text == "Ana won."
    assert (first.usage.input, second.usage.output) == (9, 3)
    assert second.message.tool_calls[0].arguments == {"a": 1}
    assert [citation.quote for citation in second.citations] == [CITATION["cited_text"]]


def call_block() -> dict:
    return {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}}


@pytest.mark.parametrize("server_type", [OpenAIServer, AnthropicServer])
@pytest.mark.parametrize(
    ("body", "problem"),
    [({"error": {"message": "streaming is off"}}, "streaming is off"), ({"a": 1}, "is JSON, and no")],
)
async def test_json_that_is_no_reply_is_a_typed_error(server_type: type, body: dict, problem: str) -> None:
    read = anthropic_reply if server_type is AnthropicServer else openai_reply
    with pytest.raises(ProviderError, match=problem):
        await read(whole(body))


async def test_system_messages_stay_in_their_place_where_the_format_takes_them() -> None:
    messages = (Message.system("Be kind."), Message.user("Hello"), Message.system("From now on, in verse."))
    request = Request((*messages, Message.user("Go on.")), system="You are Tellback.")
    with OpenAIServer(Reply("ok"), Reply("ok")) as server:
        await collect_response(OpenAICompatibleProvider(server.url, "m", server="openai"), request)
        await collect_response(OpenAICompatibleProvider(server.url, "m"), request)
        in_place, first = ([m["role"] for m in seen.body["messages"]] for seen in server.requests)
    assert in_place == ["system", "user", "system", "user"]
    assert first == ["system", "user"]
    with AnthropicServer(Reply("ok"), Reply("ok")) as server:
        await collect_response(AnthropicProvider("m", base_url=server.url), request)
        await collect_response(AnthropicProvider("m", base_url=server.url, version="2023-06-01"), request)
        newer, older = (seen.body for seen in server.requests)
    assert newer["system"] == "You are Tellback.\n\nBe kind."
    assert [message["role"] for message in newer["messages"]] == ["user", "system", "user"]
    assert older["system"].endswith("From now on, in verse.")
    assert [message["role"] for message in older["messages"]] == ["user"]


async def test_leading_blank_lines_of_an_answer_come_back_as_they_came() -> None:
    blocks = [
        ({"type": "thinking", "thinking": "", "signature": "s"}, [{"type": "thinking_delta", "thinking": "hm"}]),
        ({"type": "text", "text": ""}, [{"type": "text_delta", "text": "\n\nIt is 4."}]),
    ]
    with AnthropicServer(cut(anthropic_events(blocks))) as server:
        response = await collect_response(AnthropicProvider("m", base_url=server.url), QUESTION)
    assert response.text == "\n\nIt is 4."


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_fields_of_a_message_go_back_as_they_came_and_those_that_nothing_reads_are_named() -> None:
    file = {"type": "file", "file": {"hash": "h", "name": "a.pdf"}}
    signature = {"google": {"thought_signature": "sig"}}
    call = {"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
    deltas = (
        {"extra_content": signature, "annotations": [file]},
        {"executed_tools": [{"type": "search"}], "tool_calls": [call]},
    )
    with OpenAIServer(cut(openai_chunks(*deltas, reason="tool_calls")), Reply("3")) as server:
        agent = Agent(OpenAICompatibleProvider(f"{server.url}/v1", "m"), tools=[add])
        result = await agent.run("1 + 2?")
    sent = next(message for message in server.requests[1].body["messages"] if message["role"] == "assistant")
    assert sent["extra_content"] == signature
    assert sent["annotations"] == [file]
    assert "executed_tools" not in sent
    assert result.warnings == ("the reply has fields that are not read: executed_tools",)


@pytest.mark.parametrize("refused", [False, True])
async def test_a_tool_call_that_the_server_could_not_read_is_shown_to_the_model(refused: bool) -> None:
    error = {"message": "Failed to call a function.", "code": "tool_use_failed", "failed_generation": "<add>1,2</add>"}
    answer = json.dumps({"error": error})
    failed = cut(f"event: error\ndata: {answer}\n\n")
    if refused:
        failed = RawReply([answer.encode()], status=400, content_type="application/json")
    with OpenAIServer(failed, Reply("3")) as server:
        provider = OpenAICompatibleProvider(f"{server.url}/v1", "m")
        result = await Agent(provider, tools=[add]).run("1 + 2?")
        assert server.requests[1].body["messages"][1]["content"] == "<add>1,2</add>"
        assert "could not be read" in server.requests[1].body["messages"][2]["content"]
    assert result.text == "3"
    assert any("could not be read" in warning for warning in result.warnings)
    with OpenAIServer(failed, failed) as server, pytest.raises(RunError, match="Failed to call"):
        await Agent(OpenAICompatibleProvider(f"{server.url}/v1", "m"), tools=[add]).run("1 + 2?")


async def test_a_document_that_is_sent_as_its_text_is_named_in_the_warnings_once() -> None:
    document = DocumentBlock(media_type="application/pdf", data=b"no PDF", name="a.pdf")
    with OpenAIServer(Reply("I cannot.")) as server:
        result = await Agent(OpenAICompatibleProvider(f"{server.url}/v1", "m")).run([document, TextBlock(text="Read.")])
    (warning,) = result.warnings
    assert warning.startswith("a.pdf cannot be read as text")
