"""What passes through an observed store, counted on its way and never touched: iterables in, iterators out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any, Generic, TypeVar

from vectorstore.types import Entry
from vectorstore.wrappers.event import Sizes, Watch

T = TypeVar("T")


class Counted(Generic[T]):
    """An iterator that counts what is drawn from it; it draws once, and only when asked."""

    def __init__(self, source: Iterator[T], sizes: Sizes) -> None:
        self._source = source
        self._sizes = sizes
        sizes.given = 0

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        drawn = next(self._source)
        self._sizes.given = (self._sizes.given or 0) + 1
        return drawn


def size_of(value: object) -> int | None:
    """Return how many *value* holds, if that can be told without drawing from it."""
    try:
        return len(value) if isinstance(value, Sized) else None
    except TypeError:  # an array of no dimension calls itself sized and is not
        return None


def counted(value: Iterable[T], sizes: Sizes) -> Iterable[T]:
    """Return *value* itself, or what draws from it once; *sizes* comes to know how many there were.

    What is no iterable is returned as it is: to refuse it is the store's business.
    """
    if isinstance(value, Sized):
        sizes.given = size_of(value)
        return value
    given: Any = value
    return Counted(iter(given), sizes) if isinstance(given, Iterable) else value


class ObservedEntries:
    """The entries of a ``scan``; tells its one event when it ends, fails, is closed, or is dropped."""

    def __init__(
        self, source: Iterator[Entry], watch: Watch, operation: str, namespace: object, seconds: float
    ) -> None:
        self._source = source
        self._watch = watch
        self._operation, self._namespace = operation, namespace
        self._seconds = seconds
        self._sizes = Sizes(returned=0)
        self._told = False

    def __iter__(self) -> Iterator[Entry]:
        return self

    def __next__(self) -> Entry:
        start = self._watch.clock()
        try:
            entry = next(self._source)
        except StopIteration:
            self._end(start, None)
            raise
        except BaseException as error:
            self._end(start, type(error))
            raise
        self._seconds += self._watch.clock() - start
        self._sizes.returned = (self._sizes.returned or 0) + 1
        return entry

    def close(self) -> None:
        """Leave the rest; harmless at the end, and twice."""
        start = self._watch.clock()
        close = getattr(self._source, "close", None)
        if close is not None:
            close()
        self._end(start, None, complete=False)

    def __del__(self) -> None:
        if not getattr(self, "_told", True):
            self.close()

    def _end(self, start: float, error: type[BaseException] | None, *, complete: bool = True) -> None:
        if not self._told:
            self._told = True
            seconds = self._seconds + self._watch.clock() - start
            self._watch.tell(self._operation, self._namespace, self._sizes, seconds, error, complete=complete)
