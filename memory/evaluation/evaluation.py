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
from itertools import islice

import numpy as np

from memory.codec import DECLARED_FIELDS, from_entry
from memory.embedders.fingerprint import embedder_space
from memory.embedders.protocol import Embedder
from memory.errors import ArgumentError
from memory.evaluation.bootstrap import ConfidenceInterval, bootstrap
from memory.evaluation.questions import QUESTION_KINDS, EvaluationQuestion, make_questions
from memory.http.requests import is_remote
from memory.long_term import LongTermMemory
from memory.partitions import ARCHIVE, parse_store_namespace, store_namespace
from memory.retrieval.scoring.settings import RecallSettings
from memory.write.access_control import SENSITIVE_REASON, may_embed_entry
from vectorstore import Analyzer, Entry, VectorStore, lifecycle_of, open_store

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


def change_texts(places: Sequence[NamespacedEntry], texts: Mapping[str, str], aside: Set[str]) -> list[NamespacedEntry]:
    """Return *places* without the ids *aside*, and with the texts of some changed; these have no vector any more."""
    return [
        (name, entry if entry.id not in texts else replace(entry, text=texts[entry.id], vector=None))
        for name, entry in places
        if entry.id not in aside
    ]


def disable_vectors(places: Sequence[NamespacedEntry]) -> list[NamespacedEntry]:
    """Return *places* as they would be without an embedder."""
    return [(name, replace(entry, vector=None, no_vector="no embedder")) for name, entry in places]


def clear_vectors(places: Sequence[NamespacedEntry]) -> list[NamespacedEntry]:
    """Return *places* as they are before an embedder has seen them."""
    return [(name, replace(entry, vector=None, no_vector=None)) for name, entry in places]


async def embed_entries(
    places: Sequence[NamespacedEntry], embedder: Embedder, on_progress: CountCallback
) -> list[NamespacedEntry]:
    """Return *places* with a vector for each that has none and may have one; *on_progress* gets how many are done.

    What is sensitive is not given to a remote embedder.
    """
    done = [
        (
            name,
            entry
            if entry.vector is not None or may_embed_entry(entry, embedder)
            else replace(entry, no_vector=SENSITIVE_REASON),
        )
        for name, entry in places
    ]
    waiting = [at for at, (_, entry) in enumerate(done) if entry.vector is None and entry.no_vector is None]
    for start in range(0, len(waiting), _BATCH):
        batch = waiting[start : start + _BATCH]
        vectors = await embedder.embed([done[at][1].text for at in batch])
        for at, vector in zip(batch, vectors, strict=True):
            name, entry = done[at]
            there = bool(np.any(vector))
            done[at] = (name, replace(entry, vector=vector) if there else replace(entry, no_vector="nothing to embed"))
        on_progress(min(start + _BATCH, len(waiting)))
    return done


async def copy_to_store(places: Sequence[NamespacedEntry], embedder: Embedder | None) -> VectorStore:
    """Return a store in memory that holds *places*."""
    return await asyncio.to_thread(_fill_store, places, embedder)


def _fill_store(places: Sequence[NamespacedEntry], embedder: Embedder | None) -> VectorStore:
    space = None if embedder is None else embedder_space(embedder)
    store = open_store("numpy:", space=space, fields=DECLARED_FIELDS)
    by_name: dict[str, list[Entry]] = {}
    for name, entry in places:
        by_name.setdefault(name, []).append(entry)
    for name, entries in by_name.items():
        for batch in _batched(entries):
            store.upsert(batch, namespace=name)
    return store


