"""A synchronous function run beside the event loop, with the caller's context, and never waited for once given up.

The event loop's own pool is not used: a function that hangs there would hold up the end of the program.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from typing import Any


async def in_thread(function: Callable[[], Any], *, name: str = "mneme-function") -> Any:
    """Return what *function* returns in a thread of its own, called *name*; cancelled, leave the thread to itself.

    A coroutine that it returns too late is closed, since nobody will await it.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if done.done():
            _let_go(value)
        else:
            done.set_result((value, error))

    def work() -> None:
        value: Any = None
        failure: BaseException | None = None
        try:
            value = context.run(function)
        except BaseException as error:  # it belongs to the caller, whatever it is
            failure = error
        try:
            loop.call_soon_threadsafe(settle, value, failure)
        except RuntimeError:  # the loop has ended; nobody waits any more
            _let_go(value)

    threading.Thread(target=work, name=name, daemon=True).start()
    try:
        value, error = await done
    except asyncio.CancelledError:
        if not done.cancelled():  # it came together with the cancellation
            _let_go(done.result()[0])
        raise
    if isinstance(error, (SystemExit, KeyboardInterrupt, StopIteration)):
        raise RuntimeError(f"the function raised {type(error).__name__}") from error
    if error is not None:
        raise error
    return value


def _let_go(value: Any) -> None:
    if inspect.iscoroutine(value):
        value.close()
