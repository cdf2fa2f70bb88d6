"""LanceDB: a table with its full-text index, and its hybrid query (full text and vectors, reciprocal ranks)."""

from __future__ import annotations

from collections.abc import Sequence

import lancedb
import pyarrow as pa

from benchmarks.memory.protocol import Adapter, Found, Hit, Item, Question, Settings
from benchmarks.memory.systems.openai_vectors import embed


class FullText(Adapter):
    score = "_score"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._database = lancedb.connect(str(settings.folder))

    def fields(self) -> list[pa.Field]:
        return [pa.field("id", pa.string()), pa.field("text", pa.string())]

    def rows(self, items: Sequence[Item]) -> list[dict[str, object]]:
        return [{"id": item.id, "text": item.line} for item in items]

    def reset(self) -> None:
        self._table = self._database.create_table("memory", schema=pa.schema(self.fields()), mode="overwrite")

    def ingest(self, items: Sequence[Item]) -> None:
        self._table.add(self.rows(items))

    def ready(self) -> None:
        self._table.create_fts_index("text", replace=True)

    def search(self, question: Question, k: int, tokens: int) -> Found:
        rows = self._table.search(question.text, query_type="fts", fts_columns="text").limit(k).to_list()
        return Found([Hit(row["id"], row["_score"]) for row in rows])


class HybridSearch(FullText):
    def fields(self) -> list[pa.Field]:
        return [*super().fields(), pa.field("vector", pa.list_(pa.float32(), self.settings.dimensions))]

    def rows(self, items: Sequence[Item]) -> list[dict[str, object]]:
        vectors = embed(self.settings, [item.line for item in items])
        return [{**row, "vector": vector} for row, vector in zip(super().rows(items), vectors, strict=True)]

    def search(self, question: Question, k: int, tokens: int) -> Found:
        (vector,) = embed(self.settings, [question.text])
        query = self._table.search(query_type="hybrid", fts_columns="text").vector(vector).text(question.text)
        rows = query.distance_type("cosine").limit(k).to_list()
        return Found([Hit(row["id"], row["_relevance_score"]) for row in rows])
