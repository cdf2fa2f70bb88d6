"""A tool that needs approval, requested in the stream of events; the model gets a refusal as a result and goes on.

The model is scripted here, so that this runs anywhere. A real one is one line:
``OpenAICompatibleProvider(url, model)``, ``AnthropicProvider(model, api_key=…)`` or ``OllamaProvider(model)``.

    python examples/agent_with_approval.py
"""

from __future__ import annotations

import asyncio

from tellback.agent import Agent, ApprovalRequested, RunEnded, TextDelta, ToolEnded, tool
from tellback.agent.testing import Reply, ScriptedProvider, call


@tool(needs_approval=True)
def send_money(to: str, amount: int) -> str:
    """Send money to somebody."""
    return f"{amount} sent to {to}"


SCRIPT = (
    Reply("I'll pay both. ", calls=(call("send_money", to="Ana", amount=20), call("send_money", to="Eve", amount=900))),
    Reply("Ana is paid; Eve is not, as you wished."),
)


async def main() -> None:
    agent = Agent(ScriptedProvider(*SCRIPT), tools=[send_money])
    async for event in agent.stream("Pay Ana 20 and Eve 900."):
        if isinstance(event, ApprovalRequested):
            arguments = event.request.call.arguments
            print(f"\napprove {arguments}?", "yes" if arguments["amount"] < 100 else "no")
            if arguments["amount"] < 100:
                event.request.approve()
            else:
                event.request.reject("too much")
        elif isinstance(event, ToolEnded):
            print("tool:", event.run.result.text)
        elif isinstance(event, TextDelta):
            print(event.text, end="")
        elif isinstance(event, RunEnded):
            print(f"\n{event.result.ending}, {event.result.usage.total} tokens")


if __name__ == "__main__":
    asyncio.run(main())
