"""Tenants of a memory on a server: a connection has the rows of its own namespace alone, asked as SQL, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tellback.memory import (
    ArgumentError,
    HashingEmbedder,
    KnowledgeBase,
    LongTermMemory,
    Message,
    grant_rights,
    open_memory,
    run_sync,
)
from tellback.vectorstore import StorageUnwritable
from tests.support.postgres import PostgresServer


def opened(address: str) -> LongTermMemory:
    return open_memory(address, embedder=HashingEmbedder())


@pytest.fixture
def role(postgres: PostgresServer, tmp_path: Path) -> Iterator[str]:
    """A role of its own, which has rights to a memory of two tenants."""
    name = f"worker_{abs(hash(tmp_path)) % 10**9}"
    owner = opened(postgres.address(tmp_path))
    for tenant in ("ana", "ana b/c"):
        run_sync(owner.remember(f"The secret of {tenant} is a quagga.", namespace=tenant))
        turn = [Message.user(f"I am {tenant} and keep bees."), Message.assistant("Noted.")]
        run_sync(owner.remember_turn("s", turn, namespace=tenant))
        knowledge = KnowledgeBase(owner, namespace=tenant)
        run_sync(knowledge.ingest_text(f"The library of {tenant} has herons.".encode(), source="l.txt"))
        doomed = run_sync(owner.remember(f"{tenant} forgets this.", namespace=tenant)).id
        run_sync(owner.forget([doomed], namespace=tenant))
    run_sync(owner.close())
    with psycopg.connect(postgres.address(tmp_path).partition("?")[0], host=str(postgres.folder)) as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN")
    grant_rights(postgres.address(tmp_path), name, tenants=True)
    yield name
    with psycopg.connect(postgres.address(tmp_path).partition("?")[0], host=str(postgres.folder)) as admin:
        admin.execute(f"DROP OWNED BY {name}")
        admin.execute(f"DROP ROLE {name}")


def test_sql_of_a_tenants_connection_reads_and_writes_no_row_of_another(
    postgres: PostgresServer, tmp_path: Path, role: str
) -> None:
    worker = opened(postgres.address(tmp_path, user=role, tenant="ana"))
    with worker.database.read() as connection:
        tables = [table for (table,) in connection.execute(connection.dialect.tables)]
        seen = {}
        for table in tables:
            allowed = connection.execute("SELECT has_table_privilege(?, 'SELECT')", (table,)).fetchone()
            seen[table] = connection.execute(f"SELECT * FROM {table}").fetchall() if allowed == (True,) else []
    assert not [table for table, rows in seen.items() if "ana b" in repr(rows) or "ana%20b" in repr(rows)]
    expected = {"entries", "vectors", "terms", "changes", "operations", "operation_changes", "history_sessions"}
    expected |= {"history_messages", "tombstones", "documents", "namespaces", "forward"}
    assert {table for table in expected if seen[table]} == expected
    owner = opened(postgres.address(tmp_path))
    with owner.database.read() as connection:
        counts = {table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in expected}
    run_sync(owner.close())
    alike = expected - {"terms"}  # the words of the other's name are others
    assert {table: 2 * len(seen[table]) for table in alike} == {table: counts[table] for table in alike}
    for statement in (
        "INSERT INTO namespaces (name) VALUES ('ana%20b%2Fc/other')",
        "UPDATE operations SET namespace = 'ana b/c'",
        "INSERT INTO keys (namespace, name, id) VALUES ('ana b/c', 'k', 'i')",
        "CREATE TABLE mine (text TEXT)",
    ):
        with pytest.raises(StorageUnwritable), worker.database.write() as connection:
            connection.execute(statement)
    run_sync(worker.close())


def test_a_tenants_worker_does_all_that_a_memory_does_in_its_own_namespace_alone(
    postgres: PostgresServer, tmp_path: Path, role: str
) -> None:
    worker = opened(postgres.address(tmp_path, user=role, tenant="ana"))
    assert "quagga" in run_sync(worker.recall("secret", namespace="ana"))[0].memory.text
    id = run_sync(worker.remember("I moved to Lisbon.", namespace="ana")).id
    run_sync(worker.correct(id, "I moved to Porto.", namespace="ana"))
    run_sync(worker.undo(run_sync(worker.operations(namespace="ana"))[0].id, namespace="ana"))
    run_sync(worker.forget([id], namespace="ana"))
    assert "herons" in run_sync(KnowledgeBase(worker, namespace="ana").retrieve("library"))[0].text
    assert run_sync(worker.recall("secret", namespace="ana b/c")).hits == ()
    assert run_sync(worker.list(namespace="ana b/c")) == []
    with pytest.raises(StorageUnwritable):
        run_sync(worker.remember("An intruder was here.", namespace="ana b/c"))
    run_sync(worker.close())


def test_a_connection_without_a_tenant_sees_nothing(postgres: PostgresServer, tmp_path: Path, role: str) -> None:
    worker = opened(postgres.address(tmp_path, user=role))
    assert [run_sync(worker.list(namespace=tenant)) for tenant in ("ana", "ana b/c", "")] == [[], [], []]
    run_sync(worker.close())


@pytest.mark.parametrize(("address", "role"), [("m.db", "worker"), ("postgresql://x", "")])
def test_rights_are_of_a_role_of_a_server(address: str, role: str) -> None:
    with pytest.raises(ArgumentError):
        grant_rights(address, role)
