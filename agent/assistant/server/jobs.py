"""Uploads that nobody waits for: kept as jobs in the memory's database, and read in by whichever process serves it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Annotated, Final
from urllib.parse import quote
from uuid import uuid4

from fastapi import APIRouter, Depends, HTTPException, Query, Request

from tellback.agent.assistant.server.accounts import memory_of_caller
from tellback.agent.assistant.server.open_memory import ServedMemory
from tellback.agent.assistant.wiring import OpenedMemory
from tellback.agent.desk.results import Result
from tellback.memory.jobs import INGEST, Job, Jobs, JobWorker, memory_handlers

_PAUSE: Final = 5.0
"""Seconds until a server looks for jobs that another one took, or that a killed one left."""


class JobItem(Result):
    """Job; *state* is "waiting", "running", "done" or "failed"; *progress* is what it did, *error* why it failed."""

    id: str
    state: str
    attempts: int
    progress: str
    error: str


class BackgroundJobs:
    """Jobs of the memory that is *served*, and the worker of this process, which runs while ``working`` is open."""

    def __init__(self, served: ServedMemory) -> None:
        self._served = served
        self._worker: JobWorker | None = None

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Open a block in which this process does jobs; one in the middle is given back at its end."""
        work = asyncio.create_task(self._work())
        try:
            yield
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work

    async def submit(self, opened: OpenedMemory, files: Sequence[tuple[str, bytes]], collection: str) -> list[Job]:
        """Keep *files* to be read into a *collection* of the namespace of *opened*, each as a job."""
        jobs = await self._queue(opened)
        kept = []
        for name, data in files:
            opened.knowledge(collection)  # a name that cannot be one is an error of who asks
            payload = {"source": name, "collection": collection, "namespace": opened.namespace}
            submit = partial(jobs.submit, INGEST, payload, data=data, key=_prefix(opened) + uuid4().hex)
            async with opened.desk.taking(documents=1, bytes=len(data)):
                kept.append(await asyncio.to_thread(submit))
        if self._worker is not None:
            self._worker.wake()
        return kept

    async def list(self, opened: OpenedMemory, limit: int) -> Sequence[Job]:
        """Return the jobs of the namespace of *opened*, the newest first."""
        jobs = await self._queue(opened)
        return await asyncio.to_thread(partial(jobs.list, prefix=_prefix(opened), limit=limit))

    async def get(self, opened: OpenedMemory, id: str) -> Job:
        """Return a job of the namespace of *opened*; 404 where there is none."""
        job = await asyncio.to_thread((await self._queue(opened)).get, id)
        if job is None or not job.key.startswith(_prefix(opened)):
            raise HTTPException(404, "there is no such job")
        return job

    async def cancel(self, opened: OpenedMemory, id: str) -> Job:
        """End a job, as failed, unless it has ended; return it."""
        await self.get(opened, id)
        await asyncio.to_thread((await self._queue(opened)).cancel, id)
        return await self.get(opened, id)

    async def _queue(self, opened: OpenedMemory) -> Jobs:
        return await asyncio.to_thread(Jobs, opened.memory.database)

    async def _work(self) -> None:
        opened = await self._served.present()
        self._worker = JobWorker(await self._queue(opened), memory_handlers(opened.memory), pause=_PAUSE)
        await self._worker.run()


def _prefix(opened: OpenedMemory) -> str:
    """Return what the keys of a namespace's uploads begin with."""
    return f"upload {quote(opened.namespace, safe='')} "


async def _own(request: Request) -> OpenedMemory:
    return await memory_of_caller(request, writes=False)


def _jobs_of(request: Request) -> BackgroundJobs:
    jobs: BackgroundJobs = request.app.state.jobs
    return jobs


router = APIRouter()
_Own = Annotated[OpenedMemory, Depends(_own)]
_Jobs = Annotated[BackgroundJobs, Depends(_jobs_of)]


@router.get("/jobs")
async def jobs(opened: _Own, background: _Jobs, limit: Annotated[int, Query(ge=1, le=1_000)] = 100) -> list[JobItem]:
    """List uploads that were not waited for, the newest first."""
    return [JobItem.of(job) for job in await background.list(opened, limit)]


@router.get("/jobs/{id}")
async def job(opened: _Own, background: _Jobs, id: str) -> JobItem:
    """Return the state of one."""
    return JobItem.of(await background.get(opened, id))


@router.delete("/jobs/{id}")
async def cancel_job(opened: _Own, background: _Jobs, id: str) -> JobItem:
    """End one that has not ended; what it has read stays."""
    return JobItem.of(await background.cancel(opened, id))
