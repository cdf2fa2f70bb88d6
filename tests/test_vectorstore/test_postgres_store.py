"""The PostgreSQL store keeps the contract, with its vectors in memory and without."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from tellback.vectorstore import Space, SqliteStore, VectorStore
from tellback.vectorstore.engines.postgres_store import PostgresStore
from tellback.vectorstore.testing import FilterContract, LifecycleContract, VectorStoreContract
from tests.support.postgres import PostgresServer


class TestPostgresStore(VectorStoreContract, FilterContract, LifecycleContract):
    persists = True
    shares = True
    matrix_limit: ClassVar[int | None] = None

    @pytest.fixture(autouse=True)
    def server(self, postgres: PostgresServer) -> None:
        self.postgres = postgres

    def make_store(self, path: Path, *, space: Space | None, fields: tuple[str, ...] = ()) -> PostgresStore:
        return PostgresStore(self.postgres.address(path), space=space, fields=fields, matrix_limit=self.matrix_limit)

    def reopen(self, store: VectorStore, path: Path) -> PostgresStore:
        store.close()
        return self.open_beside(store, path)

    def open_beside(self, store: VectorStore, path: Path) -> PostgresStore:
        return PostgresStore(self.postgres.address(path), matrix_limit=self.matrix_limit)

    def restore(self, backup: Path, path: Path) -> SqliteStore:
        return SqliteStore(backup, matrix_limit=self.matrix_limit)


@pytest.mark.slow
class TestPostgresStoreWithoutAMatrix(TestPostgresStore):
    matrix_limit = 0
