"""The names that memories get by chance decide nothing: equal memories are found in the same order under other ids."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from memory.long_term import LongTermMemory
from memory.models import Memory
from memory.runtime import run_sync as run
from vectorstore import open_store

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
SAID = datetime(2026, 2, 1, 9, tzinfo=UTC)
TALK = (
    "The choir practice of our street is on Monday.",
    "The tram was late again this morning.",
    "The choir practice of our street is on Friday.",
    "I lost my umbrella at the station.",
)


@pytest.mark.parametrize("ids", [("a", "b", "c", "d"), ("d", "c", "b", "a"), ("b", "d", "a", "c")])
def test_of_two_statements_made_in_one_session_at_one_time_the_later_turn_leads(tmp_path, ids):
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path}/m.db"), clock=lambda: NOW)
    run(
        memory.remember_many(
            Memory(text, id=id, kind="turn", role="user", session="s", sequence=at, occurred_at=SAID)
            for at, (id, text) in enumerate(zip(ids, TALK, strict=True))
        )
    )
    found = run(memory.recall("On which day is the choir practice of our street?"))
    run(memory.close())
    assert [hit.memory.text for hit in found][:2] == [TALK[2], TALK[0]]
