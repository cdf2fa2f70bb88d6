"""Cursor: payloads and replies of its hooks, and the transcripts of its agent.

Sources: cursor.com/docs/agent/hooks as noted on 2026-05-27 (payloads; that of ``stop`` has no answer, so it is read
from the transcript), DietrichGebert/ponytail ``docs/cursor-hooks.md`` of 2026-09-14 for ``additional_context`` at a
prompt (client 3.20.17; the page does not list it); getagentseal/codeburn ``docs/providers`` at ed8fa3a for transcripts,
which the maker does not document. The context of a session's start is lost in many versions, up to 3.6.31 at least: it
is given all the same, and at prompts again. Chats of the editor are in ``cursor_database``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from agent.assistant.clients.client import ClientEvent, HookClient, HookMoment, Transcript, TranscriptEntry
from agent.assistant.clients.cursor_database import composers, editor_folder
from agent.assistant.clients.registration import HookFile, ServerFile
from agent.assistant.clients.transcript_lines import JsonLines, block_texts, oldest_first, with_last_answers
from agent.assistant.clients.typed_text import starts_with_tag, typed_text

_CONTEXT_EVENTS: Final = ("sessionStart", "beforeSubmitPrompt")
_TIMEOUTS: Final = {
    "sessionStart": 10,
    "beforeSubmitPrompt": 10,
    "stop": 20,
    "preCompact": 20,
}
"""Seconds after which the client goes on without the hook."""
_USER_QUERY: Final = re.compile(r"<user_query>\s*(.*?)\s*</user_query>", re.DOTALL)


class CursorEditor(HookClient):
    """Cursor, the editor; in the print mode of its command line these hooks are not called."""

    name = "cursor"
    title = "Cursor"
    documented = "hooks of cursor.com/docs/agent/hooks (2026-05-27; prompt context of 3.20.17), MCP of October 2026"
    hook_events: Mapping[str, HookMoment] = MappingProxyType(
        {
            "sessionStart": HookMoment.SESSION_START,
            "beforeSubmitPrompt": HookMoment.PROMPT,
            "stop": HookMoment.TURN_END,
            "preCompact": HookMoment.COMPACTION,
        }
    )

    @property
    def folder(self) -> Path:
        """Folder of its settings and transcripts."""
        return Path.home() / ".cursor"

    @property
    def server_file(self) -> ServerFile:
        """Servers of the user."""
        return ServerFile(self.folder / "mcp.json")

    @property
    def hook_file(self) -> HookFile:
        """Hooks of the user, in a file of their own; time-outs are in seconds."""
        return HookFile(self.folder / "hooks.json", _hook_entries, head={"version": 1})

    def read_hook(self, event: str, payload: Mapping[str, Any], folder: str) -> ClientEvent | None:
        """Return the event that *payload* reports; None in a background agent. There is no folder but the roots."""
        moment = self.hook_events.get(event)
        session = payload.get("conversation_id") or payload.get("session_id")
        if moment is None or not session or payload.get("is_background_agent"):
            return None
        roots, transcript = payload.get("workspace_roots"), payload.get("transcript_path")
        root = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else folder
        return ClientEvent(
            moment=moment,
            session=str(session),
            folder=root,
            prompt=typed_text(str(payload.get("prompt") or "")) if moment is HookMoment.PROMPT else "",
            id=str(payload.get("generation_id") or ""),
            transcript=Path(transcript) if isinstance(transcript, str) and transcript.endswith(".jsonl") else None,
        )

    def hook_output(self, event: str, context: str) -> str:
        """Return the reply that adds *context*; a prompt is always let through."""
        reply: dict[str, Any] = {"continue": True} if event == "beforeSubmitPrompt" else {}
        if context and event in _CONTEXT_EVENTS:
            reply["additional_context"] = context
        return json.dumps(reply)

    def transcripts(self, folder: Path | None = None) -> Iterator[Path]:
        """Yield the files of the agent's transcripts, oldest first."""
        if folder is None:
            files = (self.folder / "projects").glob("*/agent-transcripts/*/*.jsonl")
        else:
            files = folder.rglob("*.jsonl")
        yield from oldest_first(files)

    def archives(self) -> Iterator[Path]:
        """Yield the database of the editor."""
        database = editor_folder() / "globalStorage" / "state.vscdb"
        if database.is_file():
            yield database

    def conversations(self, path: Path) -> Iterator[Transcript]:
        """Yield the chats of the editor's database, oldest first, or the conversation of a transcript."""
        yield from composers(path, self.name) if path.suffix == ".vscdb" else super().conversations(path)

    def read_transcript(self, path: Path, *, start: int = 0) -> Transcript | None:
        """Return the conversation of the file *path*; only the text in ``<user_query>`` was typed."""
        folder = path.parent
        session = folder.name if folder.parent.name == "agent-transcripts" else path.stem
        project = f"{self.name}:{folder.parent.parent.name}"
        entries: list[TranscriptEntry] = []
        skipped: Counter[str] = Counter()
        lines = JsonLines(path, start)
        for line in lines:
            message = line.get("message")
            text = "\n".join(block_texts(message.get("content"))) if isinstance(message, dict) else ""
            if line.get("role") == "assistant" and text.strip():
                entries.append(TranscriptEntry("assistant", text, session))
            elif line.get("role") == "user":
                queries = [query for query in _USER_QUERY.findall(text) if not starts_with_tag(query)]
                words = typed_text("\n".join(queries)) if len(queries) == 1 else ""
                if words:
                    entries.append(TranscriptEntry("user", words, session))
                else:
                    skipped["client's own words"] += 1
        return Transcript("", with_last_answers(entries), skipped, project, lines.end)


def _hook_entries(command: Callable[[str], str]) -> dict[str, dict[str, Any]]:
    return {event: {"command": command(event), "timeout": seconds} for event, seconds in _TIMEOUTS.items()}
