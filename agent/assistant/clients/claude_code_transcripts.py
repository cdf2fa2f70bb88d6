"""Transcripts of Claude Code.

Sources: ``sdk.d.ts`` and the test of what a person typed (``sdk.mjs``) in `@anthropic-ai/claude-agent-sdk` 0.3.330. The
line format is internal to the client and changes: lines of unknown types are passed over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from tellback.agent.assistant.clients.transcript import Transcript, TranscriptEntry
from tellback.agent.assistant.clients.transcript_lines import JsonLines, block_texts, parsed_time, with_last_answers
from tellback.agent.assistant.clients.typed_text import untagged_text
from tellback.agent.json_values import object_field

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


def read_transcript(path: Path, start: int = 0) -> Transcript | None:
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
    return object_field(line, "message").get("content")


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
