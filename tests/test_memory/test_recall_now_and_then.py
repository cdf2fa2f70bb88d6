"""Recall of what held at a time, and the words of a question for a time that is past.

Inner parts, on no face: ``tellback.memory.retrieval.languages.question_time``,
``tellback.memory.retrieval.languages.lexicon``.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tellback.memory import LongTermMemory, Memory
from tellback.memory import run_sync as run
from tellback.memory.retrieval.languages.lexicon import lexicon_for
from tellback.memory.retrieval.languages.question_time import without_past_time
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


@pytest.mark.parametrize(
    ("question", "rest"),
    [
        ("Where do I live?", "Where do I live?"),
        ("Am I still with Anton?", "Am I still with Anton?"),
        ("How old is Mum?", "How old is Mum?"),
        ("Which boat is old?", "Which boat is old?"),
        ("What do I drink before bed?", "What do I drink before bed?"),
        ("What have I eaten since 2023?", "What have I eaten since 2023?"),
        ("What is my rent in 2030?", "What is my rent in 2030?"),
        ("When did I move to Porto?", "When did I move to Porto?"),
        ("What happened in May 2023?", "What happened ?"),
        ("Where did I live?", "Where did I live?"),
        ("Where did I use to live?", "Where did I live?"),
        ("Who was my team lead before the reshuffle?", "Who was my team lead ?"),
        ("Who was my dentist before 2024?", "Who was my dentist ?"),
        ("Where did I live in spring 2024?", "Where did I live ?"),
        ("Where did I live in the winter of 2023?", "Where did I live ?"),
        ("Where did I live last autumn?", "Where did I live ?"),
        ("Who was I seeing at the end of 2023?", "Who was I seeing ?"),
        ("Where did Tom stay mid-2024?", "Where did Tom stay ?"),
        ("Where did I work in May?", "Where did I work ?"),
        ("Where did I work in July?", "Where did I work ?"),
        ("What was the rent in 2024-10?", "What was the rent ?"),
        ("Where did I live two years ago?", "Where did I live ?"),
        ("Wo habe ich im Frühling 2024 gewohnt?", "Wo habe ich gewohnt?"),
        ("¿Dónde vivía antes?", "¿Dónde vivía ?"),
        ("Who was my dentist before?", "Who was my dentist ?"),
        ("What did I eat the day before?", "What did I eat the day before?"),
    ],
)
def test_a_question_is_searched_without_its_words_for_a_past_time(question: str, rest: str) -> None:
    assert without_past_time(question, lexicon_for("english"), NOW.date()) == rest
