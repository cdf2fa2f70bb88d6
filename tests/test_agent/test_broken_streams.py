"""Byte streams as networks and servers break them: the right result or a clear error, in bounded time and memory.

Each case runs in the three wire formats, over real HTTP on loopback.

Inner parts, on no face: ``tellback.agent.events``, ``tellback.agent.providers.accumulator``.
"""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tellback.agent import (
    Agent,
    AgentSettings,
    AnthropicProvider,
    Ending,
    ModelSettings,
    OllamaProvider,
    OpenAICompatibleProvider,
    ProviderError,
    ProviderFailed,
    Request,
    RunResult,
    StopReason,
)
from tellback.agent.events import Event, Waiting
from tellback.agent.providers.accumulator import Response, collect_response
from tellback.agent.testing import AnthropicServer, OllamaServer, OpenAIServer, RawReply, Reply, call
from tellback.memory import Message, ToolCallBlock
from tellback.memory.http import HttpClient, Timeouts
from tests.support.slow import first_fast

REQUEST = Request((Message.user("Hello"),))
UNBOUNDED = replace(REQUEST, settings=ModelSettings(max_characters=1 << 30))
TEXT = "Zürich 🚀 \u2028 東京"
REPLY = Reply(TEXT, calls=(call("add", text="ü\n🚀"),), piece=3)


@dataclass(frozen=True)
class Wire:
    name: str
    server: Any
    provider: Any

    def encoded(self, reply: Reply) -> bytes:
        return b"".join(self.server().encoded(reply))

    def answered(self, *cuts: bytes | float, client: HttpClient | None = None) -> Response:
        with self.server(RawReply(cuts, content_type=self.server.content_type)) as server:
            return asyncio.run(self._complete(server.url, client or HttpClient(retries=0)))

    async def _complete(self, url: str, client: HttpClient) -> Response:
        async with client:
            return await collect_response(self.provider(url, client), UNBOUNDED)


WIRES = [
    Wire("openai", OpenAIServer, lambda url, client: OpenAICompatibleProvider(url, "m", client=client)),
    Wire("anthropic", AnthropicServer, lambda url, client: AnthropicProvider("m", base_url=url, client=client)),
    Wire("ollama", OllamaServer, lambda url, client: OllamaProvider("m", base_url=url, client=client)),
]
EVENTS = [wire for wire in WIRES if wire.name != "ollama"]
every_wire = pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
every_event_wire = pytest.mark.parametrize("wire", EVENTS, ids=lambda wire: wire.name)


def said(response: Response) -> tuple:
    calls = [(tool_call.name, tool_call.arguments) for tool_call in response.message.tool_calls]
    return response.text, calls, response.stop, response.usage


@pytest.mark.slow
@every_wire
def test_a_stream_cut_around_every_line_end_and_within_lines_gives_the_same_reply(wire: Wire) -> None:
    stream = wire.encoded(REPLY)
    whole = said(wire.answered(stream))
    assert whole[:2] == (TEXT, [("add", {"text": "ü\n🚀"})])

    async def all_of_them(url: str) -> list[Response]:
        async with HttpClient(retries=0) as client:
            provider = wire.provider(url, client)
            return [await collect_response(provider, REQUEST) for _ in offsets]

    ends = [place for place, byte in enumerate(stream[:-2]) if byte == ord("\n")]
    offsets = sorted({*range(1, len(stream), 13), *(end + step for end in ends for step in range(-1, 3))})
    cuts = [RawReply((stream[:offset], stream[offset:]), content_type=wire.server.content_type) for offset in offsets]
    with wire.server(*cuts) as server:
        responses = asyncio.run(all_of_them(server.url))
    assert [offset for offset, response in zip(offsets, responses, strict=True) if said(response) != whole] == []


