"""Query analysis: cues, names of participants, and follow-up questions.

Inner parts, on no face: ``tellback.memory.retrieval.index.record``,
``tellback.memory.retrieval.index.session_statistics``, ``tellback.memory.retrieval.languages.lexicon``,
``tellback.memory.retrieval.query_analysis``.
"""

from __future__ import annotations

import numpy as np
import pytest

from tellback.memory import ArgumentError, LongTermMemory, Memory, RecallResult
from tellback.memory import run_sync as run
from tellback.memory.retrieval.index.record import TextFeature, text_features
from tellback.memory.retrieval.index.session_statistics import Participants
from tellback.memory.retrieval.languages.lexicon import NEUTRAL, lexicon_for
from tellback.memory.retrieval.query_analysis import (
    NameMentions,
    detect_mentions,
    follow_up_context,
    is_follow_up,
    remove_exclusions,
)
from tellback.vectorstore import Analyzer, open_store

PEOPLE = [(1, "Caroline"), (2, "Will Smith")]


def parts_of(found: RecallResult, id: str) -> dict[str, float]:
    (hit,) = (hit for hit in found if hit.memory.id == id)
    return dict(hit.parts)


def asked(text: str, aliases: dict[str, int] | None = None) -> NameMentions:
    return detect_mentions(text, PEOPLE, aliases or {}, is_ordinary=lambda word: word in {"will", "mark"})


def test_a_name_is_taken_out_with_its_possessive() -> None:
    assert asked("What is Caroline's dog called?") == NameMentions("What is dog called?", (1,))


def test_a_part_of_a_name_and_the_whole_name_mean_the_same_person() -> None:
    assert asked("When did Smith leave?").participants == (2,)
    assert asked("When did Will Smith leave?") == NameMentions("When did leave?", (2,))


def test_an_ordinary_word_is_a_name_only_with_a_capital_inside_the_sentence() -> None:
    assert asked("Will Caroline come?").participants == (1,)
    assert asked("When will Caroline come?").participants == (1,)
    assert asked("What did Will say?").participants == (2,)


def test_a_question_in_small_letters_still_names_people() -> None:
    assert asked("where does caroline live") == NameMentions("where does live", (1,))
    assert asked("when will it rain").participants == ()


def test_an_alias_stands_for_its_person() -> None:
    assert asked("Where did Caro go?", {"Caro": 1}) == NameMentions("Where did go?", (1,))


def test_a_name_inside_a_longer_word_is_left_alone() -> None:
    assert asked("What is Carolineum?") == NameMentions("What is Carolineum?", ())


def test_a_question_of_a_name_alone_keeps_it() -> None:
    assert asked("Caroline?") == NameMentions("Caroline?", (1,))


def test_a_name_called_often_enough_becomes_an_alias_of_the_addressed_participant() -> None:
    people = Participants()
    a, b = people.number("Anna"), people.number("Roberta")
    for session in range(2):
        people.add(a, session, 1, {"Bobby": 1})
        people.add(a, session, 1)
        people.add(b, session, 1, {"Anna": 1})
    assert people.aliases(lambda word: 0) == {}
    people.add(a, 1, 1, {"Bobby": 1})
    assert people.aliases(lambda word: 0) == {"Bobby": b}
    assert people.aliases(lambda word: 4) == {}, "more often a plain word"
    people.add(a, 1, -1, {"Bobby": -1})
    assert people.aliases(lambda word: 0) == {}, "one call was taken back"


def test_names_called_in_a_session_of_three_speakers_make_no_alias() -> None:
    people = Participants()
    first, second, third = (people.number(name) for name in ("A", "B", "C"))
    for speaker in (first, second, third):
        people.add(speaker, 0, 1)
    for _ in range(5):
        people.add(first, 0, 1, {"Bobby": 1})
    assert people.aliases(lambda word: 0) == {}


def test_aliases_equal_a_fresh_count_after_any_additions_and_removals() -> None:
    seed = 4
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    words = ["Bobby", "Annie", "Cee"]
    people, kept = Participants(), []
    numbers = [people.number(name) for name in ("Anna", "Roberta", "Cecilia")]
    seen = set()
    for _ in range(300):
        if kept and rng.random() < 0.35:
            count(people, *kept.pop(int(rng.integers(len(kept)))), -1)
        else:
            calls = tuple(rng.choice(words, int(rng.integers(0, 3))).tolist())
            kept.append((int(rng.choice(numbers)), int(rng.integers(4)), calls))
            count(people, *kept[-1])
        fresh = Participants()
        for name in ("Anna", "Roberta", "Cecilia"):
            fresh.number(name)
        for turn in kept:
            count(fresh, *turn)
        assert people.aliases(lambda word: 1) == fresh.aliases(lambda word: 1) == plain_aliases(kept)
        seen.update(people.aliases(lambda word: 1).items())
    assert seen


