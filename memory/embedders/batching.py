"""Batching of an embedder's input: checks, truncation, distinct texts, batches, and bounded concurrency of calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from memory.embedders.protocol import Embeddings, Truncation
from memory.errors import ArgumentError


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
