"""Embeddings from Ollama in its own format (``/api/embed``): the models of this machine, without a key.

embedder = OllamaEmbedder("nomic-embed-text")  # at http://127.0.0.1:11434
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from tellback.memory.embedders.http_embedder import HttpEmbedder, HttpEmbedderOptions
from tellback.memory.errors import ArgumentError

BASE_URL = "http://127.0.0.1:11434"
CONCURRENCY = 2
"""A server on one machine has one processor to share."""


class OllamaEmbedder(HttpEmbedder):
    """Asks Ollama at *base_url* (without ``/api``) for vectors of *model*.

    Ollama by itself cuts what is too long and says nothing; here it is told not to, and only a text that it then
    refuses is sent once more to be cut, and reported as cut. *keep_alive* ("10m", "-1") and *options* (``num_ctx``) are
    passed on where they are given. *api_key* is for a server behind a guard; Ollama itself wants none. Further
    keywords are ``HttpEmbedderOptions``.
    """

    _server_cuts = True

    def __init__(
        self,
        model: str,
        *,
        base_url: str = BASE_URL,
        keep_alive: str | None = None,
        options: Mapping[str, Any] | None = None,
        **http_options: Unpack[HttpEmbedderOptions],
    ) -> None:
        http_options.setdefault("concurrency", CONCURRENCY)
        super().__init__(base_url, "/api/embed", model, api="ollama", **http_options)
        if options is not None and not isinstance(options, Mapping):
            raise ArgumentError("options", options, 'a mapping such as {"num_ctx": 8192} is needed')
        self._settings: dict[str, Any] = {} if keep_alive is None else {"keep_alive": keep_alive}
        if options:
            self._settings["options"] = dict(options)

    def _model_name(self, model: str) -> str:
        return model.removesuffix(":latest")  # the same model, for Ollama

    def _request_body(self, batch: Sequence[str], *, may_cut: bool) -> dict[str, Any]:
        texts = {"input": list(batch), "truncate": may_cut}
        return {"model": self._model, **texts, **self._sent_dimensions, **self._settings}

    def _parse_answer(self, answer: Any, count: int) -> tuple[list[Any], object]:
        vectors = answer.get("embeddings") if isinstance(answer, dict) else None
        if not isinstance(vectors, list):
            raise self._invalid_answer("no list of embeddings")
        return vectors, answer.get("prompt_eval_count")