def count(people: Participants, speaker: int, session: int, calls: tuple[str, ...], sign: int = 1) -> None:
    people.add(speaker, session, sign, {word: sign * calls.count(word) for word in calls})


def plain_aliases(turns: list[tuple[int, int, tuple[str, ...]]]) -> dict[str, int]:
    """The slow, clear version."""
    found = {}
    for word in {call for _, _, calls in turns for call in calls}:
        values: dict[int, int] = {}
        for speaker, session, calls in turns:
            people = {item for item, where, _ in turns if where == session}
            if len(people) == 2 and calls.count(word):
                (other,) = people - {speaker}
                values[other] = values.get(other, 0) + calls.count(word)
        best = min(values, key=lambda item: (-values[item], ["", "Anna", "Roberta", "Cecilia"][item]), default=None)
        if best is not None and values[best] >= 3 and values[best] >= 0.6 * sum(values.values()):
            found[word] = best
    return found


TERMS = Analyzer().terms
ENGLISH = lexicon_for("english")


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
def test_a_continuing_back_referring_or_very_short_query_is_a_follow_up(text: str) -> None:
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
        "When is the ferry?",
    ],
)
def test_a_complete_query_is_no_follow_up(text: str) -> None:
    assert not is_follow_up(text, ENGLISH, TERMS)
    assert follow_up_context(text, [BEFORE], ENGLISH, TERMS) == ()


def test_follow_up_context_reaches_back_to_a_complete_turn_and_at_most_three_turns() -> None:
    items = ["Where does my uncle keep his boat?", BEFORE, "And where?", "", "With whom?"]
    assert follow_up_context("And when?", items, ENGLISH, TERMS) == (BEFORE, "And where?", "With whom?")
    assert follow_up_context("And when?", ["Why?"] * 9, ENGLISH, TERMS) == ("Why?",) * 3
    assert follow_up_context("And when?", [], ENGLISH, TERMS) == ()
    assert follow_up_context("Why?", ["far " * 500], ENGLISH, TERMS) == (("far " * 500)[:400],)


def test_in_the_neutral_lexicon_only_a_very_short_query_is_a_follow_up() -> None:
    assert is_follow_up("Warum?", NEUTRAL, TERMS)
    assert not is_follow_up("Wann hat meine Schwester das Haus verkauft?", NEUTRAL, TERMS)


@pytest.fixture
def memory(tmp_path):
    opened = LongTermMemory(open_store(f"sqlite:///{tmp_path}/m.db"))
    run(opened.remember_many(["Ana painted a lighthouse in August.", "The boat was sold for nine thousand crowns."]))
    yield opened
    run(opened.close())


def test_a_follow_up_query_is_recalled_together_with_its_context_and_noted(memory):
    alone = run(memory.recall("And when was that?"))
    assert alone.hits == ()
    leaning = run(memory.recall("And when was that?", context=[BEFORE]))
    assert leaning[0].memory.text == "Ana painted a lighthouse in August."
    assert f"asked together with what it leans on: {BEFORE}" in leaning.notes


def test_a_complete_query_is_recalled_without_its_context(memory):
    question = "For how much was the boat sold?"
    assert run(memory.recall(question, context=[BEFORE])) == run(memory.recall(question))


def test_a_follow_up_asks_for_a_time_by_its_own_words_not_its_context(memory):
    talk = [("Ana", "I painted a lighthouse in August."), ("Ben", "How nice!")]
    run(
        memory.remember_many(
            [Memory(text, speaker=name, session="s", sequence=i) for i, (name, text) in enumerate(talk)]
        )
    )
    parts = run(
        memory.recall("And why?", context=["When did Ana paint a lighthouse?"], explain=True, where={"session": "s"})
    )[0].parts
    assert "time" not in parts
    asked = run(memory.recall("And when?", context=["What did Ana paint?"], explain=True, where={"session": "s"}))
    assert "time" in asked[0].parts


@pytest.mark.parametrize("bad", ["a text", [3], 5])
def test_recall_refuses_an_invalid_context(memory, bad):
    with pytest.raises(ArgumentError, match="context"):
        run(memory.recall("And when?", context=bad))


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
    ],
)
def test_text_features_find_each_english_cue(text: str, cue: TextFeature) -> None:
    assert text_features(text, ENGLISH) & cue


