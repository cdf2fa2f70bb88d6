"""Questions about a time: when something was said, when it happened, and what was said then at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from memory.long_term import LongTermMemory
from memory.models import Memory
from memory.runtime import run_sync as run
from vectorstore import open_store

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
SAID = {
    40: ["The roof was repaired by two workers."],
    3: ["Last Sunday the cat ran away.", "The soup was too salty."],
    1: ["I bought a red kettle.", "My tooth hurts."],
    0: ["The kettle is already broken."],
}


@pytest.fixture
def memory(tmp_path):
    opened = LongTermMemory(open_store(f"sqlite:///{tmp_path}/m.db"), clock=lambda: NOW)
    for back, texts in SAID.items():
        moment = NOW - timedelta(days=back)
        run(opened.remember_many([Memory(text, speaker="Ana", occurred_at=moment) for text in texts]))
    yield opened
    run(opened.close())


def found(memory: LongTermMemory, question: str, k: int = 2) -> list[str]:
    return [hit.memory.text for hit in run(memory.recall(question, k))]


def test_a_question_about_a_time_alone_finds_what_was_said_then_the_latest_first(memory):
    answer = run(memory.recall("What did I say yesterday?", 2))
    assert [hit.memory.text for hit in answer] == ["My tooth hurts.", "I bought a red kettle."]
    assert answer.abstain is None
    assert found(memory, "What happened last month?", 3)[-1:] != ["The roof was repaired by two workers."]
    assert found(memory, "What did we talk about in January?", 1) == ["The roof was repaired by two workers."]


def test_a_time_beside_other_words_decides_between_what_they_find(memory):
    assert found(memory, "What about the kettle yesterday?", 1) == ["I bought a red kettle."]
    assert found(memory, "What about the kettle today?", 1) == ["The kettle is already broken."]


def test_what_a_memory_tells_of_another_day_is_found_by_that_day(memory):
    """Said on Friday, 27 February; last Sunday was the 22nd."""
    assert found(memory, "What happened on 22 February 2026?", 1) == ["Last Sunday the cat ran away."]


def test_a_time_at_which_nothing_was_said_finds_nothing_of_it(memory):
    answer = run(memory.recall("What did I say on 5 June 2025?", 2))
    assert answer.abstain == "nothing"


def test_yesterday_is_that_of_the_reader(tmp_path):
    zone = ZoneInfo("Pacific/Auckland")
    memory = LongTermMemory(open_store(f"sqlite:///{tmp_path}/z.db"), clock=lambda: NOW, zone=zone)
    late = datetime(2026, 3, 2, 23, 30, tzinfo=zone)  # the day before, where it is already the 3rd
    run(memory.remember(Memory("The ferry left late.", occurred_at=late)))
    assert found(memory, "What did I say yesterday?", 1) == ["The ferry left late."]
    run(memory.close())


def test_what_is_said_of_a_past_moment_is_reckoned_from_it(memory):
    asked = run(memory.recall("What did I say yesterday?", 1, as_of=NOW - timedelta(days=2)))
    assert [hit.memory.text for hit in asked] == ["The soup was too salty."]
