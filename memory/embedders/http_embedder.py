"""Base of the embedders that ask a server: checks, batches, requests, and a check of every answer.

A subclass knows its wire format: the payload of a request, and where the vectors are in the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memory.embedders.batching import (
    check_embedder_input,
    check_positive_number,
    distinct_texts,
    gather_bounded,
    split_batches,
    truncate_text,
)
from memory.embedders.normalization import invalid_answer, normalize_rows
from memory.embedders.protocol import EmbeddingKind, Embeddings, Truncation, measure_truncation
from memory.errors import ArgumentError, EmbedderError, HttpError, HttpStatusError
from memory.http.client import HttpClient
from memory.http.requests import checked_url, is_loopback
from memory.tokens.counter import TokenCounter, checked_counter
from memory.tokens.estimating_counter import EstimatingCounter

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


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How an endpoint is asked.

    A request has at most *batch_texts* texts of together at most *batch_tokens* tokens, and *concurrency* requests are
    under way at once. *max_tokens*: a text is cut to that many before it is sent; None leaves it to the server.
    *counter* counts them (None: an estimate that does not under-count).
    """

    batch_texts: int = BATCH_TEXTS
    batch_tokens: int = BATCH_TOKENS
    max_tokens: int | None = None
    concurrency: int = CONCURRENCY
    counter: TokenCounter | None = None

    def __post_init__(self) -> None:
        for name in ("batch_texts", "batch_tokens", "concurrency"):
            check_positive_number(name, getattr(self, name))
        check_positive_number("max_tokens", self.max_tokens, unset=True)
        if self.counter is not None:
            checked_counter(self.counter)


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingAnswer:
    """One server's answer: a raw vector for each text, and how many tokens it read, where it says so."""

    vectors: Sequence[Any]
    tokens: int | None = None


