"""Turns of one conversation, one after the other whichever worker of the server has each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tellback.agent.assistant.wiring import OpenedMemory

_LONGEST_WAIT: Final = 300.0
_THREADS = ThreadPoolExecutor(64, "tellback-turn")
"""Threads that wait for turns: those of the event loop do the work that ends one."""


@asynccontextmanager
async def held_turn(opened: OpenedMemory, session: str) -> AsyncIterator[None]:
    """Hold *session*: a block waits until no other worker over the same memory has it, five minutes at most."""
    loop = asyncio.get_running_loop()
    turn = opened.memory.database.hold(f"turn of {opened.namespace}\0{session}", wait=_LONGEST_WAIT)
    begun = loop.run_in_executor(_THREADS, turn.__enter__)
    try:
        await asyncio.shield(begun)
    except asyncio.CancelledError:  # who waited has gone: the thread still gets the turn, and gives it back
        begun.add_done_callback(lambda done: done.exception() or loop.run_in_executor(_THREADS, _release, turn))
        raise
    try:
        yield
    finally:
        await asyncio.shield(loop.run_in_executor(_THREADS, _release, turn))


def _release(turn: AbstractContextManager[None]) -> None:
    turn.__exit__(None, None, None)
