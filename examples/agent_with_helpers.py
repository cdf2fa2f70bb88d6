"""Agents as tools: one that plans asks one that computes. The helper sees the task alone, and its tokens count once.

python examples/agent_with_helpers.py
"""

from __future__ import annotations

import asyncio

from tellback.agent import Agent, AgentSettings, AgentTool, RunEnded, RunLimits, SubAgentEvent, ToolStarted, calculator
from tellback.agent.testing import Reply, ScriptedProvider, call

HELPER = (
    Reply(calls=(call("calculate", expression="(120 + 80) * 1.19"),)),
    Reply("It is 238.00 euros.", expect="238.0"),
)
PLANNER = (
    Reply(calls=(call("ask_accountant", task="What are 120 and 80 euros with 19 per cent tax?"),)),
    Reply("Put 238 euros aside.", expect="238.00"),
)


async def main() -> None:
    accountant = Agent(ScriptedProvider(*HELPER), tools=[calculator()], settings=AgentSettings(name="Accountant"))
    planner = Agent(
        ScriptedProvider(*PLANNER),
        tools=[AgentTool(accountant, description="Ask the accountant to compute something.")],
        settings=AgentSettings(name="Planner", limits=RunLimits(calls=10)),
    )
    async for event in planner.stream("How much money does the repair need?"):
        if isinstance(event, ToolStarted):
            print(f"{event.agent} calls {event.call.name}")
        elif isinstance(event, SubAgentEvent) and isinstance(event.inner, ToolStarted):
            print(f"  {event.inner.agent} calls {event.inner.call.name}({event.inner.call.arguments['expression']})")
        elif isinstance(event, RunEnded):
            print(f"{event.result.text} ({event.result.calls} calls of models in all)")


if __name__ == "__main__":
    asyncio.run(main())
