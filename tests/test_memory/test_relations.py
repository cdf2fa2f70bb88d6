"""Who is who: a question by role finds notes by name, and the other way round, once a memory said who is whose."""

from __future__ import annotations

import pytest

from tellback.memory import LongTermMemory, Memory, run_sync
from tellback.vectorstore import open_store

OTHERS = ("Priya's shoe size is 41.", "My own shoe size is 44.", "Priya hat Schuhgröße 41.", "Ich habe Schuhgröße 44.")


def remembering(*texts: str | Memory) -> LongTermMemory:
    memory = LongTermMemory(open_store("numpy:"))
    for text in (*OTHERS, *texts):
        run_sync(memory.remember(text))
    return memory


def asked_too(memory: LongTermMemory, question: str, **options: object) -> list[str]:
    notes = run_sync(memory.recall(question, **options)).notes  # type: ignore[arg-type]
    return [note.removeprefix("asked too: ") for note in notes if note.startswith("asked too: ")]


def lead(memory: LongTermMemory, question: str, answer: str) -> float:
    """Return by how much the memory of the *answer* leads the best of ``OTHERS``."""
    scores = {hit.memory.text: hit.score for hit in run_sync(memory.recall(question))}
    return scores[answer] - max(score for text, score in scores.items() if text in OTHERS)


@pytest.mark.parametrize(
    ("said", "question", "answer"),
    [
        ("My wife is Lena.", "What is my wife's shoe size?", "Lena's shoe size is 39."),
        ("My wife is Lena.", "What is Lena's shoe size?", "My wife's shoe size is 39."),
        ("Lena ist meine Frau.", "Welche Schuhgröße hat meine Frau?", "Lena hat Schuhgröße 39."),
        ("Meine Frau heißt Lena.", "Welche Schuhgröße hat Lena?", "Meine Frau hat Schuhgröße 39."),
        (
            Memory("We were in Rome.", about="Lena (wife): trip"),
            "Which shoe size has my wife?",
            "Lena has shoe size 39.",
        ),
    ],
)
def test_a_question_by_role_or_name_finds_a_note_by_the_other(said: str | Memory, question: str, answer: str) -> None:
    memory = remembering(answer)
    unsaid = lead(memory, question, answer)
    assert asked_too(memory, question) == []
    run_sync(memory.remember(said))
    assert run_sync(memory.recall(question)).hits[0].memory.text == answer
    assert lead(memory, question, answer) > unsaid
    assert len(asked_too(memory, question)) == 1


@pytest.mark.parametrize(
    "said",
    [
        "Tomasz's wife Lena sings.",
        "La mère Cariou sells eggs.",
        "My wife is Danish.",
        "Meine Frau ist Lehrerin.",
        Memory("My wife is Lena.", role="assistant", kind="turn"),
    ],
)
def test_what_names_no_relative_of_the_user_is_no_relation(said: str | Memory) -> None:
    memory = remembering(said)
    assert run_sync(memory.people()) == []
    assert asked_too(memory, "When is my wife's birthday?") == []


def test_somebody_elses_relative_and_a_question_that_has_both_are_asked_as_they_are() -> None:
    memory = remembering("My wife is Lena.")
    assert asked_too(memory, "Where does Rhona's wife live?") == []
    assert asked_too(memory, "Where does the wife of Rhona live?") == []
    assert asked_too(memory, "Is Lena my wife?") == []


def test_a_relation_goes_and_comes_back_with_the_memory_that_says_it() -> None:
    memory = remembering()
    id = run_sync(memory.remember("My wife is Lena.")).id
    (person,) = run_sync(memory.people())
    assert (person.name, person.role, person.memory.id) == ("Lena", "my wife", id)
    question = "What size shoes does my wife wear?"
    operation = run_sync(memory.tag([id], [person.split_tag]))
    assert asked_too(memory, question) == []
    assert operation is not None
    run_sync(memory.undo(operation.id))
    assert asked_too(memory, question) == ["What size shoes does Lena wear?"]
    run_sync(memory.correct(id, "My wife is Mara."))
    assert asked_too(memory, question) == ["What size shoes does Mara wear?"]
    run_sync(memory.forget([id]))
    assert asked_too(memory, question) == []


def test_relations_are_those_of_the_namespace_and_of_what_the_filter_passes() -> None:
    memory = remembering(Memory("My wife is Lena.", tags=("home",)))
    question = "Where does my wife live?"
    assert asked_too(memory, question, namespace="other") == []
    assert asked_too(memory, question, tags=["work"]) == []
    assert asked_too(memory, question, tags=["home"]) == ["Where does Lena live?"]
    assert run_sync(memory.people(namespace="other")) == []
