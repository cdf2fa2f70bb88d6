"""Authorization and approval of tool calls.

Authorization comes first: the authorizer of the agent and that of the tool say whether the call is allowed at all.
Approval is a person's decision about the call; the wait for it counts towards no timeout of the tool.
"""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import replace

from agent.approval import Approval, ApprovalPolicy, ApprovalRequest, Approver, Decision, as_flagged, decision_of
from agent.errors import ArgumentError, CallRefused
from agent.events import ApprovalDecided, ApprovalRequested
from agent.middleware.base import Invocation, Proceed
from agent.tools.base import Authoriser, ToolOutput, Verdict


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


_TEXTS = {
    Approval.REJECTED: "the user did not approve this call; do not try it again unless they ask for it",
    Approval.UNAVAILABLE: "this call needs approval, and nobody can be asked; go on without it",
    Approval.TIMED_OUT: "this call needs approval, and nobody answered in time; go on without it",
}


class Approving:
    """Asks for each call that *policy* names; nobody answering within *timeout* seconds is a no.

    *approver* is asked, or the run's, or else whoever reads its stream.
    """

    def __init__(
        self,
        policy: ApprovalPolicy = as_flagged,
        *,
        approver: Approver | None = None,
        timeout: float | None = None,
    ) -> None:
        self._policy, self._approver, self._timeout = policy, approver, timeout

    async def __call__(self, invocation: Invocation, proceed: Proceed) -> ToolOutput:
        """As the protocol says."""
        flagged = invocation.facets.wants_approval(invocation.context.trust)
        if self._policy(invocation.call, flagged):
            decision = await self._asked(invocation)
            if decision.status is not Approval.APPROVED:
                reason = f": {decision.reason}" if decision.reason else ""
                raise CallRefused(_TEXTS[decision.status] + reason)
        elif not flagged:
            return await proceed(invocation)
        # Somebody said yes, or the policy did in their name.
        return await proceed(replace(invocation, context=replace(invocation.context, approved=True)))

    async def _asked(self, invocation: Invocation) -> Decision:
        context = invocation.context
        request = ApprovalRequest(invocation.call, agent=context.agent, description=invocation.tool.spec.description)
        context.scope.emit(ApprovalRequested(request, **context.stamp()))
        try:
            async with asyncio.timeout(self._timeout) as scope:
                decision = await self._answered(
                    request, self._approver or context.scope.approver, context.scope.streams
                )
        except TimeoutError:
            if not scope.expired():
                raise
            decision = Decision(Approval.TIMED_OUT)
        context.scope.emit(ApprovalDecided(invocation.call, decision, **context.stamp()))
        return decision

    async def _answered(self, request: ApprovalRequest, approver: Approver | None, streams: bool) -> Decision:
        if approver is not None:
            try:
                return decision_of(await approver(request))
            except Exception as error:  # a broken dialogue is no yes
                return Decision(Approval.UNAVAILABLE, f"{type(error).__name__}: {error}")
        return await request.decided() if streams else Decision(Approval.UNAVAILABLE)
