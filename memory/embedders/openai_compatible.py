"""Embeddings from any server with OpenAI's ``/embeddings``: OpenAI, Ollama, llama.cpp, vLLM, LM Studio, …

embedder = OpenAICompatibleEmbedder("http://localhost:11434/v1", "nomic-embed-text")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from memory.embedders.http_embedder import (
    BATCH_TEXTS,
    BATCH_TOKENS,
    CONCURRENCY,
    EmbeddingAnswer,
    HttpEmbedder,
    RequestLimits,
)
from memory.http.client import HttpClient
from memory.tokens.counter import TokenCounter


class OpenAICompatibleEmbedder(HttpEmbedder):
    """Asks ``base_url``/embeddings for vectors of *model*.

    *dimensions* asks the server for shorter vectors; *query_prefix* and *document_prefix* are what models such as E5
    or Nomic want before a text. *fingerprint* names the vectors where two servers know one model by different names;
    left out, it is made of the model and these settings. Other options as in ``HttpEmbedder``.
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
        fingerprint: str | None = None,
        batch_texts: int = BATCH_TEXTS,
        batch_tokens: int = BATCH_TOKENS,
        max_tokens: int | None = None,
        concurrency: int = CONCURRENCY,
        counter: TokenCounter | None = None,
        client: HttpClient | None = None,
    ) -> None:
        super().__init__(
            base_url,
            "/embeddings",
            model,
            names=("openai-compatible", str(model)),
            fingerprint=fingerprint,
            api_key=api_key,
            dimensions=dimensions,
            prefixes=(query_prefix, document_prefix),
            asking=RequestLimits(batch_texts, batch_tokens, max_tokens, concurrency, counter),
            client=client,
        )

    def _payload(self, batch: Sequence[str], *, may_cut: bool) -> dict[str, Any]:
        payload: dict[str, Any] = {"model": self._model, "input": list(batch)}
        if self._dimensions is not None:
            payload["dimensions"] = self._dimensions
        return payload

    def _answered(self, answer: Any, count: int) -> EmbeddingAnswer:
        items = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise self._nonsense("no list of embeddings")
        if len(items) != count:
            raise self._nonsense(f"{len(items)} embeddings for {count} texts")
        indices = [item.get("index", position) for position, item in enumerate(items)]
        if not all(type(index) is int for index in indices) or sorted(indices) != list(range(count)):
            raise self._nonsense("embeddings with wrong or repeated numbers")
        by_index = dict(zip(indices, items, strict=True))
        usage = answer.get("usage")
        tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        vectors = [by_index[index].get("embedding") for index in range(count)]
        return EmbeddingAnswer(vectors, tokens if type(tokens) is int and tokens > 0 else None)

    def __repr__(self) -> str:
        return f"OpenAICompatibleEmbedder({self.fingerprint!r})"
