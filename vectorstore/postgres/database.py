"""Database on a PostgreSQL server: components keep their tables in one schema of it, as in a file.

Many threads, processes and machines write at a time; what a write excludes is an advisory lock of its transaction. The
locks are of PostgreSQL's transactions, so that a process that is killed leaves none behind.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import conninfo_to_dict

from tellback.vectorstore.database import Component, Connection, Dialect
from tellback.vectorstore.errors import (
    ArgumentError,
    BusyError,
    NotAStore,
    ServerUnavailable,
    StorageUnwritable,
    UnsupportedError,
    VectorStoreError,
)
from tellback.vectorstore.postgres.connection import FACTS_QUERY, PostgresConnection, translate_errors
from tellback.vectorstore.postgres.dialect import HELPERS, POSTGRES, TABLE_SIZES
from tellback.vectorstore.postgres.pool import ConnectionPool
from tellback.vectorstore.postgres.rights import grant_rights, separate_tenants, tenant_settings
from tellback.vectorstore.postgres.values import register_values
from tellback.vectorstore.sqlite.connection import ForkGuard
from tellback.vectorstore.sqlite.files import (
    RandomBytes,
    check_path,
    read_fact,
    utc_now,
    write_fact,
)
from tellback.vectorstore.sqlite.integrity import run_check
from tellback.vectorstore.sqlite.migrations import (
    check_component_version,
    component_versions,
    is_attached,
    make_file_tables,
    run_migrations,
)
from tellback.vectorstore.sqlite.transactions import TRANSACTION_LOST, run_callbacks
from tellback.vectorstore.types import Compaction, Finding

DEFAULT_SCHEMA: Final = "tellback"
_BEGIN_READ: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_VERSIONS: Final = "SELECT coalesce(sum(version), 0)::bigint FROM components"
_NO_FILE: Final = (-1, -1)
_LONGEST_NAME: Final = 63
_UNDONE: Final = itertools.count()


class PostgresDatabase:
    """Implements ``Database`` in a schema of the server at *address*, ``postgresql://user@host/name?schema=tellback``.

    The parameters of an address are libpq's, but for four: ``tenant``, whose rows alone a role sees to which the owner
    gave no others (``separate_tenants``); ``schema``, which is made where it is missing, with the
    extension ``vector``; ``pool_size``, how many connections are open at most; ``busy_timeout``, how many seconds a
    call waits for one of them, for a server that starts anew, or for a lock.
    """

    lasting: Final = True
    unreached: Final = (
        "the rows are deleted; their bytes stay in the server's files until it uses the room again (compact clears it),"
        " and in its write-ahead log, its replicas and its backups for as long as those are kept"
    )
    dialect: Dialect = POSTGRES

    def __init__(
        self,
        address: str,
        *,
        components: Sequence[Component] = (),
        clock: Callable[[], datetime] = utc_now,
        token: RandomBytes = os.urandom,
    ) -> None:
        parsed = ServerAddress.parse(address)
        self.schema, self.place, self._busy_timeout = parsed.schema, parsed.place, parsed.busy_timeout
        self._components: dict[str, Component] = {}
        self._known_version = -1
        self._local = _ThreadBlocks()
        self._conninfo, self._tenant = parsed.conninfo, parsed.tenant
        self._pool = ConnectionPool(self._connect, parsed.pool_size)
        self._guard = ForkGuard(_NO_FILE, self._pool.close, list)
        try:
            with translate_errors(self.place):
                self._set_up(clock, token)
                with self.read() as connection:
                    self.identity = read_fact(connection, "identity") or ""
                    row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
                    self.read_only = bool(row[0])
            for component in components:
                self.attach(component)
        except BaseException:
            self.close()
            raise

    def attach(self, component: Component) -> None:
        """As ``Database.attach``; however many processes begin at once, each step runs once."""
        if is_attached(component, self._components):
            return
        with self.read() as connection:
            versions = component_versions(connection)
        check_component_version(Path(self.place), versions, component)
        if versions.get(component.name, 0) == len(component.migrations) and not self.in_write():
            self._components[component.name] = component
            return
        with self.write() as connection:
            with self._naming_strangers():
                run_migrations(connection, component, Path(self.place))
            self.on_commit(lambda: self._components.setdefault(component.name, component))

    @contextmanager
    def read(self) -> Iterator[PostgresConnection]:
        """As ``Database.read``."""
        self._guard.check_process()
        shared = self._local.reading if self._local.writing is None else self._local.writing.connection
        if shared is not None:
            with translate_errors(self.place):
                yield shared
            return
        with self._guard.inside(), translate_errors(self.place), self._begun([_BEGIN_READ]) as connection:
            self._local.reading = connection
            try:
                yield connection
            finally:
                self._local.reading = None

    @contextmanager
    def write(self, *, lock: str | None = None, wait: bool = True) -> Iterator[PostgresConnection]:
        """As ``Database.write``; waiting ends with ``BusyError`` after the busy timeout."""
        self._guard.check_process()
        if (writing := self._local.writing) is not None:
            held = set(writing.locks)
            with translate_errors(self.place), writing.inner(self._lock_sql(lock, wait=True, held=writing.locks), held):
                yield writing.connection
            return
        if self.read_only:
            raise StorageUnwritable(f"{self.place}: the server is a replica, which can only be read")
        with self._guard.inside():
            callbacks: list[Callable[[], object]] = []
            locks: set[str | None] = set()
            begin = ["BEGIN", *self._lock_sql(lock, wait=wait, held=locks)]
            with translate_errors(self.place), self._begun(begin) as connection:
                writing = PostgresWrite(connection, locks, callbacks)
                self._local.writing = writing
                try:
                    yield connection
                    writing.commit()
                finally:
                    self._local.writing = None
            run_callbacks(callbacks)

    @contextmanager
    def hold(self, name: str, *, wait: float = 30.0) -> Iterator[None]:
        """As ``Database.hold``, on a connection beside the pool; the server's own limits of idle time do not end it."""
        self._guard.check_process()
        limits = f"set_config('lock_timeout', '{max(int(wait * 1000), 1)}', TRUE)"
        limits += ", set_config('idle_in_transaction_session_timeout', '0', TRUE)"
        with translate_errors(self.place), closing(self._connect()) as raw:
            raw.execute("BEGIN")
            raw.execute(f"SELECT {limits}")
            raw.execute(f"SELECT pg_advisory_xact_lock({_lock_number(self.schema, 'held ' + name)})")
            yield

    def in_write(self) -> bool:
        """As ``Database.in_write``."""
        self._guard.check_process()
        return self._local.writing is not None

    def present_write(self) -> object | None:
        """Return an object that identifies this thread's present outermost ``write()``; None outside."""
        return self._local.writing

    def on_commit(self, callback: Callable[[], object]) -> None:
        """As ``Database.on_commit``."""
        self._present("on_commit").callbacks.append(callback)

    def mark_erasure(self, connection: Connection) -> None:
        """Do nothing beside a check: when the server clears the bytes of deleted rows is its own affair."""
        if connection is not self._present("mark_erasure").connection:
            raise ArgumentError("connection", connection, "the connection of this thread's write() is needed")

    def finish_erasure(self) -> bool:
        """Return True: there is nothing that could be done from here; receipts say what that leaves."""
        return not self.pending_erasure()

    def pending_erasure(self) -> bool:
        """Return False."""
        with self._guard.inside():
            return False

    def verify(self) -> list[Finding]:
        """As ``Database.verify``; pages and references are the server's to check (``pg_amcheck``)."""
        with self.read() as connection:
            findings = []
            for component in self._components.values():
                findings += run_check(component.name, partial(component.verify, connection))
            return findings

    def rebuild(self) -> None:
        """Rebuild every component's derived tables, in one transaction."""
        with self.write() as connection:
            for component in self._components.values():
                component.rebuild(connection)

    def compact(self, *, prepare: Callable[[], object] | None = None) -> Compaction:
        """Write every table anew (``VACUUM FULL``), after *prepare* has freed what it can.

        It needs the role that owns the tables, and keeps everybody out of each meanwhile.
        """
        if self.in_write() or self._local.reading is not None:
            raise UnsupportedError("compact", "it cannot be done inside a transaction or a view of this thread")
        before = self._size()
        if prepare is not None:
            prepare()
        with self.read() as connection:
            tables = [name for (name,) in connection.execute(POSTGRES.tables)]
        self.run_alone(*(f"VACUUM FULL {quoted(self.schema, table)}" for table in tables))
        return Compaction(before, self._size(), pending=False)

    def run_alone(self, *statements: str) -> None:
        """Run *statements* outside of a transaction, such as those that PostgreSQL refuses inside of one."""
        if self.in_write() or self._local.reading is not None:
            raise UnsupportedError("run_alone", "it cannot be done inside a transaction or a view of this thread")
        with self._guard.inside(), translate_errors(self.place), closing(self._connect()) as raw:
            for statement in statements:
                raw.execute(statement.encode())

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a complete, checked copy to an unused *path*, a file of SQLite's, while others may write."""
        from tellback.vectorstore.sqlite.backup import write_backup
        from tellback.vectorstore.sqlite.in_memory import InMemoryDatabase
        from tellback.vectorstore.table_copy import copy_tables

        if self.in_write():
            raise UnsupportedError("backup", "it cannot be made inside write()")
        try:
            with InMemoryDatabase() as copy:
                copy_tables(self, copy, [*self._components.values()])
                with copy.read() as connection:
                    write_backup(connection, check_path(path), token=os.urandom)
        except FileExistsError as error:
            raise ArgumentError("path", path, "a path where nothing is yet is needed") from error

    def close(self) -> None:
        """As ``Database.close``. It waits for other threads' blocks; one that outlasts the timeout closes it."""
        inside = self._local.writing is not None or self._local.reading is not None
        self._guard.close(0.0 if inside else self._busy_timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def grant(self, role: str, *, tenants: bool = False) -> list[str]:
        """Let *role* work here without the right to make anything; with *tenants* with its own tenant's rows alone.

        It needs the role that owns the tables, and is due again after an upgrade. Returns the tables that the role
        may not use, since they do not tell whose a row is.
        """
        with self._guard.inside(), translate_errors(self.place), closing(self._connect()) as raw, raw.transaction():
            grant_rights(raw, self.schema, role)
            return separate_tenants(raw, self.schema, role) if tenants else []

    @contextmanager
    def _begun(self, statements: Sequence[str]) -> Iterator[PostgresConnection]:
        """Yield a connection in a transaction that *statements* begin; whatever is left of it is rolled back.

        A connection that the server has ended meanwhile is replaced by a new one, before anything was done on it.
        """
        connection = self._take(statements)
        try:
            yield connection
        finally:
            try:
                status = connection.raw.info.transaction_status
                if status == pq.TransactionStatus.INERROR:
                    _undo(connection.raw, "ROLLBACK")
                elif status != pq.TransactionStatus.IDLE:
                    with suppress(psycopg.Error):
                        connection.raw.execute("ROLLBACK")
            finally:
                self._pool.give(connection.raw)

    def _take(self, statements: Sequence[str]) -> PostgresConnection:
        end = time.monotonic() + self._busy_timeout
        while True:
            raw = self._pool.take(end)
            try:
                settings = [self._pooled_settings] if raw.prepare_threshold is None else []  # behind a pooler
                begin = [statements[0], *settings, *statements[1:], _VERSIONS]
                has_store = "store" in self._components
                with raw.pipeline():
                    cursors = [raw.execute(statement) for statement in begin]
                    facts = raw.execute(FACTS_QUERY, binary=True) if has_store else None
                answers: list[Any] = [cursor.fetchone() for cursor in cursors if cursor.description]
                if any(answer[0] is False for answer in answers):  # of a lock that somebody else has
                    raise BusyError(f"{self.place}: somebody else is writing; try again")
                known = None if facts is None else dict(facts.fetchall())
                reads = statements[0] == _BEGIN_READ
                connection = PostgresConnection(raw, waits=not reads, is_snapshot=reads, facts=known)
                self._check_versions(connection, answers[-1][0])
            except BaseException as error:
                is_lost = raw.broken and isinstance(error, psycopg.Error)
                _undo(raw, "ROLLBACK")
                self._pool.give(raw)
                if not is_lost or time.monotonic() > end:
                    raise
                self._pool.drop_idle()  # they are lost, too, where the server was started anew
            else:
                return connection

    def _check_versions(self, connection: PostgresConnection, total: int) -> None:
        # A process with a newer Tellback may have migrated the schema meanwhile; each migration adds to the sum.
        if total != self._known_version:
            versions = component_versions(connection)
            for component in self._components.values():
                check_component_version(Path(self.place), versions, component)
            self._known_version = total

    def _lock_sql(self, lock: str | None, *, wait: bool, held: set[str | None]) -> list[str]:
        """Return the statement that takes *lock* beside those *held*, to which it is added; none where it is held.

        Everybody who excludes a name shares the lock of everything; who excludes everything has that one alone.
        """
        if lock in held or None in held or (held and lock is None):
            return []
        function = "pg_advisory_xact_lock" if wait else "pg_try_advisory_xact_lock"
        everything = _lock_number(self.schema, "")
        parts = [f"{function}({everything})"]
        if lock is not None:
            parts = [] if held else [f"{function}_shared({everything})"]
            parts.append(f"{function}({_lock_number(self.schema, 'namespace ' + lock)})")
        held.add(lock)
        return [f"SELECT {(', ' if wait else ' AND ').join(parts)}"]

    def _connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(self._conninfo, autocommit=True)
        try:
            self._configure(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _configure(self, connection: psycopg.Connection[Any]) -> None:
        """Have *connection* find our tables and wait for locks no longer than it should.

        A pooler that lends a server's connection for a transaction (PgBouncer) gives each of its clients a process
        number of its own. There, what is set or prepared for longer than a transaction would be lost, or another's.
        """
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        is_pooled = row != (connection.info.backend_pid,)
        if is_pooled:
            connection.prepare_threshold = None
        where = "SELECT nspname FROM pg_extension JOIN pg_namespace n ON n.oid = extnamespace WHERE extname = 'vector'"
        extension = connection.execute(where).fetchone()
        path = ", ".join(quoted(name) for name in (self.schema, *(extension or ())))
        settings = tenant_settings(self._tenant) if self._tenant is not None else {}
        settings |= {"search_path": path, "lock_timeout": str(max(int(self._busy_timeout * 1000), 1))}
        self._pooled_settings = _set_sql(settings, in_transaction=True)
        with connection.transaction() if is_pooled else nullcontext():
            connection.execute(_set_sql(settings, in_transaction=is_pooled))
            register_values(connection)

    def _set_up(self, clock: Callable[[], datetime], token: RandomBytes) -> None:
        """Make the schema with its first tables where it is missing; one process does it, others wait for it."""
        with psycopg.connect(self._conninfo, autocommit=True) as raw:
            if (encoding := raw.info.parameter_status("server_encoding")) != "UTF8":
                needed = f"a database in UTF8 is needed, this one is in {encoding}: CREATE DATABASE … ENCODING 'UTF8'"
                raise ArgumentError("address", self.place, f"{needed} TEMPLATE template0")
            known = raw.execute("SELECT to_regclass(%s) IS NOT NULL", (quoted(self.schema, "file_facts"),)).fetchone()
            if known == (True,):
                return
            with raw.transaction():
                raw.execute(f"SELECT pg_advisory_xact_lock({_lock_number(self.schema, '')})")
                # IF NOT EXISTS goes by a cache, where the schema of whom was waited for may still be missing.
                if not raw.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (self.schema,)).fetchone():
                    raw.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self.schema)))
                raw.execute(f"SELECT pg_advisory_xact_lock({_lock_number('', 'extension')})")  # of all schemas
                raw.execute("CREATE EXTENSION IF NOT EXISTS vector")
                self._configure(raw)
                connection = PostgresConnection(raw)
                if connection.execute(POSTGRES.table_exists, ("file_facts",)).fetchone():
                    return  # another process was first
                with self._naming_strangers():
                    make_file_tables(connection)
                    for statement in HELPERS:
                        raw.execute(statement)
                write_fact(connection, "identity", token(16).hex())
                write_fact(connection, "created", clock().isoformat())

    @contextmanager
    def _naming_strangers(self) -> Iterator[None]:
        """Translate the error that a table of our name is there: somebody else made it."""
        try:
            yield
        except (psycopg.errors.DuplicateTable, psycopg.errors.DuplicateObject) as error:
            why = f"the schema {self.schema!r} has tables of another program ({error}); choose another by ?schema="
            raise NotAStore(self.place, why) from error

    def _size(self) -> int:
        with self.read() as connection:
            return sum(int(size) for (size,) in connection.execute(TABLE_SIZES))

    def _present(self, operation: str) -> PostgresWrite:
        if (writing := self._local.writing) is None:
            raise UnsupportedError(operation, "it belongs inside write()")
        return writing


