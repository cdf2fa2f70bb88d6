"""Confidence of a recall: one scale for every store, and the two reasons of abstention.

Inner parts, on no face: ``tellback.memory.retrieval.scoring.confidence``, ``tellback.memory.retrieval.scoring.scores``,
``tellback.memory.retrieval.scoring.settings``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from tellback.memory import HashingEmbedder, LongTermMemory, Memory, RecallResult
from tellback.memory import run_sync as run
from tellback.memory.retrieval.scoring.confidence import (
    ABSTENTION_LEVEL,
    abstention_bounds,
    assess_confidence,
    bounds_for_size,
    question_bonus,
    to_confidence_scale,
    topic_confidence,
)
from tellback.memory.retrieval.scoring.scores import ScoredCandidates
from tellback.memory.retrieval.scoring.settings import AbstentionBounds
from tellback.vectorstore import open_store

BOUNDS = (0.3, 0.2)
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
TALK = [
    ("Anna", "My puppy Biscuit chewed the red sofa again."),
    ("Bela", "I started learning the cello in March."),
    ("Anna", "The lake was frozen, so we skated for hours."),
    ("Bela", "My sister sells candles at the market."),
    ("Anna", "I am allergic to walnuts."),
]


def memory(url: str = "numpy:", *, embedder: HashingEmbedder | None = None) -> LongTermMemory:
    return LongTermMemory(open_store(url), embedder=embedder, clock=lambda: NOW)


def turns() -> list[Memory]:
    return [
        Memory(text, id=f"k{position}", kind="turn", speaker=who, session="s", sequence=position, key=f"k{position}")
        for position, (who, text) in enumerate(TALK)
    ]


def shares(*values: float) -> np.ndarray:
    return np.array(values)


def source(topic: float, lead: float = 0.0) -> ScoredCandidates:
    return ScoredCandidates("/conversation", "conversation", ("a",), {}, topic, lead)


def test_the_confidence_scale_maps_the_bound_to_the_abstention_level_and_keeps_its_ends():
    assert [to_confidence_scale(value, 0.25) for value in (-1.0, 0.0, 0.25, 1.0, 7.0)] == [
        0.0,
        0.0,
        ABSTENTION_LEVEL,
        1.0,
        1.0,
    ]
    assert to_confidence_scale(1.0, 1.0) == 1.0
    assert to_confidence_scale(-1.0, -0.1, low=-1.0, high=0.0) == 0.0
    grown = [to_confidence_scale(value, 0.25) for value in np.linspace(0, 1, 50)]
    assert grown == sorted(set(grown))


def test_a_full_match_has_full_confidence_with_and_without_a_vector():
    item = shares(1.0)
    assert topic_confidence(item, item, None, bonus=0.0, bounds=BOUNDS) == 1.0
    assert topic_confidence(item, item, item, bonus=0.0, bounds=BOUNDS) == 1.0
    assert topic_confidence(item * 0, item * 0, item * 0, bonus=0.05, bounds=BOUNDS) == 0.0


def test_topic_confidence_needs_one_candidate_that_matches_in_words_and_vector():
    apart = topic_confidence(shares(0.8, 0.0), shares(0.8, 0.0), shares(0.0, 0.8), bonus=0.0, bounds=BOUNDS)
    together = topic_confidence(shares(0.8, 0.0), shares(0.8, 0.0), shares(0.8, 0.0), bonus=0.0, bounds=BOUNDS)
    assert apart < together


def test_a_candidate_without_a_vector_is_measured_by_its_words_alone():
    waiting = topic_confidence(shares(0.5), shares(0.5), shares(np.nan), bonus=0.0, bounds=BOUNDS)
    assert waiting == topic_confidence(shares(0.5), shares(0.5), None, bonus=0.0, bounds=BOUNDS)
    assert waiting > topic_confidence(shares(0.5), shares(0.5), shares(0.0), bonus=0.0, bounds=BOUNDS)


def test_unseen_words_and_names_lower_the_question_bonus_and_more_words_raise_it():
    weights, all_seen, none_named = shares(1, 1, 1, 1), np.ones(4, bool), np.zeros(4, bool)
    known = question_bonus(weights, all_seen, none_named)
    word = question_bonus(weights, np.array([True, True, True, False]), none_named)
    name = question_bonus(weights, np.array([True, True, True, False]), np.array([False, False, False, True]))
    assert known > word > name
    assert known > question_bonus(weights[:2], all_seen[:2], none_named[:2])
    assert question_bonus(shares(), np.zeros(0, bool), np.zeros(0, bool)) == 0.0


def test_confidence_is_below_the_abstention_level_exactly_with_an_abstention_reason():
    good, weak, other = source(0.8), source(0.4), source(0.8, lead=-0.4)
    assert assess_confidence([], None, lead_bound=-0.1) == (0.0, "nothing")
    assert assess_confidence([good], good, lead_bound=-0.1) == (0.8, None)
    assert assess_confidence([weak], weak, lead_bound=-0.1) == (0.4, "nothing")
    confidence, reason = assess_confidence([other], other, lead_bound=-0.1)
    assert (reason, confidence < ABSTENTION_LEVEL) == ("other", True)
    assert assess_confidence([source(0.8, lead=-0.1)], source(0.8, lead=-0.1), lead_bound=-0.1) == (
        ABSTENTION_LEVEL,
        None,
    )
    assert assess_confidence([weak, good], good, lead_bound=-0.1) == (0.8, None)


@pytest.mark.parametrize("embedder", [None, HashingEmbedder(dimension=64)])
def test_contents_of_other_namespaces_change_neither_scores_nor_confidence(tmp_path: Path, embedder):
    asked = (
        "Who learns the cello?",
        "What is Anna allergic to?",
        "Since when is Anna learning the cello?",
        "Tax forms?",
    )

    def answers(held: LongTermMemory) -> list[tuple[object, ...]]:
        found = [run(held.recall(text, namespace="ana")) for text in asked]
        return [(item.confidence, item.abstain, [(hit.memory.text, hit.score) for hit in item]) for item in found]

    alone, among = memory(embedder=embedder), memory(f"sqlite:///{tmp_path}/m.db", embedder=embedder)
    for held in (alone, among):
        run(held.remember_many(turns(), namespace="ana"))
    before = answers(among)
    others = [Memory(f"The cello of number {number} is allergic to walnuts.", speaker="Anna") for number in range(200)]
    for name in ("bob", "", "ana/x", "ana2"):
        run(among.remember_many(others, namespace=name))
    assert answers(among) == before == answers(alone)
    assert [reason for _, reason, _ in before] == [None, None, "other", "nothing"]
    for held in (alone, among):
        run(held.close())


def test_an_unseen_name_lowers_the_confidence_more_than_an_unseen_word():
    held = memory()
    run(held.remember_many(turns()))

    def confidence(text: str) -> float:
        found: RecallResult = run(held.recall(text))
        return found.confidence

    assert confidence("Did the sister of Quentin sell candles?") < confidence(
        "Did the sister of somebody sell candles?"
    )


def test_the_abstention_bound_grows_with_the_memory_size_up_to_the_bound_of_many():
    bounds = [bounds_for_size(count, (0.3, 0.3), 0.25)[0] for count in (0, 1, 2, 10, 79, 80, 10_000)]
    assert bounds[0] == bounds[1] < 0 < bounds[3]
    assert bounds[1:] == sorted(bounds[1:])
    assert bounds[-1] == bounds[-2] == 0.3


def test_the_abstention_bound_of_documents_grows_on_with_their_number():
    few, large, many = (abstention_bounds(AbstentionBounds(), count, documents=True)[0] for count in (8, 80, 8_000))
    assert few < large < many
    turns = [abstention_bounds(AbstentionBounds(), count)[0] for count in (80, 8_000)]
    assert turns[0] == turns[1]


def test_a_topic_bound_below_zero_still_allows_abstention():
    none, weak = shares(0.0), shares(0.1)
    sure = topic_confidence(weak, weak, weak, bonus=0.0, bounds=(-0.02, -0.02))
    doubted = topic_confidence(weak, weak, weak, bonus=-0.15, bounds=(-0.02, -0.02))
    assert 0 < doubted < ABSTENTION_LEVEL < sure
    assert topic_confidence(none, none, none, bonus=0.0, bounds=(-0.02, -0.02)) == 0.0


def test_a_memory_of_one_entry_answers_its_topic_and_abstains_on_another():
    held = memory(embedder=HashingEmbedder(dimension=256))
    run(held.remember("My sister is allergic to nuts."))
    assert run(held.recall("Which allergy does my sister have?")).abstain is None
    assert run(held.recall("When does the train leave?")).abstain == "nothing"
    run(held.close())


def test_a_repeated_question_is_no_evidence():
    held = memory(embedder=HashingEmbedder(dimension=256))
    run(held.remember_many([*turns(), Memory("When does the train to Rome leave?", kind="turn", key="q1")]))
    assert run(held.recall("When does the train to Rome leave?")).abstain == "nothing"
    run(held.close())


def test_the_recall_result_counts_the_searched_memories(tmp_path: Path):
    held = memory(f"sqlite:///{tmp_path}/m.db")
    assert run(held.recall("Anything?")).searched == 0
    run(held.remember_many(turns()))
    assert run(held.recall("Who learns the cello?", k=1)).searched == len(TALK)
    run(held.close())


def test_a_repeated_question_lends_its_words_to_its_answer_only():
    held = memory(embedder=HashingEmbedder(dimension=256))
    given = ("I started at the observatory.", "Where do I work?", "Thanks a lot.")
    items = [("user", text) for text in given]
    run(held.remember_many(_session("a", items)))
    found = run(held.recall("Where do I work?", explain=True, all_utterances=True))
    thanks = next(hit for hit in found if hit.memory.text == "Thanks a lot.")
    assert thanks.parts.get("words", 0.0) == 0.0
    answered = [("user", "When does the ferry leave?"), ("assistant", "At noon, from the old pier.")]
    run(held.remember_many(_session("b", answered)))
    again = run(held.recall("When does the ferry leave?"))
    assert again[0].memory.text == "At noon, from the old pier."
    run(held.close())


def _session(name: str, said: list[tuple[str, str]]) -> list[Memory]:
    return [
        Memory(text, kind="turn", role=role, session=name, sequence=position, key=f"{name}{position}")
        for position, (role, text) in enumerate(said)
    ]
