"""Queue of jobs in a database: who claims a job has it for the time of a lease, and records its steps.

jobs       by id: kind, key, payload and data, its state, who has it and until when, in seconds of the database's clock
job_steps  by job and name: what a step returned; NULL for one that was begun and has not ended

A step that writes to this database commits its effect and its record together. One that does something elsewhere is
recorded before it begins, so that whoever goes on with a killed worker's job knows that it may have been done. Payload,
data and steps are deleted when the job ends, since they may hold what is forgotten later.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeVar

from tellback.memory.errors import ArgumentError, MemoryLayerError
from tellback.vectorstore import Connection, Database, TableComponent

T = TypeVar("T")
_LEASE: Final = 60.0
_MOST_ATTEMPTS: Final = 5
_COLUMNS: Final = "id, kind, key, payload, state, attempts, progress, error"


class JobState(StrEnum):
    """State of a job."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class JobLost(MemoryLayerError):
    """The job is another worker's by now, or was cancelled: what is done for it is not recorded."""


@dataclass(frozen=True, slots=True)
class Job:
    """Job of a *kind* with its *payload*, which is empty when it has ended. *attempts* counts its claims.

    *progress* is what its worker said last, *error* why it failed.
    """

    id: str
    kind: str
    key: str
    payload: Mapping[str, Any]
    state: JobState
    attempts: int = 0
    progress: str = ""
    error: str = ""


def _m001_jobs(connection: Connection) -> None:
    connection.execute(
        """
        CREATE TABLE jobs (
            number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, key TEXT NOT NULL UNIQUE,
            payload TEXT NOT NULL, data BLOB NOT NULL, state TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0,
            owner TEXT NOT NULL DEFAULT '', lease_until REAL NOT NULL DEFAULT 0, progress TEXT NOT NULL DEFAULT '',
            error TEXT NOT NULL DEFAULT ''
        ) STRICT
        """
    )
    connection.execute(
        """
        CREATE TABLE job_steps (
            job TEXT NOT NULL REFERENCES jobs (id), name TEXT NOT NULL, value TEXT, PRIMARY KEY (job, name)
        ) STRICT, WITHOUT ROWID
        """
    )


JOB_TABLES: Final = TableComponent("jobs", (_m001_jobs,), ("jobs", "job_steps"))


