"""The embedder that needs no key, no server and no download: static token vectors (extra ``local``).

>>> embedder = LocalEmbedder()
>>> run_sync(embedder.embed(["I moved to Lisbon."])).shape
(1, 256)
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memory.embedders.protocol import EmbeddingKind
from memory.embedders.static_table import StaticTable, installed_table
from memory.embedders.texts import check_input

INLINE_CHARACTERS = 2000
"""Up to here a question is embedded where it stands: a hop to a thread would take longer."""


class LocalEmbedder:
    """Plain mean of the token vectors, length 1; a question and a document are embedded alike.

    Raises ``MissingExtra`` when the extra is not installed (``local_available`` tells beforehand).
    """

    remote = False

    def __init__(self, *, table: StaticTable | None = None) -> None:
        self._table = table if table is not None else installed_table()

    @property
    def fingerprint(self) -> str:
        """The table, by its bytes, and what is done with it."""
        return f"local/wordllama-{self._table.dimension}/{self._table.mark}/mean"

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return self._table.dimension

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> NDArray[np.float32]:
        """As the protocol says; long work goes to a thread."""
        check_input(texts, kind)
        if self._table.ready and sum(map(len, texts)) <= INLINE_CHARACTERS:
            return self._table.means(texts)
        return await asyncio.to_thread(self._table.means, texts)

    def __repr__(self) -> str:
        return f"LocalEmbedder({self.fingerprint!r})"
