"""A story: an agent with a tool talks to a model over real HTTP; killed after its turn was stored, the turn is found.

The server speaks OpenAI's streamed Chat Completions on loopback; the agent runs in a process of its own.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent.agent import Agent
from agent.providers.quoting import QuotingProvider
from agent.testing import OpenAIServer, Reply, call
from memory import open_memory

ROOT = Path(__file__).resolve().parents[2]

RUNNER = """
import asyncio, sys
from agent.agent import Agent
from agent.events import MemoryStored, TextDelta, ToolEnded
from agent.providers.openai_compatible import OpenAICompatibleProvider
from agent.tools.function import tool
from memory import open_memory


@tool
def tide(harbour: str) -> str:
    \"\"\"Tell when the tide is high.

    Args:
        harbour: Name of the harbour.
    \"\"\"
    return f"high tide at {harbour}: 14:20"


async def main(url, path):
    provider = OpenAICompatibleProvider(url, "scripted", api_key="sk-test-key-0123456789")
    agent = Agent(provider, tools=[tide], memory=open_memory(path, offline=True))
    async for event in agent.stream("When can we sail from Peniche?", session="voyage"):
        if isinstance(event, TextDelta):
            print("text", event.text, flush=True)
        elif isinstance(event, ToolEnded):
            print("tool", event.run.result.text, flush=True)
        elif isinstance(event, MemoryStored):
            print("stored", len(event.reports), flush=True)
            await asyncio.sleep(600)  # killed here: nothing gets to close the file


asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def server():
    replies = (
        Reply("Let me look. ", calls=(call("tide", harbour="Peniche"),)),
        Reply("The tide at Peniche is high at 14:20, sail then.", expect="14:20"),
    )
    with OpenAIServer(*replies) as running:
        yield running


def test_a_turn_with_a_tool_survives_the_killing_of_its_process(server: OpenAIServer, tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    lines = run_until_stored(server.url, path)
    assert "tool high tide at Peniche: 14:20" in lines
    assert "".join(line[5:] for line in lines if line.startswith("text ")) == (
        "Let me look. The tide at Peniche is high at 14:20, sail then."
    )

    first, second = (seen.body for seen in server.requests)
    assert first["stream"] is True
    assert first["tools"][0]["function"]["parameters"]["properties"]["harbour"]["type"] == "string"
    assert [message["role"] for message in second["messages"]][-3:] == ["user", "assistant", "tool"]
    assert second["messages"][-1]["content"] == "high tide at Peniche: 14:20"
    assert server.requests[0].headers["authorization"] == "Bearer sk-test-key-0123456789"

    asyncio.run(found_again(path))


def run_until_stored(url: str, path: Path) -> list[str]:
    """Run the agent in a process of its own, kill it as soon as its turn is stored, and return what it said."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", RUNNER, url, str(path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines: list[str] = []
    try:
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if line.startswith("stored"):
                break
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert lines, "the agent said nothing"
    assert lines[-1] == "stored 4"
    assert os.name == "nt" or process.returncode == -signal.SIGKILL
    return lines


async def found_again(path: Path) -> None:
    memory = open_memory(path, offline=True)
    stored = await memory.conversations.load("voyage")
    assert [one.message.role for one in stored] == ["user", "assistant", "tool", "assistant"]
    assert stored[1].message.tool_calls[0].arguments == {"harbour": "Peniche"}
    assert stored[2].message.tool_results[0].text == "high tide at Peniche: 14:20"
    async with Agent(QuotingProvider(), memory=memory) as agent:
        result = await agent.run("At what time is the tide at Peniche high?", store=False)
    assert "The tide at Peniche is high at 14:20, sail then." in [one.quote for one in result.citations]
    await memory.close()
