"""Embedder made of a function of one text or of a list, sync or async.

embedder = FunctionEmbedder(model.encode, fingerprint="my-model/1")
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from memory.embedders.batching import (
    TextVector,
    check_embedder_input,
    check_positive_number,
    distinct_texts,
    gather_bounded,
    split_batches,
    spread_vectors,
    truncate_text,
)
from memory.embedders.normalization import invalid_answer, normalize_rows
from memory.embedders.protocol import EmbeddingKind, Embeddings, measure_truncation
from memory.errors import ArgumentError
from memory.runtime import run_in_thread
from memory.tokens.counter import TokenCounter, checked_counter
from memory.tokens.estimating_counter import EstimatingCounter

TextFunction: TypeAlias = Callable[[Any], Any]
"""From a text to a vector, or from a list of texts to as many vectors; the answer may be awaitable."""

BATCH_TEXTS = 256
BATCH_CHARACTERS = 200_000


class FunctionEmbedder:
    """Calls *function* with lists of texts (*takes* "texts") or with one text at a time ("text").

    *fingerprint* names the model and what is done with it: change it when they change. *queries* is the function for
    questions, where they are embedded otherwise. A synchronous function runs in a thread, at most *concurrency* calls
    at a time; one that never returns holds up nothing but its own vectors. Equal texts are given once, blank ones not
    at all; vectors of any length are brought to length 1, and an answer that is no vectors raises ``EmbedderError``.
    What the function raises is raised. *remote* off says that texts do not leave this machine; without that, what is
    marked sensitive is not given to it.

    Most models read only the beginning of a long text and do not say so: with *max_tokens*, as *counter* (None: an
    estimate that does not under-count) counts them, a text is cut to what the model reads, and reported as cut.
    """

    def __init__(
        self,
        function: TextFunction,
        *,
        fingerprint: str,
        takes: Literal["texts", "text"] = "texts",
        queries: TextFunction | None = None,
        dimension: int | None = None,
        batch_texts: int = BATCH_TEXTS,
        concurrency: int = 1,
        remote: bool = True,
        max_tokens: int | None = None,
        counter: TokenCounter | None = None,
    ) -> None:
        for name, value in (("function", function), ("queries", queries)):
            if not callable(value) and not (name == "queries" and value is None):
                raise ArgumentError(name, value, "a function of texts is needed")
        if not isinstance(fingerprint, str) or not fingerprint.strip():
            raise ArgumentError("fingerprint", fingerprint, "a name for the model and its settings is needed")
        if takes not in ("texts", "text"):
            raise ArgumentError("takes", takes, "'texts' or 'text' is needed")
        for name, number in (("batch_texts", batch_texts), ("concurrency", concurrency)):
            check_positive_number(name, number)
        for name, limit in (("dimension", dimension), ("max_tokens", max_tokens)):
            check_positive_number(name, limit, unset=True)
        if not isinstance(remote, bool):
            raise ArgumentError("remote", remote, "True or False is needed: whether texts leave this machine")
        self.remote = remote
        self._functions = {"document": function, "query": queries or function}
        self._fingerprint = fingerprint
        self._single = takes == "text"
        self._dimension = dimension or 0
        self._batch_texts = batch_texts
        self._concurrency = concurrency
        self._max_tokens = max_tokens
        self._count = (EstimatingCounter() if counter is None else checked_counter(counter)).count

    @property
    def fingerprint(self) -> str:
        """The name that was given."""
        return self._fingerprint

    @property
    def dimension(self) -> int:
        """Length of the vectors; 0 until the first answer."""
        return self._dimension

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> NDArray[np.float32]:
        """As the protocol says."""
        return (await self.embed_detailed(texts, kind)).vectors

    async def embed_detailed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> Embeddings:
        """As ``DetailedEmbedder``: truncations by *max_tokens* by position; nothing is ever refused."""
        check_embedder_input(texts, kind)
        distinct, positions = distinct_texts(texts)
        parts = [truncate_text(text, self._max_tokens, self._count) for text in distinct]
        runs = [[text] for text in parts] if self._single else split_batches(parts, self._batch_texts, BATCH_CHARACTERS)
        function = self._functions[kind]
        answers = await gather_bounded([partial(self._call, function, run) for run in runs], self._concurrency)
        rows = (row for answer in answers for row in answer)
        found = {
            text: TextVector(row, measure_truncation(part, text, self._count) if len(part) < len(text) else None)
            for text, part, row in zip(distinct, parts, rows, strict=True)
        }
        return spread_vectors(len(texts), self._dimension, positions, found, {})

    async def _call(self, function: TextFunction, run: Sequence[str]) -> NDArray[np.float32]:
        argument: Any = run[0] if self._single else list(run)
        if inspect.iscoroutinefunction(function):
            answer = await function(argument)
        else:
            answer = await run_in_thread(partial(function, argument), name="tellback-embedder")
            if isinstance(answer, Awaitable):
                answer = await answer
        who = f"the function of {self._fingerprint}"
        try:
            rows = [answer] if self._single else list(answer)
        except TypeError as error:
            raise invalid_answer(who, "no list of vectors") from error
        if len(rows) != len(run):
            raise invalid_answer(who, f"{len(rows)} vectors for {len(run)} texts")
        found = normalize_rows(rows, expected=self._dimension, who=who)
        self._dimension = found.shape[1]
        return found

    def __repr__(self) -> str:
        return f"FunctionEmbedder({self._fingerprint!r})"
