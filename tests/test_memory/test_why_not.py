"""Explanation of a recall: the stage that left a memory out, and the matched words of a hit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tellback.memory import ArgumentError, HashingEmbedder, LongTermMemory, Memory, RecallSettings
from tellback.memory import run_sync as run
from tellback.memory.internals import CONVERSATION, DOCUMENTS, RecallStage
from tellback.vectorstore import UnsupportedError, WrapperStore, open_store
from tellback.vectorstore.testing import ModelStore

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
QUESTION = "Which instrument does my sister play?"


@pytest.fixture
def memory(tmp_path):
    opened = LongTermMemory(open_store(f"sqlite:///{tmp_path}/m.db"), clock=lambda: NOW)
    yield opened
    run(opened.close())


def kept(memory: LongTermMemory, text: str, **fields: object) -> str:
    return run(memory.remember(Memory(text, **fields))).id


def told(memory: LongTermMemory, id: str, k: int = 10, **options: object) -> tuple[RecallStage, str]:
    answer = run(memory.why_not(QUESTION, id, k, **options))
    assert answer.id == id
    found = run(memory.recall(QUESTION, k, **options))
    assert (answer.stage is RecallStage.FOUND) == (id in [hit.memory.id for hit in found])
    return answer.stage, answer.reason


def test_why_not_of_a_hit_returns_its_rank_score_and_parts(memory):
    cello = kept(memory, "My sister plays the cello, an instrument with strings.")
    kept(memory, "The instrument shop is closed.")
    answer = run(memory.why_not(QUESTION, cello))
    hit = run(memory.recall(QUESTION, explain=True))[0]
    assert (answer.stage, answer.reason, answer.rank) == (RecallStage.FOUND, "hit 1 of 2", 1)
    assert (answer.score, answer.parts) == (hit.score, hit.parts)
    assert (answer.by_words, answer.by_vector) == (1, None)
    assert sum(answer.parts.values()) == pytest.approx(answer.score)


def test_why_not_of_a_memory_below_the_limit_returns_its_rank_and_the_needed_score(memory):
    kept(memory, "My sister plays the cello, an instrument with strings.")
    low = kept(memory, "The instrument shop is closed.")
    answer = run(memory.why_not(QUESTION, low, 1))
    assert (answer.stage, answer.reason, answer.rank) == (RecallStage.RANK, "ranked 2; 1 were asked for", 2)
    assert answer.score < answer.needed


def test_why_not_answers_alike_for_an_unknown_id_and_an_id_of_another_namespace(memory):
    hidden = run(memory.remember("My sister plays the cello.", namespace="other")).id
    assert (
        told(memory, hidden)
        == told(memory, "nobody")
        == (RecallStage.UNKNOWN, "no memory of that id is in what was asked")
    )


def test_why_not_of_a_memory_in_an_excluded_partition_names_the_partition(memory):
    cello = kept(memory, "My sister plays the cello.")
    assert told(memory, cello, partitions=(DOCUMENTS,)) == (
        RecallStage.PARTITION,
        "it is in the conversation, which was not asked",
    )
    assert told(memory, cello, partitions=(CONVERSATION,))[0] is RecallStage.FOUND


def test_why_not_of_an_earlier_version_names_the_superseding_memory(memory):
    id = kept(memory, "My sister plays the cello.")
    run(memory.correct(id, "My sister plays the violin."))
    old = run(memory.history(id))[1].id
    stage, reason = told(memory, old)
    assert stage is RecallStage.SUPERSEDED
    assert f"superseded by {id}" in reason
    assert told(memory, old, as_of=NOW)[0] is RecallStage.SUPERSEDED


@pytest.mark.parametrize(
    ("fields", "stage", "words"),
    [
        ({"disabled": True}, RecallStage.DISABLED, "disabled"),
        ({"expires_at": NOW}, RecallStage.EXPIRED, "expired at 2026-03-01"),
        ({"valid_from": NOW + timedelta(days=1)}, RecallStage.VALIDITY, "only from 2026-03-02"),
        ({"valid_to": NOW - timedelta(days=1)}, RecallStage.VALIDITY, "until 2026-02-28"),
    ],
)
def test_why_not_names_why_a_memory_is_not_current(memory, fields, stage, words):
    id = kept(memory, "My sister plays the cello.", **fields)
    found, reason = told(memory, id)
    assert found is stage
    assert words in reason


def test_why_not_of_a_memory_recorded_after_known_at_names_the_validity_stage(memory):
    id = kept(memory, "My sister plays the cello.")
    assert told(memory, id, known_at=NOW - timedelta(days=1))[0] is RecallStage.VALIDITY


def test_why_not_of_a_memory_outside_the_filter_names_the_filter_stage(memory):
    id = kept(memory, "My sister plays the cello.", tags=("music",))
    assert told(memory, id, tags=("work",))[0] is RecallStage.FILTER
    assert told(memory, id, where={"kind": "event"})[0] is RecallStage.FILTER
    assert told(memory, id, tags=("music",))[0] is RecallStage.FOUND


def test_why_not_of_a_deduplicated_memory_names_the_memory_with_the_same_text(memory):
    first = kept(memory, "My sister plays the cello.", speaker="Ana")
    second = kept(memory, "My  sister plays the CELLO.", speaker="Ana", key="again")
    stages = {id: told(memory, id) for id in (first, second)}
    (folded,) = [id for id, (stage, _) in stages.items() if stage is RecallStage.FOLDED]
    (other,) = {first, second} - {folded}
    assert stages[folded][1] == f"says the same as {other}"


def test_why_not_of_a_memory_over_the_token_budget_names_the_budget_stage(memory):
    id = kept(memory, "My sister plays the cello.")
    assert told(memory, id, token_budget=2, counter=len)[0] is RecallStage.BUDGET


def test_why_not_of_a_memory_that_was_no_candidate_returns_its_rank_in_both_searches(tmp_path):
    embedder = HashingEmbedder(dimension=64)
    settings = RecallSettings(candidates=2)
    memory = LongTermMemory(open_store("numpy:"), embedder=embedder, recall_settings=settings, clock=lambda: NOW)
    for number in range(4):
        kept(memory, f"Which instrument my sister plays: number {number}.")
    far = kept(memory, "My uncle sold his tractor.")
    answer = run(memory.why_not(QUESTION, far))
    assert (answer.stage, answer.rank, answer.by_words) == (RecallStage.CANDIDATES, None, None)
    assert answer.by_vector > 2
    assert answer.reason == (
        "not among the best 2 of either search, nor beside one of them: "
        f"shares no word with the question, number {answer.by_vector} by vector"
    )


def test_why_not_on_a_store_without_query_stages_raises_unsupported():
    class Data(WrapperStore):
        """Data alone, whatever it wraps."""

    memory = LongTermMemory(Data(ModelStore()))
    with pytest.raises(UnsupportedError, match="why_not"):
        run(memory.why_not(QUESTION, "a"))


@pytest.mark.parametrize("bad", [("", "a"), (QUESTION, ""), (QUESTION, 7)])
def test_why_not_with_an_invalid_question_or_id_raises(memory, bad):
    with pytest.raises(ArgumentError):
        run(memory.why_not(*bad))


def test_a_hit_names_its_matched_words_and_their_positions(memory):
    run(
        memory.remember_many(
            [
                Memory("Which instrument did you choose?", kind="turn", speaker="Ben", session="s", sequence=0),
                Memory("The cello, my sister said.", kind="turn", speaker="Ana", session="s", sequence=1),
            ]
        )
    )
    hits = run(memory.recall("Which instrument is my sister's cello?", explain=True))
    answer = next(hit for hit in hits if "cello" in hit.memory.text)
    matched = {item.word: (item.by, item.similarity, item.where) for item in answer.matched}
    assert matched == {
        "instrument": ("instrument", 1.0, "question"),
        "sister's": ("sister", 1.0, "here"),
        "cello": ("cello", 1.0, "here"),
    }
    assert sum(item.weight for item in answer.matched) == pytest.approx(1.0)
    assert run(memory.recall("Which instrument?"))[0].matched == ()
