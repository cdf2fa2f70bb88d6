"""Steps of a store of tables: batches of a write, pages of a scan, arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar, cast

from tellback.vectorstore.errors import ArgumentError
from tellback.vectorstore.types import Cursor, Entry, ProgressCallback
from tellback.vectorstore.validation import CheckedEntry, check_expect, entry_batches

PAGE_SIZE: Final = 256
"""Entries read at once."""

BatchWriter: TypeAlias = Callable[[Sequence[Entry], int, dict[str, int]], tuple[Sequence[CheckedEntry], int]]
"""Writes a batch, given the number of its first entry and the expected revisions; returns what it checked and wrote."""


P = ParamSpec("P")
R = TypeVar("R")


def searched(method: Callable[P, R]) -> Callable[P, R]:
    """Return a search of ``VectorStore`` that is answered by a view that is open for this one call."""
    name = method.__name__

    @wraps(method)
    def call(self: Any, *values: Any, **options: Any) -> Any:
        with self._reading() as view:
            return getattr(view, name)(*values, **options)

    return cast("Callable[P, R]", call)


def write_batches(
    entries: Iterable[Entry], expect: Mapping[str, int] | None, on_progress: ProgressCallback | None, write: BatchWriter
) -> int:
    """Write *entries* batch by batch and return how many writes were made; an expected revision counts once."""
    expected, written = dict(check_expect(expect)), 0
    for start, batch in entry_batches(entries):
        checked, count = write(batch, start, expected)
        written += count
        for entry in checked:
            expected.pop(entry.id, None)
        if on_progress is not None:
            on_progress(written)
    return written


def read_pages(read: Callable[[str | None, int], Sequence[Entry]], after: str | None) -> Iterator[Entry]:
    """Yield the entries of the pages that *read* returns for an id (or None) and a size, until a page is empty."""
    last = after
    while page := read(last, PAGE_SIZE):
        yield from page
        last = page[-1].id


def check_cursor(since: Cursor | None, namespace: str) -> int | None:
    """Return the position of a cursor, which must be one of *namespace*; None without a cursor."""
    if since is None:
        return None
    if since.namespace != namespace:
        raise ArgumentError("since", since, f"a cursor of namespace {namespace!r} is needed")
    return since.position
