"""Embedder made of a function of one text or of a list, sync or async.

embedder = FunctionEmbedder(model.encode, fingerprint="my-model/1")
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from tellback.memory.embedders.batching import BatchingEmbedder, TextVector, check_positive_number, split_batches
from tellback.memory.embedders.normalization import invalid_answer, normalize_rows
from tellback.memory.embedders.protocol import EmbeddingKind
from tellback.memory.errors import ArgumentError
from tellback.memory.runtime import call_sync_or_async
from tellback.memory.tokens.counter import TokenCounter

TextFunction: TypeAlias = Callable[[Any], Any]
"""From a text to a vector, or from a list of texts to as many vectors; the answer may be awaitable."""

BATCH_TEXTS = 256
BATCH_CHARACTERS = 200_000


class FunctionEmbedder(BatchingEmbedder):
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
        check_positive_number("dimension", dimension, unset=True)
        if not isinstance(remote, bool):
            raise ArgumentError("remote", remote, "True or False is needed: whether texts leave this machine")
        super().__init__(
            fingerprint,
            dimension,
            batch_texts=batch_texts,
            concurrency=concurrency,
            max_tokens=max_tokens,
            counter=counter,
        )
        self.remote = remote
        self._functions = {"document": function, "query": queries or function}
        self._single = takes == "text"

    def _batches(self, texts: Sequence[str]) -> Iterator[Sequence[str]]:
        return split_batches(texts, 1 if self._single else self._batch_texts, BATCH_CHARACTERS)

    async def _embed_batch(self, batch: Sequence[str], kind: EmbeddingKind) -> Sequence[TextVector]:
        function = self._functions[kind]
        argument: Any = batch[0] if self._single else list(batch)
        answer = await call_sync_or_async(function, argument, name="tellback-embedder")
        name = f"the function of {self._fingerprint}"
        try:
            rows = [answer] if self._single else list(answer)
        except TypeError as error:
            raise invalid_answer(name, "no list of vectors") from error
        if len(rows) != len(batch):
            raise invalid_answer(name, f"{len(rows)} vectors for {len(batch)} texts")
        unit_rows = normalize_rows(rows, expected=self._dimension, who=name)
        self._dimension = unit_rows.shape[1]
        return [TextVector(row) for row in unit_rows]
