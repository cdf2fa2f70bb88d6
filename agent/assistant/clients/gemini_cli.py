"""Gemini CLI: payloads and replies of its hooks, and its recorded chats.

Sources: google-gemini/gemini-cli at 5411f11 (2026-08-21): ``docs/hooks/reference.md``, ``docs/tools/mcp-server.md``,
``services/chatRecordingTypes.ts``, ``services/chatRecordingService.ts``, ``utils/sessionUtils.ts``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from agent.assistant.clients.client import ClientEvent, HookClient, HookMoment, Transcript, TranscriptEntry
from agent.assistant.clients.hook_payload import context_output, event_of_payload
from agent.assistant.clients.registration import HookFile, ServerFile, matched_hooks
from agent.assistant.clients.transcript_lines import (
    JsonLines,
    block_texts,
    first_object,
    oldest_first,
    parsed_time,
    with_last_answers,
)
from agent.assistant.clients.typed_text import untagged_text

_FRESH_STARTS: Final = ("startup", "clear")
_TIMEOUTS: Final = {"SessionStart": 10_000, "BeforeAgent": 10_000, "AfterAgent": 20_000, "PreCompress": 20_000}
"""Milliseconds after which the client goes on without the hook."""
_MAX_FILE_BYTES: Final = 200_000_000


class GeminiCli(HookClient):
    """Gemini CLI."""

    name = "gemini-cli"
    title = "Gemini CLI"
    documented = "google-gemini/gemini-cli at 5411f11 (2026-08-21)"
    hook_events: Mapping[str, HookMoment] = MappingProxyType(
        {
            "SessionStart": HookMoment.SESSION_START,
            "BeforeAgent": HookMoment.PROMPT,
            "AfterAgent": HookMoment.TURN_END,
            "PreCompress": HookMoment.COMPACTION,
        }
    )

    @property
    def folder(self) -> Path:
        """Folder of its settings and chats."""
        return Path.home() / ".gemini"

    @property
    def server_file(self) -> ServerFile:
        """Servers of the user's settings."""
        return ServerFile(self.folder / "settings.json")

    @property
    def hook_file(self) -> HookFile:
        """Hooks of the user's settings; time-outs are in milliseconds."""
        return HookFile(self.folder / "settings.json", _hook_entries)

    def read_hook(self, event: str, payload: Mapping[str, Any], folder: str) -> ClientEvent | None:
        """Return the event that *payload* reports."""
        names = {"turn": "", "answer": "prompt_response"}
        return event_of_payload(self.hook_events.get(event), payload, folder, **names, fresh_starts=_FRESH_STARTS)

    def hook_output(self, event: str, context: str) -> str:
        """Return the reply that adds *context*: the client expects exactly one JSON object from every hook."""
        return context_output(event, self.hook_events.get(event), context, otherwise="{}")

    def transcripts(self, folder: Path | None = None) -> Iterator[Path]:
        """Yield the files of chats, oldest first; those of sub-agents lie in folders below."""
        files = (self.folder / "tmp").glob("*/chats/session-*") if folder is None else folder.rglob("session-*")
        yield from oldest_first(path for path in files if path.suffix in (".json", ".jsonl"))

    def read_transcript(self, path: Path, *, start: int = 0) -> Transcript | None:
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
        return Transcript("", with_last_answers(entries), skipped, f"{self.name}:{project}", end)


def _hook_entries(command: Callable[[str], str]) -> dict[str, dict[str, Any]]:
    return matched_hooks(command, _TIMEOUTS, name="tellback")


def _records(path: Path, start: int) -> tuple[Mapping[str, Any], list[Mapping[str, Any]], int]:
    """Return the description, the messages from *start* on, and the end of a chat: one JSON object, or a line a record.

    The end is 0 for one JSON object.
    """
    if path.suffix == ".json":
        try:
            whole = json.loads(path.read_bytes()) if path.stat().st_size < _MAX_FILE_BYTES else {}
        except (ValueError, RecursionError):
            whole = {}
        head = whole if isinstance(whole, dict) else {}
        return head, _objects(head.get("messages")), 0
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
                messages = {str(message.get("id")): message for message in _objects(change["messages"])}
            head = {**head, **change}
        elif "type" in record and "id" in record:
            messages[str(record["id"])] = record
        elif "sessionId" in record:
            head = {**head, **record}
    return head, [*messages.values()], lines.end


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
