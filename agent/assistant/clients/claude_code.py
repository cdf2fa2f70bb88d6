"""Claude Code: payloads and replies of its hooks, and its transcripts.

Sources: the types of `@anthropic-ai/claude-agent-sdk` 0.3.330 (``sdk.d.ts``), which also has the test of what a person
typed (``sdk.mjs``); payloads recorded with Claude Code 2.1.287; its changelog up to 2.1.240. The line format of
transcripts is internal to the client and changes: lines of unknown types are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from agent.assistant.clients.client import HookEvent, HookMoment, Transcript
from agent.assistant.clients.typed_text import typed_text

_TYPED_SOURCES: Final = (None, "user", "sdk")
_CONTEXT_EVENTS: Final = ("UserPromptSubmit", "SessionStart")


class ClaudeCode:
    """Claude Code."""

    name = "claude-code"
    title = "Claude Code"
    hook_events: Mapping[str, HookMoment] = MappingProxyType(
        {
            "SessionStart": HookMoment.SESSION_START,
            "UserPromptSubmit": HookMoment.PROMPT,
            "Stop": HookMoment.TURN_END,
            "PreCompact": HookMoment.COMPACTION,
        }
    )

    def read_hook(self, event: str, payload: Mapping[str, Any], folder: str) -> HookEvent | None:
        """Return the event that *payload* reports; None in a sub-agent, and for a prompt that nobody typed."""
        moment = self.hook_events.get(event)
        if moment is None or payload.get("agent_id") or not payload.get("session_id"):
            return None
        if moment is HookMoment.PROMPT and payload.get("source") not in _TYPED_SOURCES:
            return None
        transcript = payload.get("transcript_path")
        return HookEvent(
            moment=moment,
            session=str(payload["session_id"]),
            folder=str(payload.get("cwd") or folder),
            prompt=typed_text(str(payload.get("prompt") or "")) if moment is HookMoment.PROMPT else "",
            entry=str(payload.get("prompt_id") or ""),
            answer=str(payload.get("last_assistant_message") or "") if moment is HookMoment.TURN_END else "",
            transcript=Path(transcript) if isinstance(transcript, str) and transcript else None,
            after_compaction=payload.get("source") == "compact",
        )

    def hook_output(self, event: str, context: str) -> str:
        """Return the reply that adds *context*; on other events a reply has no place for it."""
        if not context or event not in _CONTEXT_EVENTS:
            return ""
        return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": context}})

    def transcripts(self) -> Iterator[Path]:
        """Yield the files of conversations, oldest first."""
        yield from ()

    def read_transcript(self, path: Path, *, tail: int | None = None) -> Transcript | None:
        """Return the conversation of the file *path*."""
        return None
