"""How tools are called: who may, who is asked, how long, how often, and what else stands around each call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.approval import ApprovalPolicy, Approver, as_flagged
from agent.errors import ArgumentError
from agent.middleware.approving import Approving
from agent.middleware.authorising import Authorising
from agent.middleware.circuit_breaker import CircuitBreaker
from agent.middleware.logging_calls import Logging
from agent.middleware.protocol import ToolMiddleware
from agent.middleware.rate_limit import RateLimit
from agent.middleware.retry import Retry
from agent.middleware.timeout import Timeout
from agent.tools.facets import Authoriser
from agent.tools.pages import ResultPages


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """The chain around each call, outermost first: *authorise*, *approval*, logging, timeout, *breaker*,
    *rate_limit*, *retry*, *middleware* in its order, the tool.

    *approval* says which calls need a yes, *approver* gives it (None: whoever reads the stream), within
    *approval_timeout* seconds (None: no limit); waiting does not count towards a tool's own time. *pages* cuts long
    results. The breaker and the rate limit keep their state here, so it outlives runs.
    """

    authorise: Authoriser | None = None
    approval: ApprovalPolicy = as_flagged
    approver: Approver | None = None
    approval_timeout: float | None = 300.0
    breaker: CircuitBreaker | None = None
    rate_limit: RateLimit | None = None
    retry: Retry | None = None
    middleware: Sequence[ToolMiddleware] = ()
    pages: ResultPages = field(default_factory=ResultPages)

    def __post_init__(self) -> None:
        if self.approval_timeout is not None and not self.approval_timeout > 0:
            raise ArgumentError("approval_timeout", self.approval_timeout, "seconds above 0 are needed, or None")
        for name in ("approval", "approver", "authorise"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise ArgumentError(name, getattr(self, name), "a function is needed")

    def before(self) -> list[ToolMiddleware]:
        """Return what stands before a call is made: it may wait for a person, and takes no place among the calls."""
        return [
            Authorising(self.authorise),
            Approving(self.approval, approver=self.approver, timeout=self.approval_timeout),
        ]

    def around(self, timeout: float | None) -> list[ToolMiddleware]:
        """Return what stands around the making of a call, outermost first."""
        guards: list[ToolMiddleware | None] = [self.breaker, self.rate_limit, self.retry]
        return [Logging(), Timeout(timeout), *(one for one in guards if one is not None), *self.middleware]
