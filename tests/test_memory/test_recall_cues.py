"""Cues of a text and the lexicons behind them."""

import pytest

from memory.retrieval.index.record import TextFeature, text_features
from memory.retrieval.languages import lexicon_for
from memory.retrieval.languages.base import NEUTRAL
from memory.retrieval.languages.english import ENGLISH


@pytest.mark.parametrize(
    ("text", "cue"),
    [
        ("What did you do? I was away.", TextFeature.ASKS),
        ("Where have you been?", TextFeature.ENDS_ASKING),
        ('She asked "why?"', TextFeature.ENDS_ASKING),
        ("I moved last spring.", TextFeature.FIRST_PERSON),
        ("That is my bicycle.", TextFeature.FIRST_PERSON),
        ("We met yesterday.", TextFeature.TIME),
        ("It was in May.", TextFeature.TIME),
        ("There were three of them.", TextFeature.NUMBER),
        ("It cost 40.", TextFeature.NUMBER),
        ("She flew to Lisbon.", TextFeature.NAME),
    ],
)
def test_a_text_shows_its_cue(text: str, cue: TextFeature) -> None:
    assert text_features(text, ENGLISH) & cue


@pytest.mark.parametrize(
    ("text", "cue"),
    [
        ("Nothing is asked here.", TextFeature.ASKS),
        ("Why? Because.", TextFeature.ENDS_ASKING),
        ("You moved.", TextFeature.FIRST_PERSON),
        ("You may go.", TextFeature.TIME),
        ("They were gone.", TextFeature.NUMBER),
        ("Lisbon is far.", TextFeature.NAME),
        ("it's what I said", TextFeature.NAME),
    ],
)
def test_a_text_without_the_cue_does_not_show_it(text: str, cue: TextFeature) -> None:
    assert not text_features(text, ENGLISH) & cue


def test_another_language_knows_question_marks_and_digits_and_no_more() -> None:
    assert lexicon_for("french") is NEUTRAL
    assert text_features("Ich war gestern in Rom, I said.", NEUTRAL) == 0
    assert text_features("Am 3. Mai?", NEUTRAL) == TextFeature.ASKS | TextFeature.ENDS_ASKING | TextFeature.NUMBER


@pytest.mark.parametrize("text", ["What books has she read?", "How many cats are there?", "Which different places?"])
def test_a_question_for_several_things_is_seen(text: str) -> None:
    assert ENGLISH.asks_several.search(text)


@pytest.mark.parametrize("text", ["What is her name?", "What does he do?", "Which book was it?", "Where is the bus?"])
def test_a_question_for_one_thing_is_not_taken_for_several(text: str) -> None:
    assert not ENGLISH.asks_several.search(text)
