"""Retries of a provider: only before the reply has begun, with the documented waits.

Inner parts, on no face: ``tellback.agent.providers.accumulator``, ``tellback.agent.providers.base``.
"""

from __future__ import annotations

import asyncio

import pytest

from tellback.agent import (
    AnthropicProvider,
    ArgumentError,
    ProviderError,
    Request,
    RetryingProvider,
    StopPiece,
    StopReason,
    TextPiece,
    Usage,
    UsagePiece,
)
from tellback.agent.providers.accumulator import collect_response
from tellback.agent.providers.base import Capabilities, Delta, ModelPiece, WaitPiece, capabilities_of
from tellback.agent.testing import AnthropicServer, ProviderContract, RawReply, Reply, ScriptedProvider
from tellback.memory import Message
from tellback.memory.http import HttpClient

REQUEST = Request((Message.user("Hello"),))
BUSY = ProviderError("busy", status=503)


class Failing:
    """Raises each of *errors* in turn, after *before*; then answers."""

    def __init__(self, *errors: Exception | None, before=()) -> None:
        self.errors, self.before, self.asked = list(errors), before, 0

    async def stream(self, request: Request):
        self.asked += 1
        for delta in self.before:
            yield delta
        if self.errors and (error := self.errors.pop(0)):
            raise error
        yield UsagePiece(Usage(input=5, output=1))
        yield TextPiece("fine")
        yield StopPiece(StopReason.STOP)


def retrying(provider, **options) -> tuple[RetryingProvider, list[float]]:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    return RetryingProvider(provider, **{"sleep": sleep, "rng": lambda: 0.0, **options}), waits


class TestRetryingProvider(ProviderContract):
    def serving(self, *replies):
        from contextlib import nullcontext

        return nullcontext(RetryingProvider(ScriptedProvider(*replies)))


def test_a_transient_provider_error_is_retried_with_doubling_waits() -> None:
    inner = Failing(BUSY, BUSY, BUSY)
    provider, waits = retrying(inner, attempts=4, first=1.0, longest=3.0)
    assert asyncio.run(collect_response(provider, REQUEST)).text == "fine"
    assert waits == [1.0, 2.0, 3.0]


def test_the_last_real_error_is_raised_when_the_attempts_are_used_up() -> None:
    last = ProviderError("still busy", status=529)
    provider, waits = retrying(Failing(BUSY, last), attempts=2)
    with pytest.raises(ProviderError) as caught:
        asyncio.run(collect_response(provider, REQUEST))
    assert caught.value is last
    assert len(waits) == 1


@pytest.mark.parametrize("error", [ProviderError("bad key", status=401), ProviderError("odd"), ValueError("bug")])
def test_a_permanent_provider_error_is_not_retried(error: Exception) -> None:
    provider, waits = retrying(Failing(error))
    with pytest.raises(type(error)):
        asyncio.run(collect_response(provider, REQUEST))
    assert waits == []


def test_a_request_is_not_retried_once_the_reply_has_begun() -> None:
    inner = Failing(BUSY, before=[TextPiece("Ha")])
    provider, waits = retrying(inner)
    with pytest.raises(ProviderError):
        asyncio.run(collect_response(provider, REQUEST))
    assert (inner.asked, waits) == (1, [])


def test_a_usage_piece_does_not_begin_the_reply_and_usage_of_failed_attempts_is_added() -> None:
    inner = Failing(BUSY, before=[UsagePiece(Usage(input=7))])
    provider, _ = retrying(inner)
    response = asyncio.run(collect_response(provider, REQUEST))
    assert response.usage == Usage(input=12, output=1)


