"""BM25 by ``bm25s``, with the stems of Snowball and its own English stop words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.recall.system import Answered, NotAvailable, Options, line_of, question_of
from benchmarks.recall.task import Asked, Corpus


class Bm25:
    def __init__(self, folder: Path, options: Options) -> None:
        try:
            import bm25s  # type: ignore[import-untyped]
            import Stemmer
        except ModuleNotFoundError as error:
            raise NotAvailable(f"{error.name} is not installed: pip install '.[bench]'") from error
        self._bm25s = bm25s
        self._stemmer = Stemmer.Stemmer("english")
        self._index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
        self._ids: list[str] = []

    def fill(self, corpus: Corpus) -> None:
        self._ids = [item.id for item in corpus.items]
        self._index.index(self._terms([line_of(item) for item in corpus.items]), show_progress=False)

    def ask(self, asked: Asked, k: int) -> Answered:
        terms = self._terms([question_of(asked)])
        if not terms.vocab:
            return Answered(())
        found, scores = self._index.retrieve(terms, k=min(k, len(self._ids)), show_progress=False)
        both = zip(found[0].tolist(), scores[0].tolist(), strict=True)
        return Answered(tuple((self._ids[position], score) for position, score in both if score > 0))

    def close(self) -> None:
        self._ids = []

    def _terms(self, texts: list[str]) -> Any:
        return self._bm25s.tokenize(texts, stopwords="en", stemmer=self._stemmer, show_progress=False)
