"""Hooks at the prompt: what is known reaches the model as data. The inner ``agent.assistant`` is the subject."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent.assistant.hooks.answer import HookSettings, answer_hook
from agent.assistant.hooks.hook_call import HookCall
from memory import LongTermMemory, Memory


async def context_of(memory: LongTermMemory, prompt: str, folder: Path) -> str:
    """Return the context that a prompt in *folder* gets in Claude Code."""
    payload = {"session_id": "s1", "cwd": str(folder), "hook_event_name": "UserPromptSubmit", "prompt": prompt}
    call = HookCall("claude-code", "UserPromptSubmit", payload, str(folder), datetime(2026, 5, 3, tzinfo=UTC))
    reply = await answer_hook(call, memory=memory, settings=HookSettings())
    if not reply.stdout:
        return ""
    output: dict[str, Any] = json.loads(reply.stdout)["hookSpecificOutput"]
    assert output["hookEventName"] == "UserPromptSubmit"
    return str(output["additionalContext"])


@pytest.mark.anyio
async def test_a_prompt_in_a_project_sees_its_memories_and_general_ones_and_no_other_projects(
    memory: LongTermMemory, tmp_path: Path
) -> None:
    atlas, other = tmp_path / "atlas", tmp_path / "other"
    atlas.mkdir()
    other.mkdir()
    await memory.remember(Memory("The database of the service is Postgres", scopes={"project": str(atlas)}))
    await memory.remember(Memory("The database of the service is Oracle", scopes={"project": str(other)}))
    await memory.remember("The database of every service of mine is backed up by SQLite dumps")
    seen = await context_of(memory, "which database does the service have?", atlas)
    assert ("Postgres" in seen, "Oracle" in seen, "SQLite" in seen) == (True, False, True)
