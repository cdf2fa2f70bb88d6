"""A function of the caller's, plain or a coroutine, asked without holding up the event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any


async def called(function: Callable[..., Any], argument: object) -> Any:
    """Return what *function* says to *argument*; a plain one runs in a thread, since it may ask a model and wait."""
    if inspect.iscoroutinefunction(function):
        return await function(argument)
    answer = await asyncio.to_thread(function, argument)
    return await answer if inspect.isawaitable(answer) else answer
