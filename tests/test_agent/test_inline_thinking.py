"""Reasoning between tags in a model's answer: separated from the answer, wherever the stream is cut.

Inner parts, on no face: ``tellback.agent.events``, ``tellback.agent.providers.accumulator``,
``tellback.agent.providers.inline_thinking``.
"""

from __future__ import annotations

import asyncio
import json

import pytest

from tellback.agent import Agent, AnthropicProvider, OllamaProvider, OpenAICompatibleProvider, Request, StopReason
from tellback.agent.events import TextDelta, TextWithdrawn, ThinkingDelta
from tellback.agent.providers.accumulator import Response, ResponseAccumulator, collect_response
from tellback.agent.providers.inline_thinking import InlineThinkingSplitter
from tellback.agent.testing import AnthropicServer, OllamaServer, OpenAIServer, RawReply, Reply
from tellback.memory import Message, ThinkingBlock, open_memory, run_sync
from tellback.memory.http import HttpClient

REQUEST = Request((Message.user("Hello"),))
WIRES = {
    "openai": (OpenAIServer, lambda url, client: OpenAICompatibleProvider(url, "m", client=client)),
    "anthropic": (AnthropicServer, lambda url, client: AnthropicProvider("m", base_url=url, client=client)),
    "ollama": (OllamaServer, lambda url, client: OllamaProvider("m", base_url=url, client=client)),
}


def parts(response: Response) -> tuple[str, str]:
    """Return the reasoning and the answer."""
    thoughts = [block.text for block in response.message.blocks if isinstance(block, ThinkingBlock)]
    return "".join(thoughts), response.text


def answered(wire: str, *replies: Reply) -> list[Response]:
    """Return the results of one provider of a *wire* format for *replies*, one after the other."""
    server_type, provider_of = WIRES[wire]

    async def collect(url: str) -> list[Response]:
        async with HttpClient(retries=0) as client:
            provider = provider_of(url, client)
            return [await collect_response(provider, REQUEST) for _ in replies]

    with server_type(*replies) as server:
        return asyncio.run(collect(server.url))


def split(*pieces: str) -> tuple[str, str]:
    """Return the reasoning and the answer of a reply that comes in *pieces*."""
    splitter, reply = InlineThinkingSplitter(), ResponseAccumulator()
    for delta in [delta for piece in pieces for delta in splitter.feed(piece)] + [*splitter.finish(cut=False)]:
        reply.add(delta)
    return parts(reply.response())


def chunks(*texts: str) -> RawReply:
    """Return a streamed completion whose content comes in *texts*."""
    deltas = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in texts]
    ending = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return RawReply([f"data: {json.dumps(value)}\n\n".encode() for value in (*deltas, ending)] + [b"data: [DONE]\n\n"])


TEXTS = {
    "deepseek": ("<think>\nTwo and\ntwo.\n</think>\n\nIt is 4.", "Two and\ntwo.", "It is 4."),
    "empty": ("<think>\n\n</think>\n\nIt is 4.", "", "It is 4."),
    "spelled out": ("\n<thinking>hm</thinking>4", "hm", "4"),
    "kimi": ("◁think▷hm◁/think▷4 < 5", "hm", "4 < 5"),
    "magistral": ("[THINK]hm[/THINK]4 [x]", "hm", "4 [x]"),
    "twice": ("<think>a</think>\n<think>b</think>\nc", "ab", "c"),
    "never closed": ("<think>\nI wonder <th", "I wonder <th", ""),
    "opened by the template": ("Two and two.\n</think>\n\nIt is 4.", "Two and two.", "It is 4."),
    "opened by the template, on one line": ("Two and two.</think>It is 4.", "Two and two.", "It is 4."),
    "a second end": ("\n</think>\n\nIt is 4.", "", "It is 4."),
    "answer about tags": (
        "Models write `<think>` and `</think>`:\n```\n<think>\nhm\n</think>\n```\nSo </think> ends it.",
        "",
        "Models write `<think>` and `</think>`:\n```\n<think>\nhm\n</think>\n```\nSo </think> ends it.",
    ),
    "end in a code fence": ("Cut at:\n```\n</think>\n```\nDone.", "", "Cut at:\n```\n</think>\n```\nDone."),
    "end in quotes": ("It ends with “</think>” or </think> alone.", "", "It ends with “</think>” or </think> alone."),
    "plain": ("\n a < b, [T] and ◁", "", "\n a < b, [T] and ◁"),
}


