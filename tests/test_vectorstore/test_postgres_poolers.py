"""PgBouncer in transaction mode before the server: two transactions of a client may be on two of its connections.

It takes what only a server's database has from ``tellback.vectorstore.engines.postgres_store``.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from tellback.vectorstore import BusyError, Entry, Space
from tellback.vectorstore.engines.postgres_store import PostgresStore
from tests.support.postgres import PostgresServer, running_pooler


@pytest.fixture(scope="module")
def pooler(postgres: PostgresServer) -> Iterator[Path]:
    with running_pooler(postgres, connections=3) as folder:
        yield folder


def store(postgres: PostgresServer, pooler: Path, name: object, **parameters: str) -> PostgresStore:
    return PostgresStore(postgres.address(name, **{"host": str(pooler), **parameters}), space=Space("toy", 3))


def test_writers_behind_a_pooler_lose_nothing_and_see_their_own_schema_alone(
    postgres: PostgresServer, pooler: Path, tmp_path: Path
) -> None:
    schemas = [tmp_path / "a", tmp_path / "b"]

    def write(number: int) -> None:
        with closing(store(postgres, pooler, schemas[number % 2])) as opened:
            for part in range(12):
                opened.upsert([Entry(f"{number}-{part}", [1, number, part], f"word{part}")], namespace=f"n{number % 3}")
                assert opened.count(namespace=f"n{number % 3}") > part

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(write, range(6)))
    for place, schema in enumerate(schemas):
        with closing(store(postgres, pooler, schema)) as opened:
            assert {entry.id for name in "012" for entry in opened.scan(namespace=f"n{name}")} == {
                f"{number}-{part}" for number in range(place, 6, 2) for part in range(12)
            }
            assert opened.verify() == []


def test_a_connection_of_the_pooler_is_given_back_with_its_own_settings(
    postgres: PostgresServer, pooler: Path, tmp_path: Path
) -> None:
    with closing(store(postgres, pooler, tmp_path)) as opened:
        opened.upsert([Entry("a", [1, 0, 0])])
    with psycopg.connect(f"postgresql://owner@/postgres?host={pooler}", autocommit=True) as stranger:
        assert stranger.execute("SHOW search_path").fetchone() == ('"$user", public',)
        assert stranger.execute("SHOW lock_timeout").fetchone() == ("0",)


def test_what_is_held_behind_a_pooler_is_held_by_one_alone(
    postgres: PostgresServer, pooler: Path, tmp_path: Path
) -> None:
    with closing(store(postgres, pooler, tmp_path)) as one, closing(store(postgres, pooler, tmp_path)) as two:
        with one.database.hold("turn"), two.database.hold("another turn"):
            with pytest.raises(BusyError), two.database.hold("turn", wait=0.1):
                pass
            two.upsert([Entry("a", [1, 0, 0])])
        with two.database.hold("turn", wait=5):
            pass
