"""Session files of the Codex CLI ("rollouts").

Sources: session files of CLI 0.148 and 0.149 as noted on 2026-09-20, and the legacy form before. That newer builds
compress them (``.jsonl.zst``) is in ``codex-rs/rollout/src``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tellback.agent.assistant.clients.transcript import Transcript, TranscriptEntry
from tellback.agent.assistant.clients.transcript_lines import (
    JsonLines,
    block_texts,
    first_object,
    parsed_time,
    with_last_answers,
)
from tellback.agent.assistant.clients.typed_text import untagged_text
from tellback.agent.json_values import object_field


def read_transcript(path: Path, start: int = 0) -> Transcript | None:
    """Return the conversation of the file *path*; None for that of a sub-agent.

    A typed prompt is an event of its own; messages of the role "user" also hold texts that the client added. A
    compressed file raises ``MissingExtra`` where the extra ``codex`` is not installed.
    """
    head = object_field(first_object(path), "payload")
    if head.get("thread_source") == "subagent" or head.get("parent_thread_id"):
        return None
    session, folder = str(head.get("id") or path.name.partition(".")[0][-36:]), str(head.get("cwd") or "")
    entries: list[TranscriptEntry] = []
    skipped: Counter[str] = Counter()
    typed: set[str] = set()
    injected: list[str] = []
    lines = JsonLines(path, start)
    for line in lines:
        payload, moment = object_field(line, "payload"), parsed_time(line.get("timestamp"))
        if (text := _prompt(line, payload)) is not None:
            typed.add(text)
            if words := untagged_text(text):
                entries.append(TranscriptEntry("user", words, session, moment))
            else:
                skipped["command or wrapper"] += 1
        elif line.get("type") == "response_item" and payload.get("type") == "message":
            texts = block_texts(payload.get("content"))
            if payload.get("role") == "assistant" and texts:
                entries.append(TranscriptEntry("assistant", "\n".join(texts), session, moment))
            elif payload.get("role") in ("user", "developer"):
                injected.append("\n".join(texts))
        elif line.get("type") == "response_item" and str(payload.get("type")).endswith("_output"):
            skipped["tool result"] += 1
        elif line.get("type") == "compacted":
            skipped["compaction summary"] += 1
    skipped["client's own words"] += sum(text not in typed for text in injected)
    return Transcript(folder, with_last_answers(entries), +skipped, end=lines.end)


def _prompt(line: Mapping[str, Any], payload: Mapping[str, Any]) -> str | None:
    """Return the text of the prompt that *line* records, in the legacy or the paginated form; None for other lines."""
    if line.get("type") != "event_msg":
        return None
    if payload.get("type") == "user_message":
        return str(payload.get("message") or "")
    item = object_field(payload, "item")
    if payload.get("type") == "item_completed" and item.get("type") == "UserMessage":
        return "\n".join(block_texts(item.get("content")))
    return None
