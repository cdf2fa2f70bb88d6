"""Tool calls of one reply, run together; results in the order of the calls. It knows neither models nor messages.

A call that fails is told to the model and never stops its siblings. ``StopRun`` ends the run once all have ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agent.errors import ArgumentError, StopRun, ToolFailed
from agent.results import ToolRun
from agent.tools.protocol import Tool, ToolContext, ToolOutput
from agent.tools.toolset import Toolset
from memory import TextBlock, ToolCallBlock, ToolResultBlock

_SHOWN = 500


@dataclass(frozen=True, slots=True)
class Dispatched:
    """How the calls went, in their order, and the ``StopRun`` that one of them raised."""

    runs: tuple[ToolRun, ...]
    stop: StopRun | None = None


class Dispatcher:
    """Calls *tools*: at most *parallel* at a time, each for at most *timeout* seconds (None: no limit) or its own."""

    def __init__(
        self,
        tools: Toolset,
        *,
        parallel: int = 8,
        timeout: float | None = None,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        if type(parallel) is not int or parallel < 1:
            raise ArgumentError("parallel_tools", parallel, "at least 1 is needed")
        if timeout is not None and not timeout > 0:
            raise ArgumentError("tool_timeout", timeout, "a number of seconds above 0 is needed, or None")
        self._tools = tools
        self._parallel = parallel
        self._timeout = timeout
        self._timer = timer

    async def run(self, calls: Sequence[ToolCallBlock], context: ToolContext) -> Dispatched:
        """Run *calls* together; cancelled, all of them are, and nothing goes on behind."""
        room = asyncio.Semaphore(self._parallel)
        tasks = [asyncio.create_task(self._run(call, context, room)) for call in calls]
        try:
            await asyncio.wait(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        ended = [task.result() for task in tasks]
        return Dispatched(tuple(run for run, _ in ended), next((stop for _, stop in ended if stop), None))

    async def _run(
        self, call: ToolCallBlock, context: ToolContext, room: asyncio.Semaphore
    ) -> tuple[ToolRun, StopRun | None]:
        async with room:
            began = self._timer()
            stop: StopRun | None = None
            try:
                output: ToolOutput = await self._called(call, replace(context, call_id=call.id))
                failed = False
            except StopRun as error:
                output, failed, stop = "the run was ended", True, error
            except ToolFailed as error:
                output, failed = str(error), True
            except asyncio.CancelledError:
                if _is_cancelled():
                    raise
                output, failed = "the tool cancelled itself", True  # not us: a cancellation inside it leaked
            except Exception as error:  # a stranger's code; the model may find another way
                output, failed = _failure(error), True
            result = result_of(call, output, is_error=failed)
            return ToolRun(call, result, self._timer() - began), stop

    async def _called(self, call: ToolCallBlock, context: ToolContext) -> ToolOutput:
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(spec.name for spec in self._tools.specs)
            raise ToolFailed(f"there is no tool {call.name!r}; there are: {known or 'none'}")
        if call.invalid is not None:
            raise ToolFailed(f"the arguments are not a JSON object: {_cut(call.invalid)}")
        limit = tool.timeout if tool.timeout is not None else self._timeout
        return await _within(limit, tool, call, context)


async def _within(limit: float | None, tool: Tool, call: ToolCallBlock, context: ToolContext) -> ToolOutput:
    try:
        async with asyncio.timeout(limit) as scope:
            return await tool.call(call.arguments, context)
    except TimeoutError as error:
        if not scope.expired():
            raise
        raise ToolFailed(f"no answer within {limit:g} s; it was given up") from error


def result_of(call: ToolCallBlock, output: ToolOutput, *, is_error: bool = False) -> ToolResultBlock:
    """Return *output* as the answer to *call*."""
    content = (TextBlock(text=output),) if isinstance(output, str) else tuple(output)
    return ToolResultBlock(call_id=call.id, name=call.name, content=content, is_error=is_error)


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _failure(error: Exception) -> str:
    said = f": {error}" if str(error) else ""
    return _cut(f"the tool failed: {type(error).__name__}{said}")


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
