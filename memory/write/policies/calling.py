"""A function of the caller's, plain or a coroutine, asked without holding up the event loop, and not for ever."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from memory.errors import ArgumentError
from memory.threads import in_thread

PATIENCE: Final = 60.0
"""Seconds that a function has for its answer, unless its policy says otherwise."""


async def called(function: Callable[..., Any], argument: object, patience: float | None) -> Any:
    """Return what *function* says to *argument*; a plain one runs in a thread, since it may ask a model and wait.

    After *patience* seconds without an answer it has failed (``TimeoutError``); None waits for as long as it takes.
    """
    limit = asyncio.timeout(patience)
    try:
        async with limit:
            if inspect.iscoroutinefunction(function):
                return await function(argument)
            answer = await in_thread(partial(function, argument), name="mneme-policy")
            return await answer if inspect.isawaitable(answer) else answer
    except TimeoutError as error:
        if limit.expired():
            raise TimeoutError(f"no answer within {patience:g} seconds") from error
        raise


def checked_function(function: object, what: str) -> None:
    """Raise ``ArgumentError`` unless *function* can be called with *what* ("a turn")."""
    if not callable(function):
        raise ArgumentError("function", function, f"something to call with {what} is needed")


def checked_patience(patience: object) -> float | None:
    """Return *patience* if it is a length of time in seconds, or None."""
    if patience is None:
        return None
    number = isinstance(patience, (int, float)) and not isinstance(patience, bool)
    if not number or not math.isfinite(patience) or patience <= 0:  # type: ignore[arg-type,operator]  # it is a number
        raise ArgumentError("patience", patience, "a number of seconds above 0 is needed, or None")
    return float(patience)  # type: ignore[arg-type]  # as above
