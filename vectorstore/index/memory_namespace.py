"""Namespace in memory: its entries with their change log and the vectors of a space migration, and its index.

Each change leaves an undo in *journal*, which the owner clears at commit or runs backwards at rollback. Not a store:
the owner locks, and checks what comes in.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tellback.vectorstore.analyzer import Analyzer
from tellback.vectorstore.errors import RevisionConflict
from tellback.vectorstore.filters import FilterNode, matches_filter
from tellback.vectorstore.index.bm25 import ForwardBlock, analyze_text
from tellback.vectorstore.index.namespace_index import NamespaceIndex
from tellback.vectorstore.index.vectors import Ranking
from tellback.vectorstore.index.view import filter_mask
from tellback.vectorstore.types import Changes, Cursor, Entry, Finding, Space, Vector
from tellback.vectorstore.validation import CheckedEntry

KEPT_CHANGES: Final = 1000
_LOAD_BLOCK: Final = 1024
Journal: TypeAlias = list[Callable[[], object]]


@dataclass(frozen=True, slots=True)
class NamespaceState:
    """State of one namespace; *forward* is in the order of *entries*, and 1 in it is the first of *terms*."""

    name: str
    entries: Sequence[Entry]
    second: Mapping[str, Vector | str]
    """Vectors of the space that is being filled, by id; a text is the reason for none."""
    log: Sequence[tuple[int, str]]
    pruned: int
    revision: int
    terms: Sequence[str]
    forward: ForwardBlock


@dataclass(slots=True)
class ChangeLog:
    """Ids by write number; *pruned* is the number up to which they are no longer known."""

    log: list[tuple[int, str]] = field(default_factory=list)
    pruned: int = 0
    revision: int = 0

    def add(self, id: str) -> None:
        """Count a write of an entry."""
        self.revision += 1
        self.log.append((self.revision, id))

    def undo_newest(self) -> None:
        """Undo the newest write."""
        self.revision -= 1
        self.log.pop()

    def restarted(self) -> ChangeLog:
        """Return a log that knows nothing of before, one number further; what was never written stays as it is."""
        number = self.revision + 1 if self.revision else 0
        return ChangeLog(pruned=number, revision=number)

    def settle(self, entries: int) -> None:
        """Shorten the log of so many entries; never inside a transaction."""
        keep = max(KEPT_CHANGES, entries // 2)
        if len(self.log) > 2 * keep:
            self.pruned = self.log[-keep - 1][0]
            del self.log[:-keep]

    def since(self, number: int | None) -> list[str] | None:
        """Return the ids written after *number*, each once; None where the log does not reach back."""
        if number is None or not self.pruned <= number <= self.revision:
            return None
        return list(dict.fromkeys(id for revision, id in self.log if revision > number))


def copy_entry(entry: Entry) -> Entry:
    """Return an entry that shares no memory with *entry*."""
    vector, metadata = None if entry.vector is None else entry.vector.copy(), _deep_copy(entry.metadata)
    return Entry(entry.id, vector, entry.text, entry.context, metadata, entry.revision, entry.no_vector)


def _deep_copy(value: Any) -> Any:
    if isinstance(value, (str, int, float)) or value is None:
        return value
    if isinstance(value, Mapping):
        return {name: _deep_copy(inner) for name, inner in value.items()}
    return [_deep_copy(inner) for inner in value] if isinstance(value, list) else value


class MemoryNamespace:
    """Entries by id, and the index that finds them. Implements ``NamespaceReader``."""

    def __init__(
        self, name: str, *, space: Space | None, analyzer: Analyzer, fields: tuple[str, ...], journal: Journal
    ) -> None:
        self._name = name
        self._analyzer = analyzer
        self._journal = journal
        self._entries: dict[str, Entry] = {}
        self._second: dict[str, Vector | str] = {}  # of the space being filled; a text is the reason for no vector
        self._dictionary: dict[str, int] = {}
        self._sorted: list[str] | None = None
        self._log = ChangeLog()
        self._next_key = 1
        self._index = NamespaceIndex(space=space, fields=fields)
        self._index.load_terms(self._dictionary, ())
        self.use_space(space)

    def __len__(self) -> int:
        return len(self._entries)

    def use_space(self, space: Space | None) -> None:
        """Fill the index's matrix anew from the entries, whose vectors are of *space*."""
        self._space = space
        self._index.use_space(space)
        if space is not None:
            present = [(id, entry.vector) for id, entry in self._entries.items() if entry.vector is not None]
            parts = (present[start : start + _LOAD_BLOCK] for start in range(0, len(present), _LOAD_BLOCK))
            self._index.load_matrix(
                (self._index.keys_of([id for id, _ in part]).tolist(), np.stack([vector for _, vector in part]))
                for part in parts
            )

    # Writing.

    def write(self, batch: Sequence[CheckedEntry], expect: Mapping[str, int]) -> int:
        """Write checked entries, each id once; return how many."""
        self.expect(expect)
        for checked in batch:
            id, metadata, revision = checked.id, json.loads(checked.metadata), self._log.revision + 1
            self._put_entry(
                Entry(id, checked.vector, checked.text, checked.context, metadata, revision, checked.no_vector)
            )
            self._give(id, None)
        return len(batch)

    def patch(self, metadata: Mapping[str, str], expect: Mapping[str, int]) -> int:
        """Replace the metadata (JSON text) of entries; return how many there were."""
        self.expect(expect)
        present = [id for id in metadata if id in self._entries]
        for id in present:
            data, revision = json.loads(metadata[id]), self._log.revision + 1
            self._put_entry(replace(self._entries[id], metadata=data, revision=revision))
        return len(present)

    def put_vectors(self, vectors: Mapping[str, Vector], expect: Mapping[str, int]) -> int:
        """Give entries their vectors; return how many there were."""
        self.expect(expect)
        present = [self._entries[id] for id in vectors if id in self._entries]
        for entry in present:
            self._put_entry(replace(entry, vector=vectors[entry.id], no_vector=None))
        return len(present)

    def fill(self, vectors: Mapping[str, Vector | str], expect: Mapping[str, int]) -> int:
        """Give entries a vector of the second space, or a reason for none; return how many there were."""
        self.expect(expect)
        present = [id for id in vectors if id in self._entries]
        for id in present:
            self._give(id, vectors[id])
        return len(present)

    def drop_next(self) -> None:
        """Forget all that was filled."""
        before, self._second = self._second, {}
        self._journal.append(lambda: self._second.update(before))

    def switch(self, space: Space) -> None:
        """Make the second space, which is *space*, the one in use; the log begins anew."""
        before = (self._entries, self._log, self._space)
        self._entries = {id: self._switched(entry) for id, entry in self._entries.items()}
        self.drop_next()
        self._log = self._log.restarted()
        self.use_space(space)

        def undo() -> None:
            self._entries, self._log, old = before
            self.use_space(old)

        self._journal.append(undo)

    def declare(self, fields: tuple[str, ...]) -> None:
        """Keep *fields* as columns."""
        index = self._index
        index.use_fields(fields, [self._entries[index.id_of(key)].metadata for key in index.keys().tolist()])

    def remove(self, ids: Iterable[str]) -> int:
        """Remove entries; return how many there were."""
        present = [id for id in ids if id in self._entries]
        for id in present:
            self._log.add(id)
            self._undo_to(id, self._entries[id])
            self._drop(id)
            self._give(id, None)
        return len(present)

    def expect(self, expect: Mapping[str, int]) -> None:
        """Raise where an entry is not at the revision that is expected."""
        for id, expected in expect.items():
            entry = self._entries.get(id)
            actual = 0 if entry is None else entry.revision
            if actual != expected:
                raise RevisionConflict(id, self._name, expected, actual)

    def settle(self) -> None:
        """Shorten the log, after a commit."""
        self._log.settle(len(self._entries))

    # Reading.

    def matches(self, id: str, where: FilterNode) -> bool:
        """Return whether the entry *id* is here and passes."""
        stored = self._entries.get(id)
        return stored is not None and matches_filter(where, stored.metadata)

    def ids(self) -> list[str]:
        """Every id, sorted."""
        if self._sorted is None:
            self._sorted = sorted(self._entries)
        return self._sorted

    def page(self, where: FilterNode, after: str | None, embedded: bool | None, size: int) -> list[Entry]:
        """Return up to *size* entries after the id *after*."""

        def passes(entry: Entry) -> bool:
            pending = entry.vector is None and entry.no_vector is None
            wanted = embedded is None or (entry.vector is not None if embedded else pending)
            return wanted and matches_filter(where, entry.metadata)

        return self._page(after, size, passes)

    def unfilled(self, after: str | None, size: int) -> list[Entry]:
        """Return up to *size* entries after the id *after* that are pending in the second space."""
        return self._page(after, size, self._is_pending)

    def _page(self, after: str | None, size: int, passes: Callable[[Entry], bool]) -> list[Entry]:
        ids = self.ids()
        start = 0 if after is None else bisect_right(ids, after)
        passing = filter(passes, map(self._entries.__getitem__, ids[start:]))
        return list(map(copy_entry, islice(passing, size)))

    def filled(self) -> tuple[int, int]:
        """Return how many entries have a vector in the second space, and how many are pending."""
        filled = sum(not isinstance(vector, str) for vector in self._second.values())
        return filled, sum(map(self._is_pending, self._entries.values()))

    def changes(self, since: int | None) -> Changes:
        """Return the changes after *since*."""
        cursor, ids = Cursor(self._name, self._log.revision), self._log.since(since)
        if ids is None:
            return Changes((), (), cursor, complete=False)
        written = tuple(id for id in ids if id in self._entries)
        removed = tuple(id for id in ids if id not in self._entries)
        return Changes(written, removed, cursor, complete=True)

    def verify(self) -> list[Finding]:
        """Compare the index with the entries."""
        missing = [id for id in self._entries if self._index.key_of(id) is None]
        extra = len(self._index) - len(self._entries) + len(missing)
        findings = [Finding("index", "an entry is missing from the index", id) for id in missing]
        return findings + ([Finding("index", f"{extra} entries too many in the index", self._name)] if extra else [])

    # Written down and read again.

    def state(self) -> NamespaceState:
        """Return all that is here, as it is now; of the terms, those that an entry has."""
        entries = [self._entries[id] for id in self.ids()]
        terms, forward = self._index.forward([entry.id for entry in entries])
        second, log = dict(self._second), self._log
        return NamespaceState(self._name, entries, second, tuple(log.log), log.pruned, log.revision, terms, forward)

    def load(self, state: NamespaceState, *, analysed: bool) -> None:
        """Take *state* into this namespace, which is empty; terms are made anew if it was not *analysed* as here."""
        self._entries = {entry.id: entry for entry in state.entries}
        self._second = dict(state.second)
        self._log = ChangeLog(list(state.log), state.pruned, state.revision)
        if not analysed:
            for entry in state.entries:
                self._index_entry(entry)
            return
        keys = range(1, len(state.entries) + 1)
        self._next_key = len(keys) + 1
        self._dictionary.update({term: number for number, term in enumerate(state.terms, 1)})
        self._index.load_rows(keys, list(self._entries), (entry.metadata for entry in state.entries))
        self._index.load_terms(self._dictionary, [replace(state.forward, keys=keys)])
        self.use_space(self._space)

    # Reader.

    def rows(self) -> NamespaceIndex:
        """The index."""
        return self._index

    def words(self) -> NamespaceIndex:
        """The index; its terms are always loaded."""
        return self._index

    def cursor(self) -> int:
        """The write number."""
        return self._log.revision

    def ids_of(self, keys: Sequence[int]) -> list[str]:
        """The ids of *keys*."""
        return list(map(self._index.id_of, keys))

    def entries(self, keys: Sequence[int]) -> list[Entry]:
        """Copies of the entries of *keys*."""
        return [copy_entry(self._entries[self._index.id_of(key)]) for key in keys]

    def passing(self, where: FilterNode) -> NDArray[np.bool_]:
        """Return which rows pass, by the reference meaning."""
        ids = map(self._index.id_of, self._index.keys().tolist())
        return np.fromiter((self.matches(id, where) for id in ids), dtype=np.bool_, count=len(self._index))

    def nearest(
        self, queries: NDArray[np.float32], k: int, where: FilterNode, min_score: float | None, *, fast: bool
    ) -> list[Ranking]:
        """The k nearest of each query."""
        mask = filter_mask(self, where)
        return self._index.nearest(queries, k, mask=mask, min_score=min_score, fast=fast)

    def similarity(self, query: Vector, keys: Sequence[int]) -> NDArray[np.float64]:
        """Exact scores of *keys*."""
        return self._index.similarity(query, keys)

    # One entry in, one out.

    def _put_entry(self, entry: Entry) -> None:
        self._log.add(entry.id)
        before = self._entries.get(entry.id)
        self._undo_to(entry.id, before)
        if before is None:
            self._sorted = None
        self._entries[entry.id] = entry
        self._index_entry(entry)

    def _index_entry(self, entry: Entry) -> None:
        index = self._index
        key = index.key_of(entry.id)
        if key is None:
            key, self._next_key = self._next_key, self._next_key + 1
        index.put_row(key, entry.id, entry.metadata)
        index.put_vector(key, entry.vector)
        analysed = analyze_text(self._analyzer, entry.text, entry.context)
        fresh = {term: 0 for term in analysed.distinct() if term not in self._dictionary}
        for term in fresh:
            fresh[term] = self._dictionary[term] = len(self._dictionary) + 1
        sequence, context_length = analysed.numbered(self._dictionary)
        index.put_terms(key, sequence, context_length, fresh)

    def _drop(self, id: str) -> None:
        key = self._index.key_of(id)
        if key is not None:
            self._index.remove(key)
        self._entries.pop(id, None)
        self._sorted = None

    def _undo_to(self, id: str, before: Entry | None) -> None:
        def undo() -> None:
            if before is None:
                self._drop(id)
            else:
                self._entries[id] = before
                self._sorted = None
                self._index_entry(before)
            self._log.undo_newest()

        self._journal.append(undo)

    def _give(self, id: str, vector: Vector | str | None) -> None:
        """Set what an entry has in the second space, or drop it."""
        before = self._second.get(id)
        if vector is not before:
            self._journal.append(lambda: self._put_second(id, before))
            self._put_second(id, vector)

    def _put_second(self, id: str, vector: Vector | str | None) -> None:
        if vector is None:
            self._second.pop(id, None)
        else:
            self._second[id] = vector

    def _is_pending(self, entry: Entry) -> bool:
        """Return whether an entry still blocks the switch: it has no vector there, and no reason for none."""
        return entry.id not in self._second and entry.no_vector is None

    def _switched(self, entry: Entry) -> Entry:
        """Return an entry as it is in the second space; its own reason stays where nothing was given."""
        vector = self._second.get(entry.id)
        if isinstance(vector, str):
            return replace(entry, vector=None, no_vector=vector)
        return replace(entry, vector=vector, no_vector=entry.no_vector if vector is None else None)
