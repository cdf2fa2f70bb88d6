"""Contract of providers, as tests: subclass ``ProviderContract`` and serve scripted replies to your provider.

class TestMyProvider(ProviderContract):
    @contextmanager
    def serving(self, *replies):
        with OpenAIServer(*replies) as server:
            yield MyProvider(server.url)
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tellback.agent.errors import ProviderError, Unsupported
from tellback.agent.providers.accumulator import Response, collect_response, open_stream
from tellback.agent.providers.base import (
    Delta,
    ModelSettings,
    Provider,
    Request,
    StopPiece,
    TextPiece,
    ThinkingPiece,
    ToolSpec,
    UsagePiece,
    capabilities_of,
)
from tellback.agent.results import StopReason, Usage
from tellback.agent.testing.scripted import Reply, call
from tellback.memory import Message, TextBlock, ThinkingBlock, ToolCallBlock, ToolResultBlock

_ADD_TOOL = ToolSpec("add", "Add two numbers.", {"type": "object", "properties": {"a": {"type": "integer"}}})
_SCHEMA = {"type": "object", "properties": {"zorb": {"type": "string"}}, "required": ["zorb"]}
_SETTINGS: tuple[tuple[str, Any, Any], ...] = (
    ("temperature", 0, "temperature"),
    ("temperature", 0.4375, 0.4375),
    ("top_p", 0.8125, 0.8125),
    ("top_k", 37, 37),
    ("min_p", 0.0625, 0.0625),
    ("presence_penalty", 0.3125, 0.3125),
    ("frequency_penalty", 0.1875, 0.1875),
    ("seed", 87659, 87659),
    ("max_tokens", 4327, 4327),
    ("stop", ("vexa",), "vexa"),
    ("response_schema", _SCHEMA, "zorb"),
)
"""Settings with a value of each, and what of it a request holds."""
_GREETING = Request((Message.user("Hello"),))


class ProviderContract:
    """The contract of ``Provider``. Give ``serving``; override no test.

    The replies that are served check what was sent (``Reply.mentions``). *reasons* and *counts* are those that the
    format has: reasons why a reply stops, and kinds of tokens counted.
    """

    reasons: tuple[StopReason, ...] = (
        StopReason.STOP,
        StopReason.MAX_TOKENS,
        StopReason.CONTENT_FILTER,
        StopReason.REFUSAL,
    )
    counts: tuple[str, ...] = ("input", "output", "cache_read", "cache_write", "reasoning")

    def serving(self, *replies: Reply) -> AbstractContextManager[Provider]:
        """Return a context in which a provider gets *replies* from its server, in order."""
        raise AssertionError("a contract's subclass says how its provider is served")

    def test_the_pieces_of_a_stream_are_the_text_and_the_calls_and_then_one_stop(self) -> None:
        text = "Zürich, 東京 🚀\n\n“quoted”\ttabs"
        reply = Reply(text, piece=1, calls=(call("add", a=1),))
        deltas, response = self._streamed(reply), self._completed(reply)
        assert text_of(deltas) == response.text == text
        assert [block.arguments for block in response.message.tool_calls] == [{"a": 1}]
        stops = [index for index, delta in enumerate(deltas) if isinstance(delta, StopPiece)]
        assert len(stops) == 1
        assert not any(isinstance(delta, TextPiece) for delta in deltas[stops[0] :])

    def test_each_reason_to_stop_is_given(self) -> None:
        assert {StopReason.STOP, StopReason.MAX_TOKENS} <= set(self.reasons)
        for reason in self.reasons:
            assert self._completed(Reply("Well", stop=reason)).stop is reason

    def test_calls_keep_their_order_ids_and_arguments_or_have_none(self) -> None:
        arguments: dict[str, Any] = {"text": "ä\n" * 20, "nested": {"list": [1, None, True]}}
        calls = (call("one", **arguments), call("two"), call("three", **arguments))
        response = self._completed(Reply(calls=calls))
        assert response.message.tool_calls == calls
        assert response.stop == StopReason.TOOL_CALLS

    def test_arguments_that_are_no_json_object_are_kept_as_they_are(self) -> None:
        for text in ('{"a": ', "[1, 2]", '"text"', '{"a": NaN}'):
            broken = ToolCallBlock(id="c1", name="add", invalid=text)
            block = self._completed(Reply(calls=(broken,))).message.tool_calls[0]
            assert (block.invalid, block.arguments) == (text, {})

    def test_two_calls_with_one_id_get_ids_of_their_own(self) -> None:
        calls = (ToolCallBlock(id="same", name="one"), ToolCallBlock(id="same", name="two"))
        blocks = self._completed(Reply(calls=calls)).message.tool_calls
        assert len({block.id for block in blocks}) == 2

    def test_thinking_is_separate_from_the_answer(self) -> None:
        deltas = self._streamed(Reply("4", thinking="two and two"))
        assert text_of(deltas, ThinkingPiece) == "two and two"
        assert self._completed(Reply("4", thinking="two and two")).text == "4"

    def test_the_counts_of_tokens_are_given(self) -> None:
        usage = Usage(input=100, output=50, cache_read=60, cache_write=20, reasoning=30)
        deltas = self._streamed(Reply("Hi", usage=usage))
        assert {"input", "output"} <= set(self.counts)
        expected = Usage(**{name: getattr(usage, name) for name in self.counts})
        assert [delta.usage for delta in deltas if isinstance(delta, UsagePiece)][-1] == expected

    def test_a_failure_in_the_middle_raises_after_the_text_before_it(self) -> None:
        deltas: list[Delta] = []

        async def read() -> None:
            with self.serving(Reply("Half an", error=ProviderError("overloaded"))) as provider:
                async with open_stream(provider, _GREETING) as stream:
                    async for delta in stream:
                        deltas.append(delta)

        with pytest.raises(ProviderError):
            asyncio.run(read())
        assert text_of(deltas) == "Half an"

    def test_a_stream_left_early_leaves_the_provider_usable(self) -> None:
        async def read() -> str:
            with self.serving(Reply("x" * 2000), Reply("second")) as provider:
                async with open_stream(provider, _GREETING) as deltas:
                    await anext(deltas)
                return (await collect_response(provider, _GREETING)).text

        assert asyncio.run(read()) == "second"

    def test_replies_can_be_read_at_the_same_time(self) -> None:
        async def read() -> list[str]:
            with self.serving(*(Reply("same words") for _ in range(5))) as provider:
                responses = await asyncio.gather(*(collect_response(provider, _GREETING) for _ in range(5)))
                return [response.text for response in responses]

        assert asyncio.run(read()) == ["same words"] * 5

    def test_event_loops_one_after_the_other_are_served(self) -> None:
        with self.serving(Reply("first"), Reply("second")) as provider:
            texts = [asyncio.run(collect_response(provider, _GREETING)).text for _ in range(2)]
        assert texts == ["first", "second"]

    def test_a_whole_conversation_with_tools_can_be_sent(self) -> None:
        add = call("add", a=1)
        messages = (
            Message.user("Add one."),
            Message.assistant([ThinkingBlock(text="easy", signature="s"), add]),
            Message.tool([ToolResultBlock(call_id=add.id, name="add", is_error=True)]),
        )
        request = Request(messages, system="Be brief.", tools=(_ADD_TOOL,), settings=ModelSettings(max_tokens=50))
        assert self._completed(Reply("2"), request).text == "2"

    def test_words_tools_calls_and_results_are_all_sent(self) -> None:
        parameters = {"type": "object", "properties": {"morp": {"type": "integer", "description": "prax"}}}
        add = call("quil", morp=41797)
        messages = (
            Message.user("zorb?"),
            Message.assistant([TextBlock(text="vexa"), add]),
            Message.tool([ToolResultBlock(call_id=add.id, name="quil", content=[TextBlock(text="drin")])]),
            Message.user("felk"),
        )
        tools = (ToolSpec("quil", "tusk", parameters), ToolSpec("other", "brum", {"type": "object", "properties": {}}))
        request = Request(messages, system="glimp", tools=tools)
        mentions = ("zorb?", "vexa", 41797, "drin", "felk", "glimp", "quil", "tusk", "morp", "prax", "other", "brum")
        assert self._completed(Reply("sent", mentions=mentions), request).text == "sent"

    @pytest.mark.parametrize(("name", "value", "mention"), _SETTINGS, ids=[name for name, *_ in _SETTINGS])
    def test_a_setting_is_sent_or_refused_before_anything_is_sent(self, name: str, value: Any, mention: Any) -> None:
        with self.serving() as provider:
            capabilities = capabilities_of(provider)
        request = Request(_GREETING.messages, settings=ModelSettings(**{name: value}))
        if capabilities is None or name in capabilities.settings:
            assert self._completed(Reply("fine", mentions=(mention,)), request).text == "fine"
        else:
            with pytest.raises(Unsupported) as caught:
                self._completed(Reply("fine"), request)
            assert caught.value.feature == name

    def _streamed(self, reply: Reply) -> list[Delta]:
        async def read() -> list[Delta]:
            with self.serving(reply) as provider:
                async with open_stream(provider, _GREETING) as deltas:
                    return [delta async for delta in deltas]

        return asyncio.run(read())

    def _completed(self, reply: Reply, request: Request = _GREETING) -> Response:
        async def read() -> Response:
            with self.serving(reply) as provider:
                return await collect_response(provider, request)

        return asyncio.run(read())


def text_of(deltas: Sequence[Delta], kind: type[TextPiece | ThinkingPiece] = TextPiece) -> str:
    """Return the text that the *deltas* of a *kind* stream."""
    return "".join(delta.text for delta in deltas if isinstance(delta, kind))
