"""Embeddings from any server with OpenAI's ``/embeddings``: OpenAI, Ollama, llama.cpp, vLLM, LM Studio, …

embedder = OpenAICompatibleEmbedder("http://localhost:11434/v1", "nomic-embed-text")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from tellback.memory.embedders.http_embedder import HttpEmbedder, HttpEmbedderOptions


class OpenAICompatibleEmbedder(HttpEmbedder):
    """Asks ``base_url``/embeddings for vectors of *model*.

    Further keywords are ``HttpEmbedderOptions``, such as *api_key*, *dimensions* or *query_prefix*.
    """

    def __init__(self, base_url: str, model: str, **options: Unpack[HttpEmbedderOptions]) -> None:
        super().__init__(base_url, "/embeddings", model, api="openai-compatible", **options)

    def _request_body(self, batch: Sequence[str], *, may_cut: bool) -> dict[str, Any]:
        return {"model": self._model, "input": list(batch), **self._sent_dimensions}

    def _parse_answer(self, answer: Any, count: int) -> tuple[list[Any], object]:
        items = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise self._invalid_answer("no list of embeddings")
        if len(items) != count:
            raise self._invalid_answer(f"{len(items)} embeddings for {count} texts")
        indices = [item.get("index", position) for position, item in enumerate(items)]
        if not all(type(index) is int for index in indices) or sorted(indices) != list(range(count)):
            raise self._invalid_answer("embeddings with wrong or repeated numbers")
        by_index = dict(zip(indices, items, strict=True))
        usage = answer.get("usage")
        tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
        vectors = [by_index[index].get("embedding") for index in range(count)]
        return vectors, tokens
