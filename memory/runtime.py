"""The bridge from synchronous code to the asynchronous memory layer, and functions run in threads of their own.

    found = run_sync(memory.recall("Where do I live?"))

Each call of ``run_sync`` runs an event loop of its own to its end. Called where a loop already runs (a notebook, an
async application), the work goes to a thread of its own and the caller's loop waits: there, prefer ``await``.

An interrupt (Ctrl-C) cancels the work and is raised when its loop is closed; one more breaks off work that does not
give way. ``run_in_thread`` does not use the event loop's own pool: a function that hangs there would hold up the end of
the program.
"""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from types import FrameType
from typing import Any, TypeVar

from tellback.memory.errors import ArgumentError


async def run_in_thread(function: Callable[[], Any], *, name: str = "tellback-function") -> Any:
    """Return what *function* returns in a thread of its own, called *name*; cancelled, leave the thread to itself.

    A coroutine that it returns too late is closed, since nobody will await it.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def settle(value: Any, error: BaseException | None) -> None:
        if done.done():
            _close_coroutine(value)
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
            _close_coroutine(value)

    threading.Thread(target=work, name=name, daemon=True).start()
    try:
        value, error = await done
    except asyncio.CancelledError:
        if not done.cancelled():  # it came together with the cancellation
            _close_coroutine(done.result()[0])
        raise
    if isinstance(error, (SystemExit, KeyboardInterrupt, StopIteration)):
        raise RuntimeError(f"the function raised {type(error).__name__}") from error
    if error is not None:
        raise error
    return value


async def call_sync_or_async(function: Callable[..., Any], *arguments: Any, name: str) -> Any:
    """Return what *function* answers; a plain one runs in a thread called *name*, and may return an awaitable."""
    if iscoroutinefunction(function):
        return await function(*arguments)
    answer = await run_in_thread(partial(function, *arguments), name=name)
    return await answer if isawaitable(answer) else answer


def _close_coroutine(value: Any) -> None:
    if isinstance(value, Coroutine):
        value.close()


T = TypeVar("T")


def run_sync(awaitable: Awaitable[T]) -> T:
    """Run *awaitable* to its end and return its result, whether or not an event loop runs in this thread."""
    if not isinstance(awaitable, Awaitable):
        raise ArgumentError("awaitable", awaitable, "something to await is needed, such as memory.recall(…)")
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with _handling_interrupts() as interrupts:
            return asyncio.run(interrupts.over(awaitable))
    return _run_in_new_loop(awaitable)


class _InterruptHandler:
    """Handler of interrupts of the work: the first cancels it, later ones break it off. While its loop opens or
    closes, they wait: asyncio holds them only while the loop runs, and one in between would leave it half closed.
    """

    def __init__(self) -> None:
        self.came = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        again, self.came = self.came, True
        if self._loop is None or self._task is None:
            return
        if again:
            raise KeyboardInterrupt
        self._task.cancel()
        self._loop.call_soon_threadsafe(lambda: None)  # wakes a loop that waits for nothing but time

    async def over(self, awaitable: Awaitable[T]) -> T:
        """Await *awaitable*; meanwhile interrupts are for it."""
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        if self.came and self._task is not None:
            self._task.cancel()
        try:
            return await awaitable
        finally:
            self._task = None


@contextmanager
def _handling_interrupts() -> Iterator[_InterruptHandler]:
    """Take interrupts for the work inside, where they would be raised here, and raise after it if one came."""
    handler = _InterruptHandler()
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield handler
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield handler
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if handler.came:
            raise KeyboardInterrupt


def _run_in_new_loop(awaitable: Awaitable[T]) -> T:
    """Run *awaitable* in a loop of a new thread; an interrupted wait cancels the work before it leaves."""
    result: Future[T] = Future()
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any]]] = Future()

    async def announced() -> T:
        task = asyncio.current_task()
        assert task is not None
        started.set_result((asyncio.get_running_loop(), task))
        return await awaitable

    def work() -> None:
        try:
            result.set_result(asyncio.run(announced()))
        except BaseException as error:  # whatever ended the work, cancellation included, belongs to the caller
            result.set_exception(error)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(work,), name="tellback-run-sync")
    thread.start()
    try:
        return result.result()
    except BaseException:
        if not result.done():
            loop, task = started.result()
            loop.call_soon_threadsafe(task.cancel)
        raise
    finally:
        thread.join()
