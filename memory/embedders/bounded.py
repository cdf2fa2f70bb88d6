"""Several calls of an embedder at once, but never more than allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


async def bounded(calls: Sequence[Callable[[], Awaitable[T]]], limit: int) -> list[T]:
    """Return what *calls* give, in their order, at most *limit* of them under way at a time.

    The first that fails ends the others and is raised; cancelling this cancels all of them.
    """
    answers: dict[int, T] = {}
    waiting = iter(enumerate(calls))

    async def work() -> None:
        for place, call in waiting:
            answers[place] = await call()

    if len(calls) == 1 or limit == 1:  # nothing to do at once; no task is needed
        await work()
        return [answers[place] for place in range(len(calls))]
    failed: BaseException | None = None
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(limit, len(calls))):
                group.create_task(work())
    except BaseExceptionGroup as several:
        failed = several.exceptions[0]
    if failed is not None:
        raise failed
    return [answers[place] for place in range(len(calls))]
