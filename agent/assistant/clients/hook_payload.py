"""Payloads and replies in the form of Claude Code, which Codex and Gemini CLI mostly share."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from agent.assistant.clients.client import ClientEvent, HookMoment
from agent.assistant.clients.typed_text import typed_text

_CONTEXT_MOMENTS: Final = (HookMoment.PROMPT, HookMoment.SESSION_START)


def event_of_payload(
    moment: HookMoment | None,
    payload: Mapping[str, Any],
    folder: str,
    *,
    turn: str,
    answer: str,
    fresh_starts: Collection[str],
) -> ClientEvent | None:
    """Return the event that *payload* reports at *moment*; None in a sub-agent, and without a session or a moment.

    *turn* and *answer* are the client's names of the fields with the turn's id and its last answer. Only a session that
    starts by one of *fresh_starts* needs a briefing; other starts are ignored.
    """
    if moment is None or payload.get("agent_id") or not payload.get("session_id"):
        return None
    if moment is HookMoment.SESSION_START and payload.get("source") not in fresh_starts:
        return None
    transcript = payload.get("transcript_path")
    return ClientEvent(
        moment=moment,
        session=str(payload["session_id"]),
        folder=str(payload.get("cwd") or folder),
        prompt=typed_text(str(payload.get("prompt") or "")) if moment is HookMoment.PROMPT else "",
        id=str(payload.get(turn) or ""),
        answer=str(payload.get(answer) or "") if moment is HookMoment.TURN_END else "",
        transcript=Path(transcript) if isinstance(transcript, str) and transcript else None,
        after_compaction=payload.get("source") == "compact",
    )


def context_output(event: str, moment: HookMoment | None, context: str, *, otherwise: str = "") -> str:
    """Return the reply that adds *context* to what the model reads.

    *otherwise* is the reply without context, and at moments whose reply has no field for it.
    """
    if not context or moment not in _CONTEXT_MOMENTS:
        return otherwise
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": context}})
