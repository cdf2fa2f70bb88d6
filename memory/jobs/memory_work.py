"""Work of a memory that may be a job: vectors that wait, another embedder's vectors, documents that were uploaded."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from tellback.memory.documents.ingest_report import IngestAction
from tellback.memory.documents.knowledge_base import KnowledgeBase
from tellback.memory.errors import LoadError
from tellback.memory.jobs.queue import ClaimedJob
from tellback.memory.jobs.worker import JobHandler
from tellback.memory.long_term import LongTermMemory
from tellback.memory.runtime import run_in_thread

BACKFILL: Final = "backfill"
REEMBED: Final = "reembed"
INGEST: Final = "ingest"


def memory_handlers(memory: LongTermMemory) -> Mapping[str, JobHandler]:
    """Return the handlers of the jobs of *memory*; each does what is left to do, however often it is begun.

    - "backfill" embeds what was kept while the embedder failed (``flush``),
    - "reembed" gives everything vectors of the memory's embedder,
    - "ingest" reads the job's data into a collection: *source*, *collection* and *namespace* are in its payload.
    """

    async def backfill(claimed: ClaimedJob) -> None:
        await memory.flush()

    async def reembed(claimed: ClaimedJob) -> None:
        await memory.reembed()

    async def ingest(claimed: ClaimedJob) -> None:
        given = claimed.job.payload
        knowledge = KnowledgeBase(memory, collection=given["collection"], namespace=given["namespace"])
        (line,) = (await knowledge.ingest_text(claimed.data, source=given["source"])).lines
        if line.action == IngestAction.FAILED:
            raise LoadError("the upload", line.reason)  # its name goes with the job's data
        await run_in_thread(partial(claimed.renew, f"{line.action}, chunks: {line.chunks}"))

    return {BACKFILL: backfill, REEMBED: reembed, INGEST: ingest}