class Jobs:
    """Jobs in *database*, beside the tables of a memory. Any thread, process and machine may call.

    Who claims one has it for *lease* seconds, and longer while ``renew`` is called. A job that was claimed
    *most_attempts* times without an end has failed.
    """

    def __init__(
        self,
        database: Database,
        *,
        lease: float = _LEASE,
        most_attempts: int = _MOST_ATTEMPTS,
        token: Callable[[int], bytes] = os.urandom,
    ) -> None:
        if lease <= 0:
            raise ArgumentError("lease", lease, "seconds above 0 are needed")
        if most_attempts < 1:
            raise ArgumentError("most_attempts", most_attempts, "at least 1 is needed")
        self.database, self.lease, self._most_attempts, self._token = database, lease, most_attempts, token
        database.attach(JOB_TABLES)

    def submit(self, kind: str, payload: Mapping[str, Any] | None = None, *, data: bytes = b"", key: str = "") -> Job:
        """Keep a job until it is done, and return it; *data* are bytes beside the payload, which is JSON.

        A job with the same *key* that is there already is returned as it is, unless it has ended: then it begins anew.
        """
        if not kind:
            raise ArgumentError("kind", kind, "the name of a kind of jobs is needed")
        try:
            text = json.dumps(dict(payload or {}))
        except (TypeError, ValueError) as error:
            raise ArgumentError("payload", payload, f"an object of JSON is needed ({error})") from None
        id = self._token(10).hex()
        with self.write("queue") as connection:
            connection.execute(
                """
                INSERT INTO jobs (id, kind, key, payload, data, state) VALUES (?, ?, ?, ?, ?, ?)
                ON CONFLICT (key) DO UPDATE SET kind = excluded.kind, payload = excluded.payload, data = excluded.data,
                    state = excluded.state, attempts = 0, owner = '', lease_until = 0, progress = '', error = ''
                WHERE jobs.state IN ('done', 'failed')
                """,
                (id, kind, key or id, text, data, JobState.WAITING),
            )
            row = connection.execute(f"SELECT {_COLUMNS} FROM jobs WHERE key = ?", (key or id,)).fetchone()
        return _job(row)

    def get(self, id: str) -> Job | None:
        """Return a job, None where there is none."""
        with self.database.read() as connection:
            row = connection.execute(f"SELECT {_COLUMNS} FROM jobs WHERE id = ?", (id,)).fetchone()
        return None if row is None else _job(row)

    def list(self, *, state: JobState | str | None = None, prefix: str = "", limit: int = 100) -> Sequence[Job]:
        """Return jobs, the newest first; with *prefix* those whose key begins with it."""
        if state is not None and state not in (known := [str(each) for each in JobState]):
            raise ArgumentError("state", state, f"one of {', '.join(known)} is needed")
        condition, values = ("", []) if state is None else (" AND state = ?", [str(state)])
        with self.database.read() as connection:
            query = f"SELECT {_COLUMNS} FROM jobs WHERE key >= ? AND key <= ?{condition} ORDER BY number DESC LIMIT ?"
            last = prefix + chr(sys.maxunicode)
            return [_job(row) for row in connection.execute(query, (prefix, last, *values, limit))]

    def cancel(self, id: str) -> bool:
        """End a job that has not ended, as failed; who works at it hears so at its next step."""
        with self.write(id) as connection:
            row = connection.execute("SELECT state FROM jobs WHERE id = ?", (id,)).fetchone()
            if row is None or row[0] in (JobState.DONE, JobState.FAILED):
                return False
            _end(self.database, connection, id, JobState.FAILED, "cancelled")
        return True

    def claim(self, kinds: Sequence[str], owner: str) -> ClaimedJob | None:
        """Return the job of one of *kinds* that has waited longest, or whose worker has let its lease pass."""
        if not kinds:
            return None
        now = self.database.dialect.now
        due = (
            f"SELECT id FROM jobs WHERE kind IN ({', '.join('?' * len(kinds))})"
            f" AND (state = 'waiting' OR state = 'running' AND lease_until < {now}) ORDER BY number LIMIT 1"
        )
        with self.database.read() as connection:  # who looks every second keeps no writer out
            if connection.execute(due, kinds).fetchone() is None:
                return None
        with self.write("queue") as connection:
            row = connection.execute(
                f"UPDATE jobs SET state = 'running', owner = ?, attempts = attempts + 1, lease_until = {now} + ?"
                f" WHERE id = ({due}) RETURNING {_COLUMNS}, data",
                (owner, self.lease, *kinds),
            ).fetchone()
            if row is None:
                return None
            *fields, data = row
            job = _job(fields)
            if job.attempts > self._most_attempts:
                _end(self.database, connection, job.id, JobState.FAILED, f"no worker ended it in {self._most_attempts}")
                return None
        return ClaimedJob(self, job, owner, bytes(data))

    def write(self, name: str) -> AbstractContextManager[Connection]:
        """Open a block that writes to the job *name*, or to the "queue"."""
        return self.database.write(lock=f"\0jobs {name}")


