"""The SQLite store keeps the contract, with its vectors in memory and without."""

from pathlib import Path
from typing import ClassVar

from vectorstore import Space, SqliteStore, VectorStore
from vectorstore.testing import FilterContract, LifecycleContract, VectorStoreContract


class TestSqliteStore(VectorStoreContract, FilterContract, LifecycleContract):
    persists = True
    shares = True
    matrix_limit: ClassVar[int | None] = None

    def make_store(self, path: Path, *, space: Space | None, fields: tuple[str, ...] = ()) -> SqliteStore:
        return SqliteStore(path / "memory.db", space=space, fields=fields, matrix_limit=self.matrix_limit)

    def reopen(self, store: VectorStore, path: Path) -> SqliteStore:
        store.close()
        return SqliteStore(path / "memory.db", matrix_limit=self.matrix_limit)

    def open_beside(self, store: VectorStore, path: Path) -> SqliteStore:
        return SqliteStore(path / "memory.db", matrix_limit=self.matrix_limit)

    def restore(self, backup: Path, path: Path) -> SqliteStore:
        return SqliteStore(backup, matrix_limit=self.matrix_limit)


class TestSqliteStoreWithoutAMatrix(TestSqliteStore):
    matrix_limit = 0
