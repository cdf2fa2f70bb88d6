"""Recall and answers by a resident server, where one runs, as the values of those made here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tellback.agent.results import RunResult
    from tellback.memory import RecallOptions, RecallResult


@dataclass(frozen=True, slots=True)
class ServedRecall:
    """Answer of a server: what was *found* as JSON, why others were *left_out*, and the memory's *language*."""

    found: Mapping[str, Any]
    left_out: Sequence[str]
    language: str

    def result(self) -> RecallResult:
        """Return what was found."""
        from tellback.agent.desk.values import recall_result
        from tellback.memory.internals import Omitted

        return recall_result(self.found, left_out=tuple(Omitted("", reason) for reason in self.left_out))


def served_recall(flags: Mapping[str, Any], question: str, k: int, options: RecallOptions) -> ServedRecall | None:
    """Return the answer of a server that runs; None where none does, or it leaves the question to this process."""
    from tellback.agent.assistant.resident.client import ask_server

    given: dict[str, Any] = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in options.items()
        if value not in (None, ())
    }
    answer = ask_server("/recall", {"question": question, "k": k, "options": given}, flags)
    return None if answer is None else ServedRecall(answer["found"], answer["left_out"], answer["language"])


def served_answer(flags: Mapping[str, Any], question: str) -> tuple[RunResult, Sequence[str | None]] | None:
    """Return the answer of a server that runs, and the location of each citation; None as ``served_recall``."""
    from tellback.agent.assistant.resident.client import ask_server

    answer = ask_server("/ask", {"question": question}, flags)
    if answer is None:
        return None
    from pydantic import TypeAdapter

    from tellback.agent.results import RunResult

    result: RunResult = TypeAdapter(RunResult).validate_python(answer["result"])
    return result, answer["locations"]
