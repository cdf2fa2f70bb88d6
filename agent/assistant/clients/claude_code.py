"""Claude Code: payloads and replies of its hooks, and its transcripts.

Sources: the types of `@anthropic-ai/claude-agent-sdk` 0.3.330 (``sdk.d.ts``), which also has the test of what a person
typed (``sdk.mjs``); payloads recorded with Claude Code 2.1.287; its changelog up to 2.1.240. The line format of
transcripts is internal to the client and changes: lines of unknown types are passed over.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from agent.assistant.clients.client import ClientEvent, HookClient, HookMoment, Transcript, TranscriptEntry
from agent.assistant.clients.hook_payload import context_output, event_of_payload
from agent.assistant.clients.json_edit import parse_json
from agent.assistant.clients.registration import HookFile, ServerFile, matched_hooks
from agent.assistant.clients.skill import SKILL
from agent.assistant.clients.transcript_lines import (
    JsonLines,
    block_texts,
    oldest_first,
    parsed_time,
    with_last_answers,
)
from agent.assistant.clients.typed_text import untagged_text

_TYPED_SOURCES: Final = (None, "user", "sdk")
_FRESH_STARTS: Final = ("startup", "clear", "compact")
"""Starts after which the model has not read the briefing; a resumed or forked session still has it."""
_TIMEOUTS: Final = {"SessionStart": 10, "UserPromptSubmit": 10, "Stop": 20, "PreCompact": 20}
"""Seconds after which the client goes on without the hook."""

_UNTYPED_FLAGS: Final = {
    "isCompactSummary": "compaction summary",
    "isSidechain": "sub-agent",
    "isMeta": "client's own words",
    "isVisibleInTranscriptOnly": "client's own words",
    "isVirtual": "client's own words",
    "textNotTyped": "client's own words",
    "handedOff": "client's own words",
    "queueSkipAttachments": "client's own words",
}
"""Flags of a line in the user's role that nobody typed, each with the kind of that line."""
_UNTYPED_FIELDS: Final = ("persist", "wakeupSource", "scheduledTaskId")
_TYPED_TURNS: Final = (None, "human", "sdk", "unknown")


class ClaudeCode(HookClient):
    """Claude Code; ``CLAUDE_CONFIG_DIR`` moves its folder."""

    name = "claude-code"
    title = "Claude Code"
    documented = "hooks of Claude Code 2.1.240 to 2.1.287 (Agent SDK 0.3.330), MCP servers of user scope"
    hook_events: Mapping[str, HookMoment] = MappingProxyType(
        {
            "SessionStart": HookMoment.SESSION_START,
            "UserPromptSubmit": HookMoment.PROMPT,
            "Stop": HookMoment.TURN_END,
            "PreCompact": HookMoment.COMPACTION,
        }
    )

    @property
    def folder(self) -> Path:
        """Folder of its settings and transcripts."""
        named = os.environ.get("CLAUDE_CONFIG_DIR")
        return Path(named).expanduser() if named else Path.home() / ".claude"

    @property
    def server_file(self) -> ServerFile:
        """Servers of the user's scope: ``.claude.json``, beside its folder or, where that was moved, in it."""
        folder = self.folder if os.environ.get("CLAUDE_CONFIG_DIR") else Path.home()
        return ServerFile(folder / ".claude.json", fields={"type": "stdio"})

    @property
    def hook_file(self) -> HookFile:
        """Hooks of the user's settings; time-outs are in seconds."""
        return HookFile(self.folder / "settings.json", _hook_entries)

    @property
    def skills(self) -> Mapping[Path, str]:
        """Skill of the user's folder."""
        return {self.folder / "skills" / "tellback" / "SKILL.md": SKILL}

    def hooks_are_off(self) -> str:
        """Return the setting that turns all hooks off, if it is there."""
        path = self.folder / "settings.json"
        settings = parse_json(path.read_text(encoding="utf-8")) if path.is_file() else {}
        is_off = isinstance(settings, dict) and settings.get("disableAllHooks") is True
        return f"disableAllHooks is set in {path}" if is_off else ""

    def read_hook(self, event: str, payload: Mapping[str, Any], folder: str) -> ClientEvent | None:
        """Return the event that *payload* reports; None in a sub-agent, and for a prompt that nobody typed."""
        moment = self.hook_events.get(event)
        if moment is HookMoment.PROMPT and payload.get("source") not in _TYPED_SOURCES:
            return None
        names = {"turn": "prompt_id", "answer": "last_assistant_message"}
        return event_of_payload(moment, payload, folder, **names, fresh_starts=_FRESH_STARTS)

    def hook_output(self, event: str, context: str) -> str:
        """Return the reply that adds *context*; on other events a reply has no place for it."""
        return context_output(event, self.hook_events.get(event), context)

    def transcripts(self, folder: Path | None = None) -> Iterator[Path]:
        """Yield the files of conversations, oldest first, without those of sub-agents."""
        files = (self.folder / "projects").glob("*/*.jsonl") if folder is None else folder.rglob("*.jsonl")
        yield from oldest_first(path for path in files if "subagents" not in path.parts)

    def read_transcript(self, path: Path, *, start: int = 0) -> Transcript | None:
        """Return the conversation of the file *path*, along its newest branch."""
        parents: dict[str, str] = {}
        records: list[tuple[str, str, TranscriptEntry]] = []
        skipped: Counter[str] = Counter()
        folder = ""
        lines = JsonLines(path, start)
        for line in lines:
            uuid = str(line.get("uuid") or "")
            if uuid:
                parents[uuid] = str(line.get("parentUuid") or "")
            folder = folder or str(line.get("cwd") or "")
            reason = untyped_reason(line) if line.get("type") in ("user", "attachment") else ""
            texts = _texts(line)
            if reason or not texts:
                skipped.update([reason] if reason else ())
                continue
            role: Literal["user", "assistant"] = "assistant" if line["type"] == "assistant" else "user"
            session = str(line.get("sessionId") or path.stem)
            text = "\n".join(texts)
            answer = str(line.get("requestId") or uuid) if role == "assistant" else ""
            if answer and records and records[-1][1] == answer:  # an answer of several lines
                text = f"{records.pop()[2].text}\n{text}"
            entry = TranscriptEntry(role, text, session, parsed_time(line.get("timestamp")), uuid)
            records.append((uuid, answer, entry))
        branch = _newest_branches(parents)
        entries = [entry for uuid, _, entry in records if not uuid or uuid in branch]
        return Transcript(folder, with_last_answers(entries), skipped, end=lines.end)


