"""Names of participants in questions."""

import numpy as np

from memory.retrieval.index.session_statistics import Participants
from memory.retrieval.query_analysis import NameMentions, detect_mentions

PEOPLE = [(1, "Caroline"), (2, "Will Smith")]


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


def test_who_is_called_by_another_name_often_enough_gets_it_as_an_alias() -> None:
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


def test_a_call_in_a_session_of_three_says_nothing() -> None:
    people = Participants()
    first, second, third = (people.number(name) for name in ("A", "B", "C"))
    for speaker in (first, second, third):
        people.add(speaker, 0, 1)
    for _ in range(5):
        people.add(first, 0, 1, {"Bobby": 1})
    assert people.aliases(lambda word: 0) == {}


def test_aliases_equal_a_fresh_count_after_any_comings_and_goings() -> None:
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
        at: dict[int, int] = {}
        for speaker, session, calls in turns:
            people = {one for one, where, _ in turns if where == session}
            if len(people) == 2 and calls.count(word):
                (other,) = people - {speaker}
                at[other] = at.get(other, 0) + calls.count(word)
        best = min(at, key=lambda one: (-at[one], ["", "Anna", "Roberta", "Cecilia"][one]), default=None)
        if best is not None and at[best] >= 3 and at[best] >= 0.6 * sum(at.values()):
            found[word] = best
    return found
