"""The part of a numpy store that writes it down, and takes what was read: its snapshots.

What they are as bytes is ``core.snapshot``'s business, and as a file ``snapshot_file``'s.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from vectorstore.analysis import Analyzer
from vectorstore.core.state import StoreState
from vectorstore.engines.numpy_spaces import NumpySpaces
from vectorstore.errors import ArgumentError, UnsupportedError
from vectorstore.protocol import Database
from vectorstore.types import Space


class NumpySnapshots(NumpySpaces):
    """``save`` and ``backup`` of a store that counts in ``_depth`` the transactions that it is inside of."""

    def __init__(self, space: Space | None, fields: Sequence[str], analyzer: Analyzer) -> None:
        super().__init__(space, tuple(fields))
        self.analyzer = analyzer
        self._depth = 0
        self._path: str | os.PathLike[str] | None = None

    @property
    def database(self) -> Database | None:
        """None: nothing is in a file until it is saved."""
        return None

    def backup(self, path: str | os.PathLike[str]) -> None:
        """As ``LifecycleStore.backup``: a snapshot, which ``open`` reads."""
        self._write_snapshot("backup", path, replace=False)

    def save(self, path: str | os.PathLike[str] | None = None) -> None:
        """Write a snapshot of everything to *path* (None: where ``open`` was told), in place of an earlier one.

        It is written whole or not at all: beside its place, flushed to disk (mode 0600), then put there in one
        step. What is there and is no snapshot of a numpy store is left untouched: ``NotAStore``, ``NewerFile``.
        """
        target = self._path if path is None else path
        if target is None:
            raise ArgumentError("path", path, "a path is needed: this store was not opened with one")
        self._write_snapshot("save", target, replace=True)

    def _load(self, state: StoreState) -> None:
        self._next_space = state.next_space
        analysed = state.fingerprint == self.analyzer.fingerprint
        for held in state.namespaces:
            self._namespace(held.name).load(held, analysed=analysed)

    def _write_snapshot(self, operation: str, path: str | os.PathLike[str], *, replace: bool) -> None:
        from vectorstore.engines.snapshot_file import write_snapshot

        with self._open():
            if self._depth:
                raise UnsupportedError(operation, "it cannot be made inside transaction()")
            state = StoreState(
                space=self._space,
                next_space=self._next_space,
                language=self.analyzer.language,
                fingerprint=self.analyzer.fingerprint,
                fields=self._fields,
                namespaces=[held.state() for _, held in sorted(self._namespaces.items())],
            )
        write_snapshot(state, path, replace=replace)
