"""Recall of what held at a time."""

from __future__ import annotations

from datetime import UTC, datetime

from tellback.memory import LongTermMemory, Memory
from tellback.memory import run_sync as run
from tellback.vectorstore import open_store

NOW = datetime(2025, 6, 15, 12, tzinfo=UTC)


def test_a_change_told_later_did_not_hold_before_it_was_told() -> None:
    memory = LongTermMemory(open_store("numpy:"), clock=lambda: NOW)
    black = Memory("I take my coffee black.", id="m0", occurred_at=datetime(2024, 5, 1, tzinfo=UTC))
    none = Memory("No coffee any more, I drink rooibos.", id="m1", occurred_at=datetime(2025, 6, 1, tzinfo=UTC))
    run(memory.remember_many([black, none]))
    question, summer = "How do I take my coffee?", datetime(2024, 7, 1, tzinfo=UTC)
    assert [hit.memory.id for hit in run(memory.recall(question, as_of=summer))] == ["m0"]
    assert run(memory.why_not(question, "m1", as_of=summer)).stage == "validity"
    assert len(run(memory.recall(question))) == 2