@every_wire
@pytest.mark.parametrize("step", first_fast([37, 7]))
def test_a_stream_truncated_at_any_offset_gives_the_whole_reply_or_a_provider_error(wire: Wire, step: int) -> None:
    stream = wire.encoded(REPLY)
    whole = said(wire.answered(stream))
    ends = range(0, len(stream), step)
    cuts = [RawReply((stream[:position],), content_type=wire.server.content_type) for position in ends]

    async def outcome(provider: Any) -> tuple | None:
        try:
            return said(await collect_response(provider, REQUEST))
        except ProviderError:
            return None

    async def all_of_them(url: str) -> list[tuple | None]:
        async with HttpClient(retries=0) as client:
            provider = wire.provider(url, client)
            return [await outcome(provider) for _ in ends]

    with wire.server(*cuts) as server:
        outcomes = asyncio.run(all_of_them(server.url))
    # What a truncated stream may still give is the same words and calls; counts may have been lost with its end.
    assert all(item is None or item[:3] == whole[:3] for item in outcomes)
    assert outcomes[: len(outcomes) // 2] == [None] * (len(outcomes) // 2)


@every_event_wire
@pytest.mark.parametrize("ending", [b"\r\n", b"\r"])
def test_every_sse_line_ending_is_read_even_when_cut_between_bytes(wire: Wire, ending: bytes) -> None:
    stream = wire.encoded(REPLY)
    whole = said(wire.answered(stream))
    other = stream.replace(b"\n", ending)
    assert said(wire.answered(other)) == whole
    assert said(wire.answered(*(other[position : position + 1] for position in range(len(other))))) == whole


@every_event_wire
def test_comments_and_unnamed_events_are_passed_over(wire: Wire) -> None:
    stream = wire.encoded(REPLY).replace(b"\n\n", b"\n\n: keep-alive\n\nid: 7\nretry: 10\n\n")
    assert said(wire.answered(b": hello\n\n", stream)) == said(wire.answered(wire.encoded(REPLY)))


def test_json_lines_may_be_blank_or_end_in_crlf_or_lack_the_last_line_end() -> None:
    wire = WIRES[2]
    stream = wire.encoded(REPLY)
    whole = said(wire.answered(stream))
    assert said(wire.answered(stream.replace(b"\n", b"\r\n\r\n"))) == whole
    assert said(wire.answered(stream.rstrip(b"\n"))) == whole


@every_wire
@pytest.mark.parametrize("rubbish", ['{"a": ', "[1]", "7", "null", "\x00", "{" * 100_000])
def test_a_frame_without_a_json_object_is_a_provider_error(wire: Wire, rubbish: str) -> None:
    frame = f"{rubbish}\n" if wire.name == "ollama" else f"data: {rubbish}\n\n"
    with pytest.raises(ProviderError, match=r"not JSON|not a JSON object"):
        wire.answered(frame.encode(), wire.encoded(REPLY))


@every_wire
@pytest.mark.parametrize("value", [None, 7, "text", [1], {"a": [None]}, True])
def test_fields_of_a_wrong_type_give_a_reply_or_a_provider_error(wire: Wire, value: Any) -> None:
    frames = {
        "openai": [
            {"choices": value},
            {"choices": [{"delta": value}]},
            {"choices": [{"delta": {"tool_calls": value}}]},
        ],
        "anthropic": [
            {"type": "message_start", "message": value},
            {"type": "content_block_start", "index": 0, "content_block": value},
            {"type": "content_block_delta", "index": value, "delta": {"type": "text_delta", "text": "x"}},
            {"type": "message_delta", "delta": value, "usage": value},
        ],
        "ollama": [{"message": value}, {"message": {"content": value, "tool_calls": value}}, {"done": value}],
    }[wire.name]
    for frame in frames:
        line = json.dumps(frame)
        first = f"{line}\n" if wire.name == "ollama" else f"data: {line}\n\n"
        try:
            response = wire.answered(first.encode(), wire.encoded(Reply("Hi")))
        except ProviderError:
            continue
        assert response.text.endswith("Hi") or response.text == ""


@every_wire
def test_a_silent_stream_is_a_lasting_provider_error_after_the_read_timeout(wire: Wire) -> None:
    client = HttpClient(retries=0, timeout=Timeouts(read=0.2))
    with pytest.raises(ProviderError, match="silent") as caught:
        wire.answered(wire.encoded(REPLY)[:80], 60.0, client=client)
    assert not caught.value.transient


@every_wire
def test_a_reply_without_an_end_is_cut_at_the_limit_of_characters_and_its_connection_closed(wire: Wire) -> None:
    endless = wire.encoded(Reply("again " * 200, thinking="hm " * 100, piece=60))

    async def ask(url: str) -> Response:
        settings = ModelSettings(max_characters=1_000)
        async with HttpClient(retries=0) as client:
            return await collect_response(wire.provider(url, client), Request(REQUEST.messages, settings=settings))

    more = [wire.encoded(Reply("again")), 0.01] * 3_000  # a server sees only when it writes that its client has left
    with wire.server(RawReply([endless, *more], content_type=wire.server.content_type)) as server:
        response = asyncio.run(ask(server.url))
        assert server.left.wait(300)
    assert response.stop is StopReason.TOO_LONG
    thought = "".join(getattr(block, "text", "") for block in response.message.blocks if block.type == "thinking")
    assert (len(thought) + len(response.text), len(thought)) == (1_000, 300)


@every_wire
def test_endless_arguments_of_a_call_end_the_run_at_the_limit(wire: Wire) -> None:
    long = wire.encoded(Reply(calls=(call("add", text="again " * 500),), piece=60))

    async def ask(url: str) -> RunResult:
        async with HttpClient(retries=0) as client:
            settings = AgentSettings(model_settings=ModelSettings(max_characters=100))
            return await Agent(wire.provider(url, client), settings=settings).run("Hello")

    with wire.server(RawReply([long], content_type=wire.server.content_type)) as server:
        result = asyncio.run(ask(server.url))
        assert len(server.requests) == 1
    assert result.ending is Ending.TOO_LONG
    assert "100 characters" in result.warnings[0]


@every_wire
def test_waits_are_events_and_a_silent_server_is_not_retried(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tellback.agent.providers.http_provider._NOTICE_SECONDS", 0.05)

    async def events(url: str) -> list[Event]:
        async with HttpClient(timeout=Timeouts(read=0.5)) as client:
            agent = Agent(wire.provider(url, client))
            return [event async for event in agent.stream("Hello")]

    busy = RawReply([b'{"error": "busy"}'], 429, "application/json", (("retry-after-ms", "100"),))
    quiet = RawReply([wire.encoded(REPLY)[:80], 60.0], content_type=wire.server.content_type)
    with wire.server(busy, quiet, REPLY) as server:
        found = asyncio.run(events(server.url))
        assert len(server.requests) == 2
    waits = [event for event in found if isinstance(event, Waiting)]
    (named,) = [wait for wait in waits if wait.problem]
    assert (named.seconds, named.named) == (0.1, True)
    assert named.text.startswith("waiting 0.1 s, as the server asked: 429")
    silent = waits[waits.index(named) + 1]
    assert (silent.limit, silent.text) == (0.5, "nothing has come from the model for 0.05 s (until 0.5 s)")
    assert isinstance(found[-1].error, ProviderFailed)
    assert "silent for 0.5 s" in str(found[-1].error)


@pytest.mark.slow
@every_wire
def test_a_line_of_fifty_megabytes_is_read_and_a_longer_one_refused_in_bounded_memory(wire: Wire) -> None:
    megabyte = 1 << 20
    big = Reply("x" * 50 * megabyte, piece=50 * megabyte)
    stream = wire.encoded(big)
    assert len(wire.answered(stream).text) == 50 * megabyte

    tracemalloc.start()
    try:
        with pytest.raises(ProviderError, match="larger than"):
            wire.answered(
                *(stream[position : position + megabyte] for position in range(0, len(stream), megabyte)),
                client=HttpClient(retries=0, max_event=4 * megabyte),
            )
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 120 * megabyte  # the server's own copies of the cuts are among it


@every_wire
def test_two_calls_with_one_id_stay_two_calls(wire: Wire) -> None:
    calls = tuple(ToolCallBlock(id="same", name="add", arguments={"a": number}) for number in (1, 2))
    response = wire.answered(wire.encoded(Reply(calls=calls)))
    asked = response.message.tool_calls
    assert [item.arguments for item in asked] == [{"a": 1}, {"a": 2}]
    assert len({item.id for item in asked}) == 2
    assert response.stop is StopReason.TOOL_CALLS


@every_wire
def test_invalid_utf_8_in_a_stream_does_not_stop_the_reply(wire: Wire) -> None:
    stream = wire.encoded(Reply("abc", piece=3)).replace(b"abc", b"a\xff\xfeb")
    assert wire.answered(stream).text.startswith("a")


@every_wire
def test_a_reply_of_another_content_type_is_a_provider_error_that_names_it(wire: Wire) -> None:
    page = RawReply([b"<html>"], content_type="text/html")
    with wire.server(page) as server, pytest.raises(ProviderError, match="text/html"):
        asyncio.run(collect_response(wire.provider(server.url, HttpClient(retries=0)), REQUEST))


@every_wire
def test_a_stream_closed_in_the_middle_releases_its_connection(wire: Wire) -> None:
    async def leave(url: str) -> None:
        async with HttpClient(retries=0) as client:
            deltas = wire.provider(url, client).stream(REQUEST)
            await anext(deltas)
            await deltas.aclose()
            with pytest.raises(StopAsyncIteration):
                await anext(deltas)

    stream = wire.encoded(Reply("x" * 100))
    with wire.server(RawReply((stream[:400], 60.0), content_type=wire.server.content_type)) as server:
        asyncio.run(leave(server.url))
        server.stopping.set()
