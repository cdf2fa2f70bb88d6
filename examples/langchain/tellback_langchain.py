"""Tellback under LangChain: its stores as ``VectorStore`` and ``ByteStore``, its embedders as ``Embeddings``.

LangChain's standard suites pass over it: ``python -m tests.support.langchain_suites``.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.stores import ByteStore
from langchain_core.vectorstores import VectorStore

from tellback.memory import Embedder, HashingEmbedder, run_sync
from tellback.vectorstore import Entry, Space, open_store


class TellbackEmbeddings(Embeddings):
    """An embedder of Tellback, asked by LangChain."""

    def __init__(self, embedder: Embedder | None = None) -> None:
        self.embedder = embedder or HashingEmbedder()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [vector.tolist() for vector in run_sync(self.embedder.embed(texts, kind="document"))]

    def embed_query(self, text: str) -> list[float]:
        (vector,) = run_sync(self.embedder.embed([text], kind="query"))
        return vector.tolist()


class TellbackVectorStore(VectorStore):
    """One namespace of the store at *url*; the space is that of *embedding*, named *fingerprint*."""

    def __init__(self, url: str, embedding: Embeddings, *, namespace: str = "", fingerprint: str = "langchain") -> None:
        self._embedding, self._namespace = embedding, namespace
        self._store = open_store(url, space=Space(fingerprint, len(embedding.embed_query("size")), "cosine"))

    @property
    def embeddings(self) -> Embeddings:
        return self._embedding

    def add_documents(self, documents: list[Document], **options: Any) -> list[str]:
        ids = options.get("ids") or [document.id or uuid.uuid4().hex for document in documents]
        vectors = self._embedding.embed_documents([document.page_content for document in documents])
        rows = zip(ids, vectors, documents, strict=True)
        entries = [
            Entry(id, vector, document.page_content, metadata=document.metadata) for id, vector, document in rows
        ]
        self._store.upsert(entries, namespace=self._namespace)
        return ids

    def add_texts(
        self, texts: Iterable[str], metadatas: list[dict] | None = None, *, ids: list[str] | None = None, **_: Any
    ) -> list[str]:
        words = list(texts)
        pairs = zip(words, metadatas or [{}] * len(words), strict=True)
        return self.add_documents([Document(text, metadata=fields) for text, fields in pairs], ids=ids)

    def delete(self, ids: list[str] | None = None, **_: Any) -> bool:
        unwanted = [entry.id for entry in self._store.scan(namespace=self._namespace)] if ids is None else ids
        return not unwanted or self._store.delete(unwanted, namespace=self._namespace) >= 0

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        return [
            _document(entry) for entry in self._store.get(list(ids), namespace=self._namespace) if entry is not None
        ]

    def similarity_search(self, query: str, k: int = 4, **options: Any) -> list[Document]:
        return [document for document, _ in self.similarity_search_with_score(query, k, **options)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: Mapping[str, Any] | None = None, **_: Any
    ) -> list[tuple[Document, float]]:
        vector = self._embedding.embed_query(query)
        matches = self._store.search(vector, k, where=filter, namespace=self._namespace)
        return [(_document(match.entry), match.score) for match in matches]

    @classmethod
    def from_texts(
        cls, texts: list[str], embedding: Embeddings, metadatas: list[dict] | None = None, **options: Any
    ) -> TellbackVectorStore:
        store = cls(options.pop("url", "numpy:"), embedding)
        store.add_texts(texts, metadatas, **options)
        return store


def _document(entry: Entry) -> Document:
    return Document(entry.text or "", id=entry.id, metadata=dict(entry.metadata))


class TellbackByteStore(ByteStore):
    """Bytes by their keys, in one namespace of the store at *url*."""

    def __init__(self, url: str = "numpy:", *, namespace: str = "bytes") -> None:
        self._store, self._namespace = open_store(url), namespace

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        entries = self._store.get(list(keys), namespace=self._namespace)
        return [None if entry is None else base64.b64decode(entry.metadata["bytes"]) for entry in entries]

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        pairs = ((key, base64.b64encode(value).decode()) for key, value in key_value_pairs)
        self._store.upsert([Entry(key, metadata={"bytes": text}) for key, text in pairs], namespace=self._namespace)

    def mdelete(self, keys: Sequence[str]) -> None:
        if keys:
            self._store.delete(list(keys), namespace=self._namespace)

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        entries = self._store.scan(namespace=self._namespace)
        yield from (entry.id for entry in entries if entry.id.startswith(prefix or ""))
