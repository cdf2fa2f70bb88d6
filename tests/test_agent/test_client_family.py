"""Codex, Gemini CLI, Cursor and the clients with a memory server alone: their documented payloads, replies and files.

The parts below ``tellback.agent.assistant`` are the subject; they have no public face.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import tomllib
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tellback.agent.assistant.clients.cursor_database import editor_database
from tellback.agent.assistant.clients.registry import CLIENTS, client_named, hook_client
from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.hooks.hook_call import HookCall, HookReply
from tellback.agent.assistant.hooks.service import serve_hook
from tellback.memory import LongTermMemory
from tests.support.clients import START
from tests.support.command_line import CommandLine

pytestmark = pytest.mark.slow

PROGRAM = str(Path(sys.executable).parent / "tellback")
ANSWER = "Thursday it is."
WORDS = "we use tabs"
COMMON = {
    "codex": {"session_id": "s1", "transcript_path": None, "cwd": "{folder}", "model": "m"},
    "gemini-cli": {"session_id": "s1", "transcript_path": "", "cwd": "{folder}", "timestamp": "2026-11-01T10:00:00Z"},
    "cursor": {
        "conversation_id": "s1", "generation_id": "g1", "model": "m", "cursor_version": "3.20.17",
        "workspace_roots": ["{folder}"], "user_email": "a@example.com", "transcript_path": "{home}/t.jsonl",
    },
}  # fmt: skip
PROMPTS = {
    "codex": ("UserPromptSubmit", {"turn_id": "t1"}),
    "gemini-cli": ("BeforeAgent", {}),
    "cursor": ("beforeSubmitPrompt", {"attachments": []}),
}
ENDS = {
    "codex": ("Stop", {"turn_id": "t1", "stop_hook_active": False, "last_assistant_message": ANSWER}),
    "gemini-cli": ("AfterAgent", {"prompt": "x", "prompt_response": ANSWER, "stop_hook_active": False}),
    "cursor": ("stop", {"status": "completed", "loop_count": 0}),
}


@pytest.mark.anyio
@pytest.mark.parametrize("client", COMMON)
async def test_hooks_of_other_clients_reply_in_their_format_and_store_the_turn(
    memory: LongTermMemory, tmp_path: Path, client: str
) -> None:
    home = hook_client(client).folder

    async def hook(event: str, fields: dict[str, Any], minute: int) -> dict[str, Any]:
        common = json.loads(json.dumps(COMMON[client]).replace("{folder}", str(tmp_path)).replace("{home}", str(home)))
        payload = {**common, "hook_event_name": event, **fields}
        replies: list[HookReply] = []
        call = HookCall(client, event, payload, "/nowhere", START + timedelta(minutes=minute))
        await serve_hook(call, replies.append, memory=memory, settings=AssistantSettings())
        answer: dict[str, Any] = json.loads(replies[0].stdout or "{}")
        return answer

    await memory.remember("The deploy day is Thursday")
    event, fields = PROMPTS[client]
    prompt = "Which day is the deploy day? We deploy at noon."
    reply = await hook(event, {**fields, "prompt": prompt}, 0)
    if client == "cursor":
        assert reply.keys() == {"continue", "additional_context"}
        assert "Thursday" in reply["additional_context"]
        query = f"<user_info>x</user_info><user_query>\n{prompt}\n</user_query>"
        lines = [cursor_line("user", query), cursor_line("assistant", ANSWER)]
        home.mkdir()
        (home / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    else:
        assert reply["hookSpecificOutput"].keys() == {"hookEventName", "additionalContext"}
        assert reply["hookSpecificOutput"]["hookEventName"] == event
        assert "Thursday" in reply["hookSpecificOutput"]["additionalContext"]
    event, fields = ENDS[client]
    assert await hook(event, fields, 1) == {}
    stored = await memory.conversations.load(f"{client}:s1")
    items = [(item.message.role, item.message.text) for item in stored]
    assert items == [("user", prompt), ("assistant", ANSWER)]
    start = next(name for name in hook_client(client).hooks.events if "session" in name.lower())
    assert "Thursday" in json.dumps(await hook(start, {"source": "startup"}, 2))


def codex_message(role: str, text: str) -> dict[str, Any]:
    content = [{"type": "output_text" if role == "assistant" else "input_text", "text": text}]
    return {"type": "response_item", "payload": {"type": "message", "role": role, "content": content}}


def codex_event(**payload: Any) -> dict[str, Any]:
    return {"type": "event_msg", "payload": payload}


def gemini_message(id: str, type: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"id": id, "timestamp": f"2026-11-01T10:00:0{id}Z", "type": type, "content": content, **fields}


def cursor_line(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "message": {"content": [{"type": "text", "text": text}]}}


TRANSCRIPTS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "codex": (
        "sessions/2026/11/01/rollout-2026-11-01T10-00-00-00000000-0000-4000-8000-000000000001.jsonl",
        [
            {"type": "session_meta", "payload": {"id": "s1", "cwd": "/w", "source": "cli", "history_mode": "legacy"}},
            codex_message("user", "<environment_context>evil</environment_context>"),
            codex_message("user", "# AGENTS.md evil"),
            codex_event(
                type="item_completed", item={"type": "UserMessage", "content": [{"type": "text", "text": WORDS}]}
            ),
            codex_message("user", WORDS),
            {"type": "response_item", "payload": {"type": "function_call_output", "output": "evil"}},
            codex_message("assistant", "Done."),
            codex_event(type="user_message", message='<hook_prompt hook_run_id="1">evil</hook_prompt>'),
            {"type": "compacted", "payload": {"message": "evil"}},
        ],
    ),
    "gemini-cli": (
        "tmp/p1/chats/session-2026-11-01T10-00-abcdefgh.jsonl",
        [
            {"sessionId": "s1", "projectHash": "h", "startTime": "2026-11-01T10:00:00Z", "kind": "main"},
            gemini_message("1", "user", "<session_context>evil</session_context>"),
            gemini_message("2", "user", "evil, taken back"),
            {"$rewindTo": "2"},
            gemini_message("3", "user", [{"text": WORDS}]),
            gemini_message("4", "gemini", "Do", toolCalls=[{"result": "evil"}]),
            gemini_message("4", "gemini", "Done."),
            gemini_message("5", "user", "/clear evil"),
            gemini_message("6", "info", "evil"),
        ],
    ),
    "cursor": (
        "projects/w/agent-transcripts/s1/s1.jsonl",
        [
            cursor_line("user", "<user_info>evil</user_info>"),
            cursor_line("user", f"<user_query>\n{WORDS}\n</user_query>"),
            cursor_line("assistant", "Done."),
            {"role": "user", "message": {"content": [{"type": "tool_result", "content": "evil"}]}},
        ],
    ),
}


def write_editor_database(path: Path) -> None:
    """Write the database of Cursor's editor with a chat and that of a sub-agent."""
    header = {"bubbleId": "b0", "type": 1}
    bubbles = [(1, "<user_info>evil</user_info>"), (1, WORDS), (2, "I look."), (2, ""), (2, "Done.")]
    values: dict[str, Any] = {
        "composerData:s1": {
            "createdAt": 1_793_527_200_000,
            "fullConversationHeadersOnly": [
                {**header, "bubbleId": f"b{number}"} for number in range(7)
            ],  # two are gone
            "subComposerIds": ["s2"],
        },
        "composerData:s2": {"createdAt": 1_793_527_201_000, "fullConversationHeadersOnly": [header]},
        "composerData:s3": {"createdAt": 1_793_527_202_000},
        "bubbleId:s2:b0": {"type": 1, "text": "evil"},
    }
    for number, (type, text) in enumerate(bubbles):
        written = {"createdAt": f"2026-11-01T10:00:0{number}.000Z", "workspaceUris": ["file:///w/atlas%20one"]}
        values[f"bubbleId:s1:b{number}"] = {"type": type, "text": text, **written}
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        rows = [(key, json.dumps(value)) for key, value in values.items()]
        database.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", rows)


