"""Authorization and approval of tool calls.

Authorization comes first: the authorizer of the agent and that of the tool say whether the call is allowed at all.
Approval is a person's decision about the call; the wait for it counts towards no timeout of the tool.
"""

from __future__ import annotations

import asyncio
import inspect
from dataclasses import dataclass, replace

from tellback.agent.approval import (
    ApprovalDecision,
    ApprovalPolicy,
    ApprovalRequest,
    ApprovalStatus,
    Approver,
    approval_as_annotated,
)
from tellback.agent.errors import ArgumentError, ToolCallRefused
from tellback.agent.events import ApprovalDecided, ApprovalRequested
from tellback.agent.middleware.base import ToolHandler, ToolInvocation
from tellback.agent.tools.base import AuthorizationDecision, Authorizer, ToolOutput


@dataclass(frozen=True, slots=True)
class AuthorizationMiddleware:
    """Refuses calls that *authorise* or the tool's own authoriser refuses; the model is told the reason."""

    authorise: Authorizer | None = None

    async def __call__(self, invocation: ToolInvocation, proceed: ToolHandler) -> ToolOutput:
        """Raise ``ToolCallRefused`` where the call is not allowed, else call the tool."""
        for authorise in (self.authorise, invocation.annotations.authorise):
            if authorise is None:
                continue
            decision = authorise(invocation.call.arguments, invocation.context)
            if inspect.isawaitable(decision):
                decision = await decision
            if not isinstance(decision, AuthorizationDecision):
                raise ArgumentError("authorise", decision, "an authoriser answers with an AuthorizationDecision")
            if not decision.allow:
                reason = f": {decision.reason}" if decision.reason else ""
                raise ToolCallRefused(f"this call is not allowed{reason}")
        return await proceed(invocation)


_REFUSAL_TEXTS = {
    ApprovalStatus.REJECTED: "the user did not approve this call; do not try it again unless they ask for it",
    ApprovalStatus.UNAVAILABLE: "this call needs approval, and nobody can be asked; go on without it",
    ApprovalStatus.TIMED_OUT: "this call needs approval, and nobody answered in time; go on without it",
}


@dataclass(frozen=True, slots=True)
class ApprovalMiddleware:
    """Asks for approval of each call that *policy* names; no answer within *timeout* seconds is a refusal.

    *approver* is asked, or the run's, or else the reader of its stream.
    """

    policy: ApprovalPolicy = approval_as_annotated
    approver: Approver | None = None
    timeout: float | None = None

    async def __call__(self, invocation: ToolInvocation, proceed: ToolHandler) -> ToolOutput:
        """Raise ``ToolCallRefused`` where the call is not approved, else call the tool."""
        flagged = invocation.annotations.wants_approval(invocation.context.trust)
        if self.policy(invocation.call, flagged):
            decision = await self._ask(invocation)
            if decision.status != ApprovalStatus.APPROVED:
                reason = f": {decision.reason}" if decision.reason else ""
                raise ToolCallRefused(_REFUSAL_TEXTS[decision.status] + reason)
        elif not flagged:
            return await proceed(invocation)
        # A person approved it, or the policy did in their name.
        return await proceed(replace(invocation, context=replace(invocation.context, approved=True)))

    async def _ask(self, invocation: ToolInvocation) -> ApprovalDecision:
        context = invocation.context
        request = ApprovalRequest(invocation.call, agent=context.agent, description=invocation.tool.spec.description)
        context.scope.emit(ApprovalRequested(request, **context.stamp()))
        try:
            async with asyncio.timeout(self.timeout) as limit:
                decision = await self._answer(request, self.approver or context.scope.approver, context.scope.streams)
        except TimeoutError:
            if not limit.expired():
                raise
            decision = ApprovalDecision(ApprovalStatus.TIMED_OUT)
        context.scope.emit(ApprovalDecided(invocation.call, decision, **context.stamp()))
        return decision

    async def _answer(self, request: ApprovalRequest, approver: Approver | None, streams: bool) -> ApprovalDecision:
        if approver is not None:
            try:
                answer = await approver(request)
                if isinstance(answer, bool):
                    return ApprovalDecision(ApprovalStatus.APPROVED if answer else ApprovalStatus.REJECTED)
                if not isinstance(answer, ApprovalDecision):
                    raise ArgumentError(
                        "approver", answer, "an approver answers with an ApprovalDecision, True or False"
                    )
                return answer
            except Exception as error:  # a broken dialogue approves nothing
                return ApprovalDecision(ApprovalStatus.UNAVAILABLE, f"{type(error).__name__}: {error}")
        return await request.decided() if streams else ApprovalDecision(ApprovalStatus.UNAVAILABLE)
