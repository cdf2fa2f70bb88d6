"""Stores that many tests of a memory are run over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from tellback.vectorstore import Database, LifecycleStore, open_store
from tellback.vectorstore.sqlite import InMemoryDatabase, SqliteDatabase
from tests.support.homes import SERVER_HOME, address_in_home
from tests.support.postgres import PostgresServer


@pytest.fixture(params=["sqlite", pytest.param("numpy", marks=pytest.mark.slow), SERVER_HOME])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LifecycleStore]:
    """A store in each home in turn: in ``m.db`` of the test's folder, without a file, and on a server."""
    opened = open_store(address_in_home(request, tmp_path))
    yield opened
    opened.close()


@pytest.fixture(params=["memory", "file", pytest.param("server", marks=SERVER_HOME.marks)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database in each home in turn."""
    with _new_database(request, tmp_path) as opened:
        yield opened


@pytest.fixture
def server_database(postgres: PostgresServer, tmp_path: Path) -> Iterator[Database]:
    """A database of the test's own on a server."""
    from tellback.vectorstore.postgres import PostgresDatabase

    with PostgresDatabase(postgres.address(tmp_path)) as opened:
        yield opened


def _new_database(request: pytest.FixtureRequest, folder: Path) -> AbstractContextManager[Database]:
    if request.param == "server":
        return nullcontext(request.getfixturevalue("server_database"))
    return InMemoryDatabase() if request.param == "memory" else SqliteDatabase(folder / "m.db")
