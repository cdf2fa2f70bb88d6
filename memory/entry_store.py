"""Entry store: the vector store seen through the partitions of a memory, in one transaction with history.

A memory is an entry of the conversation partition, a passage one of a document partition, an earlier version one of the
archive (``tellback.memory.partitions``). The methods block: they run in a worker thread.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice
from typing import Any, Final

from tellback.memory.errors import ArgumentError, NoSuchMemory
from tellback.memory.history.protocol import HistoryRow
from tellback.memory.history.rows import HistoryRows
from tellback.memory.partitions import (
    ARCHIVE,
    CONVERSATION,
    DOCUMENTS,
    archived_id,
    parse_store_namespace,
    prefix_of,
    store_namespace,
)
from tellback.vectorstore import (
    Database,
    Entry,
    LifecycleStore,
    Metadata,
    Space,
    UnsupportedError,
    VectorStore,
    lifecycle_of,
)
from tellback.vectorstore.internals import check_overrides

_PAGE_SIZE: Final = 256
ERASED_PAGE_SIZE: Final = 1000
_MAX_SKIPPED: Final = 256
"""Versions of other memories that are read past, a page of the archive; more are skipped by a new query."""
_FIELDS_OF_ALL_VERSIONS: Final = ("disabled", "expires_at", "expires_at_offset")
"""Fields that hide a memory, and its earlier versions too."""


class EntryStore:
    """Entries of a memory by partition; its transactions hold conversation history too where that is in the same file.

    *store* holds the entries, *rows* the history. *followers* are called with the partition and the number of entries
    that were added, after the commit and in the thread of the writer; they must not raise. Any thread may call.
    """

    def __init__(self, store: VectorStore, rows: HistoryRows) -> None:
        self.store = store
        self.rows = rows
        self.followers: list[Callable[[str, int], object]] = []
        self._lifecycle = lifecycle_of(store)  # asked for once: it reads each property of the store

    @property
    def lifecycle_store(self) -> LifecycleStore | None:
        """The store if it has the lifecycle part; None for one with data alone."""
        return self._lifecycle

    @property
    def database(self) -> Database | None:
        """The database of the store; None where it has none."""
        return None if self._lifecycle is None else self._lifecycle.database

    @property
    def history_apart(self) -> bool:
        """True if history is kept elsewhere than the entries: no transaction holds both."""
        return self.rows.database is not self.database

    def lifecycle(self, operation: str) -> LifecycleStore:
        """Return the store if it can do what *operation* needs, else raise ``UnsupportedError`` with its name.

        The store then takes the vectors that the file has now, whoever switched it to others.
        """
        if self._lifecycle is None:
            reason = f"{type(self.store).__name__} lacks the lifecycle part (transaction, erase)"
            raise UnsupportedError(operation, reason)
        self.follow_space()
        return self._lifecycle

    def follow_space(self) -> Space | None:
        """Let the store take vectors of the file's present space; return that space."""
        return follow_recorded_space(self.store, self._lifecycle)

    def transaction(self, namespace: str | None = None) -> AbstractContextManager[None]:
        """Return one transaction over the whole database; on a data-only store each call stands alone.

        Nobody else writes meanwhile to the user's *namespace* (None: to any) in such a transaction.
        """
        return nullcontext() if self._lifecycle is None else self._lifecycle.transaction(lock=namespace)

    def erase(self, ids: Sequence[str], partition: str) -> None:
        """Erase entries of a partition with their bytes; a data-only store deletes them, as it does that."""
        if self._lifecycle is not None:
            self._lifecycle.erase(ids, namespace=partition)
        elif ids:
            self.store.delete(ids, namespace=partition)

    def pending_erasure(self) -> bool:
        """Return whether erased bytes may still be in a file of the store; False where it cannot tell."""
        return self._lifecycle is not None and self._lifecycle.pending_erasure()

    def add(self, entries: Sequence[Entry], partition: str, expect: Mapping[str, int]) -> None:
        """Write *entries*, as ``VectorStore.upsert``; the followers hear of it."""
        self.store.upsert(entries, namespace=partition, expect=expect)
        if self.database is not None and self.database.in_write():
            count = len(entries)  # the entries themselves would stay until the commit of a whole import
            self.database.on_commit(lambda: [follow(partition, count) for follow in self.followers])

    @contextmanager
    def settling(self, namespace: str | None) -> Iterator[list[HistoryRow]]:
        """Open a ``transaction`` of *namespace* and yield a list for the messages that it remembers, settled with it.

        Where history is kept elsewhere that comes after the commit: after a crash in between, crash recovery does it.
        """
        remembered: list[HistoryRow] = []
        with self.transaction(namespace):
            yield remembered
            if not self.history_apart:
                self.rows.settle(remembered)
        if self.history_apart and remembered:
            self.rows.settle(remembered)

    def live(self, id: str, namespace: str) -> Entry:
        """Return the present version of a memory; an unknown id, or that of a passage of a document, raises."""
        (entry,) = self.store.get([id], namespace=store_namespace(namespace, CONVERSATION))
        if entry is not None:
            return entry
        if id in self.find([id], namespace):
            raise ArgumentError("id", id, "a passage of a document is changed in the document; ingest it again")
        raise NoSuchMemory(id)

    def find(self, ids: Sequence[str], namespace: str) -> dict[str, tuple[str, Entry]]:
        """Return the partition and the entry of each id that is live; the conversation comes before documents."""
        located: dict[str, tuple[str, Entry]] = {}
        missing = list(dict.fromkeys(ids))
        for partition in self._live_partitions(namespace):
            entries = self.store.get(missing, namespace=partition)
            located.update({entry.id: (partition, entry) for entry in entries if entry is not None})
            missing = [id for id in missing if id not in located]
            if not missing:
                break
        return located

    def ids_like(self, part: str, namespace: str) -> Iterator[str]:
        """Yield the live ids that begin or end with *part*."""
        for partition in self._live_partitions(namespace):
            for entry in self.store.scan(namespace=partition):
                if entry.id.startswith(part) or entry.id.endswith(part):
                    yield entry.id

    def namespaces(self) -> dict[str, int]:
        """Return the users' namespaces, each with the number of its live entries, in order of name."""
        counts: Counter[str] = Counter()
        for partition in self.store.namespaces():
            namespace, kind, _ = parse_store_namespace(partition)
            if kind != ARCHIVE:
                counts[namespace] += self.store.count(namespace=partition)
        return dict(sorted(counts.items()))

    def document_partitions(self, namespace: str) -> list[str]:
        """Return the store namespaces in which a user's documents are."""
        prefix = store_namespace(namespace, DOCUMENTS) + "/"
        return self.store.namespaces(prefix=prefix)

    def partitions(self, namespace: str) -> list[str]:
        """Return all store namespaces of a user's namespace: conversation, archive and documents."""
        return self.store.namespaces(prefix=prefix_of(namespace))

    def pages(self, ids: Sequence[str], partition: str) -> Iterator[list[Entry]]:
        """Yield those entries *ids* of a partition that are there, a page at a time."""
        for start in range(0, len(ids), _PAGE_SIZE):
            page = self.store.get(ids[start : start + _PAGE_SIZE], namespace=partition)
            yield [entry for entry in page if entry is not None]

    def pages_to_erase(self, namespace: str) -> Iterator[tuple[str, list[Entry]]]:
        """Yield the pages of a namespace with their partitions; the caller erases each before it asks for more."""
        for partition in self.partitions(namespace):
            while page := list(islice(self.store.scan(namespace=partition), ERASED_PAGE_SIZE)):
                yield partition, page

    def archived(self, id: str, revision: int, namespace: str) -> Entry | None:
        """Return the version of a memory that had *revision*; None where the archive does not have it."""
        archive = store_namespace(namespace, ARCHIVE)
        return self.store.get([archived_id(id, revision)], namespace=archive)[0]

    def versions(self, ids: Sequence[str], namespace: str) -> list[Entry]:
        """Return the archived versions of memories, of each the oldest first."""
        return sorted(self.each_version(ids, namespace), key=_version_order)

    def each_version(self, ids: Sequence[str], namespace: str) -> Iterator[Entry]:
        """Yield the archived versions of memories in order of their own ids, in one pass over the archive.

        Up to a page of other memories' versions is read past; more of them are skipped by entering the archive anew.
        """
        archive, owners = store_namespace(namespace, ARCHIVE), set(ids)
        starts = sorted(id + "@" for id in owners)
        next_start = 0
        while next_start < len(starts):
            skipped = 0
            for entry in self.store.scan(namespace=archive, after=starts[next_start]):
                if entry.id.rpartition("@")[0] in owners:
                    skipped = 0
                    yield entry
                    continue
                skipped += 1
                if skipped > _MAX_SKIPPED and not _is_version_of(entry.id, owners):
                    next_start = bisect_left(starts, entry.id)
                    break
            else:
                return

    def hide_versions(self, id: str, fields: Mapping[str, Any], namespace: str) -> None:
        """Let those of *fields* that hide a memory, or show it again, hold for its archived versions too."""
        hiding = {name: fields[name] for name in _FIELDS_OF_ALL_VERSIONS if name in fields}
        versions = self.versions([id], namespace) if hiding else ()
        pairs = ((version, patched_metadata(version.metadata, hiding)) for version in versions)
        if changed := {version.id: metadata for version, metadata in pairs if metadata != version.metadata}:
            self.store.patch(changed, namespace=store_namespace(namespace, ARCHIVE))

    def _live_partitions(self, namespace: str) -> Iterator[str]:
        yield store_namespace(namespace, CONVERSATION)
        yield from self.document_partitions(namespace)  # asked for only when the conversation lacks something


