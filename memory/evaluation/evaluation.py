"""Evaluation of a memory's search: as it is and in other ways, with confidence intervals of the differences.

    evaluation = run_sync(evaluate(memory))
    for line in evaluation.lines:
        print(line.way, line.kind, line.first, line.among, line.gain)

Other embedders and settings are tried on copies of one namespace in memory; the memory itself is only read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from operator import itemgetter

from tellback.memory.codec import DECLARED_FIELDS, from_entry
from tellback.memory.embedders.batching import check_positive_number
from tellback.memory.embedders.protocol import Embedder
from tellback.memory.errors import ArgumentError, EmbedderError
from tellback.memory.evaluation.bootstrap import ConfidenceInterval, bootstrap
from tellback.memory.evaluation.metrics import reciprocal_rank
from tellback.memory.evaluation.questions import QUESTION_KINDS, WRITTEN, EvaluationQuestion, make_questions
from tellback.memory.http.requests import is_remote
from tellback.memory.long_term import LongTermMemory
from tellback.memory.partitions import ARCHIVE, parse_store_namespace, store_namespace
from tellback.memory.retrieval.scoring.settings import RecallSettings
from tellback.vectorstore import Analyzer, Entry, Space, VectorStore, lifecycle_of, open_store

NamespacedEntry = tuple[str, Entry]


def namespace_entries(store: VectorStore, namespace: str) -> list[NamespacedEntry]:
    """Return what *namespace* holds, archived versions apart: (store namespace, entry)."""
    names = [
        name
        for name in sorted(store.namespaces())
        if parse_store_namespace(name)[0] == namespace and parse_store_namespace(name)[1] != ARCHIVE
    ]
    return [(name, entry) for name in names for entry in store.scan(namespace=name)]


def copy_to_store(entries: Iterable[NamespacedEntry], space: Space | None) -> VectorStore:
    """Return a store in memory with *entries*, which have vectors of *space*; None: they are to have none."""
    store = open_store("numpy:", space=space, fields=DECLARED_FIELDS)
    for name, namespaced in groupby(entries, key=itemgetter(0)):
        kept = (entry for _, entry in namespaced)
        store.upsert(kept if space else (replace(entry, vector=None, no_vector=None) for entry in kept), namespace=name)
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
class EvaluationAnswer:
    """One question: its *kind*, the id of the memory that is *wanted*, its *place* as it is, and by each other way.

    Places count from 1; 0 where the memory was not found among k.
    """

    question: str
    kind: str
    wanted: str
    place: int
    places: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of an evaluation. *embedders* has each way's fingerprint of the embedder, empty without one."""

    lines: tuple[EvaluationLine, ...]
    memories: int
    questions: int
    k: int
    seed: int
    embedders: dict[str, str]
    answers: tuple[EvaluationAnswer, ...] = ()