class ClaimedJob:
    """Job that a worker has, with its *data*. After its lease has passed, every call raises ``JobLost``."""

    def __init__(self, jobs: Jobs, job: Job, owner: str, data: bytes) -> None:
        self.job, self.data = job, data
        self._jobs, self._owner = jobs, owner

    def step(self, name: str, work: Callable[[], T]) -> T:
        """Run *work*, which writes to this database, unless a former worker did; return what it returned, a JSON value.

        Its writes and the record are one transaction, so they are there once, whoever is killed when.
        """
        with self._mine() as connection:
            if (done := self._recorded(connection, name)) is not None:
                return json.loads(done)  # type: ignore[no-any-return]  # what work returned
            value = work()
            self._record(connection, name, json.dumps(value))
            return value

    def recorded(self, name: str) -> Any:
        """Return what a step returned that has ended; None where it has not."""
        with self._jobs.database.read() as connection:
            done = self._recorded(connection, name)
        return None if done is None else json.loads(done)

    def begin(self, name: str) -> bool:
        """Record that a step begins whose effects are elsewhere; False: it was begun before, and may have been done."""
        with self._mine() as connection:
            query = "SELECT 1 FROM job_steps WHERE job = ? AND name = ?"
            if connection.execute(query, (self.job.id, name)).fetchone() is not None:
                return False
            self._record(connection, name, None)
        return True

    def end(self, name: str, value: Any) -> None:
        """Record what a step returned that was begun."""
        with self._mine() as connection:
            self._record(connection, name, json.dumps(value))

    def renew(self, progress: str | None = None) -> None:
        """Have the job for another lease from now; *progress* is shown to whoever asks."""
        with self._mine() as connection:
            if progress is not None:
                connection.execute("UPDATE jobs SET progress = ? WHERE id = ?", (progress, self.job.id))

    def finish(self) -> None:
        """End the job as done; inside a ``write()`` of the database it is part of that."""
        self._end(JobState.DONE, "")

    def fail(self, error: str) -> None:
        """End the job as failed."""
        self._end(JobState.FAILED, error)

    def release(self) -> None:
        """Give the job back, to be begun again by whoever claims it; the attempt does not count."""
        with self._mine() as connection:
            query = (
                "UPDATE jobs SET state = 'waiting', owner = '', lease_until = 0, attempts = attempts - 1 WHERE id = ?"
            )
            connection.execute(query, (self.job.id,))

    def _end(self, state: JobState, error: str) -> None:
        with self._mine() as connection:
            _end(self._jobs.database, connection, self.job.id, state, error)

    @contextmanager
    def _mine(self) -> Iterator[Connection]:
        """Open a block of one transaction in which the job is this worker's; its lease begins anew."""
        id = self.job.id
        with self._jobs.write(id) as connection:
            now = connection.dialect.now
            mine = connection.execute(
                f"""
                UPDATE jobs SET lease_until = {now} + ?
                WHERE id = ? AND owner = ? AND attempts = ? AND state = 'running' AND lease_until >= {now} RETURNING id
                """,
                (self._jobs.lease, id, self._owner, self.job.attempts),
            ).fetchone()
            if mine is None:
                raise JobLost(f"job {id} is not this worker's any more")
            yield connection

    def _recorded(self, connection: Connection, name: str) -> str | None:
        query = "SELECT value FROM job_steps WHERE job = ? AND name = ?"
        row = connection.execute(query, (self.job.id, name)).fetchone()
        return None if row is None else row[0]

    def _record(self, connection: Connection, name: str, value: str | None) -> None:
        query = "INSERT INTO job_steps (job, name, value) VALUES (?, ?, ?) ON CONFLICT (job, name) DO UPDATE SET"
        connection.execute(f"{query} value = excluded.value", (self.job.id, name, value))


def _end(database: Database, connection: Connection, id: str, state: JobState, error: str) -> None:
    query = "UPDATE jobs SET state = ?, error = ?, payload = '{}', data = ?, owner = '' WHERE id = ?"
    connection.execute(query, (state, error, b"", id))
    connection.execute("DELETE FROM job_steps WHERE job = ?", (id,))
    database.mark_erasure(connection)


def _job(row: Sequence[Any]) -> Job:
    id, kind, key, payload, state, attempts, progress, error = row
    return Job(id, kind, key, json.loads(payload), JobState(state), attempts, progress, error)
