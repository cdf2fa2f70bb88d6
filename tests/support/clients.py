"""Payloads and transcripts of clients, invented in their documented shapes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.hooks.hook_call import HookCall, HookReply
from tellback.agent.assistant.hooks.service import serve_hook
from tellback.memory import LongTermMemory

START = datetime(2026, 11, 1, 10, 0, tzinfo=UTC)


class CodingSession:
    """Session *name* of Claude Code in *folder*: calls hooks, and writes the lines of its transcript.

    Without a *memory* there is the transcript alone.
    """

    def __init__(self, memory: LongTermMemory | None, folder: Path, name: str = "s1", **settings: Any) -> None:
        self.memory, self.folder, self.name, self.settings = memory, folder, name, AssistantSettings(**settings)
        self.transcript = Path.home() / ".claude" / "projects" / "-w" / f"{name}.jsonl"
        self.now = START
        self._lines = 0
        self._last = ""

    async def hook(self, event: str, client: str = "claude-code", **fields: Any) -> str:
        """Call a hook with the fields of *event*; return what it writes."""
        self.now += timedelta(minutes=5)
        common = {"session_id": self.name, "transcript_path": str(self.transcript), "cwd": str(self.folder)}
        payload = {**common, "hook_event_name": event, **fields}
        replies: list[HookReply] = []
        assert self.memory is not None
        call = HookCall(client, event, payload, str(self.folder), self.now)
        await serve_hook(call, replies.append, memory=self.memory, settings=self.settings)
        (reply,) = replies
        return reply.stdout

    async def prompt(self, text: str, **fields: Any) -> str:
        """Send a prompt; return the context that the model gets with it."""
        return added_context(await self.hook("UserPromptSubmit", prompt=text, **fields))

    async def stop(self, answer: str) -> None:
        """End a turn with *answer*."""
        assert await self.hook("Stop", stop_hook_active=False, last_assistant_message=answer) == ""

    def write(self, line: Mapping[str, Any]) -> None:
        """Add a line to the transcript, behind the last one."""
        self._lines += 1
        self.now += timedelta(seconds=1)
        chain = {"uuid": f"{self.name}-{self._lines}", "parentUuid": self._last or None}
        moment = self.now.strftime("%Y-%m-%dT%H:%M:%S.000Z")
        envelope = {**chain, "sessionId": self.name, "timestamp": moment, "cwd": str(self.folder), "isSidechain": False}
        line = {**envelope, **line}
        self._last = str(line["uuid"])
        self.transcript.parent.mkdir(parents=True, exist_ok=True)
        with self.transcript.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def write_user(self, content: Any, **fields: Any) -> None:
        """Add a line in the user's role."""
        self.write({"type": "user", "message": {"role": "user", "content": content}, **fields})

    def write_answer(self, text: str, request: str = "") -> None:
        """Add a line of an answer."""
        message = {"role": "assistant", "content": [{"type": "text", "text": text}]}
        self.write({"type": "assistant", "requestId": request or f"r{self._lines}", "message": message})


def added_context(output: str) -> str:
    """Return the context that *output*, of a hook of Claude Code's format, adds; "" for none."""
    return str(json.loads(output)["hookSpecificOutput"]["additionalContext"]) if output else ""


async def users_words(memory: LongTermMemory) -> list[str]:
    """Return the texts of all memories with a user's trust."""
    return [item.text for item in await memory.list(trust=["user"])]
