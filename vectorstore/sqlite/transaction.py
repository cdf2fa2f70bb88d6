"""A thread's present transaction: savepoints inside it, what runs after it; nobody else may end it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import apsw

from vectorstore.errors import VectorStoreError


class Writing:
    """The outermost ``write()`` of a thread on the writing connection."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.callbacks: list[Callable[[], object]] = []
        self._depth = 0
        self._committing = False

    def begin(self) -> None:
        """Take the file's write lock. From now on only ``commit`` can commit on this connection."""
        self.connection.set_commit_hook(lambda: not self._committing)
        self.connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Make everything durable."""
        if not self.connection.in_transaction:
            raise VectorStoreError(
                "an error inside the transaction was caught, but had undone all of it; nothing was written"
            )
        self._committing = True
        self.connection.execute("COMMIT")

    def end(self) -> None:
        """Undo what was not committed, and leave the connection as it was."""
        self.connection.set_commit_hook(None)
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    @contextmanager
    def inner(self) -> Iterator[None]:
        """A part that is undone alone when it fails; what it asked to run after the commit is dropped."""
        self._depth += 1
        name, asked = f"inner_{self._depth}", len(self.callbacks)
        self.connection.execute(f"SAVEPOINT {name}")
        try:
            yield
            self.connection.execute(f"RELEASE {name}")
        except BaseException:
            del self.callbacks[asked:]
            if self.connection.in_transaction:  # a full disk has ended the whole of it already
                self.connection.execute(f"ROLLBACK TO {name}")
                self.connection.execute(f"RELEASE {name}")
            raise
        finally:
            self._depth -= 1


class Reading:
    """The outermost ``read()`` of a thread, and how many blocks share it; none when it is over."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.depth = 1

    @contextmanager
    def inner(self) -> Iterator[None]:
        """One more block on the same state."""
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1


def run_all(callbacks: list[Callable[[], object]]) -> None:
    """Run what waited for the commit; one that fails stops no other, and the first error is raised."""
    errors: list[BaseException] = []
    for callback in callbacks:
        try:
            callback()
        except BaseException as error:  # raised below, after the others ran
            errors.append(error)
    if errors:
        errors[0].add_note("the transaction was committed; this came from a callback after it")
        raise errors[0]
