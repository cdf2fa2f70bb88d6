"""Protocol of tools: a tool and its annotations, the context of a call, the scope of its run, and tools by name.

A tool made from a function is ``tools.function``.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import Any, Protocol, TypeAlias, TypedDict, runtime_checkable

from tellback.agent.approval import Approver
from tellback.agent.context_items import ContextItem
from tellback.agent.errors import ArgumentError, choice
from tellback.agent.events import Event, HookDispatcher
from tellback.agent.providers.base import ToolSpec
from tellback.agent.trust import TrustTracker
from tellback.agent.usage import UsageLedger
from tellback.memory import DocumentBlock, ImageBlock, TextBlock, Trust


@dataclass(frozen=True, slots=True)
class RunScope:
    """Run that a tool call is part of: *ledger* counts usage, *hooks* observe, *emit* puts an event into the stream.

    *approver* answers requests (None: the reader of the stream, where *streams*), *lineage* are the agents above,
    outermost first, *timer* gives the seconds since the run began, *trust* tracks whose words were read, *mark* is
    that of the recalled memories, which no result of a tool may show. *shown* are the items that the model has seen, of
    the context and of searches, each with its number: an answer cites any of them. *zone* is the user's time zone.
    """

    ledger: UsageLedger = field(default_factory=UsageLedger)
    hooks: HookDispatcher = field(default_factory=HookDispatcher)
    emit: Callable[[Event], None] = lambda event: None
    approver: Approver | None = None
    streams: bool = False
    lineage: tuple[object, ...] = ()
    timer: Callable[[], float] = float
    trust: TrustTracker = field(default_factory=TrustTracker)
    mark: str = ""
    shown: list[ContextItem] = field(default_factory=list)
    zone: tzinfo | None = None

    def number(self, items: Sequence[ContextItem]) -> list[ContextItem]:
        """Return *items* with the numbers by which they can be cited, and keep them: one that was shown has its own."""
        known = {item.id: item.number for item in self.shown}
        following = max(known.values(), default=0) + 1
        numbered = []
        for item in items:
            number = known.setdefault(item.id, following)
            following += number == following
            numbered.append(replace(item, number=number))
        before = {item.id for item in self.shown}
        self.shown.extend(item for item in numbered if item.id not in before)
        return numbered

    def with_ids(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return *arguments* with ids in the place of the numbers of shown items, in ``id`` and ``ids``: 3, "[3]"."""
        ids = {str(item.number): item.id for item in self.shown}

        def as_id(value: object) -> object:
            word = str(value).strip("[] ") if type(value) in (int, str) else ""
            return ids.get(word, value)

        changed = dict(arguments)
        if "id" in changed:
            changed["id"] = as_id(changed["id"])
        if isinstance(changed.get("ids"), list):
            changed["ids"] = [as_id(value) for value in changed["ids"]]
        return changed


ToolOutput: TypeAlias = str | Sequence[TextBlock | ImageBlock | DocumentBlock]


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Context of a tool call: its id, the session, the agent's name, the round, its end (*deadline*, in the event
    loop's time), and the run that it is part of (*scope*).

    *namespace* is that of the run, so that a tool can keep the users of one agent apart.
    *trust* is the trust of what the call writes: the least trusted that the run had read when the model made the
    call, and the model's own at most. *approved*: a person agreed to this very call.
    """

    call_id: str = ""
    session: str = ""
    agent: str = ""
    step: int = 0
    deadline: float | None = None
    trust: Trust = Trust.ASSISTANT
    approved: bool = False
    namespace: str = ""
    scope: RunScope = field(default_factory=RunScope, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "trust", choice(Trust, self.trust, "trust"))

    def stamp(self) -> dict[str, Any]:
        """Return the fields that every event of this call carries."""
        return {"agent": self.agent, "step": self.step, "elapsed": self.scope.timer()}


@runtime_checkable
class Tool(Protocol):
    """Function that a model may call; ``tool`` makes one of a function.

    - ``call`` checks *arguments* itself; ``ToolFailed`` says in words for the model why a call was refused or failed.
      ``StopRun`` ends the run. Any other error is reported to the model as a failure.
    - A tool may have ``annotations``, a ``ToolAnnotations``; without them the defaults hold.
    - Calls may run at the same time. A cancelled call leaves nothing half-done that matters.
    """

    @property
    def spec(self) -> ToolSpec:
        """Name, description and parameters, as the model sees them."""

    @property
    def timeout(self) -> float | None:
        """Time limit of one call in seconds; None: the agent's."""

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """Run the tool, and return the output for the model."""


@dataclass(frozen=True, slots=True)
class AuthorizationDecision:
    """Decision about a call; the *reason* of a refusal is told to the model."""

    allow: bool
    reason: str = ""


Authorizer: TypeAlias = Callable[
    [Mapping[str, Any], ToolContext], AuthorizationDecision | Awaitable[AuthorizationDecision]
]
"""Function that allows or refuses a call by its arguments and context, before anybody is asked for approval."""


@dataclass(frozen=True, slots=True)
class ToolAnnotations:
    """Annotations of a tool, beside its schema.

    - *needs_approval*: a person must agree to each call; *approval_below*: only where the run has read words that are
      trusted less than this. *authorise* judges each call first.
    - *skip_synthesis*: the result is the answer, the model need not say it again.
    - *idempotent*: repeating a call that failed does no harm.
    - *trust* is the trust of its results; *recalls*: they show what is remembered already, and are not remembered
      again, and in its arguments ``id`` and ``ids`` a number of an item that was shown stands for that item.
    """

    needs_approval: bool = False
    authorise: Authorizer | None = None
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
        """Return whether a call that speaks for *trust* needs approval."""
        return self.needs_approval or (self.approval_below is not None and trust.rank > self.approval_below.rank)


class AnnotationOptions(TypedDict, total=False):
    """Fields of ``ToolAnnotations``, as keywords of the functions that make tools."""

    needs_approval: bool
    authorise: Authorizer | None
    skip_synthesis: bool
    idempotent: bool
    approval_below: Trust | None
    trust: Trust
    recalls: bool


def annotations_of(tool: object) -> ToolAnnotations:
    """Return the annotations of *tool*; the defaults for a tool without any."""
    annotations = getattr(tool, "annotations", None)
    return annotations if isinstance(annotations, ToolAnnotations) else ToolAnnotations()


_VALID_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Toolset:
    """Tools by name. A name given twice is refused."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if not isinstance(tool, Tool):
                raise ArgumentError("tools", tool, "tools are needed; @tool makes one of a function")
            name = tool.spec.name
            if not _VALID_TOOL_NAME.fullmatch(name):
                raise ArgumentError("tool name", name, "1 to 64 letters, digits, _ or - are needed")
            if name in self._tools:
                raise ArgumentError("tools", name, "each tool needs a name of its own")
            self._tools[name] = tool

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """Specifications of all tools, in order."""
        return tuple(tool.spec for tool in self._tools.values())

    def get(self, name: str) -> Tool | None:
        """Return the tool called *name*."""
        return self._tools.get(name)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)
