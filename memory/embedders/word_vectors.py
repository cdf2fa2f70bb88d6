"""Vectors of single words from the local table, for the soft word match; whatever embeds the texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from memory.embedders.static_table import StaticTable, installed_table
from memory.embedders.texts import check_texts, is_blank


class LocalWordVectors:
    """One vector a word: the mean of the token vectors of the word after a space, length 1.

    Raises ``MissingExtra`` when the extra ``local`` is not installed.
    """

    def __init__(self, *, table: StaticTable | None = None) -> None:
        self._table = table if table is not None else installed_table()

    @property
    def fingerprint(self) -> str:
        """The table, by its bytes, and what is done with it."""
        return f"local/wordllama-{self._table.dimension}/{self._table.mark}/word"

    @property
    def dimension(self) -> int:
        """Length of the vectors."""
        return self._table.dimension

    def words(self, words: Sequence[str]) -> NDArray[np.float32]:
        """As the protocol says."""
        check_texts(words, "words")
        return self._table.means(["" if is_blank(word) else " " + word for word in words], often=False)

    def __repr__(self) -> str:
        return f"LocalWordVectors({self.fingerprint!r})"
