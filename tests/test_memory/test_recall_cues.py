"""Cues of a text and the lexicons behind them."""

import pytest

from memory.retrieval.index.record import Cue, cues_of
from memory.retrieval.languages import lexicon_for
from memory.retrieval.languages.base import NEUTRAL
from memory.retrieval.languages.english import ENGLISH


@pytest.mark.parametrize(
    ("text", "cue"),
    [
        ("What did you do? I was away.", Cue.ASKS),
        ("Where have you been?", Cue.ENDS_ASKING),
        ('She asked "why?"', Cue.ENDS_ASKING),
        ("I moved last spring.", Cue.FIRST_PERSON),
        ("That is my bicycle.", Cue.FIRST_PERSON),
        ("We met yesterday.", Cue.TIME),
        ("It was in May.", Cue.TIME),
        ("There were three of them.", Cue.NUMBER),
        ("It cost 40.", Cue.NUMBER),
        ("She flew to Lisbon.", Cue.NAME),
    ],
)
def test_a_text_shows_its_cue(text: str, cue: Cue) -> None:
    assert cues_of(text, ENGLISH) & cue


@pytest.mark.parametrize(
    ("text", "cue"),
    [
        ("Nothing is asked here.", Cue.ASKS),
        ("Why? Because.", Cue.ENDS_ASKING),
        ("You moved.", Cue.FIRST_PERSON),
        ("You may go.", Cue.TIME),
        ("They were gone.", Cue.NUMBER),
        ("Lisbon is far.", Cue.NAME),
        ("it's what I said", Cue.NAME),
    ],
)
def test_a_text_without_the_cue_does_not_show_it(text: str, cue: Cue) -> None:
    assert not cues_of(text, ENGLISH) & cue


def test_another_language_knows_question_marks_and_digits_and_no_more() -> None:
    assert lexicon_for("french") is NEUTRAL
    assert cues_of("Ich war gestern in Rom, I said.", NEUTRAL) == 0
    assert cues_of("Am 3. Mai?", NEUTRAL) == Cue.ASKS | Cue.ENDS_ASKING | Cue.NUMBER


@pytest.mark.parametrize("text", ["What books has she read?", "How many cats are there?", "Which different places?"])
def test_a_question_for_several_things_is_seen(text: str) -> None:
    assert ENGLISH.asks_several.search(text)


@pytest.mark.parametrize("text", ["What is her name?", "What does he do?", "Which book was it?", "Where is the bus?"])
def test_a_question_for_one_thing_is_not_taken_for_several(text: str) -> None:
    assert not ENGLISH.asks_several.search(text)
