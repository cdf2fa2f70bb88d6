"""The bridge from synchronous code."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from collections.abc import AsyncIterator

import pytest

from tellback.memory import ArgumentError, run_sync

PLACE: contextvars.ContextVar[str] = contextvars.ContextVar("PLACE", default="nowhere")


async def answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def failing() -> None:
    raise LookupError("lost")


def test_run_sync_returns_the_result_of_a_coroutine() -> None:
    assert run_sync(answer(3)) == 3


def test_run_sync_works_inside_a_running_event_loop() -> None:
    async def outer() -> int:
        return run_sync(answer(4)) + await answer(1)

    assert asyncio.run(outer()) == 5


def test_run_sync_raises_the_error_of_the_coroutine_inside_and_outside_a_loop() -> None:
    with pytest.raises(LookupError, match="lost"):
        run_sync(failing())

    async def outer() -> None:
        run_sync(failing())

    with pytest.raises(LookupError, match="lost"):
        asyncio.run(outer())


def test_run_sync_passes_context_variables_to_the_coroutine() -> None:
    async def place() -> str:
        return PLACE.get()

    async def outer() -> str:
        PLACE.set("inside")
        return run_sync(place())

    assert asyncio.run(outer()) == "inside"


def test_an_awaitable_that_is_no_coroutine_is_accepted() -> None:
    class Later:
        def __await__(self):
            return answer(9).__await__()

    assert run_sync(Later()) == 9


def test_run_sync_of_a_value_that_cannot_be_awaited_raises() -> None:
    with pytest.raises(ArgumentError, match="await"):
        run_sync(7)  # type: ignore[arg-type]


def test_run_sync_leaves_no_thread_behind() -> None:
    before = threading.active_count()

    async def outer() -> int:
        return run_sync(answer(1))

    asyncio.run(outer())
    assert threading.active_count() == before


def test_an_interrupt_cancels_the_coroutine_of_run_sync_and_is_raised_afterwards() -> None:
    seen = []

    async def waiting() -> None:
        signal.raise_signal(signal.SIGINT)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    with pytest.raises(KeyboardInterrupt):
        run_sync(waiting())
    assert seen == ["cancelled"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_while_run_sync_closes_its_loop_is_raised_after_the_close() -> None:
    seen = []

    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(0)
            seen.append("closed")

    left_open = numbers()

    async def work() -> int:
        return await anext(left_open)

    with pytest.raises(KeyboardInterrupt):
        run_sync(work())
    assert seen == ["closed"]


def test_an_interrupt_is_raised_by_run_sync_also_when_the_coroutine_ignores_cancellation() -> None:
    seen = []

    async def unmoved() -> None:
        signal.raise_signal(signal.SIGINT)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("done all the same")

    with pytest.raises(KeyboardInterrupt):
        run_sync(unmoved())
    assert seen == ["done all the same"]


def test_a_second_interrupt_stops_a_coroutine_of_run_sync_that_resists_cancellation() -> None:
    async def stubborn() -> None:
        signal.raise_signal(signal.SIGINT)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("not reached") from None

    with pytest.raises(KeyboardInterrupt):
        run_sync(stubborn())


def test_run_sync_leaves_an_interrupt_handler_of_the_caller_in_place() -> None:
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: seen.append("theirs"))
    try:

        async def work() -> int:
            signal.raise_signal(signal.SIGINT)
            return await answer(2)

        assert run_sync(work()) == 2
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == ["theirs"]