@pytest.mark.parametrize(("text", "thinking", "answer"), TEXTS.values(), ids=TEXTS)
def test_thinking_between_tags_is_separated_from_the_answer_wherever_the_stream_is_cut(
    text: str, thinking: str, answer: str
) -> None:
    replies = [chunks(text), chunks(*text)]

    async def collect(url: str) -> list[tuple[str, str]]:
        async with HttpClient(retries=0) as client:
            providers = [OpenAICompatibleProvider(url, "m", client=client) for _ in replies]
            return [parts(await collect_response(provider, REQUEST)) for provider in providers]

    with OpenAIServer(*replies) as server:
        found = asyncio.run(collect(server.url))
    found += [split(text[:cut], text[cut:]) for cut in range(1, len(text))]
    assert set(found) == {(thinking, answer)}


@pytest.mark.parametrize("wire", WIRES)
def test_thinking_between_tags_is_separated_in_every_wire_format(wire: str) -> None:
    (response,) = answered(wire, Reply("<think>\nhm\n</think>\n\n4", piece=3))
    assert parts(response) == ("hm", "4")


@pytest.mark.parametrize("wire", WIRES)
def test_only_a_leading_leftover_closing_tag_of_thinking_is_removed(wire: str) -> None:
    first, second = answered(
        wire,
        Reply("\n</think>\n\n4", thinking="hm", piece=3),
        Reply("One line.\n</think>\nAnother.", thinking="hm", piece=3),
    )
    assert parts(first) == ("hm", "4")
    assert parts(second) == ("hm", "One line.\n</think>\nAnother.")


def test_a_model_whose_template_opens_the_thinking_streams_it_as_thinking_from_the_second_reply_on() -> None:
    opened = Reply("hm\n</think>\n\n4", piece=2)

    async def events(url: str) -> list[list[object]]:
        agent = Agent(OpenAICompatibleProvider(url, "m"))
        return [[event async for event in agent.stream("2 + 2?")] for _ in range(4)]

    cut = Reply("half a tho", piece=2, stop=StopReason.MAX_TOKENS)
    with OpenAIServer(opened, opened, cut, Reply("No thought.", piece=2)) as server:
        first, second, third, fourth = asyncio.run(events(server.url))
    assert any(isinstance(event, TextWithdrawn) for event in first)
    for run, thinking, answer in ((first, None, "4"), (second, "hm", "4"), (third, "half a tho", "")):
        assert run[-1].result.text == answer
        if thinking is not None:
            assert not any(isinstance(event, TextWithdrawn) for event in run)
            assert "".join(event.text for event in run if isinstance(event, ThinkingDelta)) == thinking
            assert "".join(event.text for event in run if isinstance(event, TextDelta)) == answer
    assert fourth[-1].result.text == "No thought."


def test_thinking_between_tags_is_never_remembered(tmp_path) -> None:
    async def turn(url: str) -> list[str]:
        memory = open_memory(tmp_path / "m.db", embedder=None, choose_local=False)
        await Agent(OpenAICompatibleProvider(url, "m"), memory=memory).run("Where is the boat?")
        texts = [found.text for found in (await memory.list()).memories]
        await memory.close()
        return texts

    with OpenAIServer(Reply("<think>He means the dinghy.</think>\n\nIn the harbour.", piece=3)) as server:
        texts = run_sync(turn(server.url))
    assert "In the harbour." in texts
    assert not any("dinghy" in text for text in texts)