def _batched(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    source = iter(entries)
    while batch := list(islice(source, _BATCH)):
        yield batch


TEXT, CURRENT, EMBEDDER, SETTINGS = "text alone", "as it is", "other embedder", "other settings"
ALL_KINDS = "all"
_MIN_COUNT = 5
"""Fewer questions than this say nothing."""

EvaluationProgress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class EvaluationLine:
    """How often one *way* of searching finds what questions of one *kind* ask for.

    *first*: the share that it finds first, *among* within the k asked for, *mrr* the mean of 1 / place. *gain* is
    *among* less that of the memory as it is, and *gain_mrr* the same of *mrr*, with 95 per cent intervals; None for the
    memory as it is.
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
    """What an evaluation showed. *embedders* names what made the vectors, by way; empty where there were none."""

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

    Up to *questions* are made from the memories by rule. The vectors that are there are used; another embedder embeds a
    copy of everything, which may cost; a remote one is given nothing that is sensitive, no question of it either.
    *on_progress* gets (what is done, how much, of how much). Raises
    ``ArgumentError`` where too little is remembered to ask about.
    """
    store_namespace(namespace, "conversation")
    for name, value in (("questions", questions), ("k", k)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ArgumentError(name, value, "a whole number of at least 1 is needed")
    say = on_progress or (lambda what, done, total: None)
    places = await asyncio.to_thread(namespace_entries, memory.store, namespace)
    store = lifecycle_of(memory.store)
    analyzer = Analyzer() if store is None else store.analyzer
    remote = any(is_remote(one) for one in (memory.embedder, embedder))
    memories = [from_entry(entry) for _, entry in places if not (remote and entry.metadata.get("sensitive") is True)]
    probes = make_questions(memories, analyzer.terms, count=questions, seed=seed)
    if len(probes) < min(_MIN_COUNT, questions):
        raise ArgumentError(
            "memories",
            len(places),
            f"too few to ask about: at least {min(_MIN_COUNT, questions)} are needed that say enough for a question, "
            f"and {len(probes)} do; remember or ingest more",
        )
    left = {probe.wanted: probe.left for probe in probes if probe.left is not None}
    there = change_texts(places, left, {probe.aside for probe in probes if probe.aside is not None})
    found: dict[str, list[int]] = {}
    ways = _search_ways(memory, embedder, settings)
    for way, (by, chosen) in ways.items():
        copied = await _copy_with_vectors(
            there, by, anew=way == EMBEDDER, say=_progress_callback(say, f"embedding, {way}", len(there))
        )
        tried = LongTermMemory(
            copied,
            embedder=by,
            word_vectors=memory.word_vectors if way != TEXT else None,
            clock=memory.clock,
            zone=memory.zone,
            recall_settings=chosen,
            offline=True,
        )
        asking = _progress_callback(say, f"asking, {way}", len(probes))
        try:
            found[way] = []
            for probe in probes:
                found[way].append(await _answer_rank(tried, probe, namespace, k))
                asking(len(found[way]))
        finally:
            await tried.close()
    named = {way: "" if by is None else by.fingerprint for way, (by, _) in ways.items()}
    return Evaluation(tuple(_evaluation_lines(probes, found, seed)), len(places), len(probes), k, seed, named)


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
    places: Sequence[NamespacedEntry], by: Embedder | None, *, anew: bool, say: Callable[[int], None]
) -> VectorStore:
    """Return a copy whose vectors are those that are there, none, or (*anew*) another embedder's."""
    if by is None:
        return await copy_to_store(disable_vectors(places), None)
    if by.dimension < 1:
        await by.embed(["dimension"], "query")  # some know it only after a first text
    made = await embed_entries(clear_vectors(places) if anew else places, by, say)
    return await copy_to_store(made, by)


def _progress_callback(say: EvaluationProgress, what: str, total: int) -> Callable[[int], None]:
    return lambda done: say(what, done, total)


async def _answer_rank(tried: LongTermMemory, probe: EvaluationQuestion, namespace: str, k: int) -> int:
    """Return the place at which the wanted memory was found, from 1; 0 where it was not among *k*."""
    ids = [hit.memory.id for hit in await tried.recall(probe.question, k, namespace=namespace)]
    return ids.index(probe.wanted) + 1 if probe.wanted in ids else 0


def _evaluation_lines(
    probes: Sequence[EvaluationQuestion], found: dict[str, list[int]], seed: int
) -> Iterator[EvaluationLine]:
    """Yield the lines of all questions together, then of each kind that there is."""
    there = [kind for kind in QUESTION_KINDS if any(probe.kind == kind for probe in probes)]
    for kind in (ALL_KINDS, *there):
        chosen = [at for at, probe in enumerate(probes) if kind in (ALL_KINDS, probe.kind)]
        current = [found[CURRENT][at] for at in chosen]
        for way, every in found.items():
            places = [every[at] for at in chosen]
            gains: tuple[ConfidenceInterval | None, ConfidenceInterval | None] = (None, None)
            if way != CURRENT:
                pairs = list(zip(places, current, strict=True))
                among = [float(bool(one)) - float(bool(other)) for one, other in pairs]
                ranks = [_reciprocal_rank(one) - _reciprocal_rank(other) for one, other in pairs]
                gains = (bootstrap(among, seed=seed), bootstrap(ranks, seed=seed))
            count = len(places)
            yield EvaluationLine(
                way,
                kind,
                count,
                sum(place == 1 for place in places) / count,
                sum(place > 0 for place in places) / count,
                sum(map(_reciprocal_rank, places)) / count,
                *gains,
            )


def _reciprocal_rank(place: int) -> float:
    return 1 / place if place else 0.0
