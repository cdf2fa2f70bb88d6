"""What a tool says of itself beside its schema: whether it needs a yes, who may call it, what may be repeated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from agent.errors import ArgumentError, choice
from agent.tools.protocol import ToolContext
from memory import Trust


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a call is allowed; a refusal's *reason* is told to the model."""

    allow: bool
    reason: str = ""


Authoriser: TypeAlias = Callable[[Mapping[str, Any], ToolContext], Verdict | Awaitable[Verdict]]
"""Judges a call by its arguments and its context, before anybody is asked for approval."""


@dataclass(frozen=True, slots=True)
class Facets:
    """*needs_approval*: a person must agree to each call. *authorise* judges each call first. *skip_synthesis*: the
    result is the answer, the model need not say it again. *idempotent*: repeating a call that failed does no harm.
    *approval_below*: a person must agree where the run has read words that are trusted less than this. *trust*: whose
    word its results are. *recalls*: they show what is remembered already, and are not remembered again."""

    needs_approval: bool = False
    authorise: Authoriser | None = None
    skip_synthesis: bool = False
    idempotent: bool = False
    approval_below: Trust | None = None
    trust: Trust = Trust.TOOL
    recalls: bool = False

    def __post_init__(self) -> None:
        for name in ("needs_approval", "skip_synthesis", "idempotent", "recalls"):
            if not isinstance(getattr(self, name), bool):
                raise ArgumentError(name, getattr(self, name), "True or False is needed")
        if self.authorise is not None and not callable(self.authorise):
            raise ArgumentError("authorise", self.authorise, "a function of arguments and context is needed, or None")
        object.__setattr__(self, "trust", choice(Trust, self.trust, "trust", "a Trust is needed"))
        if self.approval_below is not None:
            below = choice(Trust, self.approval_below, "approval_below", "a Trust is needed, or None")
            object.__setattr__(self, "approval_below", below)

    def wants_approval(self, trust: Trust) -> bool:
        """Whether a call that speaks for *trust* needs a yes."""
        return self.needs_approval or (self.approval_below is not None and trust.rank > self.approval_below.rank)


def facets_of(tool: object) -> Facets:
    """Return the facets of *tool*; a tool without any has none of them."""
    found = getattr(tool, "facets", None)
    return found if isinstance(found, Facets) else Facets()