async def evaluate(
    memory: LongTermMemory,
    *,
    namespace: str = "",
    embedder: Embedder | None = None,
    settings: RecallSettings | None = None,
    questions: int | Mapping[str, str] = 200,
    k: int = 10,
    seed: int = 0,
    on_progress: EvaluationProgress | None = None,
) -> Evaluation:
    """Return how well *namespace* is searched by text alone, as it is, and with another *embedder* or *settings*.

    Up to *questions* are made from the memories by rule; or they are written ones, each with the id of the memory that
    answers it. The vectors of the memory are used; another embedder embeds a
    copy of everything, which may cost money; a remote one gets no sensitive memory, and no question made from one.
    *on_progress* gets (step, done, total). Raises ``ArgumentError`` where too little is remembered to ask about.
    """
    store_namespace(namespace, "conversation")
    if not isinstance(questions, Mapping):
        check_positive_number("questions", questions)
    check_positive_number("k", k)
    notify = on_progress or (lambda step, done, total: None)
    entries = await asyncio.to_thread(namespace_entries, memory.store, namespace)
    store = lifecycle_of(memory.store)
    analyzer = Analyzer() if store is None else store.analyzer
    remote = any(map(is_remote, (memory.embedder, embedder)))
    memories = [from_entry(entry) for _, entry in entries if not (remote and entry.metadata.get("sensitive") is True)]
    if isinstance(questions, Mapping):
        probes = _written_questions(questions, {entry.id for _, entry in entries})
    else:
        probes = make_questions(memories, analyzer.terms, count=questions, seed=seed)
    if not isinstance(questions, Mapping) and len(probes) < min(_MIN_COUNT, questions):
        raise ArgumentError(
            "memories",
            len(entries),
            f"too few to ask about: at least {min(_MIN_COUNT, questions)} are needed that say enough for a question, "
            f"and {len(probes)} do; remember or ingest more",
        )
    remainders = {probe.wanted: probe.left for probe in probes if probe.left is not None}
    aside = {probe.aside for probe in probes}
    changed = [
        (name, entry if entry.id not in remainders else replace(entry, text=remainders[entry.id], vector=None))
        for name, entry in entries
        if entry.id not in aside
    ]
    ranks: dict[str, list[int]] = {}
    ways = _search_ways(memory, embedder, settings)
    for way, (way_embedder, way_settings) in ways.items():
        space = None if way == EMBEDDER or way_embedder is None else memory.store.space
        copy = await asyncio.to_thread(copy_to_store, changed, space)
        evaluated = LongTermMemory(
            copy,
            embedder=way_embedder,
            word_vectors=memory.word_vectors if way != TEXT else None,
            clock=memory.clock,
            zone=memory.zone,
            recall_settings=way_settings,
        )
        try:
            await _embed_pending(evaluated, partial(notify, f"embedding, {way}"))
            ranks[way] = []
            for probe in probes:
                ids = [hit.memory.id for hit in await evaluated.recall(probe.question, k, namespace=namespace)]
                ranks[way].append(ids.index(probe.wanted) + 1 if probe.wanted in ids else 0)
                notify(f"asking, {way}", len(ranks[way]), len(probes))
        finally:
            await evaluated.close()
    embedders = {way: "" if used is None else used.fingerprint for way, (used, _) in ways.items()}
    lines = tuple(_evaluation_lines(probes, ranks, seed))
    current = ranks.pop(CURRENT)
    answers = tuple(
        EvaluationAnswer(probe.question, probe.kind, probe.wanted, current[i], {way: ranks[way][i] for way in ranks})
        for i, probe in enumerate(probes)
    )
    return Evaluation(lines, len(entries), len(probes), k, seed, embedders, answers)


def _written_questions(written: Mapping[str, str], known: Collection[str]) -> list[EvaluationQuestion]:
    """Return the questions that somebody wrote; raise ``ArgumentError`` naming one that no memory answers."""
    for question, id in written.items():
        if id not in known:
            raise ArgumentError("questions", question, f"no memory has the id {id!r}, which should answer it")
    if not written:
        raise ArgumentError("questions", dict(written), "at least one question is needed")
    return [EvaluationQuestion(WRITTEN, question, id) for question, id in written.items()]


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


async def _embed_pending(memory: LongTermMemory, on_progress: Callable[[int, int], None]) -> None:
    """Embed what has no vector in a copy: texts that were changed, or all where the copy has no space yet."""
    if memory.embedder is not None and memory.store.space is None:
        await memory.reembed(on_progress=lambda progress: on_progress(progress.done, progress.total))
    elif memory.embedder is not None:
        await memory.flush()
        if memory.embedding.problem is not None:
            raise EmbedderError(memory.embedding.problem)


def _evaluation_lines(
    probes: Sequence[EvaluationQuestion], ranks: dict[str, list[int]], seed: int
) -> Iterator[EvaluationLine]:
    """Yield the lines of all questions, then of each kind of question that occurs.

    *ranks* has for each way the rank of every wanted memory, from 1; 0 if it was not found.
    """
    kinds = [kind for kind in (*QUESTION_KINDS, WRITTEN) if any(probe.kind == kind for probe in probes)]
    for kind in (ALL_KINDS, *kinds):
        chosen = [i for i, probe in enumerate(probes) if kind in (ALL_KINDS, probe.kind)]
        current = [ranks[CURRENT][i] for i in chosen]
        for way, way_ranks in ranks.items():
            kind_ranks = [way_ranks[i] for i in chosen]
            gains: tuple[ConfidenceInterval | None, ConfidenceInterval | None] = (None, None)
            if way != CURRENT:
                pairs = list(zip(kind_ranks, current, strict=True))
                among = [float(bool(rank)) - float(bool(present)) for rank, present in pairs]
                reciprocal = [reciprocal_rank(rank) - reciprocal_rank(present) for rank, present in pairs]
                gains = (bootstrap(among, seed=seed), bootstrap(reciprocal, seed=seed))
            count = len(kind_ranks)
            yield EvaluationLine(
                way,
                kind,
                count,
                sum(rank == 1 for rank in kind_ranks) / count,
                sum(rank > 0 for rank in kind_ranks) / count,
                sum(map(reciprocal_rank, kind_ranks)) / count,
                *gains,
            )
