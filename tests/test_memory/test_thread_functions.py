"""Functions in threads beside the event loop: cancellation, and clean-up of results that come too late."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from tellback.memory.internals import run_in_thread


class Asked:
    """A function that answers with a coroutine once it may."""

    def __init__(self) -> None:
        self.begun, self.may, self.answer = threading.Event(), threading.Event(), self._answer()

    async def _answer(self) -> str:
        return "yes"

    def __call__(self) -> Coroutine[Any, Any, str]:
        self.begun.set()
        assert self.may.wait(60)
        return self.answer

    @property
    def cleared(self) -> bool:
        return inspect.getcoroutinestate(self.answer) == inspect.CORO_CLOSED


async def given_up(asked: Asked) -> None:
    waiting = asyncio.ensure_future(run_in_thread(asked, name="asked"))
    assert await asyncio.to_thread(asked.begun.wait, 60)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def thread_of(name: str) -> threading.Thread:
    return next(thread for thread in threading.enumerate() if thread.name == name)


def test_a_coroutine_returned_after_its_call_was_cancelled_is_closed() -> None:
    async def late(asked: Asked) -> None:
        await given_up(asked)
        thread = thread_of("asked")
        asked.may.set()
        await asyncio.to_thread(thread.join, 60)
        await asyncio.sleep(0)

    asyncio.run(late(asked := Asked()))
    assert asked.cleared


def test_a_coroutine_returned_after_the_event_loop_ended_is_closed() -> None:
    asyncio.run(given_up(asked := Asked()))
    thread = thread_of("asked")
    asked.may.set()
    thread.join(60)
    assert asked.cleared


def test_a_coroutine_returned_at_the_moment_of_cancellation_is_closed() -> None:
    async def together(asked: Asked) -> None:
        waiting = asyncio.ensure_future(run_in_thread(asked, name="asked"))
        assert await asyncio.to_thread(asked.begun.wait, 60)
        thread = thread_of("asked")
        asked.may.set()
        thread.join(60)  # the loop is blocked meanwhile, so the result is queued
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(together(asked := Asked()))
    assert asked.cleared


def test_a_coroutine_returned_in_time_is_handed_to_the_caller() -> None:
    asked = Asked()
    asked.may.set()

    async def in_time() -> str:
        return await (await run_in_thread(asked))

    assert asyncio.run(in_time()) == "yes"
