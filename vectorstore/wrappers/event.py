"""What an observer of a store is told, and the watch that times a call and tells it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

Observer: TypeAlias = Callable[["StoreEvent"], object]
Clock: TypeAlias = Callable[[], float]
"""Seconds that only go forward, like ``time.perf_counter``."""


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """One call that ended.

    *given*: how many entries, ids, vectors, questions or names came in; None where the call takes none, or ended
    before it could be told. *returned*: how many came out, were written, removed, counted or found wrong; None
    where that is no number, or the call failed. *seconds*: of the call; of an iterator, only those spent in the
    store; of a ``view`` or a ``transaction``, until its block ended. *error*: the class of what the call raised, or
    of what left that block. *complete*: False for an iterator that was left before its end.
    """

    operation: str
    """The method; of a view ``view.search`` and so on."""
    namespace: str | None
    """None where the call has none, or where it was given no text."""
    given: int | None
    returned: int | None
    seconds: float
    error: type[BaseException] | None
    complete: bool = True


@dataclass(slots=True)
class Sizes:
    """What is known of a call while it runs."""

    given: int | None = None
    returned: int | None = None


@dataclass(frozen=True, slots=True)
class Watch:
    """Tells *observer* of each call that ran under it."""

    observer: Observer
    clock: Clock

    @contextmanager
    def call(self, operation: str, namespace: object, given: int | None = None) -> Iterator[Sizes]:
        """One call: whatever ends it, one event is told."""
        sizes, start = Sizes(given), self.clock()
        error: type[BaseException] | None = None
        try:
            yield sizes
        except BaseException as raised:
            error = type(raised)
            raise
        finally:
            self.tell(operation, namespace, sizes, self.clock() - start, error)

    @contextmanager
    def beginning(self, operation: str, namespace: object, given: int | None = None) -> Iterator[None]:
        """The first part of a call that goes on afterwards: an event only if it fails here."""
        start = self.clock()
        try:
            yield
        except BaseException as error:
            self.tell(operation, namespace, Sizes(given), self.clock() - start, type(error))
            raise

    def tell(
        self,
        operation: str,
        namespace: object,
        sizes: Sizes,
        seconds: float,
        error: type[BaseException] | None,
        *,
        complete: bool = True,
    ) -> None:
        """Hand an event to the observer; what that one raises is logged and goes no further."""
        name = namespace if isinstance(namespace, str) else None
        returned = sizes.returned if error is None else None
        event = StoreEvent(operation, name, sizes.given, returned, seconds, error, complete)
        try:
            self.observer(event)
        except Exception:  # a call that was done must not look as if it had failed
            import logging  # only where it is needed: a program that observes nothing starts sooner

            logging.getLogger(__name__).exception(
                "the observer of %s raised; the call itself is not affected", operation
            )