def test_model_and_wait_pieces_do_not_begin_the_reply_and_each_wait_is_streamed() -> None:
    inner = Failing(BUSY, before=[ModelPiece("m-2"), WaitPiece(5.0)])
    provider, waits = retrying(inner, first=2.0)

    async def deltas() -> list[Delta]:
        return [delta async for delta in provider.stream(REQUEST)]

    notices = [delta for delta in asyncio.run(deltas()) if isinstance(delta, WaitPiece)]
    assert notices == [WaitPiece(5.0), WaitPiece(2.0, str(BUSY)), WaitPiece(5.0)]
    assert (waits, inner.asked) == ([2.0], 2)


def test_the_servers_own_wait_is_honoured_up_to_a_limit() -> None:
    for named, expected in ((7.0, [7.0]), (0.0, [0.5])):
        provider, waits = retrying(Failing(ProviderError("busy", status=429, retry_after=named)))
        asyncio.run(collect_response(provider, REQUEST))
        assert waits == expected
    provider, waits = retrying(Failing(ProviderError("busy", status=429, retry_after=86_400)))
    with pytest.raises(ProviderError) as caught:
        asyncio.run(collect_response(provider, REQUEST))
    assert (caught.value.retry_after, waits) == (86_400, [])


def test_jitter_shortens_a_capped_retry_wait() -> None:
    provider, waits = retrying(Failing(BUSY), first=100.0, longest=8.0, rng=lambda: 1.0)
    asyncio.run(collect_response(provider, REQUEST))
    assert waits == [6.0]


def test_a_wait_can_be_cancelled_and_the_real_error_stays_attached() -> None:
    async def cancelled() -> BaseException | None:
        waiting = asyncio.Event()

        async def sleep(seconds: float) -> None:
            waiting.set()
            await asyncio.sleep(3600)

        provider = RetryingProvider(Failing(BUSY), sleep=sleep)
        task = asyncio.create_task(collect_response(provider, REQUEST))
        await waiting.wait()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError as error:
            return error.__context__
        return None

    assert asyncio.run(cancelled()) is BUSY


def test_the_passes_predicate_decides_which_errors_are_retried() -> None:
    provider, waits = retrying(Failing(ValueError("odd")), passes=lambda error: isinstance(error, ValueError))
    assert asyncio.run(collect_response(provider, REQUEST)).text == "fine"
    assert len(waits) == 1


def test_a_retrying_provider_exposes_attributes_and_capabilities_of_the_inner_provider() -> None:
    provider = RetryingProvider(AnthropicProvider("m", api_key="sk-a"))
    assert provider.model == "m"
    assert capabilities_of(provider) == capabilities_of(AnthropicProvider("m"))
    assert capabilities_of(RetryingProvider(Failing())) == Capabilities()
    with pytest.raises(AttributeError):
        provider.nothing_like_it  # noqa: B018


def test_an_error_event_before_the_first_text_is_retried_over_http() -> None:
    error = b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}\n\n'
    with AnthropicServer(RawReply([error]), Reply("fine")) as server:
        inner = AnthropicProvider("m", base_url=server.url, client=HttpClient(retries=0))
        provider, waits = retrying(inner)
        assert asyncio.run(collect_response(provider, REQUEST)).text == "fine"
        assert (len(waits), len(server.requests)) == (1, 2)


def test_closing_closes_the_provider_inside() -> None:
    closed: list[str] = []

    class Closing(Failing):
        async def aclose(self) -> None:
            closed.append("closed")

    asyncio.run(RetryingProvider(Closing()).aclose())
    asyncio.run(RetryingProvider(Failing()).aclose())
    assert closed == ["closed"]


@pytest.mark.parametrize(
    "options", [{"longest_named": -1}, {"attempts": 0}, {"attempts": True}, {"first": -1}, {"longest": float("nan")}]
)
def test_bad_options_are_refused(options: dict) -> None:
    with pytest.raises(ArgumentError) as caught:
        RetryingProvider(Failing(), **options)
    assert caught.value.argument == next(iter(options))


def test_a_retrying_provider_refuses_an_object_that_is_no_provider() -> None:
    with pytest.raises(ArgumentError):
        RetryingProvider(object())
