"""What is kept of the vectors of texts goes with the texts: an eraser."""

from __future__ import annotations

from memory.forgotten.erasers import Gone
from memory.write.embedding import Embedding


class CachedVectors:
    """Removes what the file's cache and the embedder in use keep of forgotten texts.

    A vector may have been made for another namespace's equal text; that is embedded again when it is next needed.
    """

    name = "cached vectors"

    def __init__(self, embedding: Embedding) -> None:
        self._embedding = embedding

    def erase(self, gone: Gone) -> int:
        """As ``Eraser.erase``."""
        return self._embedding.forget(sorted(gone.texts))
