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
from memory.write.turn_writer import memory_from_message


class CachedVectorEraser:
    """Removes what the file's cache and the embedder in use keep of forgotten texts.

    A vector may have been made for another namespace's equal text; that is embedded again when it is next needed.
    """

    name = "cached vectors"

    def __init__(self, embedding: EmbeddingService) -> None:
        self._embedding = embedding

    def erase(self, gone: ErasedItems) -> int:
        """As ``Eraser.erase``, but nothing is counted: another namespace may have had the same text embedded or erased,
        and no receipt tells of that.
        """
        rows = sorted(gone.messages, key=lambda row: (row.session, row.sequence))
        sessions = [[row.message for row in of] for _, of in groupby(rows, lambda row: row.session)]
        told = chain.from_iterable(map(calls_by_message, sessions))
        said = (
            memory_from_message(row.message, row.session, row.at, calls=calls)
            for row, calls in zip(rows, told, strict=True)
        )
        embedded = (to_entry(one).text for one in said if isinstance(one, Memory))  # as it was before policies
        self._embedding.forget(sorted(gone.texts.union(embedded)))
        return 0


class RetrievalIndexEraser:
    """Removes the rows that recall derived of what is gone, and of whatever else is no more."""

    name = "derived rows"

    def __init__(self, cache: IndexCache) -> None:
        self._cache = cache

    def erase(self, gone: ErasedItems) -> int:
        """As ``Eraser`` says."""
        prefix = prefix_of(gone.namespace)
        if gone.everything:
            return self._cache.clear(prefix)
        return self._cache.erase_removed(self._cache.namespaces(prefix))


class SummaryEraser:
    """The summaries beside the *rows* of a history. They can be made again, so none comes back."""

    name = "summaries"

    def __init__(self, rows: HistoryRows) -> None:
        self._rows = rows

    def erase(self, gone: ErasedItems) -> int:
        """As ``Eraser`` says."""
        memories = [id for ids in gone.entries.values() for id in ids]
        return self._rows.erase_summaries(memories, VerbatimTexts(gone.texts).held_by, namespace=gone.namespace)
