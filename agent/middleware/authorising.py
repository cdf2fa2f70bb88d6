"""Whether a call is allowed at all, asked of the tool's own authoriser and of the agent's, before anybody is asked."""

from __future__ import annotations

import inspect

from agent.errors import ArgumentError, CallRefused
from agent.middleware.protocol import Invocation, Proceed
from agent.tools.facets import Authoriser, Verdict
from agent.tools.protocol import ToolOutput


class Authorising:
    """Refuses what *authorise* or the tool's own authoriser refuses; the model is told the reason."""

    def __init__(self, authorise: Authoriser | None = None) -> None:
        self._authorise = authorise

    async def __call__(self, invocation: Invocation, proceed: Proceed) -> ToolOutput:
        """As the protocol says."""
        for authorise in (self._authorise, invocation.facets.authorise):
            if authorise is None:
                continue
            verdict = authorise(invocation.call.arguments, invocation.context)
            if inspect.isawaitable(verdict):
                verdict = await verdict
            if not isinstance(verdict, Verdict):
                raise ArgumentError("authorise", verdict, "an authoriser answers with a Verdict")
            if not verdict.allow:
                reason = f": {verdict.reason}" if verdict.reason else ""
                raise CallRefused(f"this call is not allowed{reason}")
        return await proceed(invocation)
