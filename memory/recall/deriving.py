"""From the entries of a store to columns of recall: what each text shows, by one language's rules."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import Protocol

from memory.recall.columns import Columns, columns_of
from memory.recall.lexicon import Lexicon
from memory.recall.rows import row_of
from vectorstore import Entry

_RULES = 3
"""Goes up with each change of what is derived from an entry, by ``row_of`` or ``columns_of``."""


class Stemmer(Protocol):
    """The analyzer of a store, as far as recall needs it."""

    @property
    def fingerprint(self) -> str:
        """What makes the terms."""
        ...

    def terms(self, text: str) -> list[str]:
        """Return the terms of *text*."""
        ...

    def asking(self, text: str) -> list[bool]:
        """Return for each sentence of *text* that has a term whether it is a question."""
        ...


class Deriver:
    """Derives columns; equal entries give equal ones. *zone* is that of days."""

    def __init__(self, *, analyzer: Stemmer, lexicon: Lexicon, zone: tzinfo) -> None:
        self.fingerprint = f"{_RULES}/{analyzer.fingerprint}/{zone}"
        """What made the columns: they are comparable where this is equal."""
        self._analyzer = analyzer
        self._lexicon = lexicon
        self._zone = zone
        self._term_of: dict[str, str | None] = {}

    def columns(
        self, entries: Sequence[Entry], terms: Sequence[Sequence[Sequence[str]]], *, conversation: bool
    ) -> Columns:
        """Return the columns of *entries*, no two of one id; *terms* as ``View.terms`` gives them."""
        rows = [
            row_of(
                entry,
                of_entry,
                asking=self._analyzer.asking,
                lexicon=self._lexicon,
                zone=self._zone,
                conversation=conversation,
            )
            for entry, of_entry in zip(entries, terms, strict=True)
        ]
        return columns_of(rows, self.term_of)

    def term_of(self, form: str) -> str | None:
        """Return the one term that the small-letter word *form* is; None for a stop word or a compound."""
        if form not in self._term_of:
            terms = self._analyzer.terms(form)
            self._term_of[form] = terms[0] if len(terms) == 1 else None
        return self._term_of[form]
