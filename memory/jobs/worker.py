"""Worker of jobs: claims one after the other, runs its handler, and keeps its lease meanwhile."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

from tellback.memory.errors import ArgumentError
from tellback.memory.jobs.queue import ClaimedJob, JobLost, Jobs
from tellback.memory.runtime import run_in_thread
from tellback.vectorstore import BusyError, ServerUnavailable

JobHandler: TypeAlias = Callable[[ClaimedJob], Awaitable[None]]
"""Function that does the work of a job; it may be run again from its beginning, by another worker."""

_LEASE_PARTS: Final = 3
_PASSING: Final = (OSError, BusyError, ServerUnavailable)
_log = logging.getLogger(__name__)


class JobWorker:
    """Runs *jobs* by the *handlers* of their kinds, one at a time; it looks for new ones every *pause* seconds.

    A handler that raises has failed its job, unless *retries* says that the error may pass: then it is begun again,
    within the attempts that the queue allows.
    """

    def __init__(
        self,
        jobs: Jobs,
        handlers: Mapping[str, JobHandler],
        *,
        pause: float = 1.0,
        retries: Callable[[Exception], bool] = lambda error: isinstance(error, _PASSING),
    ) -> None:
        if not handlers:
            raise ArgumentError("handlers", handlers, "a function for at least one kind of jobs is needed")
        self._jobs, self._handlers, self._pause, self._retries = jobs, dict(handlers), pause, retries
        self._awake = asyncio.Event()
        self.name = f"{socket.gethostname()}/{os.getpid()}/{id(self):x}"

    async def run(self) -> None:
        """Work until it is cancelled. A job in the middle is given back."""
        while True:
            try:
                worked = await self.run_one()
            except _PASSING as error:  # the server is away: it is asked again
                _log.warning("jobs wait: %s", type(error).__name__)
                worked = False
            if not worked:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._awake.wait(), self._pause)
            self._awake.clear()

    def wake(self) -> None:
        """Let ``run`` look for a job at once; in its event loop."""
        self._awake.set()

    async def run_all(self) -> int:
        """Work until no job waits; return how many were run."""
        count = 0
        while await self.run_one():
            count += 1
        return count

    async def run_one(self) -> bool:
        """Run the job that has waited longest; False where none waits."""
        claimed = await run_in_thread(partial(self._jobs.claim, [*self._handlers], self.name))
        if claimed is None:
            return False
        await self._run(claimed)
        return True

    async def _run(self, claimed: ClaimedJob) -> None:
        work = asyncio.ensure_future(self._handlers[claimed.job.kind](claimed))
        renewal = asyncio.create_task(self._renew(claimed, work))
        try:
            await work
            await run_in_thread(claimed.finish)
        except asyncio.CancelledError:
            if (task := asyncio.current_task()) is None or not task.cancelling():
                return  # the job is another's: its work was cancelled by the renewal
            work.cancel()
            await asyncio.wait({work})
            with suppress(JobLost):
                await asyncio.shield(run_in_thread(claimed.release))
            raise
        except JobLost:
            _log.warning("job %s is another worker's by now", claimed.job.id)
        except Exception as error:  # a handler's own: it is the job's end, or is tried again
            _log.warning("job %s (%s) failed: %s", claimed.job.id, claimed.job.kind, type(error).__name__)
            if self._retries(error):
                return  # its lease passes, and the next one tries
            with suppress(JobLost):
                await run_in_thread(partial(claimed.fail, f"{type(error).__name__}: {error}"))
        finally:
            renewal.cancel()

    async def _renew(self, claimed: ClaimedJob, work: asyncio.Future[None]) -> None:
        while True:
            await asyncio.sleep(self._jobs.lease / _LEASE_PARTS)
            try:
                await run_in_thread(claimed.renew)
            except JobLost:
                work.cancel()
                return
            except Exception as error:  # tried again; the lease tells in the end
                _log.warning("the lease of job %s was not renewed: %s", claimed.job.id, type(error).__name__)
