"""Evaluation of a memory's search: as it is and in other ways, with confidence intervals of the differences.

    evaluation = run_sync(evaluate(memory))
    for line in evaluation.lines:
        print(line.way, line.kind, line.first, line.among, line.gain)

Other embedders and settings are tried on copies of one namespace in memory; the memory itself is only read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

import numpy as np

from tellback.memory.codec import DECLARED_FIELDS, from_entry
from tellback.memory.embedders.batching import check_positive_number
from tellback.memory.embedders.protocol import Embedder, embedder_space
from tellback.memory.errors import ArgumentError
from tellback.memory.evaluation.bootstrap import ConfidenceInterval, bootstrap
from tellback.memory.evaluation.questions import QUESTION_KINDS, EvaluationQuestion, make_questions
from tellback.memory.http.requests import is_remote
from tellback.memory.long_term import LongTermMemory
from tellback.memory.partitions import ARCHIVE, parse_store_namespace, store_namespace
from tellback.memory.retrieval.scoring.settings import RecallSettings
from tellback.memory.write.access_control import SENSITIVE_REASON, may_embed_entry
from tellback.vectorstore import Analyzer, Entry, VectorStore, lifecycle_of, open_store

_BATCH = 256
NamespacedEntry = tuple[str, Entry]
CountCallback = Callable[[int], None]


def namespace_entries(store: VectorStore, namespace: str) -> list[NamespacedEntry]:
    """Return what *namespace* holds, archived versions apart: (store namespace, entry)."""
    names = [
        name
        for name in sorted(store.namespaces())
        if parse_store_namespace(name)[0] == namespace and parse_store_namespace(name)[1] != ARCHIVE
    ]
    return [(name, entry) for name in names for entry in store.scan(namespace=name)]


def change_texts(
    entries: Sequence[NamespacedEntry], texts: Mapping[str, str], aside: Set[str]
) -> list[NamespacedEntry]:
    """Return *entries* without the ids *aside*, and with other *texts* by id; changed entries have no vector."""
    return [
        (name, entry if entry.id not in texts else replace(entry, text=texts[entry.id], vector=None))
        for name, entry in entries
        if entry.id not in aside
    ]


def clear_vectors(entries: Sequence[NamespacedEntry], reason: str | None) -> list[NamespacedEntry]:
    """Return *entries* without vectors, to be embedded, or for ever with a *reason*."""
    return [(name, replace(entry, vector=None, no_vector=reason)) for name, entry in entries]


async def embed_entries(
    entries: Sequence[NamespacedEntry], embedder: Embedder, on_progress: CountCallback
) -> list[NamespacedEntry]:
    """Return *entries* with a vector for each that has none and may have one; *on_progress* gets how many are done.

    Sensitive entries are not given to a remote embedder.
    """
    embedded = list(entries)
    for i, (name, entry) in enumerate(entries):
        if entry.vector is None and not may_embed_entry(entry, embedder):
            embedded[i] = (name, replace(entry, no_vector=SENSITIVE_REASON))
    pending = [i for i, (_, entry) in enumerate(embedded) if entry.vector is None and entry.no_vector is None]
    for start in range(0, len(pending), _BATCH):
        batch = pending[start : start + _BATCH]
        vectors = await embedder.embed([embedded[i][1].text for i in batch])
        for i, vector in zip(batch, vectors, strict=True):
            name, entry = embedded[i]
            fields = {"vector": vector} if np.any(vector) else {"no_vector": "nothing to embed"}
            embedded[i] = (name, replace(entry, **fields))
        on_progress(min(start + _BATCH, len(pending)))
    return embedded


def copy_to_store(namespaced: Sequence[NamespacedEntry], embedder: Embedder | None) -> VectorStore:
    """Return a store in memory with the entries of *namespaced*."""
    space = None if embedder is None else embedder_space(embedder)
    store = open_store("numpy:", space=space, fields=DECLARED_FIELDS)
    by_name: dict[str, list[Entry]] = {}
    for name, entry in namespaced:
        by_name.setdefault(name, []).append(entry)
    for name, entries in by_name.items():
        for start in range(0, len(entries), _BATCH):
            store.upsert(entries[start : start + _BATCH], namespace=name)
    return store


TEXT, CURRENT, EMBEDDER, SETTINGS = "text alone", "as it is", "other embedder", "other settings"
ALL_KINDS = "all"
_MIN_COUNT = 5
"""Questions below which the shares mean nothing."""

EvaluationProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class EvaluationLine:
    """The result of one *way* of searching for questions of one *kind*.

    *first* is the share of questions whose memory is the first hit, *among* the share of those among the k hits, *mrr*
    the mean reciprocal rank. *gain* is *among* less that of the memory as it is, and *gain_mrr* the same of *mrr*, with
    95 per cent intervals; None for the memory as it is.
    """

    way: str
    kind: str
    questions: int
    first: float
    among: float
    mrr: float
    gain: ConfidenceInterval | None = None
    gain_mrr: ConfidenceInterval | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of an evaluation. *embedders* has each way's fingerprint of the embedder, empty without one."""

    lines: tuple[EvaluationLine, ...]
    memories: int
    questions: int
    k: int
    seed: int
    embedders: dict[str, str]


