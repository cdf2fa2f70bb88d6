"""A tool that is down, guarded and watched: retries, a circuit breaker, a middleware of one's own, and hooks.

python examples/agent_guarded.py
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from tellback.agent import Agent, CircuitBreaker, Hooks, Retry, ToolInvocation, ToolPolicy, tool
from tellback.agent.testing import Reply, ScriptedProvider, call

calls: Counter[str] = Counter()


@tool(idempotent=True)
def weather(city: str) -> str:
    """Tell the weather."""
    calls["weather"] += 1
    raise ConnectionError("the weather service is down")


async def shouting(invocation: ToolInvocation, proceed: Callable[[ToolInvocation], Awaitable[Any]]) -> Any:
    """Middleware: it may change a call, answer itself, or change what comes back."""
    output = await proceed(invocation)
    return output.upper() if isinstance(output, str) else output


def ask(city: str) -> Reply:
    return Reply(calls=(call("weather", city=city),))


async def main() -> None:
    hooks = Hooks(
        tool_ended=lambda event: print("told:", event.value.result.text),
        circuit_opened=lambda event: print("the circuit of", event.value, "opened"),
        circuit_rejected=lambda event: print(
            f"not called: its circuit is open for {event.value.retry_after:.0f} s more"
        ),
    )
    policy = ToolPolicy(breaker=CircuitBreaker(2, reset_timeout=60), retry=Retry(2, first=0.01), middleware=[shouting])
    script = (ask("Lisbon"), ask("Porto"), ask("Faro"), Reply("I cannot tell the weather now."))
    agent = Agent(ScriptedProvider(*script), tools=[weather], policy=policy, hooks=[hooks])
    print((await agent.run("What is the weather in three cities?")).text)
    print("the service was called", calls["weather"], "times")


if __name__ == "__main__":
    asyncio.run(main())
