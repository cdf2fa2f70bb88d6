"""Stages one and two: a system takes a corpus, and is asked its questions.

An index is not kept: a corpus whose questions are not all answered is ingested again when a run goes on.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.about import commit, load, machine
from benchmarks.memory.answer import DEPTH
from benchmarks.memory.data.dataset import Asked, Corpus, DataSet
from benchmarks.memory.embedding_server import EmbeddingServer
from benchmarks.memory.process import SystemFailed, SystemProcess, python_with
from benchmarks.memory.protocol import Settings
from benchmarks.memory.registry import Entry
from benchmarks.memory.stage_files import Row, StageFile
from tellback.memory import TiktokenCounter

_WORD = re.compile(r"\w{3,}")
_LEAST_SHARE = 0.5
"""Share of a fact's words that the item which it is attributed to must have."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What is asked for beside system and data: a *limit* of questions of each kind and corpus, the *seed*."""

    limit: int | None = None
    seed: int = 0
    again: bool = False


def chosen(corpus: Corpus, limit: int | None) -> list[Asked]:
    """Return the first *limit* questions of each kind of *corpus*."""
    seen: Counter[str] = Counter()
    kept = []
    for asked in corpus.questions:
        seen[asked.kind] += 1
        if limit is None or seen[asked.kind] <= limit:
            kept.append(asked)
    return kept


def retrieve(
    data: DataSet, entry: Entry, out: Path, options: RunOptions, server: EmbeddingServer | None, say: Say
) -> None:
    """Run both stages of *entry* over *data*, and go on where a run before this one ended."""
    header = {
        "system": entry.key,
        "title": entry.title,
        "settings": entry.settings,
        "packages": list(entry.packages),
        "embedder": server.name if entry.shared and server else "",
        "data": {"name": data.name, "title": data.title, "sha256": data.hash},
        "limit": options.limit,
        "seed": options.seed,
        "depth": DEPTH,
        "machine": machine(),
        "load": load(),
        "commit": commit(),
    }
    folder = out / data.name / entry.key
    ingested = StageFile(folder / "ingest.jsonl", {**header, "stage": "ingest"}, ["corpus"], again=options.again)
    found = StageFile(folder / "retrieve.jsonl", {**header, "stage": "retrieve"}, ["question"], again=options.again)
    counter, begun, done = TiktokenCounter(), time.monotonic(), 0
    todo = {
        corpus.name: [a for a in chosen(corpus, options.limit) if (a.question.id,) not in found.rows]
        for corpus in data.corpora
    }
    whole = sum(map(len, todo.values()))
    try:
        if whole:
            python = python_with(entry.packages)
        for corpus in data.corpora:
            if asked := todo[corpus.name]:
                with TemporaryDirectory() as work:
                    index = Path(work) / "index"
                    index.mkdir()
                    _corpus(corpus, asked, entry, options, server, index, python, ingested, found, counter)
                done += len(asked)
                spent = time.monotonic() - begun
                left = spent / done * (whole - done)
                progress = f"{done} of {whole} questions, {spent:.0f} s, about {left:.0f} s left"
                say(f"{entry.key}: {data.title}, {corpus.name}: {progress}")
    finally:
        ingested.close()
        found.close()


def _corpus(
    corpus: Corpus, asked: Sequence[Asked], entry: Entry, options: RunOptions, server: EmbeddingServer | None,
    work: Path, python: Path, ingested: StageFile, found: StageFile, counter: TiktokenCounter,
) -> None:  # fmt: skip
    shared = server if entry.shared else None
    if shared is not None:  # so that systems find texts embedded
        shared.vectors([text for item in corpus.items for text in (item.line, item.text)[: 1 + entry.texts]])
        shared.vectors([one.question.text for one in asked])
    settings = replace(
        shared.settings(work) if shared else Settings(work),
        seed=options.seed,
        options=dict(entry.options),
        gold={one.question.id: tuple(one.gold) for one in asked} if entry.oracle else {},
    )
    sizes = {item.id: counter.count(item.line) for item in corpus.items}
    row: Row = {"corpus": corpus.name, "items": len(corpus.items), "tokens": sum(sizes.values()), "error": ""}
    system: SystemProcess | None = None
    try:
        system = SystemProcess(entry.place, python, settings)
        begun = time.perf_counter()
        parts = [system.call("reset"), system.ingest(corpus.items), system.call("ready")]
        row |= {"seconds": time.perf_counter() - begun, "cpu": sum(part["cpu_ms"] for part in parts) / 1e3}
        row |= {"rss": parts[-1]["rss"], "bytes": _size(work), "usage": system.call("usage")["value"]}
    except SystemFailed as error:
        row["error"] = str(error)
        if system is not None:
            system.close()
        system = None
    if (corpus.name,) not in ingested.rows:
        ingested.add(row)
    for question in asked:
        found.add(_asked(system, question, corpus, entry, sizes, counter, str(row["error"])))
    if system is not None:
        system.close()


def _asked(
    system: SystemProcess | None, asked: Asked, corpus: Corpus, entry: Entry, sizes: Mapping[str, int],
    counter: TiktokenCounter, error: str,
) -> Row:  # fmt: skip
    row: Row = {"corpus": corpus.name, "question": asked.question.id, "hits": [], "sizes": [], "error": error}
    if system is None:
        return row
    try:
        answer = system.search(asked.question, DEPTH, 1_000_000)
    except SystemFailed as failure:
        return {**row, "error": str(failure)}
    hits = answer["hits"] if entry.whole else answer["hits"][:DEPTH]
    found = [_attributed(text, corpus) if id not in sizes else id for id, _, text in hits]
    ids = [id if id not in found[:place] else "" for place, id in enumerate(found)]  # an item counts once
    repeated = {str(at): corpus.by_id[hit[0]].line for at, hit in enumerate(hits) if hit[0] in sizes and not ids[at]}
    facts = {str(place): text for place, (id, _, text) in enumerate(hits) if id not in sizes} | repeated
    return {
        **row,
        "hits": ids,
        "scores": [] if entry.whole else [round(score, 6) for _, score, _ in hits],
        "sizes": [sizes[id] if id in sizes else counter.count(text) for id, _, text in hits],
        "facts": facts,
        "confidence": answer["confidence"],
        "abstains": answer["abstains"],
        "ms": round(answer["ms"], 3),
        "cpu_ms": round(answer["cpu_ms"], 3),
        "rss": answer["rss"],
    }


def _attributed(fact: str, corpus: Corpus) -> str:
    """Return the id of the item that has most words of *fact*; empty where none has half of them."""
    words = set(_WORD.findall(fact.lower()))
    best = max(corpus.items, key=lambda item: len(words & set(_WORD.findall(item.line.lower()))), default=None)
    if best is None or not words:
        return ""
    return best.id if len(words & set(_WORD.findall(best.line.lower()))) >= _LEAST_SHARE * len(words) else ""


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
