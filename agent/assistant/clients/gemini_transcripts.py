"""Recorded chats of Gemini CLI.

Sources: google-gemini/gemini-cli at 5411f11 (2026-08-21): ``services/chatRecordingTypes.ts``,
``services/chatRecordingService.ts``, ``utils/sessionUtils.ts``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tellback.agent.assistant.clients.transcript import Transcript, TranscriptEntry
from tellback.agent.assistant.clients.transcript_lines import (
    JsonLines,
    block_texts,
    first_object,
    parsed_time,
    with_last_answers,
)
from tellback.agent.assistant.clients.typed_text import untagged_text
from tellback.agent.json_values import object_list, parsed_object

_MAX_FILE_BYTES: Final = 200_000_000


def read_transcript(path: Path, start: int = 0) -> Transcript | None:
    """Return the chat of the file *path*, its rewinds applied; None for that of a sub-agent.

    The older form, one JSON object, is always read whole.
    """
    head, messages, end = _records(path, start)
    if head.get("kind") == "subagent":
        return None
    session = str(head.get("sessionId") or path.stem)
    entries: list[TranscriptEntry] = []
    skipped: Counter[str] = Counter()
    for message in messages:
        text = "\n".join(block_texts(message.get("content")))
        moment, id = parsed_time(message.get("timestamp")), str(message.get("id") or "")
        if message.get("type") == "gemini" and text.strip():
            entries.append(TranscriptEntry("assistant", text, session, moment, id))
        elif message.get("type") == "user":
            if words := untagged_text(text):
                entries.append(TranscriptEntry("user", words, session, moment, id))
            else:
                skipped["command or wrapper"] += 1
    project = str(head.get("projectHash") or path.parent.parent.name)
    root = path.parent.parent / ".project_root"
    folder = root.read_text("utf-8", "replace").strip() if root.is_file() else ""
    return Transcript(folder, with_last_answers(entries), skipped, f"gemini-cli:{project}", end)


def _records(path: Path, start: int) -> tuple[Mapping[str, Any], Sequence[Mapping[str, Any]], int]:
    """Return the description, the messages from *start* on, and the end of a chat: one JSON object, or a line a record.

    The end is 0 for one JSON object.
    """
    if path.suffix == ".json":
        whole = parsed_object(path.read_bytes() if path.stat().st_size < _MAX_FILE_BYTES else "") or {}
        return whole, object_list(whole, "messages"), 0
    messages: dict[str, Mapping[str, Any]] = {}
    head = dict(first_object(path)) if start else {}
    lines = JsonLines(path, start)
    for record in lines:
        if "$rewindTo" in record:
            ids = list(messages)
            if record["$rewindTo"] in messages:
                for id in ids[ids.index(str(record["$rewindTo"])) :]:
                    del messages[id]
        elif isinstance(change := record.get("$set"), dict):
            if "messages" in change:
                messages = {str(message.get("id")): message for message in object_list(change, "messages")}
            head = {**head, **change}
        elif "type" in record and "id" in record:
            messages[str(record["id"])] = record
        elif "sessionId" in record:
            head = {**head, **record}
    return head, [*messages.values()], lines.end
