"""Payloads and replies of hooks: moments of a session, events in a form common to all clients, and their JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tellback.agent.assistant.clients.typed_text import typed_text


class HookMoment(StrEnum):
    """Moment of a session at which a client calls a hook."""

    PROMPT = "prompt"
    TURN_END = "end of a turn"
    SESSION_START = "start of a session"
    COMPACTION = "before a compaction"


_CONTEXT_MOMENTS: Final = (HookMoment.PROMPT, HookMoment.SESSION_START)
_TYPED_SOURCES: Final = (None, "user", "sdk")
_TRANSCRIPT_SUFFIXES: Final = (".json", ".jsonl", ".zst")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientEvent:
    """Event that a client reports, in a form common to all clients.

    *prompt* is the text that the user typed, "" where the prompt is not the user's; *id* names the turn where the
    client does. *answer* is the last answer of the turn. *after_compaction*: the session goes on with a summary.
    """

    moment: HookMoment
    session: str
    folder: str
    prompt: str = ""
    id: str = ""
    answer: str = ""
    transcript: Path | None = None
    after_compaction: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadForm:
    """Form of a client's payloads, by its names of the fields with the session, the id of a turn and its last *answer*.

    Only a session that starts by one of *fresh_starts* needs a briefing: a resumed one still has it. Empty: each does.
    """

    turn: str
    answer: str = ""
    session: str = "session_id"
    fresh_starts: tuple[str, ...] = ()

    def event(
        self, moment: HookMoment | None, payload: Mapping[str, Any], folder: str, home: Path
    ) -> ClientEvent | None:
        """Return the event that *payload* reports at *moment*; None without a session or a moment.

        None, too, in a sub-agent or background agent, for a start that needs no briefing, and for a prompt that nobody
        typed. *folder* stands for a payload without one. A transcript outside the client's folder *home* is not read.
        """
        session, source = payload.get(self.session) or payload.get("session_id"), payload.get("source")
        if moment is None or not session or payload.get("agent_id") or payload.get("is_background_agent"):
            return None
        if moment is HookMoment.SESSION_START and self.fresh_starts and source not in self.fresh_starts:
            return None
        if moment is HookMoment.PROMPT and source not in _TYPED_SOURCES:
            return None
        roots = payload.get("workspace_roots")
        root = roots[0] if isinstance(roots, list) and roots and isinstance(roots[0], str) else payload.get("cwd")
        return ClientEvent(
            moment=moment,
            session=str(session),
            folder=str(root or folder),
            prompt=typed_text(str(payload.get("prompt") or "")) if moment is HookMoment.PROMPT else "",
            id=str(payload.get(self.turn) or ""),
            answer=str(payload.get(self.answer) or "") if moment is HookMoment.TURN_END else "",
            transcript=_own_transcript(payload.get("transcript_path"), home),
            after_compaction=source == "compact",
        )


def _own_transcript(named: object, home: Path) -> Path | None:
    """Return the transcript *named* in a payload; None unless it is a regular file that lies in *home*, links resolved.

    Its words are trusted as the user's; and reading a device or a pipe would never end.
    """
    if not isinstance(named, str) or not named.endswith(_TRANSCRIPT_SUFFIXES):
        return None
    path = Path(named)
    try:
        is_own = path.resolve().is_relative_to(home.resolve()) and path.is_file()
    except (OSError, ValueError):
        return None
    return path if is_own else None


def context_reply(event: str, moment: HookMoment | None, context: str, *, otherwise: str = "") -> str:
    """Return the reply of Claude Code, Codex and Gemini CLI that adds *context* to what the model reads.

    *otherwise* is the reply without context, and at moments whose reply has no field for it.
    """
    if not context or moment not in _CONTEXT_MOMENTS:
        return otherwise
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": context}})


def cursor_reply(event: str, moment: HookMoment | None, context: str) -> str:
    """Return the reply of Cursor that adds *context*; a prompt is always let through."""
    reply: dict[str, Any] = {"continue": True} if moment is HookMoment.PROMPT else {}
    if context and moment in _CONTEXT_MOMENTS:
        reply["additional_context"] = context
    return json.dumps(reply)
