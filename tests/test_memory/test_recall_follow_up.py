"""Questions that lean on what was said before."""

from __future__ import annotations

import pytest

from memory.errors import ArgumentError
from memory.long_term import LongTermMemory
from memory.retrieval.languages.base import NEUTRAL
from memory.retrieval.languages.english import ENGLISH
from memory.retrieval.query_analysis import follow_up_context, is_follow_up
from memory.runtime import run_sync as run
from vectorstore import Analyzer, open_store

TERMS = Analyzer().terms
BEFORE = "What did Ana paint last summer?"


@pytest.mark.parametrize(
    "text",
    [
        "And when did she go there?",
        "When was that?",
        "What about the violin in the old house?",
        "Why?",
        "How much did it cost?",
        "Where did they buy them?",
        "Tell me more about this.",
        "What else did the plumber repair?",
        "When did I go there?",
    ],
)
def test_what_goes_on_points_back_or_has_hardly_a_word_leans(text: str) -> None:
    assert is_follow_up(text, ENGLISH, TERMS)
    assert follow_up_context(text, ["Hello there, Ana.", BEFORE], ENGLISH, TERMS) == (BEFORE,)


@pytest.mark.parametrize(
    "text",
    [
        BEFORE,
        "What did Melanie say about her new shoes?",
        "Which instrument does my sister play?",
        "Is it true that the ferry to the island stops in winter?",
        "What does the neighbour who sold his tractor grow in his garden?",
        "Where do I work?",
        "Who is my dentist?",
    ],
)
def test_what_says_enough_by_itself_does_not_lean(text: str) -> None:
    assert not is_follow_up(text, ENGLISH, TERMS)
    assert follow_up_context(text, [BEFORE], ENGLISH, TERMS) == ()


def test_turns_are_taken_back_to_one_that_stands_by_itself_and_no_further_than_three() -> None:
    said = ["Where does my uncle keep his boat?", BEFORE, "And where?", "", "With whom?"]
    assert follow_up_context("And when?", said, ENGLISH, TERMS) == (BEFORE, "And where?", "With whom?")
    assert follow_up_context("And when?", ["Why?"] * 9, ENGLISH, TERMS) == ("Why?",) * 3
    assert follow_up_context("And when?", [], ENGLISH, TERMS) == ()
    assert follow_up_context("Why?", ["far " * 500], ENGLISH, TERMS) == (("far " * 500)[:400],)


def test_another_language_leans_where_there_is_hardly_a_word() -> None:
    assert is_follow_up("Warum?", NEUTRAL, TERMS)
    assert not is_follow_up("Wann hat meine Schwester das Haus verkauft?", NEUTRAL, TERMS)


@pytest.fixture
def memory(tmp_path):
    opened = LongTermMemory(open_store(f"sqlite:///{tmp_path}/m.db"))
    run(opened.remember_many(["Ana painted a lighthouse in August.", "The boat was sold for nine thousand crowns."]))
    yield opened
    run(opened.close())


def test_a_follow_up_finds_what_the_turn_before_was_about_and_says_so(memory):
    alone = run(memory.recall("And when was that?"))
    assert alone.hits == ()
    leaning = run(memory.recall("And when was that?", context=[BEFORE]))
    assert leaning[0].memory.text == "Ana painted a lighthouse in August."
    assert f"asked together with what it leans on: {BEFORE}" in leaning.notes


def test_a_question_that_stands_by_itself_is_asked_as_if_nothing_was_said(memory):
    question = "For how much was the boat sold?"
    assert run(memory.recall(question, context=[BEFORE])) == run(memory.recall(question))


def test_what_the_turn_before_asked_for_is_not_asked_for_again(memory):
    """Whether a time is asked for is what the last question says, not the one it leans on."""
    parts = run(memory.recall("And why?", context=["When did Ana paint?"], explain=True))[0].parts
    assert "kind" not in parts
    assert "kind" in run(memory.recall("And when?", context=["What did Ana paint?"], explain=True))[0].parts


@pytest.mark.parametrize("bad", ["a text", [3], 5])
def test_a_bad_context_is_refused(memory, bad):
    with pytest.raises(ArgumentError, match="context"):
        run(memory.recall("And when?", context=bad))
