"""Model of a store with space migrations, without view, change log or file: faults and parity runs compare with it.

Inner parts, on no face: ``tellback.vectorstore.types``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from tellback.vectorstore import validation
from tellback.vectorstore.testing import ModelStore
from tellback.vectorstore.types import Entry, Space, SpaceMigration, VectorLike


class SpacesModel(ModelStore):
    """``ModelStore`` with ``begin_space`` and what belongs to it."""

    next_space: Space | None = None

    def begin_space(self, space: Space) -> None:
        """As ``LifecycleStore.begin_space``."""
        validation.check_migration_start(validation.check_space(space), self.space, self.next_space)
        self.next_space = space

    def filling(self) -> SpaceMigration | None:
        """As ``LifecycleStore.filling``."""
        if self.next_space is None:
            return None
        pending = {name: len(list(self.unfilled(namespace=name))) for name in self._namespaces}
        vectors = [vector for stored in self._namespaces.values() for vector in stored.given.values()]
        filled = sum(not isinstance(vector, str) for vector in vectors)
        return SpaceMigration(self.next_space, filled, {name: count for name, count in pending.items() if count})

    def unfilled(self, *, namespace: str = "", after: str | None = None) -> Iterator[Entry]:
        """As ``LifecycleStore.unfilled``; here it is a snapshot."""
        validation.check_migration_running(self.next_space)
        filled = self._namespaces[namespace].given if namespace in self._namespaces else {}
        scan = self.scan(namespace=namespace, after=after)
        return iter([entry for entry in scan if entry.id not in filled and entry.no_vector is None])

    def fill_space(
        self,
        space: Space,
        vectors: Mapping[str, VectorLike],
        *,
        no_vector: Mapping[str, str] | None = None,
        namespace: str = "",
        expect: Mapping[str, int] | None = None,
    ) -> int:
        """As ``LifecycleStore.fill_space``."""
        name = self._name(namespace)
        checked = validation.check_migration_vectors(vectors, no_vector, validation.check_space(space))
        validation.check_migration_running(self.next_space, space)
        present = self._present(name, checked, expect)
        if present:
            self._namespaces[name].given.update(present)
        return len(present)

    def commit_space(self, space: Space) -> None:
        """As ``LifecycleStore.commit_space``."""
        validation.check_migration_running(self.next_space, validation.check_space(space))
        validation.check_migration_complete(self.filling())
        for stored in self._namespaces.values():
            stored.writes += 1
            for name, entry in stored.entries.items():
                given = stored.given.get(name)
                vector, reason = (None, given) if isinstance(given, str) else (given, None)
                no_vector = entry.no_vector if given is None else reason
                stored.entries[name] = replace(entry, vector=vector, no_vector=no_vector)
        self.space = space
        self.abort_space()

    def abort_space(self) -> None:
        """As ``LifecycleStore.abort_space``."""
        self.next_space = None
        for stored in self._namespaces.values():
            stored.given.clear()

    @contextmanager
    def transaction(self, *, lock: str | None = None) -> Iterator[None]:
        """As of the model, both spaces included."""
        before = self.space, self.next_space
        try:
            with super().transaction(lock=lock):
                yield
        except BaseException:
            self.space, self.next_space = before
            raise
