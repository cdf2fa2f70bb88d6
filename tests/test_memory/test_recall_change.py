"""Statements that change: asked for now the newest leads; asked for then, the one that was said by then."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from memory.long_term import LongTermMemory
from memory.models import Memory
from memory.runtime import run_sync as run
from vectorstore import open_store

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


@pytest.fixture
def memory(tmp_path):
    opened = LongTermMemory(open_store(f"sqlite:///{tmp_path}/m.db"), clock=lambda: NOW)
    yield opened
    run(opened.close())


def told(memory: LongTermMemory, back: int, text: str, speaker: str = "Ana") -> str:
    at = NOW - timedelta(days=back)
    return run(memory.remember(Memory(text, speaker=speaker, occurred_at=at))).id


def found(memory: LongTermMemory, question: str, **options: object) -> list[str]:
    return [hit.memory.id for hit in run(memory.recall(question, **options))]


def test_asked_for_now_the_newest_leads_and_the_older_one_names_it(memory):
    old = told(memory, 50, "The choir practice of our street is on Monday.")
    new = told(memory, 10, "The choir practice of our street is on Friday now.")
    hits = run(memory.recall("On which day is the choir practice of our street?", explain=True))
    assert [(hit.memory.id, hit.outdated_by) for hit in hits] == [(new, None), (old, new)]
    assert all(sum(hit.parts.values()) == pytest.approx(hit.score) for hit in hits)
    assert hits[0].score >= hits[1].score


def test_asked_for_then_the_one_that_was_said_by_then_leads(memory):
    old = told(memory, 50, "The choir practice of our street is on Monday.")
    new = told(memory, 10, "The choir practice of our street is on Friday now.")
    question = "On which day is the choir practice of our street?"
    assert found(memory, question, as_of=NOW - timedelta(days=30))[0] == old
    assert found(memory, question, as_of=NOW - timedelta(days=5))[0] == new


def test_what_others_say_or_what_happened_twice_is_no_change(memory):
    mine = told(memory, 50, "My choir practice is on Monday.", "Ana")
    told(memory, 10, "My choir practice is on Friday.", "Ben")
    assert run(memory.recall("When is Ana's choir practice?"))[0].memory.id == mine
    told(memory, 40, "The ferry to the island sank in the harbour.")
    told(memory, 20, "The ferry to the harbour sank near the island.")
    hits = run(memory.recall("Why did the ferry sink?"))
    assert [hit.outdated_by for hit in hits] == [None] * len(hits)


@pytest.mark.parametrize(
    ("question", "old", "new"),
    [
        ("Where does the key of the cellar hang?", "The key of the cellar hangs in the hall.",
         "The key of the attic hangs in the kitchen."),
        ("Where does my friend Anna live?", "My friend Anna lives in Rome.", "My friend Ben lives in Oslo."),
        ("What is the number of box A7?", "The number of box A7 is 49.", "The number of box A10 is 70."),
        ("Where does the key of the cellar hang?", "The key of the cellar hangs in the hall.",
         "The key of the attic now hangs in the kitchen."),
    ],
)  # fmt: skip
def test_a_later_statement_of_another_thing_is_no_change(memory, question: str, old: str, new: str):
    asked_for = told(memory, 50, old)
    told(memory, 10, new)
    hits = run(memory.recall(question))
    assert hits[0].memory.id == asked_for
    assert [hit.outdated_by for hit in hits] == [None] * len(hits)


def test_a_statement_holds_from_when_it_says_and_not_from_when_it_was_told(memory):
    told(memory, 50, "The rent of the flat is nine hundred.")
    at = NOW - timedelta(days=5)
    late = Memory(
        "The rent of the flat is now a thousand.", speaker="Ana", occurred_at=at, valid_from=at - timedelta(40)
    )
    new = run(memory.remember(late)).id
    assert found(memory, "What is the rent of the flat?", as_of=NOW - timedelta(days=20))[0] == new


def test_the_order_of_writing_does_not_matter(memory):
    new = told(memory, 10, "The choir practice of our street is on Friday now.")
    old = told(memory, 50, "The choir practice of our street is on Monday.")
    assert found(memory, "On which day is the choir practice of our street?") == [new, old]
