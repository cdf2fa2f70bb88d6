"""Messages that asked tools for what was answered: a memory of the answers tells of them, so they go with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from memory.messages import ToolCallBlock
from memory.storage.rows import HistoryRow
from memory.turns import calls_told
from memory.write.context import WriteContext

_NEAR: Final = 16
"""So many messages before an answer are looked through."""


def askers(context: WriteContext, rows: Sequence[HistoryRow], namespace: str) -> list[HistoryRow]:
    """Return the messages whose calls the tool messages among *rows* answer."""
    answers: dict[str, set[int]] = {}
    for row in rows:
        if row.message.role == "tool":
            answers.setdefault(row.session, set()).add(row.sequence)
    return [row for session, places in answers.items() for row in _asking(context, session, places, namespace)]


def _asking(context: WriteContext, session: str, answers: set[int], namespace: str) -> list[HistoryRow]:
    near = sorted({place for answer in answers for place in range(answer - _NEAR, answer + 1)})
    beside = context.rows.at([(session, place) for place in near], namespace=namespace)
    beside = sorted(beside, key=lambda row: row.sequence)
    asked: dict[str, list[ToolCallBlock]] = {}
    for row, calls in zip(beside, calls_told([row.message for row in beside]), strict=True):
        for call in calls if row.sequence in answers else ():
            asked.setdefault(call.id, []).append(call)
    return [row for row in beside if any(call in asked.get(call.id, ()) for call in row.message.tool_calls)]
