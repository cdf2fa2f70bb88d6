"""Batching of an embedder's input: checks, truncation, distinct texts, batches, and bounded concurrency of calls.

``BatchingEmbedder`` puts these together, for embedders that ask a server or a function.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tellback.memory.embedders.protocol import EmbeddingKind, Embeddings, Truncation, measure_truncation
from tellback.memory.errors import ArgumentError, EmbedderError
from tellback.memory.tokens.counter import TokenCounter, checked_counter
from tellback.memory.tokens.estimating_counter import EstimatingCounter


def check_embedder_input(texts: Sequence[str], kind: str) -> None:
    """Raise ``ArgumentError`` unless *texts* are whole texts and *kind* is one of the two."""
    if kind not in ("document", "query"):
        raise ArgumentError("kind", kind, "'document' or 'query' is needed")
    check_texts(texts)


def check_texts(texts: Sequence[object], argument: str = "texts") -> None:
    """Raise ``ArgumentError`` naming the first of *texts* that no tokenizer and no server could take."""
    if isinstance(texts, str):
        raise ArgumentError(argument, texts, "a list of texts is needed, not one text")
    if isinstance(texts, bytes) or not isinstance(texts, Sequence):
        raise ArgumentError(argument, texts, "a list of texts is needed")
    for position, text in enumerate(texts):
        try:
            whole = isinstance(text, str) and (text.isascii() or bool(text.encode()))
        except UnicodeEncodeError:
            whole = False
        if not whole:
            raise ArgumentError(f"{argument}[{position}]", text, "a text without lone surrogates is needed")


def is_blank(text: str) -> bool:
    """Return whether *text* has nothing to embed."""
    return not text or text.isspace()


def split_batches(
    texts: Sequence[str], count: int, size: int, measure: Callable[[str], int] = len
) -> Iterator[Sequence[str]]:
    """Cut *texts* into runs of bounded count and size by *measure*; a text above the bound is a run of its own."""
    start = total = 0
    for position, text in enumerate(texts):
        length = measure(text)
        full = position - start >= count or total + length > size
        if full and position > start:
            yield texts[start:position]
            start, total = position, 0
        total += length
    if start < len(texts):
        yield texts[start:]


def token_batches(texts: Sequence[Sequence[int]], most: int) -> Iterator[tuple[int, int]]:
    """Cut *texts*, given as ids of tokens, into runs of at most *most* tokens; a longer text is a run of its own."""
    begin, tokens = 0, 0
    for end, ids in enumerate(texts):
        if end > begin and tokens + len(ids) > most:
            yield begin, end
            begin, tokens = end, 0
        tokens += len(ids)
    if len(texts) > begin:
        yield begin, len(texts)


def truncate_text(text: str, limit: int | None, measure: Callable[[str], int]) -> str:
    """Return as much of *text*, from its beginning, as *measure* counts up to *limit*; at least one character of it."""
    if limit is None or measure(text) <= limit:
        return text
    low, high = 0, min(limit, len(text))
    while high < len(text) and measure(text[:high]) <= limit:  # so that a very long text is not counted ever again
        low, high = high, min(2 * high, len(text))
    while high - low > 1:  # counts grow with the text, near enough; what is sent is counted, whatever they do
        middle = (low + high) // 2
        low, high = (middle, high) if measure(text[:middle]) <= limit else (low, middle)
    return text[:low] if low else text[:1]


def distinct_texts(texts: Sequence[str]) -> tuple[list[str], dict[str, list[int]]]:
    """Return each text that is not blank once, in order, and its positions in *texts*."""
    positions: dict[str, list[int]] = {}
    for position, text in enumerate(texts):
        if not is_blank(text):
            positions.setdefault(text, []).append(position)
    return list(positions), positions


@dataclass(frozen=True, slots=True, eq=False)
class TextVector:
    """Vector of a text, shape (d,), float32, and the truncation of the text."""

    vector: NDArray[np.float32]
    truncation: Truncation | None = None


def spread_vectors(
    count: int,
    dimension: int,
    positions: Mapping[str, Sequence[int]],
    found: Mapping[str, TextVector],
    refused: Mapping[str, str],
) -> Embeddings:
    """Return the answer for *count* texts of vectors and refusals by distinct text, at the *positions* of each."""
    vectors = np.zeros((count, dimension), np.float32)
    truncated: dict[int, Truncation] = {}
    for text, result in found.items():
        vectors[positions[text]] = result.vector
        if result.truncation is not None:
            truncated.update(dict.fromkeys(positions[text], result.truncation))
    reasons = {position: reason for text, reason in refused.items() for position in positions[text]}
    return Embeddings(vectors, truncated, reasons)


def check_positive_number(name: str, value: object, *, unset: bool = False) -> None:
    """Raise ``ArgumentError`` unless *value* is a whole number of at least 1 (or None, where it may be *unset*)."""
    if not (unset and value is None) and (type(value) is not int or value < 1):
        raise ArgumentError(name, value, "a whole number of at least 1 is needed")


T = TypeVar("T")


async def gather_bounded(calls: Sequence[Callable[[], Awaitable[T]]], limit: int) -> list[T]:
    """Return what *calls* give, in their order, at most *limit* of them under way at a time.

    The first that fails ends the others and is raised; cancelling this cancels all of them.
    """
    answers: dict[int, T] = {}
    waiting = iter(enumerate(calls))

    async def work() -> None:
        for index, call in waiting:
            answers[index] = await call()

    failed: BaseException | None = None
    if len(calls) == 1 or limit == 1:  # nothing to do at once; no task is needed
        await work()
    else:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(limit, len(calls))):
                    group.create_task(work())
        except BaseExceptionGroup as several:
            failed = several.exceptions[0]
    if failed is not None:
        raise failed
    return [answers[index] for index in range(len(calls))]


class BatchingEmbedder(ABC):
    """Base of embedders that embed distinct texts in batches, several at a time, each cut to what the model reads."""

    def __init__(
        self,
        fingerprint: str,
        dimension: int | None,
        *,
        batch_texts: int,
        concurrency: int,
        max_tokens: int | None,
        counter: TokenCounter | None,
    ) -> None:
        for name, number in (("batch_texts", batch_texts), ("concurrency", concurrency)):
            check_positive_number(name, number)
        check_positive_number("max_tokens", max_tokens, unset=True)
        self._fingerprint = fingerprint
        self._dimension = dimension or 0
        self._batch_texts = batch_texts
        self._concurrency = concurrency
        self._max_tokens = max_tokens
        self._count = (EstimatingCounter() if counter is None else checked_counter(counter)).count
        self._prefixes = {"query": "", "document": ""}

    @property
    def fingerprint(self) -> str:
        """Model and settings, or the name that was given."""
        return self._fingerprint

    @property
    def dimension(self) -> int:
        """Length of the vectors; 0 until the first answer."""
        return self._dimension

    async def embed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> NDArray[np.float32]:
        """As the protocol says; a text that is refused raises."""
        answer = await self.embed_detailed(texts, kind)
        for reason in answer.refused.values():
            raise EmbedderError(reason)
        return answer.vectors

    async def embed_detailed(self, texts: Sequence[str], kind: EmbeddingKind = "document") -> Embeddings:
        """As ``DetailedEmbedder``: truncations and refusals by position."""
        check_embedder_input(texts, kind)
        distinct, positions = distinct_texts(texts)
        prefixed = [self._prefixes[kind] + text for text in distinct]
        sent = [truncate_text(text, self._max_tokens, self._count) for text in prefixed]
        calls = [partial(self._embed_batch, batch, kind) for batch in self._batches(sent)]
        answers = await gather_bounded(calls, self._concurrency)
        results = [result for answer in answers for result in answer]
        vectors: dict[str, TextVector] = {}
        refused: dict[str, str] = {}
        for text, whole, part, result in zip(distinct, prefixed, sent, results, strict=True):
            if isinstance(result, str):
                refused[text] = result
            elif len(part) == len(whole):
                vectors[text] = result
            else:
                kept = None if result.truncation is None else result.truncation.kept
                vectors[text] = TextVector(result.vector, measure_truncation(part, whole, self._count, kept=kept))
        return spread_vectors(len(texts), self._dimension, positions, vectors, refused)

    @abstractmethod
    def _batches(self, texts: Sequence[str]) -> Iterator[Sequence[str]]:
        """Cut *texts* into batches."""

    @abstractmethod
    async def _embed_batch(self, batch: Sequence[str], kind: EmbeddingKind) -> Sequence[TextVector | str]:
        """Return the vector of each text of *batch*, or why it is refused; raise if it is not the texts."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.fingerprint!r})"
