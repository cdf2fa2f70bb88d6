"""The bridge from synchronous code."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from collections.abc import AsyncIterator

import pytest

from memory import ArgumentError, run_sync

PLACE: contextvars.ContextVar[str] = contextvars.ContextVar("PLACE", default="nowhere")


async def answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def failing() -> None:
    raise LookupError("lost")


def test_a_coroutine_is_run_to_its_result() -> None:
    assert run_sync(answer(3)) == 3


def test_it_works_inside_a_running_loop() -> None:
    async def outer() -> int:
        return run_sync(answer(4)) + await answer(1)

    assert asyncio.run(outer()) == 5


def test_an_error_of_the_work_reaches_the_caller_from_either_place() -> None:
    with pytest.raises(LookupError, match="lost"):
        run_sync(failing())

    async def outer() -> None:
        run_sync(failing())

    with pytest.raises(LookupError, match="lost"):
        asyncio.run(outer())


def test_context_variables_are_seen_by_the_work() -> None:
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


def test_what_cannot_be_awaited_is_an_argument_error() -> None:
    with pytest.raises(ArgumentError, match="await"):
        run_sync(7)  # type: ignore[arg-type]


def test_no_thread_is_left_behind() -> None:
    before = threading.active_count()

    async def outer() -> int:
        return run_sync(answer(1))

    asyncio.run(outer())
    assert threading.active_count() == before


def test_an_interrupt_cancels_the_work_and_is_raised_after_it() -> None:
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


def test_an_interrupt_that_comes_while_the_loop_is_closed_waits_until_it_is() -> None:
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


def test_an_interrupt_is_not_lost_when_the_work_goes_on_to_its_end() -> None:
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


def test_a_second_interrupt_breaks_off_work_that_does_not_give_way() -> None:
    async def stubborn() -> None:
        signal.raise_signal(signal.SIGINT)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("not reached") from None

    with pytest.raises(KeyboardInterrupt):
        run_sync(stubborn())


def test_a_handler_of_the_callers_own_is_left_in_place() -> None:
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