async def evaluate(
    memory: LongTermMemory,
    *,
    namespace: str = "",
    embedder: Embedder | None = None,
    settings: RecallSettings | None = None,
    questions: int = 200,
    k: int = 10,
    seed: int = 0,
    on_progress: EvaluationProgress | None = None,
) -> Evaluation:
    """Return how well *namespace* is searched by text alone, as it is, and with another *embedder* or *settings*.

    Up to *questions* are made from the memories by rule. The vectors of the memory are used; another embedder embeds a
    copy of everything, which may cost money; a remote one gets no sensitive memory, and no question made from one.
    *on_progress* gets (step, done, total). Raises ``ArgumentError`` where too little is remembered to ask about.
    """
    store_namespace(namespace, "conversation")
    check_positive_number("questions", questions)
    check_positive_number("k", k)
    notify = on_progress or (lambda step, done, total: None)
    entries = await asyncio.to_thread(namespace_entries, memory.store, namespace)
    store = lifecycle_of(memory.store)
    analyzer = Analyzer() if store is None else store.analyzer
    remote = any(map(is_remote, (memory.embedder, embedder)))
    memories = [from_entry(entry) for _, entry in entries if not (remote and entry.metadata.get("sensitive") is True)]
    probes = make_questions(memories, analyzer.terms, count=questions, seed=seed)
    if len(probes) < min(_MIN_COUNT, questions):
        raise ArgumentError(
            "memories",
            len(entries),
            f"too few to ask about: at least {min(_MIN_COUNT, questions)} are needed that say enough for a question, "
            f"and {len(probes)} do; remember or ingest more",
        )
    remainders = {probe.wanted: probe.left for probe in probes if probe.left is not None}
    changed = change_texts(entries, remainders, {probe.aside for probe in probes if probe.aside is not None})
    ranks: dict[str, list[int]] = {}
    ways = _search_ways(memory, embedder, settings)
    for way, (way_embedder, way_settings) in ways.items():
        on_embedded = _progress_callback(notify, f"embedding, {way}", len(changed))
        copy = await _copy_with_vectors(changed, way_embedder, again=way == EMBEDDER, on_progress=on_embedded)
        evaluated = LongTermMemory(
            copy,
            embedder=way_embedder,
            word_vectors=memory.word_vectors if way != TEXT else None,
            clock=memory.clock,
            zone=memory.zone,
            recall_settings=way_settings,
        )
        on_asked = _progress_callback(notify, f"asking, {way}", len(probes))
        try:
            ranks[way] = []
            for probe in probes:
                ids = [hit.memory.id for hit in await evaluated.recall(probe.question, k, namespace=namespace)]
                ranks[way].append(ids.index(probe.wanted) + 1 if probe.wanted in ids else 0)
                on_asked(len(ranks[way]))
        finally:
            await evaluated.close()
    embedders = {way: "" if used is None else used.fingerprint for way, (used, _) in ways.items()}
    return Evaluation(tuple(_evaluation_lines(probes, ranks, seed)), len(entries), len(probes), k, seed, embedders)


def _search_ways(
    memory: LongTermMemory, embedder: Embedder | None, settings: RecallSettings | None
) -> dict[str, tuple[Embedder | None, RecallSettings | None]]:
    """Return the ways to search, each with its embedder and settings."""
    current = memory.embedder if memory.store.space is not None else None
    ways: dict[str, tuple[Embedder | None, RecallSettings | None]] = {
        TEXT: (None, memory.recall_settings),
        CURRENT: (current, memory.recall_settings),
    }
    if embedder is not None:
        ways[EMBEDDER] = (embedder, memory.recall_settings)
    if settings is not None:
        ways[SETTINGS] = (current, settings)
    return ways


async def _copy_with_vectors(
    entries: Sequence[NamespacedEntry], embedder: Embedder | None, *, again: bool, on_progress: CountCallback
) -> VectorStore:
    """Return a copy of *entries* with vectors of *embedder*, none without one; *again* replaces present vectors."""
    if embedder is None:
        return await asyncio.to_thread(copy_to_store, clear_vectors(entries, "no embedder"), None)
    if embedder.dimension < 1:
        await embedder.embed(["dimension"], "query")  # some know it only after a first text
    embedded = await embed_entries(clear_vectors(entries, None) if again else entries, embedder, on_progress)
    return await asyncio.to_thread(copy_to_store, embedded, embedder)


def _progress_callback(report: EvaluationProgress, step: str, total: int) -> CountCallback:
    return lambda done: report(step, done, total)


def _evaluation_lines(
    probes: Sequence[EvaluationQuestion], ranks: dict[str, list[int]], seed: int
) -> Iterator[EvaluationLine]:
    """Yield the lines of all questions, then of each kind of question that occurs.

    *ranks* has for each way the rank of every wanted memory, from 1; 0 if it was not found.
    """
    kinds = [kind for kind in QUESTION_KINDS if any(probe.kind == kind for probe in probes)]
    for kind in (ALL_KINDS, *kinds):
        chosen = [i for i, probe in enumerate(probes) if kind in (ALL_KINDS, probe.kind)]
        current = [ranks[CURRENT][i] for i in chosen]
        for way, way_ranks in ranks.items():
            kind_ranks = [way_ranks[i] for i in chosen]
            gains: tuple[ConfidenceInterval | None, ConfidenceInterval | None] = (None, None)
            if way != CURRENT:
                pairs = list(zip(kind_ranks, current, strict=True))
                among = [float(bool(rank)) - float(bool(present)) for rank, present in pairs]
                reciprocal = [_reciprocal_rank(rank) - _reciprocal_rank(present) for rank, present in pairs]
                gains = (bootstrap(among, seed=seed), bootstrap(reciprocal, seed=seed))
            count = len(kind_ranks)
            yield EvaluationLine(
                way,
                kind,
                count,
                sum(rank == 1 for rank in kind_ranks) / count,
                sum(rank > 0 for rank in kind_ranks) / count,
                sum(map(_reciprocal_rank, kind_ranks)) / count,
                *gains,
            )


def _reciprocal_rank(rank: int) -> float:
    return 1 / rank if rank else 0.0
