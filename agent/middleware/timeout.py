"""A limit of time for each call of a tool. What runs in a thread cannot be stopped; it is not waited for."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from agent.errors import ArgumentError, ToolTimedOut
from agent.middleware.protocol import Invocation, Proceed
from agent.tools.protocol import ToolOutput


class Timeout:
    """Gives a call up after the tool's own limit, or else after *seconds* (None: never)."""

    def __init__(self, seconds: float | None = None) -> None:
        if seconds is not None and not seconds > 0:
            raise ArgumentError("tool_timeout", seconds, "a number of seconds above 0 is needed, or None")
        self._seconds = seconds

    async def __call__(self, invocation: Invocation, proceed: Proceed) -> ToolOutput:
        """As the protocol says; inside, the context's deadline is no later than the call's own."""
        limit = invocation.tool.timeout if invocation.tool.timeout is not None else self._seconds
        if limit is None:
            return await proceed(invocation)
        try:
            async with asyncio.timeout(limit) as scope:
                ends = scope.when()
                assert ends is not None
                known = invocation.context.deadline
                context = replace(invocation.context, deadline=ends if known is None else min(ends, known))
                return await proceed(replace(invocation, context=context, given_up=scope.expired))
        except TimeoutError as error:
            if not scope.expired():
                raise
            raise ToolTimedOut(f"no answer within {limit:g} s; it was given up", transient=True) from error