def patched_metadata(metadata: Metadata, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return *metadata* with *fields*; None takes a field away."""
    return {name: value for name, value in {**metadata, **fields}.items() if name not in fields or value is not None}


def follow_recorded_space(store: VectorStore, lifecycle: LifecycleStore | None) -> Space | None:
    """Let *store* take vectors of its file's present space; return that space."""
    space = store.space
    if space is None or lifecycle is None:
        return space
    recorded = lifecycle.recorded_space()
    if recorded is not None and recorded != space:
        lifecycle.set_space(recorded)
    return store.space


def database_for(store: VectorStore, database: Database | None = None) -> Database:
    """Return the database of *store*, else *database*, else one in the memory of the process.

    A store with a wrapper whose own methods would be passed by raises ``UnsupportedError``.
    """
    check_overrides(store)
    lifecycle = lifecycle_of(store)
    beside = None if lifecycle is None else lifecycle.database
    if beside is None:
        if database is not None:
            return database
        from tellback.vectorstore.sqlite import InMemoryDatabase

        return InMemoryDatabase()
    if database not in (None, beside):
        raise ArgumentError("database", database, "this store has a database of its own; leave it out")
    return beside


def _version_order(entry: Entry) -> tuple[str, int]:
    owner, _, revision = entry.id.rpartition("@")
    return owner, int(revision)


def _is_version_of(id: str, owners: Container[str]) -> bool:
    """Return whether the archive's *id* is a version of one of *owners*; ids may hold an "@" themselves."""
    return any(id[:index] in owners for index, sign in enumerate(id) if sign == "@")