class PostgresWrite:
    """The outermost ``write()`` of a thread, with the *locks* that it has."""

    def __init__(
        self, connection: PostgresConnection, locks: set[str | None], callbacks: list[Callable[[], object]]
    ) -> None:
        self.connection = connection
        self.locks = locks
        self.callbacks = callbacks
        self._depth = 0

    def commit(self) -> None:
        """Commit; an error inside that was caught has undone all of it, and is an error now."""
        if self.connection.raw.info.transaction_status != pq.TransactionStatus.INTRANS:
            raise VectorStoreError(TRANSACTION_LOST)
        try:
            self.connection.commit()
        except psycopg.OperationalError as error:
            if not self.connection.raw.broken:
                raise
            raise ServerUnavailable(
                f"the server was lost while it committed: whether the last write is there is not known ({error})"
            ) from error

    @contextmanager
    def inner(self, lock: Sequence[str], held: set[str | None]) -> Iterator[None]:
        """Run the block in a savepoint, with a *lock*; if it fails, it is undone alone and its callbacks are dropped.

        The server then has only the locks *held* before it.
        """
        self._depth += 1
        savepoint, mark, connection = f"SAVEPOINT inner_{self._depth}", len(self.callbacks), self.connection
        for statement in (savepoint, *lock):
            connection.prepare(statement)
        try:
            yield
            if connection.withdraw(savepoint, unless=1 + len(lock)):
                self.locks.intersection_update(held)
            else:
                connection.prepare(f"RELEASE {savepoint}")
        except BaseException:
            del self.callbacks[mark:]
            self.locks.intersection_update(held)
            if not connection.withdraw(savepoint) and not connection.raw.broken:
                connection.forget_waiting()
                _undo(connection.raw, f"ROLLBACK TO {savepoint}", f"RELEASE {savepoint}")
            raise
        finally:
            self._depth -= 1


