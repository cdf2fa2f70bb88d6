"""Jobs in each home: done once, by whoever is left, and told when they may have been done."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tellback.memory import ArgumentError, HashingEmbedder, KnowledgeBase, LongTermMemory, open_memory, run_sync
from tellback.memory.jobs import ClaimedJob, JobLost, Jobs, JobState, JobWorker, memory_handlers
from tellback.vectorstore import Database, TableComponent
from tests.support.homes import SERVER_HOME
from tests.support.postgres import PostgresServer


def m001_effects(connection: Any) -> None:
    connection.execute("CREATE TABLE effects (text TEXT NOT NULL) STRICT")


EFFECTS = TableComponent("effects", (m001_effects,), ("effects",))


def effect(database: Database, text: str) -> Callable[[], str]:
    def write() -> str:
        with database.write() as connection:
            connection.execute("INSERT INTO effects (text) VALUES (?)", (text,))
        return f"wrote {text}"

    return write


def effects(database: Database) -> list[str]:
    with database.read() as connection:
        return [text for (text,) in connection.execute("SELECT text FROM effects ORDER BY text")]


def outlive(jobs: Jobs, claimed: ClaimedJob) -> None:
    """Let the lease of a claimed job pass."""
    with jobs.database.write() as connection:
        connection.execute("UPDATE jobs SET lease_until = 0 WHERE id = ?", (claimed.job.id,))


@pytest.fixture
def jobs(database: Database) -> Jobs:
    database.attach(EFFECTS)
    return Jobs(database)


def claimed_by(jobs: Jobs, owner: str) -> ClaimedJob:
    claimed = jobs.claim(["k"], owner)
    assert claimed is not None
    return claimed


def test_a_job_is_claimed_by_one_worker_in_the_order_of_submission(jobs: Jobs) -> None:
    ids = [jobs.submit("k", {"number": number}, data=bytes([number])).id for number in range(3)]
    jobs.submit("other")
    found = [claimed_by(jobs, f"w{number}") for number in range(3)]
    assert [(claimed.job.id, claimed.job.payload, claimed.data) for claimed in found] == [
        (id, {"number": number}, bytes([number])) for number, id in enumerate(ids)
    ]
    assert jobs.claim(["k"], "w4") is None
    found[0].finish()
    found[1].fail("no")
    states = {job.id: (job.state, job.payload, job.error) for job in jobs.list() if job.kind == "k"}
    assert [states[id] for id in ids] == [("done", {}, ""), ("failed", {}, "no"), ("running", {"number": 2}, "")]
    assert [job.id for job in jobs.list(state="done")] == ids[:1]


def test_the_steps_of_a_job_whose_worker_was_killed_are_not_done_again(jobs: Jobs) -> None:
    jobs.submit("k")
    first = claimed_by(jobs, "a")
    assert first.step("1", effect(jobs.database, "one")) == "wrote one"
    assert first.begin("2")
    assert jobs.claim(["k"], "b") is None
    outlive(jobs, first)
    second = claimed_by(jobs, "b")
    assert second.step("1", effect(jobs.database, "one")) == "wrote one"
    assert not second.begin("2"), "it may have been done, and whoever goes on is told"
    second.end("2", {"answer": 42})
    assert second.recorded("2") == {"answer": 42}
    assert effects(jobs.database) == ["one"]
    for call in (first.finish, first.renew, lambda: first.step("3", effect(jobs.database, "three"))):
        with pytest.raises(JobLost):
            call()
    second.finish()
    assert effects(jobs.database) == ["one"]
    with jobs.database.read() as connection:
        assert connection.execute("SELECT count(*) FROM job_steps").fetchone() == (0,)


def test_a_worker_that_slept_through_its_lease_records_nothing_even_where_nobody_took_the_job(jobs: Jobs) -> None:
    jobs.submit("k")
    claimed = claimed_by(jobs, "a")
    outlive(jobs, claimed)
    with pytest.raises(JobLost):
        claimed.step("1", effect(jobs.database, "one"))
    assert effects(jobs.database) == []


def test_a_step_that_fails_leaves_neither_its_effect_nor_its_record(jobs: Jobs) -> None:
    jobs.submit("k")
    claimed = claimed_by(jobs, "a")

    def work() -> None:
        effect(jobs.database, "half")()
        raise ValueError

    with pytest.raises(ValueError):
        claimed.step("1", work)
    assert effects(jobs.database) == []
    assert claimed.step("1", effect(jobs.database, "whole")) == "wrote whole"


def test_a_key_names_one_job_until_it_has_ended(jobs: Jobs) -> None:
    first = jobs.submit("k", {"a": 1}, key="nightly")
    assert jobs.submit("k", {"a": 2}, key="nightly") == first
    claimed_by(jobs, "a").finish()
    again = jobs.submit("k", {"a": 3}, key="nightly")
    assert (again.id, again.state, again.payload) == (first.id, JobState.WAITING, {"a": 3})


def test_a_cancelled_job_is_lost_to_its_worker(jobs: Jobs) -> None:
    id = jobs.submit("k").id
    claimed = claimed_by(jobs, "a")
    assert jobs.cancel(id)
    assert not jobs.cancel(id)
    with pytest.raises(JobLost):
        claimed.finish()
    job = jobs.get(id)
    assert job is not None
    assert (job.state, job.error) == ("failed", "cancelled")


def test_a_job_that_kills_its_workers_fails_in_the_end(database: Database) -> None:
    jobs = Jobs(database, most_attempts=2)
    id = jobs.submit("k").id
    for owner in "ab":
        outlive(jobs, claimed_by(jobs, owner))
    assert jobs.claim(["k"], "c") is None
    job = jobs.get(id)
    assert job is not None
    assert job.state == "failed"


@pytest.mark.parametrize(
    "call",
    [
        lambda database: Jobs(database, lease=0),
        lambda database: Jobs(database, most_attempts=0),
        lambda database: Jobs(database).submit(""),
        lambda database: Jobs(database).submit("k", {"a": object()}),
        lambda database: Jobs(database).list(state="over"),
        lambda database: JobWorker(Jobs(database), {}),
    ],
)
def test_what_no_job_can_be_is_refused(call: Callable[[Database], object], database: Database) -> None:
    with pytest.raises(ArgumentError):
        call(database)


def test_a_worker_fails_a_job_whose_handler_raises_and_tries_one_again_that_may_pass(jobs: Jobs) -> None:
    seen: list[str] = []

    async def handle(claimed: ClaimedJob) -> None:
        seen.append(str(claimed.job.payload["what"]))
        if claimed.job.payload["what"] == "bug":
            raise KeyError("bug")
        if len(seen) < 3:
            outlive(jobs, claimed)
            raise ConnectionError

    for what in ("bug", "away"):
        jobs.submit("k", {"what": what})
    worker = JobWorker(jobs, {"k": handle})
    assert run_sync(worker.run_all()) == 3
    assert seen == ["bug", "away", "away"]
    assert sorted((job.state, job.attempts, job.error) for job in jobs.list()) == [
        ("done", 2, ""),
        ("failed", 1, "KeyError: 'bug'"),
    ]


@pytest.mark.slow
def test_a_worker_keeps_the_lease_of_long_work_and_gives_back_what_it_cannot_end(database: Database) -> None:
    jobs = Jobs(database, lease=0.6)
    jobs.submit("k")
    others: list[ClaimedJob | None] = []

    async def work() -> None:
        begun = asyncio.Event()

        async def handle(claimed: ClaimedJob) -> None:
            begun.set()
            await asyncio.sleep(60)

        working = asyncio.create_task(JobWorker(jobs, {"k": handle}).run())
        await begun.wait()
        await asyncio.sleep(1.5)
        others.append(await asyncio.to_thread(jobs.claim, ["k"], "other"))
        working.cancel()
        await asyncio.wait({working})

    run_sync(work())
    assert others == [None]
    assert claimed_by(jobs, "next").job.attempts == 1


@pytest.fixture(params=["file", SERVER_HOME])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return str(tmp_path / "m.db")
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.address(tmp_path)


KILLED = """
    import os, signal, sys
    from tellback.memory import HashingEmbedder, open_memory, run_sync
    from tellback.memory.jobs import Jobs, JobWorker
    memory = open_memory(sys.argv[1], embedder=HashingEmbedder())
    jobs = Jobs(memory.database, lease=1.0)
    async def handle(claimed):
        for number in range(30):
            def work():
                with memory.database.write() as connection:
                    text = f"{claimed.job.payload['name']}-{number:02}"
                    connection.execute("INSERT INTO effects (text) VALUES (?)", (text,))
            claimed.step(f"{number}", work)
    print("ready", flush=True)
    run_sync(JobWorker(jobs, {"k": handle}, pause=0.05).run())
