"""Questions for a person by name, by kin or by the name of the user; doubt of a number that nobody told."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tellback.memory import LongTermMemory, Memory
from tellback.memory import run_sync as run
from tellback.vectorstore import open_store

NOTES = [
    "My sister Ana lives in Porto.",
    "Ana is allergic to walnuts.",
    "Mira runs a bakery in Graz.",
    "Dad's birthday is on 3 March.",
    "Mum has moved into a flat in Bristol.",
    "I wear shoes in size 43.",
    "The dentist is on Park Street.",
]


@pytest.fixture
def memory() -> Iterator[LongTermMemory]:
    opened = LongTermMemory(open_store("numpy:"))
    run(opened.remember_many(NOTES))
    yield opened
    run(opened.close())


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What is Ana allergic to?", "Ana is allergic to walnuts."),
        ("What nuts is my sister allergic to?", "Ana is allergic to walnuts."),
        ("When is my father's birthday?", "Dad's birthday is on 3 March."),
        ("Where does my mother have a flat?", "Mum has moved into a flat in Bristol."),
        ("What does Mira run in Graz?", "Mira runs a bakery in Graz."),
        ("Where is the dentist?", "The dentist is on Park Street."),
    ],
)
def test_a_person_is_known_by_name_by_kin_and_by_one_hop(memory: LongTermMemory, question: str, answer: str) -> None:
    found = run(memory.recall(question, 3))
    assert answer in [hit.memory.text for hit in found[:2]]
    assert found.abstain is None


OWN = [
    "Hi, I'm Clara, nice to meet you.",
    "I live in Linz with two cats.",
    "My sister Ana lives in Rome.",
    "Started at Magna as a test engineer.",
    "I'd love to live in Rome some day.",
    "The name of the dog is Bello.",
    "I moved to Graz in May.",
    "Ana works for a bank.",
]


def test_a_question_for_an_unknown_telephone_number_abstains(memory: LongTermMemory) -> None:
    assert run(memory.recall("What is Ana's telephone number?", 3)).abstain is not None
    run(memory.remember("Ana is on 0223 555 018 by telephone."))
    assert run(memory.recall("What is Ana's telephone number?", 3)).abstain is None


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Where does Clara live?", OWN[1]),
        ("Where does Clara Weiss's sister live?", OWN[2]),
        ("Which drill did Ana lend to Clara?", "Ana lent me her drill."),
        ("Which prize did Clara win?", "Clara won the town's prize for bridges."),
    ],
)
def test_a_question_with_the_name_of_the_user_finds_their_statements_about_themselves(
    question: str, answer: str
) -> None:
    memory = LongTermMemory(open_store("numpy:"), user_name="Clara Weiss")
    day = datetime(2026, 1, 5, tzinfo=UTC)
    lines = [*OWN, "Ana lent me her drill.", "Clara won the town's prize for bridges."]
    run(memory.remember_many([Memory(text, occurred_at=day + timedelta(days=n)) for n, text in enumerate(lines)]))
    found = run(memory.recall(question, 3))
    assert found[0].memory.text == answer
    assert any(note.startswith("asked of you: ") for note in found.notes)
    run(memory.close())