class _ThreadBlocks(threading.local):
    """Outermost blocks that one thread has open."""

    writing: PostgresWrite | None = None
    reading: PostgresConnection | None = None


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Address of a schema on a server: what libpq takes of it (*conninfo*), what is ours, and *place* for messages."""

    conninfo: str
    place: str
    schema: str = DEFAULT_SCHEMA
    pool_size: int = 10
    busy_timeout: float = 30.0
    tenant: str | None = None

    @classmethod
    def parse(cls, address: str) -> ServerAddress:
        """Return the parts of *address*; one that names no server or schema raises ``ArgumentError``."""
        if not isinstance(address, str):
            raise ArgumentError("address", address, "a text like 'postgresql://user@host/name' is needed")
        parts = urlsplit(address)
        if parts.scheme not in ("postgresql", "postgres"):
            raise ArgumentError("address", parts.scheme, "an address that begins with 'postgresql://' is needed")
        parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
        tenant = parameters.pop("tenant", None)
        schema = parameters.pop("schema", DEFAULT_SCHEMA)
        if not schema or "\0" in schema or len(schema.encode()) > _LONGEST_NAME:
            raise ArgumentError("schema", schema, f"the name of a schema is needed, of at most {_LONGEST_NAME} bytes")
        place = f"postgresql://{parts.hostname or parameters.get('host', '')}{parts.path}?schema={schema}"
        try:
            size, timeout = int(parameters.pop("pool_size", "10")), float(parameters.pop("busy_timeout", "30"))
            if size < 1 or not 0 < timeout < math.inf:
                raise ValueError("pool_size is 1 or more, busy_timeout a number of seconds")
            conninfo = f"postgresql://{parts.netloc}{parts.path}?{urlencode(parameters, quote_via=quote)}"
            conninfo_to_dict(conninfo)
        except (ValueError, psycopg.ProgrammingError) as error:
            raise ArgumentError("address", place, f"an address that can be read is needed ({error})") from None
        return cls(conninfo, place, schema, size, timeout, tenant)


def quoted(*names: str) -> str:
    """Return a name as SQL has it, behind that of its schema where a statement runs without our search path."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def _undo(connection: psycopg.Connection[Any], *statements: str) -> None:
    """Run *statements* that undo something; psycopg then forgets what it counts as prepared.

    It counts a statement that it sent behind one that failed, and which the server passed over. It forgets at a
    rollback only where it has not seen the same text before, so each has a text of its own.
    """
    with suppress(psycopg.Error):
        for statement in statements:
            connection.execute(f"{statement} -- {next(_UNDONE)}")


def _set_sql(settings: Mapping[str, str], *, in_transaction: bool) -> str:
    """Return the statement that sets *settings*, for the present transaction alone or for the whole connection."""
    values = (value.replace("'", "''") for value in settings.values())
    calls = [f"set_config('{name}', '{value}', {in_transaction})" for name, value in zip(settings, values, strict=True)]
    return f"SELECT {', '.join(calls)}"


def _lock_number(schema: str, name: str) -> int:
    """Return the number of an advisory lock, 64 bits: the server knows them by number, all of a database together."""
    return int.from_bytes(blake2b(f"{schema}\0{name}".encode(), digest_size=8).digest(), "little", signed=True)
