"""Awaited calls: coroutines that say so when they are used as if they were the result.

Without them, a forgotten ``await`` ends in "'coroutine' object has no attribute 'text'".
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from types import TracebackType
from typing import Any, NoReturn, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class AwaitedCall(Coroutine[Any, Any, Any]):
    """Coroutine of the call *name*; its items, attributes, length and truth raise with what to do."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], name: str) -> None:
        self._coroutine = coroutine
        self._name = name

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        """Go on with *value*, as an event loop does."""
        return self._coroutine.send(value)

    def throw(self, kind: Any, value: BaseException | object = None, trace: TracebackType | None = None) -> Any:
        """Go on with an error, as an event loop does."""
        error = kind if isinstance(kind, BaseException) else value if isinstance(value, BaseException) else kind()
        return self._coroutine.throw(error.with_traceback(trace) if trace is not None else error)

    def close(self) -> None:
        """End the call."""
        self._coroutine.close()

    @property
    def _problem(self) -> str:
        call = f"{self._name.rpartition('.')[2]}(…)"
        return f"{self._name} was not awaited: write `await …{call}`, or `run_sync(…{call})` in a plain script"

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("cr_", "__")):
            return getattr(self._coroutine, name)
        raise AttributeError(f"{self._problem}, before .{name}")

    def __repr__(self) -> str:
        return repr(self._coroutine)

    def _refused(self, *_: object) -> NoReturn:
        raise TypeError(self._problem)

    __iter__ = __getitem__ = __len__ = __contains__ = __bool__ = _refused


def says_await(function: F) -> F:
    """Return the coroutine function *function* such that its calls are ``AwaitedCall``s."""

    @wraps(function)
    def called(*arguments: Any, **options: Any) -> AwaitedCall:
        return AwaitedCall(function(*arguments, **options), function.__qualname__)

    if sys.version_info >= (3, 12):
        return inspect.markcoroutinefunction(called)  # type: ignore[return-value]
    import asyncio

    called._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]
    return called  # type: ignore[return-value]
