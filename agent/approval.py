"""Approval of tool calls by a person: policies, requests and decisions. Values and rules only.

Agent(provider, tools=[send], policy=ToolPolicy(approval=approval_except("clock"), approver=ask_on_the_terminal))
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from tellback.agent.errors import ApprovalUnavailable, ArgumentError, choice
from tellback.memory import ToolCallBlock


class ApprovalStatus(StrEnum):
    """Status of a request for approval, once it is decided."""

    APPROVED = "approved"
    REJECTED = "rejected"
    UNAVAILABLE = "unavailable"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """Decision about a request, with a *reason* for the model. *status* may be given as its text."""

    status: ApprovalStatus
    reason: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", choice(ApprovalStatus, self.status, "status"))


_COPY_PROBLEM = "this request was read from JSON; answer the one in the program that runs the agent"


class ApprovalRequest:
    """Request for approval of the *call* of a tool by *agent*; *description* is the tool's own.

    ``approve`` or ``reject`` answers it, once, from any thread; a second answer is ignored. One that was read from JSON
    is a *copy*: it shows what is asked, and only the request in the program that runs the agent can be answered.
    """

    def __init__(self, call: ToolCallBlock, *, agent: str = "", description: str = "", copy: bool = False) -> None:
        self.call = call
        self.agent = agent
        self.description = description
        self._loop = None if copy else asyncio.get_running_loop()
        self._answer: asyncio.Future[ApprovalDecision] | None = self._loop.create_future() if self._loop else None

    def approve(self) -> None:
        """Let the call go ahead."""
        self.answer(ApprovalDecision(ApprovalStatus.APPROVED))

    def reject(self, reason: str = "") -> None:
        """Refuse the call; the model is told *reason*."""
        self.answer(ApprovalDecision(ApprovalStatus.REJECTED, reason))

    def answer(self, decision: ApprovalDecision) -> None:
        """Answer with *decision*; a copy raises ``ApprovalUnavailable``."""
        answer, loop = self._answer, self._loop
        if answer is None or loop is None:
            raise ApprovalUnavailable(_COPY_PROBLEM)

        def settle() -> None:
            if not answer.done():
                answer.set_result(decision)

        loop.call_soon_threadsafe(settle)

    async def decided(self) -> ApprovalDecision:
        """Wait for the answer; a copy raises ``ApprovalUnavailable``."""
        if self._answer is None:
            raise ApprovalUnavailable(_COPY_PROBLEM)
        return await asyncio.shield(self._answer)

    def __repr__(self) -> str:
        return f"ApprovalRequest({self.call.name!r}, agent={self.agent!r})"


Approver: TypeAlias = Callable[[ApprovalRequest], Awaitable[ApprovalDecision | bool]]
"""Function that answers requests with an ``ApprovalDecision``, or with True or False."""

ApprovalPolicy: TypeAlias = Callable[[ToolCallBlock, bool], bool]
"""Function that returns whether a call needs approval, from the call and from the annotations of its tool."""


def approval_as_annotated(call: ToolCallBlock, flagged: bool) -> bool:
    """Ask for the tools whose annotations want approval: the default policy."""
    return flagged


def approval_never(call: ToolCallBlock, flagged: bool) -> bool:
    """Ask for approval of no call, not even where a tool wants it."""
    return False


@dataclass(frozen=True, slots=True)
class _ApprovalExcept:
    names: frozenset[str]

    def __call__(self, call: ToolCallBlock, flagged: bool) -> bool:
        return call.name not in self.names


def approval_except(*names: str) -> ApprovalPolicy:
    """Ask for every call but those of the tools *names*: an allowlist; without names, for every call.

    Names are compared exactly.
    """
    for name in names:
        if not isinstance(name, str) or not name or name != name.strip():
            raise ArgumentError("names", name, "the name of a tool is needed")
    return _ApprovalExcept(frozenset(names))