"""


@pytest.mark.slow
def test_workers_that_are_killed_at_any_moment_do_each_step_once(address: str) -> None:
    memory = open_memory(address, embedder=HashingEmbedder())
    memory.database.attach(EFFECTS)
    jobs = Jobs(memory.database)
    for name in "abcd":
        jobs.submit("k", {"name": name})
    command = [sys.executable, "-c", textwrap.dedent(KILLED), address]

    def begun() -> subprocess.Popen[str]:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path.cwd())
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    workers = [begun(), begun()]
    done = threading.Event()
    for round_number in range(3):
        done.wait(0.05 + 0.07 * round_number)
        victim = workers.pop(0)
        victim.send_signal(signal.SIGKILL)
        with victim:
            pass
        workers.append(begun())
    for _ in range(600):
        if all(job.state == "done" for job in jobs.list()):
            break
        done.wait(0.1)
    for worker in workers:
        worker.kill()
        with worker:
            pass
    assert [job.state for job in jobs.list()] == ["done"] * 4
    assert effects(memory.database) == [f"{name}-{number:02}" for name in "abcd" for number in range(30)]
    run_sync(memory.close())


@pytest.fixture
def memory(address: str) -> Iterator[LongTermMemory]:
    opened = open_memory(address, embedder=HashingEmbedder())
    yield opened
    run_sync(opened.close())


def test_an_upload_waits_as_a_job_and_can_be_found_once_it_is_done(memory: LongTermMemory) -> None:
    jobs = Jobs(memory.database)
    given = {"collection": "default", "namespace": "", "source": "library.md"}
    id = jobs.submit("ingest", given, data=b"# Library\n\nThe library closes at seven.").id
    jobs.submit("backfill")
    worker = JobWorker(jobs, memory_handlers(memory))
    assert run_sync(worker.run_all()) == 2
    job = jobs.get(id)
    assert job is not None
    assert job.state == "done"
    knowledge = KnowledgeBase(memory)
    (passage,) = run_sync(knowledge.retrieve("When does the library close?"))
    assert "seven" in passage.text
    jobs.submit("ingest", given, data=b"# Library\n\nThe library closes at seven.")
    run_sync(worker.run_all())
    assert run_sync(knowledge.retrieve("When does the library close?"))[0].id == passage.id
    with memory.database.read() as connection:
        assert connection.execute("SELECT count(*) FROM jobs WHERE data <> ?", (b"",)).fetchone() == (0,)
