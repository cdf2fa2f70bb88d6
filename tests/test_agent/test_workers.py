"""Workers of a server over one memory: any request to any of them, turns in order, a killed one replaced.

What they count together is in ``tellback.agent.rate_limit``.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx

from tellback.agent.assistant.config import AssistantSettings
from tellback.agent.assistant.server.turns import held_turn
from tellback.agent.assistant.wiring import OpenedMemory
from tellback.agent.rate_limit import SharedRequestLimit
from tellback.memory import open_memory, run_sync
from tellback.memory.jobs import Jobs
from tests.support.postgres import PostgresServer
from tests.support.waiting import wait_until

WORKERS = 3


@contextmanager
def serving(address: str) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    run = (
        "import sys; from tellback.agent.assistant.cli.app import run_command_line as run; sys.exit(run(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", run, "--memory", address, "serve", "--port", "0"]
    environment = {**os.environ, "TELLBACK_TOKEN": "t" * 32, "TELLBACK_EMBEDDER": "none"}
    with subprocess.Popen(
        [*command, "--workers", str(WORKERS)], stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, line
        with httpx.Client(base_url=found[0], headers={"Authorization": "Bearer " + "t" * 32}, timeout=100) as client:
            try:
                yield process, client
            finally:
                process.terminate()
                process.communicate(timeout=30)


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def test_a_worker_that_is_killed_loses_nothing_acknowledged_and_is_replaced(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    kept = []
    with serving(postgres.address(tmp_path)) as (process, client):
        assert wait_until(lambda: len(workers_of(process)) == WORKERS)
        for number in range(24):
            if number % 8 == 4:
                os.kill(workers_of(process)[0], signal.SIGKILL)
            try:
                headers = {"Connection": "close"}  # each request to whichever worker takes it
                client.post("/api/v1/memories", json={"text": f"Note {number}."}, headers=headers).raise_for_status()
            except httpx.TransportError:  # it was with the one that was killed
                continue
            kept.append(f"Note {number}.")
        assert wait_until(lambda: len(workers_of(process)) == WORKERS)
        shown = client.get("/api/v1/memories", params={"limit": 100}).json()
        listed = [item["text"] for item in shown["memories"]]
    assert len(kept) >= 21
    assert set(kept) <= set(listed)
    assert len(set(listed)) == len(listed)
    assert process.returncode == 0


def test_an_upload_whose_worker_is_killed_in_the_middle_is_read_by_another_once(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    address = postgres.address(tmp_path)
    memory = open_memory(address, choose_local=False)
    jobs = Jobs(memory.database)
    text = "\n\n".join(f"# Bridge {number}\n\nBridge {number} was opened in 19{number}." for number in range(30, 60))
    with serving(address) as (process, client):
        assert wait_until(lambda: len(workers_of(process)) == WORKERS)
        client.headers["Connection"] = "close"  # each request to a worker that is there
        client.post("/api/v1/documents", files={"files": ("first.md", b"# First")}).raise_for_status()
        (collection,) = memory.store.namespaces()
        with memory.database.write(lock=collection), ThreadPoolExecutor(1) as pool:  # the reading waits for its turn
            files, headers = {"files": ("bridges.md", text.encode())}, {"Prefer": "respond-async"}
            (job,) = client.post("/api/v1/documents", files=files, headers=headers).json()
            assert pool.submit(wait_until, lambda: owner_of(jobs, job["id"])).result()
            os.kill(int(pool.submit(owner_of, jobs, job["id"]).result().split("/")[1]), signal.SIGKILL)
            pool.submit(let_lease_pass, jobs, job["id"]).result()
        assert wait_until(lambda: client.get(f"/api/v1/jobs/{job['id']}").json()["state"] == "done")
        assert client.get(f"/api/v1/jobs/{job['id']}").json()["attempts"] == 2
        chunks = {document["source"]: document["chunks"] for document in client.get("/api/v1/documents").json()}
        assert chunks["bridges.md"] == 30
        assert memory.store.count(namespace=collection) == sum(chunks.values())
    run_sync(memory.close())


def owner_of(jobs: Jobs, id: str) -> str:
    with jobs.database.read() as connection:
        (owner,) = connection.execute("SELECT owner FROM jobs WHERE id = ?", (id,)).fetchone()
    return str(owner)


def let_lease_pass(jobs: Jobs, id: str) -> None:
    with jobs.database.write(lock="lease") as connection:
        connection.execute("UPDATE jobs SET lease_until = 0 WHERE id = ?", (id,))


def test_workers_end_when_the_process_that_began_them_is_killed(postgres: PostgresServer, tmp_path: Path) -> None:
    with serving(postgres.address(tmp_path)) as (process, _):
        assert wait_until(lambda: len(workers_of(process)) == WORKERS)
        workers = workers_of(process)
        process.kill()
        assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


def test_requests_a_minute_are_counted_over_all_workers() -> None:
    limit = SharedRequestLimit(clock=lambda: 100.0)
    pids = []
    for _ in range(3):
        if (pid := os.fork()) == 0:
            os._exit(sum(limit.wait("ana", 40) == 0 for _ in range(30)))
        pids.append(pid)
    allowed = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert sum(allowed) == 40, allowed
    assert limit.wait("ana", 40) > 0
    assert limit.wait("ben", 40) == 0


def test_turns_of_one_session_wait_for_each_other_in_all_workers(postgres: PostgresServer, tmp_path: Path) -> None:
    memories = [open_memory(postgres.address(tmp_path), choose_local=False) for _ in range(2)]
    one, two = (OpenedMemory(AssistantSettings(memory="postgresql://"), memory) for memory in memories)
    order: list[str] = []

    async def turn(worker: OpenedMemory, session: str, name: str, *events: asyncio.Event) -> None:
        async with held_turn(worker, session):
            order.append(name)
            if events:
                events[0].set()
                await events[1].wait()

    async def turns() -> None:
        begun, ends = asyncio.Event(), asyncio.Event()
        first = asyncio.create_task(turn(one, "s", "first", begun, ends))
        await begun.wait()
        second, gone = (asyncio.create_task(turn(two, "s", name)) for name in ("second", "gone"))
        await turn(two, "other", "other")
        gone.cancel()
        await asyncio.wait({gone})
        assert order == ["first", "other"]
        ends.set()
        await asyncio.gather(first, second)
        await turn(one, "s", "last")

    run_sync(turns())
    assert order == ["first", "other", "second", "last"]
    for memory in memories:
        run_sync(memory.close())
