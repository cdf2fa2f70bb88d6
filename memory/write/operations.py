"""The log of operations: what was done to which memory, when and by whom; never the words themselves.

A row is written in the transaction of the change that it names. Its place in the log, not its time, says what came
first: a clock may go back.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from memory.errors import ArgumentError
from memory.records import Actor, Change, Operation, Trust
from memory.storage.serialise import texts_in

IMPORT: Final = "import"
"""The kind of the operations by which imports are recorded."""
NO_MEMORY: Final = ""
"""The id in a change that is of no memory; the log finds exports by it, and imports that took the place of all."""


class Operations(Protocol):
    """What was done, in order. Each call is one transaction, or part of the one its thread is in."""

    def add(self, namespace: str, operation: Operation) -> None:
        """Put *operation* at the end of a user's log."""
        ...

    def extend(self, namespace: str, id: str, changes: Sequence[Change]) -> None:
        """Add *changes*, of other memories, to an operation that goes on."""
        ...

    def get(self, namespace: str, id: str) -> Operation | None:
        """Return an operation with all its changes; None if there is none of that id."""
        ...

    def list(
        self, namespace: str, *, memory: str | None = None, before: str | None = None, limit: int = 100
    ) -> Sequence[Operation]:
        """Return the newest operations first (on one *memory*; those before the operation *before*)."""
        ...

    def later(self, namespace: str, id: str) -> Mapping[str, Sequence[Operation]]:
        """Return what was done after the operation *id* to memories that it changed, by memory, the newest first.

        Each comes with its change of that memory alone.
        """
        ...

    def undone(self, namespace: str, id: str, by: str | None) -> None:
        """Note that the operation *id* was taken back by another, or (None) stands again."""
        ...

    def erase(self, namespace: str, ids: Iterable[str], holds: Callable[[str], bool]) -> None:
        """Take out of the log the field values of memories that were forgotten, and of others those that *holds* is
        true of: their words."""
        ...

    def clear(self, namespace: str) -> int:
        """Remove a user's whole log, which was forgotten; return how many operations it had."""
        ...


def says(change: Change, holds: Callable[[str], bool]) -> bool:
    """Whether *holds* is true of a value that *change* keeps of a memory."""
    return bool(change.id) and any(holds(text) for fields in (change.old, change.new) for text in texts_in(fields))


def least_trusted(actors: Iterable[Actor]) -> Actor:
    """Return that of *actors* whose word counts least: it answers for what they write together."""
    return max(actors, key=lambda actor: (Trust.of(actor).rank, actor != "user"), default="user")


def replaced_all(entries: int) -> Change:
    """Return the change that records that an import took the place of everything: of so many *entries*."""
    return Change(NO_MEMORY, new={"replaced": entries})


class InMemoryOperations:
    """``Operations`` for a store without a file."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logs: dict[str, dict[str, Operation]] = {}

    def add(self, namespace: str, operation: Operation) -> None:
        """As ``Operations.add``."""
        with self._lock:
            self._logs.setdefault(namespace, {})[operation.id] = operation

    def extend(self, namespace: str, id: str, changes: Sequence[Change]) -> None:
        """As ``Operations.extend``."""
        with self._lock:
            log = self._logs[namespace]
            log[id] = replace(log[id], changes=(*log[id].changes, *changes))

    def get(self, namespace: str, id: str) -> Operation | None:
        """As ``Operations.get``."""
        with self._lock:
            return self._logs.get(namespace, {}).get(id)

    def list(
        self, namespace: str, *, memory: str | None = None, before: str | None = None, limit: int = 100
    ) -> Sequence[Operation]:
        """As ``Operations.list``."""
        with self._lock:
            every = [*self._logs.get(namespace, {}).values()]
        if before is not None:
            places = [at for at, one in enumerate(every) if one.id == before]
            if not places:
                raise unknown_operation(before)
            every = every[: places[0]]
        found = [one for one in reversed(every) if memory is None or any(one.id == memory for one in one.changes)]
        return found[:limit]

    def later(self, namespace: str, id: str) -> Mapping[str, Sequence[Operation]]:
        """As ``Operations.later``."""
        with self._lock:
            every = [*self._logs.get(namespace, {}).values()]
        places = [at for at, one in enumerate(every) if one.id == id]
        if not places:
            raise unknown_operation(id)
        mine = {change.id for change in every[places[0]].changes}
        found: defaultdict[str, list[Operation]] = defaultdict(list)
        for one in reversed(every[places[0] + 1 :]):
            for change in one.changes:
                if change.id in mine:
                    found[change.id].append(replace(one, changes=(change,)))
        return found

    def undone(self, namespace: str, id: str, by: str | None) -> None:
        """As ``Operations.undone``."""
        with self._lock:
            log = self._logs[namespace]
            log[id] = replace(log[id], undone_by=by)

    def erase(self, namespace: str, ids: Iterable[str], holds: Callable[[str], bool]) -> None:
        """As ``Operations.erase``."""
        gone = set(ids)
        with self._lock:
            log = self._logs.get(namespace, {})
            for id, one in log.items():
                changes = tuple(
                    replace(c, old={}, new={}) if c.id in gone or says(c, holds) else c for c in one.changes
                )
                log[id] = replace(one, changes=changes)

    def clear(self, namespace: str) -> int:
        """As ``Operations.clear``."""
        with self._lock:
            return len(self._logs.pop(namespace, {}))


def unknown_operation(id: str) -> ArgumentError:
    """Return the error for an operation that the log does not have."""
    return ArgumentError("operation", id, "the id of an operation of this namespace is needed")
