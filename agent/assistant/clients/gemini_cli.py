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
from agent.assistant.clients.registration import HookFile, ServerFile, matched_hook
from agent.assistant.clients.transcript_lines import (
    block_texts,
    json_lines,
    oldest_first,
    parsed_time,
    with_last_answers,
)
from agent.assistant.clients.typed_text import starts_with_tag, typed_text

_CONTEXT_EVENTS: Final = ("BeforeAgent", "SessionStart")
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
        moment = self.hook_events.get(event)
        if moment is None:
            return None
        if moment is HookMoment.SESSION_START and payload.get("source") not in _FRESH_STARTS:
            return None
        return event_of_payload(moment, payload, folder, turn="", answer="prompt_response")

    def hook_output(self, event: str, context: str) -> str:
        """Return the reply that adds *context*: the client wants exactly one JSON object of every hook."""
        if not context or event not in _CONTEXT_EVENTS:
            return "{}"
        return context_output(event, context)

    def transcripts(self, folder: Path | None = None) -> Iterator[Path]:
        """Yield the files of chats, oldest first; those of sub-agents lie in folders below."""
        files = (self.folder / "tmp").glob("*/chats/session-*") if folder is None else folder.rglob("session-*")
        yield from oldest_first(path for path in files if path.suffix in (".json", ".jsonl"))

    def read_transcript(self, path: Path, *, tail: int | None = None) -> Transcript | None:
        """Return the chat of the file *path*, with its rewinds; None for that of a sub-agent.

        Always the whole file is read: a later record may change an earlier one.
        """
        head, messages = _records(path)
        if head.get("kind") == "subagent":
            return None
        session = str(head.get("sessionId") or path.stem)
        found: list[TranscriptEntry] = []
        skipped: Counter[str] = Counter()
        for message in messages:
            text = "\n".join(block_texts(message.get("content")))
            at, id = parsed_time(message.get("timestamp")), str(message.get("id") or "")
            if message.get("type") == "gemini" and text.strip():
                found.append(TranscriptEntry("assistant", text, session, at, id))
            elif message.get("type") == "user":
                words = "" if starts_with_tag(text) else typed_text(text)
                if words:
                    found.append(TranscriptEntry("user", words, session, at, id))
                else:
                    skipped["command or wrapper"] += 1
        project = str(head.get("projectHash") or path.parent.parent.name)
        return Transcript("", with_last_answers(found), skipped, f"{self.name}:{project}")


def _hook_entries(command: Callable[[str], str]) -> dict[str, dict[str, Any]]:
    return {
        event: matched_hook(command(event), name="tellback", timeout=milliseconds)
        for event, milliseconds in _TIMEOUTS.items()
    }


def _records(path: Path) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
    """Return the description and the messages of a chat: one JSON object, or a line a record."""
    if path.suffix == ".json":
        try:
            whole = json.loads(path.read_bytes()) if path.stat().st_size < _MAX_FILE_BYTES else {}
        except (ValueError, RecursionError):
            whole = {}
        head = whole if isinstance(whole, dict) else {}
        return head, _objects(head.get("messages"))
    head, messages = {}, dict[str, Mapping[str, Any]]()
    for record in json_lines(path):
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
    return head, [*messages.values()]


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
