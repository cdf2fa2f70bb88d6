"""The PostgreSQL store keeps the contract, with its vectors in memory and without.

Inner parts, on no face: ``tellback.vectorstore.engines.postgres_store``.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import ClassVar

import pytest

from tellback.vectorstore import Metric, NumpyStore, Space, SqliteStore, VectorStore
from tellback.vectorstore.engines.postgres_store import PostgresStore
from tellback.vectorstore.testing import FilterContract, LifecycleContract, VectorStoreContract
from tests.support.postgres import PostgresServer
from tests.support.slow import first_fast
from tests.support.store_parity import check_parity


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


@pytest.mark.parametrize("seed", first_fast(range(8)))
def test_a_server_answers_as_the_store_in_memory(postgres: PostgresServer, tmp_path: Path, seed: int) -> None:
    numbers = itertools.count()
    spaces = [Space(f"toy-{metric}", 3, metric) for metric in Metric]
    first = spaces[seed % 3]

    def make() -> dict[str, VectorStore]:
        run = next(numbers)
        return {
            "numpy": NumpyStore(space=first, fields=("b",)),
            "postgresql": PostgresStore(postgres.address(tmp_path / f"{run}"), space=first, fields=("b",)),
            "without a matrix": PostgresStore(
                postgres.address(tmp_path / f"sql{run}"), space=first, fields=("b",), matrix_limit=0
            ),
        }

    others = [space for space in spaces if space != first]
    check_parity(make, seed=seed, space=first, steps=150, tolerance={}, transactions=True, spaces=others)
