"""Erasers of data derived from memories: cached vectors, rows of the retrieval index, summaries of conversations."""

from __future__ import annotations

from itertools import chain, groupby

from memory.codec import to_entry
from memory.erasure.verbatim_match import VerbatimTexts
from memory.history.rows import HistoryRows
from memory.messages import calls_by_message
from memory.models import Memory
from memory.partitions import prefix_of
from memory.retrieval.index.index_cache import IndexCache
from memory.tables.erasers import ErasedItems
from memory.write.embedding_service import EmbeddingService
from memory.write.memory_writer import memory_from_message


class CachedVectorEraser:
    """Removes the vectors of forgotten texts from the file's embedding cache and from the embedder's own.

    A vector may serve an equal text of another namespace too; that text is embedded again when it is next needed.
    """

    name = "cached vectors"

    def __init__(self, embedding: EmbeddingService) -> None:
        self._embedding = embedding

    def erase(self, gone: ErasedItems) -> int:
        """As ``Eraser.erase``, but the count is always 0: a count would tell of equal texts in other namespaces."""
        rows = sorted(gone.messages, key=lambda row: (row.session, row.sequence))
        sessions = [[row.message for row in group] for _, group in groupby(rows, lambda row: row.session)]
        calls = chain.from_iterable(map(calls_by_message, sessions))
        memories = (
            memory_from_message(row.message, row.session, row.at, calls=row_calls)
            for row, row_calls in zip(rows, calls, strict=True)
        )
        # the text of a message was embedded as it was before the policies
        embedded = (to_entry(memory).text for memory in memories if isinstance(memory, Memory))
        self._embedding.forget(sorted(gone.texts.union(embedded)))
        return 0


class RetrievalIndexEraser:
    """Removes the rows of the retrieval index whose entries are gone."""

    name = "derived rows"

    def __init__(self, cache: IndexCache) -> None:
        self._cache = cache

    def erase(self, gone: ErasedItems) -> int:
        """As ``Eraser.erase``."""
        prefix = prefix_of(gone.namespace)
        if gone.everything:
            return self._cache.clear(prefix)
        return self._cache.erase_removed(self._cache.namespaces(prefix))


class SummaryEraser:
    """Removes the summaries of a history that hold forgotten texts. They can be made again, so none is restored."""

    name = "summaries"

    def __init__(self, rows: HistoryRows) -> None:
        self._rows = rows

    def erase(self, gone: ErasedItems) -> int:
        """As ``Eraser.erase``."""
        memories = [id for ids in gone.entries.values() for id in ids]
        return self._rows.erase_summaries(memories, VerbatimTexts(gone.texts).held_by, namespace=gone.namespace)
