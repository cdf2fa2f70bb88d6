"""What a tool is, and what it is told about the call. Making one from a function is ``function``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from agent.errors import choice
from agent.providers.protocol import ToolSpec
from agent.scope import RunScope
from memory import ImageBlock, TextBlock, Trust

ToolOutput: TypeAlias = str | Sequence[TextBlock | ImageBlock]


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The call that a tool serves: its id, the session, the agent's name, the round, when it must end (*deadline*, in
    the event loop's time), and the run that it is part of (*scope*).

    *trust* is whose word it is what the call writes: the least trusted that the run had read when the model made the
    call, and the model's own at most. *approved*: somebody agreed to this very call.
    """

    call_id: str = ""
    session: str = ""
    agent: str = ""
    step: int = 0
    deadline: float | None = None
    trust: Trust = Trust.ASSISTANT
    approved: bool = False
    scope: RunScope = field(default_factory=RunScope, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "trust", choice(Trust, self.trust, "trust"))

    def stamp(self) -> dict[str, Any]:
        """Return what every event of this call carries."""
        return {"agent": self.agent, "step": self.step, "elapsed": self.scope.timer()}


@runtime_checkable
class Tool(Protocol):
    """Something that a model may call.

    - ``call`` checks *arguments* itself; what it refuses, or cannot do for a reason that the model should read,
      raises ``ToolFailed``. ``StopRun`` ends the run. Anything else it raises is told to the model as a failure.
    - A tool may have ``facets`` (see ``facets``); one without has none of them.
    - Calls may run at the same time. A cancelled call leaves nothing half-done that matters.
    """

    @property
    def spec(self) -> ToolSpec:
        """What the model is told."""
        ...

    @property
    def timeout(self) -> float | None:
        """Seconds that one call may take; None: what the agent allows."""
        ...

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """Do it, and return what the model is to read."""
        ...
