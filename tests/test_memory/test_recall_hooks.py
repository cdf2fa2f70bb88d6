"""Hooks of a recall: rewrite, expansion, imagined answer, reranker; bounded, and without effect when they fail.

Inner parts, on no face: ``tellback.memory.retrieval.scoring.scores``.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tellback.memory import (
    ArgumentError,
    HashingEmbedder,
    LocalEmbedder,
    LongTermMemory,
    Memory,
    RecallHooks,
    RecallResult,
)
from tellback.memory import run_sync as run
from tellback.memory.internals import RecallStage, local_available
from tellback.memory.retrieval.scoring.scores import QueryVariant, ScoredCandidates, fuse_scores
from tellback.vectorstore import open_store
from tests.support.homes import HOMES, address_in_home

TEXTS = [
    "The old barometer fell all afternoon.",
    "My sister keeps bees behind the mill.",
    "A kestrel nests in the church tower.",
    "Honey sells well at the Saturday market.",
    "The mill wheel was repaired with oak.",
    "We rowed across the estuary at dawn.",
]


@pytest.fixture(params=HOMES)
def memory(request, tmp_path: Path):
    url = address_in_home(request, tmp_path)
    opened = LongTermMemory(open_store(url), embedder=HashingEmbedder(dimension=64))
    run(opened.remember_many([Memory(text, key=f"k{position}") for position, text in enumerate(TEXTS)]))
    yield opened
    run(opened.close())


def keys(found: RecallResult) -> list[int]:
    return [int((hit.memory.key or "k9")[1:]) for hit in found]


def told(found: RecallResult) -> list[tuple[str, float]]:
    return [(hit.memory.id, hit.score) for hit in found]


def by_length(question: str, texts: Sequence[str]) -> list[float]:
    return [float(len(text)) for text in texts]


async def by_length_slowly(question: str, texts: Sequence[str]) -> list[float]:
    await asyncio.sleep(0)
    return by_length(question, texts)


def test_the_rewrite_hook_replaces_the_query_and_is_noted(memory):
    seen = []

    def rewrite(question: str, context: Sequence[str]) -> str:
        seen.append((question, context))
        return "Who keeps bees?"

    hooks = RecallHooks(rewrite=rewrite)
    found = run(memory.recall("What about her hobby?", context=("Tell me about my sister.",), hooks=hooks))
    assert keys(found)[0] == 1
    assert seen == [("What about her hobby?", ("Tell me about my sister.",))]
    assert "asked as: Who keeps bees?" in found.notes


def test_the_expand_hook_adds_a_bounded_number_of_queries(memory):
    def expand(question: str) -> list[str]:
        return [question, "kestrel", "barometer", "estuary"]

    plain = run(memory.recall("Who keeps bees?", 6))
    found = run(memory.recall("Who keeps bees?", 6, hooks=RecallHooks(expand=expand, most=3)))
    assert keys(found)[0] == keys(plain)[0] == 1
    assert {0, 2} <= set(keys(found)[:3])
    assert [note for note in found.notes if note.startswith("asked too")] == ["asked too: kestrel / barometer"]


async def imagined(question: str) -> str:
    return "A kestrel nests in the church tower."


def test_the_imagine_hook_finds_similar_memories_without_changing_the_confidence(memory):
    question = "Which bird of prey lives nearby?"
    plain = run(memory.recall(question))
    found = run(memory.recall(question, hooks=RecallHooks(imagine=imagined), explain=True))
    assert keys(found)[0] == 2
    assert (found.confidence, found.abstain) == (plain.confidence, plain.abstain)
    assert "searched with an imagined answer too" in found.notes
    assert sum(found[0].parts.values()) == pytest.approx(found[0].score)


@pytest.mark.parametrize("rerank", [by_length, by_length_slowly])
def test_a_reranker_orders_the_hits_and_shows_its_part(memory, rerank):
    hooks = RecallHooks(rerank=rerank, share=1.0)
    found = run(memory.recall("mill bees honey kestrel", 3, hooks=hooks, explain=True))
    assert [len(hit.memory.text) for hit in found] == sorted([len(hit.memory.text) for hit in found], reverse=True)
    assert len(found) == 3
    assert found[0].parts["rerank"] > 0
    for hit in found:
        assert sum(hit.parts.values()) == pytest.approx(hit.score)
    mixed = run(memory.recall("mill bees honey kestrel", 3, hooks=RecallHooks(rerank=rerank), explain=True))
    assert {"words", "rerank"} <= set(mixed[0].parts)


def test_equal_scores_of_a_reranker_leave_the_order(memory):
    def alike(question: str, texts: Sequence[str]) -> list[float]:
        return [1.0] * len(texts)

    plain, found = run(memory.recall("mill bees")), run(memory.recall("mill bees", hooks=RecallHooks(rerank=alike)))
    assert told(found) == told(plain)

    def halves(question: str, texts: Sequence[str]) -> list[float]:
        return [float("mill" in text) for text in texts]

    ranked = keys(run(memory.recall("mill bees honey", hooks=RecallHooks(rerank=halves, share=1.0))))
    plain_order = keys(run(memory.recall("mill bees honey")))
    assert ranked[2:] == [item for item in plain_order if item not in ranked[:2]]


def test_a_reranker_gets_only_candidates_within_its_depth_and_the_rest_follow(memory):
    seen: list[int] = []

    def rerank(question: str, texts: Sequence[str]) -> list[float]:
        seen.append(len(texts))
        return list(range(len(texts)))

    plain = keys(run(memory.recall("mill bees honey kestrel", 6)))
    found = keys(run(memory.recall("mill bees honey kestrel", 6, hooks=RecallHooks(rerank=rerank, depth=2, share=1.0))))
    assert seen == [2]
    assert found == [plain[1], plain[0], *plain[2:]]


@pytest.mark.skipif(not local_available(), reason="the extra local is not installed")
def test_the_cosine_of_an_embedder_serves_as_a_reranker(memory):
    embedder = LocalEmbedder()

    async def cosine(question: str, texts: Sequence[str]) -> Sequence[float]:
        rows = np.asarray(await embedder.embed([question, *texts]))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return [float(item) for item in rows[1:] @ rows[0]]

    question = "Which falcon breeds in the steeple?"
    nearest = np.argsort([-item for item in run(cosine(question, TEXTS))], kind="stable")
    found = run(memory.recall(question, 6, hooks=RecallHooks(rerank=cosine, share=1.0)))
    assert keys(found) == nearest.tolist()
    assert not [note for note in found.notes if "left out" in note]


def broken(*given: object) -> str:
    raise OSError("the model is away")


async def forever(*given: object) -> str:
    await asyncio.sleep(3600)
    return ""


def hanging(*given: object) -> str:
    threading.Event().wait(3600)
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rewrite", "expand", "imagine", "rerank"])
@pytest.mark.parametrize(
    ("hook", "timeout", "reason"),
    [
        (broken, 600, "OSError: the model is away"),
        (forever, 0.05, "it took longer than 0.05 s"),
        (hanging, 0.05, "it took longer than 0.05 s"),
        (lambda *given: None, 600, "Error"),
        (lambda *given: "", 600, "ValueError"),
        (lambda *given: [float("nan")] * 6, 600, "Error"),
    ],
)
def test_a_failing_hook_leaves_the_plain_recall_and_is_named(memory, name, hook, timeout, reason):
    plain = run(memory.recall("mill bees"))
    found = run(memory.recall("mill bees", hooks=RecallHooks(**{name: hook}, timeout=timeout)))
    assert told(found) == told(plain)
    (note,) = [note for note in found.notes if note not in plain.notes]
    assert note.startswith(f"{name} left out: ")
    assert (found.degraded, plain.degraded) == ((note,), ())
    assert reason in note


def test_a_hanging_sync_hook_blocks_neither_recall_nor_process_exit(memory):
    run(memory.recall("mill bees", hooks=RecallHooks(rerank=hanging, timeout=0.05)))
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "tellback-recall-hook")


def test_hooks_of_the_memory_apply_to_every_recall_and_hooks_of_a_recall_replace_them():
    memory = LongTermMemory(open_store("numpy:"), hooks=RecallHooks(rewrite=lambda question, context: "kestrel"))
    run(memory.remember_many(TEXTS))
    assert run(memory.recall("mill"))[0].memory.text == TEXTS[2]
    assert run(memory.recall("barometer", hooks=RecallHooks()))[0].memory.text == TEXTS[0]
    run(memory.close())


def test_a_reranked_answer_keeps_to_k_and_to_the_budget(memory):
    hooks = RecallHooks(rerank=by_length, share=1.0)
    found = run(memory.recall("mill bees honey", 2, hooks=hooks, token_budget=60, counter=len))
    assert len(found) <= 2
    assert sum(len(hit.memory.text) for hit in found) <= 60
    assert {item.reason for item in found.left_out} <= {"over the token budget"}


def test_why_not_takes_the_rerank_hook_into_account(memory):
    plain = run(memory.recall("mill bees", 1))
    (id,) = [hit.memory.id for hit in plain]
    hooks = RecallHooks(rerank=lambda question, texts: list(range(len(texts))), share=1.0)
    last = run(memory.recall("mill bees", 1, hooks=hooks))[0].memory.id
    assert run(memory.why_not("mill bees", id, 1)).stage is RecallStage.FOUND
    assert run(memory.why_not("mill bees", id, 1, hooks=hooks)).stage is RecallStage.RANK
    assert run(memory.why_not("mill bees", last, 1, hooks=hooks)).stage is RecallStage.FOUND


@pytest.mark.parametrize(
    ("argument", "value"),
    [("timeout", 0), ("timeout", float("inf")), ("share", 1.5), ("most", 0), ("depth", True), ("rerank", "cosine")],
)
def test_invalid_recall_hooks_settings_are_refused(argument, value):
    with pytest.raises(ArgumentError, match=argument):
        RecallHooks(**{argument: value})


def test_recall_refuses_a_hooks_argument_of_another_type(memory):
    with pytest.raises(ArgumentError, match="hooks"):
        run(memory.recall("mill", hooks={"rerank": by_length}))


def test_fusion_adds_scores_of_query_variants_by_weight_and_leaves_a_single_one_unchanged():
    def scored(scores: dict[str, float], topic: float) -> ScoredCandidates:
        return ScoredCandidates(
            "/conversation", "conversation", tuple(scores), {"words": np.array(list(scores.values()))}, topic
        )

    own, other = scored({"a": 0.8, "b": 0.2}, 0.8).calibrated(), scored({"b": 0.6, "c": 0.3}, 0.6).calibrated()
    assert fuse_scores([(QueryVariant(""), own)]) is own
    both = fuse_scores([(QueryVariant(""), own), (QueryVariant("", 0.5), other)])
    assert both.ids == ("a", "b", "c")
    assert both.totals() == pytest.approx(np.array([0.8, 0.5, 0.15]) * 0.8 / 0.8)
    assert both.topic == 0.8
    unsure = fuse_scores([(QueryVariant(""), other), (QueryVariant("", 0.5, hypothetical=True), own)])
    assert unsure.topic == 0.6
