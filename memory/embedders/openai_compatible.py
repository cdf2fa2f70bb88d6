"""Embeddings from any server with OpenAI's ``/embeddings``: OpenAI, Ollama, llama.cpp, vLLM, LM Studio, …

embedder = OpenAICompatibleEmbedder("http://localhost:11434/v1", "nomic-embed-text")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory.embedders.protocol import EmbeddingKind
from memory.embedders.texts import batches, check_input, is_blank
from memory.errors import ArgumentError, EmbedderError, HttpError
from memory.http import HttpClient
from memory.requests import is_loopback

BATCH_TEXTS = 64
BATCH_CHARACTERS = 200_000


class OpenAICompatibleEmbedder:
    """Asks ``base_url``/embeddings for vectors of *model* and believes nothing that it did not check.

    *dimensions* asks the server for shorter vectors; *query_prefix* and *document_prefix* are what models
    such as E5 or Nomic want before a text. Blank texts are not sent. A given *client* is not closed.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        dimensions: int | None = None,
        query_prefix: str = "",
        document_prefix: str = "",
        batch_texts: int = BATCH_TEXTS,
        client: HttpClient | None = None,
    ) -> None:
        if not model.strip():
            raise ArgumentError("model", model, "the name of an embedding model is needed")
        for name, value in (("dimensions", dimensions), ("batch_texts", batch_texts)):
            if value is not None and (type(value) is not int or value < 1):
                raise ArgumentError(name, value, "a whole number of at least 1 is needed")
        self._url = base_url.rstrip("/") + "/embeddings"
        self._model = model
        self._headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
        self._dimensions = dimensions
        self._prefixes = {"query": query_prefix, "document": document_prefix}
        self._batch_texts = batch_texts
        self._client = client if client is not None else HttpClient()
        self._owned = client is None
        self._dimension = dimensions or 0

    @property
    def fingerprint(self) -> str:
        """Model and settings; the address does not enter, since it does not change the vectors."""
        parts = ["openai-compatible", self._model, str(self._dimensions or "full"), "unit"]
        if any(self._prefixes.values()):
            parts.append(f"{self._prefixes['query']!r}+{self._prefixes['document']!r}")
        return "/".join(parts)

    @property
    def remote(self) -> bool:
        """Whether texts leave this machine: anywhere but to its own address."""
        return not is_loopback(self._url)

    @property
    def dimension(self) -> int:
        """Length of the vectors; 0 until the server has told."""
        return self._dimension

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> NDArray[np.float32]:
        """As the protocol says; several requests one after another where there are many texts."""
        check_input(texts, kind)
        asked = [position for position, text in enumerate(texts) if not is_blank(text)]
        prefix = self._prefixes[kind]
        rows: list[NDArray[np.float32]] = []
        for batch in batches([prefix + texts[position] for position in asked], self._batch_texts, BATCH_CHARACTERS):
            rows.append(await self._ask(batch))
        vectors = np.zeros((len(texts), self._dimension), np.float32)
        if rows:
            vectors[asked] = np.concatenate(rows)
        return vectors

    async def aclose(self) -> None:
        """Close the client, unless it was given."""
        if self._owned:
            await self._client.aclose()

    async def _ask(self, batch: Sequence[str]) -> NDArray[np.float32]:
        payload: dict[str, Any] = {"model": self._model, "input": list(batch)}
        if self._dimensions is not None:
            payload["dimensions"] = self._dimensions
        try:
            answer = await self._client.post_json(self._url, payload, headers=self._headers)
        except HttpError as error:
            raise EmbedderError(f"embedding with {self._model} failed: {error}") from error
        rows = [self._row(item) for item in self._in_order(answer, len(batch))]
        expected = self._dimension or len(rows[0])
        wrong = next((len(row) for row in rows if len(row) != expected), None)
        if wrong is not None:
            raise self._nonsense(f"vectors of {wrong} numbers where {expected} were expected")
        self._dimension = expected
        return np.stack(rows)

    def _in_order(self, answer: Any, count: int) -> list[Any]:
        """Return what the server gave for each text, in the order of the texts."""
        items = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise self._nonsense("no list of embeddings")
        if len(items) != count:
            raise self._nonsense(f"{len(items)} embeddings for {count} texts")
        indices = [item.get("index", position) for position, item in enumerate(items)]
        if not all(type(index) is int for index in indices) or sorted(indices) != list(range(count)):
            raise self._nonsense("embeddings with wrong or repeated numbers")
        by_index = dict(zip(indices, items, strict=True))
        return [by_index[index].get("embedding") for index in range(count)]

    def _row(self, values: Any) -> NDArray[np.float32]:
        if not isinstance(values, list) or not values:
            raise self._nonsense("an embedding that is not a list of numbers")
        if isinstance(values[0], list):
            raise self._nonsense("a vector for each token instead of one for the text; turn its pooling on")
        if not all(type(value) in (int, float) for value in values):
            raise self._nonsense("an embedding that is not a list of numbers")
        try:
            row = np.array(values, np.float64)
        except OverflowError as error:
            raise self._nonsense("numbers that are not finite") from error
        largest = float(np.max(np.abs(row)))
        if not np.isfinite(largest):
            raise self._nonsense("numbers that are not finite")
        if largest == 0:
            raise self._nonsense("a vector of zeros for a text that is not blank")
        row /= largest  # first, so that squares of very large or small numbers stay in range
        return (row / np.linalg.norm(row)).astype(np.float32)

    def _nonsense(self, what: str) -> EmbedderError:
        return EmbedderError(f"the server of embedding model {self._model} answered {what}")

    def __repr__(self) -> str:
        return f"OpenAICompatibleEmbedder({self.fingerprint!r})"
