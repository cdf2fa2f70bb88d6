"""Base of the embedders that ask a server: checks, batches, requests, and a check of every answer.

A subclass knows its wire format: the payload of a request, and where the vectors are in the answer.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.batching import BatchingEmbedder, TextVector, check_positive_number, split_batches
from tellback.memory.embedders.normalization import invalid_answer, normalize_rows
from tellback.memory.embedders.protocol import EmbeddingKind, measure_truncation
from tellback.memory.errors import ArgumentError, EmbedderError, HttpError, HttpStatusError
from tellback.memory.http.client import HttpClient
from tellback.memory.http.requests import checked_url, is_loopback
from tellback.memory.tokens.counter import TokenCounter, counter_for_model

BATCH_TEXTS = 64
BATCH_TOKENS = 60_000
CONCURRENCY = 4

_REFUSAL_STATUSES = frozenset({400, 422})
_TOO_LARGE_STATUS = 413
_TOO_LONG_PHRASES = (
    "context length",
    "context size",
    "context window",
    "too long",
    "too large",
    "token limit",
    "max_tokens",
)
_MAX_HALVINGS = 16


class HttpEmbedderOptions(TypedDict, total=False):
    """Options of every embedder that asks a server; all may be left out.

    - *api_key*: sent as a bearer token.
    - *dimensions*: vectors of that length are asked for, from servers that can shorten them.
    - *query_prefix*, *document_prefix*: what models such as E5 or Nomic want before a text.
    - *fingerprint*: the name of the vectors where two servers know one model by different names; left out, it is made
      of the model and these settings.
    - *batch_texts*, *batch_tokens*: a request has at most so many texts, of together at most so many tokens.
    - *concurrency*: so many requests are under way at once.
    - *max_tokens*: a text is cut to so many before it is sent; None leaves it to the server.
    - *counter*: counts these tokens (None: exactly for OpenAI's models, else an estimate that does not under-count).
    - *client*: the HTTP client, which stays open; None makes one.
    """

    api_key: str | None
    dimensions: int | None
    query_prefix: str
    document_prefix: str
    fingerprint: str | None
    batch_texts: int
    batch_tokens: int
    max_tokens: int | None
    concurrency: int
    counter: TokenCounter | None
    client: HttpClient | None


class HttpEmbedder(BatchingEmbedder):
    """Base of the embedders that ask a server; use one of them.

    Equal texts are sent once, blank ones not at all. A text that the server refuses is found by asking for the halves
    of its batch; one that is too long is cut until it is taken, and reported as cut. A given *client* is not closed.
    """

    def __init__(
        self, base_url: str, path: str, model: str, *, api: str, **options: Unpack[HttpEmbedderOptions]
    ) -> None:
        """*api* names the wire format in the fingerprint; the address does not enter, it does not change vectors."""
        checked_url(base_url, "base_url")
        if not isinstance(model, str) or not model.strip():
            raise ArgumentError("model", model, "the name of an embedding model is needed")
        dimensions, fingerprint, client = (options.get("dimensions"), options.get("fingerprint"), options.get("client"))
        prefixes = {"query": options.get("query_prefix", ""), "document": options.get("document_prefix", "")}
        for kind, prefix in prefixes.items():
            if not isinstance(prefix, str):
                raise ArgumentError(f"{kind}_prefix", prefix, "a text is needed; an empty one for no prefix")
        if fingerprint is not None and (not isinstance(fingerprint, str) or not fingerprint.strip()):
            raise ArgumentError("fingerprint", fingerprint, "a name for the vectors is needed, or None")
        if client is not None and not isinstance(client, HttpClient):
            raise ArgumentError("client", type(client).__name__, "a memory.http.HttpClient is needed")
        name_parts = [api, self._model_name(model), str(dimensions or "full"), "unit"]
        if any(prefixes.values()):
            name_parts.append("+".join(map(repr, prefixes.values())))
        check_positive_number("dimensions", dimensions, unset=True)
        super().__init__(
            fingerprint or "/".join(name_parts),
            dimensions,
            batch_texts=options.get("batch_texts", BATCH_TEXTS),
            concurrency=options.get("concurrency", CONCURRENCY),
            max_tokens=options.get("max_tokens"),
            counter=options.get("counter") or counter_for_model(model),
        )
        self._url = base_url.rstrip("/") + path
        self._model = model
        self._server_name = f"the server of embedding model {model}"
        self._headers = _authorization_header(options.get("api_key"))
        self._sent_dimensions = {} if dimensions is None else {"dimensions": dimensions}
        self._prefixes = prefixes
        self._batch_tokens = options.get("batch_tokens", BATCH_TOKENS)
        check_positive_number("batch_tokens", self._batch_tokens)
        self._client = client if client is not None else HttpClient()
        self._owned = client is None

    @property
    def remote(self) -> bool:
        """True if the server is another machine."""
        return not is_loopback(self._url)

    async def aclose(self) -> None:
        """Close the client, unless it was given."""
        if self._owned:
            await self._client.aclose()

    def _model_name(self, model: str) -> str:
        """Return the name of *model* in the fingerprint."""
        return model

    @abstractmethod
    def _request_body(self, batch: Sequence[str], *, may_cut: bool) -> dict[str, Any]:
        """Return what is sent for *batch*; *may_cut*: a text that is too long, where the server knows how to."""

    @abstractmethod
    def _parse_answer(self, answer: Any, count: int) -> tuple[list[Any], object]:
        """Return the vectors in *answer* in the order of the texts, and what it says of the number of tokens.

        Another shape raises ``_invalid_answer``.
        """

    _server_cuts = False
    """True if the server can be told to cut a text that is too long."""

    def _invalid_answer(self, problem: str) -> EmbedderError:
        return invalid_answer(self._server_name, problem)

    def _batches(self, texts: Sequence[str]) -> Iterator[Sequence[str]]:
        return split_batches(texts, self._batch_texts, self._batch_tokens, self._count)

    async def _embed_batch(self, batch: Sequence[str], kind: EmbeddingKind) -> list[TextVector | str]:
        try:
            return [TextVector(vector) for vector in (await self._post_batch(batch))[0]]
        except EmbedderError as error:
            if not _refuses_texts(error):
                raise
            if len(batch) == 1:
                return [await self._embed_refused(batch[0], error)]
            (shortest,) = await self._embed_batch([min(batch, key=len)], kind)
            if isinstance(shortest, str):  # then it is hardly about one of the texts
                raise
        half = len(batch) // 2
        return [*await self._embed_batch(batch[:half], kind), *await self._embed_batch(batch[half:], kind)]

    async def _embed_refused(self, text: str, error: EmbedderError) -> TextVector | str:
        """Return the vector of a text that was refused by itself, cut if it is too long; or why it is refused."""
        part, may_cut = text, self._server_cuts
        for _ in range(_MAX_HALVINGS):
            if not may_cut:
                part = part[: len(part) // 2]
            if not (_is_too_long(error) and part.strip()):
                break
            try:
                vectors, tokens = await self._post_batch([part], may_cut=may_cut)
            except EmbedderError as again:
                if not _refuses_texts(again):
                    raise
                error, may_cut = again, False
            else:
                return TextVector(vectors[0], measure_truncation(part, text, self._count, kept=tokens))
        return str(error)

    async def _post_batch(
        self, batch: Sequence[str], *, may_cut: bool = False
    ) -> tuple[list[NDArray[np.float32]], int | None]:
        body = self._request_body(batch, may_cut=may_cut)
        try:
            answer = await self._client.post_json(self._url, body, headers=self._headers)
        except HttpError as error:
            raise EmbedderError(f"embedding with {self._model} failed: {error}") from error
        vectors, tokens = self._parse_answer(answer, len(batch))
        if len(vectors) != len(batch):
            raise self._invalid_answer(f"{len(vectors)} embeddings for {len(batch)} texts")
        rows = normalize_rows(vectors, expected=self._dimension, who=self._server_name)
        self._dimension = rows.shape[1]
        return list(rows), tokens if type(tokens) is int and tokens > 0 else None


def _authorization_header(key: str | None) -> dict[str, str]:
    if key is not None and not (isinstance(key, str) and key.isascii() and key.isprintable() and key == key.strip()):
        raise ArgumentError("api_key", "(not shown)", "a key in plain ASCII, with no space or line end around it")
    return {"authorization": f"Bearer {key}"} if key else {}


def _refuses_texts(error: EmbedderError) -> bool:
    """Return whether the server refused what it was given, so that other texts may fare better."""
    cause = error.__cause__
    return isinstance(cause, HttpStatusError) and (cause.status in _REFUSAL_STATUSES or _is_too_long(error))


def _is_too_long(error: EmbedderError) -> bool:
    cause, text = error.__cause__, str(error).lower()
    return isinstance(cause, HttpStatusError) and (
        cause.status == _TOO_LARGE_STATUS or any(words in text for words in _TOO_LONG_PHRASES)
    )
