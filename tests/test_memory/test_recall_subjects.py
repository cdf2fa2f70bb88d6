"""Subjects of attributes: the person asked for, the person known, and the doubt where they differ."""

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
    ("question", "note"),
    [
        ("What is Mira allergic to?", "known of Ana, not of Mira"),
        ("When is Mum's birthday?", "known of your father, not of your mother"),
        ("When is my mother's birthday?", "known of your father, not of your mother"),
        ("What shoe size does Mira wear?", "something like it is known, not of Mira"),
    ],
)
def test_an_attribute_of_another_person_is_given_with_doubt_and_their_name(
    memory: LongTermMemory, question: str, note: str
) -> None:
    found = run(memory.recall(question, 3))
    assert found.abstain == "other"
    assert found.confidence < 0.5
    assert note in found.notes


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
    assert not any("not of" in note for note in found.notes)


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


@pytest.mark.parametrize(
    ("lines", "question", "answer"),
    [
        (OWN, "What is my name?", OWN[0]),
        (OWN, "Who am I?", OWN[0]),
        (OWN, "Wie heiße ich?", OWN[0]),
        (OWN, "Where do I live?", OWN[6]),
        (OWN, "What city do I live in?", OWN[6]),
        (OWN, "Where did I live before?", OWN[1]),
        (OWN, "What's my job?", OWN[3]),
        (OWN, "Whom do I work for?", OWN[3]),
        ([*OWN, "I go to work by bike."], "Where do I work?", OWN[3]),
        (["Ich wohne in Linz.", "Der Hund wohnt im Garten.", "Wir sind nach Graz gezogen."], "Wo wohne ich?", "Graz"),
        (["Vivo en Madrid.", "Mi hermana vive en Roma.", "En mayo me mudé a Bilbao."], "¿Dónde vivo?", "Bilbao"),
        (["我住在上海。", "我姐姐住在北京。", "五月我搬到了广州。"], "我住在哪里", "广州"),
        ([*OWN, "Ana has moved to Ghent, by the canal."], "In which town is my sister these days?", "Ghent"),
        ([*OWN, "Ana has moved to Ghent, by the canal."], "Where did Ana live before?", "Rome"),
        ([*OWN, "Ana arbeitet jetzt bei der Post."], "Where does my sister work?", "Post"),
        ([*OWN, "My brother moved to Oslo."], "Which city does Ana live in?", "Rome"),
        (
            [*OWN, "Ana is 34.", "Ana got 8 of 10 points.", "Ana is thirty-five today."],
            "How old is Ana?",
            "thirty-five",
        ),
        ([*OWN, "I turn 41 in May.", "The bridge is 90 years old."], "How old am I?", "41"),
        (["My wife is Roos, she's a midwife.", "Ana has a new job too."], "What's my wife's job?", "midwife"),
        (["Trabajo como enfermera.", "El perro se llama Bello.", "Me llamo Clara."], "¿Cómo me llamo?", "Clara"),
    ],
)
def test_a_question_about_the_user_finds_their_latest_statement_about_themselves(
    lines: list[str], question: str, answer: str
) -> None:
    memory = LongTermMemory(open_store("numpy:"))
    day = datetime(2026, 1, 5, tzinfo=UTC)
    run(memory.remember_many([Memory(text, occurred_at=day + timedelta(days=n)) for n, text in enumerate(lines)]))
    found = run(memory.recall(question, 3))
    assert answer in found[0].memory.text
    assert found.abstain is None
    run(memory.close())


def test_a_question_for_an_unknown_job_of_a_person_abstains(memory: LongTermMemory) -> None:
    run(memory.remember("My husband is called Marek, his birthday is on 14 March."))
    assert run(memory.recall("What is Marek's job?", 3)).abstain is not None
    run(memory.remember("Marek works as a nurse."))
    assert run(memory.recall("What is Marek's job?", 3)).abstain is None


def test_a_question_for_an_unknown_telephone_number_abstains(memory: LongTermMemory) -> None:
    assert run(memory.recall("What is Ana's telephone number?", 3)).abstain is not None
    run(memory.remember("Ana is on 0223 555 018 by telephone."))
    assert run(memory.recall("What is Ana's telephone number?", 3)).abstain is None


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Where does Clara live?", OWN[6]),
        ("What is Clara Weiss's job?", OWN[3]),
        ("What did Ana lend to Clara?", "Ana lent me her drill."),
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


def test_a_statement_without_the_asked_person_is_demoted_in_a_separate_score_part(memory: LongTermMemory) -> None:
    run(memory.remember("Pollen makes everybody allergic in May."))
    found = run(memory.recall("What is my sister allergic to?", 7, explain=True))
    parts = {hit.memory.text: hit.parts.get("subject", 0.0) for hit in found}
    assert parts["Ana is allergic to walnuts."] == parts["My sister Ana lives in Porto."] == 0
    assert parts["Pollen makes everybody allergic in May."] < 0


def test_a_turn_next_to_a_mention_of_the_asked_person_is_not_demoted() -> None:
    memory = LongTermMemory(open_store("numpy:"))
    lines = ["My cousin Jonas has a new job.", "He repairs violins in Mainz.", "The gutter leaks again."]
    for place, text in enumerate(lines):
        run(
            memory.remember(
                Memory(text, kind="turn", role="user", session="s", sequence=place * 5 if place > 1 else place)
            )
        )
    run(memory.remember(Memory("Violins are repaired on Mondays.", kind="note")))
    found = run(memory.recall("What does Jonas repair?", 4, explain=True))
    parts = {hit.memory.text: hit.parts.get("subject", 0.0) for hit in found}
    assert parts["He repairs violins in Mainz."] == 0
    assert parts["Violins are repaired on Mondays."] < 0
