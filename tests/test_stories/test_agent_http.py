"""A story: an agent recalls, asks for approval, calls a tool and streams its answer over real HTTP; then it is killed.

The server speaks OpenAI's or Anthropic's format on loopback; the agent runs in a process of its own. What it stored
before it was killed is found again by the next one.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tellback.agent import Agent, QuotingProvider
from tellback.agent.testing import AnthropicServer, OpenAIServer, Reply, ScriptedServer, call
from tellback.memory import Memory, open_memory

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-test-key-0123456789"

RUNNER = """
import asyncio, sys
from tellback.agent import Agent, AnthropicProvider, OpenAICompatibleProvider, tool
from tellback.agent import ApprovalRequested, MemoryRecalled, MemoryStored, TextDelta, ToolEnded
from tellback.memory import open_memory


@tool(needs_approval=True)
def tide(harbour: str) -> str:
    \"\"\"Tell when the tide is high.

    Args:
        harbour: Name of the harbour.
    \"\"\"
    return f"high tide at {harbour}: 14:20"


async def main(kind, url, path):
    key = "sk-test-key-0123456789"
    if kind == "anthropic":
        provider = AnthropicProvider("scripted", api_key=key, base_url=url)
    else:
        provider = OpenAICompatibleProvider(url, "scripted", api_key=key)
    agent = Agent(provider, tools=[tide], memory=open_memory(path))
    async for event in agent.stream("When can we sail from Peniche?", session="voyage"):
        if isinstance(event, MemoryRecalled):
            print("recalled", *(item.text for item in event.items), flush=True)
        elif isinstance(event, TextDelta):
            print("text", event.text, flush=True)
        elif isinstance(event, ApprovalRequested):
            print("asked", event.request.call.arguments["harbour"], flush=True)
            event.request.approve()
        elif isinstance(event, ToolEnded):
            print("tool", event.run.result.text, flush=True)
        elif isinstance(event, MemoryStored):
            print("stored", len(event.reports), flush=True)
            await asyncio.sleep(600)  # killed here: nothing gets to close the file


asyncio.run(main(*sys.argv[1:]))
"""
REPLIES = (
    Reply("Let me look. ", thinking="a tide", signature="sig", calls=(call("tide", harbour="Peniche"),)),
    Reply("The tide at Peniche is high at 14:20, sail then.", expect="14:20"),
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_whole_turn_survives_the_killing_of_its_process(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    asyncio.run(remembered(path))
    server_type = AnthropicServer if kind == "anthropic" else OpenAIServer
    with server_type(*REPLIES) as server:
        lines = run_until_stored(kind, server.url, path)
        check_lines(lines)
        check_requests(kind, server)
    asyncio.run(found_again(path))


async def remembered(path: Path) -> None:
    async with open_memory(path) as memory:
        await memory.remember(Memory(text="We sail from Peniche only at high tide.", session="earlier"))


def check_lines(lines: list[str]) -> None:
    assert lines[0] == "recalled We sail from Peniche only at high tide."
    assert lines.index("asked Peniche") < lines.index("tool high tide at Peniche: 14:20")
    assert "".join(line[5:] for line in lines if line.startswith("text ")) == (
        "Let me look. The tide at Peniche is high at 14:20, sail then."
    )


def check_requests(kind: str, server: ScriptedServer) -> None:
    first, second = (seen.body for seen in server.requests)
    assert first["stream"] is True
    assert "only at high tide" in str(first["messages"][-1]["content"])
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    if kind == "openai":
        assert first["tools"][0]["function"]["parameters"]["properties"]["harbour"]["type"] == "string"
        assert [message["role"] for message in second["messages"]][-3:] == ["user", "assistant", "tool"]
        assert second["messages"][-1]["content"] == "high tide at Peniche: 14:20"
    else:
        assert first["tools"][0]["input_schema"]["properties"]["harbour"]["type"] == "string"
        assert [message["role"] for message in second["messages"]] == ["user", "assistant", "user"]
        content = second["messages"][1]["content"]
        assert content[0] == {"type": "thinking", "thinking": "a tide", "signature": "sig"}
        (result,) = second["messages"][2]["content"]
        assert result["content"] == [{"type": "text", "text": "high tide at Peniche: 14:20"}]


def run_until_stored(kind: str, url: str, path: Path) -> list[str]:
    """Run the agent in a process of its own, kill it as soon as its turn is stored, and return what it said."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", RUNNER, kind, url, str(path)],
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
    memory = open_memory(path)
    stored = await memory.conversations.load("voyage")
    assert [citation.message.role for citation in stored] == ["user", "assistant", "tool", "assistant"]
    assert stored[1].message.tool_calls[0].arguments == {"harbour": "Peniche"}
    assert stored[2].message.tool_results[0].text == "high tide at Peniche: 14:20"
    async with Agent(QuotingProvider(), memory=memory) as agent:
        result = await agent.run("At what time is the tide at Peniche high?", store=False)
    assert any("14:20" in citation.quote for citation in result.citations)
    await memory.close()