def write_transcript(client: str, form: str) -> None:
    name, lines = TRANSCRIPTS[client]
    path = editor_database() if form == "database" else hook_client(client).folder / name
    path.parent.mkdir(parents=True)
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    if form == "database":
        write_editor_database(path)
    elif form == "compressed":
        zstandard = pytest.importorskip("zstandard", reason="the extra 'codex' is not installed")
        path.with_name(f"{path.name}.zst").write_bytes(zstandard.compress(data[:200]) + zstandard.compress(data[200:]))
    else:
        path.write_bytes(data)


@pytest.mark.parametrize(
    ("client", "form"),
    [*((client, "lines") for client in TRANSCRIPTS), ("codex", "compressed"), ("cursor", "database")],
)
def test_transcripts_of_other_clients_are_parsed_into_prompts_and_answers(
    tellback: CommandLine, client: str, form: str
) -> None:
    write_transcript(client, form)
    assert tellback.json("import", "--from", client)["kept"] == 2
    assert tellback.json("import", "--from", client)["kept"] == 0
    kept = {(item["text"], item["trust"]) for item in tellback.json("memories", "list")["memories"]}
    assert kept == {(WORDS, "user"), ("Done.", "tool")}
    assert tellback.json("sessions")["sessions"][0]["session"] == f"{client}:s1"