class HttpEmbedder:
    """Base of the embedders that ask a server; use one of them.

    Equal texts are sent once, blank ones not at all. A text that the server refuses is found by asking for the halves
    of its batch; one that is too long is cut until it is taken, and told as cut. A given *client* is not closed.
    """

    def __init__(
        self,
        base_url: str,
        path: str,
        model: str,
        *,
        names: tuple[str, str],
        fingerprint: str | None,
        api_key: str | None,
        dimensions: int | None,
        prefixes: tuple[str, str],
        asking: RequestLimits,
        client: HttpClient | None,
    ) -> None:
        """*names*: wire format and model, as the fingerprint has them; *prefixes*: of a question and of a document."""
        checked_url(base_url, "base_url")
        if not isinstance(model, str) or not model.strip():
            raise ArgumentError("model", model, "the name of an embedding model is needed")
        check_positive_number("dimensions", dimensions, unset=True)
        for name, given in (("query_prefix", prefixes[0]), ("document_prefix", prefixes[1])):
            if not isinstance(given, str):
                raise ArgumentError(name, given, "a text is needed; an empty one for no prefix")
        if fingerprint is not None and (not isinstance(fingerprint, str) or not fingerprint.strip()):
            raise ArgumentError("fingerprint", fingerprint, "a name for the vectors is needed, or None")
        if client is not None and not isinstance(client, HttpClient):
            raise ArgumentError("client", type(client).__name__, "a memory.http.HttpClient is needed")
        made = [*names, str(dimensions or "full"), "unit"]
        if any(prefixes):
            made.append("+".join(repr(prefix) for prefix in prefixes))
        self._url = base_url.rstrip("/") + path
        self._model = model
        self._fingerprint = fingerprint or "/".join(made)
        self._headers = _authorization_header(api_key)
        self._dimensions = dimensions
        self._prefixes: dict[str, str] = dict(zip(("query", "document"), prefixes, strict=True))
        self._asking = asking
        self._counter: TokenCounter = asking.counter or EstimatingCounter()
        self._client = client if client is not None else HttpClient()
        self._owned = client is None
        self._dimension = dimensions or 0

    @property
    def fingerprint(self) -> str:
        """Model and settings, or the name that was given; the address does not enter, it does not change vectors."""
        return self._fingerprint

    @property
    def dimension(self) -> int:
        """Length of the vectors; 0 until the server has told."""
        return self._dimension

    @property
    def remote(self) -> bool:
        """Whether the server is another machine."""
        return not is_loopback(self._url)

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> NDArray[np.float32]:
        """As the protocol says; a text that the server refuses raises."""
        answer = await self.embed_detailed(texts, kind)
        for reason in answer.refused.values():
            raise EmbedderError(reason)
        return answer.vectors

    async def embed_detailed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> Embeddings:
        """As ``DetailedEmbedder``: what was cut and what was refused is told by place."""
        check_embedder_input(texts, kind)
        asked, places = distinct_texts(texts)
        found: dict[str, _TextResult] = {}
        sent = [
            truncate_text(self._prefixes[kind] + text, self._asking.max_tokens, self._counter.count) for text in asked
        ]
        runs = split_batches(sent, self._asking.batch_texts, self._asking.batch_tokens, self._counter.count)
        answers = await gather_bounded([partial(self._settle, run) for run in runs], self._asking.concurrency)
        for text, part, one in zip(asked, sent, (one for answer in answers for one in answer), strict=True):
            found[text] = self._noted(self._prefixes[kind] + text, part, one)
        vectors = np.zeros((len(texts), self._dimension), np.float32)
        truncated: dict[int, Truncation] = {}
        refused: dict[int, str] = {}
        for text, one in found.items():
            for place in places[text]:
                if one.vector is not None:
                    vectors[place] = one.vector
                if one.truncation is not None:
                    truncated[place] = one.truncation
                if one.refused is not None:
                    refused[place] = one.refused
        return Embeddings(vectors, truncated, refused)

    async def aclose(self) -> None:
        """Close the client, unless it was given."""
        if self._owned:
            await self._client.aclose()

    def _payload(self, batch: Sequence[str], *, may_cut: bool) -> dict[str, Any]:
        """Return what is sent for *batch*; *may_cut*: a text that is too long, where the server knows how to."""
        raise NotImplementedError

    def _answered(self, answer: Any, count: int) -> EmbeddingAnswer:
        """Return the vectors in *answer* in the order of the texts; raise ``self._nonsense`` for another shape."""
        raise NotImplementedError

    _server_cuts = False
    """Whether the server can be told to cut a text that is too long."""

    def _nonsense(self, what: str) -> EmbedderError:
        return invalid_answer(self._who, what)

    @property
    def _who(self) -> str:
        return f"the server of embedding model {self._model}"

    async def _settle(self, batch: Sequence[str]) -> list[_TextResult]:
        """Return what became of each text of *batch*; raise where it is not the texts that the server refuses."""
        try:
            return [_TextResult(vector) for vector in (await self._ask(batch))[0]]
        except EmbedderError as error:
            if not _refuses_texts(error):
                raise
            if len(batch) == 1:
                return [await self._alone(batch[0], error)]
            (shortest,) = await self._settle([min(batch, key=len)])
            if shortest.refused is not None:  # then it is hardly about one of the texts
                raise
        half = len(batch) // 2
        return [*await self._settle(batch[:half]), *await self._settle(batch[half:])]

    async def _alone(self, text: str, error: EmbedderError) -> _TextResult:
        """Return what becomes of a text that was refused by itself."""
        part, may_cut = text, self._server_cuts
        for _ in range(_MAX_HALVINGS):
            if not may_cut:
                part = part[: len(part) // 2]
            if not (_is_too_long(error) and part.strip()):
                break
            try:
                vectors, kept = await self._ask([part], may_cut=may_cut)
            except EmbedderError as again:
                if not _refuses_texts(again):
                    raise
                error, may_cut = again, False
            else:
                return _TextResult(vectors[0], self._truncation(kept, part, text))
        return _TextResult(refused=str(error))

    async def _ask(
        self, batch: Sequence[str], *, may_cut: bool = False
    ) -> tuple[list[NDArray[np.float32]], int | None]:
        try:
            answer = await self._client.post_json(
                self._url, self._payload(batch, may_cut=may_cut), headers=self._headers
            )
        except HttpError as error:
            raise EmbedderError(f"embedding with {self._model} failed: {error}") from error
        answered = self._answered(answer, len(batch))
        if len(answered.vectors) != len(batch):
            raise self._nonsense(f"{len(answered.vectors)} embeddings for {len(batch)} texts")
        rows = normalize_rows(answered.vectors, expected=self._dimension, who=self._who)
        self._dimension = rows.shape[1]
        return list(rows), answered.tokens

    def _noted(self, whole: str, sent: str, one: _TextResult) -> _TextResult:
        """Return *one* with what was cut of *whole* before it was sent."""
        if one.vector is None or len(sent) == len(whole):
            return one
        kept = None if one.truncation is None else one.truncation.kept
        return _TextResult(one.vector, self._truncation(kept, sent, whole))

    def _truncation(self, kept: int | None, part: str, whole: str) -> Truncation:
        return measure_truncation(part, whole, self._counter.count, kept=kept)


@dataclass(frozen=True, slots=True, eq=False)
class _TextResult:
    """What became of one text."""

    vector: NDArray[np.float32] | None = None
    truncation: Truncation | None = None
    refused: str | None = None


def _authorization_header(key: str | None) -> dict[str, str]:
    if key is not None and not (isinstance(key, str) and key.isascii() and key.isprintable() and key == key.strip()):
        raise ArgumentError("api_key", "(not shown)", "a key in plain ASCII, with no space or line end around it")
    return {"authorization": f"Bearer {key}"} if key else {}


def _refuses_texts(error: EmbedderError) -> bool:
    """Whether the server refused what it was given, so that other texts may fare better."""
    cause = error.__cause__
    return isinstance(cause, HttpStatusError) and (cause.status in _REFUSAL_STATUSES or _is_too_long(error))


def _is_too_long(error: EmbedderError) -> bool:
    cause, text = error.__cause__, str(error).lower()
    return isinstance(cause, HttpStatusError) and (
        cause.status == _TOO_LARGE_STATUS or any(words in text for words in _TOO_LONG_PHRASES)
    )
