"""Recall of past and present statements: periods of questions, near ties, newer statements behind the first hit.

Inner parts, on no face: ``tellback.memory.retrieval.languages.question_time``,
``tellback.memory.retrieval.languages.lexicon``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime

import pytest

from tellback.memory import FunctionEmbedder, LongTermMemory, Memory, SentenceEncoder
from tellback.memory import run_sync as run
from tellback.memory.retrieval.languages.lexicon import lexicon_for
from tellback.memory.retrieval.languages.question_time import find_question_time
from tellback.vectorstore import open_store

NOW = datetime(2025, 6, 15, 12, tzinfo=UTC)
DIRECTIONS = ("home", "smoking", "garden")


def meaning(texts: Sequence[str]) -> list[list[float]]:
    """Return a vector by topic: the words of each stand for what an encoder knows of it."""
    words = {
        "home": ("live", "flat", "moved", "boxes", "houseboat", "rent"),
        "smoking": ("smoke", "cigarette"),
        "garden": ("garden", "tomatoes"),
    }
    return [[0.05 + sum(text.lower().count(word) for word in words[topic]) for topic in DIRECTIONS] for text in texts]


MEASURED = "local/wordllama-topics"
"""A fingerprint whose beginning has a known profile: cosines of an embedder that nobody measured prove no change."""


def remembered(*statements: tuple[str, str], fingerprint: str = MEASURED, **fields: str) -> LongTermMemory:
    memory = LongTermMemory(
        open_store("numpy:"),
        embedder=FunctionEmbedder(meaning, dimension=len(DIRECTIONS), fingerprint=fingerprint, remote=False),
        clock=lambda: NOW,
    )
    run(
        memory.remember_many(
            [
                Memory(text, id=f"m{number}", occurred_at=datetime.fromisoformat(day).replace(tzinfo=UTC), **fields)
                for number, (day, text) in enumerate(statements)
            ]
        )
    )
    return memory


def found(memory: LongTermMemory, question: str) -> list[str]:
    return [hit.memory.id for hit in run(memory.recall(question, explain=True))]


HOME = (
    ("2023-02-01", "I live in a flat in Linden Street"),
    ("2023-05-01", "The garden has tomatoes"),
    ("2024-09-01", "The rent is due on Mondays"),
)


def test_a_newer_statement_of_the_same_matter_follows_the_first_hit_and_names_it() -> None:
    memory = remembered(*HOME, ("2024-10-01", "I smoke one cigarette a day"))
    hits = run(memory.recall("Where do I live?"))
    assert [hit.memory.id for hit in hits][:2] == ["m0", "m2"]
    assert hits[1].later_than == "m0"
    assert [hit.later_than for hit in hits if hit.memory.id != "m2"] == [None] * (len(hits) - 1)
    assert hits[0].score >= hits[1].score


def test_likely_change_follows_from_words_and_meaning_and_excludes_possessions() -> None:
    statements = ("2023-02-01", "I smoke ten cigarettes a day"), ("2023-05-01", "The garden has tomatoes")
    given_up = remembered(*statements, ("2024-09-01", "Given up every cigarette I used to smoke in a day"))
    likely = {hit.memory.id: hit.likely_change for hit in run(given_up.recall("Do I smoke?"))}
    assert likely == {"m0": False, "m1": False, "m2": True}
    theirs = remembered(*statements, ("2024-09-01", "Malik's best man gave up, his last cigarette is out"))
    assert not any(hit.likely_change for hit in run(theirs.recall("Do I smoke?")))


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        ("I take my coffee black, no sugar.", "No coffee any more, I drink rooibos now.", "How do I take my coffee?"),
        ("My dentist is Dr Weber.", "I switched to Dr Lang for my teeth.", "Who is my dentist?"),
        ("I drive a blue Golf.", "Sold the Golf and bought a Zoe.", "Which car do I have?"),
        ("Tom is vegetarian.", "Tom eats meat again.", "Is Tom vegetarian?"),
        ("Our rent is 850 euros.", "The rent went up to 900 euros.", "How much is our rent?"),
        ("Book club is on Tuesdays.", "Book club is now on Thursdays.", "When is book club?"),
        (
            "Lena's school is the Waldorf school.",
            "Lena changed to the grammar school.",
            "Which school does Lena go to?",
        ),
    ],
)
def test_a_plain_change_ranks_first_and_the_older_statement_names_it(older: str, newer: str, question: str) -> None:
    pytest.importorskip("wordllama", reason="the extra `local` is not installed")
    memory = LongTermMemory(open_store("numpy:"), embedder=SentenceEncoder(), clock=lambda: NOW)
    texts = [older, "The boiler was serviced by Mr Fonseca.", "My sister Ana is allergic to walnuts.", newer]
    days = [datetime(2025, month, 1, tzinfo=UTC) for month in (1, 2, 3, 4)]
    run(memory.remember_many([Memory(text, occurred_at=day) for text, day in zip(texts, days, strict=True)]))
    first, second = run(memory.recall(question, 2))
    assert [first.memory.text, second.memory.text] == [newer, older]
    assert first.likely_change
    assert second.outdated_by == first.memory.id
    run(memory.close())


@pytest.mark.parametrize(
    ("older", "newer", "question", "first"),
    [
        ("My mother moved into room 12.", "Mum's been moved to room 27.", "Which room was Mum in at first?", "room 12"),
        ("I drink five cups of coffee a day.", "Down to two cups of coffee a day.", "How many coffees a day?", "two"),
        ("We owe the roofer 2,300 euros.", "Roofer's paid off, hurray.", "Do we still owe the roofer money?", ""),
    ],
)
def test_recall_gives_the_older_and_the_newer_statement_and_marks_the_change(
    older: str, newer: str, question: str, first: str
) -> None:
    pytest.importorskip("wordllama", reason="the extra `local` is not installed")
    memory = LongTermMemory(open_store("numpy:"), embedder=SentenceEncoder(), clock=lambda: NOW)
    texts = [older, "The boiler was serviced by Mr Fonseca.", "My sister Ana is allergic to walnuts.", newer]
    days = [datetime(2025, month, 1, tzinfo=UTC) for month in (1, 2, 3, 4)]
    run(memory.remember_many([Memory(text, occurred_at=day) for text, day in zip(texts, days, strict=True)]))
    hits = run(memory.recall(question, 2)).hits
    assert {hit.memory.text for hit in hits} == {older, newer}
    assert first in hits[0].memory.text
    assert next(hit for hit in hits if hit.memory.text == newer).likely_change
    run(memory.close())


@pytest.mark.parametrize("work", ["I work at Siemens.", "I'm a carpenter."])
def test_an_amount_changes_no_home_work_or_name_that_is_asked_for(work: str) -> None:
    pytest.importorskip("wordllama", reason="the extra `local` is not installed")
    memory = LongTermMemory(open_store("numpy:"), embedder=SentenceEncoder(), clock=lambda: NOW)
    texts = [work, "My salary is 5200 euros a month now."]
    days = [datetime(2025, month, 1, tzinfo=UTC) for month in (1, 2)]
    run(memory.remember_many([Memory(text, occurred_at=day) for text, day in zip(texts, days, strict=True)]))
    hits = run(memory.recall("What do I do for a living?")).hits
    assert hits[0].memory.text == texts[0]
    assert not any(hit.likely_change for hit in hits)
    run(memory.close())


def test_a_turn_to_an_assistant_lends_no_words_to_the_next_turn_of_its_speaker() -> None:
    def parts(**fields: str) -> dict[str, float]:
        memory = LongTermMemory(open_store("numpy:"), clock=lambda: NOW)
        given = ("The boiler was serviced for 85 pounds", "I might move to Glasgow")
        run(
            memory.remember_many(
                Memory(text, id=f"m{number}", kind="turn", session="s", sequence=number, **fields)
                for number, text in enumerate(given)
            )
        )
        return {hit.memory.id: hit.parts.get("words", 0.0) for hit in run(memory.recall("boiler?", explain=True))}

    assert parts(speaker="Ana")["m1"] > 0
    assert parts(role="user").get("m1", 0.0) == 0


@pytest.mark.parametrize(
    "text",
    [
        "Thinking of moving to a houseboat",
        "If we moved, I'd rent a houseboat",
        "Jess says a houseboat is no place to live",
        "As a child I moved from flat to flat",
        "Ana moved, her boxes are everywhere",
        "My cousin Pavel moved, boxes everywhere",
        "Have you moved the boxes?",
    ],
)
def test_plans_hypotheses_quotations_habits_questions_and_other_people_change_nothing(text: str) -> None:
    hits = run(remembered(*HOME[:2], ("2024-09-01", text)).recall("Where do I live?"))
    assert hits[0].memory.id == "m0"
    assert [(hit.later_than, hit.outdated_by) for hit in hits] == [(None, None)] * len(hits)


def test_the_newest_of_near_ties_ranks_first_and_the_older_names_it() -> None:
    memory = remembered(
        ("2023-02-01", "We rent a flat by the harbour"), ("2024-02-01", "We rent a flat by the park now")
    )
    hits = run(memory.recall("Which flat do we rent?", explain=True))
    assert [hit.memory.id for hit in hits] == ["m1", "m0"]
    assert hits[1].outdated_by == "m1"
    assert sum(hits[0].parts.values()) == pytest.approx(hits[0].score)


def test_cosines_of_an_embedder_that_was_never_measured_prove_no_change() -> None:
    notes = ("2025-05-01", "The lathe stands in hall 3."), ("2025-06-01", "Ben has the key of hall 3.")
    memory = remembered(*notes, fingerprint="unmeasured")  # to which these notes look all alike
    assert found(memory, "Where does the lathe stand?")[0] == "m0"


def test_a_change_told_later_did_not_hold_before_it_was_told() -> None:
    memory = remembered(
        ("2024-05-01", "I take my coffee black."), ("2025-06-01", "No coffee any more, I drink rooibos.")
    )
    question, summer = "How do I take my coffee?", datetime(2024, 7, 1, tzinfo=UTC)
    assert [hit.memory.id for hit in run(memory.recall(question, as_of=summer))] == ["m0"]
    assert run(memory.why_not(question, "m1", as_of=summer)).stage == "validity"
    assert len(run(memory.recall(question))) == 2


def test_a_query_of_a_name_alone_outdates_no_statement() -> None:
    pytest.importorskip("wordllama", reason="the extra `local` is not installed")
    memory = LongTermMemory(open_store("numpy:"), embedder=SentenceEncoder(), clock=lambda: NOW)
    texts = ["Ana moved to Ghent in March.", "Dinner with Ana and Tom on Friday.", "The boiler was serviced."]
    days = [datetime(2025, month, 1, tzinfo=UTC) for month in (1, 2, 3)]
    run(memory.remember_many([Memory(text, occurred_at=day) for text, day in zip(texts, days, strict=True)]))
    for name in ("Ana", " ana "):
        assert all(hit.outdated_by is None for hit in run(memory.recall(name)))
    run(memory.close())


def test_statements_of_several_speakers_are_not_taken_for_changes() -> None:
    memory = remembered(*HOME, speaker="Ana", session="s1")
    moved = Memory("I moved, boxes everywhere", speaker="Ben", session="s1", occurred_at=NOW)
    run(memory.remember_many([moved]))
    assert all(hit.later_than is None for hit in run(memory.recall("Where does Ana live?")))


def test_statements_after_the_period_of_a_question_come_last() -> None:
    memory = remembered(*HOME, ("2025-02-01", "I live in a flat in Harbour Road, I live on my own"))
    assert found(memory, "Where do I live?")[0] == "m3"
    assert found(memory, "Where did I live in spring 2023?")[0] == "m0"
    assert found(memory, "Where did I live before 2024?")[-1] in ("m2", "m3")
    assert found(memory, "Where did I live in 2026?")[0] == "m3"


def test_a_statement_after_the_period_stays_where_nothing_earlier_is_about_the_question() -> None:
    memory = remembered(
        ("2023-05-01", "The garden has tomatoes"), ("2024-09-01", "I lived in a flat in Graz back then")
    )
    assert found(memory, "Where did I live in 2022?")[0] == "m1"


@pytest.mark.parametrize(
    ("question", "kind", "period", "rest"),
    [
        ("Where do I live?", "now", None, "Where do I live?"),
        ("Am I still with Anton?", "now", None, "Am I still with Anton?"),
        ("How old is Mum?", "now", None, "How old is Mum?"),
        ("Which boat is old?", "now", None, "Which boat is old?"),
        ("What do I drink before bed?", "now", None, "What do I drink before bed?"),
        ("What have I eaten since 2023?", "now", None, "What have I eaten since 2023?"),
        ("What is my rent in 2030?", "now", None, "What is my rent in 2030?"),
        ("When did I move to Porto?", "event", None, "When did I move to Porto?"),
        ("What happened in May 2023?", "event", ("2023-05-01", "2023-05-31"), "What happened ?"),
        ("Where did I live?", "past", None, "Where did I live?"),
        ("Where did I use to live?", "then", None, "Where did I live?"),
        ("Who was my team lead before the reshuffle?", "then", None, "Who was my team lead ?"),
        ("Who was my dentist before 2024?", "then", ("0001-01-01", "2023-12-31"), "Who was my dentist ?"),
        ("Where did I live in spring 2024?", "then", ("2024-03-01", "2024-05-31"), "Where did I live ?"),
        ("Where did I live in the winter of 2023?", "then", ("2023-12-01", "2024-02-29"), "Where did I live ?"),
        ("Where did I live last autumn?", "then", ("2024-09-01", "2024-11-30"), "Where did I live ?"),
        ("Who was I seeing at the end of 2023?", "then", ("2023-09-01", "2023-12-31"), "Who was I seeing ?"),
        ("Where did Tom stay mid-2024?", "then", ("2024-05-01", "2024-08-31"), "Where did Tom stay ?"),
        ("Where did I work in May?", "then", ("2025-05-01", "2025-05-31"), "Where did I work ?"),
        ("Where did I work in July?", "then", ("2024-07-01", "2024-07-31"), "Where did I work ?"),
        ("What was the rent in 2024-10?", "then", ("2024-10-01", "2024-10-31"), "What was the rent ?"),
        ("Where did I live two years ago?", "then", ("2023-01-01", "2023-12-31"), "Where did I live ?"),
        ("Wo habe ich im Frühling 2024 gewohnt?", "then", ("2024-03-01", "2024-05-31"), "Wo habe ich gewohnt?"),
        ("¿Dónde vivía antes?", "then", None, "¿Dónde vivía ?"),
        ("Who was my dentist before?", "then", None, "Who was my dentist ?"),
        ("What did I eat the day before?", "past", None, "What did I eat the day before?"),
    ],
)
def test_a_question_is_classified_as_about_now_then_an_event_or_the_past(
    question: str, kind: str, period: tuple[str, str] | None, rest: str
) -> None:
    time = find_question_time(question, lexicon_for("english"), NOW.date())
    span = None if period is None else tuple(map(date.fromisoformat, period))
    assert (time.kind, time.period and (time.period.first, time.period.last), time.rest) == (kind, span, rest)