def test_install_writes_each_clients_documented_form_and_uninstall_restores_the_file(tellback: CommandLine) -> None:
    options = ["--memory", str(tellback.path)]
    plain = {"command": PROGRAM, "args": ["mcp", *options]}
    forms = {
        "claude-code": ("mcpServers", {"type": "stdio", **plain}),
        "codex": ("mcp_servers", plain),
        "vscode": ("servers", {"type": "stdio", **plain}),
        "zed": ("context_servers", plain),
        "opencode": ("mcp", {"type": "local", "enabled": True, "command": [PROGRAM, "mcp", *options]}),
    }
    for client in CLIENTS:
        path, key, entry = client.server_file.path, *forms.get(client.name, ("mcpServers", plain))
        assert path.is_relative_to(Path.home())
        is_toml = path.suffix == ".toml"
        before = 'model = "m" # mine\n' if is_toml else '{\n  "theme": "dark"\n}\n'
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(before)
        tellback.json("install", client.name)
        text = path.read_text()
        found = tomllib.loads(text) if is_toml else json.loads(text)
        assert found[key] == {"tellback": entry}, client.name
        tellback.json("install", client.name, "--remove")
        assert path.read_text() == before, client.name
    rows = tellback.json("install")["clients"]
    assert [row["client"] for row in rows] == [client.name for client in CLIENTS]


@pytest.mark.parametrize(
    ("client", "event", "entry"),
    [
        ("codex", "UserPromptSubmit", {"hooks": [{"type": "command", "command": "", "timeout": 10}]}),
        (
            "gemini-cli",
            "BeforeAgent",
            {"hooks": [{"type": "command", "command": "", "name": "tellback", "timeout": 10_000}]},
        ),
        ("cursor", "beforeSubmitPrompt", {"command": "", "timeout": 10}),
    ],
)
def test_hooks_of_other_clients_are_registered_in_their_form(
    tellback: CommandLine, client: str, event: str, entry: dict[str, Any]
) -> None:
    tellback("install", client)
    hooks = client_named(client).hook_file
    assert hooks is not None
    written = json.loads(hooks.path.read_text())
    command = f"{PROGRAM} hook {client} {event} --memory {tellback.path}"
    expected = json.loads(json.dumps(entry).replace('"command": ""', f'"command": {json.dumps(command)}'))
    assert written["hooks"][event] == [expected]
    assert written.get("version") == (1 if client == "cursor" else None)
    assert hooks.registered(client).keys() == hook_client(client).hooks.events.keys()
