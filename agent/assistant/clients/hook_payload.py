"""Payloads and replies in the form that Claude Code introduced, and Codex and Gemini CLI share in the main."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.assistant.clients.client import ClientEvent, HookMoment
from agent.assistant.clients.typed_text import typed_text


def event_of_payload(
    moment: HookMoment, payload: Mapping[str, Any], folder: str, *, turn: str, answer: str
) -> ClientEvent | None:
    """Return the event that *payload* reports; None in a sub-agent, and without a session.

    *turn* and *answer* are the client's names of the fields with the turn's id and its last answer.
    """
    if payload.get("agent_id") or not payload.get("session_id"):
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


def context_output(event: str, context: str) -> str:
    """Return the reply that adds *context* to what the model reads."""
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": context}})
