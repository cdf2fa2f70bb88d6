"""Erasers of data derived from memories: cached vectors, rows of the retrieval index, summaries of conversations.

Every open memory has them, and few use them: what they need is imported when they erase.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, groupby

from tellback.memory.history.rows import HistoryRows
from tellback.memory.partitions import prefix_of
from tellback.memory.retrieval.index.index_cache import IndexCache
from tellback.memory.tables.erasers import ErasedItems
from tellback.memory.write.embedding_service import EmbeddingService


@dataclass(eq=False)
class CachedVectorEraser:
    """Removes the vectors of forgotten texts from the file's embedding cache and from the embedder's own.

    A vector may serve an equal text of another namespace too; that text is embedded again when it is next needed.
    """

    embedding: EmbeddingService
    name = "cached vectors"

    def erase(self, gone: ErasedItems) -> int:
        """As ``Eraser.erase``, but the count is always 0: a count would tell of equal texts in other namespaces."""
        from tellback.memory.codec import embedding_text
        from tellback.memory.messages import calls_by_message
        from tellback.memory.models import Memory
        from tellback.memory.write.memory_writer import memory_from_message

        rows = sorted(gone.messages, key=lambda row: (row.session, row.sequence))
        sessions = [[row.message for row in group] for _, group in groupby(rows, lambda row: row.session)]
        calls = chain.from_iterable(map(calls_by_message, sessions))
        memories = (
            memory_from_message(row.message, row.session, row.at, calls=row_calls)
            for row, row_calls in zip(rows, calls, strict=True)
        )
        # the text of a message was embedded as it was before the policies
        embedded = (embedding_text(memory) for memory in memories if isinstance(memory, Memory))
        self.embedding.forget(sorted(gone.texts.union(embedded)))
        return 0


@dataclass(eq=False)
class RetrievalIndexEraser:
    """Removes the rows of the retrieval index whose entries are gone."""

    cache: IndexCache
    name = "derived rows"

    def erase(self, gone: ErasedItems) -> int:
        """As ``Eraser.erase``."""
        prefix = prefix_of(gone.namespace)
        if gone.everything:
            return self.cache.clear(prefix)
        return self.cache.erase_removed(self.cache.namespaces(prefix))


@dataclass(eq=False)
class SummaryEraser:
    """Removes the summaries of a history that hold forgotten texts. They can be made again, so none is restored."""

    rows: HistoryRows
    name = "summaries"

    def erase(self, gone: ErasedItems) -> int:
        """As ``Eraser.erase``."""
        from tellback.memory.erasure.verbatim_match import VerbatimTexts

        memories = [id for ids in gone.entries.values() for id in ids]
        return self.rows.erase_summaries(memories, VerbatimTexts(gone.texts).held_by, namespace=gone.namespace)