def _hook_entries(command: Callable[[str], str]) -> dict[str, dict[str, Any]]:
    return matched_hooks(command, _TIMEOUTS, matchers={"SessionStart": "|".join(_FRESH_STARTS)})


def untyped_reason(line: Mapping[str, Any]) -> str:
    """Return the kind of a transcript's *line* in the user's role that nobody typed; "" for what a person typed."""
    attachment = line.get("attachment")
    if isinstance(attachment, dict):
        if attachment.get("type") != "queued_command" or attachment.get("commandMode") != "prompt":
            return "attachment"
        line = {**line, **attachment, "message": {"content": attachment.get("prompt")}}
    for flag, kind in _UNTYPED_FLAGS.items():
        if line.get(flag):
            return kind
    if any(line.get(name) is not None for name in _UNTYPED_FIELDS):
        return "scheduled"
    if line.get("toolUseResult") is not None or "tool_result" in _block_types(line):
        return "tool result"
    origin = line.get("origin")
    if origin is not None and not (isinstance(origin, dict) and origin.get("kind") == "human"):
        return "another program"
    if line.get("turnOrigin") not in _TYPED_TURNS:
        return "another program"
    texts = block_texts(_content(line))
    if texts and not any(map(untagged_text, texts)):
        return "command or wrapper"
    return ""


def _texts(line: Mapping[str, Any]) -> list[str]:
    """Return the texts of a *line*: the typed ones of the user, or the text blocks of an answer."""
    if line.get("isSidechain") or line.get("type") not in ("user", "assistant", "attachment"):
        return []
    texts = block_texts(_content(line))
    return list(filter(None, (text.strip() if line["type"] == "assistant" else untagged_text(text) for text in texts)))


def _content(line: Mapping[str, Any]) -> object:
    attachment = line.get("attachment")
    if isinstance(attachment, dict):
        return attachment.get("prompt")
    message = line.get("message")
    return message.get("content") if isinstance(message, dict) else None


def _block_types(line: Mapping[str, Any]) -> set[object]:
    content = _content(line)
    return {block.get("type") for block in content if isinstance(block, dict)} if isinstance(content, list) else set()


def _newest_branches(parents: Mapping[str, str]) -> set[str]:
    """Return the ids of the lines on the newest branch of each tree: an edit or a rewind leaves an older branch behind.

    *parents* maps each line to its parent, in the order of the file. A compaction begins a new tree.
    """
    root_of: dict[str, str] = {}
    newest: dict[str, str] = {}
    for uuid, parent in parents.items():  # a parent is written before its children
        root_of[uuid] = root_of.get(parent, uuid)
        newest[root_of[uuid]] = uuid
    branch: set[str] = set()
    for leaf in newest.values():
        uuid = leaf
        while uuid in parents and uuid not in branch:
            branch.add(uuid)
            uuid = parents[uuid]
    return branch
