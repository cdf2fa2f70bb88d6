"""The provider contract finds planted faults: for each faulty provider a named test of the contract must fail."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from tellback.agent import (
    ModelSettings,
    ProviderError,
    Request,
    StopPiece,
    TextPiece,
    ThinkingPiece,
    UsagePiece,
)
from tellback.agent.testing import ProviderContract, Reply, ScriptedProvider
from tellback.memory import Message

_FOUND_BY: dict[type, str] = {}


def caught_by(test: str) -> Callable[[type], type]:
    """Decorate a faulty provider with the contract's test that must fail."""

    def decorate(provider: type) -> type:
        _FOUND_BY[provider] = test
        return provider

    return decorate


class Sound:
    """Provider that changes nothing of a request, and nothing of the reply."""

    def __init__(self, *replies: Reply) -> None:
        self._provider = ScriptedProvider(*replies)

    def sent(self, request: Request) -> Request:
        return request

    async def stream(self, request: Request) -> AsyncIterator[Any]:
        async for delta in self._provider.stream(self.sent(request)):
            for piece in self.received(delta):
                yield piece

    def received(self, delta: Any) -> list[Any]:
        return [delta]


def without(message: Message, *kinds: str) -> Message:
    return message.model_copy(update={"blocks": tuple(block for block in message.blocks if block.type not in kinds)})


@caught_by("test_words_tools_calls_and_results_are_all_sent")
class DropsTools(Sound):
    def sent(self, request: Request) -> Request:
        return replace(request, tools=())


@caught_by("test_words_tools_calls_and_results_are_all_sent")
class SendsOneToolOnly(Sound):
    def sent(self, request: Request) -> Request:
        return replace(request, tools=request.tools[:1])


@caught_by("test_words_tools_calls_and_results_are_all_sent")
class DropsCallsAndResults(Sound):
    def sent(self, request: Request) -> Request:
        messages = (without(message, "tool_call", "tool_result") for message in request.messages)
        return replace(request, messages=tuple(message for message in messages if message.blocks))


@caught_by("test_words_tools_calls_and_results_are_all_sent")
class SendsTheLastMessageOnly(Sound):
    def sent(self, request: Request) -> Request:
        return replace(request, messages=request.messages[-1:])


@caught_by("test_words_tools_calls_and_results_are_all_sent")
class DropsTheSystemMessage(Sound):
    def sent(self, request: Request) -> Request:
        return replace(request, system="")


@caught_by("test_a_setting_is_sent_or_refused_before_anything_is_sent")
class IgnoresSettings(Sound):
    def sent(self, request: Request) -> Request:
        return replace(request, settings=ModelSettings())


@caught_by("test_the_counts_of_tokens_are_given")
class CountsNothing(Sound):
    def received(self, delta: Any) -> list[Any]:
        return [] if isinstance(delta, UsagePiece) else [delta]


@caught_by("test_the_pieces_of_a_stream_are_the_text_and_the_calls_and_then_one_stop")
class StopsTwice(Sound):
    def received(self, delta: Any) -> list[Any]:
        return [delta, delta] if isinstance(delta, StopPiece) else [delta]


@caught_by("test_thinking_is_separate_from_the_answer")
class ThinksAloud(Sound):
    def received(self, delta: Any) -> list[Any]:
        return [TextPiece(delta.text)] if isinstance(delta, ThinkingPiece) else [delta]


@caught_by("test_a_failure_in_the_middle_raises_after_the_text_before_it")
class SwallowsFailures(Sound):
    async def stream(self, request: Request) -> AsyncIterator[Any]:
        try:
            async for delta in super().stream(request):
                yield delta
        except ProviderError:
            yield StopPiece()


def failing_test(provider: type[Sound], name: str) -> str:
    """Run the contract's test *name*, with each of its parameters, over *provider*; return how it failed."""

    class Suite(ProviderContract):
        @contextmanager
        def serving(self, *replies):
            yield provider(*replies)

    test = inspect.getattr_static(ProviderContract, name)
    marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
    values = [dict(zip(mark.args[0], value, strict=True)) for mark in marks for value in mark.args[1]]
    for options in values or [{}]:
        try:
            test(Suite(), **options)
        except (Exception, pytest.fail.Exception) as failure:
            return f"{options} {failure!r}"
    return ""


@pytest.mark.parametrize("fault", _FOUND_BY, ids=lambda fault: fault.__name__)
def test_a_provider_with_a_planted_fault_fails_its_contract_test(fault: type[Sound]) -> None:
    assert failing_test(Sound, _FOUND_BY[fault]) == ""
    assert failing_test(fault, _FOUND_BY[fault]) != ""
