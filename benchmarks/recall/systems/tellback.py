"""Tellback through its public face: ``remember_many`` or ``ingest``, then ``recall``."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.recall.system import Answered, Options
from benchmarks.recall.systems.cosine import onnx_embedder
from benchmarks.recall.task import Asked, Corpus
from tellback.memory import (
    Chunk,
    Embedder,
    KnowledgeBase,
    LocalEmbedder,
    LongTermMemory,
    Memory,
    RecallSettings,
    local_embedder,
)
from tellback.memory.internals import LocalWordVectors
from tellback.vectorstore import open_store

NOW = datetime(2026, 1, 1, tzinfo=UTC)
"""Fixed time of every run, so that questions about "last month" do not depend on the day of the run."""

_EVERY = 1_000_000


class Tellback:
    vectors = True

    def __init__(self, folder: Path, options: Options) -> None:
        address = "numpy:" if options.store == "numpy" else f"sqlite:///{folder}/memory.db"
        names = count()
        self._now = NOW
        present = self.vectors and options.vectors
        self._loop = asyncio.new_event_loop()
        self._store = open_store(address)
        self.memory = LongTermMemory(
            self._store,
            embedder=self.embedder() if present else None,
            word_vectors=LocalWordVectors() if present else None,
            clock=lambda: self._now,
            ids=lambda: f"m{next(names):07}",
            recall_settings=options.recall,
        )
        self._partition = "conversation"

    def embedder(self) -> Embedder:
        return local_embedder()

    def fill(self, corpus: Corpus) -> None:
        self._partition = "documents" if corpus.documents else "conversation"
        self._now = corpus.now or NOW
        self._loop.run_until_complete(self._ingested(corpus) if corpus.documents else self._remembered(corpus))

    def ask(self, asked: Asked, k: int) -> Answered:
        found = self._loop.run_until_complete(
            self.memory.recall(asked.text, k=k, context=asked.context, as_of=asked.as_of, partitions=(self._partition,))
        )
        if self._partition == "conversation":
            hits = tuple((hit.memory.id, hit.score) for hit in found)
        else:
            hits = tuple((_document(hit.memory), hit.score) for hit in found)
        return Answered(hits, found.confidence, found.abstain)

    def close(self) -> None:
        self._store.close()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def _remembered(self, corpus: Corpus) -> None:
        await self.memory.remember_many(corpus.items)

    async def _ingested(self, corpus: Corpus) -> None:
        with TemporaryDirectory() as folder:
            for item in corpus.items:
                (Path(folder) / f"{item.id}.txt").write_text(item.text, "utf-8")
            await KnowledgeBase(self.memory, chunker=WholeText()).ingest([folder])


class TellbackWords(Tellback):
    """Tellback without the extra ``local``: no embedder, and no matches between different words."""

    vectors = False


class TellbackStatic(Tellback):
    """Tellback with static vectors for notes and turns, too."""

    def embedder(self) -> Embedder:
        return LocalEmbedder()


class TellbackOnnx(Tellback):
    """Tellback with an unknown embedder, whose profile is measured by probe sentences."""

    def embedder(self) -> Embedder:
        return onnx_embedder()


class TellbackAll(Tellback):
    """Tellback with a limit of candidates above the number of entries: it scores all."""

    def __init__(self, folder: Path, options: Options) -> None:
        settings = options.recall or RecallSettings()
        every = replace(settings, candidates=_EVERY, document_candidates=_EVERY)
        super().__init__(folder, replace(options, recall=every))


def _document(memory: Memory) -> str:
    """Return the id of the document that a passage is of: the name of the file it was ingested from."""
    source = memory.source
    return Path(source.document).stem if source is not None and source.document is not None else memory.id


class WholeText:
    """Chunker that keeps each document whole, as the data set judges whole documents."""

    fingerprint = "whole"

    def chunk(self, text: str) -> list[Chunk]:
        """Return the text as its one chunk."""
        return [Chunk(text, 0, len(text))]