@pytest.mark.parametrize(
    ("text", "cue"),
    [
        ("Nothing is asked here.", TextFeature.ASKS),
        ("Why? Because.", TextFeature.ENDS_ASKING),
        ("You moved.", TextFeature.FIRST_PERSON),
        ("You may go.", TextFeature.TIME),
        ("They were gone.", TextFeature.NUMBER),
    ],
)
def test_text_features_do_not_find_absent_english_cues(text: str, cue: TextFeature) -> None:
    assert not text_features(text, ENGLISH) & cue


def test_the_neutral_lexicon_sees_question_marks_and_digits_only() -> None:
    assert lexicon_for("french") is NEUTRAL
    assert text_features("Ich war gestern in Rom, I said.", NEUTRAL) == 0
    assert text_features("Am 3. Mai?", NEUTRAL) == TextFeature.ASKS | TextFeature.ENDS_ASKING | TextFeature.NUMBER


@pytest.mark.parametrize("text", ["What books has she read?", "How many cats are there?", "Which different places?"])
def test_asks_several_matches_questions_for_several_things(text: str) -> None:
    assert ENGLISH.asks_several.search(text)


@pytest.mark.parametrize("text", ["What is her name?", "What does he do?", "Which book was it?", "Where is the bus?"])
def test_asks_several_does_not_match_questions_for_one_thing(text: str) -> None:
    assert not ENGLISH.asks_several.search(text)


@pytest.mark.parametrize(
    ("language", "text", "searched"),
    [
        ("english", "What does Mum drink besides green tea?", "What does Mum drink ?"),
        ("english", "Besides Rome, which cities did we see?", "which cities did we see?"),
        ("english", "What did he order instead of the soup at Rossi's?", "What did he order at Rossi's?"),
        ("english", "Which languages other than German does Ana speak?", "Which languages does Ana speak?"),
        ("german", "Was trinkt Mama außer grünem Tee und Kaffee?", "Was trinkt Mama ?"),
        ("spanish", "¿Qué bebe mamá aparte del té verde?", "¿Qué bebe mamá verde?"),
        ("chinese", "除了茶以外妈妈喝什么?", "妈妈喝什么?"),
        ("english", "Who lives beside the lake?", None),
        ("english", "Besides the lake?", None),
    ],
)
def test_exclusions_are_removed_from_a_question(language: str, text: str, searched: str | None) -> None:
    rest, note = remove_exclusions(text, lexicon_for(language), Analyzer(language).terms)
    assert rest == (searched or text)
    assert (note is None) == (searched is None)


@pytest.mark.parametrize(
    "question", ["What is my latest phone?", "What is my current phone?", "What was my first phone?"]
)
def test_words_like_latest_or_first_in_a_question_are_no_topic(question: str) -> None:
    memory = LongTermMemory(open_store("numpy:"))
    run(memory.remember_many(["The latest train, the first of the current plan, is late.", "My phone is a Nokia."]))
    (hit,) = run(memory.recall(question, 1, explain=True))
    assert hit.memory.text == "My phone is a Nokia."
    assert [match.word for match in hit.matched] == ["phone"]


def test_a_list_question_may_return_more_than_k_hits_with_a_note() -> None:
    memory = LongTermMemory(open_store("numpy:"))
    gifts = ("teapot", "scarf", "lamp", "kettle", "watch")
    run(memory.remember_many([f"Gave Mum a {gift} as a present." for gift in gifts]))
    found = run(memory.recall("Which presents has Mum had?", 3))
    assert (len(found), found.beyond) == (5, 2)
    assert "a list was asked for, so 2 more than 3 are shown" in found.notes
    single = run(memory.recall("Who gave Mum a present?", 3))
    assert (len(single), single.beyond) == (3, 0)


def test_excluded_words_demote_a_memory_unless_it_answers_the_question() -> None:
    memory = LongTermMemory(open_store("numpy:"))
    run(
        memory.remember_many(
            ["We saw the city of Rome.", "We saw the city of Lisbon.", "I drink tea instead of coffee."]
        )
    )
    first = run(memory.recall("Which city did we see besides Rome?", 1, explain=True))[0]
    assert "Lisbon" in first.memory.text
    items = [Memory("Any town you know, besides Rome?", id="asked"), Memory("Rome is a town we know.", id="stated")]
    run(memory.remember_many(items))
    found = run(memory.recall("Which town do we know besides Rome?", 9, explain=True))
    assert "excluded" in parts_of(found, "stated")
    assert "excluded" not in parts_of(found, "asked"), "it sets the same aside"
    assert "tea" in run(memory.recall("What do I drink instead of coffee?", 1))[0].memory.text
