"""The settings of a numpy store that can change: its space, the one filled beside it, the declared fields.

The part of the store that holds them; entries are its namespaces' business.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from vectorstore.checking import (
    check_expect,
    check_fields,
    check_given,
    check_name,
    check_namespace,
)
from vectorstore.core.namespace import MemoryNamespace
from vectorstore.errors import SpaceMismatch
from vectorstore.filling import check_begun, check_complete, check_filling, check_space
from vectorstore.types import Entry, Filling, Space, VectorLike

_PAGE = 256


class NumpySpaces(ABC):
    """Space and fields of a store whose *journal* holds the undoes of its present transaction."""

    def __init__(self, space: Space | None, fields: tuple[str, ...]) -> None:
        self._space = None if space is None else check_space(space)
        self._next_space: Space | None = None
        self._fields = fields
        self._namespaces: dict[str, MemoryNamespace] = {}
        self._journal: list[Callable[[], None]] = []

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """As ``LifecycleStore.transaction``."""

    @abstractmethod
    def _open(self) -> AbstractContextManager[None]:
        """One call under the lock, refused when closed."""

    @property
    def space(self) -> Space | None:
        """The space of its vectors, if it has one."""
        return self._space

    def recorded_space(self) -> Space | None:
        """As ``LifecycleStore.recorded_space``: nobody else can switch it."""
        with self._open():
            return self._space

    def set_space(self, space: Space) -> None:
        """Record the space of a store that has none yet."""
        check_space(space)
        with self.transaction():
            if self._space is not None and self._space != space:
                raise SpaceMismatch(self._space, space)
            if self._space is None:
                self._use_space(space)
                self._journal.append(lambda: self._use_space(None))

    def begin_space(self, space: Space) -> None:
        """As ``LifecycleStore.begin_space``."""
        check_space(space)
        with self.transaction():
            check_begun(space, self._space, self._next_space)
            self._set(next_space=space)

    def filling(self) -> Filling | None:
        """As ``LifecycleStore.filling``."""
        with self._open():
            if self._next_space is None:
                return None
            counts = {name: held.filled() for name, held in sorted(self._namespaces.items())}
            pending = {name: left for name, (_, left) in counts.items() if left}
            return Filling(self._next_space, sum(filled for filled, _ in counts.values()), pending)

    def unfilled(self, *, namespace: str = "", after: str | None = None) -> Iterator[Entry]:
        """As ``LifecycleStore.unfilled``."""
        name = check_namespace(namespace)
        last = None if after is None else check_name(after, "after", empty=True)
        with self._open():
            check_filling(self._next_space)

        def pages() -> Iterator[Entry]:
            at = last
            while True:
                with self._open():
                    check_filling(self._next_space)
                    held = self._namespaces.get(name)
                    page = [] if held is None else held.unfilled(at, _PAGE)
                if not page:
                    return
                yield from page
                at = page[-1].id

        return pages()

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
        name, wanted = check_namespace(namespace), check_expect(expect)
        given = check_given(vectors, no_vector, check_space(space))
        with self.transaction():
            check_filling(self._next_space, space)
            return self._namespace(name).fill(given, wanted)

    def commit_space(self, space: Space) -> None:
        """As ``LifecycleStore.commit_space``."""
        check_space(space)
        with self.transaction():
            check_filling(self._next_space, space)
            check_complete(self.filling())
            self._set(space=space, next_space=None)
            for held in self._namespaces.values():
                held.switch(space)

    def abort_space(self) -> None:
        """As ``LifecycleStore.abort_space``."""
        with self.transaction():
            for held in self._namespaces.values():
                held.drop_next()
            self._set(next_space=None)

    @property
    def fields(self) -> tuple[str, ...]:
        """The declared fields."""
        return self._fields

    def declare_fields(self, fields: Sequence[str]) -> None:
        """As ``LifecycleStore.declare_fields``."""
        names = check_fields(fields)
        with self.transaction():
            before = self._fields
            self._use_fields(names)
            self._journal.append(lambda: self._use_fields(before))

    @abstractmethod
    def _namespace(self, name: str) -> MemoryNamespace:
        """The namespace, new where there is none."""

    def _use_space(self, space: Space | None) -> None:
        self._space = space
        for held in self._namespaces.values():
            held.start_space(space)

    def _use_fields(self, fields: tuple[str, ...]) -> None:
        self._fields = fields
        for held in self._namespaces.values():
            held.declare(fields)

    def _set(self, *, next_space: Space | None, space: Space | None = None) -> None:
        before = self._space, self._next_space

        def undo() -> None:
            self._space, self._next_space = before
            for held in self._namespaces.values():
                if not len(held):  # it may have come meanwhile
                    held.start_space(self._space)

        self._space, self._next_space = space or self._space, next_space
        self._journal.append(undo)
