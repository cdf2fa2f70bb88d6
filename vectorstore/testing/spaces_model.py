"""The plain model with a second space: what filling and switching mean, said once more in dictionaries.

For parity runs; as the model, it has no view, no change log and no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from vectorstore.checking import check_expect, check_given
from vectorstore.filling import check_begun, check_complete, check_filling, check_space
from vectorstore.testing.model import ModelStore
from vectorstore.types import Entry, Filling, Space, VectorLike


class SpacesModel(ModelStore):
    """``ModelStore`` with ``begin_space`` and what belongs to it."""

    next_space: Space | None = None

    def begin_space(self, space: Space) -> None:
        """As ``LifecycleStore.begin_space``."""
        check_begun(check_space(space), self.space, self.next_space)
        self.next_space = space

    def filling(self) -> Filling | None:
        """As ``LifecycleStore.filling``."""
        if self.next_space is None:
            return None
        pending = {name: len(list(self.unfilled(namespace=name))) for name in self._spaces}
        given = [one for space in self._spaces.values() for one in space.given.values()]
        filled = sum(not isinstance(one, str) for one in given)
        return Filling(self.next_space, filled, {name: count for name, count in pending.items() if count})

    def unfilled(self, *, namespace: str = "", after: str | None = None) -> Iterator[Entry]:
        """As ``LifecycleStore.unfilled``; here it is a snapshot."""
        check_filling(self.next_space)
        given = self._spaces[namespace].given if namespace in self._spaces else {}
        scan = self.scan(namespace=namespace, after=after)
        return iter([entry for entry in scan if entry.id not in given and entry.no_vector is None])

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
        name, expected = self._name(namespace), check_expect(expect)
        given = check_given(vectors, no_vector, check_space(space))
        check_filling(self.next_space, space)
        self._expect(name, expected)
        there = {one: value for one, value in given.items() if one in self._held(name)}
        if there:
            self._spaces[name].given.update(there)
        return len(there)

    def commit_space(self, space: Space) -> None:
        """As ``LifecycleStore.commit_space``."""
        check_filling(self.next_space, check_space(space))
        check_complete(self.filling())
        for held in self._spaces.values():
            held.writes += 1
            for name, entry in held.entries.items():
                given = held.given.get(name)
                if isinstance(given, str):
                    held.entries[name] = replace(entry, vector=None, no_vector=given)
                elif given is not None:
                    held.entries[name] = replace(entry, vector=given, no_vector=None)
                else:
                    held.entries[name] = replace(entry, vector=None)
        self.space = space
        self.abort_space()

    def abort_space(self) -> None:
        """As ``LifecycleStore.abort_space``."""
        self.next_space = None
        for held in self._spaces.values():
            held.given.clear()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """As of the model, both spaces included."""
        before = self.space, self.next_space
        try:
            with super().transaction():
                yield
        except BaseException:
            self.space, self.next_space = before
            raise
