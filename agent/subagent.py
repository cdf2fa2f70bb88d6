"""Sub-agents: an agent as a tool of another agent, called with a task and answering with text.

It inherits neither the conversation nor the memory of its caller.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import aclosing
from typing import Annotated, Any

from pydantic import Field

from tellback.agent.agent import Agent
from tellback.agent.errors import AgentError, ArgumentError, ToolFailed, check_count
from tellback.agent.events import ApprovalDecided, ApprovalRequested, RunEnded, SubAgentEvent
from tellback.agent.tools.base import ToolContext, ToolOutput
from tellback.agent.tools.function import FunctionTool

MAX_AGENT_DEPTH = 2


class AgentTool(FunctionTool):
    """Calls *agent* with the one argument ``task``.

    The agent sees nothing of the caller's conversation or memory: only the task, in a session of its own that is not
    kept (*store*: it is). The caller's deadline and limits hold for it, its tokens are counted with the caller's, and
    its events come in the caller's stream as ``SubAgentEvent``. Agents call agents at most *max_depth* levels deep,
    and none calls an agent that is already at work above it.
    """

    def __init__(
        self,
        agent: Agent,
        *,
        description: str,
        name: str | None = None,
        max_depth: int = MAX_AGENT_DEPTH,
        timeout: float | None = None,
        store: bool = False,
        needs_approval: bool = False,
        skip_synthesis: bool = False,
    ) -> None:
        if not isinstance(agent, Agent):
            raise ArgumentError("agent", agent, "an Agent is needed")
        check_count("max_depth", max_depth)
        own_name = "ask_" + re.sub(r"[^A-Za-z0-9_-]+", "_", agent.name).strip("_").lower()
        tool_name = own_name if name is None else name
        if tool_name == "ask_":
            raise ArgumentError("name", name, "an agent without a name needs one as a tool")
        self._agent, self._max_depth, self._store = agent, max_depth, store
        super().__init__(
            self._ask,
            name=tool_name,
            description=description,
            timeout=timeout,
            needs_approval=needs_approval,
            skip_synthesis=skip_synthesis,
        )

    def needing_approval(self) -> list[str]:
        """Return the tools of the agent inside that need approval."""
        return self._agent.needing_approval()

    async def call(self, arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """Let the agent answer the task; ``ToolFailed`` where agents would call each other in a circle or too deep."""
        lineage = context.scope.lineage
        if any(agent is self._agent for agent in lineage):
            raise ToolFailed(f"{self.spec.name} is already at work on this; answer it yourself")
        if len(lineage) > self._max_depth:
            raise ToolFailed(f"agents may call agents {self._max_depth} levels deep; answer it yourself")
        return await super().call(arguments, context)

    async def _ask(
        self,
        task: Annotated[str, Field(min_length=1, description="The whole task: nothing else is known there.")],
        context: ToolContext,
    ) -> str:
        try:
            events = self._agent.stream(task, store=self._store, within=context)
        except AgentError as error:
            raise ToolFailed(str(error)) from error
        async with aclosing(events):
            async for event in events:
                if isinstance(event, RunEnded):
                    if event.error is not None:
                        raise ToolFailed(f"it found no answer: {event.error}") from event.error
                    return event.result.text
                if isinstance(event, (ApprovalRequested, ApprovalDecided)):
                    context.scope.emit(event)
                else:
                    context.scope.emit(SubAgentEvent(context.call_id, event, **context.stamp()))
        raise AssertionError("a stream ends in RunEnded")
