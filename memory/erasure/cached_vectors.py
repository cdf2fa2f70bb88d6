"""What is kept of the vectors of texts goes with the texts: an eraser."""

from __future__ import annotations

from itertools import chain, groupby

from memory.codec import to_entry
from memory.forgotten.erasers import Gone
from memory.records import Memory
from memory.turns import calls_told
from memory.write.embedding import Embedding
from memory.write.turns import memory_of


class CachedVectors:
    """Removes what the file's cache and the embedder in use keep of forgotten texts.

    A vector may have been made for another namespace's equal text; that is embedded again when it is next needed.
    """

    name = "cached vectors"

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding

    def erase(self, gone: Gone) -> int:
        """As ``Eraser.erase``, but nothing is counted: another namespace may have had the same text embedded or erased,
        and no receipt tells of that.
        """
        rows = sorted(gone.messages, key=lambda row: (row.session, row.sequence))
        sessions = [[row.message for row in of] for _, of in groupby(rows, lambda row: row.session)]
        told = chain.from_iterable(map(calls_told, sessions))
        said = (memory_of(row.message, row.session, row.at, calls=calls) for row, calls in zip(rows, told, strict=True))
        embedded = (to_entry(one).text for one in said if isinstance(one, Memory))  # as it was before policies
        self._embedding.forget(sorted(gone.texts.union(embedded)))
        return 0
